"""Which passages answers draw on, and which are retrieved in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SHOWN_PASSAGES = 8


@dataclass(frozen=True, slots=True)
class PassageUse:
    """One passage by its id: answers with evidence in it, and rows of the logs that retrieved it.

    ``retrieved`` is None where the logs cannot be read.
    """

    passage_id: str
    answers: int
    retrieved: int | None


@dataclass(frozen=True, slots=True)
class PassageRanking:
    """Passages with the most answers; and those with the smallest share of use, most often retrieved first.

    ``least_used`` is empty where the logs cannot be read. ``passage_count`` is the number of different ids.
    """

    most_used: tuple[PassageUse, ...]
    least_used: tuple[PassageUse, ...]
    passage_count: int


class PassageTally:
    """Counts, batch by batch, the answers that have evidence in a passage; memory grows with the number of ids.

    An answer is counted once a passage where its spans stand together, as they do in a local run's files.
    """

    columns: tuple[str, ...] = ("source_file", "source_row", "evidence.passage_id")

    def __init__(self) -> None:
        self._answers: Counter[str] = Counter()
        self._last: set[tuple[str, int, str]] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        pairs = _distinct_pairs(batch)
        repeated = self._last.intersection(pairs)
        self._answers.update(pair[2] for pair in pairs)
        self._answers.subtract(pair[2] for pair in repeated)
        if pairs:
            self._last = {pair for pair in pairs if pair[:2] == pairs[-1][:2]}

    def result(self, retrieved: Mapping[str, int] | None) -> PassageRanking:
        """The rankings; ``retrieved`` has rows by id, None where the logs cannot be read."""
        known = retrieved or {}
        ids = {*self._answers, *known}
        uses = [PassageUse(one, self._answers[one], known.get(one) if retrieved else None) for one in ids]
        most = sorted((use for use in uses if use.answers), key=lambda use: (-use.answers, use.passage_id))
        least = [use for use in uses if use.retrieved and use.retrieved > use.answers]
        least.sort(key=lambda use: (use.answers / (use.retrieved or 1), -(use.retrieved or 0), use.passage_id))
        return PassageRanking(tuple(most[:SHOWN_PASSAGES]), tuple(least[:SHOWN_PASSAGES]), len(uses))


def _distinct_pairs(batch: pa.RecordBatch) -> list[tuple[str, int, str]]:
    """Distinct (file, row, passage id) of the evidence, in the order of the spans."""
    evidence = batch.column("evidence")
    lengths = pc.list_value_length(evidence).to_numpy(zero_copy_only=False)
    spans = pa.array(np.repeat(np.arange(batch.num_rows), lengths))
    ids = pc.struct_field(pc.list_flatten(evidence), "passage_id")
    table = pa.table(
        {
            "file": batch.column("source_file").take(spans),
            "row": batch.column("source_row").take(spans),
            "passage": ids,
        }
    )
    table = table.filter(pc.is_valid(table["passage"]))
    groups = table.group_by(["file", "row", "passage"], use_threads=False).aggregate([])
    members = (groups[name].to_pylist() for name in ("file", "row", "passage"))
    return list(zip(*members, strict=True))
