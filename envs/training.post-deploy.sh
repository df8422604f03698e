#!/bin/sh
# Made by scripts/maintenance/write_conda.py from the locks; a test compares. Snakemake runs it in the environment of training.yaml, in the
# clone's folder, and makes the environment again where this text is another. SHA-256 of the locks:
# f9d09edccd96be786472803b031a75cb0d72f868b06bbf0cd21ab1894de445a3 envs/pip.lock
# 34e9d8133860c8a4a5796b481d5cdbfdb45f10f6e8342636a18264dbcc075aa5 envs/build.lock
# b49e61bec7e51b0ed66a836c074710c0aab37997d3d4e4535c1e6b9b94f92f07 envs/gpu.lock
set -eu
for lock in envs/pip.lock envs/build.lock envs/gpu.lock; do
    python -I src/hardgrpo/runtime/pip_settings.py install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps --no-build-isolation -r "$lock"
done
