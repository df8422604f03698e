"""Numbers as they are printed for readers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.analysis.formats import (
    change_interval,
    hundredths,
    points,
    round_parts,
    with_interval,
)

SHARES = st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=4)


@given(SHARES)
def test_parts_as_printed_add_up_to_the_gain_as_printed(parts):
    printed_parts = round_parts(sum(parts), parts)
    printed = lambda share: round(10 * float(points(share).replace("\N{MINUS SIGN}", "-")))
    assert sum(map(printed, printed_parts)) == printed(sum(parts))
    assert all(
        abs(shown_part - part) < 0.001 + 1e-9 for shown_part, part in zip(printed_parts, parts)
    )


def test_an_interval_without_width_is_not_shown():
    assert with_interval(0.0, 0.0, 0.0) == "0.0" and change_interval(0.0, 0.0, 0.0) == "+0.0"
    assert with_interval(0.031, 0.012, 0.05) == "3.1 [1.2, 5.0]"
    assert change_interval(0.031, None, None) == "+3.1"


def test_a_slope_is_printed_with_its_interval_if_it_has_one():
    assert hundredths(0.612, 0.2, 0.8) == "0.61 [0.20, 0.80]"
    assert hundredths(0.612) == hundredths(0.612, np.nan, np.nan) == "0.61"


def test_half_a_tenth_is_rounded_equally_by_numpy_and_python():
    """NumPy rounds 0.0095 (0.95 points) to 1.0 points, Python to 0.9 points. Without `points`, a
    text and a table could print different gains for the same row."""
    for share in (n / 20_000 for n in range(-2_000, 2_000)):
        assert points(np.float64(share)) == points(share)
        printed_parts = round_parts(np.float64(share), [share / 3, 2 * share / 3])
        printed = [
            round(10 * float(points(part).replace("\N{MINUS SIGN}", "-")))
            for part in (*printed_parts, share)
        ]
        assert sum(printed[:-1]) == printed[-1], share
