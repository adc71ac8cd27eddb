"""Two audits side by side: what changed on the overview, in the worklist, and in one answer then and now."""

from __future__ import annotations

from tests.report.browser.audits import ATTACK, LoggedAudit
from tests.report.browser.open_page import OpenPage
from tests.report.browser.test_hostile_texts import unharmed


def rows(page: OpenPage) -> list[list[str]]:
    """The cells of the table "Then and now", row by row."""
    return page.script(
        "return [...document.querySelectorAll('.then-and-now tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )


def test_the_overview_lists_the_answers_that_changed_and_opens_them(page: OpenPage, compared: LoggedAudit) -> None:
    page.open(compared.page)
    assert page.one("#changed-title").text == "What changed"
    assert "1 newly flagged, 1 no longer flagged, 1 about the same" in page.one("section:has(#changed-title)").text
    found = page.texts("#changed-answers li")
    assert len(found) == 2
    assert "newly flagged" in found[0]
    assert "no longer flagged" in found[1]
    page.one("#changed-answers a").click()
    page.wait(lambda: page.all(".then-and-now"))
    assert page.one(".crumbs b bdi").text == "ferry-0"


def test_an_answer_shows_its_claims_then_and_now_in_rows_of_the_same_words(
    page: OpenPage, compared: LoggedAudit
) -> None:
    page.open(compared.page, "#answer=ferry-0")
    assert page.texts(".then-and-now .label") == ["Then and now: newly flagged"]
    assert page.texts(".then-and-now th") == ["Then, risk 13", "Now, risk 88"]
    (same, new) = rows(page)
    assert all(cell.startswith("leaves at noon● supported") for cell in same)
    assert new == ["–", "40 cars○ unsupported, not in the passages: 40"]


def test_claims_that_begin_at_one_place_stand_beside_themselves(page: OpenPage, compared: LoggedAudit) -> None:
    page.open(compared.page, "#answer=ferry-2")
    assert [[cell.partition("○")[0].partition("●")[0] for cell in row] for row in rows(page)] == [
        ["leaves at noon", "leaves at noon"],
        ["leaves", "leaves"],
    ]


def test_a_claim_that_is_gone_stands_where_it_stood_as_the_text_that_it_was(
    page: OpenPage, compared: LoggedAudit
) -> None:
    page.open(compared.page, "#answer=ferry-1")
    (_, gone) = rows(page)
    assert gone[0].startswith(f"40 cars {ATTACK}○ unsupported")
    assert gone[1] == "–"
    assert unharmed(page)


def test_the_worklist_is_filtered_and_ordered_by_change(page: OpenPage, compared: LoggedAudit) -> None:
    page.open(compared.page, "#answers")
    page.choose("order", "change")
    assert page.ids()[:2] == ["ferry-0", "ferry-1"]
    for change, found in (
        ("newly flagged", ["ferry-0"]),
        ("no longer flagged", ["ferry-1"]),
        ("about the same", ["ferry-2"]),
        ("not in the earlier audit", ["ferry-3"]),
    ):
        page.choose("change", change)
        assert page.ids() == found
