"""All that opens a checkpoint file; no fairseq."""

LAST = "checkpoint_last.pt"  # fairseq's name of the one where a training goes on
TRAINED = "checkpoints/trained.json"  # in the folder of a training of the recipes, at its end
