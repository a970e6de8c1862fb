#!/usr/bin/env bash
# Sets everything up and checks everything but what needs a GPU. Arguments go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
ruff check .
ruff format --check .
mypy
if [ "$#" -eq 0 ]; then set -- -m "not gpu"; fi
HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python -m pytest --numprocesses auto --dist loadfile "$@"
