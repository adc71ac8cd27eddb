"""The figures at the top of the page, with their change against an earlier audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from report.audit_directory import AuditDirectory
from schemas import Support
from schemas.run_manifest import AuditCounts

_MORE_IS_BETTER = {Support.SUPPORTED: True, Support.WEAK: False, Support.UNSUPPORTED: False}


@dataclass(frozen=True, slots=True)
class Change:
    """A change against the earlier audit; ``verdict`` is "better", "worse" or "neutral"."""

    text: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as it is shown; ``name`` is a stable key, ``change`` is None without an earlier audit."""

    name: str
    label: str
    value: str
    note: str
    change: Change | None = None


def top_figures(audit: AuditDirectory, previous: AuditDirectory | None) -> tuple[Figure, ...]:
    """Rows, spans, shares by support, dead letters and duration."""
    counts, before = audit.counts, None if previous is None else previous.counts
    earlier = before or AuditCounts()
    return (
        Figure("rows", "Rows", f"{counts.rows:,}", f"{counts.audited:,} audited", _growth(counts.rows, earlier.rows)),
        Figure(
            "spans",
            "Target spans",
            f"{counts.span_count:,}",
            f"{counts.span_count / counts.audited:.1f} an answer" if counts.audited else "no answer was audited",
            _growth(counts.span_count, earlier.span_count),
        ),
        *_supports(counts, before),
        _dead_letters(counts, before),
        _duration(audit),
    )  # fmt: skip


def _supports(counts: AuditCounts, before: AuditCounts | None) -> Iterator[Figure]:
    for support in Support:
        spans = counts.spans.get(support, 0)
        share = _share(spans, counts.span_count)
        earlier = None if before is None else _share(before.spans.get(support, 0), before.span_count)
        change = _points(share, earlier, more_is_better=_MORE_IS_BETTER[support])
        yield Figure(str(support), str(support).capitalize(), _percent(share), f"{spans:,} spans", change)


def _dead_letters(counts: AuditCounts, before: AuditCounts | None) -> Figure:
    share = _share(counts.dead_lettered, counts.rows)
    earlier = None if before is None else _share(before.dead_lettered, before.rows)
    change = _points(share, earlier, more_is_better=False)
    note = f"{counts.dead_lettered:,} of {counts.rows:,} rows"
    return Figure("dead_letters", "Dead letters", _percent(share), note, change)


def _duration(audit: AuditDirectory) -> Figure:
    manifest = audit.manifest
    note = "nothing was left to do"
    if manifest.rows_per_second:
        note = f"{manifest.rows_per_second:,.1f} rows/s after {duration_text(manifest.load_seconds)} of loading"
    return Figure("duration", "Duration", duration_text(manifest.seconds), note)


def duration_text(seconds: float) -> str:
    """Hours and minutes, minutes and seconds, or seconds."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _growth(now: int, before: int | None) -> Change | None:
    """Change of a count in per cent of what it was."""
    if not before:
        return None
    return Change(f"{_signed((now - before) / before * 100)}%", "neutral")


def _points(now: float | None, before: float | None, *, more_is_better: bool) -> Change | None:
    """Change of a share in percentage points."""
    if now is None or before is None:
        return None
    points = round((now - before) * 100, 1)
    if points == 0:
        return Change("no change", "neutral")
    return Change(f"{_signed(points)} points", "better" if (points > 0) == more_is_better else "worse")


def _signed(number: float) -> str:
    """With a sign, a true minus, and one digit."""
    return f"{number:+,.1f}".replace("-", "−")
