"""The page of completions: its numbers equal those of the evaluation files, it shows the completions
of base models and runs side by side, and texts of models and datasets are shown and never run."""

import json

import pytest

from explorer_pages import TITLE, HandMadeStudy
from hardgrpo.report import explorer

SHOWN = ["text", "grade", "change"]


def percent(flags):
    return f"{100 * flags.mean():.1f} %"


def test_the_table_counts_all_sampled_completions(study, monkeypatch):
    counts, _ = study.read(monkeypatch)
    rows = study.rows[study.rows.decoding == "sampled"]
    assert len(counts) == 6  # two tests of the base model and of two policies
    for line in counts.to_dict("records"):
        own = rows[(rows.test == line["test"]) & (rows.policy == line["policy"])]
        expected = {
            "completions": f"{len(own):,}",
            "correct": percent(own.correct),
            "base correct, same samples": percent(own.base_correct),
            "wrong → right": f"{(own.correct > own.base_correct).sum():,}",
            "right → wrong": f"{(own.correct < own.base_correct).sum():,}",
            "no answer": percent(1 - own.answered),
            "cut off": percent(own.truncated),
        }
        assert {name: line[name] for name in expected} == expected


def test_each_problem_shows_the_first_samples_of_the_base_model_and_of_the_runs(study, monkeypatch):
    _, problems = study.read(monkeypatch)
    samples = study.rows[study.rows.decoding == "sampled"]
    first = samples[(samples["sample"] == 0) & ~samples.model_path.str.endswith("seed1")]
    words = {0: "wrong", 1: "right"}
    assert [problem["id"] for problem in problems] == list(dict.fromkeys(study.rows.id))
    for problem in problems:
        own = samples[(samples.id == problem["id"]) & (samples.policy == "")]
        assert problem["pass_rate"] == own.correct.mean()
        expected = [
            {
                "text": row.completion,
                "grade": "correct" if row.correct else "wrong" if row.answered else "no answer",
                "change": f"{words[row.base_correct]} → {words[row.correct]}" if row.policy else "",
            }
            for row in first[first.id == problem["id"]].itertuples()
        ]
        shown = [{name: entry[name] for name in SHOWN} for entry in problem["completions"]]
        assert shown == expected
        for entry in problem["completions"]:
            own = samples[(samples.id == problem["id"]) & (samples.completion == entry["text"])]
            cut_off = own.truncated.item()
            assert ("cut off at the limit" in entry["facts"]) == bool(cut_off)
            assert (entry["extracted"] is None) == (entry["grade"] == "no answer")


