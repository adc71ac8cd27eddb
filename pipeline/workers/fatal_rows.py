"""Bisection: which rows of a range end the process that works on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attribeam.schemas.errors import RunError

_ENOUGH_FATAL_ROWS = 3


@dataclass(eq=False)
class FatalRowSearch:
    """Tries ever smaller ranges of rows, each in a process that may end.

    Attributes:
        run: works on rows from a first to an end; how the process ended ("signal SIGKILL"), or None if it did not.
        blame: one sentence for the user about a row, and how it ended its process.
        fatal: the rows that were found to end a process on their own, and how it ended.
    """

    run: Callable[[int, int], str | None]
    blame: Callable[[int, str], str]
    fatal: dict[int, str] = field(default_factory=dict)
    _survivors: int = 0

    def search(self, start: int, end: int, how: str) -> None:
        """Bisect rows that have ended a process together.

        Raises:
            RunError: if so many rows end a process that the cause must lie elsewhere.
        """
        if end - start == 1:
            self.fatal[start] = how
            self._check_blame(start, how)
            return
        middle = (start + end) // 2
        for first, last in ((start, middle), (middle, end)):
            ended = self.run(first, last)
            if ended is None:
                self._survivors += last - first
            else:
                self.search(first, last, ended)

    def _check_blame(self, row: int, how: str) -> None:
        if len(self.fatal) >= _ENOUGH_FATAL_ROWS and len(self.fatal) > self._survivors:
            raise RunError(
                f"{self.blame(row, how)} So did {len(self.fatal) - 1} rows before it, each on its own: the cause seems "
                "to lie outside the rows; --verbose may show it."
            )
