"""A program that tests run in vLLM's environment. The program starts two engines one after another,
each with two workers, as an evaluation of two checkpoints without adapter on two GPUs does.

python vllm_engines.py MODEL: prints the number of workers that remain after each engine.
"""

import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

if __name__ == "__main__":
    import psutil

    from hardgrpo.sampling import engines, vllm_engine
    from hardgrpo.sampling.requests import Request

    vllm_engine.LLM = functools.partial(vllm_engine.LLM, tensor_parallel_size=2)
    request = Request(({"role": "user", "content": "1 + 1"},), seed=1, temperature=1.0)
    for number in range(2):
        ((completion,),) = engines.sample("vllm", sys.argv[1], [request], max_tokens=4)
        workers = [
            part
            for part in psutil.Process().children(recursive=True)
            if "Worker" in "".join(part.cmdline())
        ]
        print(
            f"engine {number}: {completion.tokens} tokens, {len(workers)} workers left", flush=True
        )
