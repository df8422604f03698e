"""A run with an adapter, a selector, process rewards or worked solutions that is killed and started
again ends with the files of an uninterrupted run."""

import random

import pytest
import yaml

from conftest import LONG_LIMIT, RUN
from interruptible_run import KILLS, contents, kill, start, states, supervised

pytestmark = pytest.mark.timeout(LONG_LIMIT)

PROCESS_REWARDS = {"weight": 1.0, "beta": 0.05, "learning_rate": 4.0e-4, "max_grad_norm": 1.0}
TARGETED = {"kind": "targeted", "reference": 4, "every": 3, "sharpness": 0.1}
DYNAMIC = {"kind": "dynamic", "groups": 2}
ADAPTER = {"rank": 4, "alpha": 8, "dropout": 0.0}
KINDS = {
    "sft": {"objective": "sft", "updates": 24, "learning_rate": 3e-3},
    "sft_adapter": {"objective": "sft", "updates": 24, "adapter": ADAPTER | {"dropout": 0.1}},
    "adapter": {"adapter": ADAPTER, "beta": 0.1, "reward": "finished"},
    "dynamic": {"selector": DYNAMIC},
    "skip": {"selector": {"kind": "skip", "groups": 2, "most_steps": 60}},
    "beta": {"selector": {"kind": "beta"}},
    "targeted": {"selector": TARGETED},
    "replay": {"selector": TARGETED | {"replay": 2, "buffer": 6}},
    "curriculum": {"selector": {"kind": "curriculum"}},
    "process": {"process": PROCESS_REWARDS},
    "process_dynamic_adapter": {
        "selector": DYNAMIC,
        "process": PROCESS_REWARDS,
        "adapter": ADAPTER,
    },
}
# These kinds of run have every kind of state. The other kinds run by night.
ON_EACH_CHANGE = ("sft", "adapter", "replay", "process_dynamic_adapter")
UPDATES = 5 * KILLS + 3


@pytest.fixture(scope="module")
def folder(finished_world, tmp_path_factory):
    """A folder with a specification for each key of KINDS. Each run samples from the whole pool
    and writes a checkpoint after every sampling step."""
    specs_folder = tmp_path_factory.mktemp("online")
    (specs_folder / "results").symlink_to(finished_world.folder / "results")
    spec = yaml.safe_load((specs_folder / f"results/training/{RUN}/spec.yaml").read_text())
    rows = (specs_folder / "results/difficulty/tiny/swaps.csv").read_text().splitlines()
    id_column = rows[0].split(",").index("id")
    (specs_folder / "all.csv").write_text(
        "id\n" + "".join(f"{row.split(',')[id_column]}\n" for row in rows[1:])
    )
    spec |= {"subset": "all.csv"}
    for kind, keys in KINDS.items():
        spec_of_kind = supervised(specs_folder, spec) if "objective" in keys else spec
        training = spec_of_kind["training"] | {"updates": UPDATES, "checkpoint_every": 1} | keys
        (specs_folder / f"{kind}.yaml").write_text(
            yaml.safe_dump(spec_of_kind | {"training": training})
        )
    return specs_folder


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in ON_EACH_CHANGE else pytest.param(kind, marks=pytest.mark.nightly)
        for kind in KINDS
    ],
)
def test_a_training_killed_at_random_moments_writes_the_same_files(folder, kind):
    """Kills of two kinds alternate: up to 0.2 s after the run has begun to write a checkpoint, and
    up to 5 ms after the run has begun to write one of `saved_files` in a checkpoint."""
    spec, rng, name = f"{kind}.yaml", random.Random(kind), f"{kind}-killed"
    assert start(folder, kind, spec=spec).wait() == 0, (folder / f"{kind}.log").read_text()
    saved_files = ["process.state" if "process" in kind else "groups.state", "selector.json"]
    if not {"selector", "process"} & KINDS[kind].keys():
        saved_files = ["model.safetensors", "optimizer.pt"]
    for number in range(KILLS):
        process = start(folder, name, spec=spec)
        before = set(states(folder, name))

        def is_saving(before=before, number=number):
            new = set(states(folder, name)) - before
            return (
                any(list(path.glob(f"*{saved_files[number // 2 % 2]}*")) for path in new)
                if number % 2
                else bool(new)
            )

        kill(process, is_saving, rng.uniform(0, 0.005 if number % 2 else 0.2))
    assert start(folder, name, spec=spec).wait() == 0, (folder / f"{name}.log").read_text()
    assert contents(folder / name) == contents(folder / kind)
    assert "Traceback" not in (folder / f"{name}.log").read_text()
