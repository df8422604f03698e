"""Compute the matrix products of small float32 models with the same kernels on every x86-64
processor with AVX2, so that a run gives the same bytes on all of them.

The libraries that torch uses for matrix products choose kernels by the processor, and different
kernels add in different orders. NumPy's OpenBLAS uses exactly the kernels that environment
variables name (`environments.EXACT`). `install` makes torch compute its products with NumPy, in
forward and backward passes, without copying matrices. Attention is computed from such products,
too.

torch computes the products of wide models, because NumPy would be slower. torch also computes the
products if the weights are sharded over processes, because FSDP frees memory that NumPy may still
use.
"""

import os
import warnings
from pathlib import Path

from hardgrpo.runtime import environments, files
from hardgrpo.runtime.errors import UserError

WIDEST = 256  # largest hidden size of a model that uses exact products
MAX_CONFIG_BYTES = 2**20
# part of the hash that names the state folder of a run with exact products
IDENTITY = "exact products, version 2"
_library = None  # holds the replacements; torch removes them when this object is deleted


def is_exact_model(folder: str | Path) -> bool:
    """Whether the model in `folder` is narrow enough for exact products and this process uses the
    kernels of `environments.EXACT`. The caller checks device, precision and number of processes.
    Does not import torch. False if `config.json` cannot be read; the model loader reports that
    error."""
    path = Path(folder) / "config.json"
    if not path.is_file() or path.stat().st_size > MAX_CONFIG_BYTES:
        return False
    try:
        config = files.read_json(path)
    except UserError:
        return False
    return is_narrow(config.get("hidden_size")) and environments.is_exact()


def is_narrow(hidden_size: object) -> bool:
    """Whether a model with this hidden size is narrow enough for exact products."""
    return isinstance(hidden_size, int) and hidden_size <= WIDEST


def install() -> None:
    """Replace torch's float32 operators mm, bmm, addmm and baddbmm on the CPU of this process by
    NumPy's products, and make Intel's MKL compute float32 exponentials and logarithms with the same
    kernels on every processor. Square roots are not covered; those of fused AdamW are the same on
    every processor anyway."""
    global _library
    if _library is not None:
        return
    # MKL reads this variable at its first call. COMPATIBLE slows MKL's matrix products, but NumPy
    # computes these. COMPATIBLE does not slow MKL's exponentials and logarithms.
    os.environ["MKL_CBWR"] = "COMPATIBLE"
    import torch

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of every replaced operator
        for name, product in _operators().items():
            library.impl(name, product, "CPU")
    # attention's fused kernel has matrix products of its own
    torch.backends.cuda.enable_flash_sdp(False)
    _library = library


def avoid_fused_attention() -> None:
    """Make torch compute attention in bf16 on a CPU by plain matrix products, if this process uses
    the kernels of `environments.EXACT`. With these kernels, the fused attention kernel raises
    a RuntimeError on processors with AVX-512. Call this function only for bf16 on a CPU."""
    import torch

    if environments.is_exact():
        # in spite of its name, this setting also applies to a CPU
        torch.backends.cuda.enable_flash_sdp(False)


def model_arguments() -> dict[str, str]:
    """Arguments of transformers' from_pretrained; empty before `install`. After `install`, they
    select transformers' own attention (`eager`), because torch's unfused attention scales all keys
    again for each new token."""
    return {} if _library is None else {"attn_implementation": "eager"}


def _operators() -> dict:
    """{name of a torch operator: replacement}. Inputs that are not float32 use torch's `out=`
    variants, which `install` does not replace."""
    import numpy as np
    import torch

    def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = a.new_empty(*a.shape[:-1], b.shape[-1])
        np.matmul(a.detach().numpy(), b.detach().numpy(), out=product.numpy())
        return product

    def mm(a, b):
        if a.dtype != torch.float32 or b.dtype != torch.float32:
            return torch.mm(a, b, out=a.new_empty(0))
        return multiply(a, b)

    def bmm(a, b):
        if a.dtype != torch.float32 or b.dtype != torch.float32:
            return torch.bmm(a, b, out=a.new_empty(0))
        return multiply(a, b)

    def addmm(bias, a, b, *, beta=1, alpha=1):
        if a.dtype != torch.float32 or b.dtype != torch.float32:
            return torch.addmm(bias, a, b, beta=beta, alpha=alpha, out=a.new_empty(0))
        return add(bias, multiply(a, b), beta, alpha)

    def baddbmm(bias, a, b, *, beta=1, alpha=1):
        if a.dtype != torch.float32 or b.dtype != torch.float32:
            return torch.baddbmm(bias, a, b, beta=beta, alpha=alpha, out=a.new_empty(0))
        return add(bias, multiply(a, b), beta, alpha)

    def add(bias, product, beta, alpha):
        if alpha != 1:
            product.mul_(alpha)
        # beta = 0 ignores the bias, even NaN or infinity, as torch does
        return product if beta == 0 else product.add_(bias, alpha=beta)

    return {"mm": mm, "bmm": bmm, "addmm": addmm, "baddbmm": baddbmm}
