"""What an audit prints: its progress, and a summary at the end.

Progress is a bar on a terminal, a line every ten seconds elsewhere, or nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn, Protocol, TextIO

from tqdm import tqdm

from attribeam.pipeline.audit_options import LOCAL
from attribeam.pipeline.metrics import RunMetrics
from attribeam.pipeline.run_record import REPORT_PAGE
from attribeam.schemas import VERDICTS, AnswerKind, Support
from attribeam.schemas.run_manifest import AuditCounts, RunManifest

_LINE_SECONDS = 10
_MIN_ROWS_FOR_SPEED = 20


class Progress(Protocol):
    """Shows how many rows are finished."""

    def start(self, *, total: int, finished: int) -> None:
        """``finished`` of ``total`` rows were finished by an earlier run."""

    def advance(self, rows: int) -> None:
        """Add finished rows: negative if a worker was lost with its rows, 0 to refresh the display."""

    def note(self, text: str) -> None:
        """Tell the user of a problem that does not stop the audit."""

    def close(self) -> None:
        """Stop showing progress."""


class SilentProgress:
    """Prints problems only."""

    def start(self, *, total: int, finished: int) -> None:
        """See ``Progress``."""

    def advance(self, rows: int) -> None:
        """See ``Progress``."""

    def note(self, text: str) -> None:
        """See ``Progress``."""
        _print_line(f"audit: {text}", sys.stderr)

    def close(self) -> None:
        """See ``Progress``."""


class BarProgress:
    """A tqdm bar: rows, rows/s over the whole run, and time left."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: tqdm[NoReturn] | None = None

    def start(self, *, total: int, finished: int) -> None:
        """See ``Progress``."""
        with suppress(OSError):
            self._bar = tqdm(
                total=total,
                initial=finished,
                unit=" rows",
                smoothing=0,
                file=self._stream,
                desc="audit",
                dynamic_ncols=True,
            )

    def advance(self, rows: int) -> None:
        """See ``Progress``."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.update(rows)
                self._bar.refresh()

    def note(self, text: str) -> None:
        """See ``Progress``."""
        with suppress(OSError):
            tqdm.write(f"audit: {text}", file=self._stream)

    def close(self) -> None:
        """See ``Progress``."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()


class LineProgress:
    """One line every ten seconds, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = self._initial = self._finished = 0
        self._started = self._printed = time.monotonic()

    def start(self, *, total: int, finished: int) -> None:
        """See ``Progress``."""
        self._total, self._initial, self._finished = total, finished, finished
        self._started = self._printed = time.monotonic()
        _print_line(f"audit: {finished:,} of {total:,} rows are finished", self._stream)

    def advance(self, rows: int) -> None:
        """See ``Progress``."""
        self._finished += rows
        now = time.monotonic()
        if now - self._printed >= _LINE_SECONDS:
            self._printed = now
            seconds = now - self._started
            _print_line(progress_line(self._finished, self._total, self._initial, seconds), self._stream)

    def note(self, text: str) -> None:
        """See ``Progress``."""
        _print_line(f"audit: {text}", self._stream)

    def close(self) -> None:
        """See ``Progress``."""


def _print_line(text: str, stream: TextIO) -> None:
    """Print a line, or nothing if the stream cannot be written to, such as a closed terminal."""
    with suppress(OSError):
        print(text, file=stream, flush=True)


def print_result(text: str) -> None:
    """Print the summary of a finished audit; the audit stays finished if standard output cannot be written to."""
    try:
        print(text, flush=True)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            reason = f"the audit is done, but its summary cannot be printed: {error.strerror}"
            _print_line(f"attribeam audit: {reason}", sys.stderr)
        _discard_output()


def _discard_output() -> None:
    """Keep Python from writing it again when it exits, which would change the exit code."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def choose_progress(*, quiet: bool, stream: TextIO | None = None) -> Progress:
    """A bar on a terminal, lines elsewhere, only problems if ``quiet``; on standard error by default."""
    if quiet:
        return SilentProgress()
    stream = sys.stderr if stream is None else stream
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


def progress_line(finished: int, total: int, initial: int, seconds: float) -> str:
    """Finished rows and their share; also rows/s of this run and time left, once enough rows are finished."""
    share = finished / total if total else 1
    line = f"audit: {finished:,} of {total:,} rows ({share:.0%})"
    own_rows = finished - initial
    if own_rows < _MIN_ROWS_FOR_SPEED or seconds <= 0:
        return line
    rate = own_rows / seconds
    return f"{line}, {rate:.1f} rows/s, {readable_duration((total - finished) / rate)} left"


