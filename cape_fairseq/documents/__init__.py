"""Documents, sentence by sentence: the search, and its cache of earlier sentences."""
