"""Train one run with TRL's GRPOTrainer: the model on the chosen prompts, as `spec.yaml` says.

    python scripts/training/train_grpo.py --spec results/training/tiny/swaps/mini/hard/seed0/spec.yaml --output some/folder

Writes checkpoints/step-N/ (Hugging Face folders), updates.csv (one row an update), timing.csv and provenance.json.
While it runs, its state (optimiser, random numbers, log) is kept under --state in a folder named by a hash of the
specification and its inputs. Started again after whatever stopped it, it goes on from the last whole checkpoint there
and ends with the files that an uninterrupted run gives, bit for bit (where vLLM samples the rollouts: with its own random
numbers anew). A finished run removes its state.

On SIGTERM (time limit, preemption, scancel) it finishes the update that it is in, saves its state there, on the schedule of
checkpoints or not, and exits with status 1. A second process on the same run is turned away; with --take-over it asks the first
one to stop like this and goes on from the state that is saved.

With --processes or --gpus above 1 it starts itself again as one process a GPU; where every weight is trained, weights, gradients
and optimiser state are shared out over them (accelerate's FSDP2, what DeepSpeed calls ZeRO-3).
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import environments, errors, files, interruption, provenance, states, warm
from hardgrpo.runtime.interruption import say
from hardgrpo.runtime.progress import Progress
from hardgrpo.training import recipes

UPDATE_COLUMNS = {  # our name: TRL's name in its log
    "prompts": "prompts",
    "rollouts": "rollouts",
    "reward_mean": "reward",
    "learnable_share": "frac_reward_zero_std",
    "correct_share": "correct_share",
    "answered_share": "answered_share",
    "truncated_share": "completions/clipped_ratio",
    "tokens_mean": "completions/mean_length",
    "kl": "kl",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
LAUNCHED = "HARDGRPO_LAUNCHED"  # set for the processes that `launch` starts
# How accelerate is told to share out weights, gradients and optimiser state over the processes (FSDP2, DeepSpeed's ZeRO-3).
FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "FSDP_OFFLOAD_PARAMS": "false",
    "FSDP_ACTIVATION_CHECKPOINTING": "false",  # the trainer's gradient checkpointing does this
}
TRACKERS = {"tensorboard": "tensorboardX", "trackio": "trackio", "wandb": "wandb"}  # and the package each needs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", required=True)
    parser.add_argument("--output", required=True, help="folder to write")
    parser.add_argument("--state", default="results/state", help="folder of the states of unfinished runs")
    environments.add_gpu_arguments(parser)
    parser.add_argument("--processes", type=int, help="one for each GPU unless said otherwise")
    parser.add_argument("--micro-batch", type=int, help="completions that a process takes at once; all of its share without it")
    parser.add_argument("--vllm-memory", type=float, default=0.3, help="share of a GPU's memory for vLLM")
    parser.add_argument("--vllm-sleep", action="store_true", help="vLLM gives its memory back during updates")
    parser.add_argument("--track", default="none", choices=["none", *TRACKERS], help="where training curves go as well")
    parser.add_argument(
        "--take-over", action="store_true", help="ask another process on this run to stop, and go on from its state"
    )
    parser.add_argument("--take-over-minutes", type=float, default=60, help="how long it may take to save (default: %(default)s)")
    parser.add_argument(
        "--keep-finished", action="store_true", help="keep in the state folder what the output can be written from again"
    )
    args = parser.parse_args()

    interruption.watch(quiet=os.environ.get("RANK", "0") != "0")
    started = time.time()
    spec = recipes.read_spec(args.spec)
    args.gpus = environments.granted_gpus(args.gpus)
    hardware = recipes.Hardware(args.gpus, args.processes or max(1, args.gpus), args.micro_batch, args.vllm_memory, args.vllm_sleep)
    environments.use(*recipes.packages(spec.training), gpus=hardware.gpus)
    recipes.check_machine(spec.training, hardware)
    recipes.micro_batches(spec.training["prompts_per_update"] * spec.training["group_size"], hardware)
    environments.check_gpus(hardware.gpus, args.gpu_name, args.gpu_gib)
    if hardware.gpus == 1:  # of several visible ones the trainer would take all, as threads of one process
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    if args.track != "none" and importlib.util.find_spec(TRACKERS[args.track]) is None:
        raise errors.UserError(
            f"track: {args.track} needs the package {TRACKERS[args.track]}: {sys.executable} -m pip install -r envs/tracking.txt"
        )
    provenance.check_manifest(spec.model_folder)
    problems = {problem["id"]: problem for problem in tasks.read_problems(spec.problems)}
    chosen = tasks.read_subset(spec.subset, problems, spec.problems)

    inputs = [files.sha256(path) for path in (f"{spec.model_folder}/manifest.json", spec.problems, spec.subset)]
    versions = [provenance.version(package) for package in ("torch", "transformers", "trl", "peft")]
    state, output = Path(args.state) / spec.digest(*inputs, *versions), Path(args.output)
    patience = args.take_over_minutes if args.take_over else None
    alone = hardware.processes == 1
    if not alone and LAUNCHED not in os.environ:
        with states.locked(state, patience):  # said here, where one process says it
            finished = args.take_over and finished_elsewhere(state, output)
        sys.exit(0 if finished else launch(spec, hardware, state))
    place = Processes(hardware)
    updates = spec.training["updates"]
    with states.locked(state, patience) if place.first else contextlib.nullcontext():
        if alone and args.take_over and finished_elsewhere(state, output):
            return
        if place.first:
            states.restore(state)
            states.resume_point(state, spec.training["checkpoint_every"])  # removes what is of no use
        place.wait()
        resumed_from = states.newest(state)
        if resumed_from < updates:
            train(spec, problems, chosen, state, resumed_from, hardware, args.track, place)
        place.wait()
        stopped = place.any(interruption.asked())
        place.part()
        if not place.first:
            return
        if stopped:
            saved = states.newest(state)
            said = f"stopped by SIGTERM after update {saved} of {updates}, state saved in {states.checkpoint(state, saved)}"
            said += "; start the same command again to go on"
            if alone:
                raise errors.UserError(said)
            print(f"error: {said}", file=sys.stderr)  # and no exit status: torchrun has much to say of a process that fails
            return
        history = read_history(state, updates)
        export(spec, state, output, history, started, resumed_from, hardware)
        states.finish(state, updates, spec.training["checkpoint_every"], args.keep_finished)


def finished_elsewhere(state: Path, output: Path) -> bool:
    """Whether the process that held this very run has finished it; then it has removed its state."""
    try:
        if files.read_json(output / "provenance.json").get("state") != state.name or states.newest(state):
            return False
        for folder in provenance.checkpoints(output / "checkpoints").values():
            provenance.check_manifest(folder)
    except errors.UserError:
        return False
    if not all((output / name).is_file() for name in ("updates.csv", "timing.csv")):
        return False
    shutil.rmtree(state)
    say(f"{output}: another process has finished this run; nothing is left to train")
    return True


def launch(spec: recipes.Spec, hardware: recipes.Hardware, state: Path) -> int:
    """Start this program again as several processes and wait for them; the exit status."""
    import psutil  # accelerate needs it, too

    # torchrun starts the processes, accelerate (inside the trainer) finds them and reads the rest from the environment.
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(hardware.processes)]
    # After SIGTERM torchrun would give its processes 30 seconds, less than an update may take. So it is started with that signal
    # blocked, which the processes take back, and they get it from here.
    command += ["--signals-to-handle", "SIGINT,SIGHUP,SIGQUIT"]
    told = {LAUNCHED: "1"} | ({} if spec.training.get("adapter") else FSDP)
    if not hardware.gpus:
        told |= {"ACCELERATE_USE_CPU": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "false"}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    torchrun = subprocess.Popen([*command, *sys.argv], env=os.environ | told)

    def pass_on(*_) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            started = psutil.Process(torchrun.pid).children()
            if not started:
                torchrun.send_signal(signal.SIGINT)
            for process in started:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches torchrun, too, which ends its processes
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    # Stopped at an update the processes exit with 0, but then there is a state, which a finished run removes.
    return 1 if torchrun.wait() or state.exists() else 0


class Processes:
    """The processes of this run: which of them is the first, waiting for one another, and agreeing."""

    def __init__(self, hardware: recipes.Hardware):
        self.state = None
        if hardware.processes > 1:
            from accelerate import PartialState

            self.state = PartialState(cpu=not hardware.gpus)
        self.first = self.state is None or self.state.is_main_process

    def wait(self) -> None:
        if self.state is not None:
            self.state.wait_for_everyone()

    def part(self) -> None:
        """Nothing is said between the processes from here on. An interpreter that ends with gloo's threads alive can abort."""
        if self.state is None:
            return
        self.state.destroy_process_group()
        if not self.first:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    def any(self, here: bool) -> bool:
        """Whether it is so in one of the processes."""
        if self.state is None:
            return here
        import torch
        from accelerate.utils import reduce

        return bool(reduce(torch.tensor([float(here)], device=self.state.device), "sum").item())


