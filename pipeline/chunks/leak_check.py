"""Reads back what a chunk wrote and the rows that it was made from: nothing that is masked stands anywhere unmasked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from attribeam.logs.files import LogStorage
from attribeam.logs.privacy.masked_record import record_secrets, texts_in
from attribeam.logs.privacy.redactor import Redactor, without_secrets
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import RowRange
from attribeam.schemas import QARecord
from attribeam.schemas.errors import LeakError
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.hide_texts import given_names

_BATCH_ROWS = 1024


def check_leaks(
    rows: RowRange, files: Iterable[Path], settings: AuditSettings, storage: LogStorage, *, last_try: bool = False
) -> None:
    """Refuse files in which a text still shows what masks should hide, or what they hide elsewhere in the same row.

    A ``last_try`` goes on where memory does not suffice to read rows of the log, see ``QALog.outcomes``.

    Raises:
        LeakError: if there is one; the message says where, and never shows it.
    """
    redactor = Redactor(settings.privacy)
    if not settings.privacy.masks:
        return
    log, wanted = QALog(rows.file, settings.log_options, storage), range(rows.row_start, rows.row_end)
    records = log.outcomes(wanted, last_try=last_try)
    secrets = {one.source.source_row: record_secrets(one, redactor) for one in records if isinstance(one, QARecord)}
    for path in sorted(files):
        for column, row, value in _values(path):
            hidden = secrets.get(row, frozenset())
            if any(redactor.mask(text) != text or without_secrets(text, hidden) != text for text in texts_in(value)):
                raise LeakError(
                    f"column {column!r} of {path.name}, made from row {row} of {rows.file!r}, should show nothing that "
                    "is to be masked, but does, so it was not kept; please report it, and leave that row or column out"
                )


def _values(path: Path) -> Iterator[tuple[str, int, object]]:
    """(column, row of the log, value) of everything in a file but our own words and what the user gave."""
    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name not in given_names(file.schema_arrow)]
        for batch in file.iter_batches(_BATCH_ROWS):
            rows = batch.column("source_row").to_pylist()
            for name in names:
                yield from ((name, row, value) for row, value in zip(rows, batch.column(name).to_pylist(), strict=True))
