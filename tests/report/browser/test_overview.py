"""The plots of the overview, and the way from them to the worklist."""

from __future__ import annotations

import pytest
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


def test_paper_has_light_colours_and_no_buttons(page: OpenPage, harbour: LoggedAudit) -> None:
    page.colours("dark", medium="print")
    page.open(harbour.page)
    assert page.script("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.one(".bar").is_displayed()
    assert page.one(".figures").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_of_places_are_told_apart_by_width_in_either_colours(
    page: OpenPage, harbour: LoggedAudit, scheme: str
) -> None:
    page.colours(scheme)
    page.open(harbour.page)
    card = '.plot:has([aria-label="Which place in the prompt is used"])'
    (words,) = page.texts(f"{card} .sub")
    assert words.startswith("Narrow bars: claims whose best passage stands at that place. Wide bars behind them: ")
    used, best = (
        page.all(f'{card} rect[fill="var(--rest)"], {card} [fill="var(--rest)"] rect'),
        page.all(f'{card} rect[fill="var(--bar)"], {card} [fill="var(--bar)"] rect'),
    )
    assert used
    assert best
    assert max(bar.rect["width"] for bar in best) < min(bar.rect["width"] for bar in used)
