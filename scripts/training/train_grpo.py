r"""Train one run with TRL as specified in `spec.yaml`: with GRPO, or on worked solutions
(objective: sft).

    python scripts/training/train_grpo.py --output some/folder \
        --spec results/training/steady-seed0/arithmetic/mini/hard/seed0/spec.yaml

The program writes checkpoints/step-N/ (Hugging Face folders), updates.csv (one row per update; with
a selector or process rewards, one row per sampling step), timing.csv and provenance.json. The run's
state (optimiser, random numbers, log) is in a folder under --state, whose name is a hash of the
specification, its inputs and the versions of packages. An interrupted run resumes from the last
complete checkpoint there; on a CPU without vLLM, its checkpoints and updates.csv equal those of an
uninterrupted run bit for bit.

On SIGTERM (time limit, preemption, scancel) during training, the program finishes the current
update, saves its state and exits with status 1.

With --processes or --gpus above 1, the program starts itself again as several processes. Without an
adapter, accelerate's FSDP2 shards weights, gradients and optimiser state over the processes.
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import (
    environments,
    errors,
    exact_products,
    files,
    interruption,
    provenance,
    states,
    warm,
)
from hardgrpo.sampling.programs import count
from hardgrpo.study import paths
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.spec import Spec, check_run_of_checkpoints
from hardgrpo.training import outputs, recipes
from hardgrpo.training.processes import LAUNCH_VARIABLE, Processes, launch

import contextlib
import importlib.util
import os
import sys
import time
from pathlib import Path

# The package of each tracker.
TRACKERS = {"tensorboard": "tensorboardX", "trackio": "trackio", "wandb": "wandb"}


def main() -> None:
    parser = errors.parser(__doc__, "--spec", "--output")
    parser.add_argument("--state", default=paths.STATES, help="folder for unfinished runs")
    environments.add_gpu_arguments(parser)
    parser.add_argument("--processes", type=count, help="on the CPU (default: 1); one on each GPU")
    parser.add_argument(
        "--micro-batch",
        type=count,
        help="most texts per forward pass of a process (default: as many as an update has and memory fits)",
    )
    parser.add_argument("--vllm-memory", type=float, default=0.3, help="share of a GPU's memory")
    parser.add_argument("--vllm-sleep", action="store_true", help="free the memory in updates")
    parser.add_argument("--track", default="none", choices=["none", *TRACKERS])
    parser.add_argument(
        "--save-minutes",
        type=float,
        default=10,
        help="minutes after which the state is also saved between checkpoints (default: %(default)s)",
    )
    parser.add_argument("--keep-finished", action="store_true", help="keep the finished state")
    args = parser.parse_args()

    interruption.watch(quiet=os.environ.get("RANK", "0") != "0")
    started = time.time()
    spec = Spec.read(args.spec)
    args.gpus = environments.granted_gpus(args.gpus)
    hardware = recipes.Hardware(
        args.gpus,
        args.gpus or args.processes or 1,
        args.micro_batch,
        args.vllm_memory,
        args.vllm_sleep,
    )
    environments.use(*recipes.packages(spec.training), gpus=hardware.gpus)
    recipes.check_machine(spec.training, hardware)
    recipes.micro_batches(Recipe.of(spec.training).texts_per_update, hardware)
    # before CUDA starts: the trainer of TRL would end with an error if it saw several GPUs
    if hardware.gpus == 1:
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[0]
    # The launching process makes these checks for all processes that it starts.
    if hardware.gpus and LAUNCH_VARIABLE not in os.environ:
        environments.prepare_compilation()
        environments.check_gpus(hardware.gpus, args.gpu_name, args.gpu_gib)
    if args.track != "none" and importlib.util.find_spec(TRACKERS[args.track]) is None:
        raise errors.UserError(
            f"track: {args.track} needs the package {TRACKERS[args.track]}: run `make setup`, or `make gpu` on a machine with GPUs, or for another tracker"
            f" {sys.executable} -m pip install --require-hashes --no-deps -r envs/tracking.lock"
        )
    provenance.check_manifest(spec.model_folder)
    if spec.continues:
        check_run_of_checkpoints(Path(spec.model_folder).parent)
    problems = {problem["id"]: problem for problem in tasks.read_problems(spec.problems)}
    subset = [row["id"] for row in files.read_rows(spec.subset, {"id": str})]

    inputs = [f"{spec.model_folder}/manifest.json", spec.problems, spec.subset]
    inputs += filter(None, [spec.solutions, spec.questions])
    inputs += [f"{spec.continues}/updates.csv"] if spec.continues else []
    checksums = [files.sha256(path) for path in inputs]
    versions = [provenance.version(package) for package in ("torch", "transformers", "trl", "peft")]
    if recipes.has_exact_products(spec, hardware):  # exact products change the bytes of a run
        versions.append(exact_products.IDENTITY)
    if hardware.processes > 1:  # a checkpoint has the random numbers of each process
        versions.append(f"{hardware.processes} processes")
    state, output = Path(args.state) / spec.digest(*checksums, *versions), Path(args.output)
    is_single = hardware.processes == 1
    if not is_single and LAUNCH_VARIABLE not in os.environ:
        with states.hold_lock(state):
            pass  # another process on this run is reported here, without the report of torchrun
        sys.exit(launch(spec, hardware, state))
    processes = Processes(hardware)
    updates = spec.training["updates"]
    with states.hold_lock(state) if processes.is_first else contextlib.nullcontext():
        if processes.is_first:
            states.restore(state)
            # Remove checkpoints that cannot be resumed from.
            states.resume_point(state, spec.training["checkpoint_every"])
        processes.wait()
        resumed_from = states.newest(state)
        if resumed_from < updates:
            # Import torch and TRL only after `environments.use` has chosen the environment.
            from hardgrpo.training import loop

            build = loop.build_grpo_trainer
            if Recipe.of(spec.training).is_supervised:
                from hardgrpo.training import supervised

                build = supervised.build_trainer
            elif Recipe.of(spec.training).is_online:
                from hardgrpo.online import online_trainer

                build = online_trainer.build_trainer
            run = recipes.Run(spec, problems, subset, state, hardware, args.track)
            loop.train(build, run, resumed_from, processes, args.save_minutes)
        processes.wait()
        stopped = processes.any(interruption.stop_requested())
        processes.close()
        if not processes.is_first:
            return
        if stopped:
            saved_update = states.newest(state)
            message = f"stopped by SIGTERM after update {saved_update} of {updates}, state saved in {states.checkpoint(state, saved_update)}; start the same command again to resume"
            if is_single:
                raise errors.UserError(message)
            # torchrun prints a report about processes that exit with another status than 0
            print(f"error: {message}", file=sys.stderr)
            return
        outputs.export(spec, state, output, started, resumed_from, hardware)
        states.finish(state, updates, spec.training["checkpoint_every"], args.keep_finished)


if __name__ == "__main__":
    warm.run(main)
