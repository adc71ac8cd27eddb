"""Use of passages by place and by id, against counting answer by answer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.report.made_audit import made_audit, span_batches

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.passages import (
    SHOWN_PASSAGES,
    SHOWN_RANKS,
    PassageTally,
    RankTally,
    passage_names,
    retrieved_passages,
)
from attribeam.schemas import Passage, QARecord, RowSource

PIECE = {"passage_index": 0, "in_title": False, "char_start": 0, "char_end": 1, "text": "x", "score": 1.0}


def random_ranks(seed: int) -> list[dict[str, object]]:
    """Spans with up to 25 passages, each with a score or without."""
    chance = random.Random(seed)
    rows: list[dict[str, object]] = []
    for _ in range(60):
        scores = [chance.choice([0.0, 0.25, 1.5]) for _ in range(chance.randrange(26))]
        top = max(range(len(scores)), key=scores.__getitem__, default=None)
        rows.append({"passage_scores": scores, "top_passage_index": top if any(scores) else None})
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_places_are_counted_as_offered_used_and_best(seed: int) -> None:
    rows = random_ranks(seed)
    tally = RankTally()
    for batch in span_batches(rows, size=7):
        tally.add(batch)
    found = tally.result()
    assert [one.rank for one in found] == list(range(1, SHOWN_RANKS + 1))
    for place, one in enumerate(found):
        scores = [row["passage_scores"][place] for row in rows if len(row["passage_scores"]) > place]
        best = sum(row["top_passage_index"] == place for row in rows)
        assert (one.offered, one.used, one.best) == (len(scores), sum(score > 0 for score in scores), best)


def random_evidence(seed: int) -> list[dict[str, object]]:
    """The spans of 40 answers in two files, one after the other; some passages have no id."""
    chance = random.Random(seed)
    ids = [*(f"p{number}" for number in range(20)), None]
    return [
        {
            "source_file": f"log{file}.parquet",
            "source_row": row,
            "evidence": [{**PIECE, "passage_id": chance.choice(ids)} for _ in range(chance.randrange(4))],
        }
        for file in range(2)
        for row in range(20)
        for _ in range(chance.randrange(1, 5))
    ]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_an_answer_counts_once_for_each_passage_that_it_draws_on(size: int) -> None:
    rows = random_evidence(size)
    tally = PassageTally()
    for batch in span_batches(rows, size=size):
        tally.add(batch)
    answers: dict[str, set[tuple[object, object]]] = {}
    for row in rows:
        for piece in row["evidence"]:
            if piece["passage_id"] is not None:
                answers.setdefault(piece["passage_id"], set()).add((row["source_file"], row["source_row"]))
    by_use = sorted(answers, key=lambda name: (-len(answers[name]), name))
    found = tally.result(None)
    assert [(use.passage_id, use.answers, use.retrieved) for use in found.most_used] == [
        (name, len(answers[name]), None) for name in by_use[:SHOWN_PASSAGES]
    ]
    assert (found.least_used, found.passage_count) == ((), len(answers))


def test_passages_retrieved_in_vain_come_first_among_the_least_used() -> None:
    tally = PassageTally()
    rows = [{"source_row": row, "evidence": [{**PIECE, "passage_id": "used"}]} for row in range(3)]
    for batch in span_batches([*rows, {"source_row": 3, "evidence": [{**PIECE, "passage_id": "always"}]}]):
        tally.add(batch)
    found = tally.result({"used": 4, "always": 1, "rare": 2, "idle": 9})
    assert [use.passage_id for use in found.least_used] == ["idle", "rare", "used"]
    assert [(use.passage_id, use.retrieved) for use in found.most_used] == [("used", 4), ("always", 1)]
    assert found.passage_count == 4


def test_rows_that_retrieved_a_passage_are_counted_from_the_log(tmp_path: Path) -> None:
    made = made_audit(tmp_path)
    logs = AuditedLogs.of(AuditDirectory.open(made.root))
    assert retrieved_passages(logs) == {"pier-1": 4, "pier-2": 4}


def test_a_log_that_changed_counts_no_retrieved_passage(tmp_path: Path) -> None:
    made = made_audit(tmp_path)
    made.log.write_bytes(made.log.read_bytes() + b"x")
    assert retrieved_passages(AuditedLogs.of(AuditDirectory.open(made.root))) is None


def record(row: int, *passages: Passage) -> QARecord:
    return QARecord(f"r{row}", "Why?", passages, "So.", RowSource("log", row))


def rows(*texts: dict[str, str]) -> list[QARecord]:
    """One record per mapping of passage ids to texts."""
    return [
        record(row, *(Passage(text, f"About {one}", one) for one, text in own.items())) for row, own in enumerate(texts)
    ]


def test_the_first_title_of_an_id_is_its_name() -> None:
    names = passage_names(
        [record(0, Passage("a", None, "p")), record(1, Passage("a", "One", "p"), Passage("b", "Two"))]
    )
    assert names.titles == {"p": "One"}


@pytest.mark.parametrize(
    ("texts", "per_row"),
    [
        ([{"source1": "a", "source2": "b"}, {"source1": "c", "source2": "d"}], True),
        ([{"source1": "a", "source2": "b"}, {"source1": "a", "source2": "b"}], False),
        ([{"source1": "old"}, {"source1": "old"}, {"source1": "new"}, {"source1": "new"}], False),
        ([{"source1": "a"}], False),
    ],
)
def test_an_id_is_one_of_a_row_if_most_rows_give_it_another_text(texts: list[dict[str, str]], per_row: bool) -> None:
    names = passage_names(rows(*texts))
    assert names.is_per_row("source1") is per_row
    assert names.is_per_row("source27") is per_row
    assert not names.is_per_row("doc-1")


def test_one_changed_document_does_not_make_all_ids_of_its_shape_those_of_rows() -> None:
    same = {"doc1": "a", "doc2": "b", "doc3": "c"}
    names = passage_names(rows(same, {**same, "doc3": "c, revised"}))
    assert not names.is_per_row("doc3")


def test_ids_of_rows_are_left_out_of_the_ranking_and_counted() -> None:
    names = passage_names(rows({"source1": "a", "doc1": "x"}, {"source1": "b", "doc1": "x"}))
    ranking = PassageTally().result({"source1": 9, "source2": 4, "doc1": 2}, names)
    assert [(use.passage_id, use.title) for use in ranking.least_used] == [("doc1", "About doc1")]
    assert (ranking.passage_count, ranking.per_row_ids) == (1, 2)
