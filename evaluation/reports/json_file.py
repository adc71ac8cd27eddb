"""JSON files of figures, each written as a whole."""

from __future__ import annotations

import json
from pathlib import Path


def write_json(path: Path, value: object) -> None:
    """Write plain data; the file is replaced in one step, so that no reader sees half of it.

    Raises:
        OSError: if it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)
