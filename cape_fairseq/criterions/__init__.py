"""Losses that fairseq registers; the mathematics in ``chunked`` needs torch alone."""
