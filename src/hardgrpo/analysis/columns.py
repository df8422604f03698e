"""The columns of every summary table."""

from hardgrpo.analysis import summaries

# Columns are fixed by name, so that a table without rows still says what it would hold. X, X_low, X_high is for new problems and
# new seeds, X_low_a, X_high_a for these problems and new seeds, *_pooled with the variance over seeds of all policies together.
INTERVAL = lambda name: [name, f"{name}_low", f"{name}_high"]
INTERVALS = lambda name: [*INTERVAL(name), f"{name}_low_a", f"{name}_high_a", f"{name}_low_pooled", f"{name}_high_pooled"]
ANSWERED = ["base_answered", "answered", "base_accuracy", "accuracy", "base_accuracy_answered", "accuracy_answered"]
LENGTHS = ["base_truncated", "truncated", "base_tokens", "tokens"]
COLUMNS = {
    "accuracy": [*summaries.CELL, "decoding", "step", *INTERVAL("accuracy"), "answered_mean", "truncated_mean", "tokens_mean", "problems", "samples", "seeds"],
    "gains": [*summaries.CELL, "decoding", "step", "base_accuracy", *INTERVALS("gain"), "mdd", "problems", "samples", "seeds"],
    "differences": [*summaries.CELL, "minus", *INTERVALS("difference"), "p", "p_holm", "mdd", "problems", "seeds"],
    "mcnemar": [*summaries.CELL, "minus", "decoding", "seed", "step", "only_this", "only_other", "difference", "p", "p_holm", "problems"],
    "parts": [
        *summaries.CELL, "step", "gain", *INTERVAL("finishing"), *INTERVAL("correctness"), *INTERVAL("finishing_minus_correctness"),
        *ANSWERED, "problems", "seeds",
    ],
    "decomposition": [
        *summaries.CELL, "tier", "grading", "step", *INTERVAL("gain"), *INTERVAL("finishing"), *INTERVAL("correctness"),
        *ANSWERED, *LENGTHS, "problems", "seeds",
    ],
    "decomposition_runs": [
        *summaries.CELL, "seed", "grading", "step", "gain", "finishing", "correctness", *ANSWERED, *LENGTHS, "problems",
    ],
    "sentences": ["model", "task", "eval_task", "sentence"],
    "pass_at_k": [*summaries.CELL, "k", "step", "base", *INTERVAL("pass"), *INTERVAL("gain"), "problems", "seeds"],
    "learnable": ["model", "task", "policy", *INTERVAL("learnable"), "updates", "seeds"],
    "curves": ["model", "task", "policy", "first", "step", *(c for name in summaries.CURVES for c in INTERVAL(name)), "seeds"],
    "tiers": [*summaries.CELL, "tier", "step", "base_accuracy", *INTERVAL("accuracy"), *INTERVAL("gain"), "problems", "seeds"],
    "reach": [*summaries.CELL, "target", "step", "steps", "step_first", "step_last", "seeds_reached", "seeds"],
    "parity": ["model", "task", "policy", "seed", "updates", "prompts", "rollouts", "completion_tokens", "tokens"],
    "budgets": [
        "model", "task", "policy", "updates", "prompts", "rollouts", "completion_tokens", "tokens", "tokens_least", "tokens_most",
        "seconds", "seconds_least", "seconds_most", "seeds",
    ],
    "subsets": ["model", "task", "policy", "rule", "budget", "pool", "prompts", "mean_pass_rate", "zero_share", "boundary_pass_rate", "tied", "tied_chosen", "seeds"],
    "difficulty": ["model", "task", "group", "pass_rate", "problems"],
    "fit": ["task", *INTERVAL("r_squared"), "slope", "cells"],
    "regressions": ["task", "predictor", "adjusted_for", *INTERVAL("r_squared"), *INTERVAL("slope"), "p", "cells"],
    "published": ["model", "task", "id", "published", "with_prompt", "alone"],
}  # fmt: skip
