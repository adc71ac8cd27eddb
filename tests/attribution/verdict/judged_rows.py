"""Rows of our own for the verdict's tests, parsed with the bundled parser."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.schemas import Passage, QARecord, RowSource

RECORD = """name: The Copper Kettle
hours Monday: 11:0-17:0
hours Tuesday: 11:0-17:0
attributes OutdoorSeating: true
attributes RestaurantsTakeOut: false
attributes BusinessParking garage: false
attributes WiFi: no
attributes Music: null"""
LANTERN = "The lighthouse keeper trimmed the lamp every evening. His daughter wrote the weather into a blue ledger."


def record(answer: str, *passages: str, question: str = "") -> QARecord:
    return QARecord(
        record_id="row",
        question=question,
        passages=tuple(Passage(text=text) for text in passages),
        answer=answer,
        source=RowSource("log.parquet", 0),
    )


@cache
def parser() -> AnswerParser:
    return AnswerParser.from_pretrained("bundled")


@cache
def parse(answer: str) -> ParsedAnswer:
    return parser().parse(answer)


def texts(answer: str, words: Sequence[int]) -> list[str]:
    return [parse(answer).words[word].of(answer) for word in words]
