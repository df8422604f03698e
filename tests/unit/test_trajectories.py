"""Trajectories: the accepted files, stretches of epochs, and the interval for the mean over a
policy's prompts."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hardgrpo.analysis import statistics, trajectory_groups
from hardgrpo.data import trajectory_files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies

HEAD = "id,epoch,correct,rollouts\n"


def read(tmp_path, text: str):
    path = tmp_path / "T.csv"
    path.write_text(text)
    return trajectory_files.read(str(path))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("a,0,9,8\n", "row 2: correct is 9 of 8 rollouts; correct the row"),
        ("a,0,-1,8\n", "row 2: correct is -1 of 8 rollouts"),
        ("a,0,1,1\n", "row 2: rollouts is 1, expected at least 2"),
        ("a,-1,1,8\n", "row 2: epoch is -1, expected a number from 0"),
        ("a,0,1,8\nb,0,1,8\na,0,1,8\n", "row 4: prompt 'a' has epoch 0 twice"),
        ("a,0,,8\n", "row 2: a cell is empty"),
        ("a,first,1,8\n", "row 2: column 'epoch' is 'first', expected int"),
        ("", "the file has no rows"),
    ],
)
def test_a_bad_trajectory_is_reported(tmp_path, rows, words):
    with pytest.raises(UserError) as error:
        read(tmp_path, HEAD + rows)
    assert str(error.value).startswith(f"{tmp_path}/T.csv: ") and words in str(error.value)


def test_a_trajectory_without_a_column_is_reported(tmp_path):
    with pytest.raises(UserError, match="T.csv: column 'rollouts' is missing; expected id, epoch"):
        read(tmp_path, "id,epoch,correct\na,0,1\n")


def test_the_first_epochs_of_each_prompt_are_separated_from_later_epochs_in_any_numbering_and_order(
    tmp_path,
):
    prompts = read(tmp_path, HEAD + "a,5,1,8\na,0,2,8\na,2,3,8\nb,1,4,8\nb,3,5,8\nb,7,6,8\n")
    correct = [
        {name: [row["correct"] for row in rows] for name, rows in part.items()}
        for part in trajectory_files.split(prompts, 2, "T.csv")
    ]
    assert correct == [{"a": [2, 3], "b": [4, 5]}, {"a": [1], "b": [6]}]
    with pytest.raises(
        UserError,
        match="T.csv: prompt 'a' has 3 epochs, expected more than the 3 .*; lower chosen_from",
    ):
        trajectory_files.split(prompts, 3, "T.csv")


def test_a_stretch_covers_the_same_share_of_epochs_of_every_prompt():
    """One prompt has 20 epochs, the other 13. The groups of the second prompt are mixed only
    in the prompt's first 7 epochs."""
    rows = [{"id": "long", "epoch": e, "correct": 4, "rollouts": 4} for e in range(20)]
    rows += [
        {"id": "short", "epoch": e, "correct": 1 if e < 7 else 0, "rollouts": 4} for e in range(13)
    ]
    (stretch, table), *parts = trajectory_groups.by_stretch(pd.DataFrame(rows))
    assert stretch == (None, 0.0, 1.0) and list(table.epochs) == [20, 13]
    assert table.mixed.to_dict() == {"long": 0, "short": pytest.approx(7 / 13)}
    assert table.pass_rate["long"] == 1
    assert [key for key, _ in parts] == [(n + 1, n / 10, (n + 1) / 10) for n in range(10)]
    epochs = [(part.epochs["long"], part.epochs["short"]) for _, part in parts]
    assert {count for count, _ in epochs} == {2} and sum(count for _, count in epochs) == 13
    assert [part.mixed["short"] for _, part in parts[:5]] == [1] * 5
    assert [part.all_wrong["short"] for _, part in parts[6:]] == [1] * 4
    fewest = trajectory_groups.by_stretch(pd.DataFrame(rows[:20] + rows[20:23]))
    assert len(fewest) == 1 + 3, "the prompt with the fewest epochs has three"


def test_a_prompt_is_weighted_by_the_share_of_seeds_that_chose_the_prompt():
    shares = trajectory_groups.selection_shares([["a", "b"], ["b", "c"]])
    assert shares.to_dict() == {"a": 0.5, "b": 1.0, "c": 0.5}


def test_the_jackknife_interval_of_a_mean_is_students_interval():
    values = np.random.default_rng(0).random(30)
    interval = statistics.jackknife(
        values.mean(), np.array([np.delete(values, i).mean() for i in range(30)])
    )
    half = stats.t.ppf(0.975, 29) * values.std(ddof=1) / np.sqrt(30)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(
        (values.mean(), values.mean() - half, values.mean() + half)
    )


@pytest.mark.parametrize("left_out", [[], [0.4], [0.0, 0.0, 0.0]])
def test_estimates_that_do_not_vary_give_no_interval(left_out):
    interval = statistics.jackknife(0.4, np.array(left_out))
    assert interval.estimate == 0.4 and np.isnan([interval.low, interval.high]).all()


def test_each_group_is_left_out_once_and_the_policy_chooses_again():
    rates = {f"p{i}": i / 10 for i in range(10)}
    groups = trajectory_groups.random_groups(list(rates), 5)
    assert sorted(map(len, groups)) == [2] * 5 and set().union(*groups) == set(rates)
    without = lambda budget: trajectory_groups.selections_without_groups(
        groups, rates, {"rule": "hard", "budget": budget}, [0]
    )
    for group, weights in zip(groups, without(0.25), strict=True):
        assert list(weights.index) == [name for name in rates if name not in group][:2]
    assert without(0.1) == [], "a tenth of eight prompts is less than one prompt"


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["hard", "nearest_half", "random"])
def test_intervals_for_the_chosen_prompts_cover_the_mean_over_new_pools(rule):
    """Simulated pools in which about a quarter of the prompts is never solved in 24 rollouts.
    The true value is the mean of the estimates over all pools. With about a hundred chosen prompts,
    whose outcomes are skewed, coverage is a little below 95 %."""
    chance, intervals = np.random.default_rng(1), []
    for _ in range(150):
        p = chance.beta(0.35, 0.7, 300)
        names = [f"p{i}" for i in range(300)]
        rates = dict(zip(names, chance.binomial(24, p) / 24))
        # pass rates rise during training
        right = chance.binomial(8, np.clip(p[:, None] + np.linspace(0, 0.2, 40), 0, 1))
        mixed = pd.Series(((right > 0) & (right < 8)).mean(axis=1), index=names)
        policy, seeds = {"rule": rule, "budget": 0.3}, [0, 1]
        weights = trajectory_groups.selection_shares(
            [policies.select(rates, seed=seed, **policy).ids for seed in seeds]
        )
        without = trajectory_groups.selections_without_groups(
            trajectory_groups.random_groups(names, trajectory_groups.GROUPS), rates, policy, seeds
        )
        left_out = np.array(
            [trajectory_groups.mean(mixed, other_weights) for other_weights in without]
        )
        intervals.append(statistics.jackknife(trajectory_groups.mean(mixed, weights), left_out))
    truth = np.mean([interval.estimate for interval in intervals])
    covered = np.mean([interval.low <= truth <= interval.high for interval in intervals])
    assert 0.88 <= covered <= 0.99, covered
