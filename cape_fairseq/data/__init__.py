"""Text in, text out: reading, tokenizing, segmenting, stacking, corpora. No fairseq."""
