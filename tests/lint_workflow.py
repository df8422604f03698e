"""Run `snakemake --lint`. The rules `image` and `plan` may lack a container, because they run
outside of containers."""

import subprocess
import sys

OUTSIDE = ("rule image ", "rule plan ")
ALLOWED = "Specify a conda environment or container"

done = subprocess.run(
    [sys.executable, "-m", "snakemake", "--lint"], capture_output=True, text=True, check=False
)
output = done.stdout + done.stderr
place, findings = "", []
for line in output.splitlines():
    if line.startswith("Lints for "):
        place = line.removeprefix("Lints for ")
    elif line.startswith("    * ") and not (place.startswith(OUTSIDE) and ALLOWED in line):
        findings.append(f"{place} {line.strip()}")
if not place and done.returncode:
    sys.exit(output)
sys.exit("\n".join(findings) or None)
