"""All that opens a checkpoint file; no fairseq."""

LAST = "checkpoint_last.pt"  # fairseq's name of the one where a training goes on
