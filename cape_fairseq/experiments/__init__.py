"""Experiments: what is trained, tested and compared, and how it runs.

``table`` says what an experiment is; ``papers`` has the papers' own; ``plan`` makes jobs of one,
``workflow.smk`` has Snakemake run them, ``launch`` runs one job and ``training`` one training.
"""