def train(
    spec: recipes.Spec,
    problems: dict,
    chosen: list[str],
    state: Path,
    resume_from: int,
    hardware: recipes.Hardware,
    track: str,
    place: Processes,
) -> None:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
    from trl import GRPOConfig

    from hardgrpo.sampling import engines
    from hardgrpo.training.trainer import Trainer

    engines.fix_threads()
    recipe = spec.training
    if recipe["generation"] == "vllm":
        from hardgrpo.sampling import vllm_engine

        vllm_engine.prepare_for_training()
    order = recipes.schedule(chosen, recipe["updates"], recipe["prompts_per_update"], spec.seed)
    rows = [{"prompt": tasks.messages(spec.prompt, problems[i]["question"]), "answer": problems[i]["answer"]} for i in order]
    tokenizer = AutoTokenizer.from_pretrained(spec.model_folder, local_files_only=True)
    engines.check_chat_template(tokenizer, spec.model_folder)
    context = longest_prompt(tokenizer, rows, spec.chat) + spec.completion_tokens
    os.environ.setdefault(
        "TENSORBOARD_LOGGING_DIR", f"results/tracking/{spec.model}/{spec.task}/{spec.recipe}/{spec.policy}/{spec.seed}"
    )
    trainer = Trainer(
        model=AutoModelForCausalLM.from_pretrained(spec.model_folder, **recipes.model_arguments(recipe)),
        processing_class=tokenizer,
        reward_funcs=reward_function(spec.grader, recipe, hardware.processes),
        args=GRPOConfig(**recipes.trainer_arguments(spec, str(state), hardware, context, track)),
        train_dataset=Dataset.from_list(rows),
        peft_config=recipes.adapter_configuration(recipe),
    )
    trainer.remove_callback(PrinterCallback)
    if hardware.processes > 1 and trainer.is_world_process_zero():
        held = "shared out over them (FSDP2)" if trainer.is_fsdp_enabled else "held by each"
        say(f"{hardware.processes} processes, all weights {held}")
    if hardware.gpus > 1 and not recipe.get("adapter") and not trainer.is_fsdp_enabled:
        raise errors.UserError(
            "all weights are to be shared out over several GPUs, but accelerate does not do it; see the log above"
        )
    title = f"train {spec.model}/{spec.task}/{spec.policy}/seed{spec.seed}"
    shown = trainer.is_world_process_zero()
    with Progress(title, recipe["updates"], "updates", start=resume_from, shown=shown) as progress:
        trainer.add_callback(watch(progress, place, recipe["checkpoint_every"]))
        trainer.train(resume_from_checkpoint=str(states.checkpoint(state, resume_from)) if resume_from else None)
    interruption.stop_at_once()