def test_greedy_completions_are_shown_where_nothing_was_sampled(tmp_path, monkeypatch):
    handmade = HandMadeStudy(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    handmade.write_problems("t", [{"id": "a", "question": "?", "answer": "x"}])
    row = {"step": 0, "id": "a", "decoding": "greedy", "sample": 0, "answered": 1}
    for correct, model_path in enumerate(handmade.model_paths):
        written = row | {"correct": correct, "completion": f"#### {correct}"}
        handmade.write_evaluation(model_path, "t", [written])
    counts, (problem,) = handmade.read(monkeypatch)
    assert list(counts["wrong → right"]) == ["0", "1"] and problem["pass_rate"] is None
    assert [entry["change"] for entry in problem["completions"]] == ["", "wrong → right"]


def test_a_missing_evaluation_is_reported(tmp_path):
    handmade = HandMadeStudy(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    handmade.write_problems("t", [{"id": "a", "question": "?", "answer": "x", "tier": 1}])
    row = {"step": 0, "id": "a", "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0}
    handmade.write_evaluation("m/base", "t", [row | {"completion": ""}])
    path = "results/evaluation/m/t/r/hard/seed0/t.csv.gz"
    assert handmade.write().stderr == f"error: {path}: no such file\n"


def test_recorded_completions_are_shown_with_their_texts(world):
    """The workflow makes this page. For each problem the base model has four samples, the first
    checkpoint two and the last checkpoint five. Samples are numbered from 0, so sample 4 has no
    counterpart of the base model."""
    data = world.folder / "data/mine"
    data.mkdir(parents=True)
    questions = [f"Which letter is number {i}?\nOptions:\n(A) a\n(B) b" for i in range(4)]

    def record(name, samples, completion, **extra):
        rows = [{"question": q, "answer": "(A)", "completions": [completion(i, k) for k in range(samples)]} | extra for i, q in enumerate(questions)]  # fmt: skip
        (data / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    record("base.jsonl", 4, lambda i, k: "and then" if k < i else r"so \boxed{(A)}")
    record("all-50.jsonl", 2, lambda i, k: "half way")
    record("all-100.jsonl", 5, lambda i, k: rf"sample {k} <b>says</b> \boxed{{(A)}}", tokens=[7] * 5, finish_reasons=["stop"] * 4 + ["length"])  # fmt: skip

    def configure(config):
        recordings = {
            "letters": {"base": "mine/base.jsonl", "runs": {"all": "mine/all-{step}.jsonl"}}
        }
        config["models"]["mine"] = {"source": {"kind": "recorded", "recordings": recordings}}
        letters = {"source": {"kind": "files", "test": "mine/base.jsonl"}}
        config["tasks"]["letters"] = config["tasks"]["shuffled_objects_seven"] | letters
        config["studies"]["recordings"].update(
            models=["mine"], tasks=["letters"], arms=[{"policy": "all"}]
        )

    world.configure(configure)
    world.run("explorer", "--config", "study=recordings")
    assert world.plan("explorer", "--config", "study=recordings") == {}
    page = (world.folder / "paper/recordings/explorer.html").read_text(encoding="utf-8")
    cells = lambda *values: "".join(f"<td>{value}</td>" for value in values)
    assert cells("16", "62.5 %", "62.5 %", "0", "0", "37.5 %", "–") in page
    assert cells("20", "100.0 %", "62.5 %", "6", "0", "0.0 %", "20.0 %") in page
    assert page.count("sample 0 &lt;b&gt;says&lt;/b&gt;") == 4 and "half way" not in page
    assert "p̂ 0.50" in page and "tokens not recorded" in page and "7 tokens" in page


def test_an_answer_in_the_reasoning_alone_is_shown_as_no_answer(tmp_path, monkeypatch):
    handmade = HandMadeStudy(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    handmade.config["tasks"]["t"] = handmade.config["tasks"]["t"] | {"grader": "boxed_text"}
    handmade.write_problems("t", [{"id": "q", "question": "1 + 1?", "answer": "2"}])
    completions = [r"<think>\boxed{1} is it</think> hmm", r"<think>1?</think> \boxed{2}"]
    for correct, model_path in enumerate(handmade.model_paths):
        row = {"step": 0, "id": "q", "decoding": "sampled", "sample": 0}
        row |= {"correct": correct, "answered": correct, "completion": completions[correct]}
        handmade.write_evaluation(model_path, "t", [row])
    _, (problem,) = handmade.read(monkeypatch)
    assert [entry["extracted"] for entry in problem["completions"]] == [None, "2"]


# --- in a browser


@pytest.mark.chromium
def test_filters_show_exactly_the_matching_completions(study, watched, monkeypatch):
    _, problems = study.read(monkeypatch)
    watched.open_all(study.url)
    runs = [e for problem in problems for e in problem["completions"] if e["policy"]]
    bases = [problem["completions"][0] for problem in problems]

    def shown():
        return [text.strip() for text in watched.texts("section:not([hidden]) pre")]

    for values in (
        {"test": "u"},
        {"policy": "hard"},
        {"tier": "2"},
        {"grade": "no answer"},
        {"change": "wrong → right"},
        {"change": "right → wrong", "policy": "easy", "test": "t", "tier": "1"},
    ):
        for name in ("test", "policy", "tier", "grade", "change"):
            watched.page.select_option(f"[name={name}]", values.get(name, ""))
        matches = [
            entry for entry in runs if all(entry[name] == value for name, value in values.items())
        ]
        visible = watched.page.locator("details:not([hidden])")
        assert visible.count() == sum(
            any(entry in matches for entry in problem["completions"]) for problem in problems
        )
        assert watched.texts("output") == [f"{visible.count()} problems"]
        assert sorted(shown()) == sorted(entry["text"] for entry in [*matches, *bases]), values


HOSTILE = [  # (text in the file, text that the page shows; None: the same text)
    ("<script>window.hacked = 1</script>", None),
    ("</script><script>window.hacked = 1</script>", None),
    ("</pre><!-- <script> </body> ]]> <![CDATA[", None),
    ("<img src=x onerror='window.hacked = 1'><svg onload='window.hacked = 1'>", None),
    ("<img src='http://127.0.0.1:9/x.png'><iframe src='http://127.0.0.1:9/'></iframe>", None),
    ("{{ 7 * 7 }} {% raw %} ${window.hacked = 1} &lt;b&gt; &amp; \\u003cb\\u003e", None),
    ("<style>* { display: none }</style><base href='http://127.0.0.1:9/'>", None),
    ("safe \u202etxt.exe\u202c \u200fr\u061cl", "safe ‹U+202E›txt.exe‹U+202C› ‹U+200F›r‹U+061C›l"),
    ("a\u200bb\ufeffc\u00add\U000e0041", "a‹U+200B›b‹U+FEFF›c‹U+00AD›d‹U+E0041›"),
    ("nul\x00esc\x1b[31m\r\nnext\u2028line\ttab", "nul‹U+0000›esc‹U+001B›[31m‹U+000D›\nnext‹U+2028›line\ttab"),
    ("half \ud83d and whole \U0001f600", "half ‹U+D83D› and whole \U0001f600"),
    ("byte \udcff here", "byte ‹U+DCFF› here"),
    ("z" + "\u0301\u0489" * 200, None),
    ("\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u4f60\u597d", None),
    ("\n \n  spaces  \n", None),
    ("W" * 200_000, None),
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A study with hostile texts: completions, questions, ids, answers, tiers, the title."""
    handmade = HandMadeStudy(
        tmp_path_factory.mktemp("hostile"), seeds=[0], policies=["hard"], tests=["t"]
    )
    ids = [f"{i} <script>window.hacked = 1</script>/\u202e#&=%{{{{" for i in range(len(HOSTILE))]
    handmade.write_problems(
        "t",
        [
            {"id": name, "question": "Q " + text.replace("\udcff", ""), "answer": "<b>A"}
            | {"tier": "<b>\u200b"}
            for name, (text, _) in zip(ids, HOSTILE)
        ],
    )
    row = {"step": 0, "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0}
    for model_path in handmade.model_paths:
        rows = [row | {"id": name, "completion": text} for name, (text, _) in zip(ids, HOSTILE)]
        handmade.write_evaluation(model_path, "t", rows)
    done = handmade.write()
    assert done.returncode == 0, done.stderr
    return handmade


@pytest.mark.parametrize(("text", "shown_text"), HOSTILE, ids=range(len(HOSTILE)))
def test_invisible_characters_are_marked(text, shown_text):
    assert explorer.visible(text) == (text if shown_text is None else shown_text)


@pytest.mark.chromium
def test_hostile_text_is_shown_and_never_run(hostile, watched):
    watched.open_all(hostile.url)
    assert watched.texts("h1") == [TITLE] and watched.page.title() == "Completions: " + TITLE
    expected = [written if text is None else text for written, text in HOSTILE]
    assert watched.texts("section pre") == [text for text in expected for _ in range(2)]
    assert watched.texts("summary b")[3] == "3 <script>window.hacked = 1</script>/‹U+202E›#&=%{{"
    elements = "details :is(script, img, iframe, svg, style, link, base)"
    assert watched.page.locator(elements).count() == 0
    assert watched.page.evaluate("window.hacked") is None
    for width in (1400, 700):
        watched.page.set_viewport_size({"width": width, "height": 900})
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


@pytest.mark.chromium
def test_the_direction_of_a_text_ends_with_the_text(hostile, watched):
    watched.open_all(hostile.url)
    styles = watched.page.evaluate(
        "[...document.querySelectorAll('pre, bdi, summary b, small, td')]"
        ".map(e => getComputedStyle(e).unicodeBidi).filter(s => !['isolate', 'plaintext'].includes(s))"
    )
    assert styles == []


@pytest.mark.chromium
def test_the_content_security_policy_forbids_scripts_and_requests(study, chromium):
    """Even if a text became markup, the browser would not run the text or load an address in it."""
    page = chromium.new_page()
    requests = []
    page.on("requestfinished", lambda request: requests.append(request.url))
    page.goto(study.url)
    hacked = page.evaluate(
        """async () => {
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend", `<img src="http://127.0.0.1:9/image"><iframe src="http://127.0.0.1:9/frame"></iframe>
            <p id="trap" onclick="window.hacked = 1">x</p>`);
          document.getElementById("trap").click();
          const refused = await fetch("http://127.0.0.1:9/fetch").then(() => false, () => true);
          return [window.hacked ?? null, refused];
        }"""
    )
    assert hacked == [None, True]
    assert [url for url in requests if url.startswith("http")] == []
    page.close()
