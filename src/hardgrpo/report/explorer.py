"""The explorer: the completions of a study's base models and of its runs' last checkpoints, as a
single self-contained HTML file.

The file holds JSON, gzipped and in base64: an index with the problems and all grades, and a block
of texts for each evaluation. The page reads the index when it opens, and a block only to show
or search the evaluation. Base64 keeps a browser from interpreting a completion as HTML. Compression
keeps a file with tens of thousands of completions small enough to mail.
"""

import base64
import gzip
import json
from collections.abc import Iterator

import pandas as pd
from markupsafe import Markup

from hardgrpo.data import evaluations, tasks
from hardgrpo.grading.graders import extract_answer
from hardgrpo.report import web
from hardgrpo.runtime import files
from hardgrpo.study import paths
from hardgrpo.study.study import Study

UNKNOWN = -1  # an unknown `truncated` or `tokens` of a recording, because JSON has no nan


def read_study(study: Study) -> tuple[dict, list[dict]]:
    """(index, blocks of texts) of a study.

    A block holds the completions of a base model, or of the last checkpoint of a run, on a test.
    `index["blocks"][i]` holds the grades of block i as columns, and `texts[i]` the texts in the
    same order. The column `problem` holds positions in `index["tests"][test]`.
    """
    graders = {
        test: study.config.tasks[test].grader
        for test in sorted({test for _, _, test in study.tests})
    }
    tests = {test: tasks.read_problems(paths.problems(test, "test")) for test in graders}
    columns, texts = [], []
    for path, key in evaluation_files(study):
        rows = read_rows(path, key["policy"] is not None)
        numbers = {problem["id"]: number for number, problem in enumerate(tests[key["test"]])}
        rows = rows.assign(problem=rows.id.map(numbers)).sort_values(
            ["problem", "decoding", "sample"], ascending=[True, False, True]
        )
        columns.append(key | {"step": int(rows.step.iloc[0])} | grade_columns(rows))
        grader = graders[key["test"]]
        texts.append(
            {
                "completion": list(rows.completion),
                "extracted": [extract_answer(grader, text) for text in rows.completion],
            }
        )
    problems = {
        test: [
            {key: problem.get(key) for key in ("id", "question", "answer", "tier")}
            for problem in tests[test]
        ]
        for test in tests
    }
    return {"study": study.name, "tests": problems, "graders": graders, "blocks": columns}, texts


def evaluation_files(study: Study) -> Iterator[tuple[str, dict]]:
    """(evaluation file, {model, base, test, task, recipe, policy, seed}). Base models come first;
    their task, recipe, policy and seed are None."""
    no_run = dict.fromkeys(("task", "recipe", "policy", "seed"))
    for model, base, test in study.tests_of_bases:
        yield (
            paths.evaluation(f"{base}/base", test),
            {"model": model, "base": base, "test": test} | no_run,
        )
    for run, test in study.tests_of_runs:
        yield paths.evaluation(run.path, test), vars(run) | {"test": test}


def read_rows(path: str, last_step_only: bool) -> pd.DataFrame:
    """The graded completions of an evaluation with their texts, which are read from a .jsonl.gz in
    the same folder.

    Bytes that are not UTF-8 become U+DC80 to U+DCFF (Python's surrogateescape). The page shows the
    value of each of these bytes.
    """
    graded = evaluations.read(path)
    if last_step_only:
        graded = graded[graded.step == graded.step.max()]
    kinds = {"step": int, "id": (str, int), "decoding": str, "sample": int, "completion": str}
    lines = files.read_jsonl(paths.completions(path), kinds, errors="surrogateescape")
    texts = {(r["step"], str(r["id"]), r["decoding"], r["sample"]): r["completion"] for r in lines}
    keys = graded[evaluations.KEY_COLUMNS].itertuples(index=False, name=None)
    # dtype=object, because the strings of some versions of pandas cannot hold surrogates.
    return graded.assign(
        completion=pd.Series([texts[key] for key in keys], graded.index, dtype=object)
    )


def grade_columns(rows: pd.DataFrame) -> dict[str, list]:
    """Grades as lists of small numbers, with one entry for each row."""
    return {
        "problem": rows.problem.tolist(),
        "greedy": (rows.decoding == "greedy").astype(int).tolist(),
        "sample": rows["sample"].tolist(),
        "correct": rows.correct.tolist(),
        "answered": rows.answered.tolist(),
        "truncated": rows.truncated.fillna(UNKNOWN).astype(int).tolist(),
        "tokens": rows.tokens.fillna(UNKNOWN).astype(int).tolist(),
    }


def page(title: str, index: dict, texts: list[dict]) -> str:
    """The HTML file. Its Content-Security-Policy allows only the explorer's script and style, by
    their checksums."""
    names = {"script": "explorer.js", "style": "explorer.css"}
    values = {
        key: Markup((web.TEMPLATES / name).read_text(encoding="utf-8"))
        for key, name in names.items()
    }
    values |= {"index": pack(index), "texts": map(pack, texts)}
    return web.template("explorer.html", checksum=web.checksum).render(title=title, **values)


def pack(value) -> str:
    """JSON, gzipped, in base64. Lone surrogates stay escaped in the JSON, because UTF-8 cannot
    encode them."""
    return base64.b64encode(
        gzip.compress(json.dumps(value, separators=(",", ":")).encode("ascii"), 6, mtime=0)
    ).decode("ascii")
