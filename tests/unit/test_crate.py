"""The crate of a study, checked against the MUST requirements of RO-Crate 1.1 and of the profile
Workflow Run Crate 0.5."""

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import fork_server
import write_crate
from conftest import ROOT, path_of

PROVENANCE = {
    "commit": "0" * 40, "packages": {"torch": "2.13.0"}, "python": "3.11.7", "platform": "Linux", "started": "2026-11-22T10:00:00Z", "seconds": 61.5,
}  # fmt: skip


@pytest.fixture
def clone(tmp_path):
    """The parts of a clone that go into a crate, with the files of run `hard`. Run `easy`, which
    `pack` also names, has no files."""
    for name in (
        "Snakefile",
        "README.md",
        "LICENSE",
        "CITATION.cff",
        "config.yaml",
        "rules/paper.smk",
        "scripts/training/train_grpo.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    citation = (ROOT / "CITATION.cff").read_text().splitlines(keepends=True)
    unreleased = "".join(line for line in citation if not line.startswith("date-released"))
    (tmp_path / "CITATION.cff").write_text(unreleased)
    shutil.copytree(ROOT / "results/reference/mini", tmp_path / "results/reference/mini")
    run = tmp_path / "results/training/tiny-seed0/arithmetic/mini/hard/seed0"
    run.mkdir(parents=True)
    (run / "spec.yaml").write_text("updates: 1\n")
    (run / "updates.csv").write_text("step\n1\n")
    (run / "provenance.json").write_text(json.dumps(PROVENANCE))
    return tmp_path


def pack(folder, *tables) -> subprocess.CompletedProcess:
    runs = [
        f"results/training/tiny-seed0/arithmetic/mini/{policy}/seed0" for policy in ("hard", "easy")
    ]
    arguments = ["--study", '{"name": "mini", "title": "The miniature"}', "--files", *tables]
    arguments += ["--rules", "rules/paper.smk", "--runs", *runs, "--output", "crate.zip"]
    return fork_server.run(path_of("write_crate"), arguments, folder)


def test_a_crate_fulfils_its_profile(clone):
    tables = sorted(
        str(path.relative_to(clone)) for path in (clone / "results/reference/mini").glob("*.csv")
    )
    done = pack(clone, *tables)
    assert done.returncode == 0, done.stderr
    packed = (clone / "crate.zip").read_bytes()
    with zipfile.ZipFile(clone / "crate.zip") as crate:
        metadata = json.loads(crate.read("ro-crate-metadata.json"))
        names = set(crate.namelist()) - {"ro-crate-metadata.json"}
        sizes = {info.filename: info.file_size for info in crate.infolist()}
    entities = {entity["@id"]: entity for entity in metadata["@graph"]}
    assert len(entities) == len(metadata["@graph"]), "two entities have the same identifier"
    assert metadata["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    as_list = lambda value: value if isinstance(value, list) else [value]
    types = lambda entity: as_list(entity["@type"])
    # Every reference leads to an entity; every entity has a type.
    for entity in entities.values():
        assert types(entity)
        for value in (
            value
            for values in entity.values()
            for value in as_list(values)
            if isinstance(value, dict)
        ):
            assert value["@id"] in entities or value["@id"] == "https://w3id.org/ro/crate/1.1", (
                value
            )

    descriptor, root = entities["ro-crate-metadata.json"], entities["./"]
    assert types(descriptor) == ["CreativeWork"] and descriptor["about"] == {"@id": "./"}
    assert {"@id": "https://w3id.org/ro/crate/1.1"} in descriptor["conformsTo"]
    assert root["datePublished"] == "2026-11-22", (
        "without a release, datePublished is the day of the last run"
    )
    assert types(root) == ["Dataset"] and root["name"] and root["description"] and root["license"]
    profiles = {"https://w3id.org/ro/wfrun/process/0.5", "https://w3id.org/ro/wfrun/workflow/0.5"}
    profile_ids = {reference["@id"] for reference in root["conformsTo"]}
    assert profiles <= profile_ids and all(
        types(entities[profile]) == ["CreativeWork"] for profile in profile_ids
    )

    workflow = entities[root["mainEntity"]["@id"]]
    assert {"File", "SoftwareSourceCode", "ComputationalWorkflow"} <= set(types(workflow))
    assert types(entities[workflow["programmingLanguage"]["@id"]]) == ["ComputerLanguage"]

    workflow_action, training = (
        entity for entity in entities.values() if "CreateAction" in types(entity)
    )
    assert workflow_action["instrument"] == {"@id": workflow["@id"]} and training["instrument"] == {
        "@id": "scripts/training/train_grpo.py"
    }
    assert {action["@id"] for action in (workflow_action, training)} == {
        reference["@id"] for reference in root["mentions"]
    }
    assert (training["startTime"], training["endTime"]) == (
        "2026-11-22T10:00:00+00:00",
        "2026-11-22T10:01:01+00:00",
    )
    assert (workflow_action["startTime"], workflow_action["endTime"]) == (
        training["startTime"],
        training["endTime"],
    )
    assert set(tables) < {reference["@id"] for reference in workflow_action["result"]}

    # The files of the crate are its data entities, and all are parts of the root.
    data = {name for name, entity in entities.items() if "File" in types(entity)}
    assert data == names == {reference["@id"] for reference in root["hasPart"]}
    assert all(entities[name]["contentSize"] == str(sizes[name]) for name in names)

    (clone / "crate.zip").unlink()
    assert pack(clone, *tables).returncode == 0 and (clone / "crate.zip").read_bytes() == packed, (
        "a second crate of the same results differs"
    )


def test_an_unfinished_study_is_reported_in_one_line(clone):
    done = pack(clone, "results/reference/mini/gains.csv", "paper/mini/verified.txt")
    assert (
        done.returncode == 1 and done.stderr.count("\n") == 1 and not (clone / "crate.zip").exists()
    )
    assert "paper/mini/verified.txt: no such file; finish the study first" in done.stderr


def test_crates_are_planned_from_committed_summaries_without_a_run(world):
    for name in ("README.md", "LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, world.folder)
    planned = world.plan("crate")
    assert (
        planned["write_crate"] == planned["verify"] == 1
        and "train_grpo" not in planned
        and "summarize" not in planned
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, f"commit {'0' * 40}; "),
        ({"uncommitted_changes": False}, f"commit {'0' * 40}; "),
        ({"uncommitted_changes": True}, f"commit {'0' * 40}, with uncommitted changes; "),
        ({"commit": None, "uncommitted_changes": None}, "commit unknown; "),
    ],
)
def test_a_crate_describes_the_state_of_git_during_a_run(facts, words):
    description = write_crate.run_action(
        Path("results/training/run"), PROVENANCE | facts, {"@id": "#author"}
    )["description"]
    assert description.startswith(words), description


@pytest.fixture
def outside(tmp_path_factory):
    return tmp_path_factory.mktemp("outside")


@pytest.mark.parametrize(
    "name",
    [
        "{outside}/private.csv",
        "results/../../private.csv",
        "results/reference/mini/link.csv",
        "results/reference/mini/inner/private.csv",
    ],
)
def test_a_crate_holds_no_file_from_outside_of_the_clone(clone, outside, name):
    (outside / "private.csv").write_text("private")
    (clone / "results/reference/mini/link.csv").symlink_to(outside / "private.csv")
    (clone / "results/reference/mini/inner").symlink_to(outside)
    done = pack(clone, name.format(outside=outside))
    assert (
        done.returncode != 0
        and done.stderr.startswith("error: ")
        and len(done.stderr.splitlines()) == 1
    ), done.stderr
    assert "no such file" not in done.stderr and not (clone / "crate.zip").exists()


def test_a_run_with_a_link_to_a_file_outside_of_the_clone_is_not_packed(clone, outside):
    run = clone / "results/training/tiny-seed0/arithmetic/mini/hard/seed0"
    (outside / "private.csv").write_text("private")
    (run / "updates.csv").unlink()
    (run / "updates.csv").symlink_to(outside / "private.csv")
    done = pack(clone, "results/reference/mini/gains.csv")
    assert (
        done.returncode != 0
        and "updates.csv: a link to" in done.stderr
        and not (clone / "crate.zip").exists()
    )


@pytest.mark.parametrize("linked", ["results", "results/training", "results/reference"])
def test_folders_of_results_on_another_disk_are_packed(clone, outside, linked):
    (clone / linked).rename(outside / "disk")
    (clone / linked).symlink_to(outside / "disk")
    assert (
        pack(clone, "results/reference/mini/gains.csv").returncode == 0
        and (clone / "crate.zip").exists()
    )
