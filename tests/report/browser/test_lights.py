"""Pointing at a span lights its evidence, its atomic fact and the passage scores, and the other way round."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys
from tests.report.browser.audits import LoggedAudit
from tests.report.browser.open_page import OpenPage

EVIDENCE = "leaves the east pier at noon"


@pytest.fixture(scope="module")
def opened(browser: OpenPage, harbour: LoggedAudit) -> OpenPage:
    browser.forget()
    browser.open(harbour.page, "#answers/1")
    return browser


@pytest.fixture
def answer(opened: OpenPage) -> OpenPage:
    """The answer with a supported span, ``leaves at noon``, and an unsupported one, ``40 cars``; nothing is lit."""
    opened.press(Keys.ESCAPE)
    opened.script("document.activeElement.blur()")
    opened.point_at(opened.one(".brand"))
    return opened


def style(page: OpenPage, selector: str, name: str) -> str:
    return page.script("return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name)


def test_spans_are_coloured_by_support_and_unmatched_values_are_struck_out(answer: OpenPage) -> None:
    assert answer.texts(".answer-text .seg.supported") == ["leaves at noon"]
    assert "".join(answer.texts(".answer-text .seg.unsupported")) == "40 cars"
    assert answer.texts(".answer-text s") == ["40"]
    assert answer.texts(".span-text s") == ["40"]
    assert style(answer, ".answer-text s", "textDecorationLine") == "line-through"
    lines = [style(answer, f".seg.{support}", "textDecorationStyle") for support in ("supported", "unsupported")]
    assert lines == ["solid", "wavy"]


@pytest.mark.parametrize("place", [".answer-text .seg.supported", '[data-span="0"]'])
def test_pointing_at_a_span_lights_its_evidence_fact_and_scores(answer: OpenPage, place: str) -> None:
    assert not answer.all(".lit, .fact")
    answer.point_at(answer.one(place))
    assert sorted(answer.texts(".piece.lit")) == ["Time", EVIDENCE]
    assert "".join(answer.texts(".answer-text .fact")) == "The ferry leaves at noon"
    assert answer.texts(".span-row.lit .span-text") == ["leaves at noon"]
    assert answer.texts(".passage .score") == ["93.3%", "6.7%"]
    assert answer.texts(".passage.best .rank") == ["Passage 1"]


@pytest.mark.parametrize("place", [".passage-text .piece", ".passage h3 .piece"])
def test_pointing_at_evidence_lights_the_spans_that_rest_on_it(answer: OpenPage, place: str) -> None:
    piece = answer.one(place)
    answer.point_at(piece)
    assert answer.texts(".answer-text .lit") == ["leaves at noon"]
    assert answer.texts(".span-row.touched .span-text") == ["leaves at noon"]
    assert answer.texts(".piece.lit") == [piece.text]


def test_span_chosen_by_click_stays_lit(answer: OpenPage) -> None:
    answer.one('[data-span="0"]').click()
    answer.point_at(answer.one(".brand"))
    assert sorted(answer.texts(".piece.lit")) == ["Time", EVIDENCE]
    assert answer.one('[data-span="0"]').get_attribute("aria-pressed") == "true"
    answer.one('[data-span="0"]').click()
    answer.point_at(answer.one(".brand"))
    assert not answer.all(".lit")


def test_keyboard_lights_like_the_mouse(answer: OpenPage) -> None:
    answer.press("]")
    assert sorted(answer.texts(".piece.lit")) == ["Time", EVIDENCE]
    assert answer.script("return document.activeElement.dataset.span") == "0"
    answer.press(Keys.ESCAPE)
    answer.script("document.querySelector('.passage-text .piece').focus()")
    assert answer.texts(".span-row.touched .span-text") == ["leaves at noon"]
    answer.press(Keys.ENTER)
    assert answer.one('[data-span="0"]').get_attribute("aria-pressed") == "true"
    assert len(answer.texts(".piece.lit")) == 2


def test_evidence_is_described_for_a_screen_reader(answer: OpenPage) -> None:
    piece = answer.one(".passage-text .piece")
    assert piece.accessible_name == f"{EVIDENCE}: evidence for leaves at noon"
    assert piece.aria_role == "button"
