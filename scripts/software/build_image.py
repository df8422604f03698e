"""Build a container image from its definition with Apptainer (or Singularity), through spython.
Needs internet, but not root.

    python scripts/software/build_image.py --definition envs/training.def --output envs/training.sif

Run the program in the root of the clone, because definitions copy the pins from envs/.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

import argparse
import os
import shutil
import tempfile
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--definition", required=True)
    parser.add_argument("--output", required=True, help="image to write")
    args = parser.parse_args()

    command = f"apptainer build --fakeroot {args.output} {args.definition}"
    if not Path(args.definition).is_file():
        raise UserError(
            f"{args.definition}: no such file; name a definition of envs/, e.g. envs/training.def"
        )
    if not (shutil.which("singularity") or shutil.which("apptainer")):
        raise UserError(
            f"{args.definition}: building needs apptainer or singularity, and neither is on PATH; load the module of one of them, or build"
            f" the image on a machine that has one of them ({command}) and copy the image here"
        )
    with tempfile.TemporaryDirectory() as folder, files.atomic(args.output) as image:
        # spython calls `singularity`; apptainer also works under this name.
        if not shutil.which("singularity"):
            Path(folder, "singularity").symlink_to(shutil.which("apptainer"))
            os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], folder])
        from spython.main import Client  # looks for singularity on import

        options = [] if os.geteuid() == 0 else ["--fakeroot"]
        Client.build(args.definition, str(image), sudo=False, options=options)
        if not image.is_file():  # spython does not report the exit status
            raise UserError(
                f"{args.definition}: no image was built; see above what is missing, or build by hand: {command}"
            )
    print(
        f"{args.output}: {Path(args.output).stat().st_size / 1e9:.2f} GB, built from {args.definition}"
    )


if __name__ == "__main__":
    errors.run(main)
