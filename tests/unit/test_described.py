"""Files that describe the project to other services: the citation, CodeMeta, the entry for the
catalogue of workflows, and the issue forms and CI of the public host."""

import json
import re
import tomllib

import pytest
import yaml

from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
CODEMETA = json.loads((ROOT / "codemeta.json").read_text())


def test_all_files_name_the_same_version_licence_and_authors():
    assert CITATION["version"] == CODEMETA["version"] == PROJECT["version"]
    assert str(CITATION.get("date-released")) == str(CODEMETA.get("datePublished")), (
        "the release date is missing in one file, or differs between the files"
    )
    assert (
        CODEMETA["license"].endswith(f"/{CITATION['license']}")
        and CITATION["license"] in (ROOT / "LICENSE").read_text()
    )
    authors = [author["name"] for author in CITATION["authors"]]
    assert (
        authors == [author["name"] for author in CODEMETA["author"]]
        and authors[0] in (ROOT / "LICENSE").read_text()
    )
    assert (
        CODEMETA["description"] == PROJECT["description"]
        and CODEMETA["keywords"] == CITATION["keywords"]
    )


def test_the_entry_for_the_workflow_catalogue_fits_the_repository():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    _, profile = usage["mandatory-flags"]["flags"].split()
    assert (ROOT / profile / "config.yaml").is_file()
    assert set(usage["software-stack-deployment"]) == {
        "conda",
        "apptainer",
        "apptainer+conda",
        "report",
    }
    assert {"snakemake", "workflow"} <= set(
        re.findall(r"\w+", (ROOT / "README.md").read_text().lower())
    )


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem
)
def test_an_issue_form_has_the_keys_that_github_requires(path):
    form = yaml.safe_load(path.read_text())
    assert form["name"] and form["description"]
    identifiers = [field["id"] for field in form["body"]]
    assert len(set(identifiers)) == len(identifiers) and all(
        field["attributes"]["label"] for field in form["body"]
    )


def test_actions_are_pinned_by_commit_and_run_the_ci_script_of_the_project():
    text = (ROOT / ".github/workflows/tests.yml").read_text()
    actions = re.findall(r"uses: (.*)", text)
    assert actions and all(
        re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", action) for action in actions
    )
    (job,) = yaml.safe_load(text)["jobs"].values()
    assert job["steps"][-1]["run"].endswith("bash .ci/run")
    assert {"make lint", "make test"} <= set((ROOT / ".ci/run").read_text().splitlines())
