"""What axe finds on the page, and what a keyboard reaches."""

from __future__ import annotations

from importlib import resources

import pytest
from selenium.webdriver.common.keys import Keys
from tests.report.browser.audits import LoggedAudit
from tests.report.browser.open_page import OpenPage

AXE = resources.files("selenium_axe_python") / "axe-core" / "axe.min.js"
RUN = """
const done = arguments[0];
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(found.violations));
"""


def findings(page: OpenPage) -> list[tuple[str, list[str]]]:
    """Every finding of axe, however light, with the elements that it names."""
    if not page.script("return 'axe' in window"):
        page.script(AXE.read_text(encoding="utf-8"))
    found = page.driver.execute_async_script(RUN)
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: OpenPage, harbour: LoggedAudit, scheme: str) -> None:
    page.colours(scheme)
    page.open(harbour.page)
    page.script("for (const node of document.querySelectorAll('details')) node.open = true")
    for place in ("", "#answers/1", "#answers/4", "#answers/5"):
        page.go(place)
        assert findings(page) == [], place


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_lit_and_marked_answer(page: OpenPage, harbour: LoggedAudit, scheme: str) -> None:
    page.colours(scheme)
    page.open(harbour.page, "#answers/1")
    page.press("w", "]", "r")
    assert findings(page) == []
    page.press("?")
    assert findings(page) == []


def test_axe_finds_nothing_on_a_narrow_screen(page: OpenPage, harbour: LoggedAudit) -> None:
    page.size(360, 740)
    page.open(harbour.page)
    for place in ("#answers", "#answers/1"):
        page.go(place)
        assert findings(page) == [], place


def test_axe_finds_nothing_where_the_log_is_gone_or_hostile(
    page: OpenPage, harbour: LoggedAudit, hostile: LoggedAudit
) -> None:
    for file in (harbour.page_without_log, hostile.page):
        page.open(file, "#answers/1")
        assert findings(page) == []


def test_first_tab_leads_past_the_header(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page)
    page.press(Keys.TAB)
    assert page.script("return document.activeElement.className") == "skip"
    page.press(Keys.ENTER)
    assert page.script("return document.activeElement.id") == "main"


def test_colours_change_by_button_and_stay(page: OpenPage, harbour: LoggedAudit) -> None:
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    page.open(harbour.page)
    light = page.script(ground)
    page.one("#theme-button").click()
    page.one("#theme-button").click()
    dark = page.script(ground)
    assert dark != light
    page.reload()
    assert page.script(ground) == dark
