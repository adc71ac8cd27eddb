"""What the worklist holds of each answer, and its dead letters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.report.made_audit import made_audit, tell_sizes

from attribeam.report.answer_ranking import AnswerRisk
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.worklist import DEAD_LETTERS_PER_REASON, embedded_answers, embedded_dead_letters


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
    tell_sizes(made.root)
    found = embedded_dead_letters(AuditDirectory.open(made.root))
    assert [(one["reason"], one["source_row"]) for one in found] == [
        (reason, row) for reason in ("empty_answer", "missing_value") for row in range(DEAD_LETTERS_PER_REASON)
    ]
    assert {one["answer"] for one in found} == {"é" * 20_000 + "…", "é" * 20_000}
