"""No file outside a dataset's folder is read, except the blobs of a hub's cache, and no address is
opened, whatever files and addresses the dataset's card, links and columns name."""

import gzip
import json
import os
import socketserver
import threading
import zipfile

import pyarrow
import pyarrow.parquet
import pytest

from hardgrpo.data import sources
from hardgrpo.runtime.errors import UserError

SECRET = "THE USER'S PRIVATE FILE"
CARD = "---{end}{before}configs:{end}- config_name: default{end}  data_files:{end}  - split: train{end}    path: {path}{end}---{end}"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.csv").write_text(f"question,answer\n{SECRET},1\n")
    folder = tmp_path / "dataset"
    folder.mkdir()
    (folder / "mine.csv").write_text("question,answer\nmine,1\n")
    return folder


@pytest.fixture
def listener():
    """A port of this machine, and the connections that were made to this port."""
    connections = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            connections.append(self.client_address)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_address[1], connections
        server.shutdown()
        thread.join()


def test_the_current_folder_can_be_a_dataset(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert sources.read_rows(".", split="train") == [{"question": "mine", "answer": 1}]


def is_refused(folder, words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        sources.read_rows(folder, split="train")
    assert SECRET not in str(error.value) and "\n" not in str(error.value)


PATHS = [
    "{above}/secret.csv",
    "../secret.csv",
    "mine/../../secret.csv",
    "file://{above}/secret.csv",
    "file:{above}/secret.csv",
]
PATHS += [
    "[../secret.csv]",
    "local://{above}/secret.csv",
    "'zip://x.csv::{above}/secret.zip'",
    "~/secret.csv",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "---x: 1{end}", "pretty_name: a{end}"])
@pytest.mark.parametrize("path", PATHS)
def test_the_header_of_a_card_is_checked_in_every_form_that_the_library_reads(
    folder, path, before, end
):
    text = CARD.format(
        end=end, before=before.format(end=end), path=path.format(above=folder.parent)
    )
    (folder / "README.md").write_bytes(text.encode())
    is_refused(folder, "is a file outside of the dataset's folder")


@pytest.mark.parametrize(
    ("start", "end"), [("\ufeff", "\n"), (" ", "\n"), ("\n\n", "\n"), ("", "\r"), ("\r", "\r\n")]
)
def test_a_card_of_an_unusual_form_reads_no_file_outside(folder, start, end):
    (folder / "README.md").write_bytes(
        (start + CARD.format(end=end, before="", path="../secret.csv")).encode()
    )
    try:
        rows = sources.read_rows(folder, split="train")
    except UserError as error:
        assert "outside of the dataset's folder" in str(error)
    else:
        assert rows == [{"question": "mine", "answer": 1}], "the path in the card was followed"


@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "hf", "s3", "sftp", "webhdfs"])
def test_no_address_is_opened(folder, listener, scheme):
    port, connections = listener
    for end in ("\n", "\r\n"):
        path = f"{scheme}://127.0.0.1:{port}/x.csv"
        (folder / "README.md").write_bytes(CARD.format(end=end, before="", path=path).encode())
        is_refused(folder, "is a file outside of the dataset's folder")
    assert connections == []


def test_the_card_in_huggingface_yaml_is_checked_like_the_card_in_the_readme(folder):
    configs = [{"config_name": "default", "data_files": "../secret.csv"}]
    (folder / ".huggingface.yaml").write_text(json.dumps({"configs": configs}))
    is_refused(folder, r"\.huggingface\.yaml: '../secret\.csv' in configs is a file outside")
    (folder / ".huggingface.yaml").write_text(
        json.dumps({"configs": [configs[0] | {"data_files": "mine.csv"}]})
    )
    assert sources.read_rows(folder, split="train") == [{"question": "mine", "answer": 1}]


@pytest.mark.parametrize(
    "config",
    [
        {"data_dir": ".."},
        {"data_dir": "/etc"},
        {"storage_options": {}},
        {"compression": "zip"},
        {"data_files": {"train": "../secret.csv"}},
    ],
)
def test_options_that_name_another_folder_or_a_way_of_reading_are_refused(folder, config):
    (folder / ".huggingface.yaml").write_text(
        json.dumps({"configs": [{"config_name": "default"} | config]})
    )
    is_refused(folder, "in configs is")


@pytest.mark.parametrize("target", ["../secret.csv", "/etc/passwd", ".."])
def test_a_link_that_leaves_the_folder_is_refused(folder, target):
    (folder / "train.csv").symlink_to(target)
    is_refused(folder, "train.csv: a link to .* which is outside")


