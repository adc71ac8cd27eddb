"""Reads a folder of audits: what each one found, from its small files, in the order of their times.

Evidence is not read, so hundreds of audits are read in seconds, and memory holds a few figures of each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from attribeam.report.support_distribution import ShareGroup, SupportCounts
from attribeam.schemas import VERDICTS
from attribeam.schemas.errors import RunError, SchemaVersionError, UsageError
from attribeam.schemas.run_manifest import (
    AuditCounts,
    Count,
    FiniteNumber,
    RunManifest,
    RunStatus,
    Share,
    read_json,
    utc_moment,
)

DAMAGED = "damaged"
"""The status of an audit whose manifest cannot be read."""

_MARKER = "_attribeam"
_MANIFEST = "run_manifest.json"
_METRICS = "metrics.json"
_PAGE = "report.html"
_LATEST = datetime(2999, 12, 31, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What one audit found.

    Attributes:
        name: of its folder, as far as it can be written as text.
        started_at: of its last run; of a damaged audit, when its files were last written.
        status: that of the manifest, or ``DAMAGED``.
        note: what is wrong with its files; empty if nothing is.
        metrics: shares by the names of ``--fail-if``; those without a value are missing.
        errors: standard errors of these, where they are known.
        groups: claims by support for the values of the generator and of carried columns.
        failed_gates: its quality gates that failed.
        page: whether it has a ``report.html``.
    """

    name: str
    started_at: datetime
    status: str
    note: str = ""
    rows: int = 0
    claims: int = 0
    supports: SupportCounts = field(default_factory=SupportCounts)
    metrics: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, tuple[ShareGroup, ...]] = field(default_factory=dict)
    failed_gates: tuple[str, ...] = ()
    configuration: str = ""
    page: bool = False

    @property
    def is_done(self) -> bool:
        """Whether its figures are those of all its rows."""
        return self.status == RunStatus.DONE

    def to_json(self) -> str:
        """This entry on one line."""
        fields = asdict(self) | {"started_at": self.started_at.isoformat()}
        return json.dumps(fields, ensure_ascii=True, allow_nan=False)


def is_audit(folder: Path) -> bool:
    """Whether a folder is the output directory of an audit, whole or not."""
    return (folder / _MARKER).is_file() or (folder / _MANIFEST).is_file()


def audit_folders(root: Path) -> list[Path]:
    """The audits right below a folder, by name; links and hidden folders are passed over.

    Raises:
        UsageError: if it is no folder, or itself an audit.
        RunError: if it cannot be read.
    """
    if not root.is_dir():
        raise UsageError(f"expected a folder that holds audits, there is no folder {str(root)!r}")
    if is_audit(root):
        raise UsageError(f"{str(root)!r} is one audit; name the folder that holds the audits, such as its parent")
    try:
        return sorted(
            path for path in root.iterdir() if not path.is_symlink() and path.name[0] != "." and is_audit(path)
        )
    except OSError as error:
        raise RunError(f"{str(root)!r} cannot be read: {error}") from error


def read_history(root: Path) -> list[AuditEntry]:
    """The audits right below a folder, oldest first.

    Raises:
        UsageError: if there is none, or the folder is itself an audit.
        RunError: if the folder cannot be read.
    """
    entries = sorted(map(read_entry, audit_folders(root)), key=lambda entry: (entry.started_at, entry.name))
    if not entries:
        raise UsageError(f"expected a folder that holds audits, {str(root)!r} holds none")
    return entries


def read_entry(folder: Path) -> AuditEntry:
    """What an audit found; one whose manifest cannot be read is ``DAMAGED``."""
    name = folder.name.encode("utf-8", "replace").decode()
    try:
        manifest = RunManifest.from_json(_content(folder / _MANIFEST), _MANIFEST)
    except SchemaVersionError as error:
        return AuditEntry(name, _written_at(folder), DAMAGED, str(error))
    except (OSError, ValueError) as error:
        reason = "it has no run_manifest.json" if isinstance(error, FileNotFoundError) else "it cannot be read"
        return AuditEntry(name, _written_at(folder), DAMAGED, f"run_manifest.json: {reason}")
    counts = manifest.counts
    entry = AuditEntry(
        name=name,
        started_at=utc_moment(manifest.started_at),
        status=str(manifest.status),
        rows=counts.rows,
        claims=counts.claim_count,
        supports=SupportCounts(*(counts.claims.get(support, 0) for support in VERDICTS)),
        metrics=_shares(counts),
        configuration=manifest.configuration,
        page=(folder / _PAGE).is_file() and name == folder.name,
    )
    return _with_metrics(entry, folder, manifest) if entry.is_done else entry


def _shares(counts: AuditCounts) -> dict[str, float]:
    shares = {"dead_letter_share": counts.dead_lettered / counts.rows} if counts.rows else {}
    if counts.claim_count:
        shares |= {f"{one}_share": counts.claims.get(one, 0) / counts.claim_count for one in VERDICTS}
    return shares


def _with_metrics(entry: AuditEntry, folder: Path, manifest: RunManifest) -> AuditEntry:
    """With what only ``metrics.json`` has."""
    try:
        found = read_json(_Metrics, _content(folder / _METRICS), extra="ignore")
    except FileNotFoundError:
        return replace(entry, note="it has no metrics.json")
    except (OSError, ValueError):
        return replace(entry, note="metrics.json cannot be read")
    if found.started_at != manifest.started_at:
        return replace(entry, note="metrics.json is of another run")
    return replace(
        entry,
        metrics={**entry.metrics, **{name: risk for name, risk in asdict(found.metrics).items() if risk is not None}},
        errors=found.standard_errors,
        groups={column: tuple(group.as_share() for group in groups) for column, groups in found.groups.items()},
        failed_gates=tuple(str(gate) for gate in found.quality_gates if gate.failed),
    )


@dataclass(frozen=True, slots=True)
class _Gate:
    metric: str
    operator: str
    limit: FiniteNumber
    value: FiniteNumber | None
    failed: bool

    def __str__(self) -> str:
        value = "no value" if self.value is None else f"{self.value:.4g}"
        return f"{self.metric} {self.operator} {self.limit:g}: {value}"


@dataclass(frozen=True, slots=True)
class _Group:
    value: str | None
    supported: Count
    weak: Count
    unsupported: Count

    def as_share(self) -> ShareGroup:
        return ShareGroup(self.value, SupportCounts(self.supported, self.weak, self.unsupported))


@dataclass(frozen=True, slots=True)
class _Risks:
    mean_answer_risk: Share | None
    answers_at_risk: Share | None


@dataclass(frozen=True, slots=True)
class _Metrics:
    """What is read of ``metrics.json``."""

    started_at: str
    metrics: _Risks
    standard_errors: Mapping[str, Annotated[FiniteNumber, Field(ge=0)]]
    groups: Mapping[str, tuple[_Group, ...]]
    quality_gates: tuple[_Gate, ...]


def _content(path: Path) -> bytes:
    """The bytes of a file; what is none, such as a pipe, is as good as missing."""
    if not path.is_file():
        raise FileNotFoundError(path)
    return path.read_bytes()


def _written_at(folder: Path) -> datetime:
    """When a damaged audit was last written to, as far as its two files tell."""
    times = []
    for name in (_MANIFEST, _MARKER):
        path = folder / name
        if path.is_file():
            times.append(path.stat().st_mtime)
    return datetime.fromtimestamp(max(0, min(max(times, default=0), _LATEST)), UTC)
