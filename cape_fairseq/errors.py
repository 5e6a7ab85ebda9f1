"""The error of what a user gave."""


class UserError(ValueError):
    """An error in what the user gave; its message is one sentence for the command line."""
