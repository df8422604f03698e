"""The exported rows of a subset equal the rows of the file from which the pool was prepared. If
this file does not have the format of the output, prepared problems are exported."""

import csv
import gzip
import io

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.data import tasks
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import files
from in_process import check_refusal, run


def export(folder, name, content, numbers, output, source=None, changed=None):
    """Prepare a pool from a file with `content`, choose the rows `numbers` as the subset, and run
    export_subset.py. `changed`: the content of the file when the subset is exported."""
    compress = gzip.compress if name.endswith(".gz") else bytes
    (folder / name).write_bytes(compress(content.encode()))
    source = source or {"kind": "files"}
    problems, _ = tasks.prepare("mine", source, "train", [str(folder / name)], labelled=False)
    files.write_jsonl(folder / "P.jsonl", problems)
    if changed is not None:
        (folder / name).write_bytes(changed.encode())
    rows = [{"id": problems[number]["id"], "rank": rank} for rank, number in enumerate(numbers, 1)]
    files.write_rows(folder / "S.csv", ["id", "rank"], rows)
    facts = {
        "policy": {"rule": "all"},
        "pool": len(problems),
        "prompts": len(rows),
        "mean_pass_rate": 0.25,
    }
    files.write_json(folder / "S.json", facts)
    options = {"subset": "S.csv", "facts": "S.json", "problems": "P.jsonl", "files": name}
    return run(folder, "export_subset", output=output, **options), problems


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(
    st.lists(
        st.fixed_dictionaries({"question": CELLS.map("q".__add__), "a, b": CELLS, "": CELLS}),
        min_size=1,
        max_size=5,
    )
)
@hypothesis.settings(
    max_examples=15, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_any_cell_is_exported_unchanged(tmp_path, rows):
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, ["question", "", "a, b"], quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    order = list(reversed(range(len(rows))))
    done, _ = export(tmp_path, "mine.csv", buffer.getvalue(), order, "out.csv")
    assert done.returncode == 0, done.stderr
    exported = io.StringIO((tmp_path / "out.csv").read_bytes().decode(), newline="")
    assert list(csv.DictReader(exported)) == rows[::-1]


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.jsonl.gz"])
def test_lines_are_exported_unchanged_with_line_ends_and_lone_surrogates(tmp_path, name):
    lines = [
        '{"question":"a"}\r',
        '{ "question": "b\\ud83d" }',
        ' {"question": "d", "\\u0071uestion\\t": "c"}',
        '{"question": 5}',
    ]
    done, _ = export(tmp_path, name, "\n\n".join(lines), [2, 0, 3, 1], "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.jsonl").read_bytes().decode() == "".join(
        lines[n] + "\n" for n in (2, 0, 3, 1)
    )


@pytest.mark.parametrize("name", ["mine.csv", "mine.json"])
def test_subsets_of_datasets_are_exported_as_json_lines(tmp_path, name):
    """The files are a CSV file of a dataset from the hub, and a JSON file in the format of
    BIG-Bench Hard."""
    part = {"dataset": "a/b", "revision": "0" * 40, "file": "train.jsonl", "local": name}
    source, content = {"kind": "hub", "train": [part]}, "question,answer\na,1\nb,2\n"
    if name == "mine.json":
        source |= {"format": "choices"}
        content = '{"examples": [{"input": "a", "target": "1"}, {"input": "b", "target": "2"}]}'
    done, problems = export(tmp_path, name, content, [1], "out.jsonl", source)
    assert done.returncode == 0, done.stderr
    assert files.read_jsonl(tmp_path / "out.jsonl", {}) == [problems[1]]
    assert problems[1]["question"] == "b"


@pytest.mark.parametrize("change", ["question\na\n", "question\nb\na\n"])
def test_a_file_that_differs_from_the_prepared_file_is_refused(tmp_path, change):
    done, _ = export(tmp_path, "mine.csv", "question\na\nb\n", [1], "out.csv", changed=change)
    place = (
        f"error: mine.csv: the question of '{question_id('b')}' in P.jsonl is no longer at its row"
    )
    check_refusal(done, place, "prepare the task again")
    assert not (tmp_path / "out.csv").exists()
