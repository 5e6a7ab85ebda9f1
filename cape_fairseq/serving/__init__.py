"""Raw text in, raw text out: with fairseq, or with an exported model and without fairseq."""
