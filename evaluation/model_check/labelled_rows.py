"""The labelled rows that a model is tried on: those of the package, or the user's own.

The package's 40 rows, ``labelled_rows.jsonl``, are made up for this purpose, in English: two to three spans per answer,
three or four passages per row, of which most are about the same topic and do not hold the claim. Each span is labelled
with its passage and the characters in it.
"""

from __future__ import annotations

from pathlib import Path

from attribeam.evaluation.datasets.labelled_log import load_log
from attribeam.evaluation.report import skip_remarks
from attribeam.logs.columns import LogOptions
from attribeam.schemas.errors import DataError, UsageError
from attribeam.schemas.labelled_answer import LabelledAnswer

LABELLED_ROWS = Path(__file__).parent / "labelled_rows.jsonl"


def labelled_answers(data: Path | None, options: LogOptions) -> tuple[LabelledAnswer, ...]:
    """The answers of the user's labelled log, which ``options`` say how to read; of the package's rows for None.

    Raises:
        UsageError: if the log cannot be read, or none of its spans has a label.
    """
    if data is None:
        return load_log(LABELLED_ROWS, LogOptions(format="jsonl")).answers
    try:
        dataset = load_log(data, options)
    except DataError as error:
        raise UsageError(f"--data: {error}") from error
    if not dataset.answers:
        reasons = ", ".join(skip_remarks(dataset.skipped)) or "the file has no rows"
        raise UsageError(
            f"--data {data} should have target spans with gold passages, has none: {reasons}; see 'Labels' in "
            "docs/schema.md"
        )
    return dataset.answers
