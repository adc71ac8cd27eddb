"""Adds up what the overview shows, batch after batch: claims by support, passages in use, and the riskiest answers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribeam.report.answer_ranking import AnswerRanking, RiskTally
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedLogs
from attribeam.schemas import VERDICTS, QARecord, RowSource
from attribeam.schemas.evidence_record import CLAIM_COLUMNS, claim_rows, judged_rows

SUPPORTS = tuple(support.value for support in VERDICTS)


@dataclass(frozen=True, slots=True)
class SupportCounts:
    """Numbers of spans by support; shares of none are 0."""

    supported: int = 0
    weak: int = 0
    unsupported: int = 0

    @property
    def spans(self) -> int:
        return self.supported + self.weak + self.unsupported

    @property
    def unsupported_share(self) -> float:
        return self.unsupported / self.spans if self.spans else 0.0

    def __add__(self, other: SupportCounts) -> SupportCounts:
        return SupportCounts(*(getattr(self, support) + getattr(other, support) for support in SUPPORTS))


class SupportTally:
    """Counts spans by support for each value of a column, or what ``_values`` makes of it.

    Beyond ``limit`` values it stops counting and has ``overflowed``, so memory stays bounded.
    """

    limit: int

    def __init__(self, column: str) -> None:
        self.columns: tuple[str, ...] = (column, "support")
        self.counts: defaultdict[Any, SupportCounts] = defaultdict(SupportCounts)
        self.overflowed = False

    def add(self, batch: pa.RecordBatch) -> None:
        if self.overflowed:
            return
        table = pa.table({"value": self._values(batch[self.columns[0]]), "support": batch["support"]})
        groups = table.group_by(["value", "support"]).aggregate([([], "count_all")])
        self.overflowed = groups.num_rows > self.limit * len(SUPPORTS)
        for group in () if self.overflowed else groups.to_pylist():
            self.counts[group["value"]] += SupportCounts(**{group["support"]: group["count_all"]})
        self.overflowed = self.overflowed or len(self.counts) > self.limit

    def _values(self, column: pa.Array) -> pa.Array:
        return column.cast(pa.string())


MAX_TIME_BINS = 62
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeBin:
    """Counts of one hour, day, week, month or year, from ``start`` on (ISO 8601 in UTC)."""

    start: str
    counts: SupportCounts


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bins that hold spans, in ascending order; ``unit`` is their width, ``undated`` counts spans without a time."""

    unit: str
    bins: tuple[TimeBin, ...]
    undated: int


class TimelineTally(SupportTally):
    """Counts spans by hour, and chooses the width of the bins at the end."""

    limit = 300_000

    def _values(self, column: pa.Array) -> pa.Array:
        moments = column.cast(pa.timestamp("us", tz="UTC"))
        return pc.hours_between(pa.scalar(_FIRST_MOMENT, moments.type), moments)

    def result(self) -> Timeline:
        """As ``timeline``."""
        counts = dict(self.counts)
        undated = counts.pop(None, SupportCounts()).spans
        return timeline({_FIRST_MOMENT + timedelta(hours=hour): item for hour, item in counts.items()}, undated=undated)


def timeline(counts: Mapping[datetime, SupportCounts], *, undated: int = 0, narrowest: str = "hour") -> Timeline:
    """Counts of hours in UTC, in bins of the narrowest unit that needs at most ``MAX_TIME_BINS``, else of years.

    Empty bins between the first and the last count, too.
    """
    units = [*_UNITS]
    for unit in units[units.index(narrowest) :]:
        width, start_of = _UNITS[unit]
        bins: defaultdict[datetime, SupportCounts] = defaultdict(SupportCounts)
        for hour, support_counts in counts.items():
            bins[start_of(hour)] += support_counts
        if not bins or (max(bins) - min(bins)) / width < MAX_TIME_BINS:
            break
    return Timeline(unit, tuple(TimeBin(start.isoformat(), bins[start]) for start in sorted(bins)), undated)


def _week_start(moment: datetime) -> datetime:
    return moment.replace(hour=0) - timedelta(days=min(moment.weekday(), (moment - _FIRST_MOMENT).days))


