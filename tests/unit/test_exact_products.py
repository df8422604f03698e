"""Small models on a CPU compute with kernels that every x86-64 processor with AVX2 has."""

import ctypes
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from command_line import run_python
from conftest import SCRIPTS
from hardgrpo.runtime import environments, exact_products
from hardgrpo.training import recipes

needs_avx2 = pytest.mark.skipif(not environments.has_avx2(), reason="no x86-64 with AVX2")


@pytest.fixture
def exact():
    """Replace torch's products in this process, as every program with exact products does."""
    exact_products.install()


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def close(product: torch.Tensor, expected: np.ndarray) -> bool:
    return product.shape == expected.shape and np.allclose(product, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "rows, inner, columns", [(200, 96, 288), (1, 96, 7), (5, 1, 3), (0, 4, 3), (3, 0, 2)]
)
def test_products_equal_those_in_double_precision_within_rounding(exact, rows, inner, columns):
    a, b, bias = draw(rows, inner), draw(columns, inner).T, draw(columns)
    expected = a.double().numpy() @ b.double().numpy()
    assert close(a @ b, expected)
    assert close(torch.addmm(bias, a, b, beta=0.5, alpha=2), 2 * expected + 0.5 * bias.numpy())
    assert close(torch.nn.functional.linear(a, b.T, bias), expected + bias.numpy())
    stack, weights = draw(4, rows, inner), draw(4, inner, columns)
    products = np.matmul(stack.double().numpy(), weights.double().numpy())
    assert close(stack @ weights, products)
    assert close(torch.baddbmm(bias, stack, weights), products + bias.numpy())


def test_a_factor_of_zero_ignores_numbers_that_are_not_finite(exact):
    bias = torch.full((3,), torch.nan)
    assert torch.addmm(bias, draw(2, 4), draw(4, 3), beta=0).isfinite().all()


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.long])
def test_types_other_than_float32_keep_the_products_of_torch(exact, kind):
    a, b = torch.arange(6).reshape(2, 3).to(kind), torch.arange(12).reshape(3, 4).to(kind)
    expected = a.double().numpy() @ b.double().numpy()
    for product in (a @ b, (a[None] @ b[None])[0], torch.addmm(torch.zeros(4).to(kind), a, b)):
        assert product.dtype == kind and (product.double().numpy() == expected).all()


def test_a_model_has_the_gradients_of_double_precision_within_rounding(exact):
    gradients = {}
    for kind in (torch.float32, torch.float64):
        model = small_model().to(kind)
        ids = torch.arange(40).reshape(4, 10) % 30
        model(input_ids=ids, labels=ids).loss.backward()
        gradients[kind] = [weights.grad.double() for weights in model.parameters()]
    assert max(gradient.abs().max() for gradient in gradients[torch.float32]) > 1e-3
    for float32_gradient, float64_gradient in zip(*gradients.values(), strict=True):
        assert torch.allclose(float32_gradient, float64_gradient, rtol=1e-3, atol=1e-6)


def small_model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=30, **sizes, **heads))


@needs_avx2
def test_this_process_uses_the_kernels_that_every_processor_with_avx2_has(exact):
    assert torch.backends.cpu.get_cpu_capability() == "AVX2"
    (path,) = (Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas64_*")
    library = ctypes.CDLL(str(path))  # the OpenBLAS that NumPy has loaded
    name = library.scipy_openblas_get_corename64_
    name.restype = ctypes.c_char_p
    assert name() == b"Haswell" and library.scipy_openblas_get_num_threads64_() == 1


# --- processors and settings with exact products ---


@pytest.fixture
def with_avx2(monkeypatch):
    """Simulate a process that was started on a processor with AVX2."""
    for name, value in environments.EXACT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("columns, applies", [(96, True), (256, True), (257, False), (None, False)])
def test_exact_products_are_for_narrow_models(with_avx2, tmp_path, columns, applies):
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": columns}))
    assert exact_products.is_exact_model(tmp_path) is applies


@pytest.mark.parametrize(
    ("change", "hardware"),
    [
        ({}, recipes.Hardware(gpus=1)),
        ({}, recipes.Hardware(processes=2)),
        ({"base": "bf16"}, recipes.Hardware()),
        ({"precision": "bf16"}, recipes.Hardware()),
        ({"generation": "vllm"}, recipes.Hardware()),
    ],
)
def test_runs_that_miss_a_condition_keep_the_products_of_torch(
    with_avx2, tmp_path, monkeypatch, change, hardware
):
    (tmp_path / "config.json").write_text('{"hidden_size": 96}')
    training = {"base": "fp32", "precision": "fp32", "generation": "transformers"}
    spec = SimpleNamespace(training=training, model_folder=str(tmp_path))
    assert recipes.has_exact_products(spec, recipes.Hardware())
    spec.training = training | change
    assert not recipes.has_exact_products(spec, hardware)
    spec.training = training
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert not recipes.has_exact_products(spec, recipes.Hardware())


@pytest.mark.parametrize(
    ("has_avx2", "is_started_again", "is_exact"),
    [(False, False, False), (True, True, False), (True, False, True)],
)
def test_exact_kernels_need_avx2_and_are_not_for_a_program_started_again_for_vllm(
    monkeypatch, has_avx2, is_started_again, is_exact
):
    for name in (*environments.EXACT, environments.STARTED_AGAIN):
        monkeypatch.setenv(name, "python")
        monkeypatch.delenv(name)
    if is_started_again:
        monkeypatch.setenv(environments.STARTED_AGAIN, "python")
    monkeypatch.setattr(environments, "has_avx2", lambda: has_avx2)
    environments.prepare_exact()
    assert environments.is_exact() == is_exact


def test_programs_load_torch_and_numpy_only_after_the_kernels_are_chosen():
    programs = [path for path in SCRIPTS.glob("*/*.py") if "warm.run(main)" in path.read_text()]
    assert SCRIPTS / "training/train_grpo.py" in programs
    code = (
        "import runpy, sys\n"
        "for program in sys.argv[1:]:\n"
        "    sys.path.insert(0, program.rpartition('/')[0])\n"
        "    runpy.run_path(program)\n"
        "    assert not {'numpy', 'torch'} & set(sys.modules), program\n"
    )
    done = run_python("-c", code, *programs)
    assert done.returncode == 0, done.stderr
