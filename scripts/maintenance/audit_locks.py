"""Check the packages of envs/*.lock for known vulnerabilities with pip-audit. `make audit` calls
this program.

    python scripts/maintenance/audit_locks.py

pip-audit sends the names and versions of all packages to pypi.org, also if pip is set to another
package index, and receives their known vulnerabilities. pip-audit must be installed in the
environment of this program (envs/audit.lock). The audit does not install the packages of the locks.
"""

from hardgrpo.runtime import errors
from hardgrpo.runtime.errors import UserError

import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Locks that are not audited: only PyTorch's own index lists their builds, and other locks pin the
# same versions of the packages.
UNAUDITED_LOCKS = ("torch-cpu",)
REMEDY = "run `make audit` where pypi.org can be reached"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    locks = [path for path in (ROOT / "envs").glob("*.lock") if path.stem not in UNAUDITED_LOCKS]
    # A lock of one package is audited first, to find out quickly whether the database answers.
    locks.sort(key=lambda path: (path.stem != "pip", path.stem))
    vulnerability_count, packages, skipped_labels = 0, set(), set()
    today = datetime.datetime.now(datetime.UTC).date()
    for lock in locks:
        for package in audit_lock(lock):
            label = f"{package['name']} {package.get('version', '')}".strip()
            (skipped_labels if "skip_reason" in package else packages).add(label)
            for entry in package.get("vulns", []):
                fixed_versions = ", ".join(entry["fix_versions"]) or "no version yet"
                ids = ", ".join([entry["id"], *entry.get("aliases", [])])
                # Printed at once, because the audit of a later lock may fail.
                print(
                    errors.printable(
                        f"envs/{lock.name}: {label}: {ids}; fixed in {fixed_versions}"
                    ),
                    flush=True,
                )
                vulnerability_count += 1
        if not packages:
            raise UserError(
                f"{today}: nothing was audited: the database cannot be reached, or lists no package of envs/{lock.name}; {REMEDY}"
            )
    for label in sorted(skipped_labels):
        print(errors.printable(f"not audited: {label}"))
    counts = f"{today}: {len(packages)} packages of {len(locks)} locks, {vulnerability_count} known vulnerabilities, {len(skipped_labels)} packages not audited"
    if vulnerability_count:
        raise UserError(
            f"{counts}; pin versions without these vulnerabilities in envs/*.txt, then run `make locks`"
        )
    print(counts)


def audit_lock(lock: Path) -> list[dict]:
    """The result of pip-audit for each package of a lock: name, version and `vulns`, or name and
    `skip_reason`."""
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    command = [sys.executable, "-m", "pip_audit", *options, "-r", str(lock)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(process.stdout)["dependencies"]
    # pip-audit ends with a traceback if it reaches no server.
    except (ValueError, KeyError, TypeError):
        last_line = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[
            -1
        ]
        raise UserError(
            f"envs/{lock.name}: pip-audit returned no result ({last_line}); {REMEDY}"
        ) from None


if __name__ == "__main__":
    errors.run(main)
