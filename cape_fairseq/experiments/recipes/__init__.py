"""The plans of the recipes that run on one's own text, or on the quick start's."""
