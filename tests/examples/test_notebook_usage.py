"""The notebook's three lines run with the bundled models and find evidence."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from attribeam.schemas import SpanEvidence

SCRIPT = Path(__file__).parents[2] / "examples" / "notebook_usage.py"


@pytest.fixture(scope="module")
def notebook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebook_usage", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def spans(notebook: ModuleType) -> list[SpanEvidence]:
    return notebook.find_evidence()


def test_all_words_of_the_answer_lie_in_some_span(notebook: ModuleType, spans: list[SpanEvidence]) -> None:
    covered = {place for span in spans for place in range(span.chars.char_start, span.chars.char_end)}
    words = [place for place, character in enumerate(notebook.ANSWER) if character.isalnum()]
    assert covered.issuperset(words)


@pytest.mark.parametrize(("text", "passage_index"), [("one million dollars", 0), ("two million dollars", 1)])
def test_each_amount_leads_to_the_passage_of_its_year(spans: list[SpanEvidence], text: str, passage_index: int) -> None:
    (span,) = [span for span in spans if span.text == text]
    assert span.top_passage_index == passage_index


def test_each_span_and_each_piece_of_evidence_is_printed(notebook: ModuleType, spans: list[SpanEvidence]) -> None:
    printed = notebook.lines(spans)
    assert len(printed) == len(spans) + sum(len(span.evidence) for span in spans)
    assert printed[0].startswith(str(spans[0].support))
