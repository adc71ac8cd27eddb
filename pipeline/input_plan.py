"""What a run reads: every file checked and fingerprinted, cut into chunks that do not depend on the workers.

With ``--reuse AUDIT`` also the evidence of a finished audit in place of models, so that verdicts alone are made anew.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from attribeam import __version__
from attribeam.attribution.methods.audit_row import OF_VERDICTS, AuditRow, Outcome, ReusedRecords, reused_provenance
from attribeam.attribution.methods.method import has_own_model
from attribeam.attribution.options import THRESHOLDS, MethodOptions
from attribeam.logs.columns import check_same_extra_fields
from attribeam.logs.files import ArrowStorage, LogStorage, find_logs
from attribeam.logs.privacy import Redactor
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import reader_named
from attribeam.logs.rows import RowRange
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import Reason, RowFault, RowSource, SpanKind, TargetSpan, evidence_schema
from attribeam.schemas.errors import DataError, LogReadError, RunError, UsageError
from attribeam.schemas.evidence_record import stored_evidence
from attribeam.schemas.run_manifest import InputFile, ReadingNote, RunStatus
from attribeam.transforms.audit_settings import AuditSettings, plain_settings

_MAX_STEM_CHARS = 48


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A log that can be audited, with its stamp, and what to tell of how it is read."""

    log: QALog
    row_count: int
    notes: tuple[ReadingNote, ...] = ()

    @property
    def path(self) -> str:
        """Where it lies."""
        return self.log.path


@dataclass(frozen=True, slots=True)
class InputCheck:
    """Files whose schemas fit, in order, the fields of ``--extra-columns``, which they share, and what to tell.

    ``settings`` are those that were given, with the versions of the tables that the files belong to.
    """

    files: tuple[CheckedFile, ...]
    extra_fields: tuple[pa.Field, ...]
    notes: tuple[str, ...]
    settings: AuditSettings

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
    notes: tuple[str, ...] = ()

    @property
    def row_count(self) -> int:
        """Rows of all files."""
        return sum(file.row_count for file in self.inputs)


def check_input(
    patterns: Sequence[str],
    settings: AuditSettings,
    storage: LogStorage | None = None,
    *,
    table_version: int | None = None,
) -> InputCheck:
    """Find the files, read what they say of themselves, and check all columns before anything else happens.

    ``table_version`` is that of the Delta or Iceberg table which the input is, else its current one is read. Raises
    ``UsageError`` if nothing matches, a file is missing, damaged or of another format, a column is missing or has
    another type, or the files do not agree on the types of the extra columns; ``LogReadError`` if a file system or the
    network fails.
    """
    storage = storage or ArrowStorage()
    suffix = reader_named(settings.log_format).suffix
    inputs = find_logs(patterns, suffix, storage, option="--input", version=table_version)
    settings = replace(settings, tables=inputs.tables)
    try:
        logs = [QALog(path, settings.log_options, storage).stamped() for path in inputs.paths]
        checked = {log.path: log.check() for log in logs}
        extra_fields = check_same_extra_fields({path: check.columns for path, check in checked.items()})
    except LogReadError as error:
        raise LogReadError(f"--input: {error}") from error
    except DataError as error:
        raise UsageError(f"--input: {error}") from error
    if not any(check.column_names for check in checked.values()):
        raise UsageError(f"--input: {inputs.paths[0]!r} has no row, nor has any other file; there is nothing to audit")
    if tuple(settings.span_kinds) == (SpanKind.GIVEN,) and not any(
        check.columns.has("target_spans") for check in checked.values()
    ):
        raise UsageError(
            "--spans given needs rows that give spans, and no file has a column target_spans; name it with --columns "
            "target_spans=..., or choose other --spans"
        )
    _check_extra_fields(extra_fields, settings)
    files = tuple(CheckedFile(log, checked[log.path].row_count, checked[log.path].notes) for log in logs)
    return InputCheck(files, extra_fields, (*inputs.notes,), settings)


def _check_extra_fields(extra_fields: Sequence[pa.Field], settings: AuditSettings) -> None:
    """Refuse names of the evidence's own, and keys of objects that are to be masked: a table's type states them."""
    try:
        evidence_schema(extra_fields=extra_fields)
    except ValueError as error:
        raise UsageError(f"--extra-columns: {error}") from error
    redactor = Redactor(settings.privacy)
    for field in extra_fields:
        if any(redactor.mask(name) != name for name in _members(field.type)):
            raise UsageError(
                f"--extra-columns carries {field.name!r}, whose objects have keys that hold what is to be masked, and "
                "keys are written as they are; leave it out, or write it as text"
            )


