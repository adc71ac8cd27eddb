"""What to tell the user of a run that failed."""

import errno
import os

RESUME_HINT = "Finished chunks are kept; start the same command again to go on."


def is_disk_full(error: BaseException) -> bool:
    """True where a full disk or quota is the cause, even if Beam has turned the cause into text."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT))
