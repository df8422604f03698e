"""The explorer of completions, opened in a browser: its numbers are the files', its links hold, what models wrote is only shown."""

import gzip
import http.server
import json
import random
import subprocess
import sys
import threading
import time
from decimal import ROUND_HALF_UP, Decimal
from urllib.parse import quote

import pandas as pd
import pytest

from conftest import CHROMIUM, path_of
from hardgrpo.analysis import evaluations
from hardgrpo.runtime import files

pytestmark = pytest.mark.chromium
TITLE = 'A <b>small</b> study & "more" {{ 7 * 7 }}'
BASE_ROW = {"tier": None, "truncated": None, "tokens": None, "strict": 0, "lenient": 0}


class Made:
    """A study of files made by hand: models answer task `t` (tested on `t` and `u`) and are trained with two policies."""

    def __init__(self, folder, seeds=(0, 1), policies=("hard", "easy"), tests=("t", "u")):
        self.folder, self.tests = folder, tests
        plan = {"title": TITLE, "models": ["m"], "tasks": ["t"], "policies": list(policies), "recipes": ["r"], "seeds": list(seeds)}
        plan["also_tested_on"] = {"t": list(tests[1:])}
        self.config = {"studies": {"s": plan}, "tasks": {test: {} for test in tests}, "models": {"m": {"source": {"kind": "hub"}}}}
        self.places = ["m/base"] + [f"m/t/r/{policy}/seed{seed}" for policy in policies for seed in seeds]

    def problems(self, test, rows):
        files.write_jsonl(self.folder / f"results/tasks/{test}/test.jsonl", rows)

    def evaluation(self, place, test, rows):
        """Rows have step, id, decoding, sample, correct, answered and completion, and what else the file may have."""
        stem = f"results/evaluation/{place}/{test}"
        files.write_rows(
            self.folder / f"{stem}.csv.gz",
            evaluations.COLUMNS,
            [BASE_ROW | {key: value for key, value in row.items() if key != "completion"} for row in rows],
        )
        lines = [json.dumps({key: row[key] for key in [*evaluations.KEY, "completion"]}) + "\n" for row in rows]
        # A byte that is not UTF-8 stands in these tests as Python's U+DCxx.
        data = "".join(lines).replace("\\udcff", "\udcff").encode("utf-8", "surrogateescape")
        (self.folder / f"{stem}.jsonl.gz").write_bytes(gzip.compress(data, 1))

    def write(self):
        command = [sys.executable, path_of("write_explorer"), "--study", "s", "--config", json.dumps(self.config)]
        command += ["--graders", json.dumps(dict.fromkeys(self.tests, "final_word")), "--output", "explorer.html"]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    @property
    def url(self):
        return (self.folder / "explorer.html").as_uri()


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page that must say nothing on the console and ask for nothing but files and data."""

    def __init__(self, browser):
        self.page = browser.new_page(viewport={"width": 1400, "height": 900})
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, url):
        self.page.goto("about:blank")
        self.page.goto(url)
        self.ready()

    def ready(self):
        """Wait until what is shown belongs to the address."""
        address = self.page.evaluate("location.hash")
        self.page.locator(f"html[data-ready={json.dumps(address)}]").wait_for(state="attached", timeout=60_000)

    def filter(self, **values):
        for name, value in values.items():
            self.page.locator(f"#filter-{name}").select_option(value)
            self.ready()

    def press(self, key):
        self.page.keyboard.press(key)
        self.ready()

    def cells(self, table):
        return [row.locator("td").all_inner_texts() for row in self.page.locator(f"{table} tbody tr").all()]

    def text(self, selector):
        return self.page.locator(selector).inner_text()


@pytest.fixture
def watched(chromium):
    watched = Watched(chromium)
    yield watched
    assert watched.said == [], "nothing is said on the console"
    assert [url for url in watched.asked if not url.startswith(("file:", "data:", "about:", "blob:"))] == []
    watched.page.close()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """130 problems, three samples and one greedy completion of each by a base and four runs; runs have an earlier checkpoint."""
    made, rng = Made(tmp_path_factory.mktemp("study")), random.Random(5)
    problems = {
        test: [
            {"id": f"{test}-{i:03d}", "question": f"What is number {i}?", "answer": f"n{i}", "tier": i % 3 or None}
            for i in range(130 if test == "t" else 20)
        ]
        for test in made.tests
    }
    rows = []
    for test, found in problems.items():
        made.problems(test, found)
        for place in made.places:
            here = []
            for step in [0] if place == "m/base" else [5, 10]:
                for problem in found:
                    for decoding, sample in [("sampled", 0), ("sampled", 1), ("sampled", 2), ("greedy", 0)]:
                        answered, correct = rng.random() < 0.8, rng.random() < (0.3 if step == 0 else 0.6)
                        word = problem["answer"] if correct else "other"
                        here.append(
                            {
                                "step": step, "id": problem["id"], "tier": problem["tier"], "decoding": decoding, "sample": sample,
                                "correct": int(answered and correct), "answered": int(answered),
                                "truncated": int(not answered and rng.random() < 0.9), "tokens": rng.randrange(5, 60),
                                "completion": f"{place} step {step} {decoding} {sample} says" + (f" #### {word}" if answered else ""),
                            }
                        )  # fmt: skip
            made.evaluation(place, test, here)
            rows += [row | {"place": place, "test": test} for row in here]
    done = made.write()
    assert done.returncode == 0, done.stderr
    table = pd.DataFrame(rows)
    made.rows = table[(table.step == 0) | (table.step == 10)].copy()
    base = made.rows[made.rows.step == 0].set_index(["id", "decoding", "sample"]).correct
    made.rows["before"] = [base[key] for key in zip(made.rows.id, made.rows.decoding, made.rows["sample"])]
    made.rows["policy"] = made.rows.place.map(lambda place: "base model" if place == "m/base" else place.split("/")[3])
    return made


def percent(flags):
    """The share of ones as the page writes it: to one place, halves upwards."""
    share = Decimal(100 * int(sum(flags)) / len(flags))
    return f"{share.quantize(Decimal('0.1'), ROUND_HALF_UP)} %"


def expected(rows):
    """The summary table's rows, from the evaluation files."""

    def line(name, rows):
        runs = rows[rows.policy != "base model"]
        up, down = runs.correct > runs.before, runs.correct < runs.before
        pairs = [percent(runs.before), f"{up.sum():,}", f"{down.sum():,}"] if len(runs) else ["–"] * 3
        return [name, f"{len(rows):,}", percent(rows.correct), *pairs, percent(1 - rows.answered), percent(rows.truncated)]  # fmt: skip

    lines = [
        line(policy, rows[rows.policy == policy]) for policy in ("base model", "hard", "easy") if (rows.policy == policy).any()
    ]
    return [*lines, line("all that the filters leave", rows)]


