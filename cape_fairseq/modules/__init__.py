"""Attention and its plan, kernels, windows and masks, layers, dropout and ADMIN."""