_UNITS: dict[str, tuple[timedelta, Callable[[datetime], datetime]]] = {
    "hour": (timedelta(hours=1), lambda moment: moment),
    "day": (timedelta(days=1), lambda moment: moment.replace(hour=0)),
    "week": (timedelta(weeks=1), _week_start),
    "month": (timedelta(days=30), lambda moment: moment.replace(day=1, hour=0)),
    "year": (timedelta.max, lambda moment: moment.replace(month=1, day=1, hour=0)),
}
"""The width of a bin, and the start of the bin that holds a moment."""

MAX_VALUES = 50
SHOWN_VALUES = 12


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """One value of the column, None for spans without one."""

    value: str | None
    counts: SupportCounts


@dataclass(frozen=True, slots=True)
class ShareBy:
    """The groups of one column that have the most spans, largest unsupported share first.

    ``others`` sums up the ``other_values`` groups that are not listed. A column of more than ``MAX_VALUES`` values
    has ``too_many_values``, and no group is listed.
    """

    column: str
    groups: tuple[ShareGroup, ...]
    others: SupportCounts
    other_values: int
    too_many_values: bool


_GROUPED_TYPES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating,
    pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp,
)  # fmt: skip


class ShareTally(SupportTally):
    """Counts spans by support for each value of a column."""

    limit = MAX_VALUES

    @staticmethod
    def can_group(field: pa.Field) -> bool:
        """Whether a column has texts, numbers, booleans or moments; lists, structs and bytes make no groups."""
        return any(is_kind(field.type) for is_kind in _GROUPED_TYPES)

    def result(self) -> ShareBy:
        """The groups, at most ``SHOWN_VALUES``; long values are cut."""
        if self.overflowed:
            return ShareBy(self.columns[0], (), SupportCounts(), 0, too_many_values=True)
        by_size = sorted(self.counts.items(), key=lambda item: (-item[1].spans, str(item[0])))
        groups = [
            ShareGroup(value if value is None or len(value) <= 80 else f"{value[:79]}…", counts)
            for value, counts in by_size[:SHOWN_VALUES]
        ]
        groups.sort(key=lambda group: (-group.counts.unsupported_share, -group.counts.spans, group.value or ""))
        rest = [counts for _, counts in by_size[SHOWN_VALUES:]]
        return ShareBy(self.columns[0], tuple(groups), sum(rest, SupportCounts()), len(rest), too_many_values=False)


MASS_BINS = 40


class MassTally(SupportTally):
    """Counts spans by support in each of ``MASS_BINS`` equal bins of [0, 1], by evidence mass or another share."""

    limit = MASS_BINS + 1

    def _values(self, column: pa.Array) -> pa.Array:
        known = pc.if_else(pc.is_nan(column), None, column)
        bins = pc.multiply(known, pa.scalar(MASS_BINS, column.type))
        return pc.min_element_wise(pc.floor(bins).cast(pa.int64()), MASS_BINS - 1, skip_nulls=False)

    def result(self) -> tuple[SupportCounts, ...]:
        """The bins; none where no span has such a share."""
        if self.counts.keys() <= {None}:
            return ()
        return tuple(self.counts.get(number, SupportCounts()) for number in range(MASS_BINS))


@dataclass(frozen=True, slots=True)
class PassageNames:
    """The first title of each passage by id, and the shapes of ids that number the passages of a row (``source1``)."""

    titles: Mapping[str, str] = field(default_factory=dict)
    row_shapes: frozenset[str] = frozenset()

    def is_per_row(self, passage_id: str) -> bool:
        """Whether the id names another passage in every row, so that its uses cannot be added up."""
        return _shape(passage_id) in self.row_shapes


NO_NAMES = PassageNames()


