"""The two ways in which a command of this room ends early, both with one paragraph for the user."""


class ReportUsageError(Exception):
    """What was asked for is not there or cannot be done as asked: exit code 2."""


class ReportError(Exception):
    """Something that should be readable or writable is not: exit code 1."""
