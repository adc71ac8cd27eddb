"""Use of passages by place and by id, against counting answer by answer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.report.made_audit import made_audit
from tests.report.span_batches import span_batches

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_logs import AuditedLogs
from attribeam.report.passages import SHOWN_PASSAGES, SHOWN_RANKS, PassageTally, RankTally, retrieved_passages

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
