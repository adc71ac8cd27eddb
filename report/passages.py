"""What passages are called, which ones answers draw on, by place in the prompt and by id, and which are in vain."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribeam.report.audited_logs import AuditedLogs, LogState
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


SHOWN_RANKS = 20


@dataclass(frozen=True, slots=True)
class RankUse:
    """Use of the passages at one place of the prompt; ``rank`` starts at 1.

    Attributes:
        offered: spans of answers that had a passage at this place.
        used: of these, spans with a score above 0 on it.
        best: of these, spans whose largest score is on it.
    """

    rank: int
    offered: int
    used: int
    best: int


class AgreementTally:
    """Counts the claims for which a column says yes or no, and those for which it says yes.

    ``citation_agrees`` says it of claims with a citation, ``evidence_agrees`` of those whose words passages have.
    """

    def __init__(self, column: str) -> None:
        self.columns: tuple[str, ...] = (column,)
        self.told = 0
        self.agreeing = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of claims."""
        agrees = pc.drop_null(batch.column(self.columns[0]))
        self.told += len(agrees)
        self.agreeing += pc.sum(agrees).as_py() or 0


_FEWEST_TOLD, _USUAL_AGREEMENT = 20, 0.75
"""Evidence of the bundled attributor lies with the words of 88% of such claims or more on every set we know."""


def disagreement(told: int, agreeing: int) -> str | None:
    """What to say where evidence often lies elsewhere than the words of the claims, None where it seldom does.

    Args:
        told: claims whose words some passage sentences have.
        agreeing: those whose evidence lies there.
    """
    if told < _FEWEST_TOLD or agreeing >= _USUAL_AGREEMENT * told:
        return None
    return (
        f"evidence and words disagree: for {told - agreeing:,} of {told:,} claims whose words the passages have, the "
        "evidence lies elsewhere; the model or method hardly looks at what the answers draw on, see docs/models.md"
    )


class RankTally:
    """Counts spans by place of the passage, up to ``SHOWN_RANKS``."""

    columns: tuple[str, ...] = ("passage_scores", "top_passage_index")

    def __init__(self) -> None:
        self._offered = np.zeros(SHOWN_RANKS, dtype=np.int64)
        self._used = np.zeros(SHOWN_RANKS, dtype=np.int64)
        self._best = np.zeros(SHOWN_RANKS, dtype=np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch of spans."""
        scores = batch.column("passage_scores")
        lengths = pc.list_value_length(scores).to_numpy(zero_copy_only=False)
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        ranks = np.arange(len(starts)) - starts
        self._offered += _rank_counts(ranks)
        self._used += _rank_counts(ranks[pc.list_flatten(scores).to_numpy(zero_copy_only=False) > 0])
        best = pc.drop_null(batch.column("top_passage_index")).to_numpy(zero_copy_only=False)
        self._best += _rank_counts(best.astype(np.int64))

    def result(self) -> tuple[RankUse, ...]:
        """One entry per rank that was offered at least once."""
        table = zip(self._offered.tolist(), self._used.tolist(), self._best.tolist(), strict=True)
        return tuple(RankUse(index + 1, *row) for index, row in enumerate(table) if row[0])


def _rank_counts(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.bincount(ranks[ranks < SHOWN_RANKS], minlength=SHOWN_RANKS)


SHOWN_PASSAGES = 8


@dataclass(frozen=True, slots=True)
class PassageUse:
    """One passage by its id: answers with evidence in it, and rows of the logs that retrieved it.

    ``retrieved`` is None where the logs cannot be read, ``title`` where it is not known.
    """

    passage_id: str
    answers: int
    retrieved: int | None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class PassageRanking:
    """The passages that most answers use, and those that the smallest share of their retrievals uses.

    ``least_used`` is empty if the logs cannot be read. ``passage_count`` is the number of distinct ids,
    ``per_row_ids`` of those that are left out because they name another passage in every row.
    """

    most_used: tuple[PassageUse, ...]
    least_used: tuple[PassageUse, ...]
    passage_count: int
    per_row_ids: int = 0


class PassageTally:
    """Counts the answers with evidence in each passage; memory grows with the number of ids.

    An answer counts once per passage if its spans are adjacent, as they are in the files of a local run.
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
            self._last = {pair for pair in self._last.union(pairs) if pair[:2] == pairs[-1][:2]}

    def result(self, retrieved: Mapping[str, int] | None, names: PassageNames | None = None) -> PassageRanking:
        """The rankings; ``retrieved`` is the number of rows by passage id, None if the logs cannot be read."""
        known, names = retrieved or {}, names or PassageNames()
        every = {*self._answers, *known}
        ids = [one for one in every if not names.is_per_row(one)]
        uses = [
            PassageUse(one, self._answers[one], known.get(one) if retrieved else None, names.titles.get(one))
            for one in ids
        ]
        most = sorted((use for use in uses if use.answers), key=lambda use: (-use.answers, use.passage_id))
        least = [use for use in uses if use.retrieved and use.retrieved > use.answers]
        least.sort(key=lambda use: (use.answers / (use.retrieved or 1), -(use.retrieved or 0), use.passage_id))
        return PassageRanking(
            tuple(most[:SHOWN_PASSAGES]), tuple(least[:SHOWN_PASSAGES]), len(uses), len(every) - len(ids)
        )


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


def retrieved_passages(logs: AuditedLogs) -> Counter[str] | None:
    """Rows of the logs by the id of a passage that they retrieved; None unless every log is still as audited.

    Only the ids are read. Rows that became dead letters count as well.
    """
    if not logs.shows_ids or any(file.state is not LogState.AS_AUDITED for file in logs.files.values()):
        return None
    counts: Counter[str] = Counter()
    for file in logs.files.values():
        for ids in file.passage_ids():
            counts.update(_rows_by_id(ids))
    return counts


def _rows_by_id(ids: pa.Table) -> dict[str, int]:
    distinct = ids.group_by(["row", "passage"]).aggregate([])
    counts = pc.value_counts(distinct["passage"].drop_null())
    return {item["values"]: item["counts"] for item in counts.to_pylist()}
