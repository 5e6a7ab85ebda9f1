#!/usr/bin/env bash
# Make .venv with everything that training, the recipes and the tests need.
#
#   scripts/install.sh [PYTHON]     an interpreter of 3.11 to 3.13 (default: python3.12, for which fairseq is not
#                                   compiled, or else python3)
#
# A finished environment is left as it is, an unfinished one is made again.
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "${BASH_SOURCE[0]}")/.."
stamp=.venv/installed
kept=  # the interpreter of an environment that is brought up to date
if [ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(tail -1 "$stamp")" = "$PWD" ]; then kept=.venv/bin/python; fi
if [ -n "$kept" ]; then default=$kept
elif python3.12 -c 'import ensurepip' 2> /dev/null; then default=python3.12
else default=python3; fi
python=${1:-$default}

die() { echo "install: $*" >&2; exit 1; }
fingerprint() { cat requirements.txt setup.py scripts/install.sh | cksum; pwd; }
pip() { .venv/bin/python -m pip --disable-pip-version-check --quiet "$@"; }
pinned() { sed -n "s/^\($1==[^ ;]*\).*/\1/p" requirements.txt; }

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ]; then exit 0; fi
find_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
version=$(find_version "$python") || die "'$python' does not run; give an interpreter: scripts/install.sh /path/to/python3.11"
case $version in
    3.1[1-3]) ;;
    *) die "'$python' is Python $version; give one of 3.11 to 3.13: scripts/install.sh /path/to/python3.11" ;;
esac
if [ "$version" != 3.12 ]; then  # fairseq-fixed has a wheel for 3.12 alone
    command -v c++ >/dev/null || die "fairseq is compiled and there is no C++ compiler (Debian: apt-get install g++)"
fi

[ -n "$kept" ] && [ "$(find_version "$kept")" = "$version" ] || rm -rf .venv
rm -f "$stamp"
[ -x .venv/bin/python ] || "$python" -m venv .venv
echo "install: PyTorch"
pip install "$(pinned torch)"
echo "install: fairseq (compiled here unless there is a wheel: about 2 minutes)"
pip install "$(pinned setuptools)" "$(pinned wheel)" "$(pinned cython)" "$(pinned numpy)" "$(pinned ninja)"
# An isolated build would fetch a second, much larger PyTorch.
pip install --no-build-isolation --no-deps "$(pinned fairseq-fixed)"
echo "install: the other requirements"
grep -v '^fairseq' requirements.txt | pip install --no-warn-conflicts -r /dev/stdin
pip install --no-build-isolation --no-deps --editable .
.venv/bin/python -c 'import fairseq, cape_fairseq' >/dev/null 2>&1 || die "the packages do not import; remove .venv and run this again"
fingerprint > "$stamp"
echo "install: done; source .venv/bin/activate"
