"""A dataset, and the conditions under which models answer it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from hardgrpo.data import generated
from hardgrpo.study.strict import Commit, Count, Names, Strict

SOLVED_FAMILIES = ("swaps", "arithmetic")  # generated families whose problems have worked solutions


class Generated(Strict):
    """Problems that this project generates. The same values of these keys give the same problems.
    The test split continues the draws of the train split, so another `train` also gives another
    test split."""

    kind: Literal["generated"]
    """The problems are generated."""

    family: Literal["swaps", "arithmetic", "facts"]
    """swaps: people swap colours. arithmetic: word problems of several steps. facts: which animal a person keeps, at most
    650 problems in both splits together. The animals are drawn at random, so a model can learn facts only from its
    demonstrations, which contain both splits."""

    objects: Annotated[list[Annotated[int, Field(ge=2, le=7)]], Field(min_length=1)] | None = None
    """Required for swaps: the numbers of objects that a problem may have."""

    length: Annotated[list[Annotated[int, Field(ge=1, le=9)]], Field(min_length=1)] | None = None
    """Required for swaps and arithmetic: the numbers of swaps or steps that a problem may have. A
    problem's number of swaps or steps is its tier."""

    seed: int
    """Random seed of the problems."""

    train: Annotated[int, Field(ge=0)]
    """Number of problems in the pool; 0 for a task that is only tested on."""

    test: Count
    """Number of problems in the test split."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        for key, families in (
            ("objects", ("swaps",)),
            ("length", ("swaps", "arithmetic")),
        ):
            if self.family in families and getattr(self, key) is None:
                yield "", f"family {self.family} needs '{key}'; add it, e.g. {key}: [3, 4, 5]"
            elif self.family not in families and getattr(self, key) is not None:
                yield key, f"family {self.family} does not use '{key}'; remove it"
        if self.family == "facts" and self.train + self.test > generated.FACTS:
            yield (
                "",
                f"{self.train} + {self.test} problems, but {generated.FACTS} facts; lower train",
            )


RecordedPart = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*/(probe|base)$")]


class Columns(Strict):
    """The columns (or keys) of the rows. The defaults are question, answer, tier and id. Only the
    default columns tier and id (and, with `labelled: false`, the answers of the train split) may be
    missing in the rows."""

    question: str | None = None
    """The prompt's text."""

    answer: str | None = None
    """The reference answer."""

    tier: str | None = None
    """The problem's own difficulty, such as a number of steps, if it has one."""

    solution: str | None = None
    """A worked solution that ends in the answer, in the form that the prompt asks for, for
    recipes with objective sft."""

    id: str | None = None
    """A name that is unique in the split. The id of a row without a name follows from the text of
    its question; for problems from the hub, the id is DATASET-SPLIT-NUMBER."""


class Files(Strict):
    """Problems from local files: JSON Lines, JSON, CSV or TSV (with commas, semicolons, tabs or
    vertical bars), Parquet, or a text with a problem in each line; texts may be compressed."""

    kind: Literal["files"]
    """The problems come from local files."""

    train: str | Names | None = None
    """The file or files of the pool: a name, or a list of names. Leave this key out for a task that is only tested on."""

    test: str | Names | None = None
    """The file or files of the test split: a name, or a list of names. Leave this key out if nothing is trained."""

    columns: Columns | None = None

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if not (self.train or self.test):
            yield "", "neither 'train' nor 'test' is there; name at least one split"
        for split in ("train", "test"):
            names = getattr(self, split)
            if isinstance(names, list) and len(set(names)) < len(names):
                yield split, f"{names} name a file twice; remove one"


class RecordedProblems(Strict):
    """The questions of a recorded model whose files hold questions and answers (a model of kind
    recorded with `repository`)."""

    kind: Literal["recorded"]
    """The problems are those of a recording."""

    train: RecordedPart | None = None
    """Where the questions of the pool are: NAME/probe or NAME/base, where NAME is a recorded model.
    `probe` and `base` are the files of that model's recording for this task."""

    test: RecordedPart | None = None
    """Where the questions of the test split are, in the same form as `train`."""


