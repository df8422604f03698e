"""Run by the checks in a process of its own: checksums of a model, an adapter that matters, and log-probabilities by an engine.

python scoring.py checksum MODEL bf16           prints the checksum of the weights, as training records it
python scoring.py adapter ADAPTER OUTPUT        writes the adapter with random numbers in B, so that it changes what is said
python scoring.py speak JOB.json ANSWER.json    greedy completions by vLLM, with the log-probabilities of their tokens
python scoring.py score JOB.json ANSWER.json    these tokens' log-probabilities by transformers; `changed`: of the base's, with the adapter
"""

from hardgrpo.runtime import environments, errors, files

import shutil
import sys
from pathlib import Path


def checksum(model: str, base: str) -> None:
    from hardgrpo.training import base_weights, recipes

    from transformers import AutoModelForCausalLM

    print(base_weights.checksum(AutoModelForCausalLM.from_pretrained(model, **recipes.model_arguments({"base": base}))))


def adapter(folder: str, output: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, output, dirs_exist_ok=True)
    path, generator = Path(output) / "adapter_model.safetensors", torch.Generator().manual_seed(0)
    weights = load_file(path)
    noise = {name: torch.randn(value.shape, generator=generator) * 0.03 for name, value in weights.items() if ".lora_B" in name}
    path.unlink()  # it may be a link to the file of the run
    save_file(weights | noise, path)


def speak(job: str, answer: str) -> None:
    """The job: {model, adapter, prompts: token ids, tokens, gpus}. The answer: for the base and the adapter, for each prompt [ids, log-probabilities]."""
    asked = files.read_json(job)
    environments.use("vllm", gpus=asked["gpus"])
    from hardgrpo.sampling import vllm_engine

    context = max(map(len, asked["prompts"])) + asked["tokens"]
    llm = vllm_engine.start(asked["model"], context, [asked["adapter"]], asked["gpus"])
    settings = vllm_engine.SamplingParams(max_tokens=asked["tokens"], temperature=0, logprobs=1, detokenize=False)
    spoken = []
    for chosen in (None, asked["adapter"]):
        rows = dict(
            vllm_engine.draw_completions(
                llm, asked["prompts"], [settings] * len(asked["prompts"]), vllm_engine.adapter_request([asked["adapter"]], chosen)
            )
        )
        spoken.append(
            [[list(o.token_ids), [step[t].logprob for t, step in zip(o.token_ids, o.logprobs)]] for _, o in sorted(rows.items())]
        )
    files.write_json(answer, {"spoken": spoken})


def score(job: str, answer: str) -> None:
    asked, spoken = files.read_json(job), files.read_json(answer)["spoken"]
    from hardgrpo.sampling import engines

    import torch

    def scored(model, rows: list) -> list[list[float]]:
        log_probabilities = []
        for prompt, (tokens, _) in zip(asked["prompts"], rows):
            with torch.inference_mode():
                logits = model(torch.tensor([prompt + tokens], device=model.device)).logits[0, len(prompt) - 1 : -1].float()
            log_probabilities.append(
                logits.log_softmax(-1).gather(1, torch.tensor(tokens, device=model.device)[:, None])[:, 0].tolist()
            )
        return log_probabilities

    scores = {}
    for adapter, model in engines.adapted_models(engines.load(asked["model"]), [None, asked["adapter"]]):
        scores |= (
            {"adapter": scored(model, spoken[1]), "changed": scored(model, spoken[0])}
            if adapter
            else {"base": scored(model, spoken[0])}
        )
    files.write_json(f"{answer}.scores", scores)


if __name__ == "__main__":
    errors.run(lambda: {"checksum": checksum, "adapter": adapter, "speak": speak, "score": score}[sys.argv[1]](*sys.argv[2:]))
