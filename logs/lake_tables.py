"""Folders of Delta Lake and Apache Iceberg: which files, and which of their rows, a version of a table has.

A table's data files never change; what changes is the list of them, so an audit reads the files of one version as it
reads any others. Rows that were deleted within a file (deletion vectors, position deletes) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from glob import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribeam.logs.columns import ColumnPart, TableVersion
from attribeam.logs.reader import LogBatch, OpenLog, open_parquet
from attribeam.schemas.errors import DataError, UsageError

if TYPE_CHECKING:
    from attribeam.logs.files import LogStorage

_LOCAL = "file://"
_DENIED = re.compile(r"denied|forbidden|permission|\b403\b", re.IGNORECASE)
_METADATA = re.compile(r"(v\d+|\d+-[^/]+)(\.gz)?\.metadata\.json")
_READ_FEATURES = frozenset(
    {"deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""Features of Delta that say nothing about which rows of a file there are, or that are read below."""

Gone = npt.NDArray[np.int64]
"""0-based rows of a file that were deleted, ascending."""


class _Snapshot(NamedTuple):
    """One version of a table: its files by their absolute paths, and the rows of them that are gone."""

    version: int
    files: Sequence[str]
    gone: Mapping[str, Gone]


@dataclass(frozen=True, slots=True)
class TableFiles:
    """What is left of found files where some belong to tables; ``notes`` tell which version of each is read."""

    paths: list[str]
    tables: tuple[TableVersion, ...]
    notes: list[str]


def files_of_tables(paths: Sequence[str], storage: LogStorage, *, option: str, version: int | None) -> TableFiles:
    """The files that are in no table, and of tables those of ``version``, or of the current one.

    Raises:
        UsageError: if a table cannot be read as it is, ``version`` is of none or of one of several tables, or nothing
            is left.
        OSError: if the file system cannot be asked.
    """
    kind_of = cache(partial(_kind_of, storage))
    roots = {path: where for path in paths if (where := _root_of(path, kind_of)) is not None}
    folders = sorted(set(roots.values()))
    if version is not None and len(folders) != 1:
        raise UsageError(
            f"--table-version {version} should name a version of one Delta or Iceberg table, {option} leads to "
            f"{len(folders)}; leave it out, or name one table"
        )
    kept = {path for path in paths if path not in roots}
    tables, notes = [], []
    for kind, root in folders:
        snapshot = _read(kind, root, version, storage)
        name, live = _named(kind, root), frozenset(snapshot.files)
        inside = [path for path, folder in roots.items() if folder == (kind, root)]
        of_version = [path for path in inside if _absolute(path) in live]
        if len(live) != len(of_version):
            below = {_absolute(path) for path in storage.find(f"{escape(root)}/**", suffix="")}
            if missing := sorted(live - below):
                raise UsageError(
                    f"{name} should have all files of its version {snapshot.version} in its folder, {len(missing)} of "
                    f"{len(live)} are not there, such as {missing[0]!r}; bring them back, name a later "
                    "--table-version, or copy the table"
                )
        if not of_version:
            raise UsageError(
                f"{option} leads to {len(inside)} files of {name}, none of which belongs to its version "
                f"{snapshot.version}; name the table's folder, or another --table-version"
            )
        kept.update(of_version)
        tables.append(TableVersion(kind, root, snapshot.version, deletes_rows=bool(snapshot.gone)))
        count = f"{len(of_version)} of {len(inside)} files found there"
        notes.append(f"{name} is read at version {snapshot.version}: {count}")
    return TableFiles(sorted(kept), tuple(tables), notes)


def without_gone_rows(log: OpenLog, path: str, tables: Sequence[TableVersion], storage: LogStorage) -> OpenLog:
    """The log of a file without the rows that its table has deleted; as it is where there are none."""
    whole = _absolute(path)
    table = next((table for table in tables if table.deletes_rows and whole.startswith(f"{table.root}/")), None)
    gone = None if table is None else _gone_rows(table, storage).get(whole)  # type: ignore[arg-type]
    return log if gone is None else _LiveRows(log, gone)


