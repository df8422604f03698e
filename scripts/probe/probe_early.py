"""Sample a pool only as far as a subset needs it: the prompts that full probing would choose, with the same seeds, for fewer samples.

    python scripts/probe/probe_early.py --model results/models/tiny --problems results/tasks/swaps/train.jsonl --prompt '{question}' \\
        --grader final_word --samples 10 --completion-tokens 64 --seed 1 --stop-for '[{"rule": "hard", "budget": 0.1, "seed": 0}]' \\
        --output results/probe/tiny/swaps/stopped.jsonl.gz

Each (prompt, sample) has the seed that probe.py gives it, and a prompt's samples come in their order, so that these are the first of the
completions of full probing. Sampling goes in batches; after each the completions are graded and the next samples are those that the
proof of the subset needs most (src/hardgrpo/selection/early_stopping.py). What has certainly been chosen then gets the rest of its samples. Several
subsets may be asked for: it goes on until all are decided. It is one job for the whole pool, because what a prompt needs depends on all
others.

Every finished batch is kept in a folder under --state whose name ends in a checksum of what decides a completion (model, problems,
prompt, seed, token limit, engine, chat). It stays: a run that was killed goes on from there, and one for another budget, seed of ties,
confidence, grader or K samples only what is missing. The output holds all that is kept of the pool, also what this subset did not need:
it is paid for, and narrows the bounds.
"""

import argparse
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files, provenance, states, warm
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import programs
from hardgrpo.selection import difficulty, early_stopping


