"""Common functions of the programs that sample completions: arguments, start of an engine,
requests, rows of the output, provenance."""

import argparse
import time
from collections.abc import Iterable, Iterator

from hardgrpo.data import tasks
from hardgrpo.runtime import environments, errors, files, provenance
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import requests
from hardgrpo.study import paths


def count(text: str) -> int:
    """The number in an argument. Raise an error unless it is at least 1."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}, expected at least 1")
    return int(text)


def build_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the common arguments of the programs that sample completions."""
    parser = errors.parser(description, "--problems")
    parser.add_argument("--model", required=True, help="folder of the base model")
    parser.add_argument("--prompt", required=True, help="template with {question}")
    parser.add_argument("--samples", type=count, required=True, help="at temperature 1")
    parser.add_argument("--completion-tokens", type=count, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument(
        "--engine",
        default="transformers",
        choices=["transformers", "vllm", "auto", "server"],
        help="auto: vLLM if it is installed, otherwise transformers; server: that of --server",
    )
    parser.add_argument(
        "--precision",
        default="fp32",
        choices=["fp32", "bf16"],
        help="arithmetic of transformers; with fp32, GPUs use the precision of the weights",
    )
    parser.add_argument(
        "--server",
        default={},
        type=files.as_object,
        help="the inference server as JSON: url, key (a variable), concurrency, timeout, price, most_money",
    )
    parser.add_argument("--state", default=paths.STATES, help="folder of stored completions")
    parser.add_argument("--chat", default={}, type=files.as_object, help="for the chat template")
    environments.add_gpu_arguments(parser)
    parser.add_argument("--provenance", help="JSON file: machine, versions, tokens, seconds")
    parser.set_defaults(started=time.time())
    return parser


def start(args: argparse.Namespace) -> None:
    """Choose the engine, check the model, and restart the program in another environment if this one
    lacks what the engine needs. Raise a `UserError` if the machine or the model is unsuitable."""
    if args.engine == "server":
        from hardgrpo.sampling import server_engine  # httpx2 is not in every environment

        args.address = server_engine.read_address(args.server)
        args.address.secret()
        provenance.check_manifest(args.model)
        return
    args.gpus = environments.granted_gpus(args.gpus)
    args.engine = environments.choose_engine(args.engine, args.gpus)
    environments.use(*["vllm"] * (args.engine == "vllm"), gpus=args.gpus)
    if args.gpus:
        if args.engine == "vllm":
            environments.prepare_compilation()
        environments.check_gpus(args.gpus, args.gpu_name, args.gpu_gib)
    provenance.check_manifest(args.model)


def make_request(
    purpose: str,
    args: argparse.Namespace,
    problem: dict,
    sample: int,
    temperature: float = 1.0,
    log_probability: bool = False,
) -> requests.Request:
    """A request for one completion, whose seed depends only on purpose, `args.seed`, problem and
    sample."""
    messages = tuple(tasks.messages(args.prompt, problem["question"]))
    seed = requests.sample_seed(purpose, args.seed, problem["id"], sample)
    return requests.Request(messages, seed, temperature, log_probability)


def sample(
    args: argparse.Namespace,
    folder: str,
    completion_requests: list[requests.Request],
    progress: Progress,
    batch_size: int,
    adapters: Iterable[str | None] = (None,),
    parts: Iterable[list[int]] | None = None,
) -> Iterator[list[requests.Completion]]:
    """Sample with the engine that `start` has chosen."""
    if args.engine == "server":
        from hardgrpo.sampling import server_engine

        return server_engine.sample(
            folder, args.address, completion_requests, args.completion_tokens, args.chat, args.state, parts,
            on_batch=progress.advance, on_ready=progress.ready, on_end=lambda record: setattr(args, "server_facts", record),
        )  # fmt: skip
    from hardgrpo.sampling import engines  # imports torch; `start` must run before

    engines.configure_torch()
    return engines.sample(
        args.engine, folder, completion_requests, args.completion_tokens, args.chat, adapters, parts, args.gpus, batch_size,
        precision=args.precision, on_batch=progress.advance, on_ready=progress.ready,
    )  # fmt: skip


def probe_row(
    problem: dict, sample: int, request: requests.Request, completion: requests.Completion
) -> dict:
    """One row of a probe's JSON Lines file."""
    row = {"id": problem["id"], "sample": sample, "seed": request.seed}
    row |= {"completion": completion.text, "tokens": completion.tokens}
    row |= {"finish_reason": completion.finish_reason}
    mean = completion.log_probability
    return row if mean is None else row | {"log_probability": round(mean, 6)}


def write_provenance(
    args: argparse.Namespace, progress: Progress, completions: int, tokens: int, **fields
) -> None:
    """Write the file that --provenance names. `work_seconds` excludes the start of the engine."""
    if not args.provenance:
        return
    record = provenance.describe(
        args.started,
        machine={"gpus": args.gpus, "engine": args.engine},
        completions=completions,
        completion_tokens=tokens,
        work_seconds=round(progress.seconds, 3),
    )
    fields |= {"server": args.server_facts} if hasattr(args, "server_facts") else {}
    files.write_json(args.provenance, record | fields)
