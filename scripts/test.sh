#!/usr/bin/env bash
# Install if needed, lint, and run the tests (those of -m matrix, smoke and slurm only when asked
# for). Arguments go to pytest.
#
#   scripts/test.sh [-k attention ...]
#   scripts/test.sh --pythons "3.10 3.12 3.13" [...]
#
# The second form runs the tests on each Python, each in a copy of this tree under build/, where its
# environment stays for the next time. A Python is python3.12 on the PATH, or pyenv's newest 3.12.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}  # the models are so small that threads only wait for each other
unset PYTHONDONTWRITEBYTECODE  # hundreds of processes would each compile the package

interpreter() {  # 3.12 -> a path
    local found
    found=$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python 2>/dev/null | sort -V | tail -1)
    [ -n "$found" ] || found=$(command -v "python$1" 2>/dev/null) || return 1
    echo "$found"
}

copy() {  # the files of this tree -> FOLDER, whose environment stays
    mkdir -p "$1"
    find "$1" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf {} +
    git ls-files --cached --others --exclude-standard -z | { xargs -0 ls -d 2>/dev/null || true; } | tar cf - -T - | tar xf - -C "$1"
}

if [ "${1:-}" = --pythons ]; then
    versions=${2:?"give Pythons: --pythons '3.10 3.12'"}
    shift 2
    failed=
    for version in $versions; do
        python=$(interpreter "$version") || {
            echo "test: there is no Python $version on the PATH or in pyenv; install it, or leave it out" >&2
            exit 1
        }
        folder=build/python-$version
        echo "test: Python $version in $folder"
        copy "$folder"
        (cd "$folder" && bash scripts/install.sh "$python" && bash scripts/test.sh "$@") || failed="$failed $version"
    done
    [ -z "$failed" ] || { echo "test: failed on Python$failed" >&2; exit 1; }
    exit 0
fi

if [ -x .venv/bin/python ]; then bash scripts/install.sh .venv/bin/python; else bash scripts/install.sh; fi
.venv/bin/ruff check .
.venv/bin/ruff format --check .
exec .venv/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations=8 "$@"
