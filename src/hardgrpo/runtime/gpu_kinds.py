"""The kinds of GPUs that this project knows: their speed and memory."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Processor:
    """A device's peak performance according to its data sheet: dense FLOP/s in bf16 (fp16 for the
    V100, fp32 for a core), bytes/s of its memory, and the memory in GiB that torch sees."""

    flops: float
    bandwidth: float
    gib: float = 0.0


GPUS = {  # NVIDIA's data sheets: dense, the SXM version where there is one
    "b200": Processor(2250e12, 7700e9, 178.0),
    "h200": Processor(989e12, 4800e9, 139.8),
    "h100": Processor(989e12, 3350e9, 79.1),
    "a100": Processor(312e12, 2039e9, 79.1),  # of 80 GB
    "l40s": Processor(362e12, 864e9, 44.4),
    "a40": Processor(150e12, 696e9, 44.4),
    "v100": Processor(125e12, 900e9, 31.7),  # of 32 GB
}


def kind_of(name: str) -> str | None:
    """The key of `GPUS` that a device's name contains (h100 in nvidia_h100_80gb_hbm3, but not a40 in
    nvidia_rtx_a4000); None if there is none."""
    pattern = rf"(?<![a-z0-9])({'|'.join(GPUS)})(?![0-9])"
    match = re.search(pattern, name.lower())
    return match and match[1]
