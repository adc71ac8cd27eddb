"""Everything that the page draws, from one pass over the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from report.answer_risk import AnswerRanking, RiskTally
from report.answers import AnswerLogs
from report.audit_directory import AuditDirectory
from report.evidence_columns import evidence_columns
from report.mass_histogram import MassHistogram, MassTally
from report.passage_use import PassageRanking, PassageTally
from report.rank_use import RankTally, RankUse
from report.retrieved_passages import retrieved_passages
from report.share_by import ShareBy, ShareTally, can_be_grouped
from report.timeline import Timeline, TimelineTally


class _Tally(Protocol):
    @property
    def columns(self) -> tuple[str, ...]: ...

    def add(self, batch: pa.RecordBatch) -> None: ...


@dataclass(frozen=True, slots=True)
class Overview:
    """Aggregates of a whole audit; their size does not depend on the number of spans.

    ``shares`` are by generator, by kind of span, and by each extra column whose values can be grouped.
    """

    timeline: Timeline
    masses: MassHistogram
    shares: tuple[ShareBy, ...]
    ranks: tuple[RankUse, ...]
    passages: PassageRanking
    ranking: AnswerRanking


def read_overview(audit: AuditDirectory, logs: AnswerLogs, *, answers: int) -> Overview:
    """Aggregate an audit, with the ranking of its ``answers`` riskiest answers.

    Raises:
        ReportError: if a file of the audit cannot be read.
    """
    timeline, masses, ranks, passages, risks = TimelineTally(), MassTally(), RankTally(), PassageTally(), RiskTally()
    grouped = [field.name for field in audit.extra_fields if can_be_grouped(field)]
    shares = [ShareTally(column) for column in ("generator", "span_kind", *grouped)]
    tallies: Sequence[_Tally] = (timeline, masses, ranks, passages, risks, *shares)
    columns = sorted({column for tally in tallies for column in tally.columns})
    for batch in evidence_columns(audit, columns):
        for tally in tallies:
            tally.add(batch)
    return Overview(
        timeline=timeline.result(),
        masses=masses.result(),
        shares=tuple(tally.result() for tally in shares),
        ranks=ranks.result(),
        passages=passages.result(retrieved_passages(logs)),
        ranking=risks.ranking(answers),
    )
