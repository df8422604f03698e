"""What a job that samples from a server costs at most: requests, tokens and money, for the
dry-run."""

from pathlib import Path

from hardgrpo.data import sources
from hardgrpo.planning.durations import PROMPT_TOKENS, Job, known_problems
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling.requests import CHARACTERS_PER_TOKEN, MOST_SAMPLES
from hardgrpo.study import paths, settings


def describe(config: dict, job: Job) -> str:
    """The most that a job sends, samples and costs, in words. Completions that are stored already
    are not subtracted."""
    name = job.task or job.eval_task
    task, split = config["tasks"][name], "train" if job.task else "test"
    shards = task["probe"]["shards"] if job.rule == "probe" else 1
    sampled, greedy = {
        "probe": lambda: (settings.probe_samples(task["probe"]), 0),
        "probe_early": lambda: (task["probe"]["samples"], 0),
        "evaluate_base": lambda: (task["test"]["samples"], int(task["test"]["greedy"])),
        "sample_reach": lambda: (task["test"]["reach"]["samples"], 0),
    }[job.rule]()
    size = pool_size(config, name, split)
    if size is None:
        return f"{sampled + greedy} completions of at most {task['completion_tokens']} tokens for each prompt"
    prompts, tokens = size
    requests_per_prompt = -(-sampled // MOST_SAMPLES) + greedy
    requests = -(-prompts // shards) * requests_per_prompt
    input_tokens = round(tokens * requests_per_prompt / shards)
    output_tokens = -(-prompts // shards) * (sampled + greedy) * task["completion_tokens"]
    price = settings.entry(config, job.model)["source"].get("price")
    money = (
        f", costing at most {(input_tokens * price['input'] + output_tokens * price['output']) / 1e6:.3g}"
        if price
        else ""
    )
    return f"at most {requests:,} requests, about {input_tokens:,} tokens of prompts, {output_tokens:,} sampled tokens{money}"


def pool_size(config: dict, task: str, split: str) -> tuple[int, float] | None:
    """(number of problems of a split, estimated tokens of their prompts); None if the number is
    unknown."""
    template, source = (
        config["tasks"][task]["prompt"].replace("{question}", ""),
        config["tasks"][task]["source"],
    )
    questions = _questions(config, task, split)
    if questions is not None:
        characters = sum(map(len, questions)) + len(template) * len(questions)
        return len(questions), characters / CHARACTERS_PER_TOKEN
    number = known_problems(config, task, split)
    kind = "cpu" if source["kind"] == "generated" else "gpu"
    return None if number is None else (number, number * PROMPT_TOKENS[kind])


def _questions(config: dict, task: str, split: str) -> list[str] | None:
    """The questions of a split that is prepared, or in local files; else None."""
    prepared, source = Path(paths.problems(task, split)), config["tasks"][task]["source"]
    try:
        if prepared.is_file():
            return [row["question"] for row in files.read_jsonl(prepared, {"question": str})]
        if source["kind"] != "files" or split not in source:
            return None
        column = source.get("columns", {}).get("question", "question")
        local_files = [path for path, _ in paths.parts(config, task, split)]
        rows = [row for path in local_files for row in sources.read(path).rows]
    except (UserError, OSError):
        return None  # prepare_task reports what is wrong with the file
    return [str(row[column]) for row in rows if row.get(column)]