def test_the_numbers_are_those_of_the_evaluation_files(study, watched):
    watched.open(study.url)
    rows = study.rows
    assert watched.cells("#summary") == expected(rows)
    assert watched.text("#pager b") == "150 problems"
    listed = watched.cells("#problems")
    assert len(listed) == 100
    for cells in listed:
        identity = cells[0].split("\n")[0]
        of = rows[rows.id == identity]
        runs, base = of[of.policy != "base model"], of[(of.policy == "base model") & (of.decoding == "sampled")]
        rate, up, down = base.correct.mean(), (runs.correct > runs.before).sum(), (runs.correct < runs.before).sum()
        tier = "–" if of.tier.isna().all() else f"{of.tier.iloc[0]:.0f}"
        assert cells[1:] == [of.test.iloc[0], tier, f"{rate:.2f}", str(len(of)), percent(of.correct), str(up), str(down)]


FILTERS = [
    ({"test": "u"}, lambda r: r.test == "u"),
    ({"policy": "hard"}, lambda r: r.policy == "hard"),
    ({"policy": "(base)"}, lambda r: r.policy == "base model"),
    ({"seed": "1"}, lambda r: r.place.str.endswith("seed1")),
    ({"tier": "2"}, lambda r: r.tier == 2),
    ({"decoding": "greedy"}, lambda r: r.decoding == "greedy"),
    ({"grade": "correct"}, lambda r: r.correct == 1),
    ({"grade": "wrong"}, lambda r: (r.correct == 0) & (r.answered == 1)),
    ({"grade": "unanswered"}, lambda r: r.answered == 0),
    ({"grade": "truncated"}, lambda r: r.truncated == 1),
    ({"change": "up"}, lambda r: (r.correct > r.before) & (r.policy != "base model")),
    ({"change": "down"}, lambda r: (r.correct < r.before) & (r.policy != "base model")),
    ({"policy": "easy", "seed": "0", "decoding": "sampled", "change": "either", "test": "t", "tier": "1"},
     lambda r: (r.place == "m/t/r/easy/seed0") & (r.decoding == "sampled") & (r.correct != r.before) & (r.test == "t") & (r.tier == 1)),
]  # fmt: skip


