"""Small files: those that a user may name are read within a limit, and checked field by field before they are used.

Those that others read are written so that each appears whole, or not at all, and never anywhere else than asked for.
Manifests, reports and converted models name a file by its digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import reprlib
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from attribeam.schemas.errors import DataError, RunError, UsageError

LARGEST_FILE = 2**24
"""Bytes of the largest JSON file that is read, unless its reader says otherwise."""

Number = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=200)]
Line = Annotated[str, Field(max_length=1000)]

STRICT = ConfigDict(strict=True, extra="forbid")
"""No other fields than those declared, and none of another type."""

ALTERNATIVE = "<"
"""How the tag of an alternative begins, which no error names: whoever reads it sees the file."""

_LONGEST_PART, _LONGEST_EXPECTATION = 60, 300
_T = TypeVar("_T")


class Form(BaseModel):
    """The fields of a JSON object, each with its type and range."""

    model_config = ConfigDict(**STRICT, frozen=True)


def read_regular(path: Path, *, limit: int = LARGEST_FILE) -> bytes:
    """What a regular file holds, which a pipe or a device is not; reading never waits.

    Raises ``DataError`` if it cannot be read, is no regular file or has more than ``limit`` bytes.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise DataError(f"{path} should be a regular file, is a pipe or a device; replace it")
            if status.st_size > limit:
                raise DataError(f"{path} should have at most {limit:,} bytes, has {status.st_size:,}; replace it")
            return file.read(limit)
    except DataError:
        raise
    except (OSError, ValueError) as error:  # a null character in the path is a ValueError
        raise DataError(f"{path} should be a readable file: {getattr(error, 'strerror', error)}") from error


def check_regular(paths: Iterable[Path]) -> None:
    """Check that there are only regular files and folders among the paths; those that lead nowhere count as missing.

    Raises ``DataError`` if there is a pipe or a device, which a library would wait for, or read without end.
    """
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(f"{path} should be a regular file, is a pipe or a device; remove it")


def read_object(path: Path, *, limit: int = LARGEST_FILE) -> dict[str, Any]:
    """The JSON object that a file holds; what is in it is not checked.

    Raises ``DataError`` if the file cannot be read, or holds no JSON object.
    """
    content = read_regular(path, limit=limit)
    try:
        value = from_json(content)
    except ValueError as error:
        raise DataError(f"{path} should be a readable JSON file: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} should hold a JSON object, holds: {reprlib.repr(value)}")
    return value


def read_form(path: Path, form: type[_T]) -> _T:
    """What a JSON file holds, checked.

    Raises ``DataError`` if it cannot be read, or does not hold what ``form`` says; the message names file and field,
    what was expected and what was found.
    """
    content = read_regular(path)
    try:
        return TypeAdapter(form).validate_json(content)
    except ValidationError as error:
        raise DataError(f"{path}: {complaint(error)}") from error


def complaint(error: ValidationError) -> str:
    """The first fault in one line, such as "thresholds.answer_risk should be less than or equal to 1, was: 5"."""
    first = error.errors(include_url=False)[0]
    keys = (str(part) for part in first["loc"] if not str(part).startswith(ALTERNATIVE))
    field = ".".join(ascii(key[:_LONGEST_PART])[1:-1] for key in keys) or "the file"
    said = first["msg"]
    if first["type"] == "json_invalid":
        return f"{field} should be JSON, is not: {said.partition(': ')[2]}"
    if first["type"] in ("missing", "missing_argument"):
        return f"{field} should be there, is missing"
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{field} is unknown here; leave it out"
    if first["type"] == "value_error":
        return f"{field}: {first['ctx']['error']}"
    expected = said.partition("should ")[2][:_LONGEST_EXPECTATION]
    return f"{field} should {expected}, was: {reprlib.repr(first['input'])}"


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal; about 0.7 seconds of CPU time per GB.

    Raises:
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.new")
"""Names of what a killed process had not finished."""


def unfinished_name() -> str:
    """A new name for a hidden file, which no pattern of a user matches."""
    return f".{uuid4().hex}.new"


def check_apart(output: str | Path, paths: Iterable[str | Path]) -> None:
    """Raise ``UsageError`` if ``output`` is one of the files that are read: writing it would replace its own source."""
    for path in paths:
        with suppress(OSError, ValueError):  # one is not there, is out of reach, or is no name of a file
            if Path(path).samefile(output):
                raise UsageError(f"--output {output} is one of the files to read; name another one")


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` when the block ends well, and is removed when it does not.

    It has the rights that the umask leaves, and is on the disk by then, even after a power cut. A link at ``path`` is
    replaced; nothing that a link leads to is touched.

    Raises:
        OSError: if it cannot be made; what was at ``path`` stays.
    """
    unfinished = path.with_name(unfinished_name())
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Raises ``RunError`` where the block cannot write ``--output``."""
    try:
        yield
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
