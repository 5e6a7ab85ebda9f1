"""Learned relative positions (Shaw et al. 2018): the definition, blocks of scores, attention."""
