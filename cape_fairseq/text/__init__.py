"""Parallel text: reading and checking it, Moses tokenization, and scoring translations. No fairseq."""
