"""Recipes run by Snakemake, which Python 3.10 has not."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("snakemake") else ["test_*.py"]
