# What all recipes share; source it first. It installs what is missing and calls cape-fairseq.
# shellcheck shell=bash
set -euo pipefail

# recipe TOOL OPTIONS...: cape-fairseq in this repository's environment.
recipe() {
    local root
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    local python=$root/.venv/bin/python
    if [ -x "$python" ]; then
        bash "$root/scripts/install.sh" "$python" > /dev/null
    else
        bash "$root/scripts/install.sh"
    fi
    exec "$root/.venv/bin/cape-fairseq" "$@"
}