@pytest.mark.parametrize(("values", "left"), FILTERS, ids=lambda value: "+".join(value) if isinstance(value, dict) else "")
def test_filters_leave_what_they_say(study, watched, values, left):
    watched.open(study.url)
    watched.filter(**values)
    rows = study.rows[left(study.rows)]
    assert watched.cells("#summary") == expected(rows)
    assert watched.text("#pager b") == f"{rows.id.nunique()} problem" + "s" * (rows.id.nunique() != 1)
    watched.page.locator("#clear").click()
    watched.ready()
    assert watched.cells("#summary") == expected(study.rows)


def test_pass_rates_filter_and_order(study, watched):
    watched.open(study.url + "#p=zero&sort=easiest")
    rates = study.rows[(study.rows.policy == "base model") & (study.rows.decoding == "sampled")].groupby("id").correct.mean()
    assert watched.text("#pager b") == f"{(rates == 0).sum()} problems"
    watched.filter(p="")
    shown = [float(cells[3]) for cells in watched.cells("#problems")]
    assert shown == sorted(shown, reverse=True) and shown[0] == round(rates.max(), 2)


def test_text_is_found_in_questions_and_in_completions(study, watched):
    watched.open(study.url)
    watched.page.locator("#filter-search").fill("NUMBER 17?")
    watched.page.locator("html[data-ready*=search]").wait_for(state="attached")
    assert watched.cells("#summary") == expected(
        study.rows[study.rows.completion.str.len().gt(0) & study.rows.id.str.endswith("-017")]
    )
    watched.open(study.url + "#in=completions&search=" + quote("Hard/SEED1 step 10 greedy"))
    assert watched.cells("#summary") == expected(
        study.rows[study.rows.completion.str.startswith("m/t/r/hard/seed1 step 10 greedy")]
    )
    watched.open(study.url + "#in=completions&search=" + quote("step 5"))
    assert "No completion passes all filters." in watched.text("#problems"), "of each run the last checkpoint is here"


def test_a_link_restores_the_selection_and_so_does_the_back_button(study, watched, chromium):
    watched.open(study.url)
    watched.filter(test="t", policy="hard", change="up")
    watched.page.locator("#problems tbody tr").nth(3).click()
    watched.ready()
    watched.page.locator(".pairs tbody a").last.click()
    watched.ready()
    there, address = watched.page.locator("main").inner_text(), watched.page.url
    other = Watched(chromium)
    other.open(address)
    assert other.page.locator("main").inner_text() == there
    assert other.page.locator("#filter-change").input_value() == "up"
    other.page.close()
    assert not other.said

    (identity,) = {part for part in [watched.text("#detail h2")] if part.startswith("t-")}
    chosen = watched.page.locator(".pairs tr.chosen td").all_inner_texts()
    row = study.rows[(study.rows.id == identity) & (study.rows.policy == "hard") & (study.rows.correct > study.rows.before)].iloc[
        -1
    ]
    assert chosen[0] == f"hard, seed {row.place[-1]}" and chosen[1:3] == [row.decoding, str(row["sample"])]
    sides = {side: watched.text(f"[data-side={side}]") for side in ("base", "checkpoint")}
    base = study.rows[(study.rows.id == identity) & (study.rows.policy == "base model")]
    base = base[(base.decoding == row.decoding) & (base["sample"] == row["sample"])].iloc[0]
    for side, of in (("base", base), ("checkpoint", row)):
        assert of.completion in sides[side] and f"{of.tokens} tokens" in sides[side]
    assert "correct · answer read: n" in sides["checkpoint"] and "after 10 updates" in sides["checkpoint"]
    assert ("cut off at the limit" in sides["base"]) == bool(base.truncated)

    for step in ("row", "open", "change", "policy", "test"):
        assert f"{step}=" in watched.page.url
        watched.page.go_back()
        watched.ready()
        assert f"{step}=" not in watched.page.url
    assert watched.cells("#summary") == expected(study.rows)