def passage_names(records: Iterable[QARecord]) -> PassageNames:
    """The names of the passages of some rows, each row once.

    An id is one of a row if more than half of the rows that have it give it a text of its own. A shape (the id without
    its digits) is one of rows if that is so for most of its ids that occur in several rows.
    """
    titles: dict[str, str] = {}
    rows: Counter[str] = Counter()
    texts: defaultdict[str, set[int]] = defaultdict(set)
    for record in records:
        passages = {passage.passage_id: passage for passage in record.passages if passage.passage_id is not None}
        rows.update(passages.keys())
        for passage_id, passage in passages.items():
            texts[passage_id].add(hash(passage.text))
            if passage.title:
                titles.setdefault(passage_id, passage.title)
    repeated = [passage_id for passage_id, count in rows.items() if count > 1]
    votes = Counter(map(_shape, repeated))
    per_row = Counter(_shape(key) for key in repeated if len(texts[key]) > max(1, rows[key] / 2))
    return PassageNames(titles, frozenset(shape for shape, count in per_row.items() if count > votes[shape] / 2))


def _shape(passage_id: str) -> str:
    return re.sub(r"\d+", "0", passage_id)


@dataclass(slots=True)
class AgreementTally:
    """Counts the claims for which a column says yes or no (``told``), and yes (``agreeing``).

    ``citation_agrees`` says it of claims with a citation, ``evidence_agrees`` of those whose words passages have.
    """

    column: str
    told: int = 0
    agreeing: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def add(self, batch: pa.RecordBatch) -> None:
        agrees = pc.drop_null(batch[self.column])
        self.told += len(agrees)
        self.agreeing += pc.sum(agrees).as_py() or 0


_FEWEST_TOLD, _USUAL_AGREEMENT = 20, 0.75
"""Evidence of the bundled attributor lies with the words of 88% of such claims or more on every set we know."""


def disagreement(count: int, agreeing: int) -> str | None:
    """What to say if, of ``count`` claims whose words passages have, evidence often lies elsewhere; else None."""
    if count < _FEWEST_TOLD or agreeing >= _USUAL_AGREEMENT * count:
        return None
    return (
        f"evidence and words disagree: for {count - agreeing:,} of {count:,} claims whose words the passages have, the "
        "evidence lies elsewhere; the model or method hardly looks at what the answers draw on, see docs/models.md"
    )


SHOWN_RANKS = 20


@dataclass(frozen=True, slots=True)
class RankUse:
    """Spans of answers that had a passage at this place of the prompt, from 1, with a score on it, or their best."""

    rank: int
    offered: int
    used: int
    best: int