@lru_cache(maxsize=8)
def _gone_rows(table: TableVersion, storage: LogStorage) -> Mapping[str, Gone]:
    return _read(table.kind, table.root, table.version, storage).gone  # of a version, which never changes


class _LiveRows:
    """A log whose deleted rows do not count, see ``OpenLog``: rows are numbered without them."""

    def __init__(self, log: OpenLog, gone: Gone) -> None:
        if len(gone) and gone[-1] >= log.row_count:
            raise DataError(f"should have {gone[-1] + 1} rows or more, which its table deleted, has {log.row_count}")
        self._log = log
        self._rows = np.delete(np.arange(log.row_count), gone)
        self.schema = log.schema
        self.row_count = len(self._rows)

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        for batch in self._log.batches(parts, self._rows[np.asarray(rows)].tolist()):
            faults = {self._number(row): fault for row, fault in batch.faults.items()}
            yield LogBatch(self._number(batch.first_row), batch.rows, faults)

    def _number(self, row: int) -> int:
        return int(np.searchsorted(self._rows, row))


def _kind_of(storage: LogStorage, folder: str) -> str | None:
    """The kind of the table in a folder, None where there is none, or nobody lets us look: far above the logs."""
    try:
        if storage.find(f"{escape(folder)}/_delta_log/*", suffix=".json"):
            return "delta"
        return "iceberg" if _iceberg_metadata(folder, storage) else None
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, PermissionError) or _DENIED.search(str(error)):
            return None
        raise


def _root_of(path: str, kind_of: Callable[[str], str | None]) -> tuple[str, str] | None:
    """Kind and absolute path of the table that a file lies in; None where it lies in none."""
    scheme, separator, inner = _absolute(path).rpartition("://")
    while "/" in inner:
        inner = inner.rpartition("/")[0].rstrip("/")
        if (kind := kind_of(f"{scheme}{separator}{inner}")) is not None:
            return kind, f"{scheme}{separator}{inner}"
    return None


def _absolute(path: str) -> str:
    """The path as tables name their files: a local one from the root on, a URI as it is."""
    here = path.removeprefix(_LOCAL) if path.startswith(f"{_LOCAL}/") else path
    return here if "://" in here else str(Path(here).absolute())


def _named(kind: str, root: str) -> str:
    return f"the {kind.capitalize()} table {root!r}"


def _read(kind: str, root: str, version: int | None, storage: LogStorage) -> _Snapshot:
    """A version of a table, or its current one; ``UsageError`` if it cannot be read as it is."""
    at = "" if version is None else f" at version {version}"
    try:
        return _delta(root, version) if kind == "delta" else _iceberg(root, version, storage)
    except ImportError as error:
        raise UsageError(
            f"{_named(kind, root)} needs the extra {kind!r}, which is not installed: pip install 'attribeam[{kind}]' "
            "(read as loose files, rows that were removed would come back)"
        ) from error
    except (OSError, ValueError, NotImplementedError, pa.ArrowException) as error:
        message = f"{_named(kind, root)} cannot be read{at}: {' '.join(str(error).split())}"
        raise UsageError(message) from error


def _delta(root: str, version: int | None) -> _Snapshot:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(root, version=version)
        features = {*(table.protocol().reader_features or ())} - _READ_FEATURES
        mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        if mapping != "none" or features - {"columnMapping"}:
            wanted = "column mapping" if mapping != "none" else f"the feature {', '.join(sorted(features))}"
            raise UsageError(
                f"{_named('delta', root)} has {wanted}, which is not read; write its rows to a table or to Parquet "
                "files without"
            )
        added = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
        vectors = pa.table(table.deletion_vectors())
    except DeltaError as error:
        raise ValueError(str(error)) from error
    gone = {
        _absolute(path): np.flatnonzero(~np.asarray(keep, bool))
        for path, keep in zip(*(vectors.column(name).to_pylist() for name in vectors.column_names), strict=True)
    }
    paths = map(unquote, added)  # a log writes names as URIs do
    files = [_absolute(path) if "://" in path or path.startswith("/") else f"{root}/{path}" for path in paths]
    return _Snapshot(int(table.version()), files, gone)


