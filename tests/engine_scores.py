"""Greedy completions of a model with and without adapters by vLLM, and the log-probabilities of their
tokens by vLLM and by transformers. Tests run this program in environments without pytest.

python engine_scores.py vllm JOB.json COMPLETIONS.json
python engine_scores.py transformers JOB.json COMPLETIONS.json

JOB: {"model": folder, "adapters": [folder, or null for the model without adapter], "prompts":
[token ids], "tokens": largest number of tokens of a completion, "gpus": number, 0 if missing}.
COMPLETIONS, which `vllm` writes: for each adapter and each prompt, [token ids of the completion,
their log-probabilities]. `transformers` prints the log-probabilities alone, in the same order.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardgrpo.runtime import environments, errors  # noqa: E402


def scores_by_vllm(
    model: str, adapters: list, prompts: list, tokens: int, gpus: int = 0
) -> list[list[tuple[list[int], list[float]]]]:
    from hardgrpo.sampling import vllm_engine

    folders = [adapter for adapter in adapters if adapter]
    llm = vllm_engine.start(model, max(map(len, prompts)) + tokens, folders, gpus)
    settings = vllm_engine.SamplingParams(
        max_tokens=tokens, temperature=0, logprobs=1, detokenize=False
    )
    completions_by_adapter = []
    for adapter in adapters:
        outputs = llm.generate(
            [vllm_engine.TokensPrompt(prompt_token_ids=prompt) for prompt in prompts],
            settings,
            lora_request=vllm_engine.adapter_request(folders, adapter),
            use_tqdm=False,
        )
        completions = [output.outputs[0] for output in outputs]
        completions_by_adapter.append(
            [
                (list(c.token_ids), [row[t].logprob for t, row in zip(c.token_ids, c.logprobs)])
                for c in completions
            ]
        )
    return completions_by_adapter


def scores_by_transformers(
    model: str | Path, adapters: list, prompts: list, completions_by_adapter: list
) -> list[list[list[float]]]:
    """The log-probabilities, computed by transformers, of tokens that another engine sampled."""
    import torch

    from hardgrpo.sampling import engines

    log_probabilities = []
    adapted_models = engines.adapted_models(engines.load(str(model)), adapters)
    for (_, adapted), completions in zip(adapted_models, completions_by_adapter):
        rows = []
        for prompt, (tokens, _) in zip(prompts, completions):
            with torch.inference_mode():
                logits = adapted(torch.tensor([prompt + tokens], device=adapted.device)).logits[0]
            scores = logits[len(prompt) - 1 : -1].float().log_softmax(-1).cpu()
            rows.append(scores.gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist())
        log_probabilities.append(rows)
    return log_probabilities


def main() -> None:
    engine, job_path, completions_path = sys.argv[1:]
    job, path = json.loads(Path(job_path).read_text()), Path(completions_path)
    environments.use(*["vllm"] * (engine == "vllm"), gpus=job.get("gpus", 0))
    if engine == "vllm":
        path.write_text(json.dumps(scores_by_vllm(**job)))
    else:
        names = ("model", "adapters", "prompts")
        completions = json.loads(path.read_text())
        print(json.dumps(scores_by_transformers(*map(job.get, names), completions)))


if __name__ == "__main__":
    errors.run(main)