def _members(kind: pa.DataType) -> Iterator[str]:
    for index in range(kind.num_fields if pa.types.is_nested(kind) else 0):
        if pa.types.is_struct(kind):
            yield kind.field(index).name
        yield from _members(kind.field(index).type)


def make_plan(check: InputCheck, *, rows_per_chunk: int) -> InputPlan:
    """Fingerprint the checked files, find their duplicate ids, and cut them into chunks.

    Raises ``LogReadError`` if a file turns out to be damaged now that it is read, or changes meanwhile.
    """
    inputs: list[InputFile] = []
    chunks: list[Chunk] = []
    for index, file in enumerate(check.files):
        try:
            size_bytes, sha256 = file.log.fingerprint()
            duplicates = file.log.duplicate_rows().tolist()
            file.log.check_unchanged()
        except DataError as error:
            raise LogReadError(str(error)) from error
        inputs.append(InputFile(file.path, size_bytes, file.row_count, sha256, file.notes))
        whole = RowRange(file.path, 0, file.row_count, tuple(duplicates), file.log.stamp)
        for start in range(0, max(1, file.row_count), rows_per_chunk):
            rows = part_of(whole, start, min(start + rows_per_chunk, file.row_count))
            chunks.append(Chunk(chunk_name(index, file.path, start), rows, inputs[-1]))
    return InputPlan(tuple(inputs), tuple(chunks), check.notes)


def check_input_unchanged(rows: RowRange, storage: LogStorage | None = None) -> None:
    """Refuse to keep what was read of a file that is no longer the one that was fingerprinted.

    Raises ``LogReadError`` if it was replaced or written to, or is gone.
    """
    QALog(rows.file, storage=storage or ArrowStorage(), stamp=rows.stamp).check_unchanged()


def chunk_name(file_index: int, path: str, row_start: int) -> str:
    """A readable name, unique in a run, that sorts by file and row: ``00003-part-0-r0000002000``."""
    stem = path.replace("\\", "/").rpartition("/")[2].removesuffix(".parquet")
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", stem)[:_MAX_STEM_CHARS].strip("-.") or "file"
    return f"{file_index:05d}-{readable}-r{row_start:010d}"


def part_of(rows: RowRange, start: int, end: int) -> RowRange:
    """The rows from ``start`` to ``end`` (exclusive) of these."""
    inside = tuple(row for row in rows.duplicate_rows if start <= row < end)
    return replace(rows, row_start=start, row_end=end, duplicate_rows=inside)


_DECIDING = ("columns", "log_format", "tables", "max_text_chars", "parser", "span_kinds", "threads")
_VERDICT_ONLY = (OF_VERDICTS | THRESHOLDS) - {"assume_language"}


@dataclass(frozen=True, slots=True)
class ReusedAudit:
    """An audit whose evidence is used again: its directory, its models' provenance, its input paths by this run's."""

    root: str
    models: Mapping[str, str]
    files: Mapping[str, str]

    @classmethod
    def checked(cls, root: str, settings: AuditSettings, inputs: Sequence[InputFile]) -> ReusedAudit:
        """The audit in ``root``, which has all evidence that an audit of these settings and inputs needs.

        Raises ``UsageError`` if it has not; the message says what differs; ``RunError`` if it is damaged.
        """

        def refuse(what: str) -> UsageError:
            return UsageError(f"--reuse {root}: {what}; leave --reuse out")

        with _reading(root):
            manifest = AuditDirectory.open(root).manifest
        if manifest.status is not RunStatus.DONE:
            raise refuse(f"the audit should be done, is {manifest.status}")
        if manifest.attribeam_version != __version__:
            raise refuse(f"it was made by attribeam {manifest.attribeam_version}, this is {__version__}")
        if has_own_model(settings.method):
            raise refuse(f"--verdict {settings.method.verdict} reads the passages with a model of its own")
        if settings.method.judges_by_mass and not settings.method.model_fields_set >= THRESHOLDS:
            raise refuse("--verdict mass needs thresholds; name a directory of attribeam calibrate instead")
        before, asked = _deciding(manifest.options), _deciding(plain_settings(settings))
        if differing := sorted(name for name in before.keys() | asked.keys() if before.get(name) != asked.get(name)):
            raise refuse(f"only the verdict may differ, but so does {', '.join(differing)}")
        privacy = manifest.options.get("privacy")
        if isinstance(privacy, Mapping) and any(privacy.values()):
            raise refuse("its texts are masked or left out")
        audited = {file.sha256: file.path for file in manifest.inputs}
        if missing := [file.path for file in inputs if file.sha256 not in audited]:
            raise refuse(f"{missing[0]!r} is not one of its inputs, or has changed")
        return cls(root, manifest.models, {file.path: audited[file.sha256] for file in inputs})


