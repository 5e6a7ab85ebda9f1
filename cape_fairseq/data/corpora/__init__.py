"""The papers' corpora: from archives to binarized data, in Python. No fairseq, except its binarizer
as a command."""
