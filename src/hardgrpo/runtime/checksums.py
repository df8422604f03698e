"""Checksums of run files that are equal on every x86-64 processor with AVX2 (`exact_products`). The
checksum of a compressed file covers its content, because libraries compress differently.

Files are listed in the order of the stages, so the first file that differs belongs to the first
stage whose results differ.
"""

import contextlib
import gzip
import hashlib
import zlib
from pathlib import Path

from hardgrpo.runtime import files

NAME = "run_files.sha256"  # the committed list of a study, in results/reference/{study}
EQUAL = "equal, byte for byte"
# Weights, completions, logs and grades below results/, by stage. Manifests and provenance are left
# out, because they contain times.
STAGES = (
    "models/*/*.safetensors",
    "probe/**/*.jsonl.gz",
    "training/**/updates.csv",
    "training/**/*.safetensors",
    "evaluation/**/*.gz",
)


def lines(folder: Path) -> str:
    paths = [path for stage in STAGES for path in sorted((folder / "results").glob(stage))]
    return "".join(f"{content_checksum(path)}  {path.relative_to(folder)}\n" for path in paths)


def compare(sums: str | Path, folder: Path = Path()) -> str:
    """`EQUAL` if all listed files exist below `folder` with their checksums, else how many do not,
    and the first. Files that are not listed are not compared."""
    entries = [line.split("  ", 1) for line in files.read_text(sums).splitlines()]
    different_names = [
        name
        for checksum, name in entries
        if not (folder / name).is_file() or content_checksum(folder / name) != checksum
    ]
    if not different_names:
        return EQUAL
    first = different_names[0]
    problem = "differs" if (folder / first).is_file() else "is missing"
    return f"{len(different_names)} of {len(entries)} files differ or are missing; the first: {first} {problem}"


def content_checksum(path: Path) -> str:
    """The SHA-256 checksum of a file's content; of the compressed bytes if they are damaged."""
    if path.suffix != ".gz":
        return files.sha256(path)
    content = files.read_bytes(path)
    with contextlib.suppress(EOFError, gzip.BadGzipFile, zlib.error):  # a damaged file
        content = gzip.decompress(content)
    return hashlib.sha256(content).hexdigest()
