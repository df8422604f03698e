"""Pack a finished study as a Workflow Run RO-Crate: the workflow, the configuration, the results,
and the provenance of each run.

    python scripts/paper/write_crate.py --study '{"name": "mini", "title": "..."}' \\
        --files results/summaries/mini/*.csv \\
        --runs results/training/steady-seed0/arithmetic/mini/*/seed0 --output paper/mini/crate.zip

Profile: https://w3id.org/ro/wfrun/workflow/0.5. The crate describes one action of the workflow,
with all results, and one action for each run, with the times in the run's provenance.json. A run
whose spec.yaml, updates.csv or provenance.json is missing is omitted, because a study may have only
committed summaries.
"""

from hardgrpo.runtime import errors, files, links

import argparse
import datetime
import json
import mimetypes
import uuid
import zipfile
from pathlib import Path

import yaml

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    "https://w3id.org/ro/terms/workflow-run/context",
]
METADATA, LANGUAGE = "ro-crate-metadata.json", "#snakemake"
WORKFLOW, TRAINER = "Snakefile", "scripts/training/train_grpo.py"
DESCRIPTIONS = {
    "README.md": "What the workflow does and how to run it",
    "LICENSE": "Licence of the workflow and of its results",
    "CITATION.cff": "How to cite the workflow",
    "config.yaml": "The settings of a user",
    TRAINER: "Trains one run",
}
RUN_FILES = {
    "spec.yaml": "Specification: everything that determines the result of the run",
    "updates.csv": "Training log of the run",
    "provenance.json": "Commit, versions of packages, machine and times of the run",
}
Entity = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--study",
        required=True,
        type=json.loads,
        help="JSON object with the name and the title of the study",
    )
    parser.add_argument("--files", nargs="+", required=True, type=Path, help="results of the study")
    parser.add_argument(
        "--rules", nargs="*", default=[], type=Path, help="further files of the workflow"
    )
    parser.add_argument(
        "--runs",
        nargs="*",
        default=[],
        type=Path,
        help="folders of the study's runs; folders without a run's files are omitted",
    )
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    for path in (*args.files, *args.rules, *args.runs):
        if links.is_outside(str(path)):
            raise errors.UserError(
                f"{path}: a crate holds only files below the current folder; give a path relative to this folder"
            )
    for path in args.files:
        if not path.is_file():
            raise errors.UserError(
                f"{path}: no such file; finish the study first: .venv/bin/snakemake --profile laptop --config study={args.study['name']}"
            )
    runs = [folder for folder in args.runs if all((folder / name).is_file() for name in RUN_FILES)]
    graph = entities_of(args.study, args.files, args.rules, runs)
    crate_files = [
        *map(Path, [WORKFLOW, *DESCRIPTIONS]),
        *args.rules,
        *args.files,
        *(folder / name for folder in runs for name in RUN_FILES),
    ]
    for path in crate_files:
        # `results` and the folders in it may be the user's links. Deeper links may come from
        # another person's files and must not lead out of these folders.
        links.check_inside(path, Path(*path.parts[:-1][:2]))
    with (
        files.atomic(args.output) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as crate,
    ):
        # without a date, `ZipInfo` stores a constant date: the archive holds no time of packing
        crate.writestr(
            zipfile.ZipInfo(METADATA),
            json.dumps({"@context": CONTEXT, "@graph": graph}, indent=1, ensure_ascii=False) + "\n",
        )
        for path in crate_files:
            crate.writestr(
                zipfile.ZipInfo(path.as_posix()), files.read_bytes(path), zipfile.ZIP_DEFLATED
            )


