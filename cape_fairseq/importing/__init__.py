"""Models of Hugging Face and of fairseq, brought into a folder that this package reads."""
