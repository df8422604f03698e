"""Build a container image with Apptainer or Singularity, through spython.

python scripts/software/build_image.py --definition envs/training.def --output envs/training.sif
"""

from hardgrpo.runtime import errors, files

import argparse
import os
import shutil
import tempfile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--definition", required=True)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    runtime = shutil.which("singularity") or shutil.which("apptainer")
    if not runtime:
        raise errors.UserError(
            "apptainer and singularity: neither is on PATH; load a module, or on another machine:"
            f" apptainer build --fakeroot {args.output} {args.definition}"
        )
    with tempfile.TemporaryDirectory() as folder, files.atomic(args.output) as image:
        # spython calls `singularity`; apptainer also works under this name
        os.symlink(runtime, f"{folder}/singularity")
        os.environ["PATH"] += os.pathsep + folder
        from spython.main import Client

        options = [] if os.geteuid() == 0 else ["--fakeroot"]
        Client.build(args.definition, str(image), sudo=False, options=options)
        if not image.is_file():  # spython does not report the exit status
            raise errors.UserError(f"{args.definition}: no image was built, see above")


if __name__ == "__main__":
    errors.run(main)
