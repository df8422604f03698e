"""Measure how fast this machine plans, grades, samples and trains, and print a table.

    python scripts/maintenance/bench.py                                 # all four (`make bench`)
    python scripts/maintenance/bench.py --only planning grading

Sampling and training use a base model and a run of the finished miniature (`make demo`). Each value
is the median of --repeats measurements. All times but those of updates are processor times, which
depend less on other processes than elapsed times do.
"""

from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import environments, errors, files
from hardgrpo.sampling.requests import Request, sample_seed
from hardgrpo.study.spec import Spec

import glob
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAINER = Path(__file__).parents[1] / "training/train_grpo.py"
RUN_OF_THE_DEMO = "results/training/*/*/mini/hard/seed*/spec.yaml"
# (completion, reference answer) as in GSM8K
GRADED = [
    (r"Natalia sold 48 / 2 = 24 clips in May and 48 + 24 = \boxed{72} clips.", "72"),
    (r"She earns 12 / 60 = $0.2 a minute, so she earned 0.2 * 50 = $10.00. \boxed{\$10.00}", "10"),
    ("In all, he wrote 3 * 2 * 2 * 52 = 1,248 pages.", "624"),
]
BATCH, SAMPLES, UPDATES = 128, 4, 10


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(BENCHMARKS),
        default=list(BENCHMARKS),
        metavar="NAME",
        help=f"what to measure (default: all): {', '.join(BENCHMARKS)}",
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="measurements of each value (default: %(default)s)"
    )
    args = parser.parse_args()
    for name in args.only:
        measure, unit = BENCHMARKS[name]
        value = statistics.median(measure() for _ in range(args.repeats))
        print(f"{name:<10}{value:>12,.4g} {unit}", flush=True)


def planning_seconds() -> float:
    """Processor seconds of the dry-run of study `paper`."""
    arguments = ["-n", "--quiet", "all", "--profile", "laptop", "--config", "study=paper"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run("-m", "snakemake", *arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def graded_per_second() -> float:
    """Completions that are graded in a processor second."""
    rounds, started = 10_000, time.process_time()
    for _ in range(rounds):
        for completion, answer in GRADED:
            graders.grade("number_lenient", completion, answer)
    return rounds * len(GRADED) / (time.process_time() - started)


def tokens_per_second() -> float:
    """Tokens that transformers samples on the CPU in a processor second."""
    from hardgrpo.sampling import engines

    spec = read_spec()
    engines.configure_torch()
    tokenizer = engines.load_tokenizer(spec.model_folder)
    model = engines.load(spec.model_folder)
    model.generation_config.eos_token_id = engines.end_tokens(spec.model_folder, tokenizer)
    requests = [
        Request(
            tuple(tasks.messages(spec.prompt, problem["question"])),
            sample_seed("bench", problem["id"], sample),
            1.0,
        )
        for problem in tasks.read_problems(spec.problems)[:BATCH]
        for sample in range(SAMPLES)
    ]
    prompts = engines.tokenize(tokenizer, requests, spec.chat)
    started = time.process_time()
    completions = engines.generate(
        model, tokenizer, prompts, requests, spec.completion_tokens, BATCH
    )
    return sum(completion.tokens for completion in completions) / (time.process_time() - started)


def update_seconds() -> float:
    """Mean seconds of an update, without the first."""
    spec = read_spec()
    spec.training.update(updates=UPDATES, checkpoint_every=UPDATES)
    with tempfile.TemporaryDirectory(prefix="hardgrpo-bench-") as folder:
        spec.write(f"{folder}/spec.yaml")
        outputs = ["--output", f"{folder}/run", "--state", f"{folder}/state"]
        run(str(TRAINER), "--spec", f"{folder}/spec.yaml", *outputs)
        rows = files.read_rows(f"{folder}/run/timing.csv", {"step": int, "seconds": float})
    return statistics.mean(row["seconds"] for row in rows[1:])


BENCHMARKS = {
    "planning": (planning_seconds, "processor s"),
    "grading": (graded_per_second, "completions/s"),
    "sampling": (tokens_per_second, "tokens/s"),
    "training": (update_seconds, "s per update"),
}


def read_spec() -> Spec:
    """The specification of a run of the finished miniature."""
    path = min(glob.glob(RUN_OF_THE_DEMO), default=None)
    if path is None:
        raise errors.UserError(f"{RUN_OF_THE_DEMO} is missing; run `make demo` first")
    return Spec.read(path)


def run(*arguments: str) -> None:
    """Run a Python program with the workflow's environment variables."""
    variables = {"OMP_NUM_THREADS": "1"} | environments.ALLOCATOR
    command = [sys.executable, *arguments]
    subprocess.run(command, env=os.environ | variables, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    errors.run(main)
