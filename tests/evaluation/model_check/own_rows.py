"""A log of a user's own to check a model on: the first of the package's labelled rows."""

from __future__ import annotations

from pathlib import Path

from attribeam.evaluation.model_check.model_trial import LABELLED_ROWS


def write_own_rows(path: Path, count: int) -> Path:
    """Write ``count`` rows as JSONL to ``path``, which is returned."""
    lines = LABELLED_ROWS.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:count]), encoding="utf-8")
    return path
