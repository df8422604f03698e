"""Numbers in answers are parsed exactly."""

import re
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.grading.expressions import same_text
from hardgrpo.grading.quantities import has_variables, is_number, read_number
from text_tables import rows_of

NUMBERS = r"""
70000 | 70,000 | 70\,000 | 70 000
10080 | 10,\!080
11111111100 | 11,\! 111,\! 111,\! 100
7 | 007
460 | \$460 | $460 | $460$ | \text{\$}460 | 460 dollars
5 | €5 | 5 € | US$ 5 | USD 5 | x_1 = 5 | f(x) = 5 | +5
500 | Rs. 500
-5 | -\$5 | \$-5 | x=-5 | - 5 | −5
18 | 18 cm | 18cm | 18 m | 18 km/h | 18 m/s | 18 \text{ cm}^2 | 18 \text{ cm}^{2} | 18\ \mathrm{cm}^3 | 18 cm²
18 | \text{18 cm} | \textbf{18} | 18 kilowatt-hours (per day) | 18.0 | 18. | **18** | {18}
3 | 3\text{ km} | 3 \text{ m}
864 | 864 \mbox{ inches}^2
2 | 2 \text{ hours}\cdot\text{men}
50 | 50% | 50\% | 50 percent
90 | 90^\circ | 90^{\circ}
82 | 82°
30 | \theta = 30^\circ
400 | \frac{1,000}{2.5}
1/10 | 0.1
1/2 | \frac{1}{2} | \dfrac12 | 1/2
-1/2 | -1/2
3/4 | \frac 34 | 3 / 4 cup
9/19 | \frac9{19}
270/7 | \frac{270}7\text{ degrees}
-24/25 | -\frac{24}{25} | \frac{-24}{25}
3/2 | 1\frac{1}{2} | 1 1/2 | 1 1/2 cups
275/2 | 137 \frac{1}{2}
-3/2 | -1\frac12
11/2 | 11/2
1/3 | 0.\overline{3}
1234.5 | 1,234.50
0.0000672 | .0000672
18.9 | \text{Total cost} = \$18.90
2e6 | 2 million
1.5e6 | \$1.5 \text{ million dollars}
1e5 | 1e5
"""
NO_NUMBERS = r"""
. | - | none | 1,2 | 1,-2 | 3, 5, 7 | 70,00 | 0,123 | 1234,567 | 70 0000 | 3-4 | 1+1 | 2:00 | 5 or 6 | 5x | 3ab
5 x | 2 ab | 5i | 3\pi | 3 pi | 3\sqrt{2} | \sqrt2 | 5! | 2^{10} | 18^2 | 52_8 | 4210_{5} | 1/0 | \frac{1}{0} | 1/2/3
1\frac{3}{2} | 1 3/2 | \frac{x}{2} | \frac{1}{2}\frac{1}{3} | --5 | -$-5 | 2x = 5 | 34 - 6 = 28 | x = y = 5 | 3 squared
\pm 5 | (1,2) | 1.2.3 | x = | \text{two} | 2:00\ \text{pm} | 1.234,56 | \ | { | \frac | \frac{ | $ | %
"""


def test_each_spelling_of_a_number_is_read():
    for value, *spellings in rows_of(NUMBERS):
        expected = Fraction(value)
        assert {text: read_number(text) for text in spellings} == dict.fromkeys(spellings, expected)


def test_a_text_without_exactly_one_number_is_not_read():
    texts = ["", " ", "9" * 300, *(text for row in rows_of(NO_NUMBERS) for text in row)]
    assert [text for text in texts if read_number(text) is not None] == []


def test_a_bare_letter_may_be_a_unit_in_a_completion_but_not_in_a_reference():
    assert read_number("5 m") == 5 and not is_number("5 m")
    assert is_number("x = 5") and is_number("5 cm") and is_number(r"5\text{ m}")


@given(st.decimals(-(10**9), 10**9, places=5))
def test_decimals_are_exact(value):
    assert read_number(f"{value:f}") == Fraction(value)
    assert read_number(f"{value:,f}") == Fraction(value)


PIECES = re.findall(
    r"\S+| $",
    r"1 , . / - 23 456 7890 { } \frac \text{ cm ^2 = x _ \$ $ % \, \! ( ) million and * \circ i pi ",
)


@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=80).map("".join))
def test_any_text_is_read_quickly_and_without_an_error(text):
    started = time.process_time()
    value = read_number(text)
    assert value is None or isinstance(value, Fraction)
    assert is_number(text) <= (value is not None)
    assert time.process_time() - started < 5


REPEATED = [
    "1 ", " a", " of a", "\\ ",
    *[r"1", r"1,", r"{", r"}", r"\frac", r"\text{", r"a", r"a-", r"$", r"*", r"-", r"\!", r"1/", r"^2", r"=", r"(a)", r".1", r"²", r"½", r"π", r"\overline{1}", r"\approx", r"th", r"10^", r"e1", r"\frac{a}{", r"m/", r"_", r"`", r"("],
]  # fmt: skip


@pytest.mark.parametrize("piece", REPEATED)
def test_long_repetitive_texts_are_read_quickly(piece):
    for head in ("", "5 ", r"\frac{1}{2}"):
        for end in ("", "!", "}", "\\"):
            for length in (150, 10**5):
                text = head + piece * (length // len(piece)) + end
                started = time.process_time()
                read_number(text), has_variables(text[:1000]), same_text(text[:1000], text)
                assert time.process_time() - started < 10
