"""The statements of docs/security.md about untrusted input."""

import getpass
import http.server
import importlib.util
import json
import os
import re
import shlex
import stat
import sys
from pathlib import Path

import pytest

import project_config
from command_line import run_python
from conftest import ROOT
from hardgrpo.data import fetch
from hardgrpo.report import latex, tables
from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks
from hub import serve

CODE = {
    path: path.read_text(encoding="utf-8")
    for folder in ("src", "scripts")
    for path in (ROOT / folder).rglob("*.py")
}


def test_nothing_loads_code_or_pickle():
    forbidden = r"\bimport (?:pickle|dill|joblib|shelve|marshal|tarfile)\b|\btorch\.load\((?!path, weights_only=True)|pickle\.loads?\(|allow_pickle=True|trust_remote_code=True|yaml\.(?:unsafe_|full_)?load\((?!text, _Yaml)|shell=True|os\.system\(|extractall\("
    assert {
        path: hit[0] for path, text in CODE.items() if (hit := re.search(forbidden, text))
    } == {}
    assert '"trust_remote_code": False' in CODE[ROOT / "src/hardgrpo/sampling/model_folders.py"]


def test_checkpoints_are_read_by_torch_as_data_alone():
    """transformers' trainer reads the states of the optimiser, of the scheduler and of the random
    generators from a checkpoint."""
    folder = Path(importlib.util.find_spec("transformers").origin).parent
    trainer = (folder / "trainer.py").read_text(encoding="utf-8")
    calls = re.findall(r"torch\.load\(((?:[^()]|\([^()]*\))*)\)", trainer)
    assert len(calls) > 3 and [call for call in calls if "weights_only=True" not in call] == []


@pytest.mark.parametrize("name", ["../x.json", "/tmp/x.json", "a/../../x.json"])
def test_a_download_stays_in_its_folder(tmp_path, name):
    with pytest.raises(UserError, match="would be written outside of its folder"):
        fetch.download("datasets", "a/b@c", [name], tmp_path, tmp_path / "lock")


@pytest.mark.parametrize("section", ["tasks", "models", "policies", "recipes", "studies"])
def test_names_that_are_unsafe_in_a_shell_are_refused(section):
    config = project_config.config()
    for name in ("a b", "$(id)", "`id`", "../a", "-rf", "", "a'b", "a\n"):
        config[section] = {name: next(iter(config[section].values()))}
        with pytest.raises(UserError, match=rf"^config\.yaml: {section}"):
            checks.check(config, "config.yaml")


@pytest.mark.slow
def test_no_value_of_the_configuration_reaches_a_shell(world):
    """Paths, prompts and columns that a shell would execute or split are passed unchanged."""
    hostile = "a b'c\"d $(touch pwned) `touch pwned`; touch pwned & x"
    column = hostile.replace('"', '""')
    (world.folder / hostile).mkdir()
    (world.folder / hostile / f"{hostile}.csv").write_text(f'"{column}",answer\nq 1,1\nq 2,2\n')
    source = {"kind": "files", "train": f"{hostile}.csv", "columns": {"question": hostile}}
    task = {"source": source, "prompt": "{question} " + hostile, "grader": "number_lenient"}
    task |= {"completion_tokens": 5, "probe": {"samples": 1, "shards": 1, "seed": 1}}
    world.configure(lambda config: config["tasks"].update(mine=task))
    world.configure(lambda config: config.update(data=hostile))
    world.run("results/tasks/mine/train.jsonl")
    rows = files.read_jsonl(world.folder / "results/tasks/mine/train.jsonl", {})
    assert [row["question"] for row in rows] == ["q 1", "q 2"]
    output = world.run("-n", "-p", "results/probe/tiny-seed0/mine/shard0.jsonl.gz")
    assert not list(world.folder.rglob("pwned"))
    commands = [line for line in output.splitlines() if "scripts/probe/probe.py" in line]
    assert commands
    assert all(f"{{question}} {hostile}" in shlex.split(command) for command in commands)


def test_text_is_escaped_in_tex_and_html():
    text = "\\input{/etc/passwd} $x$ 5% & #1 a_b ^ ~ {} \x1b[31m \x00 <script>alert('x')</script> \u202e \u2028\u2029"
    escaped = latex.escape(text)
    for replacement in sorted(latex.CHARACTERS.values(), key=len, reverse=True):
        escaped = escaped.replace(replacement, "")
    assert not set(escaped) & set("\\$%&#_^~{}\x1b\x00\u202e\u2028\u2029")
    cell = tables.to_html("t", [tables.Column("x", [text])]).split("<td>")[1].split("</td>")[0]
    assert not set(cell) & set("<>")


def test_every_page_has_a_policy_that_allows_no_unsafe_script():
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.html")}
    pages = {path: text for path, text in pages.items() if "<head>" in text}
    assert len(pages) >= 3
    for path, text in pages.items():
        pattern = r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">'
        (policy,) = re.findall(pattern, text)
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        sources = {rules.get(name) for name in ("default-src", "base-uri", "form-action")}
        assert sources == {"'none'"} and rules["img-src"] == "data:", path
        assert ("<script" in text) == ("script-src" in rules), path
        assert "unsafe" not in rules.get("script-src", ""), path
        first = min(text.index(tag) for tag in ("<title>", "<style>"))
        assert text.index("Content-Security-Policy") < first, path


