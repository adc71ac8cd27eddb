"""Half-open ranges of Unicode code points."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class CharRange:
    """Half-open range of code points, ``text[char_start:char_end]``; never empty, never negative.

    Raises:
        ValueError: if not 0 <= char_start < char_end.
    """

    char_start: int
    char_end: int

    def __post_init__(self) -> None:
        if not 0 <= self.char_start < self.char_end:
            raise ValueError(
                f"a range should satisfy 0 <= char_start < char_end, was: [{self.char_start}, {self.char_end})"
            )

    def overlaps(self, other: CharRange) -> bool:
        """True where at least one code point is in both."""
        return self.char_start < other.char_end and other.char_start < self.char_end

    def of(self, text: str) -> str:
        """The characters of ``text`` in this range."""
        return text[self.char_start : self.char_end]
