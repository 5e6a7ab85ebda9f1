"""Attention, layers and their initialization."""
