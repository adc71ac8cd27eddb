"""Whether an audit's passages were stored cut, told from a sample of them that chunks take and a run merges."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Annotated

from pydantic import Field

_SAMPLED = 64
_MARKS = re.compile(r"\s*[\[(]?(?:\.{3,}|…)[\])]?\s*\Z")
_UNITS = {"characters": 50, "bytes": 50, "words": 20}
"""Each with the fewest of a cut text: shorter texts of one length are headings, or rows of a table."""
_FEWEST_CUT = 4
_LEAST_SHARE = 0.1
_LEAST_COMMON_SHARE = 0.3
_LEAST_OPEN_SHARE = 0.5

_Number = Annotated[int, Field(ge=0, le=2**63 - 1)]


@dataclass(frozen=True, slots=True, order=True)
class PassageEnd:
    """How long one passage is and how it ends.

    Attributes:
        key: 24 bits of a digest of its text, which tell that it is another one and nothing of what it says.
        characters: code points, as ``bytes`` and ``words`` with what was put at the end in place of the rest.
        is_open: ends with a letter.
        is_marked: ends with "..." or its like.
    """

    key: _Number
    characters: _Number
    bytes: _Number
    words: _Number
    is_open: bool
    is_marked: bool


@dataclass(frozen=True, slots=True)
class CutPassages:
    """Passages of a run that seem to be cut.

    Attributes:
        passages: how many of those that were ``sampled`` are.
        sampled: different passages that were looked at.
        unit: what their length is measured in, "characters", "bytes" or "words"; None where all that they have in
            common is the mark at their end.
        length: of each; None as above.
    """

    passages: _Number
    sampled: _Number
    unit: str | None = None
    length: _Number | None = None

    def __str__(self) -> str:
        found = f"{self.passages} of {self.sampled} passages that were sampled end "
        found += 'in "..."' if self.unit is None else f"after {self.length} {self.unit}, in the middle of a sentence"
        return (
            f"{found}: the log seems to store passages cut, so claims may be unsupported only because what supports "
            "them is not in the log; log whole passages (pieces that the application itself retrieved are no fault)"
        )


def sample_passages(texts: Iterable[str], earlier: Iterable[PassageEnd] = ()) -> tuple[PassageEnd, ...]:
    """The sample of these texts and of an ``earlier`` one together, see ``merge_samples``."""
    found = heapq.nsmallest(_SAMPLED, ((_key_of(text), text) for text in set(texts)))
    return merge_samples([tuple(earlier), tuple(_end_of(key, text) for key, text in found)])


def merge_samples(samples: Iterable[Iterable[PassageEnd]]) -> tuple[PassageEnd, ...]:
    """The sample of all passages of which these are samples: the 64 different ones with the lowest keys, ascending."""
    found = {one.key: one for one in sorted(chain.from_iterable(samples), reverse=True)}
    return tuple(found[key] for key in sorted(found)[:_SAMPLED])


def cut_passages(sample: Iterable[PassageEnd]) -> CutPassages | None:
    """What is cut in a sample; None where nothing seems so.

    Cut are passages of one length that end with a letter or a mark where none is longer, or many have this length;
    and passages that end with a mark, if many do.
    """
    ends = tuple(sample)
    cut = (_cut_at(unit, ends) for unit in _UNITS)
    found = next((one for one in cut if one is not None), None)
    marked = sum(one.is_marked for one in ends)
    if found is None and marked >= max(_FEWEST_CUT, _LEAST_COMMON_SHARE * len(ends)):
        return CutPassages(marked, len(ends))
    return found


def _key_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=3).digest())


def _end_of(key: int, text: str) -> PassageEnd:
    is_marked = _MARKS.search(text) is not None
    return PassageEnd(key, len(text), len(text.encode()), len(text.split()), text[-1:].isalpha(), is_marked)


def _cut_at(unit: str, ends: tuple[PassageEnd, ...]) -> CutPassages | None:
    lengths = [int(getattr(one, unit)) for one in ends]
    open_ended = Counter(length for length, one in zip(lengths, ends, strict=True) if one.is_open or one.is_marked)
    if not open_ended:
        return None
    length, count = max(open_ended.items(), key=lambda one: (one[1], one[0]))
    share = _LEAST_SHARE if length == max(lengths) and unit != "words" else _LEAST_COMMON_SHARE
    if length < _UNITS[unit] or count < max(_FEWEST_CUT, share * len(ends)):
        return None
    if unit == "words" and length < max(lengths):
        return None
    return CutPassages(count, len(ends), unit, length) if count >= _LEAST_OPEN_SHARE * lengths.count(length) else None