def longest_prompt(tokenizer, rows: list[dict], chat: dict) -> int:
    """Tokens of the longest prompt of a run, chat template included."""
    questions = {row["prompt"][0]["content"]: row["prompt"] for row in rows}
    return max(
        len(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, **chat)["input_ids"])
        for messages in questions.values()
    )


def reward_function(grader: str, recipe: dict, processes: int):
    """1 for a correct completion, 0 for any other, by the grader that probe and evaluation use; or, for the control, 1 for a
    completion with an answer that the grader can read, right or wrong."""
    rewarded = {"correct": lambda grade: grade.correct, "finished": lambda grade: grade.readable}[recipe["reward"]]

    def reward(completions, answer, log_metric, **_) -> list[float]:
        grades = [graders.grade(grader, messages[0]["content"], a) for messages, a in zip(completions, answer)]
        # Each process sees its share, and what they log is averaged.
        log_metric("rollouts", len(completions) * processes)
        log_metric("prompts", len(completions) * processes / recipe["group_size"])
        log_metric("answered_share", sum(v.answered for v in grades) / len(grades))
        log_metric("correct_share", sum(v.correct for v in grades) / len(grades))
        return [float(rewarded(v)) for v in grades]

    return reward


def watch(progress: Progress, place: Processes, checkpoint_every: int):
    """A callback that shows progress, marks a checkpoint as whole once everything of it is written, and heeds SIGTERM.

    Not transformers' own `enable_jit_checkpoint`: it saves in the middle of an update, when the random numbers of that update
    are already drawn, so that a run that goes on from there is another run.
    """
    from transformers import TrainerCallback

    class Watch(TrainerCallback):
        def on_train_begin(self, args, state, control, **_) -> None:
            interruption.save_first()

        def on_step_end(self, args, state, control, **_) -> None:
            if place.any(interruption.asked()):  # the signal does not reach all processes within the same update
                control.should_save = control.should_training_stop = True

        def on_log(self, args, state, control, logs=None, **_) -> None:
            if "reward" in logs:
                progress.advance(1, f"reward {logs['reward']:.2f}, learnable {1 - logs['frac_reward_zero_std']:.2f}")

        def on_save(self, args, state, control, **_) -> None:
            place.wait()  # each process writes its random numbers
            if place.first:
                provenance.write_manifest(states.checkpoint(Path(args.output_dir), state.global_step))
                states.thin(Path(args.output_dir), checkpoint_every)
            if place.any(interruption.asked()):  # it came while this was saved
                control.should_training_stop = True

    return Watch()


