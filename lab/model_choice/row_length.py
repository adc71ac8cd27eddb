"""How long the rows of a log are, in tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts.row_encoder import RowEncoder
from attribeam.logs.columns import LogOptions
from attribeam.logs.files import ArrowStorage, match_files
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import reader_named
from attribeam.schemas import QARecord, RowFault
from attribeam.schemas.errors import DataError, UsageError

SAMPLED_ROWS = 1000


@dataclass(frozen=True, slots=True)
class RowLength:
    """Tokens per row, prompt and answer, of ``rows`` rows: their mean, and what nine of ten do not exceed."""

    rows: int
    mean: float
    ninth_decile: float


def measured_length(pattern: str, options: LogOptions) -> RowLength:
    """The lengths of a log's rows by the bundled tokenizer: of the first rows of each file, 1,000 in all.

    Raises:
        UsageError: if no file matches, a log cannot be read, or it has no row that can be audited.
    """
    files, _ = match_files([pattern], reader_named(options.format).suffix, ArrowStorage(), option="--input")
    try:
        lengths = [*_lengths(files, options)]
    except DataError as error:
        raise UsageError(f"--input: {error}") from error
    if not lengths:
        raise UsageError(f"--input {pattern} should have rows that can be audited, has none")
    return RowLength(len(lengths), float(np.mean(lengths)), float(np.quantile(lengths, 0.9)))


def _lengths(files: list[str], options: LogOptions) -> Iterator[int]:
    encoder = RowEncoder(read_model_directory(ModelOptions()))
    share = -(-SAMPLED_ROWS // max(1, len(files)))
    for file in files:
        good = (row for row in QALog(file, options).outcomes() if isinstance(row, QARecord))
        yield from (length for row in islice(good, share) if (length := _length(encoder, row)) is not None)


def _length(encoder: RowEncoder, record: QARecord) -> int | None:
    """None for a row that no model can take."""
    try:
        return len(encoder.encode_any_length(record).token_ids)
    except RowFault:
        return None
