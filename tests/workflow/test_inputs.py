"""Files of datasets and repositories, from a small local hub (tests/hub.py), from a server of files
or from a mirror, are compared with inputs.lock. Each error message is one line."""

import concurrent.futures
import functools
import http.server
import json
import multiprocessing
import shutil
import subprocess

import pytest

from command_line import assert_refused, run
from download_folder import DATASET, FILE, MODEL, REVISION, assert_done, names
from hardgrpo.data import inputs
from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import UserError
from hub import TOKEN, commit_of, serve

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GONE = "http://127.0.0.1:9"  # no server listens here


def test_the_first_download_writes_the_lock_and_changed_content_is_refused_until_updated(
    work, dataset
):
    entry = f"{DATASET}@{commit_of('datasets', DATASET)}"
    facts = lambda path: {"bytes": path.stat().st_size, "sha256": files.sha256(path)}
    assert_done(work.dataset(), "new in the lock")
    old = facts(work.out)
    assert work.out.read_bytes() == (dataset / FILE).read_bytes()
    assert json.loads(work.lock.read_text()) == {"datasets": {entry: {FILE: old}}}
    before, lock = work.out.read_bytes(), work.lock.read_bytes()
    work.out.unlink()
    assert_done(work.dataset(), "as locked")
    (dataset / FILE).write_text('{"question": "1 + 1?", "answer": "3"}\n')
    new = facts(dataset / FILE)
    words = ("inputs.lock", DATASET, FILE, old["sha256"], new["sha256"], "--update-inputs")
    assert_refused(work.dataset(), *words)
    assert work.out.read_bytes() == before and work.lock.read_bytes() == lock
    assert not work.leftovers()
    assert_done(work.dataset("--update-inputs"), "replaced in the lock")
    assert json.loads(work.lock.read_text()) == {"datasets": {entry: {FILE: new}}}
    assert facts(work.out) == new
    assert_done(work.dataset(), "as locked")
    assert_done(work.dataset(file="main/train[1].jsonl"), "new in the lock")


def test_a_killed_download_leaves_no_file_and_is_repeated(work, dataset):
    (dataset / FILE).write_text('{"question": "?", "answer": "1"}\n' * 10000)
    work.hub.stall = FILE
    process = subprocess.Popen(
        work.dataset_command(DATASET, None, FILE),
        cwd=work.folder, env=work.hub.environment(work.folder),
    )  # fmt: skip
    assert work.hub.stalled.wait(60)
    process.kill()
    process.wait()
    assert not work.out.exists() and not work.lock.exists()
    work.hub.stall = None
    assert_done(work.dataset(), "new in the lock")
    assert work.out.read_bytes() == (dataset / FILE).read_bytes() and not work.leftovers()


# --- downloads that the hub refuses


def test_an_unknown_repository_file_or_revision_is_refused(work, dataset, model):
    assert_refused(work.dataset(name="someone/nothing"), "someone/nothing", "check name")
    assert_refused(work.dataset(revision="0" * 40), DATASET, "0" * 40)
    assert_refused(work.dataset(file="main/none.jsonl"), DATASET, "main/none.jsonl")
    assert_refused(work.dataset(name="a/b/c"), "a/b/c")
    assert_refused(work.model(source={"repository": "someone/nothing"}), "someone/nothing")
    assert_refused(work.model(source={"revision": "0" * 40}), MODEL, "0" * 40)
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_an_unreachable_hub_and_offline_mode_are_errors_with_a_remedy(work, dataset, model):
    remedy = "without internet access"
    assert_refused(work.dataset(HF_HUB_OFFLINE="1"), DATASET, remedy)
    assert_refused(work.model(HF_ENDPOINT=GONE), MODEL, remedy)
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_a_gated_repository_needs_a_token_with_access(work, model, dataset):
    work.hub.gated = {("models", MODEL), ("datasets", DATASET)}
    for fetch in (work.model, work.dataset):
        assert_refused(fetch(), "gated repo", "HF_TOKEN")
        assert_refused(fetch(token="hf_stranger"), "gated repo", "licence")
        assert not work.out.exists() and not work.lock.exists() and not work.leftovers()
    assert_done(work.dataset(token=TOKEN))
    work.out.unlink()
    assert_done(work.model(token=TOKEN), "new in the lock")
    written = [work.lock, *work.out.iterdir()]
    assert not any(TOKEN in path.read_text(errors="replace") for path in written)


