"""Filters and the search change the worklist; a chosen span lights its evidence, and the other way round."""

import pytest
from selenium.webdriver.common.keys import Keys

ALL = ["ferry-0", "ferry-2", "ferry-1", "ferry-3", "ferry-bad"]


@pytest.fixture(scope="module")
def opened(browser, harbour):
    browser.forget()
    browser.open(harbour.page, "#answers")
    return browser


@pytest.fixture
def listed(opened):
    """The worklist with no filter, in its own order."""
    opened.script(
        "document.activeElement.blur(); document.querySelector('#filter-reset').click();"
        "const order = document.querySelector('#filter-order'); order.value = 'risk';"
        "order.dispatchEvent(new Event('change'))"
    )
    return opened


def test_worklist_is_ranked_by_risk_and_ends_with_dead_letters(listed):
    assert listed.ids() == ALL
    assert listed.one("#found").text == "4 of 4 answers, 1 dead letter"


@pytest.mark.parametrize(
    ("name", "value", "ids"),
    [
        ("support", "supported", ["ferry-0", "ferry-1", "ferry-3"]), ("support", "weak", ["ferry-2"]),
        ("support", "unsupported", ["ferry-0"]), ("kind", "mentions", ["ferry-0"]), ("kind", "sentences", ["ferry-2"]),
        ("kind", "facts", ["ferry-0", "ferry-1", "ferry-3"]), ("generator", "tern-2", ["ferry-1"]),
        ("generator", "\0none", ["ferry-2"]), ("reason", "unmatched value", ["ferry-0"]),
        ("reason", "no evidence at all", ["ferry-0"]), ("reason", "isolated evidence only", ["ferry-2"]),
        ("reason", "empty_answer", ["ferry-bad"]), ("mark", "right", []), ("mark", "none", ALL),
    ],
)  # fmt: skip
def test_filter_leaves_what_it_names(listed, name, value, ids):
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


def test_filters_are_chosen_by_hand_and_hold_together(listed):
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
        ("TOMORROW", ["ferry-1"]), ("ferry-2", ["ferry-2"]), ("leave winter", ["ferry-0", "ferry-2", "ferry-1"]),
        ("الظهر", ["ferry-3"]), ("an answer was expected", ["ferry-bad"]),
        ("timetable west", ["ferry-0", "ferry-2", "ferry-1"]), ("hovercraft", []),
    ],
)  # fmt: skip
def test_search_finds_words_of_every_text(listed, words, ids):
    listed.press("/")
    listed.press(words)
    assert listed.ids() == ids


def test_order_changes_the_worklist(listed):
    listed.choose("order", "newest")
    assert listed.ids() == ["ferry-3", "ferry-2", "ferry-1", "ferry-0", "ferry-bad"]
    listed.choose("order", "id")
    assert listed.ids() == ["ferry-0", "ferry-1", "ferry-2", "ferry-3", "ferry-bad"]


EVIDENCE = "leaves the east pier at noon"


@pytest.fixture(scope="module")
def opened_answer(browser, harbour):
    browser.forget()
    browser.open(harbour.page, "#answers/1")
    return browser


@pytest.fixture
def answer(opened_answer):
    """The answer with a supported span, ``leaves at noon``, and an unsupported one, ``40 cars``; nothing is lit."""
    opened_answer.press(Keys.ESCAPE)
    opened_answer.script("document.activeElement.blur()")
    opened_answer.point_at(opened_answer.one(".brand"))
    return opened_answer


def style(page, selector, name):
    return page.script("return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name)


def test_spans_are_coloured_by_support_and_unmatched_values_are_struck_out(answer):
    assert answer.texts(".answer-text .seg.supported") == ["leaves at noon"]
    assert "".join(answer.texts(".answer-text .seg.unsupported")) == "40 cars"
    assert answer.texts(".answer-text s") == ["40"]
    assert answer.texts(".span-text s") == ["40"]
    assert style(answer, ".answer-text s", "textDecorationLine") == "line-through"
    lines = [style(answer, f".seg.{support}", "textDecorationStyle") for support in ("supported", "unsupported")]
    assert lines == ["solid", "wavy"]


@pytest.mark.parametrize("place", [".answer-text .seg.supported", '[data-span="0"]'])
def test_pointing_at_a_span_lights_its_evidence_fact_and_scores(answer, place):
    assert not answer.all(".lit, .fact")
    answer.point_at(answer.one(place))
    assert sorted(answer.texts(".piece.lit")) == ["Time", EVIDENCE]
    assert "".join(answer.texts(".answer-text .fact")) == "The ferry leaves at noon"
    assert answer.texts(".span-row.lit .span-text") == ["leaves at noon"]
    assert answer.texts(".passage .score") == ["93.3%", "6.7%"]
    assert answer.texts(".passage.best .rank") == ["Passage 1"]


@pytest.mark.parametrize("place", [".passage-text .piece", ".passage h3 .piece"])
def test_pointing_at_evidence_lights_the_spans_that_rest_on_it(answer, place):
    piece = answer.one(place)
    answer.point_at(piece)
    assert answer.texts(".answer-text .lit") == ["leaves at noon"]
    assert answer.texts(".span-row.touched .span-text") == ["leaves at noon"]
    assert answer.texts(".piece.lit") == [piece.text]


def test_span_chosen_by_click_stays_lit(answer):
    answer.one('[data-span="0"]').click()
    answer.point_at(answer.one(".brand"))
    assert sorted(answer.texts(".piece.lit")) == ["Time", EVIDENCE]
    assert answer.one('[data-span="0"]').get_attribute("aria-pressed") == "true"
    answer.one('[data-span="0"]').click()
    answer.point_at(answer.one(".brand"))
    assert not answer.all(".lit")


def test_keyboard_lights_like_the_mouse(answer):
    answer.press("]")
    assert sorted(answer.texts(".piece.lit")) == ["Time", EVIDENCE]
    assert answer.script("return document.activeElement.dataset.span") == "0"
    answer.press(Keys.ESCAPE)
    answer.script("document.querySelector('.passage-text .piece').focus()")
    assert answer.texts(".span-row.touched .span-text") == ["leaves at noon"]
    answer.press(Keys.ENTER)
    assert answer.one('[data-span="0"]').get_attribute("aria-pressed") == "true"
    assert len(answer.texts(".piece.lit")) == 2


def test_evidence_is_described_for_a_screen_reader(answer):
    piece = answer.one(".passage-text .piece")
    assert piece.accessible_name == f"{EVIDENCE}: evidence for leaves at noon"
    assert piece.aria_role == "button"
