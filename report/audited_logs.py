"""The logs of an audit, read again: whether each is still what was audited, and the whole texts of its rows."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import Passage, RowSource
from attribeam.schemas.run_manifest import InputFile

_BLOCK_BYTES = 1 << 20


class LogState(StrEnum):
    """What has become of a log since it was audited."""

    AS_AUDITED = "as_audited"
    GONE = "gone"
    CHANGED = "changed"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class LogFile:
    """One input file of the manifest; it is looked at once, when its state is first asked for."""

    audited: InputFile

    @cached_property
    def state(self) -> LogState:
        """By size, then by SHA-256 of the whole content."""
        return self._found[0]

    @property
    def explanation(self) -> str:
        """What was expected, what was found, and the way out; never a text of the log."""
        return f"log {self.audited.path!r} {self._found[1]}"

    @cached_property
    def _found(self) -> tuple[LogState, str]:
        try:
            return self._look()
        except (OSError, pa.ArrowException) as error:
            return LogState.UNREADABLE, f"cannot be read: {error}"

    def _look(self) -> tuple[LogState, str]:
        size = _size(self.audited.path)
        if size is None:
            way_out = "bring it back, or start where the audit was started if its path is a relative one"
            return LogState.GONE, f"is not there any more; {way_out}"
        if size != self.audited.size_bytes or _sha256(self.audited.path) != self.audited.sha256:
            return LogState.CHANGED, "has another content than when it was audited; audit it again, or bring it back"
        return LogState.AS_AUDITED, "is as it was audited"


@contextmanager
def open_log(path: str) -> Iterator[BinaryIO]:
    """The file's bytes, seekable, from a local disk, ``s3://``, ``gs://`` or ``hdfs://``.

    Raises:
        OSError: if it cannot be opened.
    """
    system, inner = _locate(path)
    with system.open_input_file(inner) as file:
        yield file


def _locate(path: str) -> tuple[fs.FileSystem, str]:
    if "://" in path:
        system, inner = fs.FileSystem.from_uri(path)
        return system, inner
    return fs.LocalFileSystem(), str(Path(path).absolute())


def _size(path: str) -> int | None:
    """Bytes of a file, None where there is none."""
    system, inner = _locate(path)
    info = system.get_file_info(inner)
    return info.size if info.type == fs.FileType.File else None


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open_log(path) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


_BATCH_ROWS = 256
_FIELDS = ("record_id", "question", "passages", "answer")
_PASSAGE_MEMBERS = ("text", "title", "passage_id")


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """One row of a log as it was audited; offsets of its evidence count in these texts."""

    source: RowSource
    record_id: str
    question: str
    passages: tuple[Passage, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class AuditedLogs:
    """The logs of one audit; texts come only from files whose content is still what was audited.

    Attributes:
        files: the manifest's inputs by path, with what is known of each.
        columns: column of the log by field of the QA record, where ``--columns`` named one.
    """

    files: Mapping[str, LogFile]
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, audit: AuditDirectory) -> AuditedLogs:
        """The logs that the manifest names; nothing is opened yet."""
        given = audit.manifest.options.get("columns")
        pairs = given if isinstance(given, list) else []
        files = {one.path: LogFile(one) for one in audit.manifest.inputs}
        return cls(files, {str(name): str(column) for name, column in pairs})

    def answers(self, rows: frozenset[RowSource]) -> Iterator[LoggedAnswer]:
        """The texts of ``rows``, ascending by file and row; rows of logs that are gone or changed are left out.

        Files are read in batches of 256 rows, and only those that hold a wanted row; each is fingerprinted first.
        """
        for path in sorted({row.source_file for row in rows}):
            log = self.files.get(path)
            if log is not None and log.state is LogState.AS_AUDITED:
                wanted = sorted(row.source_row for row in rows if row.source_file == path)
                with open_log(path) as file:
                    yield from self._read(file, path, wanted)

    def problems(self, rows: frozenset[RowSource]) -> tuple[str, ...]:
        """One sentence a log of ``rows`` that is gone, changed or not named in the manifest."""
        paths = sorted({row.source_file for row in rows})
        unknown = tuple(f"{path!r} is no input of this audit" for path in paths if path not in self.files)
        known = (self.files[path] for path in paths if path in self.files)
        return unknown + tuple(log.explanation for log in known if log.state is not LogState.AS_AUDITED)

    def _read(self, file: BinaryIO, path: str, wanted: list[int]) -> Iterator[LoggedAnswer]:
        parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
        names = {name: self.columns.get(name, name) for name in _FIELDS}
        columns = _leaf_paths(parquet.schema, names)
        for group, first_row, local in _wanted_groups(parquet.metadata, wanted):
            batches = parquet.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False
            )
            for row, batch, index in _wanted_rows(batches, first_row, local):
                values = {name: batch.column(column)[index] for name, column in names.items()}
                yield _logged_answer(RowSource(path, row), values)


def _wanted_groups(metadata: pq.FileMetaData, wanted: list[int]) -> Iterator[tuple[int, int, list[int]]]:
    """(row group, its first row, wanted rows in it) of the groups that hold a wanted row; rows count in the file."""
    first_row = 0
    for group in range(metadata.num_row_groups):
        end = first_row + metadata.row_group(group).num_rows
        if inside := wanted[bisect_left(wanted, first_row) : bisect_left(wanted, end)]:
            yield group, first_row, inside
        first_row = end


def _wanted_rows(
    batches: Iterator[pa.RecordBatch], first_row: int, wanted: list[int]
) -> Iterator[tuple[int, pa.RecordBatch, int]]:
    """(row of the file, batch, row of the batch) of the ``wanted`` rows, which ascend; stops behind the last."""
    for batch in batches:
        end = first_row + batch.num_rows
        for row in wanted[bisect_left(wanted, first_row) : bisect_left(wanted, end)]:
            yield row, batch, row - first_row
        first_row = end
        if first_row > wanted[-1]:
            return


def _logged_answer(source: RowSource, values: Mapping[str, pa.Scalar]) -> LoggedAnswer:
    items = values["passages"]
    return LoggedAnswer(
        source=source,
        record_id=_text(values["record_id"]) or "",
        question=_text(values["question"]) or "",
        passages=tuple(_passage(item) for item in _plain_scalar(items)) if items.is_valid else (),
        answer=_text(values["answer"]) or "",
    )


def _passage(item: pa.Scalar) -> Passage:
    plain = _plain_scalar(item)
    if not isinstance(plain, pa.StructScalar):
        return Passage(_text(plain) or "")
    members = {name: _text(plain[name]) if name in plain else None for name in _PASSAGE_MEMBERS}
    return Passage(members["text"] or "", members["title"], members["passage_id"])


def _text(scalar: pa.Scalar) -> str | None:
    """A text, bytes that hold UTF-8, or a number as text; characters that are none are replaced."""
    value = _plain_scalar(scalar)
    if value.type in (pa.string(), pa.large_string(), pa.string_view()):
        value = value.cast(pa.large_binary())
    plain = value.as_py()
    if isinstance(plain, bytes):
        return plain.decode("utf-8", errors="replace")
    return None if plain is None else str(plain)


def _plain_scalar(scalar: pa.Scalar) -> pa.Scalar:
    """The value itself, without dictionary encoding and without an extension's name."""
    while isinstance(scalar, pa.DictionaryScalar | pa.ExtensionScalar):
        scalar = scalar.value
    return scalar


def _leaf_paths(schema: pq.ParquetSchema, names: Mapping[str, str]) -> list[str]:
    """The Parquet leaf columns of the fields; of a passage, only the members that are read."""
    paths = [schema.column(index).path for index in range(len(schema))]
    plain = {names[name] for name in _FIELDS if name != "passages"}
    return [path for path in paths if path in plain or _is_passage_leaf(path, names["passages"])]


def _is_passage_leaf(path: str, column: str) -> bool:
    if not path.startswith(f"{column}."):
        return False
    inner = path[len(column) + 1 :].split(".")
    return len(inner) <= 2 or inner[-1] in _PASSAGE_MEMBERS
