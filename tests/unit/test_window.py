"""With a stand-in for vLLM: the batch of requests stays full, and each completion is returned for
its prompt."""

import importlib
import random
import sys
from types import ModuleType, SimpleNamespace

import pytest


class Engine:
    """A stand-in that finishes at most five requests at each step, in any order. `steps` lists the
    numbers of unfinished and of finished requests at the start of each step."""

    def __init__(self):
        self.requests, self.steps, self.count, self.rng = {}, [], 0, random.Random(0)
        self.llm_engine = self

    def enqueue(self, prompt, settings, lora_request, use_tqdm) -> list[str]:
        self.count += 1
        self.requests[str(self.count)] = SimpleNamespace(
            token_ids=[*prompt["prompt_token_ids"], settings, lora_request]
        )
        return [f"{self.count}-a1b2c3d4"]

    def step(self) -> list[SimpleNamespace]:
        self.steps.append((len(self.requests), self.count - len(self.requests)))
        finished_requests = self.rng.sample(
            sorted(self.requests), min(len(self.requests), self.rng.randint(0, 5))
        )
        running = [
            SimpleNamespace(request_id=name, finished=False, outputs=[])
            for name in list(self.requests)[:2]
            if name not in finished_requests
        ]
        return running + [
            SimpleNamespace(request_id=name, finished=True, outputs=[self.requests.pop(name)])
            for name in finished_requests
        ]


@pytest.fixture
def vllm_engine(monkeypatch):
    names = {
        "vllm": ["LLM", "SamplingParams"], "vllm.distributed": ["cleanup_dist_env_and_memory"], "vllm.lora": [], "vllm.outputs": ["CompletionOutput"],
        "vllm.lora.request": ["LoRARequest"], "vllm.platforms": ["current_platform"],
    }  # fmt: skip
    for name, parts in names.items():
        module = ModuleType(name)
        vars(module).update(dict.fromkeys(parts, SimpleNamespace) | {"TokensPrompt": dict})
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "hardgrpo.sampling.vllm_engine", raising=False)
    yield importlib.import_module("hardgrpo.sampling.vllm_engine")
    del sys.modules["hardgrpo.sampling.vllm_engine"]


@pytest.mark.parametrize("amount", [0, 1, 9, 10, 11, 200])
def test_a_new_request_replaces_each_finished_request(vllm_engine, monkeypatch, amount):
    monkeypatch.setattr(vllm_engine, "MAX_QUEUED", 10)
    engine = Engine()
    prompts, settings = (
        [[place] for place in range(amount)],
        [f"settings {place}" for place in range(amount)],
    )
    completions = {
        place: done.token_ids
        for place, done in vllm_engine.draw_completions(engine, prompts, settings, "adapter")
    }
    assert completions == {
        place: [place, f"settings {place}", "adapter"] for place in range(amount)
    }
    assert engine.steps == [
        (min(10, amount - finished_count), finished_count) for _, finished_count in engine.steps
    ]
