"""The page of a study's completions: what the base models and the last checkpoints wrote, side by
side, as a single self-contained HTML file.

The page shows one completion of each problem and run of the first seed: the first sample, or the
greedy completion if there are no samples. Its table counts the sampled completions of all seeds.
"""

from collections.abc import Iterator

import pandas as pd
from markupsafe import Markup

from hardgrpo.data import evaluations, tasks
from hardgrpo.grading.graders import extract_answer
from hardgrpo.report import web
from hardgrpo.runtime import files
from hardgrpo.study import paths
from hardgrpo.study.study import Study

PROBLEM = ["base", "test", "id"]
COMPLETION = [*PROBLEM, "decoding", "sample"]  # these columns name a base model's completion
ARM = ["model", "test", "task", "recipe", "policy"]  # a row of the page's table
FILTERS = {  # {value of a completion: label of the page's filter}
    "model": "model",
    "test": "tested on",
    "task": "trained on",
    "recipe": "recipe",
    "policy": "policy",
    "tier": "tier",
    "grade": "grade",
    "change": "change from the base model",
}
OF_BASE = {"task": "", "recipe": "", "policy": "", "seed": -1}  # in place of those of a run


def read_study(study: Study) -> tuple[pd.DataFrame, list[dict]]:
    """(counts, problems) of a study. `counts` has a row of `count` for each model, test and arm. A
    problem has the keys of PROBLEM, question, answer, tier, pass_rate (of the base model; None
    without samples) and `completions` (see `completion`): the base model's, then those of runs."""
    frames = []
    for path, key in evaluation_files(study):
        frame = evaluations.read(path)
        frames.append(frame[frame.step == frame.step.max()].assign(**key, path=path))
    graded = pd.concat(frames, ignore_index=True)
    of_bases = graded[graded.policy == ""]
    before = of_bases.set_index(COMPLETION).correct.rename("base_correct")
    graded = graded.join(before, on=COMPLETION)
    samples = of_bases[of_bases.decoding == "sampled"]
    pass_rates = samples.groupby(PROBLEM).correct.mean().to_dict()

    of_runs = graded[graded.policy != ""]
    first_runs = of_runs[of_runs.seed == of_runs.seed.min()]
    shown = graded[graded.base.isin(first_runs.base)] if len(first_runs) else graded
    shown = shown[(shown.policy == "") | shown.index.isin(first_runs.index)]
    shown = shown.sort_values(["decoding", "sample"], ascending=[False, True], kind="stable")
    shown = shown.drop_duplicates(["path", "id"]).sort_index()
    shown = pd.concat(with_texts(path, rows) for path, rows in shown.groupby("path", sort=False))
    completions = dict(list(shown.groupby(PROBLEM)))

    problems = []
    for base, test in shown[["base", "test"]].drop_duplicates().itertuples(index=False):
        grader = study.config.tasks[test].grader
        for problem in tasks.read_problems(paths.problems(test, "test")):
            key = base, test, problem["id"]
            texts = {name: problem.get(name) for name in ("question", "answer", "tier")}
            rows = completions[key].itertuples() if key in completions else ()
            problems.append(
                dict(zip(PROBLEM, key))
                | texts
                | {"pass_rate": pass_rates.get(key)}
                | {"completions": [completion(row, grader) for row in rows]}
            )
    arms = graded.groupby(ARM, sort=False)
    return pd.DataFrame([dict(zip(ARM, arm)) | count(rows) for arm, rows in arms]), problems


def evaluation_files(study: Study) -> Iterator[tuple[str, dict]]:
    """(evaluation file, {model, base, test, task, recipe, policy, seed}). Base models come first."""
    for model, base, test in study.tests_of_bases:
        key = {"model": model, "base": base, "test": test}
        yield paths.evaluation(f"{base}/base", test), key | OF_BASE
    for run, test in study.tests_of_runs:
        yield paths.evaluation(run.path, test), vars(run) | {"test": test}


def with_texts(path: str, graded: pd.DataFrame) -> pd.DataFrame:
    """Graded completions with their texts, which are read from a .jsonl.gz in the same folder.
    Bytes that are not UTF-8 become U+DC80 to U+DCFF (Python's surrogateescape)."""
    kinds = {"step": int, "id": (str, int), "decoding": str, "sample": int, "completion": str}
    lines = files.read_jsonl(paths.completions(path), kinds, errors="surrogateescape")
    texts = {(r["step"], str(r["id"]), r["decoding"], r["sample"]): r["completion"] for r in lines}
    keys = graded[evaluations.KEY_COLUMNS].itertuples(index=False, name=None)
    # dtype=object, because the strings of some versions of pandas cannot hold surrogates.
    return graded.assign(text=pd.Series([texts[key] for key in keys], graded.index, dtype=object))


def completion(row, grader: str) -> dict:
    """What the page shows of a completion: its text, the answer that the grader reads in it (None:
    no answer), facts about it, and the values by which the page filters."""
    before = {0.0: "wrong", 1.0: "right"}.get(row.base_correct, "unknown")
    end = {0.0: "ended by itself", 1.0: "cut off at the limit"}
    tokens = "tokens not recorded" if pd.isna(row.tokens) else f"{row.tokens:,.0f} tokens"
    return {
        **{name: getattr(row, name) for name in (*ARM, "seed", "step", "text")},
        "tier": "" if pd.isna(row.tier) else row.tier,
        "grade": "correct" if row.correct else "wrong" if row.answered else "no answer",
        "change": f"{before} → {'right' if row.correct else 'wrong'}" if row.policy else "",
        "extracted": extract_answer(grader, row.text),
        "facts": f"{row.decoding}, {tokens}, {end.get(row.truncated, 'end not recorded')}",
    }


def count(rows: pd.DataFrame) -> dict[str, str]:
    """The numbers of an arm's completions over all seeds: of the sampled completions, or of the
    greedy completions if none was sampled."""
    sampled = rows[rows.decoding == "sampled"]
    rows = rows if sampled.empty else sampled
    share = lambda values: "–" if values.isna().all() else f"{100 * values.mean():.1f} %"
    pairs = rows.dropna(subset="base_correct")
    return {
        "completions": f"{len(rows):,}",
        "correct": share(rows.correct),
        "base correct, same samples": share(pairs.base_correct),
        "wrong → right": f"{(pairs.correct > pairs.base_correct).sum():,}",
        "right → wrong": f"{(pairs.correct < pairs.base_correct).sum():,}",
        "no answer": share(1 - rows.answered),
        "cut off": share(rows.truncated),
    }


def visible(text: object) -> str:
    """A text with a mark in place of each character that is invisible or rearranges text (controls,
    bidirectional marks, bytes that are not UTF-8), so that a completion cannot mislead its reader."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else f"‹U+{ord(c):04X}›" for c in text)


def page(title: str, counts: pd.DataFrame, problems: list[dict]) -> str:
    """The HTML file. Its Content-Security-Policy allows only the page's own script and style, by
    their checksums."""
    entries = [entry for problem in problems for entry in problem["completions"]]
    values = {name: sorted({entry[name] for entry in entries} - {""}) for name in FILTERS}
    parts = {
        name: Markup((web.TEMPLATES / f"explorer.{ending}").read_text(encoding="utf-8"))
        for name, ending in (("script", "js"), ("style", "css"))
    }
    return web.template("explorer.html", checksum=web.checksum, visible=visible).render(
        title=title,
        counts=counts.replace({"policy": {"": "base model"}}),
        problems=problems,
        filters={name: values[name] for name in FILTERS if len(values[name]) > 1},
        labels=FILTERS,
        **parts,
    )
