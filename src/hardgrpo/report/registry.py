"""List every summary table, and every table and figure of the paper and the supplements, with its
inputs and the function that makes it.

To add a table or a figure, add an entry here and write its function:

- a summary table `name`: the decorated function `name` in a module of src/hardgrpo/analysis (see
  summary_tables.py).
- a table of the supplement: the function `name` in src/hardgrpo/report/tables/{module}.py. Its keywords
  are the summary tables in `of`. It returns the rows for the CSV and the columns to show.
- a figure: the function `draw` in src/hardgrpo/report/figures/{name}.py. Its keywords are the
  summary tables in `of` and the keywords that `design` returns. It returns the figure and the rows
  that the figure shows ("drawn rows"), for the CSV.

The workflow, the programs, the checks and the paper read these entries. Tables and figures that the
supplement's text does not place are printed at its end.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hardgrpo.report import conditions
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import ResolvedStudy

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
    "same_answers",
    "majority",
    "learnable",
    "curves",
    "regressions",
    "tiers",
    "tier_trends",
    "leads",
    "lead_regressions",
    "lead_by_model",
    "catches_up",
    "parity",
    "spent",
    "rollouts",
    "time_to_target",
    "subsets",
    "chosen",
    "difficulty",
    "contamination",
    "trajectories",
    "recorded_runs",
    "recorded_rates",
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
COMPARISONS = "results/reference/all/which-prompts.csv"
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
# Tables that the numbers in the paper's text come from.
NUMBERED = [
    "gains",
    "differences",
    "learnable",
    "parts",
    "decomposition",
    "kinds",
    "reasons",
    "subsets",
    "regressions",
]
NUMBERED += ["lead_regressions", "claims", "against_random", "trajectories", "contamination"]


# --- tables of the paper ---


@dataclass(frozen=True)
class Table:
    """A table of the supplement; `caption` is LaTeX."""

    module: str
    of: list[str]
    caption: str
    design: bool = False  # whether the function also takes the study's design, as keyword `study`


TABLES = {
    "gain": Table("gains", ["gains", "compared"], "Gain in accuracy over the base model, percentage points (pp)."),
    "parts": Table("parts", ["parts"], "Every gain split into finishing and correctness, percentage points (pp)."),
    "kinds": Table("parts", ["kinds"],
        "Every gain split into finishing, sharpening and new solving, percentage points (pp). A problem is out of reach if none of the base"
        r" model's reach samples solves it (\emph{out}: the share of these problems)."),
    "tier_kinds": Table("parts", ["kinds"], "The three kinds of gain within each tier of the test problem, percentage points (pp)."),
    "reasons": Table("parts", ["reasons"], "Right answers in which every step is right, and right answers with a wrong step; gains in percentage points (pp)."),
    "same_answers": Table("parts", ["same_answers"],
        "How often two samples of a problem give the same answer, and the collision entropy of the answers."),
    "majority": Table("parts", ["majority"], "Majority vote over the samples of a problem (maj@$k$); gains in percentage points (pp)."),
    "learnable": Table("training", ["learnable", "compared"], "Learnable share: groups whose rewards differ, mean over all sampling steps."),
    "rollouts": Table("online", ["rollouts"],
        "Rollouts of runs that choose prompts during training, by arm, means over seeds: generated, kept for an update, replayed in a later"
        " update, thrown away. All sampling steps sample equally many rollouts; a step that keeps too few makes no update. Completions of the"
        " base model's probe, by which some policies choose, are not included."),
    "time_to_target": Table("online", ["time_to_target"],
        "The target is the final accuracy of GRPO with the study's first recipe on the same prompts. Shown: the number of rollouts until an arm first"
        r" reaches the target, in per cent of the number until the first recipe reaches the target, with 95\,\% bootstrap intervals for new seeds (given for"
        " six seeds or more). A dash: the arm never reaches the target. The interval is missing if too many bootstrap samples never reach the target."
        " \\emph{Plain}: the number of rollouts"
        " until the first recipe first reaches the target, in per cent of all its rollouts."),
    "regressions": Table("training", ["regressions"], "Gain explained by learnable share and by mean length, each alone and each adjusted for the other measure."),
    "lead_regressions": Table("training", ["lead_regressions"],
        r"Regression of the lead of \texttt{hard} over another policy on measures of the base model. The slope is in points of"
        " lead per point of the predictor; p-values are not corrected for the number of regressions."),
    "lead_by_model": Table("training", ["lead_by_model"],
        r"Does the lead of \texttt{hard} depend on the model? The smallest and the largest lead of any model, and the standard deviation of the lead between"
        " models without the variation between seeds, percentage points (pp); p of Welch's test of equal leads. All numbers hold for these models and problems only."),
    "out_of_distribution": Table("gains", ["pass_at_k"], "pass@$k$ on test sets other than the task's own."),
    "compared": Table("compared", ["compared"], "Published numbers and the same quantities in this study."),
    "differences": Table("gains", ["differences"], "Differences between policies after training, paired by problem and seed, percentage points (pp)."),
    "graders": Table("parts", ["decomposition"],
        r"Gains that differ between strict and lenient grading, and their parts, percentage points (pp). In column \emph{grading}, \emph{task} is the task's own grading, which gave the rewards in training. The truncated share and the mean length are shown before and after training."),
    "tier_parts": Table("parts", ["decomposition"], "Every gain split into finishing and correctness, within each tier of the test problem, percentage points (pp)."),
    "single_samples": Table("gains", ["mcnemar"], "McNemar's exact test with one completion per problem: problems that only the run of the row solves, and problems that only the run of the comparison solves."),
    "weaker_signal": Table("training", ["gains", "learnable"], "Gain and learnable share of the tasks or models that the study names as having the weaker learning signal.", design=True),
    "transfer": Table("gains", ["gains"], "Gain on test sets other than the task's own, percentage points (pp)."),
    "tiers": Table("gains", ["tiers"], "Accuracy and gain by the tier of the test problem."),
    "catches_up": Table("gains", ["catches_up"], "The first checkpoint that reaches the final accuracy of training on all prompts."),
    "subsets": Table("training", ["subsets"], "The subsets: mean pass rate, share never solved by the base model, and ties at the boundary of the choice."),
    "chosen": Table("training", ["chosen"],
        "Properties of the chosen prompts, measured by the reference answers and held-out samples: mean pass rate, share never solved, share"
        r" whose samples are neither all right nor all wrong, and share on which the base model is confidently wrong (at least half of the"
        r" samples give one answer, and at most a fifth is right), per cent."),
    "recorded": Table("recorded", ["recorded_runs"],
        "Recorded runs of other authors, one run each: mean accuracy of the last five checkpoints minus the accuracy of the base model (\\emph{base}) or of another"
        " run, percentage points (pp), on all test questions and on the questions with a pass rate of the base model of at most 0.3 (\\emph{hard})."
        r" The 95\,\% intervals are for new questions and these runs; where only accuracies are published, the intervals are the"
        " widest that are compatible with these accuracies. Gains on hard questions include regression to the mean, because the base model's completions decide which questions are hard."),
    "recorded_parts": Table("recorded", ["recorded_runs"],
        "The differences of recorded runs, one run each, split into finishing and correctness, and the difference in pass@$k$, where $k$ is"
        " the number of samples of a checkpoint, percentage points (pp)."),
    "spent": Table("training", ["spent", "gains"],
        "Cost of a run, by policy: means over seeds; for tokens and time, also the smallest and the largest value. Runs with the same recipe sample"
        " the same number of rollouts. The number of tokens differs, with a selector also the number of updates."
        " Also shown: the gain and the gain per million sampled tokens."
        " Training on worked solutions samples no tokens."),
    "trajectories": Table("training", ["trajectories"],
        "Groups over the later epochs of a recorded training run, by policy, per cent; \\emph{end}: the last of ten (or fewer) equal stretches of these epochs."
        r" The 95\,\% intervals are for new prompts in this one run."),
    "claims": Table("compared", ["claims"], r"The papers' claims. HE is Pikus et al.~\cite{pikus2025}, LDS is Yadav et al.~\cite{yadav2026}, DAPO is Yu et al.~\cite{yu2025}, Sun is Sun et al.~\cite{sun2025}. The first rows are the primary claims, one per paper or question of this project, each"
        r" named before any run of the study that decides it. Only primary claims get a verdict, after Holm's correction over the tasks; all other rows are descriptive."
        r" Estimates are in points with 95\,\% intervals, except $R^2$ and log odds."),
    "deviations": Table("compared", ["deviations"], "What HE's authors wrote, what two states of their code do, and what ran here. Sources are in the table's CSV.", design=True),
}  # fmt: skip


# --- figures ---


@dataclass(frozen=True)
class Figure:
    """A figure. `when` decides from the configuration whether a study has data for the figure."""

    of: list[str]
    section: str  # heading in the report under which the figure is listed
    title: str
    caption: str  # caption in the paper, LaTeX
    about: str  # description in the report
    when: Callable[[ResolvedStudy], bool] = lambda study: bool(study.runs)
    # keywords for `draw`, from the configuration
    design: Callable[[ResolvedStudy], dict] = lambda study: {}
    may_be_empty: list[str] = field(default_factory=list)  # tables that may have no rows


FIGURES = {
    "pipeline": Figure(
        ["subsets", "parity", "accuracy"], "Design", "From the pool to the results",
        "The steps of the study, from the pool of prompts to this paper.",
        "The steps of the study, from its pool of prompts to its figures. Every number comes from the configuration or is counted in the runs.",
        when=lambda study: not study.trajectory_prompts,
        design=lambda study: {"study": designs.design(study)},
        may_be_empty=["subsets", "parity", "accuracy"],
    ),
    "difficulty": Figure(
        ["difficulty"], "Design", "Difficulty of the pool and of the subsets",
        "Pass rates of the base model on the pool, and on the prompts that each policy chooses, as shares of the pool and of each subset (mean over"
        " seeds). With more than eight policies, the figure has a row for each policy, in which the area of a disc is the share.",
        "Pass rates of the base model on the pool (grey bars) and on the prompts that each policy chooses (lines), as shares of the pool and of"
        " each subset, averaged over seeds. The numbers of prompts of the pool and of the subsets are above each"
        " panel. Marks of policies that choose the same pass rate are drawn side by side."
        " With more than eight policies, each policy is a row, in which the area of a disc is the share. The hue is the rule in this and every other figure.",
        when=lambda study: bool(paths.difficulties(study)),
    ),
    "accuracy": Figure(
        ["accuracy"], "Results", "Accuracy by checkpoint",
        r"Accuracy of sampled completions on the test set, by policy and checkpoint, with 95\,\% intervals. Step 0 is the base model. With"
        " more than eight arms, the figure has a row for each arm; the dashed line is then the base model, and the band around it the base model's interval.",
        "Accuracy of sampled completions (temperature 1) on the test set by checkpoint and policy, averaged over seeds; step 0 is the base"
        " model, the same for all policies. Bars are 95 % intervals for new problems and, with several seeds, new seeds; they are wider than the intervals"
        " of differences between policies, because the differences are paired by problem. The numbers of problems and seeds are above each panel."
        " With more than eight arms, each arm is a row; the dashed line is the base model, and the band the base model's interval. If an interval would extend below 0 % or above 100 %, a score interval is drawn instead.",
    ),
    "ahead": Figure(
        ["paired", "differences", "gains"], "Results", "The lead of the hardest prompts by checkpoint",
        r"The lead of \texttt{hard} over each other policy at each checkpoint, paired by problem and seed, with 95\,\% intervals. Above zero"
        r" \texttt{hard} is ahead. The hue is the rule of the other policy.",
        "The lead of *hard* over each other policy of the same recipe by checkpoint, in points of accuracy, paired by problem and seed. Bars"
        " are 95 % intervals. Above zero the hardest prompts are ahead.",
        when=conditions.is_compared,
        may_be_empty=["paired"],
    ),
    "parts": Figure(
        ["parts"], "What the gains are made of", "Finishing and correctness",
        r"The gain of each policy (black mark), split into finishing and correctness (bars), with 95\,\% intervals.",
        "Every policy's gain over the base model at the last checkpoint (black line), split exactly into *finishing* (answering within the"
        " limit, in a form that the grader reads) and *correctness* (being right when answered). Error bars are 95 % intervals for new problems"
        " and, with several seeds, new seeds. Above each panel: the share answered before and after, problems, seeds.",
    ),
    "kinds": Figure(
        ["kinds"], "What the gains are made of", "Finishing, sharpening and new solving",
        r"The gain of each policy (black mark), split into three kinds (bars): finishing, sharpening (on problems that the base model solves in some of its reach samples) and new"
        r" solving (on problems that the base model solves in no reach sample), with 95\,\% intervals. A diamond is the gain of greedy completions.",
        "Every policy's gain over the base model (black line), split exactly into *finishing*, *sharpening* (problems that the base model"
        " solves in at least one of its reach samples) and *new solving* (problems that it solves in none). The diamond is the gain of"
        " greedy completions. Error bars are 95 % intervals. Above each panel: the share of problems out of reach, problems, seeds.",
        when=conditions.has_reach,
    ),
    "pass_at_k": Figure(
        ["pass_at_k", "base_pass_at_k"], "What the gains are made of", "pass@k",
        r"Probability that at least one of $k$ samples is right, of base and trained models, with 95\,\% intervals. Dashed grey line: the base"
        " model, counting only samples in which every step is right. With more than eight arms, the figure has a row for each arm; the dashed line is then the base model, and the band around it the base model's interval.",
        "The probability that at least one of k samples is right (unbiased pass@k): of the base model (grey, for k up to the number of its reach samples; dashed"
        " grey: counting only samples in which every step is right), and of the trained models by policy. Where the lines meet, training has only raised the probability of answers that the base model also reaches."
        " With more than eight arms, each arm is a row, at the smallest and the largest k.",
        when=conditions.has_reach,
    ),
    "truncation": Figure(
        ["parts"], "What the gains are made of", "Tight and ample limit",
        "Gain by policy, split into finishing and correctness: trained under the tight or the ample limit (rows), tested under the tight"
        " or the ample limit (columns).",
        "The gain of each policy (printed number), split into finishing and correctness, for models trained under a tight or an ample limit (rows)."
        " The same sampled completions are graded under the tight limit (left) and the ample limit (right). A policy that leads on the left by"
        " finishing need not lead on the right. Error bars are 95 % intervals. The base model's accuracy and the numbers of problems and seeds are"
        " above each panel.",
        when=lambda study: bool(conditions.limits(study)),
        design=lambda study: {"limits": conditions.limits(study)},
    ),
    "lengths": Figure(
        ["curves"], "What the gains are made of", "Completion length over training",
        r"Mean length of the rollouts over training, and their share that is truncated at the completion limit, by policy, with 95\,\% intervals"
        " over seeds.",
        "Mean length of the completions that GRPO samples during training, and the share that is truncated at the limit, by policy, in at"
        " most twenty stretches of updates. Bars are 95 % intervals over seeds (Student's t; none with a single seed). Each policy trains on"
        " its own subset, so that policies differ from the first update on."
        " With more than eight arms, each arm is a row, from the first stretch (grey) to the last.",
        when=conditions.has_rollouts,
    ),
    "groups": Figure(
        ["curves"], "What explains the gains", "Groups over training",
        r"Shares of the groups of rollouts over training, by policy: learnable and, where the logs distinguish them, all right and all wrong."
        r" In panels with updates on the horizontal axis, bars are 95\,\% intervals over seeds; stacked shares have no intervals.",
        "Groups of rollouts over training, by policy, in at most twenty stretches of updates: all right, learnable, all wrong (with"
        " reward *finished*: all rewarded, mixed, none rewarded). Only learnable groups change the model, except with process rewards, which give every token a reward."
        " Bars are 95 % intervals over seeds (Student's t; none with a single seed). All right and all wrong are omitted if the logs do not"
        " distinguish them."
        " With more than eight arms, each arm is a row of stacked shares in the first and the last stretch, without intervals.",
        when=conditions.has_rollouts,
    ),
    "learnable": Figure(
        ["gains", "learnable", "accuracy", "regressions"], "What explains the gains", "Learnable share and completion length",
        r"Gain against the learnable share of the groups and, where lengths differ by a token or more, against the mean length of completions,"
        r" with 95\,\% intervals. A point is a policy and recipe. Hollow: another recipe than the study's first. Size: budget. Line: least squares"
        " within the task, through ten points or more.",
        "Gain against the learnable share of groups, and against another possible explanation, the mean completion length after training, where"
        " lengths differ by a token or more. A point is a model, task, policy and recipe; bars are its 95 % intervals. The size is the budget;"
        " hollow points have another recipe than the study's first. A line and its R² are for one task with ten points or more. They have no"
        " intervals, because the points are not independent: policies share base models and problems.",
        when=conditions.has_rollouts,
        may_be_empty=["regressions"],
    ),
    "leads": Figure(
        ["leads", "lead_regressions"], "What explains the gains", "Which measures correlate with the lead",
        r"The lead of \texttt{hard} over the other policies against measures of the base model. A point is a base model. With more than eight"
        r" policies and ten points or more, the figure has a row for each policy with the slope of the least-squares line and its 95\,\% interval.",
        "The lead of *hard* over each other policy after training, against measures of the base model: its accuracy on the test, its greedy"
        " minus its sampled accuracy, and the shares of the pool that its probe never solves and sometimes solves. A point is a replicate with"
        " its own base model, or a model that all replicates share. Lines are least squares; the table lead_regressions has their intervals."
        " Lines are drawn through ten points or more. With more than eight policies and ten points or more, the figure has a row for each policy, with the slope of its line"
        " and the 95 % interval, instead of points.",
        when=conditions.has_leads,
        may_be_empty=["lead_regressions"],
    ),
    "tiers": Figure(
        ["tiers"], "Results", "Gain by difficulty tier",
        r"Gain by policy and by the tier of the test problem, with 95\,\% intervals. With at most four combinations of model, task,"
        " test and recipe and at most eight arms, panels above the gains show accuracy before (grey bars) and after training.",
        "Accuracy of the base model (grey) and of trained models, and the gain, by the tier of the problems, with 95 % intervals for"
        " new problems and, with several seeds, new seeds. The numbers of test problems in each tier are above each panel. With more than four"
        " combinations of model, task, test and recipe, the figure shows only gains; accuracies are in the CSV file of the same name."
        " With more than eight arms, each arm is a row of gains.",
        when=conditions.has_tiers,
    ),
    "transfer": Figure(
        ["gains"], "Results", "Trained on one task, tested on another",
        r"Gain in points by the task trained on (rows) and the test set (columns), with 95\,\% intervals; bold: the interval excludes zero.",
        "Gain in points after training on one task (rows), tested on another (columns), one matrix for each arm (and for each model, if a model was trained"
        " on several tasks), with 95 % intervals in brackets. A gain is bold if its interval excludes 0."
        " All matrices have one colour scale, with 0 in the middle.",
        when=lambda study: any(task != test for task, test in conditions.tests(study)),
    ),
    "budget": Figure(
        ["gains", "subsets"], "Results", "Gain by share of the pool",
        r"Gain by policy and share of the pool that is trained on, with 95\,\% intervals. The hue is the rule of the policy.",
        "Gain by the share of the pool that is trained on. The gains of policies that differ only in the budget are next to each other; updates and rollouts are the same at every share."
        " Error bars are 95 % intervals for new problems and, with several seeds, new seeds.",
        when=conditions.has_budgets,
        design=lambda study: {"lines": conditions.budget_lines(study)},
    ),
    "labels": Figure(
        ["gains", "spent"], "Results", "Gain against labels bought",
        r"Gain against the number of labels bought to choose the prompts and to train on them, with 95\,\% intervals. With more than eight arms, the"
        " figure has a row for each arm, and the number at the right is its number of labels.",
        "Gain against the number of labels (logarithmic) that are bought to choose the prompts and to train on them."
        " Policies that choose by pass rate need the labels of the whole pool first, policies that choose by predicted pass rates the labels of a sample; other policies buy only the labels of the chosen prompts;"
        " the majority reward needs no label. A line joins policies that differ only in the budget; updates and rollouts are the same for all points."
        " Bars are 95 % intervals for new problems and, with several seeds, new seeds."
        " With more than eight arms, each arm is a row; the rows are sorted by their number of labels.",
        when=conditions.has_labels,
        design=lambda study: {"lines": conditions.budget_lines(study)},
    ),
    "rollouts": Figure(
        ["accuracy", "gains", "spent"], "Results", "Gain by rollouts and labels",
        r"Gain at equal rollouts, by arm, at the last checkpoint with 95\,\% intervals, and at earlier checkpoints (later ones are darker)."
        " Arms are sorted by their number of labels, averaged over the panels; the number at an arm is its number of labels in the panel.",
        "Gain of each arm after the same number of rollouts as all other arms (coloured, with 95 % intervals for new problems and, with"
        " several seeds, new seeds), and at its earlier checkpoints (grey; later ones are darker). Rollouts include rollouts that were thrown"
        " away, but not the completions of the probe, by which some policies choose. The number beside an arm is the number of labels bought"
        " to choose its prompts and to train on them, mean over seeds; the arm with the fewest labels is at the top.",
        when=conditions.chooses_at_equal_rollouts,
    ),
    "trajectories": Figure(
        ["trajectories"], "Results", "Learnable groups over training",
        r"Shares of a prompt's groups that are learnable, all wrong and all right over a recorded training run, by policy, with 95\,\%"
        " intervals for new prompts in this run.",
        "Policies choose by the pass rates in the first epochs. Shown for the later epochs, by policy: the shares of groups of rollouts that are learnable (only learnable"
        " groups change the model), all wrong, and all right. The model that samples the rollouts changes from epoch to epoch. Bars are 95 % intervals for"
        " new prompts in this one training run; ties and random choices are averaged over seeds.",
        when=lambda study: bool(study.trajectory_prompts),
    ),
    "compared": Figure(
        ["compared"], "Published numbers", "Published against measured here",
        r"Published numbers (diamonds) and this study's numbers (dots), which have 95\,\% intervals where known. If there are many"
        " numbers, each pair of numbers is a point; on the dashed line, both numbers are equal.",
        "Published numbers (diamonds) and the numbers of this study (dots). If there are many numbers, each pair of numbers is a point; on the dashed line both numbers are equal. Bars are 95 % intervals of the study's"
        " numbers, where known. Above each panel: how many published numbers lie within the study's interval.",
        when=conditions.is_published,
    ),
}  # fmt: skip


# Figures of analyses of published numbers, by the kind of the analysis.
COUNT_FIGURES = {
    "probe_sizes": {
        "samples_per_prompt": Figure(
            ["probe_sizes"], "Results", "How many samples per prompt?",
            "The chosen prompts, measured with new samples of the same model: share of mixed groups, pass rate and share never solved, by the number of samples per prompt on which the choice was based. Large mark: from this number on, more"
        " samples raise the share of mixed groups by at most a point.",
            "The prompts that each rule chooses, measured with new samples of the same model, by the number of samples per prompt on which the choice was"
            " based: the share whose group of rollouts is mixed (only mixed groups change the model), the pass rate, and the share that the model"
            " solves in none of its samples. The dotted line is a random choice, which needs no samples. The large mark is the smallest sufficient"
            " number of samples: no larger number raises the share of mixed groups by more than a point. Values are computed exactly for these prompts, not simulated."
            " The authors of the published numbers had selected the pool by difficulty, so other pools give other values.",
        ),
    },
    "before_after": {
        "before_after_training": Figure(
            ["difficulty_classes", "pass_at_each_k"], "Results", "Before and after training, by difficulty",
            r"Pass rate and mixed groups of prompts before and after training on all prompts, by their share of right answers before training, and"
        r" pass@$k$ over all prompts, with 95\,\% intervals.",
            "Pass rate and share of mixed groups before and after training on all prompts, by the share of right answers of the base model."
            " Half of the base model's samples determine the position on the horizontal axis; the other half determine the value before training. Right: pass@k over all prompts. Bars and the band"
            " are 95 % intervals for new prompts and new seeds.",
        ),
    },
}  # fmt: skip


def make_table(name: str, tables: Mapping, study: dict) -> tuple:
    """(rows for the CSV, columns to show) of a table of the supplement. `tables` holds the summary
    tables by name, `study` is the study's design (designs.design)."""
    entry = TABLES[name]
    function = getattr(importlib.import_module(f"hardgrpo.report.tables.{entry.module}"), name)
    design = {"study": study} if entry.design else {}
    return function(**{source: tables[source] for source in entry.of}, **design)


def all_figures() -> dict[str, Figure]:
    """{name: figure} of all figures of studies and of analyses of published numbers."""
    return FIGURES | {
        name: figure for group in COUNT_FIGURES.values() for name, figure in group.items()
    }


def summary_tables(study: ResolvedStudy) -> list[str]:
    return COUNT_TABLES[study.entry["kind"]] if study.is_analysis else SUMMARIES


def figures_of(study: ResolvedStudy) -> list[str]:
    """Names of the figures for which the study has data."""
    if study.is_analysis:
        return list(COUNT_FIGURES[study.entry["kind"]])
    return [name for name, figure in FIGURES.items() if figure.when(study)]