def test_a_link_to_what_is_not_here_says_so(study, watched):
    watched.open(study.url + "#policy=%3Cb%3Enone&test=u&open=m/t/nothing&page=99")
    assert watched.text("#notice") == "The link asks for policy “<b>none”, which is not here."
    assert watched.cells("#summary") == expected(study.rows[study.rows.test == "u"])
    assert watched.page.locator("#detail").is_hidden()


def test_the_keyboard_is_enough(study, watched):
    watched.open(study.url + "#test=t")
    watched.press("j")
    assert watched.text("#detail h2") == "t-000"
    watched.press("j")
    watched.press("j")
    watched.press("k")
    assert watched.text("#detail h2") == "t-001"
    assert watched.text("#detail .pager span").startswith("completion 1 of 20")
    watched.press("n")
    watched.press("n")
    watched.press("p")
    assert watched.text("#detail .pager span").startswith("completion 2 of 20")
    watched.press("]")
    assert "page 2 of 2" in watched.text("#pager") and len(watched.cells("#problems")) == 30
    watched.press("[")
    assert "page 1 of 2" in watched.text("#pager")
    watched.press("Escape")
    assert watched.page.locator("#detail").is_hidden()
    watched.press("/")
    watched.page.keyboard.type("j")
    assert watched.page.locator("#filter-search").input_value() == "j", "letters typed are no commands"
    watched.page.keyboard.press("Escape")
    watched.press("?")
    assert watched.page.locator("#help").is_visible()


def test_nothing_sticks_out_in_any_size_or_on_paper(study, watched):
    row = quote("t/r/hard/0/sampled/1", safe="")
    watched.open(study.url + f"#open={quote('m/t/t-000', safe='')}&row={row}")
    for width, media, scheme in [
        (1400, "screen", "light"),
        (1000, "screen", "dark"),
        (420, "screen", "light"),
        (700, "print", "dark"),
    ]:
        watched.page.set_viewport_size({"width": width, "height": 900})
        watched.page.emulate_media(media=media, color_scheme=scheme)
        assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (width, media)
        assert watched.page.locator("[data-side=checkpoint] .text").is_visible()


# --- what models write ----------------------------------------------------------------------------------------------

