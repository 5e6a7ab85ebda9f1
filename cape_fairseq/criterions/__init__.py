"""Losses that fairseq lacks. ``--user-dir`` imports models and tasks only; models import this."""
