"""All that opens a checkpoint file; no fairseq."""
