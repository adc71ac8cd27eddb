"""What passages are called: their titles, and which ids name another passage in every row."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from attribeam.schemas import QARecord

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class PassageNames:
    """What some rows say about passages.

    Attributes:
        titles: the first title by id.
        row_shapes: ids that number the passages of a row, such as ``source1``, with their digits left out.
    """

    titles: Mapping[str, str] = field(default_factory=dict)
    row_shapes: frozenset[str] = frozenset()

    def is_per_row(self, passage_id: str) -> bool:
        """Whether the id names another passage in every row, so that its uses cannot be added up."""
        return _shape(passage_id) in self.row_shapes


def passage_names(records: Iterable[QARecord]) -> PassageNames:
    """The names of the passages of some rows, each row once.

    An id is one of a row if more than half of the rows that have it give it a text of its own. A shape (the id without
    its digits) is one of rows if that is so for most of its ids that occur in several rows.
    """
    titles: dict[str, str] = {}
    rows: Counter[str] = Counter()
    texts: defaultdict[str, set[int]] = defaultdict(set)
    for record in records:
        own = {one.passage_id: one for one in record.passages if one.passage_id is not None}
        for passage_id, passage in own.items():
            rows[passage_id] += 1
            texts[passage_id].add(hash(passage.text))
            if passage.title:
                titles.setdefault(passage_id, passage.title)
    repeated = [one for one, count in rows.items() if count > 1]
    votes = Counter(_shape(one) for one in repeated)
    per_row = Counter(_shape(one) for one in repeated if len(texts[one]) > max(1, rows[one] / 2))
    return PassageNames(titles, frozenset(shape for shape, count in per_row.items() if count > votes[shape] / 2))


def _shape(passage_id: str) -> str:
    return _DIGITS.sub("0", passage_id)
