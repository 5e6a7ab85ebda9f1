"""The one error for users: its message is one sentence that says what, where and what to do."""


class UserError(Exception):
    """Something is wrong with a file, a text or a checkpoint that the user gave."""


class UsageError(UserError):
    """Something is wrong with how a command was called."""
