#!/bin/sh
# Made by scripts/maintenance/write_conda.py from the locks; a test compares. Snakemake runs it in the environment of figures.yaml, in the
# clone's folder, and makes the environment again where this text is another. SHA-256 of the locks:
# f9d09edccd96be786472803b031a75cb0d72f868b06bbf0cd21ab1894de445a3 envs/pip.lock
# 34e9d8133860c8a4a5796b481d5cdbfdb45f10f6e8342636a18264dbcc075aa5 envs/build.lock
# 57fa48365b39ef68ad972cf958b434d0160a9024ba23229b36307061d8351a67 envs/figures.lock
set -eu
for lock in envs/pip.lock envs/build.lock envs/figures.lock; do
    python -I src/hardgrpo/runtime/pip_settings.py install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps --no-build-isolation -r "$lock"
done
