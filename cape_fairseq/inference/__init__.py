"""Trained models in use: raw text, averaging, export."""