# --- the lock


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n "datasets": {\n<<<<<<< HEAD\n', ["line 3, column 1", "not valid JSON", "conflict"]),
        ("[]", ["expected a JSON object, found list"]),
    ],
)
def test_a_garbled_lock_is_refused_and_not_changed(work, text, words):
    work.lock.write_text(text)
    assert_refused(work.dataset(), "inputs.lock", *words, "git checkout")
    assert work.lock.read_text() == text and not work.hub.requests and not work.out.exists()


def test_lock_is_sorted_and_ends_in_a_newline(tmp_path):
    lock = tmp_path / "inputs.lock"
    entry = {name: {"bytes": 1, "sha256": "0" * 64} for name in ("b", "a")}
    for section, name in (("packages", "z==1"), ("models", "z@1"), ("models", "a@1")):
        inputs.check(lock, section, name, entry)
    text = lock.read_text()
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


PROBLEMS = [
    {"question": f"{n} + 1?", "answer": str(n + 1), "tier": n % 3, "id": str(n)} for n in range(5)
]


def write_entries(lock: str, first: int) -> None:
    for number in range(first, first + 20):
        inputs.check_problems(lock, f"task{number}/train", PROBLEMS, update=False)


def test_no_entry_is_lost_when_many_write_at_once(tmp_path):
    lock = tmp_path / "inputs.lock"
    with concurrent.futures.ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(write_entries, str(lock), 20 * worker) for worker in range(4)]:
            done.result()
    assert set(inputs.read_lock(lock)["problems"]) == {f"task{number}" for number in range(80)}


def test_problems_are_pinned_by_content(tmp_path):
    lock = tmp_path / "inputs.lock"
    check = lambda problems, **options: inputs.check_problems(
        lock, "gsm8k/train", problems, **{"update": False} | options
    )
    assert check(PROBLEMS) == "new in the lock"
    written = lock.read_bytes()
    renamed = [row | {"id": f"other-{row['id']}", "source": "elsewhere"} for row in PROBLEMS]
    assert check(renamed) == "as locked", "the lock does not compare `id` and `source`"
    with pytest.raises(UserError, match=r"gsm8k: train.*found 4 rows.*expected 5.*--update-inputs"):
        check(PROBLEMS[:4])
    for key, value in (("question", "2 + 2?"), ("answer", "7"), ("tier", None)):
        changed = [*PROBLEMS[:2], PROBLEMS[2] | {key: value}, *PROBLEMS[3:]]
        message = "gsm8k: train.*sha256 [0-9a-f]{64}, expected 5.*[0-9a-f]{64}.*--update-inputs"
        with pytest.raises(UserError, match=message):
            check(changed)
    with pytest.raises(UserError, match="gsm8k: train"):
        check(PROBLEMS[::-1])
    assert lock.read_bytes() == written
    assert check(PROBLEMS[:4], update=True) == "replaced in the lock"
    assert inputs.read_lock(lock)["problems"]["gsm8k"]["train"]["rows"] == 4


# --- mirrors of inputs that their source no longer has


@pytest.fixture
def web(tmp_path):
    """The address of a server of the files in tmp_path/mirror."""
    (tmp_path / "mirror").mkdir()

    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "mirror")
    with serve(handler) as address:
        yield f"{address}/"


@pytest.fixture(params=["folder", "address"])
def place(request, tmp_path, web) -> str:
    return str(tmp_path / "mirror") if request.param == "folder" else web