def read_history(state: Path, updates: int) -> list[dict]:
    """TRL's log, an entry an update, as the last checkpoint holds it (whole also after interruptions)."""
    text = files.read_text(states.checkpoint(state, updates) / states.TRAINING_FILE)
    history = [entry for entry in json.loads(text)["log_history"] if "reward" in entry]
    if [entry["step"] for entry in history] != list(range(1, updates + 1)):
        raise RuntimeError(f"{state}: the log does not hold updates 1 to {updates} once each")
    return history


def sort_adapter_config(path: Path) -> None:
    """PEFT writes a set of module names in the order of the day; sorted, equal runs give equal files."""
    config = files.read_json(path)
    sorted_config = {key: sorted(value) if isinstance(value, list) else value for key, value in sorted(config.items())}
    files.write_text(path, json.dumps(sorted_config, indent=1) + "\n")


def link_or_copy(source: Path, target: Path) -> None:
    """The same file under two names; a copy where the file systems differ."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def export(
    spec: recipes.Spec,
    state: Path,
    output: Path,
    history: list[dict],
    started: float,
    resumed_from: int,
    hardware: recipes.Hardware,
) -> None:
    steps = range(spec.training["checkpoint_every"], spec.training["updates"] + 1, spec.training["checkpoint_every"])
    shutil.rmtree(output / "checkpoints", ignore_errors=True)  # of an earlier recipe: Snakemake has voided its manifest
    with files.atomic(output / "checkpoints") as folder:
        for step in steps:
            target = folder / f"step-{step}"
            target.mkdir(parents=True)
            for pattern in states.MODEL_FILES:
                for path in states.checkpoint(state, step).glob(pattern):
                    link_or_copy(path, target / path.name)
            if (target / "adapter_config.json").exists():
                sort_adapter_config(target / "adapter_config.json")
            provenance.write_manifest(target)
        files.write_text(folder / "manifest.json", json.dumps({"steps": list(steps)}) + "\n")
    rows = [{"step": e["step"]} | {ours: e.get(theirs) for ours, theirs in UPDATE_COLUMNS.items()} for e in history]
    for row in rows:
        row["learnable_share"] = 1 - row["learnable_share"]
    files.write_rows(output / "timing.csv", ["step", "seconds"], ({"step": e["step"], "seconds": e["step_time"]} for e in history))
    # How far vLLM's log-probabilities of its own tokens are from the trainer's, at most: near 0 while it has the current weights.
    differences = [e["sampling/sampling_logp_difference/max"] for e in history if "sampling/sampling_logp_difference/max" in e]
    facts = provenance.describe(
        started,
        run=vars(spec),
        machine=vars(hardware),
        resumed_from=resumed_from,
        sampling_difference=max(differences, default=None),
        update_seconds=round(sum(e["step_time"] for e in history), 3),
        completion_tokens=round(sum(r["tokens_mean"] * r["rollouts"] for r in rows)),
        state=state.name,
    )
    files.write_text(output / "provenance.json", json.dumps(facts, indent=1) + "\n")
    files.write_rows(output / "updates.csv", ["step", *UPDATE_COLUMNS], rows)
    last = rows[-1]
    say(f"{output}: {last['step']} updates, last reward {last['reward_mean']:.3f}, checkpoints at {', '.join(map(str, steps))}")


if __name__ == "__main__":
    warm.run(main)
