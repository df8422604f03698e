"""Parts of the GPU checks that each run in a process of their own.

    python scoring.py checksum MODEL bf16
    python scoring.py adapter ADAPTER OUTPUT
    python scoring.py sample JOB.json SAMPLED.json
    python scoring.py score JOB.json SAMPLED.json

`checksum` prints the checksum of the weights, as training records it. `adapter` copies an adapter
and adds random numbers to its matrices B, so that the adapter changes completions. `sample` samples
greedy completions of the base model and of the adapter with vLLM, and writes their tokens with
log-probabilities. `score` computes log-probabilities of these completions with transformers and
writes them to SAMPLED.json.scores: `base`, the base model's completions under the base model;
`adapter`, the adapter's completions under the adapter; `base_under_adapter`, the base model's
completions under the adapter.
"""

from hardgrpo.runtime import environments, errors, files

import shutil
import sys
from pathlib import Path


def print_checksum(model: str, base_precision: str) -> None:
    from hardgrpo.training import base_weights, recipes

    from transformers import AutoModelForCausalLM

    print(
        base_weights.checksum(
            AutoModelForCausalLM.from_pretrained(
                model, **recipes.model_arguments({"base": base_precision})
            )
        )
    )


def add_noise(folder: str, output: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, output, dirs_exist_ok=True)
    path, generator = Path(output) / "adapter_model.safetensors", torch.Generator().manual_seed(0)
    weights = load_file(path)
    noisy_weights = {
        name: value + torch.randn(value.shape, generator=generator) * 0.03
        for name, value in weights.items()
        if ".lora_B" in name
    }
    path.unlink()  # `weights` may be mapped from the file, so the file must not be overwritten
    save_file(weights | noisy_weights, path)


def sample(job_path: str, completions_path: str) -> None:
    """Write {completions: [rows of the base model, rows of the adapter]}; a row is [token ids,
    log-probabilities] of a prompt's completion. The job is {model, adapter, prompts (token ids),
    tokens (completion limit), gpus}."""
    job = files.read_json(job_path)
    environments.use("vllm", gpus=job["gpus"])
    from hardgrpo.sampling import vllm_engine

    context = max(map(len, job["prompts"])) + job["tokens"]
    llm = vllm_engine.start(job["model"], context, [job["adapter"]], job["gpus"])
    settings = vllm_engine.SamplingParams(
        max_tokens=job["tokens"], temperature=0, logprobs=1, detokenize=False
    )
    completions = []
    for adapter in (None, job["adapter"]):
        completion_of_prompt = dict(
            vllm_engine.draw_completions(
                llm,
                job["prompts"],
                [settings] * len(job["prompts"]),
                vllm_engine.adapter_request([job["adapter"]], adapter),
            )
        )
        completions.append(
            [
                [
                    list(completion.token_ids),
                    [
                        candidates[token].logprob
                        for token, candidates in zip(completion.token_ids, completion.logprobs)
                    ],
                ]
                for _, completion in sorted(completion_of_prompt.items())
            ]
        )
    files.write_json(completions_path, {"completions": completions})


def score(job_path: str, completions_path: str) -> None:
    job = files.read_json(job_path)
    completions = files.read_json(completions_path)["completions"]
    from hardgrpo.sampling import engines

    import torch

    def log_probabilities_of(model, rows: list) -> list[list[float]]:
        log_probabilities = []
        for prompt, (tokens, _) in zip(job["prompts"], rows):
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
        engines.load(job["model"]), [None, job["adapter"]]
    ):
        scores |= (
            {
                "adapter": log_probabilities_of(model, completions[1]),
                "base_under_adapter": log_probabilities_of(model, completions[0]),
            }
            if adapter
            else {"base": log_probabilities_of(model, completions[0])}
        )
    files.write_json(f"{completions_path}.scores", scores)


if __name__ == "__main__":
    errors.run(
        lambda: {
            "checksum": print_checksum,
            "adapter": add_noise,
            "sample": sample,
            "score": score,
        }[sys.argv[1]](*sys.argv[2:])
    )
