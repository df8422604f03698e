"""`snakemake --lint`, less the one rule that does not apply: all rules share one environment, which the Makefile makes."""

import subprocess
import sys

APPLIES_NOT = "Specify a conda environment or container"

done = subprocess.run([sys.executable, "-m", "snakemake", "--lint"], capture_output=True, text=True, check=False)
said = done.stdout + done.stderr
place, wrong = "", []
for line in said.splitlines():
    if line.startswith("Lints for "):
        place = line.removeprefix("Lints for ")
    elif line.startswith("    * ") and APPLIES_NOT not in line:
        wrong.append(f"{place} {line.strip()}")
if not place and done.returncode:
    sys.exit(said)
sys.exit("\n".join(wrong) or None)
