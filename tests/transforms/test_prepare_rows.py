"""An answer that breaks the parser is one fault of its own; lack of memory is no row's fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.transforms.prepare_rows import parse_each

NOTHING = ParsedAnswer((), (), (), (), (), ())


def record(answer: str) -> QARecord:
    return QARecord("one", "Who?", (Passage("Ada."),), answer, RowSource("log.parquet", 0))


class FragileParser:
    """Fails on every text that begins with "bad"."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def parse_many(self, texts: Sequence[str], _passages: Sequence[object]) -> Iterator[ParsedAnswer]:
        for text in texts:
            if text.startswith("bad"):
                raise self._error
            yield NOTHING


@given(bad=st.lists(st.booleans(), max_size=20))
def test_only_the_answers_that_break_the_parser_fail(bad: list[bool]) -> None:
    answers = [record("bad one" if one else "good one") for one in bad]
    outcomes = parse_each(FragileParser(KeyError("bad one")), answers)  # type: ignore[arg-type]
    assert [isinstance(outcome, RowFault) for outcome in outcomes] == bad
    for outcome in outcomes:
        if isinstance(outcome, RowFault):
            assert outcome.reason is Reason.PARSE_FAILED
            assert "KeyError" in str(outcome)
            assert "bad one" not in str(outcome)


def test_running_out_of_memory_fails_the_run() -> None:
    with pytest.raises(MemoryError):
        parse_each(FragileParser(MemoryError()), [record("good"), record("bad")])  # type: ignore[arg-type]
