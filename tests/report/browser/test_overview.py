"""The plots of the overview, and the way from them to the worklist."""

from __future__ import annotations

from tests.report.browser.audits import LoggedAudit
from tests.report.browser.open_page import OpenPage

PLOTS = (
    "When answers were given",
    "Evidence mass",
    "Which place in the prompt is used",
    "Most used passages",
    "Least used passages",
    "Unsupported by generator",
    "Unsupported by kind of span",
)


def test_overview_shows_plots_and_the_riskiest_answers(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page)
    assert page.one("#view-overview").is_displayed()
    assert not page.one("#view-answers").is_displayed()
    assert page.texts("#first-answers .what") == ["40 cars", "leaves at noon"]
    assert [text.split("(")[1] for text in page.texts("#first-answers .asked")] == ["today)", "in winter)"]
    page.one("#first-answers a").click()
    page.wait(lambda: page.one("#view-answers").is_displayed())
    assert page.texts(".crumbs b") == ["ferry-0"]


def test_every_plot_is_drawn_named_and_told_as_a_table(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page)
    assert page.texts(".plot h3") == list(PLOTS)
    names = "return [...document.querySelectorAll('.plot [role=img]')].map((plot) => plot.getAttribute('aria-label'))"
    assert page.script(names) == list(PLOTS)
    assert len(page.all(".plot tbody tr")) >= len(PLOTS)


def test_bar_of_a_plot_leads_to_its_answers(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page)
    bar = page.one('.plot:has([aria-label="Unsupported by kind of span"]) g.pick rect:not([width="0"])')
    page.point_at(bar)
    bar.click()
    assert page.one("#worklist").is_displayed()
    assert page.ids() == ["ferry-0"]
    assert page.one("#filter-support").get_attribute("value") == "unsupported"
    assert page.one("#filter-kind").get_attribute("value") == "mentions"
    assert page.one("#filter-reset").is_displayed()


def test_an_address_names_its_answer_by_id(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page, "#answer=ferry-2")
    assert page.texts(".crumbs b") == ["ferry-2"]
    page.press("j")
    assert page.script("return location.hash") == "#answer=ferry-1"
    page.open(harbour.page, "#answer=ferry-bad")
    assert page.texts(".crumbs b") == ["ferry-bad"]


def test_an_id_that_is_not_on_the_page_is_said_so(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page, "#answer=ferry-99")
    assert "No answer with the id ferry-99 is on this page." in page.texts("#detail")[0]
    assert page.texts("#detail code") == ["attribeam show ferry-99 --audit DIR"]
    page.press("j")
    assert page.texts(".crumbs b") == ["ferry-0"]


def test_filters_open_their_first_answer_where_they_hide_the_open_one(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page, "#answer=ferry-0")
    page.choose("generator", "tern-2")
    assert page.texts(".crumbs b") == ["ferry-1"]
    assert page.script("return location.hash") == "#answer=ferry-1"


def test_carried_columns_can_be_filtered(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page, "#answers")
    page.one("#column-filters summary").click()
    field = page.one('[data-column="team"]')
    assert page.texts('[data-column="team"] option') == ["all", "harbour"]
    field.send_keys("harbour")
    assert page.ids() == ["ferry-0", "ferry-2", "ferry-1", "ferry-3"]
    page.one("#filter-reset").click()
    assert field.get_attribute("value") == ""
