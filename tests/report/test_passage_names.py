"""Titles of passages, and ids that are those of a row."""

from __future__ import annotations

import pytest

from attribeam.report.passages import PassageTally, passage_names
from attribeam.schemas import Passage, QARecord, RowSource


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
