# Read the configuration, and create the objects whose methods compute inputs, parameters and
# resources of the rules.

import gc
import os
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.20")
# Exempt all objects loaded so far from garbage collection, which otherwise takes an eighth of the
# time of a large plan.
gc.freeze()
sys.path.insert(0, str(Path(workflow.basedir) / "src"))

from hardgrpo.analysis import summary_tables
from hardgrpo.planning import durations
from hardgrpo.report import registry, tables
from hardgrpo.runtime import images, states, user_settings
from hardgrpo.selection import trainer_rows
from hardgrpo.study import paths, pools
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow import startup
from hardgrpo.workflow.arguments import Arguments
from hardgrpo.workflow.drawing import PUBLISHED, Drawing
from hardgrpo.workflow.input_files import InputFiles
from hardgrpo.workflow.names import Names, any_of
from hardgrpo.workflow.resources import Machine, read_cluster

startup.read_config_files(workflow)


configfile: "config.yaml"


cluster = read_cluster(workflow.resource_settings.default_resources or {})
project = startup.complete(config, workflow, cluster)
obstacle = startup.results_obstacle(workflow)
user_settings.ignore()
startup.prepare_environment(workflow, startup.folders_to_bind(project))

studies = resolve_studies(project)
names = Names(project, studies)
startup.report_ignored_stop(names, workflow)
inputs = InputFiles(project, studies, names, workflow)
arguments = Arguments(project, studies, names, workflow)
machine = Machine(project, names, cluster, workflow.resource_settings.overwrite_resources)
drawing = Drawing(project, studies, startup.has_tex(workflow))
startup.write_plan_facts(config, machine.setting(workflow))

# Container images for `--sdm apptainer`; otherwise jobs run in the environments of the Makefile. A
# rule that names no image runs in the image for training.
IMAGE = images.PATHS


container: IMAGE["training"]


UPDATE_INPUTS = "--update-inputs" if project.update_inputs else ""
