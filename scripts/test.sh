#!/usr/bin/env bash
# Install if needed, lint, and run the tests. Arguments go to pytest:
#
#   scripts/test.sh [-k attention] [-m gpu] ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C.UTF-8
export OMP_NUM_THREADS=1  # the models are so small that threads only wait for each other

bash scripts/install.sh
.venv/bin/ruff check .
.venv/bin/ruff format --check .
exec .venv/bin/python -m pytest --numprocesses 2 --dist worksteal --durations=5 "$@"
