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
from hardgrpo.workflow import startup


def call(**attributes) -> SimpleNamespace:
    """A stand-in for Snakemake's object `workflow`. `attributes` replace default attributes."""
    defaults = {
        "is_main_process": True,
        "local_exec": True,
        "configfiles": ["config.yaml"],
        "basedir": "/clone",
    }
    defaults |= {"deployment_settings": SimpleNamespace(deployment_method=set())}
    defaults |= {"output_settings": SimpleNamespace(dryrun=False)}
    defaults |= {"config_settings": SimpleNamespace(configfiles=[], overwrite_config={})}
    defaults |= {"resource_settings": SimpleNamespace(nodes=None)}
    return SimpleNamespace(**defaults | attributes)


CONTAINERS = SimpleNamespace(deployment_method={DeploymentMethod.APPTAINER})


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("PATH", "PYTHONPATH", warm.SOCKET):  # monkeypatch restores the variables
        monkeypatch.setenv(name, os.environ.get(name, ""))
    return tmp_path


# --- the configuration ---


@pytest.mark.parametrize(
    "text", ["study: mini\nstudy: paper\n", "study: [\n"], ids=["twice", "broken"]
)
def test_a_file_that_snakemake_would_misread_is_refused(text):
    Path("mine.yaml").write_text(text)
    Path("config.yaml").write_text("study: mini\n")
    with pytest.raises(WorkflowError, match="mine.yaml"):
        startup.read_config_files(call(configfiles=["mine.yaml"]))
    startup.read_config_files(call(configfiles=["mine.yaml"], is_main_process=False))


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("false", False), (True, True), (False, False)]
)
def test_update_inputs_may_come_from_the_command_line(value, expected):
    config = project_config.config() | {"update_inputs": value}
    startup.complete(config, call(), {})
    assert config["update_inputs"] is expected


def test_a_dry_run_needs_no_permission_to_write_results(monkeypatch):
    Path("results").mkdir()
    # not by the file's mode, because root ignores permissions
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "results")
    startup.complete(
        project_config.config(), call(output_settings=SimpleNamespace(dryrun=True)), {}
    )
    with pytest.raises(WorkflowError, match="results: cannot be written"):
        startup.complete(project_config.config(), call(), {})


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
    workflow = call(
        config_settings=SimpleNamespace(
            configfiles=[Path(name).absolute() for name in configfiles], overwrite_config=config
        ),
        resource_settings=SimpleNamespace(nodes=nodes),
    )
    if not is_refused:
        return startup.complete(project_config.config(), workflow, {})
    with pytest.raises(WorkflowError, match="my.yaml.*--config study=NAME"):
        startup.complete(project_config.config(), workflow, {})


# --- results of unknown origin ---


# --- the environment of jobs ---


def test_programs_run_with_this_python_and_this_clones_package():
    os.environ.update(PATH="/nowhere", PYTHONPATH="/mine")
    for _ in range(2):  # on a cluster, Snakemake starts another Snakemake for a job
        startup.prepare_environment(call())
    assert os.environ["PATH"].split(os.pathsep)[0] == os.path.dirname(sys.executable)
    assert os.environ["PYTHONPATH"].split(os.pathsep) == ["/clone/src", "/mine"]


def test_on_a_cluster_the_slurm_commands_of_this_clone_come_first_in_path(empty_folder):
    (empty_folder / "sbatch").touch(mode=0o755)
    os.environ["PATH"] = str(empty_folder)
    startup.prepare_environment(call())
    assert os.environ["PATH"].split(os.pathsep) == [
        "/clone/slurm/bin",
        os.path.dirname(sys.executable),
        str(empty_folder),
    ]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, "/shared/socket"),
        ({"local_exec": False}, warm.OFF),  # jobs run on other nodes
        ({"is_main_process": False}, warm.OFF),
        ({"deployment_settings": CONTAINERS}, warm.OFF),  # the server is outside the containers
    ],
    ids=["on this machine", "on other nodes", "in a job", "in containers"],
)
def test_the_server_of_loaded_libraries_is_for_jobs_on_this_machine(
    attributes, expected, monkeypatch
):
    monkeypatch.setenv(warm.SOCKET, "/shared/socket")
    for name in (
        "APPTAINER_BIND",
        "SINGULARITY_BIND",
        "APPTAINERENV_PYTHONPATH",
        "SINGULARITYENV_PYTHONPATH",
    ):
        monkeypatch.setenv(name, "")
    startup.prepare_environment(call(**attributes))
    assert os.environ[warm.SOCKET] == expected


def test_containers_see_the_folders_of_jobs_and_of_the_user(empty_folder, monkeypatch):
    data = empty_folder.parent / f"{empty_folder.name}_data"
    data.mkdir()
    for name in (
        "APPTAINER_BIND",
        "SINGULARITY_BIND",
        "APPTAINERENV_PYTHONPATH",
        "SINGULARITYENV_PYTHONPATH",
    ):
        monkeypatch.setenv(name, "/mine" if name.endswith("BIND") else "")
    config = Configuration.of(project_config.config() | {"data": str(data)})
    bound_folders = startup.folders_to_bind(config)
    startup.prepare_environment(call(deployment_settings=CONTAINERS), bound_folders)
    assert os.environ["APPTAINER_BIND"] == os.environ["SINGULARITY_BIND"] == f"/mine,{data}"
    assert os.environ["APPTAINERENV_PYTHONPATH"] == "/clone/src"


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


# --- plans and jobs ---


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
    config = project_config.config()
    startup.complete(config, call(), cluster)
    assert config["plan"]["gpu"] == kind


@pytest.mark.parametrize(("kind", "fits"), [("h200", True), ("a40", False)])
def test_a_run_must_fit_the_kind_of_gpu_that_the_profile_names(kind, fits):
    """All weights of Qwen3-4B are trained on one GPU."""
    config = project_config.config() | {"study": "paper"}
    study = config["studies"]["paper"]
    study |= {"models": ["qwen3-4b"], "tasks": ["gsm8k"], "weaker_signal": []}
    study["arms"] = [{"policy": "random", "recipe": "as_written_full"}]
    config["models"]["qwen3-4b"]["gpus"]["full"] |= {"count": 1}
    if fits:
        startup.complete(config, call(), {"gpu_name": kind})
    else:
        with pytest.raises(
            WorkflowError,
            match=r"models.qwen3-4b.gpus.full: recipe as_written_full on gsm8k needs about \d+ GiB .* \(a40\) has 44; .*raise count",
        ):
            startup.complete(config, call(), {"gpu_name": kind})
