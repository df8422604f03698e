"""What a job that samples from a server costs if no request is repeated: requests, tokens and
money, for the dry-run."""

from pathlib import Path

from hardgrpo.data import row_files
from hardgrpo.planning.durations import PROMPT_TOKENS, Job, known_problems
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling.requests import CHARACTERS_PER_TOKEN, MOST_SAMPLES
from hardgrpo.study import paths
from hardgrpo.study.task import Files, Split


def describe(job: Job) -> str:
    """The requests, tokens and money of a job in words, if every completion reaches its limit and
    no request is repeated. The tokens of prompts are estimates; stored completions are not
    subtracted."""
    rule, task = job.rule, job.split.task
    shards = task.probe.shards if rule == "probe" else 1
    sampled, greedy = {
        "probe": lambda: (task.probe.all_samples, 0),
        "probe_early": lambda: (task.probe.samples, 0),
        "evaluate_base": lambda: (task.test.samples, int(task.test.greedy)),
        "sample_reach": lambda: (task.test.reach.samples, 0),
    }[rule]()
    size = split_size(job.split, job.config.data)
    if size is None:
        return f"{sampled + greedy} completions of at most {task.completion_tokens} tokens for each prompt"
    problems, prompt_tokens = size
    prompts = -(-problems // shards)
    requests_per_prompt = -(-sampled // MOST_SAMPLES) + greedy
    input_tokens = round(prompt_tokens * requests_per_prompt / shards)
    output_tokens = prompts * (sampled + greedy) * task.completion_tokens
    text = (
        f"at most {prompts * requests_per_prompt:,} requests if none is repeated, about {input_tokens:,} tokens of prompts,"
        f" {output_tokens:,} sampled tokens"
    )
    if price := job.model.source.price:
        money = (input_tokens * price.input + output_tokens * price.output) / 1e6
        text += f", costing at most {money:.3g} (estimate)"
    return text


def split_size(split: Split, data: str) -> tuple[int, float] | None:
    """(number of problems, estimated tokens of their prompts); None if the number is unknown"""
    template = split.task.prompt.replace("{question}", "")
    number, questions = known_problems(split), _questions(split, data)
    if questions:
        number = len(questions) if number is None else number
        characters = sum(map(len, questions)) / len(questions) + len(template)
        return number, number * characters / CHARACTERS_PER_TOKEN
    kind = "cpu" if split.task.is_generated else "gpu"
    return None if number is None else (number, number * PROMPT_TOKENS[kind])


def _questions(split: Split, data: str) -> list[str] | None:
    """The questions of a split, if it is prepared or its files are local."""
    prepared = Path(paths.problems(split.task_name, split.name))
    try:
        if prepared.is_file():
            return [row["question"] for row in files.read_jsonl(prepared, {"question": str})]
        source = split.task.source
        if not isinstance(source, Files) or getattr(source, split.name) is None:
            return None
        column = split.task.question_column
        local_files = paths.parts(split, data)
        rows = [row for path in local_files for row in row_files.read_file(path).rows]
    except (UserError, OSError):
        return None  # prepare_task reports what is wrong with the file
    return [str(row[column]) for row in rows if row.get(column)]
