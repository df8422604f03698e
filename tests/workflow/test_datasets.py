"""Files of datasets from a small local hub (tests/hub.py) are compared with inputs.lock. Each error
message is one line."""

import json
import signal
import subprocess

from download_folder import DATASET, FILE, MODEL, assert_done, assert_refused
from hardgrpo.runtime import files
from hub import TOKEN, commit_of


def test_first_download_writes_the_lock_and_the_second_matches(work, dataset):
    assert_done(work.dataset(), "new in the lock")
    assert work.out.read_bytes() == (dataset / FILE).read_bytes()
    lock = json.loads(work.lock.read_text())
    file_entry = {"bytes": work.out.stat().st_size, "sha256": files.sha256(work.out)}
    assert lock == {"datasets": {f"{DATASET}@{commit_of('datasets', DATASET)}": {FILE: file_entry}}}
    written = work.lock.read_bytes()
    work.out.unlink()
    assert_done(work.dataset(), "as locked")
    assert work.lock.read_bytes() == written and not work.leftovers()
    assert_done(work.dataset(file="main/train[1].jsonl"), "new in the lock")


def test_changed_content_is_refused_until_updated(work, dataset):
    assert_done(work.dataset())
    before, lock = work.out.read_bytes(), work.lock.read_bytes()
    old = files.sha256(dataset / FILE)
    (dataset / FILE).write_text('{"question": "1 + 1?", "answer": "3"}\n')
    new = files.sha256(dataset / FILE)
    assert_refused(work.dataset(), "inputs.lock", DATASET, FILE, old, new, "--update-inputs")
    assert work.out.read_bytes() == before and work.lock.read_bytes() == lock
    assert not work.leftovers()
    assert_done(work.dataset("--update-inputs"), "replaced in the lock")
    assert new in work.lock.read_text() and old not in work.lock.read_text()
    assert files.sha256(work.out) == new
    assert_done(work.dataset(), "as locked")


def test_a_killed_download_leaves_no_file_and_is_repeated(work, dataset):
    (dataset / FILE).write_text('{"question": "?", "answer": "1"}\n' * 10000)
    work.hub.stall = FILE
    entry = f"{DATASET}@{commit_of('datasets', DATASET)}"
    arguments = ["--section", "datasets", "--entry", entry, "--name", FILE]
    process = subprocess.Popen(
        work.command("fetch_original.py", *arguments),
        cwd=work.folder,
        env=work.hub.environment(work.folder),
    )
    assert work.hub.stalled.wait(60)
    process.send_signal(signal.SIGKILL)
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
    assert_refused(work.dataset(HF_ENDPOINT="http://127.0.0.1:9"), DATASET, remedy)
    assert_refused(work.model(HF_ENDPOINT="http://127.0.0.1:9"), MODEL, remedy)
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_a_gated_repository_needs_a_token_with_access(work, model, dataset):
    work.hub.repositories["models", MODEL].gated = True
    work.hub.repositories["datasets", DATASET].gated = True
    for fetch in (work.model, work.dataset):
        assert_refused(fetch(), "gated repo", "HF_TOKEN")
        assert_refused(fetch(token="hf_stranger"), "gated repo", "licence")
        assert not work.out.exists() and not work.lock.exists() and not work.leftovers()
    assert_done(work.dataset(token=TOKEN))
    work.out.unlink()
    assert_done(work.model(token=TOKEN), "new in the lock")
    assert TOKEN not in "".join(
        p.read_text(errors="replace") for p in [work.lock, *work.out.iterdir()]
    )