HOSTILE = [  # (written, shown)
    ("<script>window.hacked = 1</script>", None),
    ("</script><script>window.hacked = 1</script>", None),
    ("<!-- <script> </body> ]]> <![CDATA[", None),
    ("<img src=x onerror='window.hacked = 1'><svg onload='window.hacked = 1'>", None),
    ("<img src='http://127.0.0.1:9/x.png'><link rel=stylesheet href='//127.0.0.1:9/x.css'><iframe src='http://127.0.0.1:9/'></iframe>", None),
    ("{{ 7 * 7 }} {% raw %} ${window.hacked = 1} &lt;b&gt; &amp; \\u003cb\\u003e", None),
    ("javascript:window.hacked=1 \"'`", None),
    ("<style>* { display: none }</style><base href='http://127.0.0.1:9/'><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>", None),
    ("safe \u202etxt.exe\u202c \u2066x\u2069 \u200fr\u061cl", "safe ‹U+202E›txt.exe‹U+202C› ‹U+2066›x‹U+2069› ‹U+200F›r‹U+061C›l"),
    ("a\u200bb\u200dc\ufeffd\u00ade\u2060f\u3164g", "a‹U+200B›b‹U+200D›c‹U+FEFF›d‹U+00AD›e‹U+2060›f‹U+3164›g"),
    ("\u200b" * 5000 + "end\U000e0041", "‹U+200B ×5,000›end‹U+E0041›"),
    ("nul\x00bell\x07esc\x1b[31m\x85\r\nnext\u2028line\ttab", "nul‹U+0000›bell‹U+0007›esc‹U+001B›[31m‹U+0085›‹U+000D›\nnext‹U+2028›line\ttab"),
    ("half \ud83d of \ude00 and whole \U0001f600", "half ‹U+D83D› of ‹U+DE00› and whole \U0001f600"),
    ("byte \udcff here", "byte ‹byte FF› here"),
    ("replaced \ufffd, private \ue000, no character \uffff", "replaced \ufffd, private ‹U+E000›, no character ‹U+FFFF›"),
    ("z" + "\u0301\u0489" * 200, None),
    ("\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u4f60\u597d", None),
    ("", "The completion is empty."),
    ("####", None),
    (" \n\n  spaces  \n", None),
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Everything that a dataset or a model may write is hostile: completions, questions, ids, answers, tiers, the title."""
    made = Made(tmp_path_factory.mktemp("hostile"), seeds=[0], policies=["hard"], tests=["t"])
    texts = [text.replace("\udcff", "") for text, _ in HOSTILE]
    identity = lambda i: f"{i} <script>window.hacked = 1</script>/\u202e#&=%{{{{"
    made.problems(
        "t",
        [
            {"id": identity(i), "question": "Q " + text, "answer": "A " + text, "tier": "<b>\u200b"}
            for i, text in enumerate(texts)
        ],
    )  # fmt: skip
    for place in made.places:
        made.evaluation(
            place,
            "t",
            [
                {"step": 0, "id": identity(i), "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0, "completion": text}
                for i, (text, _) in enumerate(HOSTILE)
            ],
        )  # fmt: skip
    done = made.write()
    assert done.returncode == 0, done.stderr
    made.identity = identity
    return made


def test_hostile_text_is_shown_and_nothing_else(hostile, watched):
    watched.open(hostile.url)
    assert watched.text("h1") == TITLE and watched.page.title() == "Completions: " + TITLE
    marked = hostile.identity(3).replace("\u202e", "‹U+202E›")
    assert watched.page.locator("#problems a").nth(3).inner_text() == marked
    watched.press("j")
    for i, (written, shown) in enumerate(HOSTILE):
        boxes = watched.page.locator("[data-side] .text")
        shown = written if shown is None else shown
        if written:
            assert [boxes.nth(k).text_content() for k in range(boxes.count())] == [shown] * 2, i
        else:
            assert watched.text("[data-side=base]").endswith(shown)
        assert watched.text("#detail h2") == hostile.identity(i).replace("\u202e", "‹U+202E›")
        alive = watched.page.evaluate(
            "[window.hacked, document.querySelectorAll('main :is(script, img, iframe, svg, style, link, b:not(#pager b))').length]"
        )
        assert alive == [None, 0] or alive[0] is None and alive[1] == 0
        assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        address = watched.page.url
        watched.open(address)
        assert watched.text("#detail h2").startswith(f"{i} "), "the link leads to the same problem"
        watched.press("j")
    watched.page.locator("#filter-in").select_option("completions")
    watched.page.locator("#filter-search").fill("<IMG SRC=X")
    watched.page.locator("html[data-ready*=search]").wait_for(state="attached")
    assert watched.text("#pager b") == "1 problem"


def test_direction_ends_where_a_text_ends(hostile, watched):
    """Text after a completion with an open right-to-left override stands where it would stand without."""
    watched.open(hostile.url + "#open=" + quote("m/t/" + hostile.identity(8), safe=""))
    styles = watched.page.evaluate(
        "[...document.querySelectorAll('.text, bdi, .mark')].map(e => getComputedStyle(e).unicodeBidi)"
        ".filter(s => !['isolate', 'plaintext'].includes(s)).length"
    )
    assert styles == 0
    raw = watched.page.evaluate(r"/[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\u0000]/.test(document.body.innerText)")
    assert raw is False, "no such character reaches the page as itself"


def test_very_long_lines_wrap_and_are_cut_until_asked_for(tmp_path, watched):
    made = Made(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    made.problems("t", [{"id": "p", "question": "long?", "answer": "x", "tier": 1}])
    for place in made.places:
        row = {"step": 0, "id": "p", "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0, "completion": "W" * 1_000_000}
        made.evaluation(place, "t", [row])
    assert made.write().returncode == 0
    watched.open(made.url + "#open=m/t/p")
    assert len(watched.page.locator("[data-side=base] .text").text_content()) == 20_000
    assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    watched.page.locator("[data-side=base] button").click()
    assert len(watched.page.locator("[data-side=base] .text").text_content()) == 1_000_000
    assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture
def listener():
    """A server on this machine: (its address, the paths that it was asked for)."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_the_policy_forbids_programs_and_requests(study, chromium, listener):
    """Even if a text became markup, the browser would refuse to run it or to load what it names."""
    address, asked = listener
    page = chromium.new_page()
    page.goto(study.url)
    page.locator("html[data-ready]").wait_for(state="attached")
    hacked, refused = page.evaluate(
        """async (address) => {
          const refused = [];
          addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend", `<img src="${address}/image"><iframe src="${address}/frame"></iframe>
            <p style="color: red"></p><p id="trap" onclick="window.hacked = 1">x</p>`);
          document.getElementById("trap").click();
          await fetch(address + "/fetch").catch(() => 0);
          await new Promise((done) => setTimeout(done, 300));
          return [window.hacked ?? null, refused];
        }""",
        address,
    )
    assert hacked is None and asked == []
    assert set(refused) >= {"connect-src", "frame-src", "img-src", "script-src-elem", "script-src-attr", "style-src-attr"}
    page.close()


# --- size -----------------------------------------------------------------------------------------------------------


def test_fifty_thousand_completions_open_in_three_seconds(tmp_path, watched, record_property):
    made, rng = Made(tmp_path, seeds=range(10), policies=["hard", "middle", "random", "easy"]), random.Random(1)
    words = ["so", "then", "he", "has", "apples", "left", "minus", "plus", "<b>", "the", "answer", "\u202e"] + [
        str(n) for n in range(200)
    ]
    places, size = made.places, 305
    for test in made.tests:
        made.problems(test, [{"id": f"{test}{i}", "question": " ".join(rng.choices(words, k=40)), "answer": "1", "tier": i % 5} for i in range(size)])  # fmt: skip
        for place in places:
            step = 0 if place == "m/base" else 30
            rows = [
                {
                    "step": step, "id": f"{test}{i}", "decoding": "sampled", "sample": k, "correct": rng.randrange(2), "answered": 1,
                    "completion": " ".join(rng.choices(words, k=100)), "truncated": 0, "tokens": 100,
                }
                for i in range(size) for k in range(2)
            ]  # fmt: skip
            made.evaluation(place, test, rows)
    done = made.write()
    assert done.returncode == 0, done.stderr
    total = size * 2 * len(places) * len(made.tests)
    assert total >= 50_000

    def seconds(action):
        started = time.perf_counter()
        action()
        watched.ready()
        return time.perf_counter() - started

    opened = []
    while len(opened) < 5 and min(opened, default=9) > 3:  # what other programs on the machine take is not the page's
        opened.append(seconds(lambda: watched.open(made.url)))
    taken = {"open": min(opened)}
    assert watched.cells("#summary")[-1][1] == f"{total:,}" and len(watched.cells("#problems")) == 100
    taken["filter"] = seconds(lambda: watched.page.locator("#filter-change").select_option("up"))
    taken["problem"] = seconds(lambda: watched.page.locator("#problems tbody tr").nth(50).click())
    taken["link"] = seconds(lambda: watched.open(watched.page.url))
    taken["search"] = seconds(lambda: watched.page.goto(watched.page.url + "&in=completions&search=apples"))
    print({name: round(value, 2) for name, value in taken.items()}, (tmp_path / "explorer.html").stat().st_size / 1e6, "MB")
    record_property("seconds", taken)
    assert taken["open"] <= 3, (taken, opened)


# --- files that do not fit, and recordings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[0].pop("completion"), "line 1: 'completion' is missing"),
        (lambda rows: rows.pop(), "sample 0 (sampled) of 'b' at step 0 is graded in results/evaluation/m/base/t.csv.gz but has no text; delete"),
        (lambda rows: rows.append(rows[0]), "row 3: sample 0 (sampled) of 'a' at step 0 stands in the file twice; delete"),
    ],
)  # fmt: skip
def test_texts_that_do_not_belong_to_the_grades_are_named(tmp_path, change, words):
    made = Made(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    made.problems("t", [{"id": name, "question": "?", "answer": "x", "tier": 1} for name in "ab"])
    rows = [
        {"step": 0, "id": name, "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0, "completion": ""} for name in "ab"
    ]
    for place in made.places:
        made.evaluation(place, "t", rows)
    texts = [{key: row[key] for key in [*evaluations.KEY, "completion"]} for row in rows]
    change(texts)
    files.write_jsonl(tmp_path / "results/evaluation/m/base/t.jsonl.gz", texts)
    done = made.write()
    assert done.returncode == 1 and "Traceback" not in done.stderr and not (tmp_path / "explorer.html").exists()
    assert done.stderr.startswith("error: results/evaluation/m/base/t.jsonl.gz: ") and words in done.stderr, done.stderr


def test_an_id_that_is_no_problem_and_a_missing_file_are_named(tmp_path):
    made = Made(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    made.problems("t", [{"id": "a", "question": "?", "answer": "x", "tier": 1}])
    row = {"step": 0, "id": "z", "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0, "completion": ""}
    made.evaluation("m/base", "t", [row])
    assert "t.csv.gz: id 'z' is not in results/tasks/t/test.jsonl; delete" in made.write().stderr
    made.evaluation("m/base", "t", [row | {"id": "a"}])
    assert made.write().stderr == "error: results/evaluation/m/t/r/hard/seed0/t.csv.gz: no such file\n"


def test_recorded_completions_come_with_their_texts(world, watched):
    """Through the workflow; the base has four samples, a checkpoint two, and one has a sample that the base has not."""
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
        recordings = {"letters": {"base": "mine/base.jsonl", "runs": {"all": "mine/all-{step}.jsonl"}}}
        config["models"]["mine"] = {"source": {"kind": "recorded", "recordings": recordings}}
        letters = {"source": {"kind": "files", "test": "mine/base.jsonl"}}
        config["tasks"]["letters"] = config["tasks"]["shuffled_objects_seven"] | letters
        config["studies"]["recordings"].update(models=["mine"], tasks=["letters"], policies=["all"])

    world.configure(configure)
    done = world.snakemake("explorer", "--config", "study=recordings")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert world.plan("explorer", "--config", "study=recordings") == {}
    watched.open((world.folder / "paper/recordings/explorer.html").as_uri())
    summary = {cells[0]: cells[1:] for cells in watched.cells("#summary")}
    assert summary["base model"] == ["16", "62.5 %", "–", "–", "–", "37.5 %", "–"]
    assert summary["all"] == ["20", "100.0 %", "62.5 %", "6", "0", "0.0 %", "20.0 %"]
    watched.page.locator("#problems a").nth(2).click()
    watched.ready()
    assert "p̂ 0.50 (2 of 4 samples" in watched.text("#detail .facts >> nth=0")
    assert "and then" in watched.text("[data-side=base]") and "tokens not recorded" in watched.text("[data-side=base]")
    assert "sample 0 <b>says</b>" in watched.text("[data-side=checkpoint]") and "7 tokens" in watched.text("[data-side=checkpoint]")
    watched.page.locator(".pairs a").nth(4).click()
    watched.ready()
    assert "There is no sample 4 of the base model" in watched.text(".side") and "cut off at the limit" in watched.text(".side")
