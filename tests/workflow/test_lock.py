"""inputs.lock: its content, when it is written, and concurrent writes."""

import concurrent.futures
import copy
import json
import multiprocessing
import subprocess

import pytest

from conftest import ROOT
from download_folder import DATASET, FILE, SMOLLM2, assert_refused
from hardgrpo.data import inputs
from hardgrpo.runtime.errors import UserError
from hub import commit_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n "datasets": {\n<<<<<<< HEAD\n', ["line 3, column 1", "not valid JSON", "conflict"]),
        ("", ["line 1, column 1", "not valid JSON"]),
        ("[]", ["expected a JSON object, found list"]),
        ('{"datasets": {"a/b@main": {"commit": "c", "files": {}}}}', ["checksums"]),
        ('{"problems": {"gsm8k": {"train": {"rows": "7473"}}}}', ["checksums"]),
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
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_projects_own_lock_is_read():
    assert (
        f"{SMOLLM2['package']}=={SMOLLM2['version']}"
        in inputs.read_lock(ROOT / "inputs.lock")["packages"]
    )


def write_entries(lock: str, first: int) -> None:
    for number in range(first, first + 20):
        inputs.check_problems(lock, f"task{number}/train", PROBLEMS, update=False)


PROBLEMS = [
    {"question": f"{n} + 1?", "answer": str(n + 1), "tier": n % 3, "id": str(n)} for n in range(5)
]


def test_no_entry_is_lost_when_many_write_at_once(tmp_path):
    lock = tmp_path / "inputs.lock"
    with concurrent.futures.ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(write_entries, str(lock), 20 * worker) for worker in range(4)]:
            done.result()
    assert set(inputs.read_lock(lock)["problems"]) == {f"task{number}" for number in range(80)}
    assert [path.name for path in tmp_path.iterdir()] == ["inputs.lock"]


def test_two_downloads_at_once_both_update_the_lock(work, dataset):
    work.hub.add("datasets", "someone/others", dataset)
    jobs = []
    for name in (DATASET, "someone/others"):
        entry = f"{name}@{commit_of('datasets', name)}"
        options = ["--section", "datasets", "--entry", entry, "--name", FILE]
        command = work.command("fetch_original.py", *options)
        command[command.index("out")] = name.partition("/")[2]
        jobs.append(
            subprocess.Popen(command, cwd=work.folder, env=work.hub.environment(work.folder))
        )
    assert [job.wait() for job in jobs] == [0, 0]
    assert len(json.loads(work.lock.read_text())["datasets"]) == 2


def test_problems_are_pinned_by_content(tmp_path):
    lock = tmp_path / "inputs.lock"
    check = lambda problems, update=False: inputs.check_problems(
        lock, "gsm8k/train", problems, update
    )
    assert check(PROBLEMS) == "new in the lock"
    written = lock.read_bytes()
    renamed = [
        problem | {"id": f"other-{problem['id']}", "source": "elsewhere"} for problem in PROBLEMS
    ]
    # the lock does not compare `id` and `source`
    assert check(renamed) == "as locked"
    with pytest.raises(UserError, match=r"gsm8k: train.*found 4 rows.*expected 5.*--update-inputs"):
        check(PROBLEMS[:4])
    for key, value in (("question", "2 + 2?"), ("answer", "7"), ("tier", None)):
        changed = copy.deepcopy(PROBLEMS)
        changed[2][key] = value
        with pytest.raises(
            UserError,
            match="gsm8k: train.*sha256 [0-9a-f]{64}, expected 5.*[0-9a-f]{64}.*--update-inputs",
        ):
            check(changed)
    with pytest.raises(UserError, match="gsm8k: train"):
        check(PROBLEMS[::-1])
    assert lock.read_bytes() == written
    assert check(PROBLEMS[:4], update=True) == "replaced in the lock"
    assert inputs.read_lock(lock)["problems"]["gsm8k"]["train"]["rows"] == 4


def test_lock_that_matches_needs_no_right_to_write(tmp_path, monkeypatch):
    inputs.check_problems(tmp_path / "inputs.lock", "t/train", PROBLEMS, update=False)
    monkeypatch.setattr(inputs, "_exclusive", None)  # a write would call the function and fail
    assert (
        inputs.check_problems(tmp_path / "inputs.lock", "t/train", PROBLEMS, update=False)
        == "as locked"
    )
