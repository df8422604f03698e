"""The difficulty of chosen prompts, compared with numbers computed by hand: with held-out
completions, without them, and for prompts without reference answers."""

import pytest

import project_config
from hardgrpo.analysis import pools as pool_tables
from hardgrpo.report import conditions
from hardgrpo.runtime import files


def pool(folder, base, rows, held_out=True):
    path = folder / f"results/difficulty/{base}/swaps.csv"
    columns = [
        "id",
        "pass_rate",
        "samples",
        *(["held_out", "held_out_correct"] if held_out else []),
    ]
    files.write_rows(path, columns, [dict(zip(columns, row)) for row in rows])
    return str(path)


def write_subset(folder, base, policy, ids, by="pass_rate"):
    path = folder / f"results/subsets/{base}/swaps/{policy}/seed0.csv"
    files.write_rows(
        path,
        ["id", by, "rank"],
        [{"id": name, by: 0.5, "rank": rank} for rank, name in enumerate(ids, 1)],
    )
    return str(path.with_suffix(".json"))


def signals(folder, base, agreement):
    path = folder / f"results/signals/{base}/swaps.csv"
    files.write_rows(
        path,
        ["id", "agreement"],
        [{"id": name, "agreement": value} for name, value in agreement.items()],
    )
    return str(path)


ROWS = [("a", 0.0, 4, 4, 0), ("b", 0.5, 4, 4, 4), ("c", 1.0, 4, 4, 3), ("d", 0.0, 4, 4, 1)]


def test_rows_of_chosen_prompts_with_held_out_samples_equal_those_computed_by_hand(tmp_path):
    pools = [
        pool(tmp_path, "tiny-seed0", ROWS),
        pool(tmp_path, "tiny-seed1", [(*row[:3], 4, 4) for row in ROWS]),
    ]
    files_of = [
        write_subset(tmp_path, "tiny-seed0", "lowest", ["a", "c"], by="agreement"),
        write_subset(tmp_path, "tiny-seed1", "lowest", ["a", "b"]),
    ]
    measured_signals = [
        signals(tmp_path, "tiny-seed0", {"a": 0.9, "b": 0.9, "c": 0.4, "d": 0.4}),
        signals(tmp_path, "tiny-seed1", dict.fromkeys("abcd", 1)),
    ]
    pool_row, lowest = pool_tables.chosen(files_of, pools, measured_signals)
    assert (pool_row["policy"], pool_row["prompts"], pool_row["samples"], pool_row["seeds"]) == (
        "pool",
        4,
        4,
        2,
    )
    assert pool_row["pass_rate"] == pytest.approx((0.5 + 1) / 2) and pool_row[
        "mixed"
    ] == pytest.approx((2 / 4 + 0) / 2)
    assert (lowest["prompts"], lowest["pass_rate"], lowest["never_solved"], lowest["mixed"]) == (
        2,
        (0.375 + 1) / 2,
        0.25,
        0.25,
    )
    assert lowest["confidently_wrong"] == 0.25, (
        "only problem a is confidently wrong, and only for the first base model"
    )


def test_without_held_out_samples_the_pass_rates_are_those_of_the_probe(
    tmp_path,
):
    rows = pool_tables.chosen(
        [write_subset(tmp_path, "tiny", "hard", ["a", "d"])],
        [pool(tmp_path, "tiny", [row[:3] for row in ROWS], held_out=False)],
        [],
    )
    assert [row["pass_rate"] for row in rows] == [0.375, 0.0]
    assert all(row["confidently_wrong"] != row["confidently_wrong"] for row in rows), (
        "confidently_wrong is not NaN, although there are no signals"
    )


def test_prompts_without_a_pass_rate_do_not_count_as_confidently_wrong_or_right(tmp_path):
    rows = [(*row[:3],) for row in ROWS[:3]] + [("d", None, 4)]
    measured_signals = [signals(tmp_path, "tiny", dict.fromkeys("abcd", 0.9))]
    names = [
        write_subset(tmp_path, "tiny", policy, ids)
        for policy, ids in {"hard": ["a", "d"], "random": ["d"]}.items()
    ]
    pool_row, hard, random = pool_tables.chosen(
        names, [pool(tmp_path, "tiny", rows, held_out=False)], measured_signals
    )
    assert pool_row["confidently_wrong"] == pytest.approx(1 / 3) and hard["confidently_wrong"] == 1
    assert random["confidently_wrong"] != random["confidently_wrong"]


def test_a_subset_of_a_pool_without_answers_has_no_row(tmp_path):
    assert (
        pool_tables.chosen(
            [write_subset(tmp_path, "tiny", "lowest", ["a"], by="agreement")],
            [],
            [signals(tmp_path, "x", {})][:0],
        )
        == []
    )


def test_the_histogram_shows_pass_rates_even_if_a_signal_chose_the_prompts(tmp_path):
    rows = pool_tables.difficulty(
        [pool(tmp_path, "tiny", ROWS)],
        [write_subset(tmp_path, "tiny", "lowest", ["a", "b"], by="agreement")],
    )
    assert [(row["pass_rate"], row["problems"]) for row in rows if row["group"] == "lowest"] == [
        (0.0, 1),
        (0.5, 1),
    ]


def test_policies_that_differ_only_in_the_budget_share_a_line():
    policies = {
        "random": {"rule": "random", "budget": 0.1}, "random_2": {"rule": "random", "budget": 0.02},
        "low": {"rule": "lowest", "by": "agreement", "budget": 0.05}, "half": {"rule": "nearest_half", "budget": 0.1},
        "half_by_small": {"rule": "nearest_half", "budget": 0.1, "probed_by": "small"},
    }  # fmt: skip
    config = {"policies": policies, "studies": {"s": {"arms": [{"policy": list(policies)}]}}}
    assert conditions.budget_lines(project_config.study(config, "s")) == {
        name: "random" if name == "random_2" else name for name in policies
    }


@pytest.mark.parametrize("order", [1, -1])
def test_the_largest_budget_does_not_depend_on_the_order_of_its_keys(order):
    money = lambda price: dict([("money", 100), ("label_price", price)][::order])
    policies = {
        "few": {"rule": "random", "budget": money(9)},
        "many": {"rule": "random", "budget": money(2)},
    }
    config = {"policies": policies, "studies": {"s": {"arms": [{"policy": list(policies)}]}}}
    assert conditions.budget_lines(project_config.study(config, "s")) == {
        "few": "many",
        "many": "many",
    }
