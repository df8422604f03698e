"""Sampling on the CPU with transformers: probing, and evaluation of a base model with ten adapters.

For probing, `hardgrpo.sampling.engines.generate` (batches of similar length, each prompt computed
once, finished rows leave the batch) is compared with `model.generate` on padded batches of the same
size, whose prompts are not sorted by length. For evaluation, one engine that samples the base model
and its adapters is compared with one call of `engines.generate`, in which the base model alone
samples as many completions; and one process of evaluate.py for all checkpoints is compared with
separate processes, one for each checkpoint. The adapters are untrained and do not change the model.
"""

import benchmarks
from benchmarks import compare, from_demo, program, row
from hardgrpo.data import tasks
from hardgrpo.runtime import files, provenance
from hardgrpo.sampling.requests import Request, sample_seed
from hardgrpo.study import paths

import os
import random
import time
from pathlib import Path

BATCH, SAMPLES, TOKENS, ADAPTERS = 128, 4, 64, 10
TASKS = ("arithmetic", "arithmetic_hard")  # completions of different lengths


def run(options) -> list[dict]:
    manifest, *tests = from_demo(
        f"{options.model}/manifest.json", *(paths.problems(task, "test") for task in TASKS)
    )
    model_folder = manifest.parent
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from hardgrpo.sampling import engines

    import torch

    engines.configure_torch()
    tokenizer = engines.load_tokenizer(model_folder)
    model = engines.load(str(model_folder))
    model.generation_config.eos_token_id = engines.end_tokens(str(model_folder), tokenizer)
    problems = [problem for path in tests for problem in tasks.read_problems(path)[:128]]
    random.Random(0).shuffle(problems)
    requests = [
        Request(
            tuple(tasks.messages("{question}", problem["question"])),
            sample_seed("bench", problem["id"], k),
            1.0,
        )
        for problem in problems
        for k in range(SAMPLES)
    ]
    prompts = engines.tokenize(tokenizer, requests, {})

    def generate_by_project() -> float:
        started = time.process_time()
        completions = engines.generate(model, tokenizer, prompts, requests, TOKENS, BATCH)
        return sum(completion.tokens for completion in completions) / (
            time.process_time() - started
        )

    def generate_padded() -> float:
        torch.manual_seed(0)
        started, tokens = time.process_time(), 0
        for start in range(0, len(prompts), BATCH):
            inputs = tokenizer.pad(
                {"input_ids": prompts[start : start + BATCH]}, return_tensors="pt"
            )
            generated = model.generate(
                **inputs, do_sample=True, top_k=0, top_p=1.0, temperature=1.0, max_new_tokens=TOKENS
            )
            for ids in generated[:, inputs["input_ids"].shape[1] :].tolist():
                length = next(
                    (place + 1 for place, token in enumerate(ids) if token in end_ids), len(ids)
                )
                tokenizer.decode(ids[:length], skip_special_tokens=True)
                tokens += length
        return tokens / (time.process_time() - started)

    end_ids = set(torch.tensor(model.generation_config.eos_token_id).flatten().tolist())
    rows = [
        compare(
            f"probing in batches of {BATCH}; model.generate",
            "tokens/s",
            generate_by_project,
            generate_padded,
            options.repeats,
            "ratio >= 1.5",
        )
    ]
    for kind in (torch.float32, torch.bfloat16):
        model.to(kind)
        large, small = (
            engines.generate(model, tokenizer, prompts, requests, TOKENS, batch)
            for batch in (8 * BATCH, BATCH // 2)
        )
        differing = sum(
            completion != small_completion for completion, small_completion in zip(large, small)
        )
        name = f"completions that differ between batches of {8 * BATCH} and {BATCH // 2}, {str(kind).removeprefix('torch.')}"
        rows.append(row(f"{name}; all", "completions", differing, len(requests)))
    return rows + evaluation(engines, options, model_folder, requests, prompts, tokenizer, tests[0])


def evaluation(
    engines, options, model_folder: Path, requests: list, prompts: list, tokenizer, problems: Path
) -> list[dict]:
    """Rows of the benchmark for the evaluation of a base model with its adapters. The processor
    times include the start of the engines."""
    requests, prompts = requests[: 2 * BATCH], prompts[: 2 * BATCH]
    with benchmarks.scratch() as temporary:
        folders = new_adapters(engines.load(str(model_folder)), Path(temporary))

        def together() -> float:
            started = time.process_time()
            list(
                engines.sample(
                    "transformers",
                    str(model_folder),
                    requests,
                    TOKENS,
                    {},
                    [None, *map(str, folders)],
                    batch=BATCH,
                )
            )
            return time.process_time() - started

        def one_call() -> float:
            copies = 1 + len(folders)
            started = time.process_time()
            engines.generate(
                engines.load(str(model_folder)),
                tokenizer,
                prompts * copies,
                requests * copies,
                TOKENS,
                BATCH,
            )
            return time.process_time() - started

        name, repeats = f"base and {len(folders)} adapters", max(1, options.repeats // 2)
        what = f"{name}, one engine, compared with as many completions of the base model"
        rows = [compare(what, "processor s", together, one_call, repeats, "ratio <= 1.3")]
        few_problems = Path(temporary) / "problems.jsonl"
        files.write_jsonl(few_problems, files.read_jsonl(problems, {"id": str})[:64])

        def evaluate(*arguments: str) -> float:
            command = program(
                "evaluate",
                "--model",
                model_folder,
                *arguments,
                "--problems",
                few_problems,
                "--prompt",
                "{question}",
            )
            command += [
                "--grader",
                "final_word",
                "--samples",
                str(SAMPLES),
                "--completion-tokens",
                str(TOKENS),
                "--seed",
                "0",
            ]
            command += [
                "--batch",
                str(BATCH),
                "--output",
                f"{temporary}/graded.csv",
                "--completions",
                f"{temporary}/texts.jsonl",
            ]
            return benchmarks.run(command)[1]

        separately = lambda: (
            evaluate()
            + sum(
                evaluate("--checkpoints", f"{temporary}/only-{folder.name}") for folder in folders
            )
        )
        at_once = lambda: evaluate("--checkpoints", temporary, "--base")
        return [
            *rows,
            compare(
                f"evaluate.py, {name}; a process for each", "processor s", at_once, separately, 1
            ),
        ]


def new_adapters(model, folder: Path) -> list[Path]:
    """Write untrained adapters as checkpoints of one run in `folder`, and each adapter also as the
    only checkpoint of a run in `only-step-N`. Return the folders of the first run's checkpoints."""
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    steps = [10 * (number + 1) for number in range(ADAPTERS)]
    for step in steps:
        single_folder = folder / f"only-step-{step}"
        for place in (folder / f"step-{step}", single_folder / f"step-{step}"):
            adapted.save_pretrained(place)
            provenance.write_manifest(place)
        provenance.write_listing(single_folder, {}, steps=[step])
    provenance.write_listing(folder, {}, steps=steps)
    return [folder / f"step-{step}" for step in steps]
