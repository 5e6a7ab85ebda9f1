#!/usr/bin/env bash
# Install if needed, lint, and run all tests. Arguments go to pytest: scripts/test.sh -k attention
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -x .venv/bin/python ]; then bash scripts/install.sh .venv/bin/python; else bash scripts/install.sh; fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}  # the models are so small that threads only wait for each other
.venv/bin/ruff check .
.venv/bin/ruff format --check .
exec .venv/bin/python -m pytest --numprocesses 2 --dist loadfile --durations=8 "$@"
