"""How far a run is: a bar on a terminal, a plain line now and then elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from typing import NoReturn, Protocol, TextIO

from tqdm import tqdm

_LINE_SECONDS = 10
_TELLING_ROWS = 20


class Progress(Protocol):
    """Hears of rows that have their outcome; ``advance`` may be negative when a worker's rows were lost."""

    def start(self, *, total: int, finished: int) -> None:
        """``finished`` of ``total`` rows stand already."""

    def advance(self, rows: int) -> None:
        """So many more rows are finished; 0 says only that time goes by."""

    def close(self) -> None:
        """No more rows come."""


class SilentProgress:
    """Says nothing."""

    def start(self, *, total: int, finished: int) -> None:
        """See ``Progress``."""

    def advance(self, rows: int) -> None:
        """See ``Progress``."""

    def close(self) -> None:
        """See ``Progress``."""


class BarProgress:
    """A tqdm bar with rows, rows/s over the whole run, and time left."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: tqdm[NoReturn] | None = None

    def start(self, *, total: int, finished: int) -> None:
        """See ``Progress``."""
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
            self._bar.update(rows)
            self._bar.refresh()

    def close(self) -> None:
        """See ``Progress``."""
        if self._bar is not None:
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
        print(f"audit: {finished:,} of {total:,} rows are finished", file=self._stream, flush=True)

    def advance(self, rows: int) -> None:
        """See ``Progress``."""
        self._finished += rows
        now = time.monotonic()
        if now - self._printed >= _LINE_SECONDS:
            self._printed = now
            seconds = now - self._started
            print(progress_line(self._finished, self._total, self._initial, seconds), file=self._stream, flush=True)

    def close(self) -> None:
        """See ``Progress``."""


def choose_progress(*, quiet: bool, stream: TextIO | None = None) -> Progress:
    """A bar where somebody watches, lines where not, nothing where it was asked for; on standard error by default."""
    if quiet:
        return SilentProgress()
    stream = sys.stderr if stream is None else stream
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


def progress_line(finished: int, total: int, initial: int, seconds: float) -> str:
    """Rows and share; rows/s of this run and time left once there are enough rows to tell."""
    share = finished / total if total else 1
    line = f"audit: {finished:,} of {total:,} rows ({share:.0%})"
    own_rows = finished - initial
    if own_rows < _TELLING_ROWS or seconds <= 0:
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