def readable_duration(seconds: float) -> str:
    """``42 s``, ``3 min 05 s`` or ``2 h 07 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def summary_text(metrics: RunMetrics, *, output: str, earlier_rows: int = 0, page: bool = False) -> str:
    """Rows, claims, answers, speed and output files in aligned lines.

    ``earlier_rows`` were finished by an earlier run. ``page`` says whether the user wants ``report.html``.
    """
    manifest = metrics.manifest
    counts = [*_row_lines(manifest.counts), "", *_claim_lines(metrics), *_answer_lines(metrics)]
    places = [*_page_line(manifest, output, asked=page), *_place_lines(output), *_hints(manifest.counts)]
    return "\n".join([*_headline(manifest, earlier_rows), "", *counts, *_remarks(manifest), "", *places])


def _headline(manifest: RunManifest, earlier_rows: int) -> Iterator[str]:
    loading = readable_duration(manifest.load_seconds)
    speed = f"{manifest.rows_per_second:,.1f} rows/s after {loading} of loading"
    if manifest.counts.rows <= earlier_rows:
        speed = "nothing left to do"
    yield f"Audit {manifest.status} in {readable_duration(manifest.seconds)} ({speed})"
    if earlier_rows:
        yield f"{earlier_rows:,} of {manifest.counts.rows:,} rows were finished by an earlier run"


def _row_lines(counts: AuditCounts) -> Iterator[str]:
    yield _count_line("rows read", counts.rows)
    yield _count_line("  audited", counts.audited, _share_text(counts.audited, counts.rows))
    yield _count_line("  dead-lettered", counts.dead_lettered, _share_text(counts.dead_lettered, counts.rows))
    for letter in sorted(counts.dead_letters, key=lambda one: (-one.rows, one.reason)):
        yield _count_line(f"    {letter.reason}", letter.rows)


def _claim_lines(metrics: RunMetrics) -> Iterator[str]:
    counts = metrics.manifest.counts
    yield _count_line("target spans", counts.span_count)
    yield _count_line("claims", counts.claim_count)
    for support in (*VERDICTS, Support.NOT_CALIBRATED):
        if (claims := metrics.claims(support)) or support in VERDICTS:
            yield _count_line(f"  {support}", claims, _share_text(claims, counts.claim_count))
    if metrics.evidence is not None and (isolated := metrics.evidence.isolated_spans):
        yield _count_line("  isolated", isolated, _share_text(isolated, counts.claim_count))
    if none := metrics.claims(Support.NO_CLAIM):
        yield _count_line("no claim", none)
    if counts.not_judged_count:
        yield _count_line("not judged", counts.not_judged_count)
    for kind, spans in counts.not_judged.items():
        yield _count_line(f"  {kind}", spans)


def _answer_lines(metrics: RunMetrics) -> Iterator[str]:
    """Refusals and risks, where there are any."""
    refusals, partial = metrics.answers(AnswerKind.REFUSAL), metrics.answers(AnswerKind.PARTIAL)
    if refusals:
        yield _count_line("refusals", refusals, _share_text(refusals, metrics.manifest.counts.audited))
    if partial:
        yield _count_line("refusals in part", partial, _share_text(partial, metrics.manifest.counts.audited))
    risks = None if metrics.evidence is None else metrics.evidence.risks
    if risks is not None and risks.answers:
        yield _count_line("answers at risk", risks.at_risk, _share_text(risks.at_risk, risks.answers))
        yield f"{'mean answer risk':<28}{risks.risk / risks.answers:>12.2f}"


def _remarks(manifest: RunManifest) -> Iterator[str]:
    """Why there are no verdicts, or not all."""
    if manifest.counts.by_support.get(Support.NOT_CALIBRATED, 0):
        model = manifest.models.get("model", "this model")
        yield f"support: not_calibrated: nothing says how much evidence is enough with {model}, see docs/models.md"


def _page_line(manifest: RunManifest, output: str, *, asked: bool) -> Iterator[str]:
    """Where the page is; with another runner, which writes none, how to get one."""
    root = output.rstrip("/")
    if asked and manifest.runner == LOCAL:
        yield f"page to look at {root}/{REPORT_PAGE}"
    elif asked:
        where = "copy the output here, then " if "://" in root else ""
        yield f"page to look at none with --runner; {where}attribeam report --audit {root} --output {REPORT_PAGE}"


def _place_lines(output: str) -> Iterator[str]:
    root = output.rstrip("/")
    yield f"evidence        {root}/evidence/*.parquet"
    yield f"dead letters    {root}/dead_letters/*.parquet"
    yield f"run manifest    {root}/run_manifest.json"
    yield f"metrics         {root}/metrics.json, {root}/metrics.prom"


def _hints(counts: AuditCounts) -> Iterator[str]:
    """Which records to look at first."""
    looks = [
        (counts.by_support.get(Support.UNSUPPORTED, 0), "claim", " with support = 'unsupported'"),
        (counts.dead_lettered, "dead letter", " and the reasons"),
    ]
    worth = [f"the {count:,} {what}{'s' * (count > 1)}{which}" for count, what, which in looks if count]
    if worth:
        yield ""
        yield f"Look first at {', then at '.join(worth)}."


def _count_line(name: str, count: int, share: str = "") -> str:
    return f"{name:<28}{count:>12,}{share:>9}"


def _share_text(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""
