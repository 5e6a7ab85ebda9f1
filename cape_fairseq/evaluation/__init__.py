"""Measures of how translation depends on positions and length."""
