"""The README's numbers are those of the committed summaries."""

from conftest import ROOT
from write_readme import REFERENCE, TRUNCATION, insert, section


def test_the_readme_says_what_the_summaries_hold():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert insert(text, section(ROOT / REFERENCE, ROOT / TRUNCATION)) == text, "run scripts/maintenance/write_readme.py"