@contextmanager
def _reading(root: str) -> Iterator[None]:
    """Say of every error while the audit in ``root`` is read that it is the reused one, and the way out."""
    try:
        yield
    except (RunError, UsageError) as error:
        raise type(error)(f"the audit of --reuse {root}: {error}; or leave --reuse out") from error


def _deciding(options: Mapping[str, Any]) -> dict[str, object]:
    """The options that decide the evidence and were given, by name."""
    of_method = {name: value for name, value in options["method"].items() if name not in _VERDICT_ONLY}
    return {**options["model"], **of_method, **{name: options[name] for name in _DECIDING}}


class ReusedEvidence:
    """Stands where a worker's models stand otherwise: gives each row the evidence that the audit has of it."""

    settings: MethodOptions | None = None

    def __init__(self, audit: ReusedAudit) -> None:
        self._audit = audit
        self._chunks: dict[str, list[tuple[int, int, str, str]]] = defaultdict(list)
        with _reading(audit.root):
            self._directory = whole = AuditDirectory.open(audit.root)
            files = zip(whole.chunks, whole.evidence_files, whole.dead_letter_files, strict=True)
            for chunk, evidence, letters in files:
                self._chunks[chunk.source_file].append((chunk.row_start, chunk.row_end, evidence, letters))

    def provenance(self, options: MethodOptions) -> dict[str, str]:
        """The audit's models, with the verdict of ``options``."""
        return reused_provenance(self._audit.models, options)

    def start(self, rows: Sequence[AuditRow]) -> list[Outcome]:
        """See ``BlockModel``; ``RunError`` if the audit has other spans of a row, or cannot be read."""
        by_file: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            by_file[row.record.source.source_file].append(row.record.source.source_row)
        spans: dict[RowSource, list[Mapping[str, Any]]] = defaultdict(list)
        dead_letters: dict[RowSource, Mapping[str, Any]] = {}
        with _reading(self._audit.root):
            for name, numbers in by_file.items():
                audit, where = self._part(numbers, name)
                for batch in audit.evidence_batches(where=where):
                    for stored in batch.to_pylist():
                        spans[RowSource(name, stored["source_row"])].append(stored)
                for batch in audit.dead_letter_batches(where=where):
                    dead_letters |= {RowSource(name, stored["source_row"]): stored for stored in batch.to_pylist()}
        return [self._outcome(row, spans.get(row.record.source, ()), dead_letters) for row in rows]

    def _part(self, numbers: Sequence[int], file: str) -> tuple[AuditDirectory, ds.Expression]:
        """The chunks of the audit that have these rows of a file, and the filter that selects the rows."""
        first, last = min(numbers), max(numbers)
        chunks = [chunk for chunk in self._chunks[self._audit.files[file]] if chunk[0] <= last and first < chunk[1]]
        evidence, dead_letters = tuple(chunk[2] for chunk in chunks), tuple(chunk[3] for chunk in chunks)
        part = replace(self._directory, evidence_files=evidence, dead_letter_files=dead_letters)
        return part, (ds.field("source_row") >= first) & (ds.field("source_row") <= last)

    def _outcome(
        self, row: AuditRow, spans: Sequence[Mapping[str, Any]], dead_letters: Mapping[RowSource, Mapping[str, Any]]
    ) -> Outcome:
        source = row.record.source
        if (letter := dead_letters.get(source)) is not None:
            return RowFault(Reason(letter["reason"]), letter["message"], column=letter["column"])
        stored = tuple(map(stored_evidence, spans))
        if [TargetSpan(span.span_kind, span.chars) for span in stored] != [*row.spans]:
            raise RunError(
                f"--reuse {self._audit.root}: it should have the {len(row.spans)} spans of row {source.source_row} of "
                f"{source.source_file!r}, has {len(stored)} or others; leave --reuse out"
            )
        return ReusedRecords(stored)
