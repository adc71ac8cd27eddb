"""The digest by which manifests, reports and converted models name a file."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal; about 0.7 seconds of CPU time per GB.

    Raises:
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