class Rows(Strict):
    """The rows that are used, counted from 0. The default is all rows."""

    only: list[Annotated[int, Field(ge=0)]] | None = None
    """Use only these rows."""

    all_but: list[Annotated[int, Field(ge=0)]] | None = Field(None, alias="except")
    """Use all rows except these."""

    every: Count | None = None
    """Use each n-th row, starting at `first`."""

    first: Annotated[int, Field(ge=0)] | None = None
    """Use no row before this one, with or without `every`. The default is 0."""

    draw: Count | None = None
    """Use this number of rows, drawn at random with `seed` from the rows that the other keys
    leave, in the order of the file."""

    seed: int | None = None
    """Random seed of `draw`."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if (self.draw is None) != (self.seed is None):
            present, missing = ("seed", "draw") if self.draw is None else ("draw", "seed")
            yield present, f"needs '{missing}', too; add it, e.g. {missing}: 200"


class Part(Strict):
    dataset: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")]
    """Name of the dataset on the hub: owner/name."""

    revision: Commit
    """The full commit hash (40 hexadecimal digits) that is downloaded."""

    file: Annotated[str, Field(pattern=r"^[\w-][\w ./=-]*\.(jsonl?|csv|tsv|parquet)$")]
    """Path of a file with rows in the dataset, such as main/train-00000-of-00001.parquet: Parquet, JSON Lines, CSV or TSV."""

    local: str | None = None
    """A file with the same rows (or BIG-Bench-Hard's JSON) below `data`. If it exists, it is read
    and nothing is downloaded."""

    rows: Rows | None = None


class SplitSizes(Strict):
    """The number of problems that each split must have after `rows` is applied and before `keep` is
    applied. The workflow refuses any other number."""

    train: Count | None = None
    """Problems of the pool."""

    test: Count | None = None
    """Problems of the test split."""


class HubDataset(Strict):
    """Problems of datasets on the Hugging Face hub, or of local files with the same rows."""

    kind: Literal["hub"]
    """The problems come from the Hugging Face hub."""

    format: Literal["columns", "gsm8k", "choices", "math"] | None = None
    """How a row becomes a problem: columns (the default), gsm8k (answer after ####), choices (input, target), math
    (problem, solution or answer, level)."""

    columns: Columns | None = None

    problems: SplitSizes | None = None

    keep: Literal["numeric"] | None = None
    """numeric: keep only problems whose reference answer is one number."""

    train: Annotated[list[Part], Field(min_length=1)] | None = None
    """The parts of datasets that form the pool. Leave this key out for a task that is only tested on."""

    test: Annotated[list[Part], Field(min_length=1)] | None = None
    """The parts of datasets that form the test split. Leave this key out if nothing is trained."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.format not in (None, "columns") and self.columns:
            yield "columns", f"format {self.format} sets the columns; remove one of the keys"
        elif not (self.train or self.test):
            yield "", "neither 'train' nor 'test' is there; name at least one split"


class Probe(Strict):
    """How the base model is probed: completions at temperature 1 for every prompt of the train
    split."""

    samples: Count
    """Completions per prompt (K)."""

    held_out: Count | None = None
    """Extra completions per prompt, used only to estimate difficulty without selection bias."""

    shards: Count
    """Number of jobs that share the prompts."""

    seed: int
    """Each completion of each prompt gets its own random seed, derived from this seed."""

    stop: bool = False
    """true: stop sampling as soon as the completions determine the subset of `.venv/bin/snakemake
    subset`, which is exactly the subset that full probing would choose. Early stopping works only if the policy's rule is hard, easy or
    base_*, the policy has no probed_by, and neither a study nor a `cut_from` uses
    the task. Otherwise `stop` is ignored, and Snakemake's log says why. `shards` must be 1."""

    @property
    def all_samples(self) -> int:
        """Completions per prompt: the samples that decide the subset, and the held-out samples."""
        return self.samples + (self.held_out or 0)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.stop and self.held_out:
            yield "held_out", "a probe that stops early has none; remove `held_out` or `stop`"
        if self.stop and self.shards > 1:
            yield "shards", f"{self.shards} shards cannot stop early; set 1, or remove `stop`"


class Reach(Strict):
    """Extra completions of each base model. A problem is out of the base model's reach if none of
    these completions solves the problem. After training, a right answer to a problem out of reach
    is new solving. On all other problems, the base model already gives right answers, and training
    makes them more likely (sharpening)."""

    samples: Annotated[int, Field(ge=2)]
    """Completions per problem, at least 64 if possible: with fewer, more problems are out of
    reach by chance."""

    seed: int
    """A seed that differs from the seed of the test, so that these completions are independent
    of those that measure gains."""


class Test(Strict):
    """How a checkpoint is evaluated: completions at temperature 1 for every problem of the test
    split. Required for the tasks of a study."""

    samples: Count
    """Completions per problem."""

    greedy: bool
    """true: one more completion per problem, at temperature 0."""

    seed: int
    """Each completion of each problem gets its own random seed, derived from this seed."""

    reach: Reach | None = None

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.reach and self.reach.seed == self.seed:
            yield "reach.seed", "equals the seed of the test; give another"


class Task(Strict):
    """A task is a dataset with the conditions under which a model answers it. One dataset under two
    conditions is two tasks."""

    source: Annotated[
        Generated | Files | HubDataset | RecordedProblems, Field(discriminator="kind")
    ]
    """The origin of the problems."""

    prompt: Annotated[str, Field(pattern=r"\{question\}")]
    """The user's message. The workflow puts the problem's text in place of {question}."""

    grader: Literal[
        "final_word",
        "final_number",
        "choice_letter",
        "choice_letter_lenient",
        "boxed_text",
        "boxed_text_plain",
        "brackets",
        "number_strict",
        "number_lenient",
        "math_strict",
        "math",
    ]
    """How an answer is extracted from a completion and compared with the reference answer: see "Grader" in
    docs/glossary.md, and src/hardgrpo/grading/graders.py."""

    labelled: bool | None = None
    """Whether the problems of the train split have reference answers (default: true). With
    false, `.venv/bin/snakemake subset` chooses the prompts to annotate, with a policy that needs
    no answers."""

    annotated: str | None = None
    """With `labelled: false`: a file below `data` that has the rows that `.venv/bin/snakemake
    subset` wrote, with the answers filled in. Policy annotated trains on these rows."""

    contamination: Literal["refuse", "report"] | None = None
    """What to do if the train split contains a test question. refuse (the default): stop with an
    error; the check has priority over sampling, but sampling jobs do not wait for its result.
    report: continue, and report the contamination wherever results are shown. A test whose
    questions are all in the train split is always refused."""

    completion_tokens: Count
    """The completion limit: probe, training and test truncate a completion after this many tokens."""

    cut_from: str | None = None
    """Reuse the completions of another task, truncated to this task's limit, instead of sampling
    again. The other task may differ only by a larger completion_tokens and by more samples of
    the probe."""

    probe: Probe

    test: Test | None = None

    @property
    def has_train(self) -> bool:
        return bool(self.source.train)

    @property
    def has_test(self) -> bool:
        return bool(self.source.test)

    @property
    def is_labelled(self) -> bool:
        """Whether the train split has answers; a test split always has."""
        return self.labelled is not False

    @property
    def is_generated(self) -> bool:
        return isinstance(self.source, Generated)

    @property
    def family(self) -> str | None:
        return self.source.family if isinstance(self.source, Generated) else None

    @property
    def is_memorised(self) -> bool:
        """Whether a model can learn the answers only from its demonstrations."""
        return self.family in generated.MEMORISED

    @property
    def has_solutions(self) -> bool:
        if isinstance(self.source, Generated):
            return self.family in SOLVED_FAMILIES
        return self._format in ("gsm8k", "math") or "solution" in self._columns

    @property
    def has_tiers(self) -> bool:
        """Whether the problems certainly have tiers; rows of own files are not read here."""
        if isinstance(self.source, Generated):
            return not self.is_memorised
        return self._format in ("gsm8k", "choices", "math")

    @property
    def answer_column(self) -> str:
        return self._columns.get("answer", "answer")

    @property
    def question_column(self) -> str:
        return self._columns.get("question", "question")

    @property
    def _format(self) -> str | None:
        return self.source.format if isinstance(self.source, HubDataset) else None

    @property
    def _columns(self) -> dict[str, str]:
        return self.source.entry.get("columns", {})

    def source_of_split(self, split: str, with_solutions: bool = False) -> dict:
        """The part of the source that determines the problems of a split, or with `with_solutions`
        their worked solutions."""
        source = dict(self.source.entry)
        if split == "train":
            source.pop("test", None)
        # a generated test split depends on the train split, which is drawn first
        elif not self.is_generated:
            source.pop("train", None)
        if "problems" in source:
            source["problems"] = source["problems"].get(split)
        # Problems do not contain solutions, so the problems need not be prepared again when the
        # setting `solution` changes.
        if "solution" in self._columns and not with_solutions:
            source["columns"] = {
                key: name for key, name in self._columns.items() if key != "solution"
            }
            if not source["columns"]:
                del source["columns"]
        return source

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.source, Generated) and self.probe.shards > max(1, self.source.train):
            yield (
                "probe.shards",
                f"{self.probe.shards} shards, but only {self.source.train} problems; use fewer",
            )


@dataclass(frozen=True, eq=False)
class Split:
    """A split of the task `task_name`: `train` or `test`."""

    task_name: str
    name: str
    task: Task