@pytest.mark.parametrize("name", ["README.md", ".huggingface.yaml", "data"])
def test_cards_and_folders_that_are_links_to_the_outside_are_refused(folder, name):
    (folder.parent / "elsewhere").mkdir()
    (folder / name).symlink_to("../elsewhere")
    is_refused(folder, "a link to .* which is outside")


def test_links_inside_of_a_dataset_and_of_a_hubs_cache_are_followed(folder):
    (folder / "mine.csv").rename(folder / "text")
    (folder / "train.csv").symlink_to("text")
    assert sources.read_rows(folder, split="train") == [{"question": "mine", "answer": 1}]
    snapshot, blobs = folder.parent / "cache/snapshots/abc", folder.parent / "cache/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (folder / "text").rename(blobs / "0123")
    (snapshot / "train.csv").symlink_to("../../blobs/0123")
    assert sources.read_rows(snapshot, split="train") == [{"question": "mine", "answer": 1}]


@pytest.mark.parametrize("kind", ["image", "audio", "video", "pdf", "nifti"])
def test_columns_that_are_paths_are_refused(folder, kind):
    info = {"features": [{"name": "question", "dtype": kind}, {"name": "answer", "dtype": "int64"}]}
    for metadata in ({"dataset_info": info}, {"dataset_info": [info | {"config_name": "default"}]}):
        (folder / ".huggingface.yaml").write_text(json.dumps(metadata))
        (folder / "mine.csv").write_text("question,answer\n/etc/passwd,1\n")
        is_refused(folder, "a column of kind|features cannot be read")


def test_columns_of_plain_kinds_are_converted(folder):
    info = {
        "features": [{"name": "question", "dtype": "string"}, {"name": "answer", "dtype": "string"}]
    }
    (folder / ".huggingface.yaml").write_text(json.dumps({"dataset_info": info}))
    assert sources.read_rows(folder, split="train") == [{"question": "mine", "answer": "1"}]


def test_images_declared_by_a_parquet_file_are_not_decoded(folder):
    """The schema in the Parquet file, not the card, declares the images. Decoding an image would
    open its path."""
    import datasets

    (folder / "mine.csv").unlink()
    features = datasets.Features({"question": datasets.Image(), "answer": datasets.Value("int64")})
    rows = [{"question": {"bytes": None, "path": str(folder.parent / "secret.csv")}, "answer": 1}]
    datasets.Dataset.from_list(rows, features=features).to_parquet(folder / "train.parquet")
    (row,) = sources.read_rows(folder, split="train")
    assert row["question"] == rows[0]["question"] and SECRET not in str(row)


def test_archives_and_special_files_are_refused(folder):
    with zipfile.ZipFile(folder / "train.csv", "w") as archive:
        archive.writestr("../x.csv", "question,answer\n")
    is_refused(folder, "train.csv: its content is zip")
    (folder / "train.csv").write_bytes(gzip.compress(b"question,answer\n"))
    is_refused(folder, "train.csv: its content is gzip")
    (folder / "train.csv").unlink()
    os.mkfifo(folder / "train.csv")
    is_refused(folder, "train.csv: not a regular file")


@pytest.mark.parametrize("card", ["README.md", ".huggingface.yaml"])
def test_a_card_that_is_no_regular_file_is_refused(folder, card):
    """Reading a named pipe would never end."""
    (folder / card).unlink(missing_ok=True)
    os.mkfifo(folder / card)
    is_refused(folder, f"{card}: not a regular file")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.jsonl", b"[" * 5000),
        ("train.parquet", b"PAR1" + b"\xff" * 100 + b"PAR1"),
        ("train.json", b"\x00\x01"),
        ("train.csv", b'a,b\n"'),
        ("train.py", b"import os\nos.mkdir('pwned')\n"),
    ],
)
def test_damaged_and_foreign_files_give_a_one_line_error(folder, name, content):
    (folder / "mine.csv").unlink()
    (folder / name).write_bytes(content)
    is_refused(folder, "no split 'train' of configuration 'None' can be read")


@pytest.mark.parametrize(
    "text",
    [
        "configs: 5",
        "configs: [5]",
        "dataset_info: [a]",
        "dataset_info: {features: 7}",
        "5",
        "{",
        "a: &a [*a]",
    ],
)
def test_malformed_cards_give_a_one_line_error(folder, text):
    for name, content in ((".huggingface.yaml", text), ("README.md", f"---\n{text}\n---\n")):
        (folder / name).write_text(content)
        is_refused(folder, rf"{name}: ")
        (folder / name).unlink()


def test_a_parquet_file_of_a_usual_kind_is_read(folder):
    (folder / "mine.csv").unlink()
    rows = [{"question": f"{number}: {'a' * 90}", "answer": str(number)} for number in range(5000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "train.parquet")
    assert sources.read_rows(folder, split="train") == rows
