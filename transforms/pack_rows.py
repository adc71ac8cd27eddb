"""Gathering neighbouring rows into blocks, within a bundle and in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue


class PackRows(beam.DoFn):
    """Rows in, tuples of at most ``max_rows`` rows out; none is held back when a bundle ends.

    A block is closed as well when its weight reaches ``max_weight``; ``weigh`` gives the weight of one row.
    """

    def __init__(
        self, max_rows: int, *, weigh: Callable[[Any], int] | None = None, max_weight: int | None = None
    ) -> None:
        self._max_rows = max_rows
        self._weigh = weigh
        self._max_weight = max_weight

    def start_bundle(self) -> None:
        self._block: list[object] = []
        self._weight = 0

    def process(self, row: object) -> Iterator[tuple[object, ...]]:
        self._block.append(row)
        self._weight += self._weigh(row) if self._weigh else 0
        if len(self._block) >= self._max_rows or (self._max_weight is not None and self._weight >= self._max_weight):
            yield self._take()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._block:
            yield GlobalWindows.windowed_value(self._take())

    def _take(self) -> tuple[object, ...]:
        block, self._block, self._weight = tuple(self._block), [], 0
        return block
