"""The version of the output formats: files of no other version are read."""

from __future__ import annotations

from attribeam.schemas.errors import SchemaVersionError

SCHEMA_VERSION = "1.2"


def check_version(found: str, place: str) -> None:
    """Refuse a file of another version; ``place`` is its name in the error.

    Raises:
        SchemaVersionError: if ``found`` is not ``SCHEMA_VERSION``.
    """
    if found != SCHEMA_VERSION:
        raise SchemaVersionError(
            f"{place} is of schema version {found!r}, but only files of version {SCHEMA_VERSION!r} can be read; audit "
            "its logs again, into another --output or with --overwrite"
        )
