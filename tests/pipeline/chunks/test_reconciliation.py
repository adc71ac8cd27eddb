"""Rows in = audited + dead-lettered, read back from the files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.reconciliation import ReconciliationError, count_rows
from attribeam.schemas.run_manifest import AuditCounts, DeadLetterCount

ROWS = RowRange("log.parquet", 10, 13)


def _count(
    tmp_path: Path, spans: list[tuple[int, int]], letters: list[int], *, file: str = "log.parquet"
) -> AuditCounts:
    evidence = pa.table(
        {
            "source_file": pa.array([file] * len(spans), pa.string()),
            "source_row": pa.array([row for row, _ in spans], pa.int64()),
            "span_index": pa.array([index for _, index in spans], pa.int32()),
            "claim_index": pa.array([0] * len(spans), pa.int32()),
            "support": pa.array(["weak"] * len(spans), pa.string()),
            "claim_kind": pa.array(["claim"] * len(spans), pa.string()),
            "answer_kind": pa.array(["answer"] * len(spans), pa.string()),
        }
    )
    dead_letters = pa.table(
        {
            "source_file": pa.array([file] * len(letters), pa.string()),
            "source_row": pa.array(letters, pa.int64()),
            "stage": pa.array(["validate"] * len(letters), pa.string()),
            "reason": pa.array(["no_passages"] * len(letters), pa.string()),
        }
    )
    paths = [tmp_path / "evidence.parquet", tmp_path / "letters.parquet"]
    for table, path in zip((evidence, dead_letters), paths, strict=True):
        pq.write_table(table, path)
    return count_rows(ROWS, evidence=paths[0], dead_letters=paths[1])


def test_rows_with_several_spans_count_once(tmp_path: Path) -> None:
    counts = _count(tmp_path, [(10, 0), (10, 1), (12, 0)], [11])
    assert counts == AuditCounts(
        rows=3,
        audited=2,
        dead_letters=(DeadLetterCount("validate", "no_passages", 1),),
        spans={"weak": 3},
        claims={"weak": 2},
        answers={"answer": 2},
    )
    assert counts.is_reconciled


def test_what_cannot_be_judged_is_counted_by_its_kind(tmp_path: Path) -> None:
    columns = {
        "source_row": [10, 10, 11, 11, 12],
        "span_index": [0, 1, 0, 1, 0],
        "claim_index": [None, None, 0, 0, 0],
        "support": ["not_judged", "no_claim", "not_judged", "not_judged", "weak"],
        "claim_kind": ["language", "heading", "code", "code", "claim"],
        "answer_kind": ["not_judged", "not_judged", "no_claim", "no_claim", "answer"],
    }
    path = tmp_path / "evidence.parquet"
    _count(tmp_path, [(10, 0), (11, 0), (12, 0)], [])
    pq.write_table(pa.table({"source_file": ["log.parquet"] * 5, **columns}), path)
    counts = count_rows(ROWS, evidence=path, dead_letters=tmp_path / "letters.parquet")
    assert (counts.claims, counts.claim_count) == ({"no_claim": 1, "not_judged": 2, "weak": 1}, 1)
    assert counts.not_judged == {"code": 1, "language": 1}
    assert counts.answers == {"answer": 1, "no_claim": 1, "not_judged": 1}


@pytest.mark.parametrize(
    ("spans", "letters"),
    [
        pytest.param([(10, 0), (11, 0)], [], id="lost"),
        pytest.param([(10, 0), (11, 0), (12, 0)], [12], id="in both"),
        pytest.param([(10, 0), (11, 0), (12, 0), (12, 0)], [], id="audited twice"),
        pytest.param([(10, 0), (11, 0)], [12, 12], id="refused twice"),
        pytest.param([(10, 0), (11, 0), (12, 0), (13, 0)], [], id="from outside"),
    ],
)
def test_rows_without_exactly_one_outcome_are_an_error(
    tmp_path: Path, spans: list[tuple[int, int]], letters: list[int]
) -> None:
    with pytest.raises(ReconciliationError):
        _count(tmp_path, spans, letters)


def test_rows_of_another_file_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReconciliationError, match=r"other\.parquet"):
        _count(tmp_path, [(10, 0), (11, 0), (12, 0)], [], file="other.parquet")
