"""How an audit tells its progress: a bar on a terminal, a line every ten seconds elsewhere, events, or nothing."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import NoReturn, TextIO

from tqdm import tqdm

from attribeam.report.messages import ConsoleKind, event_line, one_line, print_line

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
            tqdm.write(one_line(f"audit: {text}"), file=self._stream)

    def close(self) -> None:
        """See ``Progress``."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()


class LineProgress(Progress):
    """One line every ten seconds, for logs."""

    def start(self, *, total: int, finished: int) -> None:
        """See ``Progress``."""
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
        """See ``Progress``."""
        super().start(total=total, finished=finished)
        self._print("start", rows=total, finished=finished)

    def note(self, text: str) -> None:
        """See ``Progress``."""
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
