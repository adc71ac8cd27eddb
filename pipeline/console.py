"""What an audit prints: how far it is, and at its end a summary for people, or one line for machines."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, NoReturn, TextIO

from tqdm import tqdm

from attribeam.pipeline.audit_options import RunOptions
from attribeam.pipeline.metrics import FinishedRun, RunMetrics, metrics_fields
from attribeam.pipeline.output_directory import REPORT_PAGE
from attribeam.report.audit_summary import MEASURED_ON, fitted_verdict
from attribeam.report.messages import ConsoleKind, event_line, one_line, print_line, print_lines
from attribeam.report.overview import disagreement
from attribeam.schemas import VERDICTS, AnswerKind, SpanKind, Support
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import AuditCounts, ReadingNote

_LINE_SECONDS = 10
_MIN_ROWS_FOR_SPEED = 20


class Progress:
    """Shows how many rows are finished; this one shows problems only."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = self._initial = self._finished = 0
        self._started = self._printed = time.monotonic()

    def start(self, *, total: int, finished: int) -> None:
        """``finished`` of ``total`` rows were finished by an earlier run."""
        self._total, self._initial, self._finished = total, finished, finished
        self._started = self._printed = time.monotonic()

    def advance(self, rows: int) -> None:
        """Add finished rows: negative if a worker was lost with its rows, 0 to refresh the display."""
        self._finished += rows
        now = time.monotonic()
        if now - self._printed >= _LINE_SECONDS:
            self._printed = now
            self._show(now - self._started)

    def note(self, text: str) -> None:
        """Tell the user of a problem that does not stop the audit."""
        print_line(f"audit: {text}", self._stream)

    def close(self) -> None:
        """Stop showing progress."""

    def _show(self, seconds: float) -> None:
        """Tell how far it is, every ten seconds."""


class BarProgress(Progress):
    """A tqdm bar: rows, rows/s over the whole run, and time left."""

    _bar: tqdm[NoReturn] | None = None

    def start(self, *, total: int, finished: int) -> None:
        shown: Any = {"unit": " rows", "smoothing": 0, "desc": "audit", "dynamic_ncols": True}
        with suppress(OSError):
            self._bar = tqdm(total=total, initial=finished, file=self._stream, **shown)

    def advance(self, rows: int) -> None:
        with suppress(OSError):
            if self._bar is not None:
                self._bar.update(rows)
                self._bar.refresh()

    def note(self, text: str) -> None:
        with suppress(OSError):
            tqdm.write(one_line(f"audit: {text}"), file=self._stream)

    def close(self) -> None:
        with suppress(OSError):
            if self._bar is not None:
                self._bar.close()


class LineProgress(Progress):
    """One line every ten seconds, for logs."""

    def start(self, *, total: int, finished: int) -> None:
        super().start(total=total, finished=finished)
        print_line(f"audit: {finished:,} of {total:,} rows are finished", self._stream)

    def _show(self, seconds: float) -> None:
        print_line(progress_line(self._finished, self._total, self._initial, seconds), self._stream)


