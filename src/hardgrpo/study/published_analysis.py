"""An analysis of published numbers of right answers: a study without arms, which samples and trains
nothing."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hardgrpo.study.strict import Count, Name, Strict


class Original(Strict):
    """Files of a repository on GitHub, as their authors published them."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")]
    """Name of the repository on GitHub: owner/name."""

    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")]
    """Hash of the commit, at least its first 7 digits. inputs.lock pins the sizes and checksums of the files."""

    folder: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")]
    """The folder of the files in the repository."""

    files: Annotated[list[Name], Field(min_length=1)]
    """The names of the files. For kind probe_sizes, only the first row of a question that a file
    repeats is used."""

    local: str
    """Folder below the folder of `data` in config.yaml. If this folder has a file with a name in `files`, that file is read
    instead of a download."""

    licence: str
    """The licence of the files."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if ".." in self.folder.split("/"):
            yield "folder", "'..' leaves the repository; name a folder of the repository"


class Claim(Strict):
    """A claim of a paper, written down before the tables are made. docs/statistics.md describes the
    verdicts."""

    id: Name
    """A name for the claim."""

    paper: str
    """The paper that makes the claim."""

    claim: str
    """The claim, in words."""

    test: Literal["unsolved_gain", "mixed_lead"]
    """unsolved_gain: prompts that the base model solves in none of its `probe` samples gain nothing, within `margin`.
    mixed_lead: after training, groups of the prompts that `policy` chooses are mixed more often than groups of a random choice."""

    replicates: Annotated[int, Field(ge=2)]
    """The number of seeds that a verdict requires."""

    margin: Annotated[float, Field(gt=0)] | None = None
    """Only for unsolved_gain: the largest distance of the gain from zero that the claim allows, as
    a share."""

    policy: Literal["hard", "hard_solvable", "nearest_half", "middle", "easy"] | None = None
    """Only for mixed_lead: the rule that chooses the prompts."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        for key, test in (("margin", "unsolved_gain"), ("policy", "mixed_lead")):
            if (getattr(self, key) is not None) != (self.test == test):
                yield (
                    key,
                    f"is missing, but test {test} needs it; add it"
                    if self.test == test
                    else f"belongs to test {test} only; remove it",
                )


class Analysis(Strict):
    """An analysis of published numbers of right answers: a study without arms, which samples and
    trains nothing."""

    title: str
    """Title of the study's page."""

    question: str
    """The question that the analysis answers, for the list of studies."""

    kind: Literal["probe_sizes", "before_after"]
    """What is computed, and the format of the files. probe_sizes: measures of the chosen prompts,
    for each number of samples per prompt by which prompts are chosen (Parquet or JSON files in the forms that
    hardgrpo.data.published_counts reads). before_after: pass rates before and after training, grouped by the pass rate before
    training (a CSV file with columns qid, initial_pass1 and pass1_seed1, pass1_seed2, ...)."""

    model: Name
    """The name of the model, for tables and figures."""

    prompts: Name
    """A name for the prompts, in place of the name of a task."""

    population: str
    """The prompts and runs that the results describe, in words."""

    samples: Annotated[int, Field(ge=2, le=1000)]
    """Samples per prompt from which each published pass rate was computed. Each pass rate must be a
    multiple of 1/samples."""

    probe: Count
    """Number of samples per prompt by which prompts are chosen (probe_sizes: every number from 1 to
    `probe`). The remaining samples measure the chosen prompts."""

    group: Annotated[int, Field(ge=2)]
    """Completions in a group of GRPO."""

    budget: Annotated[float, Field(gt=0, le=1)]
    """Share of the prompts that is chosen."""

    source: Original

    claims: list[Claim] | None = None
    """Only for kind before_after: the claims that are judged, at most one of each paper."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.probe + self.group > self.samples:
            yield (
                "probe",
                f"a probe of {self.probe} and a group of {self.group} need {self.probe + self.group} samples, not {self.samples}; lower one",
            )
        if self.kind == "before_after" and len(self.source.files) != 1:
            yield (
                "source.files",
                f"kind before_after reads one file, found {len(self.source.files)}; name one file",
            )
        if self.claims and self.kind != "before_after":
            yield "claims", f"kind {self.kind} has no claims; remove them"
        papers = [claim.paper for claim in self.claims or []]
        if len(set(papers)) < len(papers):
            yield "claims", "a paper has two claims; keep one claim of each paper"
