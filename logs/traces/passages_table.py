"""The texts of passages of which traces have only the ids, from a table with one passage per row."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attribeam.logs.files import LogStorage
from attribeam.logs.qa_log import temporary_file_failed
from attribeam.logs.traces.documents import document_of
from attribeam.logs.traces.trace_records import Document, records
from attribeam.schemas import RowFault
from attribeam.schemas.errors import DataError, UsageError


class PassagesTable:
    """Passages by their ids; they lie on disk, so that their number does not matter."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def get(self, passage_id: str) -> Document | None:
        """The passage of an id, the first one in the table."""
        query = "SELECT text, title FROM passages WHERE id = ?"
        found = self._database.execute(query, (_bytes(passage_id),)).fetchone()
        if found is None:
            return None
        text, title = (None if one is None else one.decode("utf-8", "surrogateescape") for one in found)
        return Document(text, title, passage_id)


@contextmanager
def passages_table(storage: LogStorage, path: str) -> Iterator[PassagesTable]:
    """The table at ``path``, read once; a temporary file holds it until the context is left.

    Its fields are ``passage_id`` (or ``id``), ``text`` (or ``content``, ``page_content``), and perhaps ``title``; it
    may be Parquet, Arrow, CSV, JSON or JSON lines.

    Raises:
        UsageError: if the table is not there, or no row has an id and a text.
        DataError: if it cannot be read.
        RunError: if the temporary file cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="attribeam-passages-") as folder:
        database = sqlite3.connect(Path(folder) / "passages.sqlite", isolation_level=None)
        try:
            try:
                _fill(database, storage, path)
            except sqlite3.Error as error:
                raise temporary_file_failed(error) from error
            yield PassagesTable(database)
        finally:
            database.close()


def _fill(database: sqlite3.Connection, storage: LogStorage, path: str) -> None:
    counts = {"rows": 0, "usable": 0}
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE passages (id BLOB PRIMARY KEY, text BLOB, title BLOB) WITHOUT ROWID")
    database.execute("BEGIN")
    try:
        with storage.open(path) as file:
            for record in records(file, wrappers=("data", "passages")):
                counts["rows"] += 1
                if isinstance(record.value, RowFault):
                    raise DataError(f"{record.value}; correct the table")
                document = document_of(record.value)
                if document is not None and document.text is not None and document.passage_id:
                    counts["usable"] += 1
                    row = (document.passage_id, document.text, document.title)
                    database.execute("INSERT OR IGNORE INTO passages VALUES (?, ?, ?)", tuple(map(_bytes, row)))
    except FileNotFoundError as error:
        raise UsageError(f"--passages-table {path!r} is not there; correct its path") from error
    except (DataError, OSError) as error:
        raise DataError(f"--passages-table {path!r} {' '.join(str(error).split())}") from error
    database.execute("COMMIT")
    if not counts["usable"]:
        raise UsageError(
            f"--passages-table {path!r} should have the fields passage_id and text, none of its {counts['rows']} rows "
            "has both"
        )


def _bytes(text: str | None) -> bytes | None:
    """A text as bytes, since it may be no valid Unicode."""
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
