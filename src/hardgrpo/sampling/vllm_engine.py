"""Sample with vLLM, on GPUs or on the CPU."""

import functools
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

# vLLM reads these variables on import. Worker processes could outlive a killed job. vLLM's CPU build
# needs a cache size (GiB), and is slow when its threads compete for cores.
for name, value in {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_WAIT_POLICY": "PASSIVE",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # compiles kernels for top-k and top-p, which this project does not use
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
from hardgrpo.sampling.requests import MAX_SEQUENCES, Completion, Request  # noqa: E402

# maximum number of requests in the engine: the current batch and the waiting requests
MAX_QUEUED = 4 * MAX_SEQUENCES


def start(folder: str, context: int, adapters: list[str], gpus: int) -> LLM:
    """An engine for the model in `folder` and its `adapters`. `context` is the largest number of
    tokens of a prompt and its completion. Raise a `UserError` if the engine cannot start."""
    is_cpu = current_platform.is_cpu()
    if not is_cpu and gpus < 1:
        raise UserError(
            "engine vllm: the installed vLLM needs a GPU, but the model requests none; add `gpus` to the model, or use `make vllm-cpu`"
        )
    arguments = {"dtype": "bfloat16", "max_num_seqs": MAX_SEQUENCES}
    arguments |= {"tensor_parallel_size": gpus, "gpu_memory_utilization": 0.9}
    if is_cpu:
        arguments = {"dtype": "float32", "max_num_seqs": 256, "enforce_eager": True}
        arguments |= {"enable_chunked_prefill": False, "max_num_batched_tokens": max(8192, context)}
    if adapters:
        ranks = [read_json(Path(adapter) / "adapter_config.json")["r"] for adapter in adapters]
        # vLLM accepts the powers of two from 8 to 512, and few other numbers
        arguments["max_lora_rank"] = 2 ** math.ceil(math.log2(max(8, *ranks)))
        arguments |= {"enable_lora": True, "max_loras": 1, "max_cpu_loras": len(adapters)}
    with while_loading(folder):
        return LLM(
            model=folder, tokenizer=folder, trust_remote_code=False, seed=0, max_model_len=context, disable_log_stats=True, **arguments,
        )  # fmt: skip


def prepare_for_training() -> None:
    """Let TRL's engine on GPUs compute in bf16, as trainer, probe and evaluation do. On the CPU, let
    TRL replace the weights: vLLM's CPU build would pack the weights of linear layers and drop the
    originals."""
    if not current_platform.is_cpu():
        from trl.generation import vllm_generation

        replacements.replace(vllm_generation, "LLM", functools.partial(LLM, dtype="bfloat16"))
    else:
        import torch
        from vllm.model_executor.layers import utils

        def use_unpacked_weights(layer, remove_weight: bool) -> None:
            layer.cpu_linear = torch.nn.functional.linear

        replacements.replace(utils, "dispatch_cpu_unquantized_gemm", use_unpacked_weights)


def adapter_request(adapters: list[str], adapter: str | None) -> LoRARequest | None:
    """vLLM's request for an adapter; None for the base model."""
    if adapter is None:
        return None
    return LoRARequest(Path(adapter).name, adapters.index(adapter) + 1, adapter)


def draw_completions(
    llm: LLM,
    prompts: list[list[int]],
    sampling_params: list[SamplingParams],
    adapter: LoRARequest | None,
) -> Iterator[tuple[int, CompletionOutput]]:
    """Yield (index of the prompt, completion) when a completion ends, and queue a new request."""
    indices, index_of_request = iter(range(len(prompts))), {}
    while True:
        for index in itertools.islice(indices, MAX_QUEUED - len(index_of_request)):
            prompt = TokensPrompt(prompt_token_ids=prompts[index])
            (request_id,) = llm.enqueue(
                prompt, sampling_params[index], lora_request=adapter, use_tqdm=False
            )
            # `enqueue` returns the id with "-" and random characters at its end; the outputs have
            # the id without this end
            index_of_request[request_id.partition("-")[0]] = index
        if not index_of_request:
            return
        for output in llm.llm_engine.step():
            if output.finished:
                yield index_of_request.pop(output.request_id), output.outputs[0]


def sample(
    folder: str,
    tokenizer,
    end_token_ids: list[int],
    prompts: list[list[int]],
    requests: list[Request],
    max_tokens: int,
    adapters: list[str | None],
    parts: Iterable[list[int]] | None,
    gpus: int,
    on_batch: Callable[[int], None],
    on_ready: Callable[[], None],
) -> Iterator[list[Completion]]:
    """Like `engines.sample`, with one vLLM engine."""
    adapter_folders = [adapter for adapter in adapters if adapter is not None]
    llm = start(folder, max(map(len, prompts)) + max_tokens, adapter_folders, gpus)
    print("engine vllm is ready", flush=True)
    on_ready()
    sampling_params = [
        SamplingParams(
            temperature=request.temperature, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0, seed=request.seed % 2**63,
            max_tokens=max_tokens, stop_token_ids=end_token_ids, detokenize=False,
            # 0: only the log-probability of the sampled token
            logprobs=0 if request.log_probability else None,
        )
        for request in requests
    ]  # fmt: skip
    try:
        for adapter in adapters:
            for part in [range(len(prompts))] if parts is None else parts:
                part_prompts = [prompts[index] for index in part]
                part_params = [sampling_params[index] for index in part]
                request = adapter_request(adapter_folders, adapter)
                completions: dict[int, Completion] = {}
                for index, output in draw_completions(llm, part_prompts, part_params, request):
                    ids, total = output.token_ids, output.cumulative_logprob
                    text = tokenizer.decode(ids, skip_special_tokens=True)
                    mean = None if total is None else total / len(ids)
                    completions[index] = Completion(text, len(ids), output.finish_reason, mean)
                    on_batch(1)
                yield [completions[index] for index in range(len(part))]
    # `del` alone ends no worker and frees only part of the memory (vllm-project/vllm#21073)
    finally:
        llm.llm_engine.engine_core.shutdown()
        del llm
        cleanup_dist_env_and_memory()
