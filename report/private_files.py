"""Who may read what is written: the umask of ``--umask``, for a while and for all processes that start meanwhile."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_OCTAL = re.compile(r"0?[0-7]{3}")
_OWNER = 0o700


def umask_text(text: str) -> str:
    """Parse the argument of ``--umask``: what others than the owner may not do, as in the shell.

    Raises:
        argparse.ArgumentTypeError: if it is no such number, or would shut out the owner.
    """
    if not _OCTAL.fullmatch(text) or int(text, 8) & _OWNER:
        raise ArgumentTypeError(
            f"should be three octal digits that leave the owner all rights, such as 077, was: {text!r}"
        )
    return text


@contextmanager
def made_with(umask: str | None) -> Iterator[None]:
    """Make what the block and the processes started in it write with this umask; None changes nothing."""
    if umask is None:
        yield
        return
    before = os.umask(int(umask, 8))
    try:
        yield
    finally:
        os.umask(before)


def recorded_umask(options: Mapping[str, object]) -> str | None:
    """The umask of an audit, from the options in its manifest; None if it had none."""
    run = options.get("run")
    umask = run.get("umask") if isinstance(run, Mapping) else None
    return umask if isinstance(umask, str) and _OCTAL.fullmatch(umask) else None


def take_rights(paths: Iterable[Path], umask: str) -> None:
    """Take from existing files and folders the rights that the umask denies; one that is gone meanwhile is no error."""
    for path in paths:
        with suppress(FileNotFoundError):
            mode = path.stat().st_mode & 0o7777
            if mode & int(umask, 8):
                path.chmod(mode & ~int(umask, 8))
