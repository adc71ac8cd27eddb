"""Markup and script in any field of an audit is shown as the text that it is."""

from selenium.webdriver.common.keys import Keys
from tests.report.browser.audits import ATTACK, MARKDOWN, markdown_audit

HARMED = """
return [window.hacked === undefined ? [] : ["script ran"], ...["img", "iframe", "a[href^=javascript]", "[onerror]"]
  .map((selector) => [...document.querySelectorAll(selector)].map((node) => node.outerHTML))].flat()
"""


def unharmed(page):
    return page.script(HARMED) == [] and page.complaints() == []


def test_answer_shows_hostile_texts_of_every_field(page, hostile):
    page.open(hostile.page, "#answers/1")
    assert page.one("h2.question").text == ATTACK
    assert ATTACK in page.one(".answer-text").text
    assert page.one(".crumbs b bdi").get_attribute("title") == f"ferry-0 {ATTACK}"
    assert page.texts(".crumbs b bdi")[0].startswith("ferry-0 <script>wind")
    assert f"gull {ATTACK}" in page.one(".crumbs").text
    assert f"team: harbour {ATTACK}" in page.one(".crumbs").text
    for selector in (".passage h3", ".passage-text"):
        assert all(ATTACK in text for text in page.texts(selector)), selector
    assert page.one(".passage-head .id bdi").get_attribute("title") == ATTACK
    assert ATTACK in page.texts('[data-span="1"] .span-meta')[0]
    assert unharmed(page)


def test_markdown_of_an_answer_is_shown_as_meant_and_its_offsets_hold(page, tmp_path):
    page.open(markdown_audit(tmp_path).page, "#answers/1")
    assert page.one(".answer-text").get_property("textContent") == MARKDOWN
    shown = page.one(".answer-text").text
    assert "The ferry" in shown.splitlines()[0]
    assert f"It leaves at noon from the pier of snake_case_town: 2 * 3 * 4, <b>{ATTACK}</b>." in shown
    assert not [syntax for syntax in ("## ", "**leaves", "|--", "```") if syntax in shown]
    assert "".join(page.texts(".answer-text strong .seg, .answer-text .seg strong")) == "leaves at noon40 cars"
    assert page.texts(".answer-text em:not(.suspect)") == ["the pier"]
    assert [cell.text for cell in page.all(".answer-text :is(th, td)")] == ["Pier", "Leaves", "East", "a \\| b"]
    assert page.texts(".answer-text code") == ["2 * 3 * 4", "**code**\n"]
    assert page.texts(".spans .span-text") == ["leaves at noon", "40 cars"]
    assert unharmed(page)


def test_answer_without_its_log_shows_hostile_texts(page, hostile):
    page.open(hostile.page_without_log, "#answers/1")
    assert all(ATTACK in text for text in page.texts(".span-text"))
    assert all(ATTACK in text for text in page.texts(".fragment"))
    assert page.one(".passage-head .id bdi").get_attribute("title") == ATTACK
    assert unharmed(page)


def test_no_view_runs_what_a_log_holds(page, hostile):
    page.open(hostile.page)
    for place in ("", "#answers", "#answers/2", f"#answers/{ATTACK}", "#javascript:window.hacked=1"):
        page.go(place)
        assert unharmed(page), place


def test_overview_shows_hostile_names(page, hostile):
    page.open(hostile.page)
    assert f"tiny {ATTACK}" in page.one(".model").text
    assert any(ATTACK in text for text in page.texts("#first-answers .asked"))
    assert ATTACK in " ".join(page.texts(".fact-groups"))


def test_dead_letter_shows_hostile_texts(page, hostile):
    page.open(hostile.page, "#answers/2")
    assert page.one(".dead-letter-message").text == f"message {ATTACK}"
    assert ATTACK in page.one("h2.question").text
    assert page.one(".crumbs b bdi").get_attribute("title") == f"bad {ATTACK}"
    assert f"column {ATTACK}" in page.one(".crumbs").text
    assert unharmed(page)


def test_worklist_and_filters_show_hostile_texts(page, hostile):
    page.open(hostile.page, "#answers")
    assert page.ids() == [f"ferry-0 {ATTACK}", f"bad {ATTACK}"]
    assert f"gull {ATTACK}" in page.texts("#filter-generator option")
    page.choose("generator", f"gull {ATTACK}")
    assert page.ids() == [f"ferry-0 {ATTACK}"]
    assert unharmed(page)


def test_using_hostile_texts_runs_nothing(page, hostile):
    typed = "<img src=x onerror=hacked=4>"
    page.open(hostile.page, "#answers/1")
    page.point_at(page.one(".piece"))
    page.press("]", "n", typed, Keys.ESCAPE, "w", "[", "/", "window.hacked", Keys.ESCAPE)
    assert page.one("#note").get_attribute("value") == typed
    assert page.ids() == [f"ferry-0 {ATTACK}", f"bad {ATTACK}"]
    page.reload()
    assert page.one("#mark-count").text == "1"
    assert unharmed(page)
