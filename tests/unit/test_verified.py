"""The report of scripts/paper/verify.py."""

from types import SimpleNamespace

import verify


def check_gains():
    """Gains equal the differences of
    accuracies.

    Details follow.
    """


def test_a_line_of_the_report_has_the_first_paragraph_of_the_checks_docstring():
    report = verify.Report("mini")
    report.pytest_itemcollected(SimpleNamespace(nodeid="a", name="check_gains", obj=check_gains))
    assert report.titles == {"a": "Gains equal the differences of accuracies"}
