"""Spans of any number of traces, in any order, grouped by trace with little memory: their content lies on disk."""

from __future__ import annotations

import pickle
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from attribeam.logs.qa_log import temporary_file_failed
from attribeam.logs.traces.trace_records import Span
from attribeam.schemas import RowFault

MOST_SPANS = 20_000
MOST_BYTES = 1 << 28
"""The largest trace that is read into memory: 20,000 spans of together 256 MiB."""


@dataclass(frozen=True, slots=True)
class SpooledTrace:
    """One trace: the file and line where it first appears, and its spans in the order of the export.

    ``spans`` is None where there are more than ``MOST_SPANS``, or than fit into ``MOST_BYTES``. A record that could
    not be read has a ``fault`` and no spans.
    """

    file: int
    place: str
    trace_id: str | None
    spans: list[Span] | None
    fault: RowFault | None = None


class TraceSpool:
    """Takes spans, and gives traces in the order in which they first appear. Keeps 16 bytes per span in memory.

    A context manager: the temporary file, which is as large as the texts of the spans, goes when it is left. Where it
    cannot be written, that is a ``RunError``.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="attribeam-traces-")  # noqa: SIM115 - closed in __exit__
        self._traces = array("Q")
        self._starts = array("Q")
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what could not be written cannot be written now
            self._file.close()

    @property
    def span_count(self) -> int:
        """Spans and faulty records so far."""
        return len(self._starts)

    def add(self, file: int, place: str, entry: Span | RowFault) -> None:
        """Keep a span, or the fault of a record that belongs to no known trace."""
        key = f"\0{len(self._starts)}" if isinstance(entry, RowFault) else entry.trace_id
        content = (entry.reason, str(entry), entry.column) if isinstance(entry, RowFault) else tuple(entry)
        self._traces.append(int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest()))
        self._starts.append(self._end)
        try:
            self._end += self._file.write(pickle.dumps((file, place, content), protocol=pickle.HIGHEST_PROTOCOL))
        except OSError as error:
            raise temporary_file_failed(error) from error

    def traces(self) -> Iterator[SpooledTrace]:
        """Every trace once."""
        try:
            self._file.flush()
        except OSError as error:
            raise temporary_file_failed(error) from error
        if not len(self._starts):
            return
        hashes, starts = np.frombuffer(self._traces, np.uint64), np.frombuffer(self._starts, np.uint64)
        order = np.argsort(hashes, kind="stable")
        heads = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[0]]))
        ends = np.append(heads[1:], len(order))
        for group in np.argsort(order[heads], kind="stable"):
            yield from self._group(starts, order[heads[group] : ends[group]])

    def _group(self, starts: npt.NDArray[np.uint64], members: npt.NDArray[np.int64]) -> Iterator[SpooledTrace]:
        """The traces whose ids have one hash, which is nearly always one trace."""
        if len(members) > MOST_SPANS or self._bytes_of(starts, members) > MOST_BYTES:
            file, place, content = self._read(starts[members[0]])
            yield SpooledTrace(file, place, content[0], None)
            return
        traces: dict[str | None, SpooledTrace] = {}
        for member in members:
            file, place, content = self._read(starts[member])
            if len(content) == 3:
                yield SpooledTrace(file, place, None, [], RowFault(content[0], content[1], column=content[2]))
                continue
            span = Span(*content)
            trace = traces.setdefault(span.trace_id, SpooledTrace(file, place, span.trace_id, []))
            if trace.spans is not None:
                trace.spans.append(span)
        yield from traces.values()

    def _bytes_of(self, starts: npt.NDArray[np.uint64], members: npt.NDArray[np.int64]) -> int:
        following = np.minimum(members + 1, len(starts) - 1)
        ends = np.where(members + 1 < len(starts), starts[following], np.uint64(self._end))
        return int((ends - starts[members]).sum())

    def _read(self, start: np.uint64) -> tuple[int, str, tuple]:  # type: ignore[type-arg]
        self._file.seek(int(start))
        loaded: tuple[int, str, tuple] = pickle.load(self._file)  # type: ignore[type-arg]
        return loaded
