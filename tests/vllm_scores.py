"""A program that tests run in vLLM's environment: greedy completions and the log-probabilities of
their tokens.

python vllm_scores.py JOB.json SAMPLED.json

JOB: {"model": folder, "adapters": [folder, or null for the model without adapter], "prompts":
[token ids], "tokens": largest number of tokens of a completion}. SAMPLED: for each adapter and each
prompt, [token ids of the completion, their log-probabilities].
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardgrpo.sampling import vllm_engine  # noqa: E402

job = json.loads(Path(sys.argv[1]).read_text())
adapter_folders = [adapter for adapter in job["adapters"] if adapter]
llm = vllm_engine.start(
    job["model"], max(map(len, job["prompts"])) + job["tokens"], adapter_folders, 0
)
answer = []
for adapter in job["adapters"]:
    outputs = llm.generate(
        [vllm_engine.TokensPrompt(prompt_token_ids=prompt) for prompt in job["prompts"]],
        vllm_engine.SamplingParams(
            max_tokens=job["tokens"], temperature=0, logprobs=1, detokenize=False
        ),
        lora_request=vllm_engine.adapter_request(adapter_folders, adapter),
        use_tqdm=False,
    )
    completions = [output.outputs[0] for output in outputs]
    answer.append(
        [
            [
                list(o.token_ids),
                [step[token].logprob for token, step in zip(o.token_ids, o.logprobs)],
            ]
            for o in completions
        ]
    )
Path(sys.argv[2]).write_text(json.dumps(answer))
