"""What a run reads: every file checked and fingerprinted, cut into chunks that do not depend on the workers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from attribeam.logs.columns import InputFormat, check_same_extra_fields
from attribeam.logs.files import fingerprint_file, match_files, read_footer
from attribeam.logs.parquet_log import find_duplicate_rows
from attribeam.logs.rows import RowRange
from attribeam.schemas.errors import LogFormatError, RunError, UsageError
from attribeam.schemas.run_manifest import InputFile
from attribeam.transforms.audit_settings import AuditSettings

_MAX_STEM_CHARS = 48


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A Parquet file that can be audited; ``id_column`` is its column of record ids."""

    path: str
    row_count: int
    id_column: str


@dataclass(frozen=True, slots=True)
class InputCheck:
    """Files whose schemas fit, in order, and the fields of ``--extra-columns``, which they share."""

    files: tuple[CheckedFile, ...]
    extra_fields: tuple[pa.Field, ...]

    @property
    def row_count(self) -> int:
        """Rows of all files."""
        return sum(file.row_count for file in self.files)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A unit of work: its name sorts in input order; ``input`` is the file that its rows lie in."""

    name: str
    rows: RowRange
    input: InputFile


@dataclass(frozen=True, slots=True)
class InputPlan:
    """All input files and the chunks that cover their rows exactly once; every file has at least one chunk."""

    inputs: tuple[InputFile, ...]
    chunks: tuple[Chunk, ...]

    @property
    def row_count(self) -> int:
        """Rows of all files."""
        return sum(file.row_count for file in self.inputs)


def check_input(patterns: Sequence[str], settings: AuditSettings) -> InputCheck:
    """Find the files, read their footers only, and check all schemas before anything else happens.

    Raises:
        UsageError: if nothing matches, a file is no Parquet file, a column is missing or has another type, or the
            files do not agree on the types of the extra columns.
    """
    footers = {path: read_footer(path) for path in match_files(patterns)}
    try:
        formats = {
            path: InputFormat.from_schema(path, footer.schema.to_arrow_schema(), settings)
            for path, footer in footers.items()
        }
        extra_fields = check_same_extra_fields(formats)
    except LogFormatError as error:
        raise UsageError(str(error)) from error
    files = tuple(
        CheckedFile(path, footer.num_rows, formats[path].column_of("record_id")) for path, footer in footers.items()
    )
    return InputCheck(files, extra_fields)


def make_plan(check: InputCheck, *, rows_per_chunk: int) -> InputPlan:
    """Fingerprint the checked files, find their duplicate ids, and cut them into chunks.

    Raises:
        RunError: if a file cannot be read.
    """
    inputs: list[InputFile] = []
    chunks: list[Chunk] = []
    for index, file in enumerate(check.files):
        try:
            size_bytes, sha256 = fingerprint_file(file.path)
            duplicates = find_duplicate_rows(file.path, id_column=file.id_column).tolist()
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                f"input file {file.path!r} cannot be read: {error}; replace the file or leave it out of --input"
            ) from error
        inputs.append(InputFile(file.path, size_bytes, file.row_count, sha256))
        chunks += _split_into_chunks(index, inputs[-1], duplicates, rows_per_chunk)
    return InputPlan(tuple(inputs), tuple(chunks))


def chunk_name(file_index: int, path: str, row_start: int) -> str:
    """A readable name, unique in a run, that sorts by file and row: ``00003-part-0-r0000002000``."""
    stem = path.replace("\\", "/").rpartition("/")[2].removesuffix(".parquet")
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", stem)[:_MAX_STEM_CHARS].strip("-.") or "file"
    return f"{file_index:05d}-{readable}-r{row_start:010d}"


def _split_into_chunks(
    file_index: int, file: InputFile, duplicates: Sequence[int], rows_per_chunk: int
) -> Iterator[Chunk]:
    for row_start in range(0, max(1, file.row_count), rows_per_chunk):
        row_end = min(row_start + rows_per_chunk, file.row_count)
        inside = tuple(row for row in duplicates if row_start <= row < row_end)
        name = chunk_name(file_index, file.path, row_start)
        yield Chunk(name, RowRange(file.path, row_start, row_end, inside), file)
