"""What the audits of a folder found, in the order of their answers' times, and what moved: shares out of their range.

Only small files are read and no evidence, so hundreds of audits are read in seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from math import sqrt
from pathlib import Path
from statistics import fmean, variance
from typing import Annotated

from pydantic import Field

from attribeam.report.audit_directory import RUN_MANIFEST
from attribeam.report.overview import ShareGroup, SupportCounts
from attribeam.schemas import VERDICTS
from attribeam.schemas.errors import RunError, SchemaVersionError, UsageError
from attribeam.schemas.run_manifest import (
    Count,
    FiniteNumber,
    Moment,
    RunManifest,
    RunStatus,
    Share,
    read_json,
    utc_moment,
)

DAMAGED = "damaged"
"""The status of an audit whose manifest cannot be read."""
_MARKER = "_attribeam"
PAGE = "report.html"
_METRICS = "metrics.json"
READ_FILES = (RUN_MANIFEST, _METRICS)
_DATE = re.compile(r"(?<!\d)(20\d\d)(?:[-_]?|/(?:month=)?)([01]\d)(?:[-_]?|/(?:day=)?)([0-3]\d)(?!\d)")
_LATEST = datetime(2999, 12, 31, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What one audit found.

    Attributes:
        name: of its folder, as far as it can be written as text.
        moment: when its answers were given, as ``metrics.json`` tells, else the last date in the paths of its inputs or
            in its own name, else when its last run started; of a damaged audit, when its files were last written.
        note: what is wrong with its files.
        metrics: shares by the names of ``--fail-if``, and their standard ``errors``, as far as they are known.
        groups: claims by support for the values of the generator and of carried columns.
    """

    name: str
    moment: datetime
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

    @property
    def when(self) -> str:
        """Day and minute in UTC."""
        return f"{self.moment.astimezone(UTC):%Y-%m-%d %H:%M}"

    def to_json(self) -> str:
        """This entry on one line."""
        fields = asdict(self) | {"moment": self.moment.isoformat()}
        return json.dumps(fields, ensure_ascii=True, allow_nan=False)


def audit_folders(root: Path) -> list[Path]:
    """The audits right below a folder, whole or not, by name; links and hidden folders are passed over.

    Raises ``UsageError`` if it is no folder, or itself an audit; ``RunError`` if it cannot be read.
    """

    def is_audit(folder: Path) -> bool:
        return (folder / _MARKER).is_file() or (folder / RUN_MANIFEST).is_file()

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
    """What ``audit_folders`` found, oldest first; ``UsageError`` if there is none."""
    entries = sorted(map(read_entry, audit_folders(root)), key=lambda entry: (entry.moment, entry.name))
    if not entries:
        raise UsageError(f"expected a folder that holds audits, {str(root)!r} holds none")
    return entries


def read_entry(folder: Path) -> AuditEntry:
    """What an audit found; one whose manifest cannot be read is ``DAMAGED``."""
    name = folder.name.encode("utf-8", "replace").decode()
    try:
        manifest = RunManifest.from_json(_content(folder / RUN_MANIFEST), RUN_MANIFEST)
    except SchemaVersionError as error:
        return AuditEntry(name, _written_at(folder), DAMAGED, str(error))
    except (OSError, ValueError) as error:
        reason = "it has no run_manifest.json" if isinstance(error, FileNotFoundError) else "it cannot be read"
        return AuditEntry(name, _written_at(folder), DAMAGED, f"run_manifest.json: {reason}")
    counts = manifest.counts
    shares = {"dead_letter_share": counts.dead_lettered / counts.rows} if counts.rows else {}
    if counts.claim_count:
        shares |= {f"{support}_share": counts.claims.get(support, 0) / counts.claim_count for support in VERDICTS}
    entry = AuditEntry(
        name=name,
        moment=_last_date(log.path for log in manifest.inputs) or _last_date([name]) or utc_moment(manifest.started_at),
        status=str(manifest.status),
        rows=counts.rows,
        claims=counts.claim_count,
        supports=SupportCounts(*(counts.claims.get(support, 0) for support in VERDICTS)),
        metrics=shares,
        configuration=manifest.configuration,
        page=(folder / PAGE).is_file() and name == folder.name,
    )
    return _with_metrics(entry, folder, manifest) if entry.is_done else entry


def _last_date(paths: Iterable[str]) -> datetime | None:
    """The last of the days that paths name, such as ``date=2026-11-19``, ``20261119`` or ``2026/11/19``."""
    days = []
    for digits in chain.from_iterable(map(_DATE.findall, paths)):
        with suppress(ValueError):
            year, month, day = map(int, digits)
            days.append(datetime(year, month, day, tzinfo=UTC))
    return max(days, default=None)