def entities_of(
    study: dict, results: list[Path], rules: list[Path], runs: list[Path]
) -> list[Entity]:
    citation = yaml.safe_load(files.read_text("CITATION.cff"))
    authors = [
        {"@id": f"#author-{number}", "@type": "Organization", "name": author["name"]}
        if "name" in author
        else {
            "@id": f"#author-{number}",
            "@type": "Person",
            "name": f"{author.get('given-names', '')} {author['family-names']}".strip(),
        }
        for number, author in enumerate(citation["authors"])
    ]
    records = {folder: json.loads(files.read_text(folder / "provenance.json")) for folder in runs}
    times = [times_of(record) for record in records.values()]
    run_files = [file(folder / name, text) for folder in runs for name, text in RUN_FILES.items()]
    result_files = [file(path) for path in results] + run_files
    parts = [file(path, text) for path, text in DESCRIPTIONS.items() if path != TRAINER] + [
        file(path) for path in rules
    ]
    trainer = file(TRAINER, DESCRIPTIONS[TRAINER]) | {
        "@type": ["File", "SoftwareSourceCode"],
        "name": "train_grpo",
        "version": citation["version"],
    }
    workflow = {
        **file(WORKFLOW), "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"], "name": citation["title"],
        "version": citation["version"], "programmingLanguage": {"@id": LANGUAGE}, "license": license_of(citation),
        "author": references(authors), "creator": references(authors), "hasPart": references([trainer, *map(file, rules)]),
    }  # fmt: skip
    study_action = {
        "@id": identifier(study["name"]), "@type": "CreateAction", "name": f"Study {study['name']}",
        "description": f"snakemake --config study={study['name']}", "instrument": {"@id": WORKFLOW},
        "agent": {"@id": authors[0]["@id"]}, "object": [{"@id": "config.yaml"}], "result": references(result_files),
        **({"startTime": min(times)[0], "endTime": max(end for _, end in times)} if times else {}),
    }  # fmt: skip
    actions = [
        study_action,
        *(run_action(folder, record, authors[0]) for folder, record in records.items()),
    ]
    root = {
        "@id": "./", "@type": "Dataset", "name": f"{study['title']} (study {study['name']})", "description": citation["abstract"],
        "datePublished": publication_date(citation, [end for _, end in times]), "license": license_of(citation),
        "conformsTo": [{"@id": profile} for profile in PROFILES],
        "mainEntity": {"@id": WORKFLOW}, "mentions": references(actions), "author": references(authors),
        "hasPart": references([workflow, trainer, *parts, *result_files]),
    }  # fmt: skip
    descriptor = {
        "@id": METADATA, "@type": "CreativeWork", "about": {"@id": "./"},
        "conformsTo": [{"@id": "https://w3id.org/ro/crate/1.1"}, {"@id": list(PROFILES)[-1]}],
    }  # fmt: skip
    profiles = [
        {"@id": profile, "@type": "CreativeWork", "name": name, "version": Path(profile).name}
        for profile, name in PROFILES.items()
    ]
    language = {
        "@id": LANGUAGE,
        "@type": "ComputerLanguage",
        "name": "Snakemake",
        "url": "https://snakemake.github.io",
    }
    licence = {**license_of(citation), "@type": "CreativeWork", "name": citation["license"]}
    return [
        descriptor,
        root,
        *profiles,
        language,
        licence,
        *authors,
        workflow,
        trainer,
        *parts,
        *result_files,
        *actions,
    ]


def publication_date(citation: dict, ends: list[str]) -> str:
    """The mandatory datePublished: the date of the workflow's release; else the day on which the
    crate's last run ended; without runs, today."""
    last_end = max(ends) if ends else datetime.datetime.now(datetime.UTC).isoformat()
    return str(citation.get("date-released", last_end[:10]))


def run_action(folder: Path, record: dict, author: Entity) -> Entity:
    start, end = times_of(record)
    packages = ", ".join(f"{name} {version}" for name, version in record["packages"].items())
    return {
        "@id": identifier(folder.as_posix()), "@type": "CreateAction", "name": f"Training of {folder.relative_to(folder.parts[0]).as_posix()}",
        "description": f"{code_of(record)}; Python {record['python']}; {packages}; {record['platform']}",
        "instrument": {"@id": TRAINER}, "agent": {"@id": author["@id"]}, "startTime": start, "endTime": end,
        "object": [{"@id": (folder / "spec.yaml").as_posix()}],
        "result": [{"@id": (folder / name).as_posix()} for name in ("updates.csv", "provenance.json")],
    }  # fmt: skip


def code_of(record: dict) -> str:
    """The commit of a run, with a note about uncommitted changes."""
    if record["commit"] is None:
        return "commit unknown"
    changes = {True: ", with uncommitted changes", None: ", uncommitted changes unknown"}
    return f"commit {record['commit']}{changes.get(record.get('uncommitted_changes', False), '')}"


def times_of(record: dict) -> tuple[str, str]:
    """(start, end) of a run, in ISO 8601."""
    start = datetime.datetime.fromisoformat(record["started"])
    return start.isoformat(), (start + datetime.timedelta(seconds=record["seconds"])).isoformat(
        timespec="seconds"
    )


def file(path: Path | str, description: str | None = None) -> Entity:
    path = Path(path)
    kind = mimetypes.guess_type(path.name)[0] or "text/plain"
    entity = {
        "@id": path.as_posix(),
        "@type": "File",
        "name": path.name,
        "contentSize": str(path.stat().st_size),
        "encodingFormat": kind,
    }
    return entity | ({"description": description} if description else {})


def identifier(name: str) -> str:
    """An identifier that depends only on the name, so that equal results give equal crates."""
    return f"#{uuid.uuid5(uuid.NAMESPACE_URL, name)}"


def license_of(citation: dict) -> Entity:
    return {"@id": f"https://spdx.org/licenses/{citation['license']}"}


def references(entities: list[Entity]) -> list[Entity]:
    return [{"@id": entity["@id"]} for entity in entities]


if __name__ == "__main__":
    errors.run(main)
