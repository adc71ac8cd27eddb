"""``--reuse AUDIT``: the evidence of a finished audit in place of models, so that its verdicts alone are made anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.dataset as ds

from attribeam import __version__
from attribeam.attribution.methods.audit_row import OF_VERDICTS, AuditRow, Outcome, RowFindings, reused_provenance
from attribeam.attribution.methods.method import has_own_model
from attribeam.attribution.options import THRESHOLDS, MethodOptions
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import Reason, RowFault, TargetSpan
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.evidence_record import stored_evidence
from attribeam.schemas.run_manifest import InputFile, RunStatus
from attribeam.transforms.audit_settings import AuditSettings, plain_settings

_DECIDING = ("columns", "log_format", "tables", "max_text_chars", "parser", "span_kinds", "threads")
_VERDICT_ONLY = (OF_VERDICTS | THRESHOLDS) - {"assume_language"}


@dataclass(frozen=True, slots=True)
class ReusedAudit:
    """An audit whose evidence is used again: its directory, its models' provenance, its names of files by today's."""

    root: str
    models: Mapping[str, str]
    files: Mapping[str, str]

    @classmethod
    def checked(cls, root: str, settings: AuditSettings, inputs: Sequence[InputFile]) -> ReusedAudit:
        """The audit in ``root``, which has all evidence that an audit of these settings and inputs needs.

        Raises:
            UsageError: if it has not; the message says what differs.
            RunError: if it is damaged.
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
            for chunk, evidence, letters in zip(
                whole.chunks, whole.evidence_files, whole.dead_letter_files, strict=True
            ):
                self._chunks[chunk.source_file].append((chunk.row_start, chunk.row_end, evidence, letters))

    def provenance(self, options: MethodOptions) -> dict[str, str]:
        """The audit's models, with the verdict of ``options``."""
        return reused_provenance(self._audit.models, options)

    def start(self, rows: Sequence[AuditRow]) -> list[Outcome]:
        """See ``BlockModel``.

        Raises:
            RunError: if the audit has other spans of a row, or cannot be read.
        """
        by_file: dict[str, list[AuditRow]] = defaultdict(list)
        for row in rows:
            by_file[row.record.source.source_file].append(row)
        spans: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
        dead_letters: dict[tuple[str, int], Mapping[str, Any]] = {}
        with _reading(self._audit.root):
            for name, of_file in by_file.items():
                audit, where = self._part([row.record.source.source_row for row in of_file], name)
                for batch in audit.evidence_batches(where=where):
                    for stored in batch.to_pylist():
                        spans[name, stored["source_row"]].append(stored)
                for batch in audit.dead_letter_batches(where=where):
                    dead_letters |= {(name, stored["source_row"]): stored for stored in batch.to_pylist()}
        return [self._outcome(row, spans, dead_letters) for row in rows]

    def _part(self, numbers: Sequence[int], file: str) -> tuple[AuditDirectory, ds.Expression]:
        """The chunks of the audit that have these rows of a file, and what finds their rows in them."""
        first, last = min(numbers), max(numbers)
        chunks = [chunk for chunk in self._chunks[self._audit.files[file]] if chunk[0] <= last and first < chunk[1]]
        evidence, dead_letters = tuple(chunk[2] for chunk in chunks), tuple(chunk[3] for chunk in chunks)
        part = replace(self._directory, evidence_files=evidence, dead_letter_files=dead_letters)
        return part, (ds.field("source_row") >= first) & (ds.field("source_row") <= last)

    def _outcome(
        self,
        row: AuditRow,
        spans: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]],
        dead_letters: Mapping[tuple[str, int], Mapping[str, Any]],
    ) -> Outcome:
        file, number = row.record.source.source_file, row.record.source.source_row
        if (letter := dead_letters.get((file, number))) is not None:
            return RowFault(Reason(letter["reason"]), letter["message"], column=letter["column"])
        stored = tuple(map(stored_evidence, spans.get((file, number), ())))
        if [TargetSpan(span.span_kind, span.chars) for span in stored] != [*row.spans]:
            raise RunError(
                f"--reuse {self._audit.root}: it should have the {len(row.spans)} spans of row {number} of "
                f"{file!r}, has {len(stored)} or others; leave --reuse out"
            )
        return RowFindings(stored=stored)
