"""The last words of an audit, for a person."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.finished_run import REPORT_PAGE
from pipeline.progress import readable_duration
from schemas import Support
from schemas.run_manifest import AuditCounts, RunManifest


def summary_text(manifest: RunManifest, *, output: str, earlier_rows: int = 0, page: bool = False) -> str:
    """Rows, spans, speed and places in aligned lines; ``earlier_rows`` were finished before, ``page`` is written."""
    places = [*_places(output, page=page), *_advice(manifest.counts)]
    return "\n".join([*_head(manifest, earlier_rows), "", *_rows(manifest.counts), "", *places])


def _head(manifest: RunManifest, earlier_rows: int) -> Iterator[str]:
    loading = readable_duration(manifest.load_seconds)
    speed = f"{manifest.rows_per_second:,.1f} rows/s after {loading} of loading"
    if manifest.counts.rows <= earlier_rows:
        speed = "nothing left to do"
    yield f"Audit {manifest.status} in {readable_duration(manifest.seconds)} ({speed})"
    if earlier_rows:
        yield f"{earlier_rows:,} of {manifest.counts.rows:,} rows were finished by an earlier run"


def _rows(counts: AuditCounts) -> Iterator[str]:
    yield _line("rows read", counts.rows)
    yield _line("  audited", counts.audited, _share(counts.audited, counts.rows))
    yield _line("  dead-lettered", counts.dead_lettered, _share(counts.dead_lettered, counts.rows))
    for letter in sorted(counts.dead_letters, key=lambda one: (-one.rows, one.reason)):
        yield _line(f"    {letter.reason}", letter.rows)
    yield ""
    yield _line("target spans", counts.span_count)
    for support in Support:
        spans = counts.spans.get(support, 0)
        yield _line(f"  {support}", spans, _share(spans, counts.span_count))


def _places(output: str, *, page: bool) -> Iterator[str]:
    root = output.rstrip("/")
    if page:
        yield f"page to look at {root}/{REPORT_PAGE}"
    yield f"evidence        {root}/evidence/*.parquet"
    yield f"dead letters    {root}/dead_letters/*.parquet"
    yield f"run manifest    {root}/run_manifest.json"
    yield f"metrics         {root}/metrics.json, {root}/metrics.prom"


def _advice(counts: AuditCounts) -> Iterator[str]:
    """What to look at first."""
    looks = [
        (counts.spans.get(Support.UNSUPPORTED, 0), "evidence records with support = 'unsupported'"),
        (counts.dead_lettered, "dead letters and their reasons"),
    ]
    worth = [f"the {count:,} {what}" for count, what in looks if count]
    if worth:
        yield ""
        yield f"Look first at {', then at '.join(worth)}."


def _line(name: str, count: int, share: str = "") -> str:
    return f"{name:<28}{count:>12,}{share:>9}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""
