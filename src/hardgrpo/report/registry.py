"""The names of the summary tables, and the figures of studies and of analyses with their captions.
Planning the workflow needs no more than these names.

To add

- a summary table `name`: write the decorated function `name` in a module of src/hardgrpo/analysis
  (see summary_tables.py), and add the name here;
- a table of the supplement: add an entry to tables.TABLES;
- a figure: write a function in figures.py, and add an entry here.

Tables and figures that the supplement's text does not place are printed at its end.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hardgrpo.report import conditions
from hardgrpo.study import paths
from hardgrpo.study.study import Study

# --- summary tables ---

# The names of the summary tables. Their functions are in hardgrpo.analysis, with the decorator
# `summary_tables.table`. Planning the workflow needs only the names.
SUMMARIES = [
    "accuracy",
    "gains",
    "differences",
    "paired",
    "mcnemar",
    "parts",
    "decomposition",
    "decomposition_runs",
    "pass_at_k",
    "base_pass_at_k",
    "kinds",
    "reasons",
    "learnable",
    "curves",
    "regressions",
    "tiers",
    "tier_trends",
    "lead_regressions",
    "catches_up",
    "spent",
    "rollouts",
    "time_to_target",
    "subsets",
    "chosen",
    "difficulty",
    "contamination",
    "trajectories",
    "recorded_runs",
]
# {kind of an analysis of published numbers: names of its summary tables}
COUNT_TABLES = {
    "probe_sizes": ["probe_sizes"],
    "before_after": ["difficulty_classes", "choices_after", "solved_counts", "pass_at_each_k"],
}
# Tables made from summary tables and the papers' claims or numbers
# (scripts/summaries/judge_claims.py).
JUDGED = ["claims", "against_random", "compared"]
# The comparisons with a random choice in all committed studies (pages/recommended.py)
COMPARISONS = paths.committed_table("all/which-prompts")
# Files of results/published that `judge_claims.py` reads: published numbers, and the tasks of this
# project that correspond to the papers' tasks (readings).
PUBLISHED = [
    "base_wrong",
    "gains",
    "learnable",
    "limits",
    "out_of_distribution",
    "readings",
    "recordings",
]
# Tables that the page worth.html reads.
WORTH = ["gains", "parts", "spent", "against_random", "contamination"]

# --- figures ---


@dataclass(frozen=True)
class Figure:
    """A figure. `when` decides from the configuration whether a study has data for the figure."""

    section: str  # heading in the report under which the figure is listed
    title: str
    caption: str  # LaTeX
    when: Callable[[Study], bool] = lambda study: bool(study.runs)
    # keywords of the figure's function, from the configuration
    design: Callable[[Study], dict] = lambda study: {}


FIGURES = {
    "difficulty": Figure(
        "Design",
        "Difficulty of the pool and of the subsets",
        "Pass rates of the base model on the pool, and on the prompts that each policy chooses,"
        " as shares of the pool and of each subset (mean over seeds): the area of a disc is the"
        " share.",
        when=lambda study: bool(paths.difficulties(study)),
    ),
    "accuracy": Figure(
        "Results",
        "Accuracy by checkpoint",
        r"Accuracy of sampled completions on the test set, by policy and checkpoint, with 95\,\%"
        " intervals. Step 0 is the base model. With more than eight arms, the figure has a row"
        " for each arm; the dashed line is then the base model, and the band around it the base"
        " model's interval. The intervals are wider than those of differences between policies,"
        " which are paired by problem and seed.",
    ),
    "ahead": Figure(
        "Results",
        "The lead of the hardest prompts by checkpoint",
        r"The lead of \texttt{hard} over each other policy at each checkpoint, paired by problem"
        r" and seed, with 95\,\% intervals. Above zero \texttt{hard} is ahead. The hue is the rule"
        " of the other policy.",
        when=conditions.is_compared,
    ),
    "parts": Figure(
        "What the gains are made of",
        "Finishing and correctness",
        "The gain of each policy (black mark), split into finishing and correctness (bars), with"
        r" 95\,\% intervals.",
    ),
    "kinds": Figure(
        "What the gains are made of",
        "Finishing, sharpening and new solving",
        "The gain of each policy (black mark), split into three kinds (bars): finishing,"
        " sharpening (on problems that the base model solves in some of its reach samples) and"
        r" new solving (on problems that the base model solves in no reach sample), with 95\,\%"
        " intervals. A diamond is the gain of greedy completions.",
        when=conditions.has_reach,
    ),
    "pass_at_k": Figure(
        "What the gains are made of",
        "pass@k",
        "Probability that at least one of $k$ samples is right, of base and trained models, with"
        r" 95\,\% intervals. Dashed grey line: the base model, counting only samples in which"
        " every step is right. With more than eight arms, the figure has a row for each arm; the"
        " dashed line is then the base model, and the band around it the base model's interval.",
        when=conditions.has_reach,
    ),
    "truncation": Figure(
        "What the gains are made of",
        "Tight and ample limit",
        "Gain by policy (printed number), split into finishing and correctness: trained under the"
        " tight or the ample limit (lines of panels), tested under the tight or the ample limit"
        " (columns).",
        when=lambda study: bool(conditions.limits(study)),
        design=lambda study: {"limits": conditions.limits(study)},
    ),
    "lengths": Figure(
        "What the gains are made of",
        "Completion length over training",
        "Mean length of the rollouts over training, and their share that is truncated at the"
        r" completion limit, by policy, with 95\,\% intervals over seeds.",
        when=conditions.has_rollouts,
    ),
    "groups": Figure(
        "What explains the gains",
        "Groups over training",
        "Shares of the groups of rollouts over training, by policy: learnable and, where the logs"
        " distinguish them, all right and all wrong. In panels with updates on the horizontal"
        r" axis, bars are 95\,\% intervals over seeds; stacked shares have no intervals.",
        when=conditions.has_rollouts,
    ),
    "learnable": Figure(
        "What explains the gains",
        "Learnable share and completion length",
        "Gain against the learnable share of the groups and, where lengths differ by a token or"
        r" more, against the mean length of completions, with 95\,\% intervals. A point is a"
        " policy and recipe. Hollow: another recipe than the study's first. Size: budget. Line:"
        " least squares within the task, through ten points or more.",
        when=conditions.has_rollouts,
    ),
    "budget": Figure(
        "Results",
        "Gain by share of the pool",
        r"Gain by policy and share of the pool that is trained on, with 95\,\% intervals. The hue"
        " is the rule of the policy.",
        when=conditions.has_budgets,
        design=lambda study: {"lines": conditions.budget_lines(study)},
    ),
    "labels": Figure(
        "Results",
        "Gain against labels bought",
        "Gain by arm, sorted by the number of labels (at the right) bought to choose the prompts and"
        r" to train on them, with 95\,\% intervals. The intervals are wider than those"
        " of differences between policies, which are paired by problem and seed.",
        when=conditions.has_labels,
        design=lambda study: {"lines": conditions.budget_lines(study)},
    ),
    "rollouts": Figure(
        "Results",
        "Gain by rollouts and labels",
        r"Gain at equal rollouts, by arm, at the last checkpoint with 95\,\% intervals, and at"
        " earlier checkpoints (later ones are darker). Arms are sorted by their number of labels,"
        " averaged over the panels; the number at an arm is its number of labels in the panel.",
        when=conditions.chooses_at_equal_rollouts,
    ),
    "trajectories": Figure(
        "Results",
        "Learnable groups over training",
        "Shares of a prompt's groups that are learnable, all wrong and all right over a recorded"
        r" training run, by policy, with 95\,\% intervals for new prompts in this run.",
        when=lambda study: bool(study.trajectory_prompts),
    ),
}

# Figures of analyses of published numbers, by the kind of the analysis.
COUNT_FIGURES = {
    "probe_sizes": {
        "samples_per_prompt": Figure(
            "Results",
            "How many samples per prompt?",
            "The chosen prompts, measured with new samples of the same model: share of mixed"
            " groups, pass rate and share never solved, by the number of samples per prompt on"
            " which the choice was based. Large mark: from this number on, more samples raise the"
            " share of mixed groups by at most a point.",
        ),
    },
    "before_after": {
        "before_after_training": Figure(
            "Results",
            "Before and after training, by difficulty",
            "Pass rate and mixed groups of prompts before and after training on all prompts, by"
            " their share of right answers before training, and pass@$k$ over all prompts, with"
            r" 95\,\% intervals.",
        ),
    },
}


def all_figures() -> dict[str, Figure]:
    """{name: figure} of all figures of studies and of analyses of published numbers."""
    return FIGURES | {
        name: figure for group in COUNT_FIGURES.values() for name, figure in group.items()
    }


def summary_tables(study: Study) -> list[str]:
    return COUNT_TABLES[study.analysis.kind] if study.is_analysis else SUMMARIES


def figures_of(study: Study) -> list[str]:
    """Names of the figures for which the study has data."""
    if study.is_analysis:
        return list(COUNT_FIGURES[study.analysis.kind])
    return [name for name, figure in FIGURES.items() if figure.when(study)]
