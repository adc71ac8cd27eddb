"""Pointing at a span lights its evidence, its atomic fact and the passage scores, and the other way round."""

from __future__ import annotations

import pytest

from tests.browser.audits import LoggedAudit
from tests.browser.open_page import OpenPage

EVIDENCE = "leaves the east pier at noon"


@pytest.fixture
def answer(page: OpenPage, harbour: LoggedAudit) -> OpenPage:
    """The answer with a supported span, ``leaves at noon``, and an unsupported one, ``40 cars``."""
    page.open(harbour.page, "#answers/1")
    return page


def scores(page: OpenPage) -> list[str]:
    return page.texts(".passage .score")


def test_spans_are_coloured_by_support_and_unmatched_values_are_struck_out(answer: OpenPage) -> None:
    assert answer.texts(".answer-text .seg.supported") == ["leaves at noon"]
    assert "".join(answer.texts(".answer-text .seg.unsupported")) == "40 cars"
    assert answer.texts(".answer-text s") == ["40"]
    assert answer.texts(".span-text s") == ["40"]
    line = answer.script("return getComputedStyle(document.querySelector('.answer-text s')).textDecorationLine")
    assert line == "line-through"
    line = "return getComputedStyle(document.querySelector(arguments[0])).textDecorationStyle"
    assert [answer.script(line, f".seg.{support}") for support in ("supported", "unsupported")] == ["solid", "wavy"]