class RankTally:
    """Counts spans by place of the passage, up to ``SHOWN_RANKS``."""

    columns: tuple[str, ...] = ("passage_scores", "top_passage_index")

    def __init__(self) -> None:
        self._counts = np.zeros((3, SHOWN_RANKS), dtype=np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        scores = batch["passage_scores"]
        lengths = pc.list_value_length(scores).to_numpy(zero_copy_only=False)
        offered = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        used = offered[pc.list_flatten(scores).to_numpy(zero_copy_only=False) > 0]
        best = pc.drop_null(batch["top_passage_index"]).to_numpy(zero_copy_only=False).astype(np.int64)
        for counts, ranks in zip(self._counts, (offered, used, best), strict=True):
            counts += np.bincount(ranks[ranks < SHOWN_RANKS], minlength=SHOWN_RANKS)

    def result(self) -> tuple[RankUse, ...]:
        """One entry per rank that was offered at least once."""
        return tuple(RankUse(rank, *counts) for rank, counts in enumerate(self._counts.T.tolist(), 1) if counts[0])


SHOWN_PASSAGES = 8


@dataclass(frozen=True, slots=True)
class PassageUse:
    """Answers with evidence in one passage, and rows of the logs that retrieved it, None where these cannot be read."""

    passage_id: str
    answers: int
    retrieved: int | None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class PassageRanking:
    """The passages that most answers use, and, if the logs can be read, the smallest share of their retrievals.

    Of distinct ids, ``passage_count`` are counted and ``per_row_ids`` left out: they name another passage in every row.
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
        evidence = batch["evidence"]
        lengths = pc.list_value_length(evidence).to_numpy(zero_copy_only=False)
        spans = pa.array(np.repeat(np.arange(batch.num_rows), lengths))
        ids = pc.struct_field(pc.list_flatten(evidence), "passage_id")
        columns = [batch["source_file"].take(spans), batch["source_row"].take(spans), ids]
        table = pa.table(columns, names=["file", "row", "passage"]).filter(pc.is_valid(ids))
        groups = table.group_by(table.column_names, use_threads=False).aggregate([])
        uses = list(zip(*(groups[name].to_pylist() for name in table.column_names), strict=True))
        self._answers.update(use[2] for use in uses)
        self._answers.subtract(use[2] for use in self._last.intersection(uses))
        if uses:
            self._last = {use for use in self._last.union(uses) if use[:2] == uses[-1][:2]}

    def result(self, retrieved: Mapping[str, int] | None, names: PassageNames = NO_NAMES) -> PassageRanking:
        """The rankings; ``retrieved`` is the number of rows by passage id, None if the logs cannot be read."""
        known = retrieved or {}
        every = {*self._answers, *known}
        uses = [
            PassageUse(key, self._answers[key], known.get(key) if retrieved else None, names.titles.get(key))
            for key in every
            if not names.is_per_row(key)
        ]
        most = sorted((use for use in uses if use.answers), key=lambda use: (-use.answers, use.passage_id))
        least = [use for use in uses if use.retrieved and use.retrieved > use.answers]
        least.sort(key=lambda use: (use.answers / (use.retrieved or 1), -(use.retrieved or 0), use.passage_id))
        most_used, least_used = tuple(most[:SHOWN_PASSAGES]), tuple(least[:SHOWN_PASSAGES])
        return PassageRanking(most_used, least_used, len(uses), per_row_ids=len(every) - len(uses))


def retrieved_passages(logs: AuditedLogs) -> Counter[str] | None:
    """Rows of the logs by the id of a passage that they retrieved; None unless every log is still as audited.

    Only the ids are read. Rows that became dead letters count as well.
    """
    if not logs.shows_ids or any(file.problem is not None for file in logs.files.values()):
        return None
    counts: Counter[str] = Counter()
    for file in logs.files.values():
        for ids in file.passage_ids():
            distinct = ids.group_by(["row", "passage"]).aggregate([])
            pairs = pc.value_counts(distinct["passage"].drop_null())
            counts.update({pair["values"]: pair["counts"] for pair in pairs.to_pylist()})
    return counts


@dataclass(frozen=True, slots=True)
class Overview:
    """Aggregates of a whole audit's claims; ``passages`` has only counted uses, since their ranking needs the logs.

    ``shares`` has one entry for the generator, one for the kind of span, and one per extra column that can be grouped.
    """

    timeline: Timeline
    masses: tuple[SupportCounts, ...]
    support_scores: tuple[SupportCounts, ...]
    shares: tuple[ShareBy, ...]
    ranks: tuple[RankUse, ...]
    passages: PassageTally
    citations: AgreementTally
    evidence: AgreementTally
    ranking: AnswerRanking


def read_overview(audit: AuditDirectory, *, answers: int, also: Collection[RowSource] = ()) -> Overview:
    """Aggregate the claims of an audit in one pass, and rank its ``answers`` first answers and those of ``also``."""
    timeline, ranks, passages, risks = TimelineTally("answered_at"), RankTally(), PassageTally(), RiskTally()
    citations, evidence = AgreementTally("citation_agrees"), AgreementTally("evidence_agrees")
    masses, scores = MassTally("evidence_mass"), MassTally("support_score")
    grouped = [field.name for field in audit.extra_fields if ShareTally.can_group(field)]
    shares = [ShareTally(column) for column in ("generator", "span_kind", *grouped)]
    of_claims: list[RankTally | PassageTally | AgreementTally] = [ranks, passages, citations, evidence]
    of_judged: list[SupportTally] = [timeline, masses, scores, *shares]
    columns = {*CLAIM_COLUMNS, *(column for tally in (risks, *of_claims, *of_judged) for column in tally.columns)}
    for batch in audit.evidence_columns(sorted(columns)):
        risks.add(batch)
        claims, judged = claim_rows(batch), judged_rows(batch)
        for of_claim in of_claims:
            of_claim.add(claims)
        for of_verdict in of_judged:
            of_verdict.add(judged)
    return Overview(
        timeline=timeline.result(),
        masses=masses.result(),
        support_scores=scores.result(),
        shares=tuple(tally.result() for tally in shares),
        ranks=ranks.result(),
        passages=passages,
        citations=citations,
        evidence=evidence,
        ranking=risks.ranking(answers, also),
    )
