"""The unit of reading: a range of rows of one Parquet file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows ``[row_start, row_end)`` of ``file`` (0-based within the file).

    ``duplicate_rows`` are the rows of this range whose record_id stands earlier in the same file, ascending; they
    are found when the run is planned, because a range sees only itself.
    """

    file: str
    row_start: int
    row_end: int
    duplicate_rows: tuple[int, ...] = ()

    @property
    def row_count(self) -> int:
        """Number of rows in the range."""
        return self.row_end - self.row_start
