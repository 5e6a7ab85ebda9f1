"""Training text: stacks of sentences and rows, derived and synthetic data, cleaning, quotes,
language codes, and the files of a model."""
