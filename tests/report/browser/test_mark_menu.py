"""The menu of marks: reviewer, progress, files in and out, clearing; and what a mark says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from tests.report.browser.audits import LoggedAudit
from tests.report.browser.open_page import OpenPage


def open_menu(page: OpenPage) -> None:
    page.one("#export-menu summary").click()


def is_open(page: OpenPage) -> bool:
    return page.script("return document.querySelector('#export-menu').open")


def save(page: OpenPage, ending: str) -> Path:
    open_menu(page)
    page.one(f'[data-export="{ending}"]').click()
    return page.downloaded(ending)


def marked(page: OpenPage, audit: LoggedAudit) -> None:
    """A name, a wrong answer with a note that looks like a formula, and a right claim."""
    page.open(audit.page, "#answers/1")
    open_menu(page)
    page.one("#reviewer").send_keys("Ada Marsh")
    page.one("h2.question").click()
    page.press("w", "n", '=1+1, "no"', Keys.ESCAPE, "]", "r")


@pytest.mark.parametrize("way", ["save", "escape", "elsewhere"])
def test_the_menu_closes(page: OpenPage, harbour: LoggedAudit, way: str) -> None:
    page.open(harbour.page, "#answers/1")
    page.press("r")
    open_menu(page)
    assert is_open(page)
    if way == "save":
        page.one('[data-export="csv"]').click()
    elif way == "escape":
        page.one("#reviewer").click()
        page.press(Keys.ESCAPE)
        page.press(Keys.ESCAPE)
    else:
        page.one("h2.question").click()
    page.wait(lambda: not is_open(page))


def test_marks_carry_the_reviewer_and_what_they_say(page: OpenPage, harbour: LoggedAudit) -> None:
    marked(page, harbour)
    rows = [json.loads(line) for line in save(page, "jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["mark"], row["label"], row["reviewer"]) for row in rows] == [
        ("wrong", "supported", "Ada Marsh"),
        ("right", "supported", "Ada Marsh"),
    ]
    page.reload()
    assert page.one("#reviewer").get_attribute("value") == "Ada Marsh"


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_marks_come_back_from_their_file(page: OpenPage, harbour: LoggedAudit, ending: str) -> None:
    marked(page, harbour)
    before = page.script("return localStorage.getItem(Object.keys(localStorage).find((key) => key.includes('marks')))")
    file = save(page, ending)
    open_menu(page)
    page.one("#mark-clear").click()
    assert page.one("#mark-clear").text == "Really clear 2 marks?"
    page.one("#mark-clear").click()
    assert page.one("#mark-count").text == "0"
    page.one("#mark-import").send_keys(str(file))
    page.wait(lambda: page.one("#mark-count").text == "2")
    assert page.texts("#mark-told") == ["2 marks taken"]
    after = page.script("return localStorage.getItem(Object.keys(localStorage).find((key) => key.includes('marks')))")
    assert json.loads(after) == json.loads(before)
    assert page.texts(".span-row .mark-badge") == ["right"]
    assert page.complaints() == []


def test_an_older_mark_does_not_replace_a_newer_one_and_strangers_are_counted(
    page: OpenPage, harbour: LoggedAudit, tmp_path: Path
) -> None:
    page.open(harbour.page, "#answers/1")
    page.press("w")
    own = {"record_id": "ferry-0", "span_index": None, "mark": "right", "marked_at": "2001-01-01T00:00:00.000Z"}
    lines = [own, {**own, "record_id": "train-9"}]
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    open_menu(page)
    page.one("#mark-import").send_keys(str(tmp_path / "old.jsonl"))
    page.wait(lambda: page.texts("#mark-told")[0])
    assert page.texts("#mark-told") == [
        "0 marks taken, 1 not newer than those here, 1 of answers or spans that are not on this page"
    ]
    assert page.one('[data-mark="wrong"]').get_attribute("aria-pressed") == "true"


def test_a_file_that_holds_no_marks_is_refused_with_the_way_out(
    page: OpenPage, harbour: LoggedAudit, tmp_path: Path
) -> None:
    page.open(harbour.page, "#answers/1")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    open_menu(page)
    page.one("#mark-import").send_keys(str(tmp_path / "other.csv"))
    page.wait(lambda: page.texts("#mark-told")[0])
    (told,) = page.texts("#mark-told")
    assert "other.csv cannot be read: it has no columns record_id and mark." in told


def test_progress_counts_what_was_looked_at(page: OpenPage, harbour: LoggedAudit) -> None:
    page.open(harbour.page, "#answers/1")
    assert page.texts("#mark-progress-text") == ["0 rows of 5 on this page marked; 0 marks in all."]
    page.press("r", "]", "w", "j", "u")
    assert page.texts("#mark-progress-text") == ["2 rows of 5 on this page marked; 3 marks in all."]
    assert page.one("#mark-progress").get_attribute("value") == "2"


def test_the_bar_says_what_right_and_wrong_would_mean(page: OpenPage, claims: LoggedAudit) -> None:
    page.open(claims.page, "#answers/1")
    assert page.texts("#mark-verdict") == ["is said to have an unsupported claim. Is that right?"]
    assert page.texts("[data-mark] small") == ["something lacks support", "all is supported"]
    page.press("]")
    assert page.texts("#mark-verdict") == ["is called supported. Is that right?"]
    assert page.texts("[data-mark] small") == ["it is supported", "it lacks support"]
    page.press("]")
    assert page.texts("[data-mark] small") == ["it lacks support", "it is supported"]


def test_a_claim_without_a_verdict_is_marked_as_supported_or_not(page: OpenPage, claims: LoggedAudit) -> None:
    page.open(claims.page, "#answers/2")
    page.press("]")
    assert page.script("return document.querySelector('[data-mark=wrong]').firstChild.textContent") == "Unsupported"
    page.press("w")
    (row,) = [json.loads(line) for line in save(page, "jsonl").read_text(encoding="utf-8").splitlines()]
    assert (row["mark"], row["label"], row["support"]) == ("wrong", "unsupported", "not_calibrated")