def test_a_dataset_that_is_gone_comes_from_the_mirror(work, dataset, place):
    entry = f"{DATASET}@{commit_of('datasets', DATASET)}"
    copy = work.folder / "mirror" / entry.replace("/", "--") / FILE
    copy.parent.mkdir(parents=True)
    shutil.copy(dataset / FILE, copy)
    work.hub.repositories.clear()
    assert_refused(work.dataset(), DATASET, "HARDGRPO_MIRROR")
    assert_refused(work.dataset(HARDGRPO_MIRROR=place), f"inputs.lock lacks {FILE}")
    facts = {"bytes": copy.stat().st_size, "sha256": files.sha256(copy)}
    work.lock.write_text(json.dumps({"datasets": {entry: {FILE: facts}}}))
    done = work.dataset(HARDGRPO_MIRROR=place)
    assert_done(done, "as locked")
    assert f"taken from the mirror {place}" in done.stderr
    assert work.out.read_bytes() == copy.read_bytes()


def test_a_model_that_is_gone_comes_from_the_mirror_with_the_same_manifest(work, model, place):
    assert_done(work.model())
    manifest = provenance.check_manifest(work.out)
    shutil.copytree(work.out, work.folder / f"mirror/{MODEL.replace('/', '--')}@{REVISION}")
    shutil.rmtree(work.out)
    work.hub.repositories.clear()
    assert_done(work.model(HARDGRPO_MIRROR=place), "as locked")
    assert provenance.check_manifest(work.out) == manifest


def fetch_original(work, server: str, **env) -> subprocess.CompletedProcess:
    return run(
        work.folder, "fetch_original", env={"HARDGRPO_GITHUB": server} | env,
        section="repositories", entry=f"someone/runs@{COMMIT}", name="a b/test.json",
        output="out/test.json",
    )  # fmt: skip


@pytest.fixture
def locked_original(work, web) -> str:
    """Add a file of a GitHub repository to the lock and to the mirror, then delete the file from
    its server. Return the address of the server."""
    file = work.folder / f"mirror/someone/runs/{COMMIT}/a b/test.json"
    file.parent.mkdir(parents=True)
    file.write_text("[1]")
    assert_done(fetch_original(work, web), "new in the lock")
    copy = work.folder / f"mirror/someone--runs@{COMMIT}"
    (work.folder / f"mirror/someone/runs/{COMMIT}").rename(copy)
    shutil.rmtree(work.out)
    return web


def test_a_file_that_is_gone_from_its_repository_comes_from_the_mirror(
    work, locked_original, place
):
    done = fetch_original(work, locked_original)
    assert_refused(done, "a b/test.json: cannot be downloaded", "HARDGRPO_MIRROR")
    for server in (locked_original, GONE):
        done = fetch_original(work, server, HARDGRPO_MIRROR=place)
        assert_done(done, "as locked")
        assert (work.out / "test.json").read_text() == "[1]"


def test_a_changed_or_missing_file_of_a_mirror_is_refused(work, locked_original, place):
    (copy,) = (work.folder / "mirror").rglob("test.json")
    for content in (b"[2]", b"", b"x" * 10_000, None):
        copy.unlink() if content is None else copy.write_bytes(content)
        done = fetch_original(work, GONE, HARDGRPO_MIRROR=place)
        assert_refused(done, f"mirror {place}", "test.json")
        assert not work.out.exists() or names(work.out) == set()


@pytest.mark.parametrize("mirror", [GONE, "https://", "http://[", "http://a:b/c", "nowhere", "\t"])
def test_a_wrong_address_of_a_mirror_gives_a_one_line_error(work, locked_original, mirror):
    done = fetch_original(work, GONE, HARDGRPO_MIRROR=mirror)
    assert_refused(done, "a b/test.json")
    assert (f"mirror {mirror}" in done.stderr) == bool(mirror.strip())
