"""Checkpoints, segmentations, translation of raw text and averages of checkpoints."""
