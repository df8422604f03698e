"""Container images: the definitions, the rules that name images, and Snakemake's calls of the
container runtime. No container is started."""

import collections
import re
import shutil
import subprocess

import pytest

from command_line import assert_refused, run
from conftest import ROOT, World, shrink
from fakes import apptainer
from hardgrpo.runtime import images

DEFINITIONS = {name: ROOT / f"envs/{name}.def" for name in images.LOCKS}


def parsed(name: str):
    from spython.main.parse.parsers import get_parser

    (recipe,) = get_parser("singularity")(str(DEFINITIONS[name])).recipe.values()
    return recipe


@pytest.mark.parametrize("name", images.LOCKS)
def test_a_definition_installs_the_lock_of_its_environment_and_nothing_else(name):
    recipe = parsed(name)
    assert re.fullmatch(r"python@sha256:[0-9a-f]{64}", recipe.fromHeader)
    copies = dict(line.split() for line in recipe.files)
    assert list(copies) == [*images.INSTALLERS, images.LOCKS[name]]
    installs = [line.split("install ")[1].split() for line in recipe.install if "pip" in line]
    assert [words[-2:] for words in installs] == [["-r", copy] for copy in copies.values()]
    options = {"--require-hashes", "--no-deps", "--no-build-isolation"}
    assert all(options <= set(words) for words in installs)
    assert "==" not in DEFINITIONS[name].read_text(), "all versions are those of the lock"
    assert recipe.environ[0].startswith("PATH=/usr/local/bin:"), "the Python of the base image"
    assert recipe.test


@pytest.fixture
def stand_in(tmp_path):
    return apptainer(tmp_path / "bin", {name: ROOT / lock for name, lock in images.LOCKS.items()})


def make_images(world: World) -> None:
    for path in images.PATHS.values():
        (world.folder / path).touch()


def run_in_images(world, stand_in, elsewhere, *arguments: str) -> dict[str, set[str]]:
    """Run Snakemake with images, and assert that each recorded call of Apptainer is an `exec`.
    Return {program: images in which the program ran}."""
    elsewhere.mkdir()
    make_images(world)
    world.run(*arguments, "--sdm", "apptainer", "--config", f"data={elsewhere}", env=stand_in.env)
    images_of = collections.defaultdict(set)
    for call in stand_in.calls():
        assert call["arguments"][:3] == ["exec", "--home", str(world.folder)]
        assert call["folder"] == str(world.folder) and "--nv" in call["arguments"]
        assert call["APPTAINER_BIND"] == call["SINGULARITY_BIND"] == str(elsewhere)
        for program in re.findall(r"scripts/\w+/(\w+)\.py", call["arguments"][-1]):
            images_of[program].update(word for word in call["arguments"] if word.endswith(".sif"))
    return images_of


@pytest.mark.nightly
def test_a_run_needs_only_the_packages_that_the_image_for_training_pins(world, stand_in, tmp_path):
    """In a stand-in for an image, only the packages that the image's lock names can be imported."""
    world.configure(shrink)
    for task in ("swaps", "swaps_once"):  # swaps_once takes its completions from the probe of swaps
        world.configure(lambda config, task=task: config["tasks"][task]["probe"].update(shards=1))
    target = "results/evaluation/tiny/swaps/mini/hard/seed0/swaps.csv.gz"
    images_of = run_in_images(world, stand_in, tmp_path / "elsewhere", target)
    training = ("prepare_task", "pretrain_model", "probe", "measure_difficulty", "train_grpo", "evaluate")  # fmt: skip
    assert all(images_of[program] == {images.PATHS["training"]} for program in training)


@pytest.mark.nightly
def test_tables_and_figures_are_made_in_the_image_for_figures_without_torch(
    finished, stand_in, tmp_path
):
    hidden = (stand_in.folder / "figures.hidden").read_text().split()
    assert {"torch", "transformers", "trl"} <= set(hidden)
    paper = finished.folder / "paper/mini"
    read_tables = lambda: {
        path.relative_to(paper): path.read_bytes()
        for path in paper.rglob("*")
        if path.suffix in (".tex", ".csv")
    }
    before = read_tables()
    shutil.rmtree(paper)
    elsewhere = tmp_path / "elsewhere"
    images_of = run_in_images(finished, stand_in, elsewhere, "--forcerun", "summarize")
    assert not {"pretrain_model", "probe", "train_grpo", "evaluate"} & set(images_of)
    for program in ("summarize", "draw_figures", "compile_paper"):
        assert images_of[program] == {images.PATHS["figures"]}
    assert read_tables() == before and (paper / "figures/accuracy.png").exists()


def test_switching_to_containers_reruns_no_job(finished, stand_in, monkeypatch):
    monkeypatch.setenv("PATH", stand_in.env["PATH"])
    make_images(finished)
    assert finished.plan("--sdm", "apptainer") == {}
    assert finished.plan("--sdm", "apptainer", profile="slurm") == {}
    for path in images.PATHS.values():
        (finished.folder / path).write_text("another image")
    assert finished.plan("--sdm", "apptainer") == {}
    every_reason = ["--rerun-triggers", "code", "input", "mtime", "params", "software-env"]
    plan = finished.plan("--sdm", "apptainer", *every_reason)
    assert plan["train_grpo"] == 2, "without the profile's triggers, images would rerun trainings"


def test_a_missing_image_is_reported_once_and_before_any_job(world, stand_in):
    world.configure(shrink)
    output = world.fail("--sdm", "apptainer", env=stand_in.env)
    assert output.count("envs/training.sif: no such image") == 1
    assert stand_in.calls() == [] and not (world.folder / "results/tasks").exists()


@pytest.mark.nightly
def test_images_are_built_by_a_target_and_stay_built(world, stand_in):
    world.run("images", env=stand_in.env)
    built = [call for call in stand_in.calls() if call["arguments"][0] == "build"]
    assert {call["arguments"][-1] for call in built} == {"envs/training.def", "envs/figures.def"}
    assert {call["name"] for call in built} == {"singularity"}, "the name by which spython calls it"
    for path in images.PATHS.values():
        assert "image of" in (world.folder / path).read_text()
    assert world.plan("images") == {}
    world.edit(images.LOCKS["figures"], lambda text: text.replace("numpy==", "numpy==9."))
    assert world.plan("images")["image"] == 1


def build(world: World, **env: str) -> subprocess.CompletedProcess:
    return run(
        world.folder, "build_image", env=env, definition="envs/figures.def",
        output="envs/figures.sif",
    )  # fmt: skip


def test_building_without_a_runtime_gives_an_error_with_a_remedy(world, tmp_path):
    (tmp_path / "empty").mkdir()
    done = build(world, PATH=str(tmp_path / "empty"))
    words = ("neither is on PATH", "apptainer build --fakeroot envs/figures.sif envs/figures.def")
    assert_refused(done, *words)


def test_a_build_that_fails_leaves_no_image(world, stand_in):
    stand_in.fails.touch()
    done = build(world, **stand_in.env)
    assert done.returncode == 1 and "envs/figures.def: no image was built" in done.stderr
    assert "no space" in done.stdout, "the output of apptainer is missing"
    assert not list((world.folder / "envs").glob("*sif*"))
