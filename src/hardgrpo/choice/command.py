"""`hardgrpo choose`: choose which prompts of a file to annotate or to train on."""

import argparse
import dataclasses
import shlex
import sys
from pathlib import Path

from hardgrpo.choice import choice_plan, choose, page, sampling
from hardgrpo.choice.choice_options import ALIASES, Options
from hardgrpo.choice.choice_plan import Plan
from hardgrpo.choice.choose import Choice
from hardgrpo.choice.recorded_measures import match_completions
from hardgrpo.choice.results import ResultFolder
from hardgrpo.data import row_files, spreadsheets
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError, first_entries, printable
from hardgrpo.runtime.interruption import say
from hardgrpo.selection import trainer_rows

RECORD, PAGE, TABLE = "choice.json", "choice.html", "prompts.csv"


def add_command(commands) -> None:
    parser = commands.add_parser(
        "choose",
        help="choose which prompts of a file to annotate or to train on",
        description="Choose prompts of a file. If the prompts have answers, a model behind a server (--url, --model) is sampled,"
        " and the prompts with pass rates nearest to one half are chosen. Without answers, the choice is random and nothing is sampled:"
        " no way of choosing without answers was shown to beat it.",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "prompts",
        help="Parquet, JSON Lines, JSON, CSV, TSV or text file, folder of save_to_disk, or OWNER/NAME of a dataset of the hub",
    )
    groups = Options.add_to(parser)
    group = groups["the file"]
    group.add_argument("--split", help="split of a dataset")
    group.add_argument("--config", help="configuration of a dataset of the hub")
    group.add_argument("--output", metavar="FOLDER", help="folder of results (default: NAME.choice beside the file)")  # fmt: skip
    group.add_argument("--format", choices=list(trainer_rows.FILES), help="also write the chosen prompts and a reward function for this trainer")  # fmt: skip
    group = groups["a model behind a server"]
    group.add_argument("--dry-run", action="store_true", help="print what would be sent and its cost; send no request")  # fmt: skip
    group.add_argument("--write-batch", metavar="FILE", help="write the requests as an OpenAI batch file, and stop; --completions reads its output")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    fields = {field.name for field in dataclasses.fields(Options)}
    options = Options(**{name: value for name, value in vars(args).items() if name in fields})
    content = row_files.read(args.prompts, args.split, args.config)
    plan = choice_plan.prepare(content, options)
    if args.format and (not plan.is_labelled or not any(p.answer for p in plan.pool.prompts)):
        raise UserError(
            f"--format {args.format}: the prompts have no answers to train on; fill in the answers of the chosen rows, then run this command on that file with --policy all"
        )
    describe(plan)
    if args.write_batch:
        write_batch(plan, args.write_batch)
        return
    plan.check()
    reported = set(plan.pool.notes)
    inputs = [str(Path(args.prompts).absolute()) if Path(args.prompts).exists() else args.prompts]
    inputs += [name for name in (args.config, args.split) if name]
    folder = ResultFolder(result_folder(args), inputs, RECORD)
    names = file_names(plan, args.format)
    folder.check(names)
    if options.url and plan.needs_measure:
        say(f"requests  {sampling.estimate(plan)}")
    if args.dry_run:
        return
    choice = choose.run(plan)
    write_results(choice, folder, names, args.format)
    summarise(choice, folder, names, reported)


def result_folder(args: argparse.Namespace) -> Path:
    if args.output:
        return Path(args.output).absolute()
    path = Path(args.prompts).absolute()
    folder = path.parent if path.exists() else Path.cwd()
    return folder / f"{row_files.stem(path)}.choice"


def file_names(plan: Plan, trainer: str | None) -> list[str]:
    """The names of the results: the chosen rows first. The name of the chosen rows follows from the
    policy, the budget and the seed."""
    options = plan.options
    parts = [plan.policy_name]
    if options.budget:
        is_number = isinstance(options.budget, int)
        parts += [str(options.budget) if is_number else f"{100 * options.budget:g}percent"]
    keys_in_name = {"rule", "budget"} | set(ALIASES.get(options.policy or "", {}))
    parts += [f"{key}{value}" for key, value in plan.policy.items() if key not in keys_in_name]  # fmt: skip
    parts += [f"seed{options.seed}"] if options.seed else []
    parts += [f"first{options.limit}"] if options.limit else []
    stem = "-".join(parts)
    names = [stem + plan.pool.content.ending, PAGE, TABLE]
    if trainer:
        names += [f"{stem}.{trainer}.{trainer_rows.FILES[trainer]}"]
        names += ["reward.py"] if isinstance(plan.grader, str) else []
    return names


