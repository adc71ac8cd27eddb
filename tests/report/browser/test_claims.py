"""Claims with their parts, what is no claim, and answers that come apart."""

import pytest
from selenium.webdriver.common.keys import Keys
from tests.report.browser.audits import ATTACK
from tests.report.browser.test_page import unharmed
from tests.report.made_audit import ANSWER

LONG_ID = f"{'0123456789abcdef' * 4}-row-3"


@pytest.fixture(scope="module")
def opened(browser, claims):
    browser.forget()
    browser.open(claims.page, "#answers/1")
    return browser


@pytest.fixture
def answer(opened):
    """The answer with two claims, no filter, and nothing chosen."""
    opened.script("document.activeElement.blur(); document.querySelector('#filter-reset').click()")
    opened.go("#answers/1")
    opened.press(Keys.ESCAPE)
    return opened


def test_a_claim_is_one_row_with_its_parts_within(answer):
    assert answer.texts(".spans > ol > li > .span-row .span-text") == ["leaves at noon", "40 cars"]
    assert answer.texts(".spans > ol > li:nth-child(2) .part-chip .span-text") == ["40"]
    assert answer.texts(".spans .label") == ["2 claims"]
    assert answer.texts(".spans .others .span-text") == ["The ferry"]
    assert not answer.one(".spans .others .span-row").is_displayed()


def test_a_verdict_has_its_score_in_figures_and_words(answer):
    assert answer.texts(".spans > ol .mass") == ["0.94", "0.06"]
    supported, unsupported = answer.texts(".spans > ol .span-row .span-meta")
    assert supported.startswith("supported, quoted, support very likely (0.94), facts, best passage 1, margin 0.75")
    assert unsupported.startswith("unsupported: other value — evidence says: twelve, support very unlikely (0.06)")
    assert unsupported.strip().endswith("no evidence, not in the passages: 40")
    assert answer.texts(".others .verdict") == ["no claim: heading"]


def test_keys_go_from_claim_to_claim_and_open_what_is_folded(answer):
    chosen = "return document.querySelector('.span-row[aria-pressed=true] .span-text').textContent"
    seen = []
    for _ in range(4):
        answer.press("]")
        seen.append(answer.script(chosen))
    assert seen == ["leaves at noon", "40 cars", "The ferry", "leaves at noon"]
    assert answer.one(".spans .others .span-row").is_displayed()


def test_a_chosen_part_says_more_and_can_be_marked(answer):
    chip, verdict = answer.one(".part-chip"), answer.one(".part-chip .verdict")
    assert not verdict.is_displayed()
    chip.click()
    assert verdict.is_displayed()
    assert answer.one("#mark-of").text == "“40”"
    answer.press("]")
    assert answer.texts(".span-row[aria-pressed=true] .span-text") == ["The ferry"]


def test_the_overview_starts_with_the_riskiest_claim_and_its_unmatched_value(page, claims):
    page.open(claims.page)
    assert page.texts("#first-answers .what")[0] == "40 cars"
    assert page.texts("#first-answers li:first-child .what s") == ["40"]
    assert page.texts("#first-answers .asked")[0] == "When does the ferry leave?"
    assert "Support score" in page.texts(".plot h3")
    assert page.complaints() == []


def test_what_speaks_against_a_claim_is_marked_where_the_audit_has_it(page, claims, tmp_path):
    text = claims.page.read_text(encoding="utf-8")
    start = ANSWER.index("cars")
    text = text.replace('"unmatched":["40"],"words":[]', f'"unmatched":["40"],"words":[[{start},{start + 4}]]', 1)
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page.open(tmp_path / "page.html", "#answers/1")
    for place in (".answer-text", ".spans > ol > li > .span-row", "#first-answers"):
        assert page.texts(f"{place} em.suspect") == ["cars"], place


def test_refusals_and_what_is_not_judged_come_apart_after_the_others(answer):
    groups = [one.partition(":")[0] for one in answer.texts("#worklist .group")]
    assert groups == ["Refusals", "Not judged", "Dead letters"]
    assert answer.texts("#worklist .risk")[0] == "88risk"
    assert answer.texts("#row-2 .risk") == ["refusal"]
    assert answer.texts("#row-3 .risk") == ["–"]
    assert answer.texts("#row-3 .tag") == ["not judged: language"]
    answer.choose("order", "id")
    assert answer.texts("#worklist .group") == []
    answer.choose("order", "risk")


@pytest.mark.parametrize(
    ("name", "value", "rows"),
    [
        ("answer", "refusal", ["row-2"]), ("answer", "not_judged", ["row-3"]), ("answer", "answer", ["row-0", "row-1"]),
        ("support", "not_calibrated", ["row-1"]), ("support", "not_judged", ["row-1", "row-3"]),
        ("reason", "not judged: table", ["row-1"]), ("reason", "other value", ["row-0"]),
    ],
)  # fmt: skip
def test_kinds_and_reasons_can_be_filtered(answer, name, value, rows):
    answer.choose(name, value)
    assert answer.script("return [...document.querySelectorAll('#worklist a')].map((row) => row.id)") == rows


def test_a_long_id_is_shortened_and_can_be_copied(answer):
    answer.go("#answers/2")
    (shown,) = answer.texts(".crumbs b bdi")
    assert len(shown) == 40
    assert (shown[:8], shown[-5:]) == (LONG_ID[:8], LONG_ID[-5:])
    assert answer.one(".crumbs .copy").accessible_name == f"Copy {LONG_ID}"
    assert answer.complaints() == []


def rows(page):
    """The cells of the table "Then and now", row by row."""
    return page.script(
        "return [...document.querySelectorAll('.then-and-now tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )


def test_the_overview_lists_the_answers_that_changed_and_opens_them(page, compared):
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


def test_an_answer_shows_its_claims_then_and_now_in_rows_of_the_same_words(page, compared):
    page.open(compared.page, "#answer=ferry-0")
    assert page.texts(".then-and-now .label") == ["Then and now: newly flagged"]
    assert page.texts(".then-and-now th") == ["Then, risk 13", "Now, risk 88"]
    (same, new) = rows(page)
    assert all(cell.startswith("leaves at noon● supported") for cell in same)
    assert new == ["–", "40 cars○ unsupported, not in the passages: 40"]


def test_claims_that_begin_at_one_place_stand_beside_themselves(page, compared):
    page.open(compared.page, "#answer=ferry-2")
    found = [[cell.partition("○")[0].partition("●")[0] for cell in row] for row in rows(page)]
    assert found == [["leaves at noon"] * 2, ["leaves"] * 2]


def test_a_claim_that_is_gone_stands_where_it_stood_as_the_text_that_it_was(page, compared):
    page.open(compared.page, "#answer=ferry-1")
    (_, gone) = rows(page)
    assert gone[0].startswith(f"40 cars {ATTACK}○ unsupported")
    assert gone[1] == "–"
    assert unharmed(page)


def test_the_worklist_is_filtered_and_ordered_by_change(page, compared):
    page.open(compared.page, "#answers")
    page.choose("order", "change")
    assert page.ids()[:2] == ["ferry-0", "ferry-1"]
    changes = ("newly flagged", "no longer flagged", "about the same", "not in the earlier audit")
    for row, change in enumerate(changes):
        page.choose("change", change)
        assert page.ids() == [f"ferry-{row}"]