def test_files_follow_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        files.write_text(tmp_path / "a/b.csv", "x")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a/b.csv", "a")]
    assert modes == [0o600, 0o700]


def test_a_token_is_in_no_provenance(monkeypatch):
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY"):
        monkeypatch.setenv(name, "hf_s3cret")
    assert "hf_s3cret" not in json.dumps(provenance.describe(0.0, arguments=sys.argv))


@pytest.mark.slow
def test_no_library_makes_a_folder_in_tmp_that_others_can_guess(tmp_path, monkeypatch):
    """By default, importing torch makes the folder `torchinductor_USER` in /tmp, or accepts a folder
    of another account, and fails if a file has that name."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    names = [f"torchinductor_{getpass.getuser()}", "torchinductor_root", "torchinductor"]
    for name in names:
        (temporary / name).touch()
    for name in list(os.environ):
        if name.startswith(("TORCHINDUCTOR", "TRITON")):
            monkeypatch.delenv(name)
    code = "from hardgrpo.runtime import user_settings; user_settings.ignore(); import torch._dynamo.package, trl"
    done = run_python("-c", code, folder=tmp_path, TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr
    assert {path.name for path in temporary.iterdir()} == set(names)


ANSWERS = {  # {repository: (status, headers, body)}
    "r/revision": (404, {"X-Error-Code": "RevisionNotFound"}, ""),
    "r/repository": (404, {"X-Error-Code": "RepoNotFound"}, ""),
    "r/401": (401, {}, ""),
    "r/gated": (403, {"X-Error-Code": "GatedRepo"}, ""),
    "r/500": (500, {}, ""),
    "r/page": (200, {"Content-Type": "text/html"}, "<html>"),
    "r/number": (200, {"Content-Type": "application/json"}, '{"siblings": 5}'),
    "r/redirect": (302, {"Location": "http://127.0.0.1:9/elsewhere"}, ""),
    "r/loop": (302, {"Location": "/api/models/r/loop/revision/main"}, ""),
}
ASK = """
import contextlib, sys
from hardgrpo.data import fetch
from hardgrpo.runtime.errors import UserError
for name in sys.argv[1:]:
    try:
        fetch.list_names("models", f"{name}@main", "inputs.lock")
    except UserError as error:
        print(f"{name}: {error}")
"""


class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = next((name for name in ANSWERS if f"/{name}/" in f"{self.path}/"), None)
        status, headers, body = ANSWERS.get(name, (404, {}, ""))
        self.send_response(status)
        for header, value in headers.items():
            self.send_header(header, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_HEAD = do_GET


def test_the_password_of_a_hub_is_in_no_message_whatever_the_hub_answers(tmp_path):
    with serve(Hub) as address:
        environment = {
            "HF_ENDPOINT": address.replace("//", "//me:PASSW0RD%40INURL@"),
            "HF_HUB_OFFLINE": "0",  # this test's hub runs on this machine
            "HF_TOKEN": "hf_SECRETTOKEN",
        }
        done = run_python("-c", ASK, *ANSWERS, folder=tmp_path, **environment)
    text = done.stdout + done.stderr
    assert done.returncode == 0 and done.stdout.count("\n") == len(ANSWERS), text
    assert "127.0.0.1" in text and "PASSW0RD" not in text and "SECRETTOKEN" not in text, text


ADDRESSES = [
    ("HTTPS_PROXY", "https://me:PASS@W0RD@index.example/simple https://two.example", "PASS@W0RD"),
    ("PIP_EXTRA_INDEX_URL", "https://me:PASSW0RD/x@index.example/simple", "PASSW0RD/x"),
    ("HF_ENDPOINT", "https://me:PASSW0RD#?@index.example", "PASSW0RD#?"),
    ("UV_INDEX", "https://me:PASSW0RD:x@index.example", "PASSW0RD:x"),
    ("http_proxy", "me:PASSW0RD@proxy.example:3128", "PASSW0RD"),
    ("ALL_PROXY", "me:PASSW0RD@proxy.example:3128", "PASSW0RD"),
    ("HF_ENDPOINT", "https://me:PASS%40W0RD@hub.example", "PASS%40W0RD"),
]
VALUES = [
    ("AWS_SECRET_ACCESS_KEY", "PASSW0RD", "PASSW0RD"),
    ("DATABASE_PASS", "PASSW0RD", "PASSW0RD"),
    ("HF_TOKEN", "PASS/W0RD+", "PASS/W0RD+"),
]


@pytest.mark.parametrize(("name", "value", "secret"), [*ADDRESSES, *VALUES])
def test_no_secret_is_in_a_message(monkeypatch, name, value, secret):
    monkeypatch.setenv(name, value)
    address = f"https://me:{secret}@index.example/simple"
    for form in (value, secret, f"me:{secret}", address, f"a ({address}) b"):
        message = str(UserError(f"cannot use '{form}'"))
        assert "PASS" not in message and "W0RD" not in message, message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "https://files.example/a?X-Amz-Signature=1234&part=2&token=5678&sig=9 (403)",
            "https://files.example/a?X-Amz-Signature=...&part=2&token=...&sig=... (403)",
        ),
        *((text, text) for text in ("https://huggingface.co/a/b", "somebody@example.org", "http://127.0.0.1:9/x@y", "a // b @ c")),
    ],
)  # fmt: skip
def test_only_the_secrets_of_addresses_are_left_out_of_messages(text, expected):
    assert str(UserError(text)) == expected