class JsonProgress(Progress):
    """Events for machines: ``start``, ``progress`` every ten seconds, and ``note``; only notes if ``quiet``."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        super().__init__(stream)
        self._quiet = quiet

    def start(self, *, total: int, finished: int) -> None:
        super().start(total=total, finished=finished)
        self._print("start", rows=total, finished=finished)

    def note(self, text: str) -> None:
        print_line(event_line("note", message=text), self._stream)

    def _show(self, seconds: float) -> None:
        rate = measured_rate(self._finished - self._initial, seconds)
        left = None if rate is None else round((self._total - self._finished) / rate, 1)
        speed = None if rate is None else round(rate, 3)
        self._print("progress", rows=self._total, finished=self._finished, rows_per_second=speed, seconds_left=left)

    def _print(self, event: str, **fields: object) -> None:
        if not self._quiet:
            print_line(event_line(event, **fields), self._stream)


def choose_progress(*, quiet: bool, console: ConsoleKind = ConsoleKind.TEXT, stream: TextIO | None = None) -> Progress:
    """A bar on a terminal, lines elsewhere, only problems if ``quiet``; on standard error by default."""
    stream = sys.stderr if stream is None else stream
    if console is ConsoleKind.JSON:
        return JsonProgress(stream, quiet=quiet)
    if quiet:
        return Progress(stream)
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


def progress_line(finished: int, total: int, initial: int, seconds: float) -> str:
    """Finished rows and their share; also rows/s of this run and time left, once enough rows are finished."""
    share = finished / total if total else 1
    line = f"audit: {finished:,} of {total:,} rows ({share:.0%})"
    rate = measured_rate(finished - initial, seconds)
    if rate is None:
        return line
    return f"{line}, {rate:.1f} rows/s, {readable_duration((total - finished) / rate)} left"


def measured_rate(rows: int, seconds: float) -> float | None:
    """Rows per second; None while there are too few rows to tell."""
    return None if rows < _MIN_ROWS_FOR_SPEED or seconds <= 0 else rows / seconds


def readable_duration(seconds: float) -> str:
    """``42 s``, ``3 min 05 s`` or ``2 h 07 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def print_outcome(finished: FinishedRun, options: RunOptions, *, earlier_rows: int = 0) -> None:
    """Print what a finished run found, for people or for machines; nothing if ``--quiet``.

    ``earlier_rows`` were finished by an earlier run. The audit stays finished where standard output cannot be written.
    """
    if options.quiet:
        return
    if options.console is ConsoleKind.JSON:
        own: Any = {"output": options.output, "exit_code": finished.exit_code, "earlier_rows": earlier_rows}
        lines = [event_line("result", **own, **metrics_fields(finished.metrics, finished.verdicts))]
    else:
        lines = summary_lines(finished.metrics, output=options.output, earlier_rows=earlier_rows, page=options.report)
    try:
        print_lines(*lines)
    except RunError as error:
        options.messages.say(f"the audit is done, but its summary cannot be printed: {error}")


def summary_lines(metrics: RunMetrics, *, output: str, earlier_rows: int = 0, page: bool = False) -> list[str]:
    """Rows, claims, answers, speed and output files in aligned lines.

    ``earlier_rows`` were finished by an earlier run. ``page`` says whether the user wants ``report.html``.
    """
    manifest, counts, root = metrics.manifest, metrics.counts, output.rstrip("/")
    speed = f"{manifest.rows_per_second:,.1f} rows/s after {readable_duration(manifest.load_seconds)} of loading"
    speed = speed if counts.rows > earlier_rows else "nothing left to do"
    earlier = f"{earlier_rows:,} of {counts.rows:,} rows were finished by an earlier run"
    return [
        f"Audit {manifest.status} in {readable_duration(manifest.seconds)} ({speed})",
        *[earlier] * bool(earlier_rows),
        "",
        *_row_lines(counts),
        "",
        *_claim_lines(metrics),
        *_answer_lines(metrics),
        *_remarks(metrics),
        "",
        *[f"page to look at {root}/{REPORT_PAGE}"] * page,
        f"evidence        {root}/evidence/*.parquet",
        f"dead letters    {root}/dead_letters/*.parquet",
        f"run manifest    {root}/run_manifest.json",
        f"metrics         {root}/metrics.json, {root}/metrics.prom",
        *_hints(counts),
    ]


def _row_lines(counts: AuditCounts) -> Iterator[str]:
    yield _count_line("rows read", counts.rows)
    yield _count_line("  audited", counts.audited, counts.rows)
    if counts.rows_asked is not None and counts.rows_asked < counts.audited:
        yield _count_line("    in the verdict's band", counts.rows_asked, counts.rows)
    if counts.rows_unread:
        yield _count_line("    too long for the verdict", counts.rows_unread, counts.rows)
    yield _count_line("  dead-lettered", counts.dead_lettered, counts.rows)
    for letter in sorted(counts.dead_letters, key=lambda letter: (-letter.rows, letter.reason)):
        yield _count_line(f"    {letter.reason}", letter.rows)


