"""Writes a report to standard output, or to a file that appears complete or not at all, as private as its audit."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import or_
from pathlib import Path

from attribeam.report.messages import write_output
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.written_files import new_file

STANDARD_OUTPUT = "-"


def check_output(output: str) -> None:
    """Refuse, before any work, an output that cannot be written.

    Raises:
        UsageError: if the output is no file in an existing directory; it may be there or not, but no link or device.
    """
    if output == STANDARD_OUTPUT:
        return
    path = Path(output)
    try:
        is_file = path.parent.is_dir() and stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"--output {output!r} cannot be written: {error.strerror}") from error
    if not is_file:
        raise UsageError(
            f"--output should be a file in an existing directory, and no link, was: {output!r}; {STANDARD_OUTPUT} is "
            "standard output"
        )


def write_lines(output: str, parts: Iterable[str]) -> None:
    """Write the parts one after another as UTF-8, line ends as they come.

    Raises:
        RunError: if the file cannot be written; an existing file stays as it was.
    """
    if output == STANDARD_OUTPUT:
        write_output(parts)
        return
    try:
        with new_file(Path(output)) as file:
            file.writelines(part.encode() for part in parts)
    except OSError as error:
        raise RunError(f"{output!r} cannot be written: {error}") from error


@contextmanager
def as_private_as(folders: Iterable[str | Path]) -> Iterator[None]:
    """Make what the block writes no more readable than each of the folders is; one of an object store says nothing."""
    own = os.umask(0o077)
    denied = [~Path(folder).stat().st_mode & 0o077 for folder in folders if Path(folder).is_dir()]
    os.umask(reduce(or_, denied, own))
    try:
        yield
    finally:
        os.umask(own)