def _with_metrics(entry: AuditEntry, folder: Path, manifest: RunManifest) -> AuditEntry:
    try:
        facts = read_json(_Metrics, _content(folder / _METRICS), extra="ignore")
    except FileNotFoundError:
        return replace(entry, note="it has no metrics.json")
    except (OSError, ValueError):
        return replace(entry, note="metrics.json cannot be read")
    if facts.started_at != manifest.started_at:
        return replace(entry, note="metrics.json is of another run")
    return replace(
        entry,
        moment=entry.moment if facts.answered_at is None else utc_moment(facts.answered_at),
        metrics={**entry.metrics, **{name: risk for name, risk in asdict(facts.metrics).items() if risk is not None}},
        errors=facts.standard_errors,
        groups={column: tuple(group.as_share() for group in groups) for column, groups in facts.groups.items()},
        failed_gates=tuple(str(gate) for gate in facts.quality_gates if gate.failed),
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
    started_at: str
    answered_at: Moment | None
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
    times = [path.stat().st_mtime for path in (folder / RUN_MANIFEST, folder / _MARKER) if path.is_file()]
    return datetime.fromtimestamp(max(0, min(max(times, default=0), _LATEST)), UTC)


# A range is the mean of up to fourteen finished audits before, and as much to both sides that 99.73% of shares that did
# not change lie within it: three standard errors, if only chance moves a share from night to night, or Student's factor
# times the spread of the nights before, if that is more.

WATCHED = {
    "unsupported_share": "unsupported claims",
    "weak_share": "weak claims",
    "answers_at_risk": "answers at risk",
    "mean_answer_risk": "mean answer risk",
    "dead_letter_share": "dead letters",
}
"""Shares that are watched, with their names in words; of each, less is better."""
BEFORE = 14
_LIMIT = 3.0
_STUDENT = (6.62, 5.51, 4.90, 4.53, 4.28, 4.09, 3.96, 3.85, 3.76, 3.69)
"""The same limit for a spread that 5, 6, ... and 14 nights tell: quantiles of Student's distribution."""
_FEWEST_NIGHTS = 5
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ExpectedRange:
    """Where a share should lie by the ``audits`` audits before; ``changed`` if these had another configuration."""

    low: float
    high: float
    audits: int
    changed: bool = False

    def holds(self, share: float) -> bool:
        """Whether a share is in the range."""
        return self.low <= share <= self.high


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to look at; ``kind`` is "worse", "better", "gate" or "broken"."""

    entry: AuditEntry
    kind: str
    text: str
    metric: str = ""


def expected_ranges(entries: Sequence[AuditEntry], metric: str) -> list[ExpectedRange | None]:
    """Where ``metric`` of each audit should lie by those before it, oldest first; None where nobody can tell.

    An audit outside its range says nothing about later ones, unless the next is outside too: then these two begin a
    new level. Audits of the same configuration are compared where there are some. Without standard errors, five audits
    are needed.
    """
    ranges: list[ExpectedRange | None] = []
    calm: list[AuditEntry] = []
    outside: list[AuditEntry] = []
    for entry in entries:
        has_share = entry.is_done and metric in entry.metrics
        expected = _expected_range(calm, entry, metric) if has_share else None
        ranges.append(expected)
        if has_share and (expected is None or expected.holds(entry.metrics[metric])):
            calm, outside = [*calm, entry], []
        elif has_share:
            calm, outside = ([*outside, entry], []) if outside else (calm, [entry])
    return ranges


def _expected_range(before: Sequence[AuditEntry], entry: AuditEntry, metric: str) -> ExpectedRange | None:
    same = [night for night in before if night.configuration == entry.configuration]
    reference = (same or before)[-BEFORE:]
    values = [night.metrics[metric] for night in reference]
    count, own_error = len(reference), entry.errors.get(metric)
    errors = [night.errors[metric] for night in reference if metric in night.errors]
    reaches = []
    if reference and own_error is not None and len(errors) == count:
        reaches.append(_LIMIT * sqrt(own_error**2 + sum(error**2 for error in errors) / count**2))
    if count >= _FEWEST_NIGHTS:
        reaches.append(_STUDENT[count - _FEWEST_NIGHTS] * sqrt(variance(values) * (1 + 1 / count)))
    if not reaches:
        return None
    middle, reach = fmean(values), max(reaches) + _ROUNDING
    return ExpectedRange(max(middle - reach, 0.0), min(middle + reach, 1.0), count, changed=not same)


def find_alerts(entries: Sequence[AuditEntry]) -> list[Alert]:
    """All alerts of a history, oldest first."""
    ranges = {metric: expected_ranges(entries, metric) for metric in WATCHED}
    of_each = ({metric: of_all[index] for metric, of_all in ranges.items()} for index in range(len(entries)))
    return [alert for entry, own in zip(entries, of_each, strict=True) for alert in _alerts_of(entry, own)]


def _alerts_of(entry: AuditEntry, ranges: Mapping[str, ExpectedRange | None]) -> Iterator[Alert]:
    if not entry.is_done:
        damaged, unfinished = f"is damaged: {entry.note}", f"is not complete, its status is {entry.status}"
        yield Alert(entry, "broken", damaged if entry.status == DAMAGED else unfinished)
        return
    if entry.note:
        yield Alert(entry, "broken", entry.note)
    yield from (Alert(entry, "gate", f"failed the gate {gate}") for gate in entry.failed_gates)
    for metric, expected in ranges.items():
        value = entry.metrics.get(metric)
        if expected is not None and value is not None and not expected.holds(value):
            by = f"{expected.audits} audits before" if expected.audits > 1 else "audit before"
            changed = ", which had other options, models or versions" * expected.changed
            range_text = f"{expected.low:.2%} to {expected.high:.2%} was expected by the {by}{changed}"
            kind = "worse" if value > expected.high else "better"
            yield Alert(entry, kind, f"{WATCHED[metric]} {value:.2%}, where {range_text}", metric)
