"""Container images without a container runtime: the definitions, the rules that name them, and the calls that Snakemake makes."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from conftest import ROOT, SCRIPTS, World, shrink
from hardgrpo import images

