"""Training text: stacks of sentences and rows, derived and synthetic data, cleaning, quotes and
language codes."""
