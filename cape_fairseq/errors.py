"""The one error for users: its message is one sentence that says what, where and what to do."""


class UserError(Exception):
    """Something is wrong with a file, a text or a checkpoint that the user gave."""


class UsageError(UserError):
    """Something is wrong with how a command was called."""


def first_line(error: BaseException) -> str:
    """What an error says, in a line; its kind if it says nothing. A heading that ends with a colon
    is followed by the first line below it."""
    first, *others = str(error).splitlines() or [type(error).__name__]
    return f"{first} {others[0].strip()}" if first.endswith(":") and others else first
