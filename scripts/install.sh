#!/usr/bin/env bash
# Make .venv with everything that training, the recipes and the tests need.
#
#   scripts/install.sh [PYTHON]     PYTHON: an interpreter of 3.10 to 3.13 (default: python3)
#
# Safe to run again: a finished environment is recognized and left as it is; an unfinished one is completed.
set -euo pipefail
case ${1:-} in */*) set -- "$(cd "$(dirname "$1")" 2>/dev/null && pwd)/$(basename "$1")" ;; esac  # valid after cd
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${1:-python3}
venv=.venv
stamp=$venv/installed

say() { printf 'install: %s\n' "$*"; }
die() { printf 'install: %s\n' "$*" >&2; exit 1; }

case " ${1:-} " in *" -h "*|*" --help "*) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0;; esac
lock=.install.lock
if command -v flock >/dev/null 2>&1 && { [ -w $lock ] || { [ ! -e $lock ] && [ -w . ]; }; }; then
    exec 9>$lock  # two recipes may start at once
    flock -n 9 || { say "another installation runs here; this one waits for it" >&2; flock 9; }
fi
command -v "$python" >/dev/null 2>&1 \
    || die "there is no '$python' on the PATH; give an interpreter: scripts/install.sh /path/to/python3.11"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') \
    || die "'$python' does not run; give another interpreter: scripts/install.sh /path/to/python3.11"
case $version in
    3.1[0-3]) ;;
    *) die "'$python' is Python $version, and 3.10 to 3.13 are supported; give another: scripts/install.sh /path/to/python3.11" ;;
esac
requirements=requirements.txt
[ "$version" = 3.10 ] && requirements=requirements-py310.txt

fingerprint() { cat "$requirements" setup.py scripts/install.sh | cksum; echo "$version"; }
installed() {  # quick: looks for the packages without importing them; -I leaves out the current folder
    "$venv/bin/python" -I -c 'import sys; from importlib.util import find_spec; sys.exit(not (find_spec("fairseq") and find_spec("cape_fairseq")))' 2>/dev/null
}
elsewhere() {  # a copied or moved environment runs the code of the folder that it was made in
    local used
    used=$(head -2 "$venv/bin/pip" 2>/dev/null | grep -o '/[^"]*/bin/python' | head -1) || return 1
    ! [ "$(dirname "$used")" -ef "$venv/bin" ]
}
anew=
if elsewhere; then
    say "$venv was made in another folder; it will be made anew"
    anew=yes
elif [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ] && installed; then
    say "$venv is complete (Python $version); nothing to do"
    exit 0
fi
python=$("$python" -c 'import sys; print(sys._base_executable)')  # the one given may be that of the environment

pinned() { sed -n "s/^\($1==[^ ;]*\).*/\1/p" "$requirements"; }  # name -> name==version
if [ "$version $(uname -sm)" != "3.12 Linux x86_64" ]; then  # there is a wheel for this one only
    command -v "${CXX:-c++}" >/dev/null 2>&1 \
        || die "fairseq is compiled here and there is no C++ compiler; install one (Debian: apt-get install g++), or use Python 3.12"
    "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
        || die "fairseq is compiled here and Python's headers are missing; install them (Debian: apt-get install python$version-dev), or use Python 3.12"
fi

say "environment $venv with $("$python" --version)"
if [ -n "$anew" ] || ! "$venv/bin/python" -c "import pip, sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
    rm -rf "$venv"
    "$python" -m venv "$venv" || { rm -rf "$venv"; die "'$python -m venv' failed; install its venv module (Debian: apt-get install python$version-venv)"; }
fi
rm -f "$stamp"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
if [ "$version" = 3.10 ]; then pip install --quiet 'pip<24.1'; fi  # newer ones refuse omegaconf 2.0's metadata

torch() { say "$(pinned torch)"; pip install --quiet "$(pinned torch)"; }
# fairseq-fixed compiles against torch; 0.12.2 must not see it, because its archive lacks the sources that need it.
[ "$version" = 3.10 ] || torch
say "build tools"
pip install --quiet $(for tool in setuptools wheel cython numpy ninja; do pinned "$tool"; done)
fairseq=$(pinned 'fairseq[a-z-]*')
say "$fairseq (compiled here unless there is a wheel: about 2 minutes)"
# Without isolation, because an isolated build fetches a second, much larger torch.
pip install --quiet --no-build-isolation --no-deps "$fairseq"
[ "$version" != 3.10 ] || torch
say "the other requirements"
grep -v '^fairseq' "$requirements" | pip install --quiet --no-warn-conflicts -r /dev/stdin
say "cape_fairseq, editable"
pip install --quiet --no-build-isolation --no-deps --editable .
"$venv/bin/python" -c 'import fairseq, cape_fairseq' >/dev/null 2>&1 \
    || die "the installed packages do not import; remove $venv and run this again"
fingerprint > "$stamp"
say "done: source $venv/bin/activate, or call $venv/bin/fairseq-train and the like"
