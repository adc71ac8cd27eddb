"""Writes a report to standard output, or to a file that appears complete or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from attribeam.report.messages import write_output
from attribeam.schemas.errors import RunError, UsageError

STANDARD_OUTPUT = "-"


def check_output(output: str) -> None:
    """Refuse, before any work, an output that cannot be written.

    Raises:
        UsageError: if the output is no file in an existing directory.
    """
    path = Path(output)
    if output != STANDARD_OUTPUT and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--output should be a file in an existing directory, was: {output!r}")


def write_lines(output: str, parts: Iterable[str]) -> None:
    """Write the parts one after another as UTF-8, line ends as they come.

    Raises:
        RunError: if the file cannot be written; an existing file stays as it was.
    """
    if output == STANDARD_OUTPUT:
        write_output(parts)
        return
    path = Path(output)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            file.writelines(parts)
        partial.replace(path)
    except OSError as error:
        raise RunError(f"{output!r} cannot be written: {error}") from error
    finally:
        with suppress(OSError):  # where it could not be made, it may not be removable either
            partial.unlink()
