# Sourced by the other scripts: a virtual environment in the project's root with everything pinned.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ ! -x .venv/bin/python ]; then
    "${PYTHON:-python3}" -m venv .venv
fi
if [ ! -f .venv/installed ] || [ pyproject.toml -nt .venv/installed ] || [ constraints.txt -nt .venv/installed ]; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
    touch .venv/installed
fi
export PATH="$PWD/.venv/bin:$PATH"
