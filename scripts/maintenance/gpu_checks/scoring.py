"""Parts of the GPU checks that each run in a process of their own.

    python scoring.py checksum MODEL bf16
    python scoring.py adapter ADAPTER OUTPUT
    python scoring.py sample JOB.json SAMPLED.json
    python scoring.py score JOB.json SAMPLED.json

`checksum` prints the checksum of the weights, as training records it. `adapter` copies an adapter
and adds random numbers to its matrices B, so that the adapter changes completions. `sample` samples
greedy completions with vLLM, with the base model and with the adapter, and writes the
log-probabilities of their tokens. `score` computes log-probabilities with transformers and writes
them to SAMPLED.json.scores: `base`, the base model's completions under the base model; `adapter`,
the adapter's completions under the adapter; `changed`, the base model's completions under the
adapter.
"""

from hardgrpo.runtime import environments, errors, files

import shutil
import sys
from pathlib import Path


def checksum(model: str, base: str) -> None:
    from hardgrpo.training import base_weights, recipes

    from transformers import AutoModelForCausalLM

    print(
        base_weights.checksum(
            AutoModelForCausalLM.from_pretrained(model, **recipes.model_arguments({"base": base}))
        )
    )


def adapter(folder: str, output: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, output, dirs_exist_ok=True)
    path, generator = Path(output) / "adapter_model.safetensors", torch.Generator().manual_seed(0)
    weights = load_file(path)
    noise = {
        name: torch.randn(value.shape, generator=generator) * 0.03
        for name, value in weights.items()
        if ".lora_B" in name
    }
    path.unlink()  # may be a link to the file of the run
    save_file(weights | noise, path)


def sample(job: str, sampled: str) -> None:
    """Write [token ids, log-probabilities] for each prompt, first of the base model, then of the
    adapter. `job`: {model, adapter, prompts (token ids), tokens, gpus}."""
    request = files.read_json(job)
    environments.use("vllm", gpus=request["gpus"])
    from hardgrpo.sampling import vllm_engine

    context = max(map(len, request["prompts"])) + request["tokens"]
    llm = vllm_engine.start(request["model"], context, [request["adapter"]], request["gpus"])
    settings = vllm_engine.SamplingParams(
        max_tokens=request["tokens"], temperature=0, logprobs=1, detokenize=False
    )
    completions = []
    for adapter in (None, request["adapter"]):
        rows = dict(
            vllm_engine.drawn(
                llm,
                request["prompts"],
                [settings] * len(request["prompts"]),
                vllm_engine.adapter_request([request["adapter"]], adapter),
            )
        )
        completions.append(
            [
                [list(o.token_ids), [step[t].logprob for t, step in zip(o.token_ids, o.logprobs)]]
                for _, o in sorted(rows.items())
            ]
        )
    files.write_json(sampled, {"completions": completions})


def score(job: str, sampled: str) -> None:
    request, completions = files.read_json(job), files.read_json(sampled)["completions"]
    from hardgrpo.sampling import engines

    import torch

    def log_probabilities_of(model, rows: list) -> list[list[float]]:
        log_probabilities = []
        for prompt, (tokens, _) in zip(request["prompts"], rows):
            with torch.inference_mode():
                logits = (
                    model(torch.tensor([prompt + tokens], device=model.device))
                    .logits[0, len(prompt) - 1 : -1]
                    .float()
                )
            log_probabilities.append(
                logits.log_softmax(-1)
                .gather(1, torch.tensor(tokens, device=model.device)[:, None])[:, 0]
                .tolist()
            )
        return log_probabilities

    scores = {}
    for adapter, model in engines.adapted_models(
        engines.load(request["model"]), [None, request["adapter"]]
    ):
        scores |= (
            {
                "adapter": log_probabilities_of(model, completions[1]),
                "changed": log_probabilities_of(model, completions[0]),
            }
            if adapter
            else {"base": log_probabilities_of(model, completions[0])}
        )
    files.write_json(f"{sampled}.scores", scores)


if __name__ == "__main__":
    errors.run(
        lambda: {"checksum": checksum, "adapter": adapter, "sample": sample, "score": score}[
            sys.argv[1]
        ](*sys.argv[2:])
    )
