"""Filters and the search change the worklist."""

from __future__ import annotations

import pytest
from tests.report.browser.audits import LoggedAudit
from tests.report.browser.open_page import OpenPage

ALL = ["ferry-0", "ferry-2", "ferry-1", "ferry-3", "ferry-bad"]


@pytest.fixture(scope="module")
def opened(browser: OpenPage, harbour: LoggedAudit) -> OpenPage:
    browser.forget()
    browser.open(harbour.page, "#answers")
    return browser


@pytest.fixture
def listed(opened: OpenPage) -> OpenPage:
    """The worklist with no filter, in its own order."""
    opened.script(
        "document.activeElement.blur(); document.querySelector('#filter-reset').click();"
        "const order = document.querySelector('#filter-order'); order.value = 'risk';"
        "order.dispatchEvent(new Event('change'))"
    )
    return opened


def test_worklist_is_ranked_by_risk_and_ends_with_dead_letters(listed: OpenPage) -> None:
    assert listed.ids() == ALL
    assert listed.one("#found").text == "4 of 4 answers, 1 dead letter"


@pytest.mark.parametrize(
    ("name", "value", "ids"),
    [
        ("support", "supported", ["ferry-0", "ferry-1", "ferry-3"]),
        ("support", "weak", ["ferry-2"]),
        ("support", "unsupported", ["ferry-0"]),
        ("kind", "mentions", ["ferry-0"]),
        ("kind", "sentences", ["ferry-2"]),
        ("kind", "facts", ["ferry-0", "ferry-1", "ferry-3"]),
        ("generator", "tern-2", ["ferry-1"]),
        ("generator", "\0none", ["ferry-2"]),
        ("reason", "unmatched value", ["ferry-0"]),
        ("reason", "no evidence at all", ["ferry-0"]),
        ("reason", "isolated evidence only", ["ferry-2"]),
        ("reason", "empty_answer", ["ferry-bad"]),
        ("mark", "right", []),
        ("mark", "none", ALL),
    ],
)
def test_filter_leaves_what_it_names(listed: OpenPage, name: str, value: str, ids: list[str]) -> None:
    options = listed.script(
        "return [...document.querySelectorAll(arguments[0])].map((e) => e.value)", f"#filter-{name} option"
    )
    assert value in options
    listed.script(
        "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('change'))",
        f"#filter-{name}",
        value,
    )
    assert listed.ids() == ids
    listed.one("#filter-reset").click()
    assert listed.ids() == ALL


def test_filters_are_chosen_by_hand_and_hold_together(listed: OpenPage) -> None:
    listed.choose("generator", "gull-1")
    assert listed.ids() == ["ferry-0", "ferry-3"]
    listed.choose("support", "unsupported")
    assert listed.ids() == ["ferry-0"]
    listed.choose("reason", "isolated evidence only")
    assert listed.ids() == []
    assert listed.texts("#worklist .empty") == ["Nothing passes these filters."]
    assert listed.one("#found").text == "0 of 4 answers"


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ("TOMORROW", ["ferry-1"]),
        ("ferry-2", ["ferry-2"]),
        ("leave winter", ["ferry-0", "ferry-2", "ferry-1"]),
        ("الظهر", ["ferry-3"]),
        ("an answer was expected", ["ferry-bad"]),
        ("timetable west", ["ferry-0", "ferry-2", "ferry-1"]),
        ("hovercraft", []),
    ],
)
def test_search_finds_words_of_every_text(listed: OpenPage, words: str, ids: list[str]) -> None:
    listed.press("/")
    listed.press(words)
    assert listed.ids() == ids


def test_order_changes_the_worklist(listed: OpenPage) -> None:
    listed.choose("order", "newest")
    assert listed.ids() == ["ferry-3", "ferry-2", "ferry-1", "ferry-0", "ferry-bad"]
    listed.choose("order", "id")
    assert listed.ids() == ["ferry-0", "ferry-1", "ferry-2", "ferry-3", "ferry-bad"]
