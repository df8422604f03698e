"""The names of the summary tables and of the figures, with the figures' captions. Planning the workflow needs no more than these names.

To add

- a summary table `name`: write the decorated function `name` in a module of src/hardgrpo/analysis
  (see summary_tables.py), and add the name here;
- a table of the supplement: add an entry to tables.TABLES;
- a figure: write a function in figures.py, and add an entry here.

Tables and figures that the supplement's text does not place are printed at its end.
"""

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
# The tables of the picture of ways.py
WAYS = [COMPARISONS, paths.committed_table("before_after/difficulty_classes")]
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

# --- figures ---

# {figure of studies or of analyses of published numbers: its caption, in LaTeX}
FIGURES = {
    "difficulty": (
        "Pass rates of the base model on the pool, and on the prompts that each policy chooses,"
        " as shares of the pool and of each subset (mean over seeds): the area of a disc is the"
        " share."
    ),
    "accuracy": (
        r"Accuracy of sampled completions on the test set, by policy and checkpoint, with 95\,\%"
        " intervals. Step 0 is the base model. The intervals are wider than those of differences"
        " between policies, which are paired by problem and seed."
    ),
    "parts": (
        "The gain of each policy (black mark), split into finishing and correctness (bars), with"
        r" 95\,\% intervals. All panels have one scale."
    ),
    "kinds": (
        "The gain of each policy (black mark), split into three kinds (bars): finishing,"
        " sharpening (on problems that the base model solves in some of its reach samples) and"
        r" new solving (on problems that the base model solves in no reach sample), with 95\,\%"
        " intervals. A diamond is the gain of greedy completions."
    ),
    "pass_at_k": (
        "Probability that at least one of $k$ samples is right, of base and trained models, with"
        r" 95\,\% intervals. Dashed grey line: the base model, counting only samples in which"
        " every step is right."
    ),
    "training_curves": (
        "Groups of rollouts that are learnable (and, where the logs say it, all wrong), mean length of"
        " the rollouts, and their share that is truncated at the completion limit, over training, by"
        r" policy, with 95\,\% intervals over seeds."
    ),
    "learnable": (
        r"Gain against the learnable share of the groups, with 95\,\% intervals. A point is a"
        " policy and recipe; hollow: another recipe than the study's first. The table of"
        " regressions has $R^2$, also for the length of completions."
    ),
    "labels": (
        "Gain by arm, sorted by the number of labels (at the right) bought to choose the prompts and"
        r" to train on them, with 95\,\% intervals. The intervals are wider than those"
        " of differences between policies, which are paired by problem and seed."
    ),
    "rollouts": (
        r"Gain at equal rollouts, by arm, at the last checkpoint with 95\,\% intervals, and at"
        " earlier checkpoints (later ones are darker). Arms are sorted by their number of labels,"
        " averaged over the panels; the number at an arm is its number of labels in the panel."
    ),
    "trajectories": (
        "Shares of a prompt's groups that are learnable, all wrong and all right over a recorded"
        r" training run, by policy, with 95\,\% intervals for new prompts in this run."
    ),
    "samples_per_prompt": (
        "The chosen prompts, measured with new samples of the same model: share of mixed"
        " groups, pass rate and share never solved, by the number of samples per prompt on"
        " which the choice was based. Large mark: from this number on, more samples raise the"
        " share of mixed groups by at most a point."
    ),
    "before_after_training": (
        "Pass rate and mixed groups of prompts before and after training on all prompts, by"
        " their share of right answers before training, and pass@$k$ over all prompts, with"
        r" 95\,\% intervals."
    ),
}


def summary_tables(study: Study) -> list[str]:
    return COUNT_TABLES[study.analysis.kind] if study.is_analysis else SUMMARIES
