"""The page opens from a file, fits its window, is accessible, and shows markup in any field as the text that it is."""

import re
from importlib import resources

import pytest
from selenium.webdriver.common.keys import Keys
from tests.report.browser.audits import ATTACK, MARKDOWN, markdown_audit


@pytest.mark.parametrize("kind", ["harbour", "hostile"])
def test_narrow_screen_needs_no_sideways_scroll(page, kind, request):
    page.size(360, 740)
    page.open(request.getfixturevalue(kind).page)
    for place in ("", "#answers", "#answers/1", "#answers/2"):
        page.go(place)
        widths = "return [document.documentElement.scrollWidth, document.body.scrollWidth]"
        assert max(page.script(widths)) <= 360, place


def test_narrow_screen_goes_from_list_to_answer_and_back(page, harbour):
    page.size(360, 740)
    page.open(harbour.page, "#answers")
    page.one("#row-0").click()
    page.wait(lambda: page.one("#detail").is_displayed())
    assert not page.one("#worklist").is_displayed()
    page.one(".back").click()
    page.wait(lambda: page.one("#worklist").is_displayed())


def test_menu_of_marks_stands_whole_on_the_narrowest_screen(page, harbour):
    page.size(320, 740)
    page.open(harbour.page)
    page.one("#export-menu summary").click()
    menu = page.one(".menu-items").rect
    assert menu["x"] >= 0
    assert menu["x"] + menu["width"] <= 320


def test_arabic_runs_from_right_to_left(page, harbour):
    page.open(harbour.page, "#answers/4")
    direction = "return getComputedStyle(document.querySelector(arguments[0])).direction"
    for selector in ("h2.question", ".answer-text", ".passage-text", ".span-text", "#row-3 .item-question"):
        assert page.script(direction, selector) == "rtl", selector
    page.open(harbour.page, "#answers/1")
    for selector in ("h2.question", ".answer-text", ".passage-text", ".span-text"):
        assert page.script(direction, selector) == "ltr", selector


def test_a_thousand_answers_are_listed_and_can_be_reached(page, crowded):
    page.open(crowded.page, "#answers/1000")
    assert page.one("#found").text.startswith("1,000 of 1,000 answers")
    assert page.one("#worklist [aria-current]").get_attribute("id") == "row-999"
    assert page.texts(".crumbs b") == ["ferry-0999"]
    page.open(crowded.page, "#answers")
    made = len(page.all("#worklist li"))
    assert made < 1000
    page.script("document.querySelector('#worklist').scrollTop = 1e6")
    page.wait(lambda: len(page.all("#worklist li")) > made)
    assert page.complaints() == []


def test_a_method_without_evidence_mass_leaves_its_plot_and_its_bars_out(page, harbour, tmp_path):
    text = harbour.page.read_text(encoding="utf-8")
    text, spans = re.subn(r'"mass":[0-9.]+', '"mass":null', text)
    text, plots = re.subn(r'"masses":\[[^]]*\]', '"masses":[]', text)
    assert (spans, plots) == (5, 1)
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page.open(tmp_path / "page.html")
    assert "Evidence mass" not in page.texts(".plot h3")
    assert "Which place in the prompt is used" in page.texts(".plot h3")
    page.go("#answers/1")
    assert page.texts(".span-row .mass") == ["–", "–"]
    assert not page.all(".span-row .mass svg")
    assert page.complaints() == []


AXE = resources.files("selenium_axe_python") / "axe-core" / "axe.min.js"
RUN = """
const done = arguments[0];
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(found.violations));
"""


def findings(page):
    """Every finding of axe, however light, with the elements that it names."""
    if not page.script("return 'axe' in window"):
        page.script(AXE.read_text(encoding="utf-8"))
    found = page.driver.execute_async_script(RUN)
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


@pytest.mark.parametrize(
    ("scheme", "width", "kind", "places"),
    [
        *((scheme, 1400, "harbour", ("", "#answers/1", "#answers/4", "#answers/5")) for scheme in ("light", "dark")),
        ("light", 360, "harbour", ("#answers", "#answers/1")),
        ("light", 1400, "hostile", ("#answers/1",)),
    ],
)
def test_axe_finds_nothing(page, scheme, width, kind, places, request):
    page.colours(scheme)
    page.size(width, 740 if width < 1400 else 900)
    page.open(request.getfixturevalue(kind).page)
    page.script("for (const node of document.querySelectorAll('details')) node.open = true")
    for place in places:
        page.go(place)
        assert findings(page) == [], place


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_lit_and_marked_answer(page, harbour, scheme):
    page.colours(scheme)
    page.open(harbour.page, "#answers/1")
    page.press("w", "]", "r")
    assert findings(page) == []
    page.press("?")
    assert findings(page) == []


