"""Stacks of sentences, the papers' derived data sets, and a synthetic corpus."""
