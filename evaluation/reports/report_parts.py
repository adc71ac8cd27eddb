"""Parts that the reports of all measures share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluation.comparison import FailedRow
from evaluation.datasets.labelled_answer import SkippedRow
from evaluation.evaluation_error import EvaluationError
from evaluation.reports.json_file import write_json


def skip_remarks(skipped: Sequence[SkippedRow]) -> list[str]:
    """One line a reason, with the number of rows."""
    counts = Counter(one.reason for one in skipped)
    return [f"{count} rows skipped: {reason}" for reason, count in sorted(counts.items())]


def failure_remarks(failed: Sequence[FailedRow], *, consequence: str) -> list[str]:
    """One line a reason, with the number of rows and what becomes of them."""
    counts = Counter(one.reason for one in failed)
    return [f"{count} rows failed and {consequence}: {reason}" for reason, count in sorted(counts.items())]


def write_figures(path: Path | None, report: Any) -> None:
    """A dataclass as one JSON object; nothing where no path is given.

    Raises:
        EvaluationError: if it cannot be written.
    """
    if path is None:
        return
    try:
        write_json(path, asdict(report))
    except OSError as error:
        raise EvaluationError(f"--output {path} could not be written: {error}") from error
    print(f"written to {path}")
