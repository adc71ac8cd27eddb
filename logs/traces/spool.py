"""What waits on disk, so that memory does not grow with an export: spans by trace, and texts of passages by id."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from attribeam.logs.files import LogStorage
from attribeam.logs.qa_log import temporary_file_failed
from attribeam.logs.traces.documents import document_of
from attribeam.logs.traces.record_files import records
from attribeam.logs.traces.spans import Document, Span
from attribeam.logs.traces.values import text_bytes
from attribeam.schemas import RowFault
from attribeam.schemas.errors import DataError, UsageError

MOST_SPANS = 20_000
MOST_BYTES = 1 << 28
"""The largest trace that is read into memory: 20,000 spans of together 256 MiB."""

_GROUPS = """
    SELECT min(rowid), trace, count(*) > ? OR sum(length(entry)) > ? FROM spans
    GROUP BY coalesce(trace, rowid) ORDER BY 1
"""


@contextmanager
def _temporary_table(schema: str) -> Iterator[sqlite3.Connection]:
    """A database in a temporary file without a name.

    Raises:
        RunError: if it cannot be written.
    """
    database = sqlite3.connect("", isolation_level=None)
    try:
        for command in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", f"CREATE TABLE {schema}", "BEGIN"):
            database.execute(command)
        yield database
    except sqlite3.Error as error:
        raise temporary_file_failed(error) from error
    finally:
        database.close()


@dataclass(frozen=True, slots=True)
class SpooledTrace:
    """One trace: the file and line where it first appears, and its spans in the order of the export.

    ``spans`` is None where there are more than ``MOST_SPANS``, or than fit into ``MOST_BYTES``. A record that could
    not be read has a ``fault`` and no spans.
    """

    file: int
    place: str
    trace_id: str | None
    spans: list[Span] | None
    fault: RowFault | None = None


@dataclass(frozen=True, slots=True)
class TraceSpool:
    """Takes spans, and gives traces in the order in which they first appear; see ``trace_spool``."""

    database: sqlite3.Connection

    def add(self, file: int, place: str, entry: Span | RowFault) -> None:
        """Keep a span, or the fault of a record that belongs to no known trace."""
        key = None if isinstance(entry, RowFault) else text_bytes(entry.trace_id)
        self.database.execute("INSERT INTO spans VALUES (?, ?)", (key, pickle.dumps((file, place, entry))))

    def traces(self) -> Iterator[SpooledTrace]:
        """Every trace once."""
        self.database.execute("CREATE INDEX by_trace ON spans (trace)")
        for first, trace, is_too_large in self.database.execute(_GROUPS, (MOST_SPANS, MOST_BYTES)):
            file, place, entry = next(self._entries("rowid", first))
            if isinstance(entry, RowFault):
                yield SpooledTrace(file, place, None, [], entry)
            elif is_too_large:
                yield SpooledTrace(file, place, entry.trace_id, None)
            else:
                yield SpooledTrace(file, place, entry.trace_id, [span for *_, span in self._entries("trace", trace)])

    def _entries(self, column: str, value: object) -> Iterator[tuple[int, str, Span]]:
        found = self.database.execute(f"SELECT entry FROM spans WHERE {column} = ? ORDER BY rowid", (value,))
        return (pickle.loads(entry) for (entry,) in found)


@contextmanager
def trace_spool() -> Iterator[TraceSpool]:
    """A spool; its temporary file, as large as the texts of the spans, goes when the context is left.

    Raises:
        RunError: if the file cannot be written.
    """
    with _temporary_table("spans (trace BLOB, entry BLOB)") as database:
        yield TraceSpool(database)


@dataclass(frozen=True, slots=True)
class PassagesTable:
    """Passages by their ids; see ``passages_table``."""

    database: sqlite3.Connection

    def get(self, passage_id: str) -> Document | None:
        """The passage of an id, the first one in the table."""
        query = "SELECT text, title FROM passages WHERE id = ?"
        found = self.database.execute(query, (text_bytes(passage_id),)).fetchone()
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
    with _temporary_table("passages (id BLOB PRIMARY KEY, text BLOB, title BLOB) WITHOUT ROWID") as database:
        rows = usable = 0
        try:
            with storage.open(path) as file:
                for rows, record in enumerate(records(file, wrappers=("data", "passages")), start=1):  # noqa: B007
                    if isinstance(record.value, RowFault):
                        raise DataError(f"{record.value}; correct the table")
                    document = document_of(record.value)
                    if document is not None and document.text is not None and document.passage_id:
                        usable += 1
                        row = map(text_bytes, (document.passage_id, document.text, document.title))
                        database.execute("INSERT OR IGNORE INTO passages VALUES (?, ?, ?)", tuple(row))
        except FileNotFoundError as error:
            raise UsageError(f"--passages-table {path!r} is not there; correct its path") from error
        except (DataError, OSError) as error:
            raise DataError(f"--passages-table {path!r} {' '.join(str(error).split())}") from error
        if not usable:
            raise UsageError(
                f"--passages-table {path!r} should have the fields passage_id and text, none of its {rows} rows "
                "has both"
            )
        yield PassagesTable(database)