def _claim_lines(metrics: RunMetrics) -> Iterator[str]:
    counts = metrics.manifest.counts
    yield _count_line("claims", counts.claim_count)
    evidence = metrics.evidence
    # The supported claims by how, the unsupported ones by reason, where the verdict told, most first.
    told = {} if evidence is None else {Support.SUPPORTED: evidence.hows, Support.UNSUPPORTED: evidence.reasons}
    for support in (*VERDICTS, Support.NOT_CALIBRATED):
        if (claims := metrics.claims(support)) or support in VERDICTS:
            yield _count_line(f"  {support}", claims, counts.claim_count)
        for why, claims in sorted(told.get(support, {}).items(), key=lambda pair: (-pair[1], pair[0])):
            yield _count_line(f"    {why}", claims)
    if evidence is not None and evidence.isolated_spans:
        yield _count_line("  isolated", evidence.isolated_spans, counts.claim_count)
    if evidence is not None and (cited := evidence.citations.told):
        yield _count_line("  with a citation", cited, counts.claim_count)
        yield _count_line("    evidence lies there", evidence.citations.agreeing, cited)
    if none := metrics.claims(Support.NO_CLAIM):
        yield _count_line("spans without a claim", none)
    if counts.not_judged_count:
        yield _count_line("spans not judged", counts.not_judged_count)
    for kind, spans in counts.not_judged.items():
        yield _count_line(f"  {kind}", spans)


def _answer_lines(metrics: RunMetrics) -> Iterator[str]:
    for name, kind in (("refusals", AnswerKind.REFUSAL), ("refusals in part", AnswerKind.PARTIAL)):
        if answers := metrics.answers(kind):
            yield _count_line(name, answers, metrics.counts.audited)
    risks = None if metrics.evidence is None else metrics.evidence.risks
    if risks is not None and risks.answers:
        yield _count_line("answers at risk", risks.at_risk, risks.answers, f" of {risks.answers:,} with claims")
        yield f"{'mean answer risk':<28}{risks.risk / risks.answers:>12.2f}"


def _remarks(metrics: RunMetrics) -> Iterator[str]:
    """What was a choice when the logs were read, what judged the answers, and what to mind about spans and verdicts."""
    manifest, evidence = metrics.manifest, metrics.evidence
    notes = Counter[str]()
    for note in chain.from_iterable(file.notes for file in manifest.inputs):
        notes[note.note] += note.rows
    yield from (f"note: {ReadingNote(note, rows)}" for note, rows in notes.items())
    if manifest.cut_passages is not None:
        yield f"note: {manifest.cut_passages}"
    if verdict := fitted_verdict(manifest.models):
        yield f"{verdict}: measured on {manifest.models.get(MEASURED_ON, 'nothing, see docs/verifiers.md')}"
    if metrics.claims(Support.NOT_CALIBRATED):
        model = manifest.models.get("verifier", manifest.models.get("model", "this model"))
        yield (
            f"support: not_calibrated: nothing says from which score on {model} supports a claim; mark some and run "
            "attribeam calibrate, see docs/verifiers.md"
        )
    if evidence is None:
        return
    others = sum(count for (kind, _), count in evidence.spans.items() if kind != SpanKind.GIVEN)
    if others and manifest.options.get("span_kinds") == [SpanKind.GIVEN]:
        yield f"note: --spans given: {others:,} spans are the sentences of rows that give none"
    if warning := disagreement(evidence.words.told, evidence.words.agreeing):
        yield f"warning: {warning}"


def _hints(counts: AuditCounts) -> Iterator[str]:
    looks = [
        (counts.claims.get(Support.UNSUPPORTED, 0), "claim", " with support = 'unsupported'"),
        (counts.dead_lettered, "dead letter", " and the reasons"),
    ]
    worth = [f"the {count:,} {what}{'s' * (count > 1)}{which}" for count, what, which in looks if count]
    if worth:
        yield ""
        yield f"Look first at {', then at '.join(worth)}."


def _count_line(name: str, count: int, whole: int = 0, of: str = "") -> str:
    """A count, and its share of the ``whole`` where there is one."""
    share = f"{count / whole:.1%}{of}" if whole else ""
    return f"{name:<28}{count:>12,}  {share:>7}".rstrip()
