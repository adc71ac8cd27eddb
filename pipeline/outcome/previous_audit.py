"""The earlier audit that a new one is compared with: it is checked before anything is audited."""

from __future__ import annotations

from pathlib import Path

from attribeam.logs.privacy.redactor import Redactor
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.pipeline.chunks.input_plan import InputCheck
from attribeam.report.audit_directory import AuditDirectory, evidence_columns
from attribeam.schemas.errors import UsageError

_MASKING = {
    "redact": "--redact",
    "redact_patterns": "--redact-pattern",
    "redact_patterns_file": "--redact-patterns-file",
}
"""The options that mask ids, by their names in the manifest."""


def check_previous(previous: str, check: InputCheck, privacy: PrivacySettings) -> None:
    """Refuse an earlier audit that has none of the ids which an audit of the logs will write.

    The page joins the ids as both audits wrote them, so an id that only one of them masks is not found. The check stops
    at the first that it finds.

    Raises:
        UsageError: if there is no such audit, or it has no such id.
        DataError, RunError: if a log or the audit cannot be read.
    """
    audit = AuditDirectory.open(Path(previous))
    ids: set[str] = set()
    for batch in evidence_columns(audit, ["record_id"]):
        ids.update(batch.column("record_id").unique().to_pylist())
    redactor = Redactor(privacy)
    written = redactor.mask if privacy.masks else None
    if any(file.log.has_any_id(ids, written) for file in check.files):
        return
    then, now = _masks(audit.manifest.options.get("privacy")), _masks(privacy.recorded())
    if then != now:
        raise UsageError(
            f"--previous {previous} should have ids that this audit writes, has none: it was audited {then}, this one "
            f"is to be audited {now}, and its {len(ids):,} record ids are masked otherwise. Audit both with the same "
            "of these options, or leave --previous out"
        )
    first = repr(redactor.mask(min(ids))) if ids else "none"
    raise UsageError(
        f"--previous should be an audit of the same answers, but none of the {len(ids):,} record ids of {previous} is "
        f"in --input; the first is {first}. Name another audit, or leave --previous out"
    )


def _masks(recorded: object) -> str:
    """The options of a manifest that mask ids, in words."""
    given = recorded if isinstance(recorded, dict) else {}
    asked = ((option, given.get(name)) for name, option in _MASKING.items())
    named = [option if value is True else f"{option} {value}" for option, value in asked if value]
    return f"with {' and '.join(named)}" if named else "without masks"
