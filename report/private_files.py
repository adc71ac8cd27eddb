"""Who may read what is written: the umask of ``--umask``, for a while and for all processes that start meanwhile."""

from __future__ import annotations

import errno
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import or_
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


def recorded_umask(*audits: Mapping[str, object]) -> str | None:
    """The umask that denies what this process' own denies, or that of one of the audits, by the options in its
    manifest; None if none had one.
    """
    runs = [options.get("run") for options in audits]
    texts = [run.get("umask") for run in runs if isinstance(run, Mapping)]
    return _together(int(one, 8) for one in texts if isinstance(one, str) and _OCTAL.fullmatch(one))


def umask_of_folders(folders: Iterable[Path]) -> str | None:
    """The umask that denies what this process' own denies, or one of the folders to others than its owner; None where
    there are no folders.
    """
    return _together(~folder.stat().st_mode & 0o077 for folder in folders)


def _together(umasks: Iterable[int]) -> str | None:
    found = [*umasks]
    own = os.umask(0o077)
    os.umask(own)
    return f"{reduce(or_, found, own & 0o077):03o}" if found else None


def take_rights(folder: Path, names: re.Pattern[str], umask: str) -> None:
    """Take the rights that the umask denies from a folder and what has these names in it.

    Links are passed over, as is what is gone meanwhile.

    Raises:
        OSError: if rights cannot be taken, or the folder is a link.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in filter(names.fullmatch, os.listdir(at)):  # noqa: PTH208
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOENT):
                    raise
                continue
            try:
                _deny(descriptor, int(umask, 8))
            finally:
                os.close(descriptor)
        _deny(at, int(umask, 8))
    finally:
        os.close(at)


def _deny(descriptor: int, umask: int) -> None:
    mode = os.fstat(descriptor).st_mode & 0o7777
    if mode & umask:
        os.fchmod(descriptor, mode & ~umask)
