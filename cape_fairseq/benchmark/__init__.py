"""How fast the encodings are, against each other and against fairseq's own Transformer."""
