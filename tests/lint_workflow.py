"""`snakemake --lint`, less what does not apply: the rule that builds the containers' images cannot run in one."""

import subprocess
import sys

APPLIES_NOT = ("rule image ", "Specify a conda environment or container")

done = subprocess.run([sys.executable, "-m", "snakemake", "--lint"], capture_output=True, text=True, check=False)
said = done.stdout + done.stderr
place, wrong = "", []
for line in said.splitlines():
    if line.startswith("Lints for "):
        place = line.removeprefix("Lints for ")
    elif line.startswith("    * ") and not (place.startswith(APPLIES_NOT[0]) and APPLIES_NOT[1] in line):
        wrong.append(f"{place} {line.strip()}")
if not place and done.returncode:
    sys.exit(said)
sys.exit("\n".join(wrong) or None)
