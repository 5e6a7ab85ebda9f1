"""Attention and Transformer layers shared by every position encoding."""
