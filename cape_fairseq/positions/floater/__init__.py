"""FLOATER (Liu et al. 2020): the dynamics, their solution, and what a stack takes from it."""
