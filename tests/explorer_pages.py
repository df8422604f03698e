"""Hand-made studies for the explorer of completions, and a browser page that records console
messages and requests."""

import gzip
import itertools
import json
import random
from decimal import ROUND_HALF_UP, Decimal

import pandas as pd
import pytest

import project_config
from command_line import run
from conftest import CHROMIUM
from hardgrpo.data import evaluations
from hardgrpo.runtime import files

TITLE = 'A <b>small</b> study & "more" {{ 7 * 7 }}'
SAMPLES = [("sampled", 0), ("sampled", 1), ("sampled", 2), ("greedy", 0)]
BASE_ROW = dict.fromkeys(evaluations.COLUMNS) | {"strict": 0, "lenient": 0, "undecided": 0}


class HandMadeStudy:
    """A hand-made study: one model, trained on task `t` with each policy and seed, and tested on
    `tests`."""

    def __init__(self, folder, seeds=(0, 1), policies=("hard", "easy"), tests=("t", "u")):
        self.folder, self.tests = folder, tests
        study_config = {
            "title": TITLE,
            "models": ["m"],
            "tasks": ["t"],
            "arms": [{"policy": list(policies), "recipe": ["r"]}],
            "seeds": list(seeds),
        }
        if tests[1:]:
            study_config["also_tested_on"] = {"t": list(tests[1:])}
        self.config = {
            "studies": {"s": study_config},
            "tasks": dict.fromkeys(tests, project_config.TASK),
            "models": {"m": {"source": {"kind": "folder", "path": "m"}}},
        }
        self.model_paths = ["m/base"] + [
            f"m/t/r/{policy}/seed{seed}" for policy in policies for seed in seeds
        ]

    def write_problems(self, test, rows):
        files.write_jsonl(self.folder / f"results/tasks/{test}/test.jsonl", rows)

    def write_evaluation(self, model_path, test, rows):
        """Write an evaluation. Each row must have step, id, decoding, sample, correct, answered and
        completion. Missing columns get the values of BASE_ROW."""
        stem = f"results/evaluation/{model_path}/{test}"
        files.write_rows(
            self.folder / f"{stem}.csv.gz",
            evaluations.COLUMNS,
            [
                BASE_ROW | {key: value for key, value in row.items() if key != "completion"}
                for row in rows
            ],
        )
        lines = [
            json.dumps({key: row[key] for key in [*evaluations.KEY_COLUMNS, "completion"]}) + "\n"
            for row in rows
        ]
        # In these tests U+DCFF stands for the byte FF, which is not valid UTF-8 (surrogateescape).
        data = "".join(lines).replace("\\udcff", "\udcff").encode("utf-8", "surrogateescape")
        (self.folder / f"{stem}.jsonl.gz").write_bytes(gzip.compress(data, 1))

    def write(self):
        config = json.dumps(self.config)
        return run(self.folder, "write_explorer", study="s", config=config, output="explorer.html")

    @property
    def url(self):
        return (self.folder / "explorer.html").as_uri()


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        browser = tools.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


class WatchedPage:
    """A page that must write nothing to the console and request nothing but files and data."""

    def __init__(self, browser):
        self.page = browser.new_page(viewport={"width": 1400, "height": 900})
        self.page.set_default_timeout(600_000)  # milliseconds
        self.messages, self.requests = [], []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on(
            "dialog", lambda dialog: (self.messages.append(dialog.message), dialog.dismiss())
        )
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, url):
        self.page.goto("about:blank")
        self.page.goto(url)
        self.wait_until_ready()

    def wait_until_ready(self):
        """Wait until the page shows what its address selects."""
        address = self.page.evaluate("location.hash")
        self.page.locator(f"html[data-ready={json.dumps(address)}]").wait_for(state="attached")

    def filter(self, **values):
        for name, value in values.items():
            self.page.locator(f"#filter-{name}").select_option(value)
            self.wait_until_ready()

    def press(self, key):
        self.page.keyboard.press(key)
        self.wait_until_ready()

    def cells(self, table):
        return [
            row.locator("td").all_inner_texts()
            for row in self.page.locator(f"{table} tbody tr").all()
        ]

    def text(self, selector):
        return self.page.locator(selector).inner_text()


