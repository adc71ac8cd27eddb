"""The earlier audit that a new one is compared with: it is checked before anything is audited."""

from __future__ import annotations

from pathlib import Path

from attribeam.logs.privacy.redactor import Redactor
from attribeam.logs.privacy.settings import recorded_settings
from attribeam.pipeline.chunks.input_plan import InputCheck
from attribeam.report.audit_directory import AuditDirectory, evidence_columns
from attribeam.schemas.errors import UsageError


def check_previous(previous: str, check: InputCheck) -> None:
    """Refuse an earlier audit that has none of the answers in the logs; it stops at the first that it has.

    Raises:
        UsageError: if there is no such audit, or it is of other answers.
        DataError, RunError: if a log or the audit cannot be read.
    """
    audit = AuditDirectory.open(Path(previous))
    ids: set[str] = set()
    for batch in evidence_columns(audit, ["record_id"]):
        ids.update(batch.column("record_id").unique().to_pylist())
    redactor = Redactor(recorded_settings(audit.manifest.options.get("privacy")))
    written = redactor.mask if redactor.settings.masks else None
    if not any(file.log.has_any_id(ids, written) for file in check.files):
        first = repr(min(ids)) if ids else "none"
        raise UsageError(
            f"--previous should be an audit of the same answers, but none of its {len(ids):,} record ids is in "
            f"--input; the first is {first}. Name another audit, or leave --previous out"
        )
