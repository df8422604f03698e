"""What the programs that sample completions have in common: arguments, the start of the engine, requests and the rows of a probe."""

import argparse
import json

from hardgrpo.data import tasks
from hardgrpo.runtime import environments
from hardgrpo.sampling import requests


def parser(description: str) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--model", required=True, help="folder of the base model")
    found.add_argument("--problems", required=True)
    found.add_argument("--prompt", required=True, help="template with {question}")
    found.add_argument("--samples", type=int, required=True, help="K, completions a prompt at temperature 1")
    found.add_argument("--completion-tokens", type=int, required=True)
    found.add_argument("--seed", type=int, required=True)
    found.add_argument(
        "--engine", default="transformers", choices=["transformers", "vllm", "auto"], help="auto: vLLM where it is installed"
    )
    found.add_argument("--chat", default={}, type=json.loads, help="arguments of the chat template, as JSON")
    environments.add_gpu_arguments(found)
    found.add_argument("--provenance", help="JSON file to write: machine, versions, tokens, seconds")
    return found


def start(args: argparse.Namespace):
    """Settle GPUs and engine in the arguments, go on in an environment that has the engine, and return `hardgrpo.sampling.engines`."""
    args.gpus = environments.granted_gpus(args.gpus)
    args.engine = environments.choose(args.engine, args.gpus)
    environments.use(*["vllm"] * (args.engine == "vllm"), gpus=args.gpus)
    environments.check_gpus(args.gpus, args.gpu_name, args.gpu_gib)
    from hardgrpo.sampling import engines  # after `use`, which may start this program again in another environment

    engines.fix_threads()
    return engines


def request(purpose: str, args: argparse.Namespace, problem: dict, sample: int, temperature: float = 1.0):
    """A completion to ask an engine for. Its seed belongs to (problem, sample), whatever else is sampled for the same purpose."""
    messages = tuple(tasks.messages(args.prompt, problem["question"]))
    return requests.Request(messages, requests.sample_seed(purpose, args.seed, problem["id"], sample), temperature)


def probe_row(problem: dict, sample: int, request, completion) -> dict:
    return {
        "id": problem["id"],
        "sample": sample,
        "seed": request.seed,
        "completion": completion.text,
        "tokens": completion.tokens,
        "finish_reason": completion.finish_reason,
    }
