"""Datasets from a small local hub (tests/hub.py) are compared with inputs.lock. Each error
message is one line."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from download_folder import DATASET, MODEL, REVISION, assert_done, assert_refused, names
from hardgrpo.data import dataset_folders
from hardgrpo.runtime import files, provenance
from hub import TOKEN

LLAMA = {"licence": "Llama Community License", "gated": True}


def test_first_download_writes_the_lock_and_the_second_matches(work, dataset):
    assert_done(work.dataset(), "3 files", "new in the lock")
    assert names(work.out) == {
        "README.md",
        "main/test.jsonl",
        "main/train[1].jsonl",
        "manifest.json",
    }
    manifest = provenance.check_manifest(work.out)
    commit = work.hub.repositories["datasets", DATASET].commit
    assert (manifest["dataset"], manifest["revision"], manifest["commit"]) == (
        DATASET,
        REVISION,
        commit,
    )
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
        [sys.executable, "-c", code],
        cwd=work.folder,
        env=work.hub.environment(work.folder),
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "2", done.stderr


def test_only_files_that_match_option_files_are_downloaded(work, dataset):
    assert_done(work.dataset("--files", "main/tr*"), "2 files")
    assert names(work.out) == {"README.md", "main/train[1].jsonl", "manifest.json"}
    assert not work.hub.has_request_for("main/test.jsonl") and not work.hub.has_request_for(
        "problems.py"
    )
    # Without --files, the download also includes a file that is not in the lock.
    sha = files.sha256(dataset / "main/test.jsonl")
    assert_refused(
        work.dataset(),
        f"dataset {DATASET}@{REVISION}",
        "main/test.jsonl",
        sha,
        "expected no such file",
        "--update-inputs",
    )


def test_hidden_files_are_not_downloaded(work, dataset):
    for name in (".cache/manifest.json", "main/.cache/test.jsonl", ".hidden.json"):
        (dataset / name).parent.mkdir(exist_ok=True)
        (dataset / name).write_text('{"a": 1}')
    assert_done(work.dataset(), "3 files")
    assert names(work.out) == {
        "README.md",
        "main/test.jsonl",
        "main/train[1].jsonl",
        "manifest.json",
    }


def test_the_configurations_in_huggingface_yaml_are_downloaded(work, dataset):
    """The library `datasets` reads configurations from this hidden file, too."""
    (dataset / ".huggingface.yaml").write_text(
        "configs:\n- config_name: other\n  data_files:\n  - split: few\n    path: main/train*.jsonl\n"
    )
    assert_done(work.dataset(), "4 files")
    (row,) = dataset_folders.read_rows(work.out, "other", "few")
    assert row["answer"] == "3"


@pytest.mark.parametrize("pattern", ["*.py", "mian/*"])
def test_a_pattern_that_matches_no_data_file_is_refused(work, dataset, pattern):
    assert_refused(work.dataset("--files", "main/*", pattern), f"'{pattern}'", "main/test.jsonl")
    assert not work.out.exists() and not work.lock.exists()


def test_changed_content_is_refused_until_updated(work, dataset):
    assert_done(work.dataset())
    before, lock = (work.out / "main/test.jsonl").read_bytes(), work.lock.read_bytes()
    old = files.sha256(dataset / "main/test.jsonl")
    (dataset / "main/test.jsonl").write_text('{"question": "1 + 1?", "answer": "3"}\n')
    new = files.sha256(dataset / "main/test.jsonl")
    assert_refused(
        work.dataset(), "inputs.lock", DATASET, "main/test.jsonl", old, new, "--update-inputs"
    )
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


def test_a_dataset_without_a_locked_file_is_refused(work, dataset):
    assert_done(work.dataset())
    sha = files.sha256(dataset / "main/train[1].jsonl")
    (dataset / "main/train[1].jsonl").unlink()
    assert_refused(work.dataset(), "main/train[1].jsonl: found no such file", sha)


def test_a_killed_download_leaves_no_file_and_is_repeated(work, dataset):
    (dataset / "main/test.jsonl").write_text('{"question": "?", "answer": "1"}\n' * 10000)
    work.hub.stall = "main/test.jsonl"
    arguments = ["--dataset", DATASET, "--revision", REVISION]
    process = subprocess.Popen(
        work.command("fetch_dataset.py", *arguments),
        cwd=work.folder,
        env=work.hub.environment(work.folder),
    )
    assert work.hub.stalled.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not work.out.exists() and not work.lock.exists()
    work.hub.stall = None
    assert_done(work.dataset(), "new in the lock")
    provenance.check_manifest(work.out)
    assert not work.leftovers()


# --- downloads that the hub refuses


def test_an_unknown_repository_or_revision_and_a_malformed_name_are_refused(work, dataset, model):
    assert_refused(
        work.dataset(name="someone/nothing"),
        "dataset someone/nothing",
        "no such dataset",
        "spelling",
    )
    assert_refused(work.dataset(revision="0" * 40), DATASET, f"no revision '{'0' * 40}'")
    assert_refused(work.dataset(name="a/b/c"), "'a/b/c'", "owner/name")
    assert_refused(work.model(source={"repository": "someone/nothing"}), "no such model")
    assert_refused(work.model(source={"revision": "nowhere"}), MODEL, "no revision 'nowhere'")
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_an_unreachable_hub_and_offline_mode_are_errors_with_a_remedy(work, dataset, model):
    remedy = "on a machine with internet access"
    assert_refused(work.dataset(HF_HUB_OFFLINE="1"), DATASET, "HF_HUB_OFFLINE", remedy)
    assert_refused(
        work.dataset(HF_ENDPOINT="http://127.0.0.1:9"),
        DATASET,
        "cannot download from http://127.0.0.1:9",
        remedy,
    )
    assert_refused(work.model(HF_ENDPOINT="http://127.0.0.1:9"), MODEL, remedy)
    work.hub.broken = True
    assert_refused(work.model(), MODEL, "status 500", "later")
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()


def test_a_gated_model_needs_a_token_with_access(work, model):
    work.hub.repositories["models", MODEL].gated = True
    assert_refused(
        work.model(source=LLAMA),
        f"{MODEL} is gated",
        "Llama Community License",
        "read token",
        "HF_TOKEN",
        "run again",
    )
    assert_refused(
        work.model(source=LLAMA, token="hf_stranger"),
        "is gated",
        "has no access",
        "Llama Community License",
    )
    # also if the configuration does not say that the model is gated
    assert_refused(work.model(), "is gated", "the licence at its page")
    assert not work.out.exists() and not work.lock.exists() and not work.leftovers()
    assert_done(work.model(source=LLAMA, token=TOKEN), "new in the lock")
    assert TOKEN not in "".join(
        p.read_text(errors="replace") for p in [work.lock, *work.out.iterdir()]
    )


def test_a_gated_dataset_needs_a_token_with_access(work, dataset):
    work.hub.repositories["datasets", DATASET].gated = True
    assert_refused(work.dataset(), f"{DATASET} is gated", "accept the licence", "HF_TOKEN")
    assert_done(work.dataset(token=TOKEN))
