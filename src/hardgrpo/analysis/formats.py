"""Format numbers for figures, tables and sentences. Shares are written in percentage points."""

import math

MINUS = "\N{MINUS SIGN}"
UNKNOWN = "\N{EN DASH}"


def is_known(*values: float | None) -> bool:
    return not any(value is None or math.isnan(value) for value in values)


def points(share: float | None, sign: str = "-") -> str:
    """0.031 -> '3.1'. With sign '+', 0.031 -> '+3.1' and 0 -> '+0.0'."""
    return (
        format(_tenths(share) / 10, f"{sign}.1f").replace("-", MINUS)
        if is_known(share)
        else UNKNOWN
    )


def _tenths(share: float) -> int:
    """A share in tenths of a point, rounded as a Python float: 0.0095 gives 9. NumPy's rounding
    would give 10."""
    return round(10 * round(100 * float(share), 1))


def signed(share: float | None) -> str:
    """A change in points, with its sign unless it is 0."""
    return points(share) if points(share) in (UNKNOWN, "0.0") else points(share, "+")


def interval(low: float | None, high: float | None) -> str:
    """'[1.2, 3.4]', or '' if there is no interval. An interval of width 0 is also omitted, because
    it arises from a few equal runs and would suggest certainty."""
    return f"[{points(low)}, {points(high)}]" if is_known(low, high) and low != high else ""


def round_parts(gain: float, parts: list[float]) -> list[float]:
    """The parts of a gain (shares), rounded to 0.1 points by the largest remainder method, so that
    the parts add up to the gain that `points` prints. Each part changes by less than 0.1 points."""
    exact = [1000 * part for part in parts]
    tenths = [math.floor(value) for value in exact]
    missing = _tenths(gain) - sum(tenths)
    for index in sorted(range(len(parts)), key=lambda i: tenths[i] - exact[i])[: max(missing, 0)]:
        tenths[index] += 1
    return [tenth / 1000 for tenth in tenths]


def with_interval(share: float, low: float | None, high: float | None) -> str:
    return f"{points(share)} {interval(low, high)}".strip()


def signed_interval(share: float, low: float | None, high: float | None) -> str:
    return f"{signed(share)} {interval(low, high)}".strip()


def hundredths(value: float, low: float | None = None, high: float | None = None) -> str:
    """'0.61 [0.20, 0.80]': the unit is 1, not points. A negative value that rounds to zero has no
    sign. Without an interval, only the value."""
    ends = f" [{_hundredths(low)}, {_hundredths(high)}]" if is_known(low, high) else ""
    return _hundredths(value) + ends


def _hundredths(value: float) -> str:
    return f"{value:z.2f}".replace("-", MINUS)


def probability(value: float | None) -> str:
    """'0.032', '<0.001', or a dash."""
    return UNKNOWN if not is_known(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def integer(value: float | None) -> str:
    """A number without decimals, with a narrow space between thousands."""
    return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}") if is_known(value) else UNKNOWN


def change_interval(share: float, low: float | None, high: float | None) -> str:
    """'+3.1 [+1.2, +5.0]'."""
    return change(share) + (f" [{change(low)}, {change(high)}]" if interval(low, high) else "")


def change(share: float, sign: str = "+") -> str:
    """A change in points as plain text: '+3.1', '-0.4', '+0.0'. With sign '-', positive changes
    have no plus sign."""
    return points(share, sign).replace(MINUS, "-")


ENDS = ("_low", "_high")
ESTIMATE = ("", *ENDS)
# {format: (endings of the columns that it reads, function of their values)}, for the columns of
# shown tables and for the numbers in texts
FORMATS = {
    "text": (("",), str),
    "points": (("",), points),
    "signed": (("",), signed),
    "gain": (ESTIMATE, signed_interval),
    "share": (ESTIMATE, with_interval),
    "hundredths": (ESTIMATE, hundredths),
    "count": (("",), integer),
    "whole": (("",), "{:.0f}".format),
    "probability": (("",), probability),
    # follows the letter p: "=0.012" or "<0.001"
    "p": (("",), lambda p: ("=" if p >= 0.001 else "") + probability(p)),
    "tenths": (("",), lambda share: f"{100 * share:.1f}"),
    "whole_percent": (("",), lambda share: f"{100 * share:.0f}"),
    "two_decimals": (("",), "{:.2f}".format),
    "three_decimals": (("",), "{:.3f}".format),
}