def _iceberg(root: str, version: int | None, storage: LogStorage) -> _Snapshot:
    """By the newest metadata; a version is the id of a snapshot."""
    from pyiceberg.table import StaticTable

    def moved(path: str) -> str:
        """A file's path below the folder, wherever the table stood when it was written."""
        return f"{root}{path.removeprefix(base)}" if path.startswith(f"{base}/") else _absolute(path)

    table = StaticTable.from_metadata(_newest_metadata(root, storage))
    base = str(table.metadata.location).rstrip("/")
    snapshot = table.current_snapshot() if version is None else table.snapshot_by_id(version)
    if snapshot is None:
        known = ", ".join(str(snapshot.snapshot_id) for snapshot in table.snapshots()[-8:])
        at = "" if version is None else f" at version {version}"
        raise UsageError(f"{_named('iceberg', root)} should have the snapshot{at}, the last ones are: {known}")
    tasks = list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
    paths = {task.file.file_path: moved(task.file.file_path) for task in tasks}
    _check_names(table, [*paths.values()], storage)
    gone: dict[str, list[int]] = {}
    for file in {file.file_path: file for task in tasks for file in task.delete_files}.values():
        for path, rows in _deleted(file, moved(file.file_path), storage):
            if path in paths:
                gone.setdefault(paths[path], []).extend(rows)
    rows_gone = {path: np.unique(np.asarray(rows, np.int64)) for path, rows in gone.items()}
    return _Snapshot(snapshot.snapshot_id, [*paths.values()], rows_gone)


def _iceberg_metadata(root: str, storage: LogStorage) -> list[str]:
    paths = storage.find(f"{escape(root)}/metadata/*.metadata.json", suffix=".metadata.json")
    return [path for path in paths if _METADATA.fullmatch(path.rpartition("/")[2])]


def _newest_metadata(root: str, storage: LogStorage) -> str:
    """The metadata of the highest number; a table without a catalog has no other mark of its current state."""
    numbers = {path: int(re.findall(r"\d+", path.rpartition("/")[2])[0]) for path in _iceberg_metadata(root, storage)}
    newest = [path for path, number in numbers.items() if number == max(numbers.values())]
    if len(newest) > 1:
        names = " and ".join(path.rpartition("/")[2] for path in newest[:2])
        raise ValueError(f"{names} are both its newest metadata; remove the one that its catalog does not name")
    return newest[0]


def _check_names(table: Any, paths: Sequence[str], storage: LogStorage) -> None:
    """Refuse files whose columns have other names than the table's, since columns were renamed."""
    if len(table.schemas()) == 1:
        return
    names = {field.field_id: field.name for field in table.schema().fields}
    for path in paths:
        with storage.open(path) as file:
            fields = open_parquet(file).schema_arrow
        for field in fields:
            own = int((field.metadata or {}).get(b"PARQUET:field_id", -1))
            if names.get(own, field.name) != field.name or (own not in names and field.name in names.values()):
                message = f"column {field.name!r} was renamed or replaced since {path!r} was written; rewrite it"
                raise ValueError(message)


def _deleted(file: Any, path: str, storage: LogStorage) -> Iterator[tuple[str, list[int]]]:
    """(data file, its deleted rows) of a file of position deletes or of deletion vectors."""
    kind = str(getattr(file.file_format, "value", file.file_format)).upper()
    with storage.open(path) as opened:
        content = opened.read()
    if kind == "PARQUET":
        rows = pq.read_table(BytesIO(content), columns=["file_path", "pos"])
        for data_file in pc.unique(rows.column("file_path")).to_pylist():
            yield data_file, rows.filter(pc.field("file_path") == data_file).column("pos").to_pylist()
    elif kind == "PUFFIN":
        from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
        from pyiceberg.table.puffin import PuffinFile

        for vector in deletion_vectors_from_puffin_file(PuffinFile(content)):
            yield vector.referenced_data_file, vector.to_vector().to_pylist()
    else:
        raise ValueError(f"its deletes are in {kind} files, which are not read; rewrite its data files")
