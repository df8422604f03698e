"""The trainers replace methods of TRL and transformers. Under a version that lacks such a method, a
run ends before it computes."""

import inspect
import itertools
from types import ModuleType

import pytest
from test_beside_vllm import train
from test_trainer import tiny
from trl.generation import vllm_generation
from typing_extensions import override

from fake_vllm import StandIn
from hardgrpo.online.online_trainer import OnlineTrainer
from hardgrpo.runtime import replacements
from hardgrpo.runtime.errors import UserError
from hardgrpo.training import processes, supervised
from hardgrpo.training.trainer import Trainer

pytestmark = pytest.mark.slow
__all__ = ["tiny"]  # the fixture


class Library:
    def sample(self): ...


def test_an_override_of_a_method_that_the_library_lacks_is_refused():
    class Ours(Library):
        @override
        def sample(self): ...

        def own(self): ...

    class Older(Ours):
        @override
        def generate(self): ...

    assert replacements.check_overrides(Ours) is Ours
    with pytest.raises(
        UserError, match="Ours has no generate; this project replaces that function"
    ):
        replacements.check_overrides(Older)


def test_replacing_a_function_that_the_library_lacks_is_refused():
    module = ModuleType("trl.trainer")
    module.shard = lambda: 1
    replacements.replace(module, "shard", lambda: 2)
    assert module.shard() == 2
    with pytest.raises(
        UserError, match=r"^trl \d+\.\d+\.\d+: trl.trainer has no prepare; .*pinned versions"
    ):
        replacements.replace(module, "prepare", lambda: 2)
    with pytest.raises(UserError, match="Library has no rename"):
        replacements.replace(Library(), "rename", lambda: 2)


@pytest.mark.parametrize("kind", [Trainer, OnlineTrainer, supervised.Trainer])
def test_each_method_of_a_library_that_a_trainer_replaces_is_marked(kind):
    is_method = lambda name, value: inspect.isfunction(value) and not name.startswith("__")
    methods = {name: value for name, value in vars(kind).items() if is_method(name, value)}
    replaced = {name for name in methods if any(name in vars(base) for base in kind.__mro__[1:])}
    marked = {name for name, method in methods.items() if hasattr(method, "__override__")}
    assert replaced == marked != set()


@pytest.mark.parametrize("replacement", ["renamed", "not used"])
def test_a_trl_that_sends_the_weights_in_another_way_ends_the_run_before_an_update(
    tiny, tmp_path, monkeypatch, replacement
):
    StandIn.install(monkeypatch)
    kind = vllm_generation.VLLMGeneration
    if replacement == "renamed":
        monkeypatch.delattr(kind, "_iter_named_params")
    else:
        monkeypatch.setattr(kind, "sync_weights", lambda generation: None)
    with pytest.raises(
        UserError,
        match="^trl .*VLLMGeneration .*_iter_named_params; this project replaces that function",
    ):
        train(tiny, tmp_path)


def test_processes_of_runs_with_different_seeds_draw_different_numbers():
    """The replicates of a study usually have consecutive seeds. With accelerate's own seeds, seed +
    rank, process 1 of seed 0 and process 0 of seed 1 would draw the same numbers."""
    numbers = [processes.process_seed(*key) for key in itertools.product(range(10), range(8))]
    assert len(set(numbers)) == len(numbers) and all(0 <= number < 2**32 for number in numbers)
    # the first process starts with the seed of its run
    assert all(processes.process_seed(seed, 0) == seed for seed in range(10))
