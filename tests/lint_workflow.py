"""Run `snakemake --lint`, but accept that the rules `image` and `plan` name no container, because
they run outside of containers."""

import subprocess
import sys

OUTSIDE = ("rule image ", "rule plan ")
APPLIES_NOT = "Specify a conda environment or container"

done = subprocess.run(
    [sys.executable, "-m", "snakemake", "--lint"], capture_output=True, text=True, check=False
)
output = done.stdout + done.stderr
place, wrong = "", []
for line in output.splitlines():
    if line.startswith("Lints for "):
        place = line.removeprefix("Lints for ")
    elif line.startswith("    * ") and not (place.startswith(OUTSIDE) and APPLIES_NOT in line):
        wrong.append(f"{place} {line.strip()}")
if not place and done.returncode:
    sys.exit(output)
sys.exit("\n".join(wrong) or None)
