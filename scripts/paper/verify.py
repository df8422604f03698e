"""Verify a study's tables before its supplement is compiled: run the checks of scripts/paper/checks
with pytest and write a report.

    python scripts/paper/verify.py --study mini \\
        --tables results/summaries/mini/*.csv paper/mini/c*.csv --config '{...}' \\
        --conditions '{...}' --graders '{"arithmetic": "final_number"}' --claims paper/claims.yaml \\
        --published results/published --output paper/mini/verified.txt

--config is the return value of paths.study_part, as JSON. --graders maps each test to its grader.
The checks of the summaries always run. The checks against raw files (evaluations, completions,
recordings, training logs) are skipped with --reference, or if the files do not exist. The report
names each skipped check and the reason. After a failed check, the program writes no report, so that
the workflow compiles no supplement.
"""

from hardgrpo.runtime import errors, files, warm

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

CHECKS = [
    Path(__file__).parent / name
    for name in ("checks/test_summaries.py", "checks/test_raw_files.py")
]


class Report:
    """A line for each check: outcome, first paragraph of the check's docstring, and details if the
    check records them, or the reason if it was skipped or failed."""

    def __init__(self, study: str):
        self.study, self.lines, self.titles = study, [], {}
        self.broken = []  # the last lines of errors in files of checks that cannot be imported

    def pytest_itemcollected(self, item):
        first_paragraph = (item.obj.__doc__ or item.name).strip().split("\n\n")[0]
        self.titles[item.nodeid] = " ".join(first_paragraph.split()).removesuffix(".")

    def pytest_collectreport(self, report):
        if report.failed:
            self.broken.append(str(report.longrepr).splitlines()[-1].removeprefix("E   "))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.excinfo and isinstance(call.excinfo.value, errors.UserError):
            report.longrepr = str(call.excinfo.value)  # a missing or broken file needs no traceback
        return report

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            reason = "".join(
                f": {text}" for name, text in report.user_properties if name == "details"
            )
            if report.skipped:
                reason = ": " + str(report.longrepr[2]).removeprefix("Skipped: ")
            elif report.failed:
                reason = ":\n" + "\n".join(f"  {line}" for line in report.longreprtext.splitlines())
            self.lines.append(
                (report.outcome, f"{report.outcome:<8} {self.titles[report.nodeid]}{reason}")
            )

    def text(self) -> str:
        counts = Counter(outcome for outcome, _ in self.lines)
        head = ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "skipped"))
        return (
            "\n".join([f"Study {self.study}: {head}", "", *(line for _, line in self.lines)]) + "\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", required=True)
    files.add_tables(parser)
    parser.add_argument(
        "--reference",
        action="store_true",
        help="the tables are the committed reference results: skip the checks against raw files",
    )
    parser.add_argument("--config", required=True, type=files.as_object)
    parser.add_argument("--graders", required=True, type=files.as_object)
    parser.add_argument(
        "--conditions",
        required=True,
        type=files.as_object,
        help="return value of claim_conditions.conditions, as JSON",
    )
    parser.add_argument("--claims", required=True)
    parser.add_argument("--published", required=True, help="folder of published numbers")
    parser.add_argument("--data", default="data", help="folder of recordings")
    parser.add_argument("--output", required=True, help="text report")
    args = parser.parse_args()

    # Ignore the project's pytest settings, installed plug-ins and the user's options.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    report = Report(args.study)
    options = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:warnings"]
    options += ["-c", os.devnull, f"--rootdir={CHECKS[0].parent}"]
    status = pytest.main([*options, *map(str, CHECKS)], plugins=[report, Arguments(args)])
    print(report.text())
    if status == pytest.ExitCode.TESTS_FAILED:
        failure = next(line for outcome, line in report.lines if outcome == "failed").splitlines()
        message = failure[1].strip() if len(failure) > 1 else failure[0]
        remedy = (
            f"undo changes of the study's configuration and of the committed tables (git checkout -- results/reference/{args.study})"
            if args.reference
            else f"correct the cause, or make the summaries again: .venv/bin/snakemake --profile laptop --forcerun summarize -- results/summaries/{args.study}/gains.csv"
        )
        raise errors.UserError(f"study {args.study}: {message}; {remedy}")
    if status != pytest.ExitCode.OK or not report.lines:
        reason = "; ".join(report.broken) or f"pytest ended with status {int(status)}"
        sys.exit(f"error: {CHECKS[0].parent}: the checks did not run: {reason}")
    files.write_text(args.output, report.text())


class Arguments:
    """Pass the program's arguments to the checks, as the fixture `arguments`."""

    def __init__(self, args: argparse.Namespace):
        self.args = args

    @pytest.fixture(scope="session")
    def arguments(self):
        return self.args


if __name__ == "__main__":
    warm.run(main)
