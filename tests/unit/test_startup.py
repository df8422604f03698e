"""Checks and preparations of the workflow before its first job."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.exceptions import WorkflowError
from snakemake_interface_executor_plugins.settings import DeploymentMethod

import project_config
from hardgrpo.runtime import user_settings, warm
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import ModelFolder
from hardgrpo.workflow import startup

IN_CONTAINERS = ("APPTAINER_BIND", "SINGULARITY_BIND", "APPTAINERENV_PYTHONPATH", "SINGULARITYENV_PYTHONPATH")  # fmt: skip


def call(**attributes) -> SimpleNamespace:
    """A stand-in for Snakemake's object `workflow`. `attributes` replace default attributes."""
    defaults = {
        "is_main_process": True, "local_exec": True, "configfiles": ["config.yaml"], "basedir": "/clone",
        "deployment_settings": SimpleNamespace(deployment_method=set()),
        "output_settings": SimpleNamespace(dryrun=False),
        "config_settings": SimpleNamespace(configfiles=[], overwrite_config={}),
        "resource_settings": SimpleNamespace(nodes=None),
    }  # fmt: skip
    return SimpleNamespace(**defaults | attributes)


CONTAINERS = {
    "deployment_settings": SimpleNamespace(deployment_method={DeploymentMethod.APPTAINER})
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("PATH", "PYTHONPATH", warm.SOCKET, *IN_CONTAINERS):  # restored after the test
        monkeypatch.setenv(name, os.environ.get(name, ""))
    return tmp_path


def complete(workflow, cluster: dict | None = None, **changes) -> Configuration:
    return startup.complete(project_config.config() | changes, workflow, cluster or {})


def test_a_dry_run_needs_no_permission_to_write_results(monkeypatch):
    Path("results").mkdir()
    # not by the file's mode, because root ignores permissions
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "results")
    complete(call(output_settings=SimpleNamespace(dryrun=True)))
    with pytest.raises(WorkflowError, match="results: cannot be written"):
        complete(call())


@pytest.mark.parametrize(
    ("configfiles", "config", "nodes", "is_refused"),
    [
        (["my.yaml"], {}, 100, True),
        (["my.yaml", "other.yaml"], {"draw": "reference"}, 100, True),
        (["my.yaml"], {"study": "mini"}, 100, False),  # a file or --config names the study
        (["my.yaml"], {}, None, False),  # not on a cluster
        ([], {}, 100, False),  # the profile without its line `configfile`
    ],
)
def test_on_a_cluster_the_users_files_must_name_the_study(configfiles, config, nodes, is_refused):
    files = [Path(name).absolute() for name in configfiles]
    workflow = call(
        config_settings=SimpleNamespace(configfiles=files, overwrite_config=config),
        resource_settings=SimpleNamespace(nodes=nodes),
    )
    try:
        complete(workflow)
    except WorkflowError as error:
        assert is_refused and "my.yaml" in str(error) and "--config study=NAME" in str(error)
    else:
        assert not is_refused


@pytest.mark.parametrize(
    ("cluster", "kind"),
    [
        ({}, "h100"),
        ({"gpu_name": "nvidia_a100-sxm4-80gb"}, "a100"),
        ({"gpu_constraint": "h200"}, "h200"),
        ({"gpu_partition": "l40s", "gpu_constraint": "ib"}, "l40s"),
    ],
)
def test_the_kind_of_gpu_comes_from_the_profile_or_from_the_plan(cluster, kind):
    assert complete(call(), cluster).plan.gpu == kind


def test_a_run_must_fit_the_kind_of_gpu_that_the_profile_names():
    """All weights of Qwen3-4B are trained on one GPU."""
    config = project_config.config() | {"study": "paper"}
    arms = [{"policy": "random", "recipe": "as_written_full"}]
    small_study = {"models": ["qwen3-4b"], "tasks": ["gsm8k"], "weaker_signal": [], "arms": arms}
    config["studies"]["paper"] |= small_study
    config["models"]["qwen3-4b"]["gpus"]["full"]["count"] = 1
    complete(call(), {"gpu_name": "h200"}, **config)
    message = r"models.qwen3-4b.gpus.full: .*\(a40\) has 44; .*count"
    with pytest.raises(WorkflowError, match=message):
        complete(call(), {"gpu_name": "a40"}, **config)


# --- the environment of jobs


def test_jobs_run_with_this_python_this_clones_package_and_its_slurm_commands(empty_folder):
    os.environ.update(PATH="/nowhere", PYTHONPATH="/mine")
    for _ in range(2):  # on a cluster, Snakemake starts another Snakemake for a job
        startup.prepare_environment(call())
    python = os.path.dirname(sys.executable)
    assert os.environ["PATH"].split(os.pathsep)[0] == python
    assert os.environ["PYTHONPATH"].split(os.pathsep) == ["/clone/src", "/mine"]
    (empty_folder / "sbatch").touch(mode=0o755)
    os.environ["PATH"] = str(empty_folder)
    startup.prepare_environment(call())
    assert os.environ["PATH"].split(os.pathsep) == ["/clone/slurm/bin", python, str(empty_folder)]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, "/shared/socket"),
        ({"local_exec": False}, warm.OFF),  # jobs run on other nodes
        ({"is_main_process": False}, warm.OFF),  # inside a job
        (CONTAINERS, warm.OFF),  # the server is outside the containers
    ],
)
def test_the_server_of_loaded_libraries_is_for_jobs_on_this_machine(attributes, expected):
    os.environ[warm.SOCKET] = "/shared/socket"
    startup.prepare_environment(call(**attributes))
    assert os.environ[warm.SOCKET] == expected


def test_containers_see_the_folders_of_jobs_and_of_the_user(tmp_path, monkeypatch):
    """A link out of the clone is bound with its target."""
    models = tmp_path / "scratch/models"
    models.mkdir(parents=True)
    (tmp_path / "clone/inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "clone")
    Path("results").symlink_to(tmp_path / "scratch")
    source = ModelFolder.of({"kind": "folder", "path": str(models)})
    config = SimpleNamespace(data="inside", models={"mine": SimpleNamespace(source=source)})
    folders = startup.folders_to_bind(config)
    assert folders == [str(tmp_path / "scratch"), str(models)]
    os.environ.update(APPTAINER_BIND="/mine", SINGULARITY_BIND="/mine")
    startup.prepare_environment(call(**CONTAINERS), folders)
    bound = ",".join(["/mine", *folders])
    assert [os.environ[name] for name in IN_CONTAINERS] == [bound, bound, *["/clone/src"] * 2]


def test_jobs_do_not_see_the_modules_of_another_python(empty_folder, monkeypatch):
    """An environment module may add folders to PYTHONPATH and set variables of Python."""
    own_folder = Path(user_settings.ROOT, "scripts/plan/plugins")
    monkeypatch.setenv("PYTHONPATH", f"{empty_folder}:{own_folder}")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("MPLBACKEND", "module://nowhere")
    monkeypatch.setenv(user_settings.KEEP_PYTHONPATH, "")
    user_settings.ignore()
    assert os.environ["PYTHONPATH"] == str(own_folder)
    assert os.environ["MPLBACKEND"] == "agg" and "PYTHONWARNINGS" not in os.environ