def test_axe_finds_nothing_where_the_log_is_gone(page, harbour):
    page.open(harbour.page_without_log, "#answers/1")
    assert findings(page) == []


def test_first_tab_leads_past_the_header(page, harbour):
    page.open(harbour.page)
    page.press(Keys.TAB)
    assert page.script("return document.activeElement.className") == "skip"
    page.press(Keys.ENTER)
    assert page.script("return document.activeElement.id") == "main"


def test_colours_change_by_button_and_stay(page, harbour):
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    page.open(harbour.page)
    light = page.script(ground)
    page.one("#theme-button").click()
    page.one("#theme-button").click()
    dark = page.script(ground)
    assert dark != light
    page.reload()
    assert page.script(ground) == dark


PLOTS = (
    "When answers were given", "Evidence mass", "Which place in the prompt is used", "Most used passages",
    "Least used passages", "Unsupported by generator", "Unsupported by kind of span",
)  # fmt: skip


def test_overview_shows_plots_and_the_riskiest_answers(page, harbour):
    page.open(harbour.page)
    assert page.one("#view-overview").is_displayed()
    assert not page.one("#view-answers").is_displayed()
    assert page.texts("#first-answers .what") == ["40 cars", "leaves at noon"]
    assert [text.split("(")[1] for text in page.texts("#first-answers .asked")] == ["today)", "in winter)"]
    page.one("#first-answers a").click()
    page.wait(lambda: page.one("#view-answers").is_displayed())
    assert page.texts(".crumbs b") == ["ferry-0"]


def test_every_plot_is_drawn_named_and_told_as_a_table(page, harbour):
    page.open(harbour.page)
    assert page.texts(".plot h3") == list(PLOTS)
    names = "return [...document.querySelectorAll('.plot [role=img]')].map((plot) => plot.getAttribute('aria-label'))"
    assert page.script(names) == list(PLOTS)
    assert len(page.all(".plot tbody tr")) >= len(PLOTS)


def test_bar_of_a_plot_leads_to_its_answers(page, harbour):
    page.open(harbour.page)
    bar = page.one('.plot:has([aria-label="Unsupported by kind of span"]) g.pick rect:not([width="0"])')
    page.point_at(bar)
    bar.click()
    assert page.one("#worklist").is_displayed()
    assert page.ids() == ["ferry-0"]
    assert page.one("#filter-support").get_attribute("value") == "unsupported"
    assert page.one("#filter-kind").get_attribute("value") == "mentions"
    assert page.one("#filter-reset").is_displayed()


def test_an_address_names_its_answer_by_id(page, harbour):
    page.open(harbour.page, "#answer=ferry-2")
    assert page.texts(".crumbs b") == ["ferry-2"]
    page.press("j")
    assert page.script("return location.hash") == "#answer=ferry-1"
    page.open(harbour.page, "#answer=ferry-bad")
    assert page.texts(".crumbs b") == ["ferry-bad"]


def test_an_id_that_is_not_on_the_page_is_said_so(page, harbour):
    page.open(harbour.page, "#answer=ferry-99")
    assert "No answer with the id ferry-99 is on this page." in page.texts("#detail")[0]
    assert page.texts("#detail code") == ["attribeam show ferry-99 --audit DIR"]
    page.press("j")
    assert page.texts(".crumbs b") == ["ferry-0"]


def test_filters_open_their_first_answer_where_they_hide_the_open_one(page, harbour):
    page.open(harbour.page, "#answer=ferry-0")
    page.choose("generator", "tern-2")
    assert page.texts(".crumbs b") == ["ferry-1"]
    assert page.script("return location.hash") == "#answer=ferry-1"


def test_carried_columns_can_be_filtered(page, harbour):
    page.open(harbour.page, "#answers")
    page.one("#column-filters summary").click()
    field = page.one('[data-column="team"]')
    assert page.texts('[data-column="team"] option') == ["all", "harbour"]
    field.send_keys("harbour")
    assert page.ids() == ["ferry-0", "ferry-2", "ferry-1", "ferry-3"]
    page.one("#filter-reset").click()
    assert field.get_attribute("value") == ""


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