def main() -> None:
    parser = programs.parser(__doc__)
    parser.add_argument("--grader", required=True, help=", ".join(graders.GRADERS))
    parser.add_argument("--difficulty", default="pass_rate", choices=["pass_rate", "agreement"])
    parser.add_argument("--stop-for", required=True, type=json.loads, help="policies with the seed of their ties, as a JSON list")
    parser.add_argument(
        "--confidence", type=float, default=1.0, help="1: exactly the subset of full probing; below, see the schema of `stop`"
    )
    parser.add_argument("--batch", type=int, help="completions sampled at once; without it a 64th of full probing, from 16 to 256")
    parser.add_argument("--state", default="results/state", help="folder in which completions are kept for later probes")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    started = time.time()

    if args.samples < 1 or not 0.5 < args.confidence <= 1 or (args.batch or 1) < 1:
        raise errors.UserError(
            "expected --samples and --batch of at least 1, and --confidence above 0.5, up to 1; correct the command"
        )
    graders.check_grader(args.grader)
    by_reference = args.difficulty == "pass_rate"
    problems = tasks.read_problems(args.problems, needs_answer=by_reference)
    if by_reference:  # what is left out of the pool afterwards must not count here
        problems = tasks.read_by_grader(problems, args.grader, args.problems)
    wants = read_wants(args.stop_for, [problem["id"] for problem in problems], args.samples)
    engines = programs.start(args)
    provenance.check_manifest(args.model)
    full = len(problems) * args.samples
    batch = args.batch or min(256, max(16, full // 64))
    stopper = early_stopping.Stopper(wants, batch, args.confidence, in_full=True)
    requests = [programs.request("probe", args, problem, sample) for problem in problems for sample in range(args.samples)]
    measure = difficulty.measure if by_reference else difficulty.measure_agreement
    found: list[list[dict]] = [[] for _ in problems]  # rows of each problem's completions, in their order

    def take(rows: list[dict]) -> None:
        """Grade a batch and tell what it shows."""
        touched = set()
        for row in rows:
            place = numbers[row["id"]]
            found[place].append(row)
            touched.add(place)
        for place in touched:
            counted = measure(problems[place], found[place], args.grader)
            stopper.tell(place, counted["correct"], len(found[place]))

    numbers = {problem["id"]: place for place, problem in enumerate(problems)}
    asked: list[list[tuple[int, int]]] = []

    def parts() -> Iterator[list[int]]:
        while batch := stopper.next():
            # By prompt and sample, which is the order that a prompt's rows must come in.
            asked.append(sorted(batch))
            yield [place * args.samples + sample for place, sample in asked[-1]]

    folder, tokens = store_of(args), 0
    with states.locked(folder, doing="is sampling into this folder"):
        store = Store(folder / "completions.jsonl")
        for rows in store.batches():
            take([row for row in rows if row["id"] in numbers and row["sample"] < args.samples])
        resumed = sum(map(len, found))
        with Progress(f"probe {args.output}, at most", full, "completions", start=resumed) as progress:
            remaining = parts()
            first = next(remaining, None)  # nothing is started where the store has all
            if first is not None:
                for answers in engines.sample(
                    args.engine, args.model, requests, args.completion_tokens, args.chat, parts=chain(first, remaining),
                    gpus=args.gpus, batch=batch, done=lambda count, _: progress.advance(count), ready=progress.ready,
                ):  # fmt: skip
                    rows = [
                        programs.probe_row(problems[place], sample, requests[place * args.samples + sample], completion)
                        for (place, sample), completion in zip(asked[-1], answers)
                    ]
                    store.add(rows)
                    take(rows)
                    tokens += sum(completion.tokens for completion in answers)
    used = sum(map(len, found))
    print(
        f"{args.output}: decided, {used} of {full} completions ({used / full:.1%}), in batches of {batch}; {resumed} were in {folder},"
        " which keeps all of them for a probe of another subset",
        flush=True,
    )
    files.write_jsonl(args.output, (row for rows in found for row in rows))
    if args.provenance:
        facts = provenance.of_sampling(started, args.engine, args.gpus, used - resumed, tokens, progress.seconds)
        facts |= {"stopped_early": {"completions": used, "of": full, "batch": batch, "confidence": args.confidence}}
        files.write_text(args.provenance, json.dumps(facts | ({"resumed_from": resumed} if resumed else {}), indent=1) + "\n")


def chain(first: list[int], others: Iterator[list[int]]) -> Iterator[list[int]]:
    yield first
    yield from others


def read_wants(stop_for, ids: list[str], samples: int) -> list[early_stopping.Wanted]:
    """The subsets of --stop-for."""
    entries = stop_for if isinstance(stop_for, list) else []
    if not entries or not all(isinstance(entry, dict) and {"rule", "seed"} <= set(entry) for entry in entries):
        raise errors.UserError('--stop-for: expected a JSON list like [{"rule": "hard", "budget": 0.1, "seed": 0}]')
    return [
        early_stopping.wanted(ids, samples, {key: value for key, value in entry.items() if key != "seed"}, entry["seed"])
        for entry in entries
    ]


def store_of(args: argparse.Namespace) -> Path:
    """The folder for all probes that sample the same completion for a (problem, sample)."""
    facts = {name: getattr(args, name) for name in ("prompt", "completion_tokens", "seed", "engine", "chat")}
    facts |= {"problems": files.sha256(args.problems), "model": files.sha256(Path(args.model) / "manifest.json")}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return Path(args.state) / f"probe-{Path(args.model).name}-{Path(args.problems).parent.name}-{key[:16]}"


class Store:
    """Completions in a file, a batch a line, of each problem the first few samples in their order. A line is whole or does not count:
    what to draw next follows from whole batches, so that a killed probe ends as one that was not."""

    def __init__(self, path: Path):
        self.path = path

    def batches(self) -> list[list[dict]]:
        """All batches; what a kill left of another one is cut off."""
        found, size = [], 0
        data = self.path.read_bytes() if self.path.exists() else b""
        for line in data.split(b"\n")[:-1]:
            try:
                found.append(json.loads(line))
            except ValueError:
                break
            size += len(line) + 1
        if size < len(data):
            os.truncate(self.path, size)
        counts: dict[str, int] = {}
        for row in (row for rows in found for row in rows):
            if row["sample"] != counts.setdefault(row["id"], 0):
                raise errors.UserError(
                    f"{self.path}: problem '{row['id']}': expected sample {counts[row['id']]} next, found {row['sample']}; the file was"
                    " changed: remove it and run again"
                )
            counts[row["id"]] += 1
        return found

    def add(self, rows: list[dict]) -> None:
        with open(self.path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(rows) + "\n")
            stream.flush()
            os.fsync(stream.fileno())


if __name__ == "__main__":
    warm.run(main)
