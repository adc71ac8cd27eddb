"""The risk of spans and answers, their order, and what the worklist holds of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.made_audit import made_audit
from tests.report.span_batches import span_batches

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.worklist import (
    DEAD_LETTERS_PER_REASON,
    AnswerRanking,
    AnswerRisk,
    RiskTally,
    embedded_answers,
    embedded_dead_letters,
)

START_RISK = {"supported": 0.0, "weak": 0.5, "unsupported": 1.0}


def ranking_of(rows: Sequence[dict[str, object]], *, size: int, batch_size: int = 4) -> AnswerRanking:
    tally = RiskTally()
    for batch in span_batches(rows, size=batch_size):
        tally.add(batch)
    return tally.ranking(size)


def naive_risk(spans: Sequence[dict[str, object]]) -> float:
    """The formula of docs/report.md."""
    risks = [
        min(1.0, START_RISK[one["support"]] * (1 - one["evidence_mass"]) + (0.5 if one["unmatched_values"] else 0.0))
        for one in spans
    ]
    return 2 / 3 * max(risks) + 1 / 3 * sum(risks) / len(risks)


def random_spans(seed: int) -> dict[tuple[str, int], list[dict[str, object]]]:
    """The spans of 30 answers in two files; every fifth answer is supported through and through."""
    chance = random.Random(seed)
    answers: dict[tuple[str, int], list[dict[str, object]]] = {}
    for file in ("b.parquet", "a.parquet"):
        for row in range(15):
            answers[file, row] = [
                {
                    "source_file": file,
                    "source_row": row,
                    "support": "supported" if row % 5 == 0 else chance.choice(list(START_RISK)),
                    "evidence_mass": chance.randrange(64) / 64,
                    "unmatched_values": ["40"] if row % 5 and chance.random() < 0.3 else [],
                }
                for _ in range(chance.randrange(1, 6))
            ]
    return answers


@pytest.mark.parametrize("batch_size", [1, 4, 1000])
def test_answers_are_ranked_by_risk_and_ties_stay_in_the_order_of_the_input(batch_size: int) -> None:
    answers = random_spans(batch_size)
    rows = [span for spans in answers.values() for span in spans]
    found = ranking_of(rows, size=28, batch_size=batch_size)
    order = sorted(answers, key=lambda one: -naive_risk(answers[one]))  # stable
    assert [(one.source.source_file, one.source.source_row) for one in found.riskiest] == order[:28]
    for one in found.riskiest:
        assert one.risk == pytest.approx(naive_risk(answers[one.source.source_file, one.source.source_row]))
    assert found.answer_count == len(answers)
    assert found.supported_count == sum(naive_risk(spans) == 0 for spans in answers.values()) >= 6


@pytest.mark.parametrize(
    ("span", "risk"),
    [
        ({"support": "supported", "evidence_mass": 0.5}, 0.0),
        ({"support": "weak", "evidence_mass": 0.25}, 0.375),
        ({"support": "unsupported", "evidence_mass": 0.125}, 0.875),
        ({"support": "weak", "evidence_mass": None}, 0.5),
        ({"support": "supported", "unmatched_values": ["40"]}, 0.5),
        ({"support": "unsupported", "evidence_mass": 0.125, "unmatched_values": ["40"]}, 1.0),
    ],
)
def test_a_single_span_gives_its_answer_its_own_risk(span: dict[str, object], risk: float) -> None:
    (one,) = ranking_of([span], size=5).riskiest
    assert one.risk == pytest.approx(risk)


def test_an_audit_without_a_span_ranks_nothing() -> None:
    assert ranking_of([], size=5) == AnswerRanking((), 0, 0)


def test_an_answer_brings_its_spans_in_order_and_the_texts_of_its_log(tmp_path: Path) -> None:
    made = made_audit(tmp_path)
    audit = AuditDirectory.open(made.root)
    wanted = [AnswerRisk(made.records[row].source, risk) for row, risk in ((2, 0.9), (0, 0.1))]
    found = list(embedded_answers(audit, AuditedLogs.of(audit), wanted))
    assert [(one.answer.source, one.risk) for one in found] == [(one.source, one.risk) for one in wanted]
    for one in found:
        assert [span.text for span in one.answer.spans] == ["leaves at noon", "40 cars"]
        assert one.texts is not None
        assert one.texts.answer == made.records[0].answer
        assert one.extra_columns == (("team", "harbour"),)


def test_texts_that_are_too_long_for_the_page_are_left_out(tmp_path: Path) -> None:
    made = made_audit(
        tmp_path, change=lambda record: replace(record, question="x" * 400_001 * (record.source.source_row == 1))
    )
    audit = AuditDirectory.open(made.root)
    wanted = [AnswerRisk(record.source, 0.5) for record in made.records]
    found = list(embedded_answers(audit, AuditedLogs.of(audit), wanted))
    assert [one.texts is None for one in found] == [False, True, False]


def test_the_first_dead_letters_of_each_reason_are_listed_and_long_answers_cut(tmp_path: Path) -> None:
    made = made_audit(tmp_path)
    (file,) = (path for path in (made.root / "dead_letters").iterdir() if pq.read_metadata(path).num_rows)
    table = pq.read_table(file)
    (letter,) = table.to_pylist()
    rows = [
        {**letter, "source_row": row, "reason": reason, "answer": "é" * length}
        for reason, length in (("empty_answer", 20_001), ("missing_value", 20_000))
        for row in range(DEAD_LETTERS_PER_REASON + 1)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)
    found = embedded_dead_letters(AuditDirectory.open(made.root))
    assert [(one.reason, one.source_row) for one in found] == [
        (reason, row) for reason in ("empty_answer", "missing_value") for row in range(DEAD_LETTERS_PER_REASON)
    ]
    assert {one.answer for one in found} == {"é" * 20_000 + "…", "é" * 20_000}