@pytest.fixture
def watched(chromium):
    watched = WatchedPage(chromium)
    yield watched
    assert watched.messages == [], "the page wrote to the console"
    assert [
        url for url in watched.requests if not url.startswith(("file:", "data:", "about:", "blob:"))
    ] == [], "the page requested an address on a network"
    watched.page.close()


def draw_row(rng, model_path: str, step: int, problem: dict, decoding: str, sample: int) -> dict:
    """A completion, which is right more often after training."""
    answered, correct = rng.random() < 0.8, rng.random() < (0.3 if step == 0 else 0.6)
    row = {"step": step, "decoding": decoding, "sample": sample, "answered": int(answered)}
    row |= {key: problem[key] for key in ("id", "tier")}
    row |= {"correct": int(answered and correct)}
    row |= {"truncated": int(not answered and rng.random() < 0.9), "tokens": rng.randrange(5, 60)}
    answer = f" #### {problem['answer'] if correct else 'other'}" if answered else ""
    text = f"{model_path} step {step} {decoding} {sample} says{answer}"
    return row | {"completion": text}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study with 130 problems of task `t` and 20 of task `u`. The base model and two checkpoints
    of each of four runs answer every problem with three samples and one greedy completion. `rows`
    has the completions that the explorer shows."""
    explorer, rng = HandMadeStudy(tmp_path_factory.mktemp("study")), random.Random(5)
    rows = []
    for test, count in (("t", 130), ("u", 20)):
        problems = [
            {"id": f"{test}-{i:03d}", "question": f"What is number {i}?", "answer": f"n{i}"}
            | {"tier": i % 3 or None}
            for i in range(count)
        ]
        explorer.write_problems(test, problems)
        for model_path in explorer.model_paths:
            steps = [0] if model_path == "m/base" else [5, 10]
            completions = [
                draw_row(rng, model_path, step, problem, *sample)
                for step, problem, sample in itertools.product(steps, problems, SAMPLES)
            ]
            explorer.write_evaluation(model_path, test, completions)
            rows += [row | {"model_path": model_path, "test": test} for row in completions]
    done = explorer.write()
    assert done.returncode == 0, done.stderr
    table = pd.DataFrame(rows)
    table = table[table.step != 5]
    keys = ["id", "decoding", "sample"]
    base = table[table.step == 0].set_index(keys).correct.rename("base_correct")
    policy = lambda path: "base model" if path == "m/base" else path.split("/")[3]
    explorer.rows = table.join(base, on=keys).assign(policy=table.model_path.map(policy))
    return explorer


def percent(flags):
    """The share of ones in `flags` as the page prints it: one decimal, halves rounded up."""
    share = Decimal(100 * int(sum(flags)) / len(flags))
    return f"{share.quantize(Decimal('0.1'), ROUND_HALF_UP)} %"


def summary_rows(rows):
    """The rows that the summary table must show for the completions `rows`."""

    def line(name, rows):
        runs = rows[rows.policy != "base model"]
        up, down = runs.correct > runs.base_correct, runs.correct < runs.base_correct
        pairs = (
            [percent(runs.base_correct), f"{up.sum():,}", f"{down.sum():,}"]
            if len(runs)
            else ["–"] * 3
        )
        return [name, f"{len(rows):,}", percent(rows.correct), *pairs, percent(1 - rows.answered), percent(rows.truncated)]  # fmt: skip

    lines = [
        line(policy, rows[rows.policy == policy])
        for policy in ("base model", "hard", "easy")
        if (rows.policy == policy).any()
    ]
    return [*lines, line("all completions that pass the filters", rows)]
