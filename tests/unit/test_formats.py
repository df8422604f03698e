"""Numbers as readers see them."""

from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.analysis.formats import adding_up, change_interval, points, with_interval

SHARES = st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=4)


@given(SHARES)
def test_parts_as_printed_add_up_to_the_gain_as_printed(parts):
    shown = adding_up(sum(parts), parts)
    printed = lambda share: round(10 * float(points(share).replace("\N{MINUS SIGN}", "-")))
    assert sum(map(printed, shown)) == printed(sum(parts))
    assert all(abs(one - other) < 0.001 + 1e-9 for one, other in zip(shown, parts))


def test_a_gain_of_7_6_is_not_0_0_and_7_7():
    assert [points(part) for part in adding_up(0.0764, [-0.0002, 0.0766])] in (["0.0", "7.6"], ["−0.1", "7.7"])


def test_no_spread_is_no_certainty():
    assert with_interval(0.0, 0.0, 0.0) == "0.0" and change_interval(0.0, 0.0, 0.0) == "+0.0"
    assert with_interval(0.031, 0.012, 0.05) == "3.1 [1.2, 5.0]"
    assert change_interval(0.031, None, None) == "+3.1"
