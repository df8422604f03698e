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
from download_folder import DATASET, FILE, MODEL, REVISION, assert_done, assert_refused, names
from hardgrpo.runtime import files, provenance
from hub import commit_of

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
    command = [sys.executable, path_of("fetch_original"), "--section", "repositories"]
    command += ["--entry", f"someone/runs@{COMMIT}", "--name", "a b/test.json"]
    command += ["--output", "out/test.json"]
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
    copy = work.folder / f"mirror/someone--runs@{COMMIT}"
    (work.folder / f"mirror/someone/runs/{COMMIT}").rename(copy)
    shutil.rmtree(work.out)
    return web


def test_a_file_that_is_gone_from_its_repository_comes_from_the_mirror(
    work, locked_original, place
):
    assert_refused(
        fetch_original(work, locked_original),
        "a b/test.json: cannot be downloaded",
        "HARDGRPO_MIRROR",
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
        assert_refused(done, f"mirror {place}", "test.json")
        assert not work.out.exists() or names(work.out) == set()
    copy.unlink()
    done = fetch_original(work, GONE, HARDGRPO_MIRROR=place)
    assert_refused(done, f"mirror {place}", "test.json")


@pytest.mark.parametrize("mirror", [GONE, "https://", "http://[", "http://a:b/c", "nowhere", "\t"])
def test_a_wrong_address_of_a_mirror_gives_a_one_line_error(work, locked_original, mirror):
    done = fetch_original(work, GONE, HARDGRPO_MIRROR=mirror)
    assert_refused(done, "a b/test.json")
    assert (f"mirror {mirror}" in done.stderr) == bool(mirror.strip())


def test_only_files_with_a_checksum_come_from_a_mirror(work, locked_original):
    work.lock.unlink()
    done = fetch_original(work, GONE, HARDGRPO_MIRROR="mirror")
    assert_refused(done, "inputs.lock lacks a b/test.json")
