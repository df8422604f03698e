"""A small hub for tests: serves folders over HTTP to huggingface_hub.

As on the real hub, anyone may list a gated repository, but only tokens that were granted access may
download its files.
"""

import contextlib
import hashlib
import http.server
import json
import os
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TOKEN = "hf_granted"


def commit_of(kind: str, name: str) -> str:
    """The commit of every repository `name` of `kind` ("models" or "datasets")."""
    return hashlib.sha1(f"{kind}/{name}".encode()).hexdigest()


@contextlib.contextmanager
def serve(handler: Callable) -> Iterator[str]:
    """Serve requests by a handler. The value is the address of the server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Hub:
    def __init__(self):
        self.repositories: dict[tuple[str, str], Path] = {}  # {(kind, name): folder}
        self.gated: set[tuple[str, str]] = set()
        self.requests: list[tuple[str, str]] = []  # (method, path) of each request
        # name of a file: the hub sends half of this file, then nothing until the hub is closed
        self.stall: str | None = None
        self.stalled, self.closing = threading.Event(), threading.Event()

    def environment(self, home: Path, token: str | None = None) -> dict[str, str]:
        """The environment of a program that uses this hub, without a cache of earlier downloads and
        without other tokens."""
        foreign = ("HF_", "HUGGING")
        environment = {key: text for key, text in os.environ.items() if not key.startswith(foreign)}
        environment |= {"HF_ENDPOINT": self.url, "HF_HOME": str(home / "hf_home")}
        environment["HF_HUB_DISABLE_XET"] = "1"
        return environment | ({"HF_TOKEN": token} if token else {})


@pytest.fixture
def hub():
    hub = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            answer(hub, self)

        do_HEAD = do_GET

    with serve(Handler) as hub.url:
        yield hub
        hub.closing.set()


def answer(hub: Hub, request: http.server.BaseHTTPRequestHandler) -> None:
    path = urllib.parse.unquote(urllib.parse.urlsplit(request.path).path)
    hub.requests.append((request.command, path))
    parts = path.strip("/").split("/")
    api = parts[0] == "api"
    if api:
        parts = parts[1:]
    kind = parts.pop(0) if api or parts[0] == "datasets" else "models"
    key = (kind, "/".join(parts[:2]))
    folder, commit = hub.repositories.get(key), commit_of(*key)
    if folder is None:
        # The real hub's API gives a request without a token the same answer, 401, for a missing and
        # for a private repository.
        return refuse(request, 401 if api else 404, "RepoNotFound")
    action, revision = (parts[2:4] + [None, None])[:2]
    file = "/".join(parts[4:])
    if revision not in (None, commit):
        return refuse(request, 404, "RevisionNotFound")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    if api and action in (None, "revision"):
        siblings = [{"rfilename": name} for name in names]
        facts = {"id": key[1], "sha": commit, "private": False}
        return send(request, facts | {"siblings": siblings})
    if api or action != "resolve" or file not in names:
        return refuse(request, 404, "EntryNotFound")
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if key in hub.gated and token != TOKEN:
        return refuse(request, 403 if token else 401, "GatedRepo")
    data = (folder / file).read_bytes()
    headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": commit}
    if request.command == "GET" and file == hub.stall:
        send_headers(request, 200, headers | {"Content-Length": str(len(data))})
        request.wfile.write(data[: len(data) // 2])
        request.wfile.flush()
        hub.stalled.set()
        hub.closing.wait()
        return None
    return send(request, data, headers)


def send(request, content, headers: dict | None = None) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    send_headers(request, 200, (headers or {}) | {"Content-Length": str(len(data))})
    if request.command == "GET":
        request.wfile.write(data)


def refuse(request, status: int, code: str) -> None:
    send_headers(request, status, {"Content-Length": "0", "X-Error-Code": code})


def send_headers(request, status: int, headers: dict) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
