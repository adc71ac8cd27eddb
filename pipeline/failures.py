"""The two ways in which a command ends early, both with one paragraph for the user."""

import errno
import os

RESUME_HINT = "Finished chunks are kept; start the same command again to go on."


class UsageError(Exception):
    """What was asked for cannot be done as asked: exit code 2, and nothing was written."""


class AuditError(Exception):
    """The run failed or does not reconcile: exit code 1; what is committed stays, the same command goes on."""


def is_disk_full(error: BaseException) -> bool:
    """True where a full disk or quota is the cause, even if Beam has turned the cause into text."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT))