def describe(plan: Plan) -> None:
    """Say what is taken from the file, and how it is asked and graded."""
    pool, options = plan.pool, plan.options
    columns, content = pool.columns, pool.content
    say(f"prompts   {content.path}: {len(content.rows)} rows, {content.form}" + (f", layout {columns.layout}" if columns.layout else ""))  # fmt: skip
    used = f"prompt: {' with '.join([columns.question, *columns.further, *columns.options])}"
    used += f"; answer: {columns.answer}" if columns.answer else ""
    unused = first_entries(columns.unused, 12) if columns.unused else "none"
    say(printable(f"columns   {used}; not used: {unused}"))
    answered = sum(prompt.answer is not None for prompt in pool.prompts)
    rows_read = len(content.rows[: options.limit])
    grader = getattr(plan.grader, "name", plan.grader)
    if plan.is_labelled and not options.pass_rate:
        say(f"answers   {answered} of {rows_read} rows are prompts with an answer, grader {grader}")
    elif not plan.is_labelled:
        say(f"answers   missing; {len(pool.prompts)} prompts can be annotated")
    for note in pool.notes:
        say(printable(f"note      {note}"))
    first = pool.prompts[0]
    for message in first.messages:
        lines = message["content"].split("\n")
        for number, line in enumerate(lines):
            say(printable(f"{'first ' + message['role'] if not number else '':<18}| {line}"))
    if first.answer is not None and not options.pass_rate:
        read = graders.GRADERS[grader].normalise(first.answer) if grader in graders.GRADERS else ""
        shown = first.answer if read in ("", first.answer) else f"{first.answer} (read as {read})"
        say(printable(f"{'its answer':<18}| {shown}"))
    if not plan.is_labelled and plan.policy["rule"] == "random" and not options.policy:
        say("random    no way of choosing without answers was shown to beat a random choice, so nothing is sampled;")  # fmt: skip
        say("          to try one: --policy agreement_lowest --url URL --model MODEL")


def write_batch(plan: Plan, path: str) -> None:
    """Write the requests of the completions that --completions lacks."""
    if not plan.options.model:
        raise UserError("--write-batch: name the model with --model")
    if not plan.needs_measure:
        rule = plan.policy["rule"]
        raise UserError(f"--write-batch: policy {rule} needs no completions; name another --policy")
    if Path(path).exists():
        raise UserError(f"{path}: the file exists; name another one with --write-batch")
    have = match_completions(plan)[0] if plan.options.completions else {}
    lines = sampling.batch_requests(plan, have)
    files.write_jsonl(path, lines)
    say(f"batch     {len(lines)} requests of up to {plan.options.samples} completions each: {path}")
    say("          when the service has answered, run this command with --completions OUTPUT instead of --write-batch")  # fmt: skip


def write_results(choice: Choice, folder: ResultFolder, names: list[str], trainer: str | None) -> None:  # fmt: skip
    def write(name: str, path: Path) -> None:
        if name == names[0]:
            indices = [prompt.index for prompt in choice.prompts]
            choice.pool.content.write(path, indices, choice.further_cells())
        elif name == PAGE:
            files.write_text(path, page.render(choice, shlex.join(["hardgrpo", *sys.argv[1:]])))
        elif name == TABLE:
            table = page.prompt_table(choice)
            files.write_text(path, spreadsheets.rows_text(table, spreadsheets.Form()))
        elif name == "reward.py":
            program = trainer_rows.reward_program(trainer, choice.grader, choice.in_reasoning)
            files.write_text(path, program)
        else:
            trainer_rows.write_trainer_rows(path, choice.trainer_rows(trainer))

    folder.write(names, write, page.numbers(choice))


def summarise(choice: Choice, folder: ResultFolder, names: list[str], reported: set[str]) -> None:
    """Print what deserves attention, then the result in seven lines."""
    for remedy in page.remedies(choice):
        if remedy not in reported:
            say(f"attention {printable(remedy)}")
    numbers, rule = page.numbers(choice), choice.policy_name
    say(f"choice    {len(choice.chosen)} of {len(choice.pool.prompts)} prompts")
    say(f"rule      {rule}" + (f", by {choice.samples} completions per prompt" if choice.samples else ""))  # fmt: skip
    own, random = choice.own_share, choice.expected.get("random")
    group = choice.options.group
    mixed = f"expected in {100 * own:.0f} % of the groups of {group}, a random choice: {100 * random:.0f} %" if own is not None and random is not None else "unknown (needs answers, and four or more completions of ten prompts)"  # fmt: skip
    say(f"mixed     {mixed}")
    if lead := page.lead(choice):
        say(f"lead      {lead}")
    say(f"cost      {page.cost(numbers)}")
    say(f"chosen  {folder.folder / names[0]}")
    for name in names[3:]:
        say(f"trainer {folder.folder / name}")
    say(f"page    {folder.folder / PAGE}")
