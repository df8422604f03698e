"""A stand-in for vLLM in TRL's trainer, for tests without vLLM. The trainer starts the stand-in,
sends the weights to it and gets completions from it, as with vLLM. The stand-in computes with
transformers."""

from types import SimpleNamespace

import torch
from transformers import AutoModelForCausalLM, set_seed
from trl.generation import vllm_generation


class StandIn:
    """The parts of the engine that TRL uses. `offset` is added to every log-probability that the
    stand-in reports."""

    def __init__(self, folder: str, dtype: torch.dtype, offset: float):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        self.offset, self.rollouts = offset, []
        self.sent: dict[str, torch.Tensor] = {}  # the weights of the last sync
        worker = SimpleNamespace(model_runner=SimpleNamespace(model=self))
        self.llm_engine = SimpleNamespace(
            model_executor=SimpleNamespace(driver_worker=worker),
            model_config=SimpleNamespace(max_model_len=512),
        )
        # At its start vLLM seeds all generators with its own seed, which TRL sets to the rank.
        set_seed(0)

    @classmethod
    def install(cls, monkeypatch, offset: float = 0.0) -> None:
        """Make TRL's trainers use this class as vLLM until the test ends."""

        def start(generation) -> None:
            generation.llm = cls(generation.model.name_or_path, generation.model.dtype, offset)

        monkeypatch.setattr(vllm_generation.VLLMGeneration, "_init_vllm", start)
        monkeypatch.setattr(vllm_generation, "SamplingParams", SimpleNamespace, raising=False)

    def load_weights(self, pairs: list[tuple[str, torch.Tensor]]) -> None:
        self.sent |= {name: weights.detach().clone() for name, weights in pairs}

    def reset_prefix_cache(self) -> None:
        """Start to use the weights that TRL has sent. TRL calls this method after sending them."""
        self.model.load_state_dict(self.sent, strict=False)

    @torch.no_grad()
    def generate(
        self, prompts: list[dict], sampling_params: SimpleNamespace, use_tqdm: bool
    ) -> list[SimpleNamespace]:
        outputs = []
        for prompt in prompts:
            row, scores = torch.tensor([prompt["prompt_token_ids"]]), []
            for _ in range(sampling_params.max_tokens):
                logps = self.model(row).logits[0, -1].float().log_softmax(-1)
                token = torch.multinomial(logps.exp(), 1)
                logprob = logps[token].item() + self.offset
                scores.append({token.item(): SimpleNamespace(rank=1, logprob=logprob)})
                row = torch.cat([row, token[None]], dim=1)
                ends = getattr(sampling_params, "stop_token_ids", [])
                if token.item() in [*self.model.generation_config.eos_token_id, *ends]:
                    break
            ids = prompt["prompt_token_ids"]
            tokens = row[0, len(ids) :].tolist()
            self.rollouts.append(tokens)
            completion = SimpleNamespace(token_ids=tokens, logprobs=scores)
            outputs.append(SimpleNamespace(prompt_token_ids=ids, outputs=[completion]))
        return outputs
