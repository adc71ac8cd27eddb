"""Keys go through the worklist and mark; marks stay, and go out and in as files by their menu."""

import csv
import json
from datetime import datetime

import pyarrow.parquet as pq
import pytest
from selenium.webdriver.common.keys import Keys


def opened(page):
    return page.texts(".crumbs b")[0]


def badges(page):
    """The mark in each row of the worklist that has one."""
    names = page.script("return [...document.querySelectorAll('#worklist a:has(.mark-badge)')].map((row) => row.id)")
    return dict(zip(names, page.texts("#worklist .mark-badge"), strict=True))


def open_menu(page):
    page.one("#export-menu summary").click()


def is_open(page):
    return page.script("return document.querySelector('#export-menu').open")


def save(page, ending):
    open_menu(page)
    page.one(f'[data-export="{ending}"]').click()
    return page.downloaded(ending)


def marked(page, audit):
    """An answer marked as wrong with a note, a span as right, a dead letter as unsure."""
    page.open(audit.page, "#answers/1")
    page.press("w", "n", '=1+1, "no"', Keys.ESCAPE, "]", "r", "j", "j", "j", "j", "u")


def test_next_and_previous_go_through_the_worklist_and_stop_at_its_ends(page, harbour):
    page.open(harbour.page, "#answers/1")
    seen = [opened(page)]
    for key in "jjjjjkkkkk":
        page.press(key)
        seen.append(opened(page))
    down = ["ferry-0", "ferry-2", "ferry-1", "ferry-3", "ferry-bad"]
    assert seen == [*down, "ferry-bad", *down[3::-1], "ferry-0"]


@pytest.mark.parametrize(("key", "mark"), [("r", "right"), ("w", "wrong"), ("u", "unsure")])
def test_key_marks_and_unmarks_the_open_answer(page, harbour, key, mark):
    page.open(harbour.page, "#answers/2")
    page.press(key)
    assert badges(page) == {"row-1": mark}
    assert page.one(f'[data-mark="{mark}"]').get_attribute("aria-pressed") == "true"
    assert page.one("#announcer").get_attribute("textContent") == f"Marked as {mark}"
    page.press(key)
    assert badges(page) == {}
    assert page.one("#mark-count").text == "0"


def test_marking_goes_on_to_the_next_claim_and_ends_at_the_last(page, harbour):
    page.open(harbour.page, "#answers/1")
    page.press("]")
    page.one('[data-mark="right"]').click()
    assert page.one("#mark-of").text == "“40 cars”"
    assert page.script("return document.activeElement.dataset.mark") == "right"
    page.press("w", "w")
    assert page.texts(".span-row .mark-badge") == ["right"]
    assert page.one("#mark-of").text == "“40 cars”"


def test_the_reviewers_name_is_asked_once(page, harbour):
    page.open(harbour.page, "#answers/1")
    page.one("#ask-reviewer").send_keys("Ada Marsh", Keys.ENTER)
    assert not page.one("#ask-reviewer").is_displayed()
    page.open(harbour.page, "#answers/2")
    assert not page.one("#ask-reviewer").is_displayed()
    assert page.one("#reviewer").get_attribute("value") == "Ada Marsh"


def test_letters_in_a_note_are_no_keys(page, harbour):
    page.open(harbour.page, "#answers/1")
    page.press("n", "jkruwo?/")
    assert page.one("#note").get_attribute("value") == "jkruwo?/"
    assert opened(page) == "ferry-0"
    assert badges(page) == {"row-0": "noted"}


def test_marks_and_notes_survive_a_reload(page, harbour):
    marked(page, harbour)
    before = badges(page)
    assert before == {"row-0": "wrong", "row-4": "unsure"}
    page.reload()
    assert badges(page) == before
    page.open(harbour.page, "#answers/1")
    assert page.one("#note").get_attribute("value") == '=1+1, "no"'
    assert page.texts(".span-row .mark-badge") == ["right"]
    assert page.one("#mark-count").text == "3"


def test_mark_filter_finds_what_was_marked(page, harbour):
    marked(page, harbour)
    page.choose("mark", "wrong")
    assert page.ids() == ["ferry-0"]
    page.choose("mark", "none")
    assert page.ids() == ["ferry-2", "ferry-1", "ferry-3"]


def test_keys_show_help_and_overview(page, harbour):
    page.open(harbour.page, "#answers/1")
    page.press("?")
    assert page.one("#help").is_displayed()
    page.press("j", Keys.ESCAPE)
    assert not page.one("#help").is_displayed()
    page.press("o")
    assert page.one("#view-overview").is_displayed()
    page.press("o")
    assert opened(page) == "ferry-0"


def expected(harbour):
    log = str(harbour.audit.log)
    whole = {"span_index": None, "char_start": None, "char_end": None, "text": None, "support": None}
    span = {"span_index": 0, "char_start": 10, "char_end": 24, "text": "leaves at noon", "support": "supported"}
    first, second = {"mark": "wrong", "label": "supported"}, {"mark": "right", "label": "supported"}
    third = {"mark": "unsure", "label": None}
    by, silent = {"note": '=1+1, "no"', "reviewer": None}, {"note": None, "reviewer": None}
    return [
        {"record_id": "ferry-0", "source_file": log, "source_row": 0, **whole, **first, **by},
        {"record_id": "ferry-0", "source_file": log, "source_row": 0, **span, **second, **silent},
        {"record_id": "ferry-bad", "source_file": log, "source_row": 4, **whole, **third, **silent},
    ]


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


def test_marks_leave_as_jsonl(page, harbour):
    marked(page, harbour)
    rows = [json.loads(line) for line in save(page, "jsonl").read_text(encoding="utf-8").splitlines()]
    assert [without(row, "risk", "marked_at", "audit") for row in rows] == expected(harbour)
    assert [row["risk"] is None for row in rows] == [False, False, True]
    assert all(datetime.fromisoformat(row["marked_at"]) for row in rows)


def test_marks_leave_as_parquet(page, harbour):
    marked(page, harbour)
    table = pq.read_table(save(page, "parquet"))
    assert [without(row, "risk", "marked_at", "audit") for row in table.to_pylist()] == expected(harbour)
    assert all(isinstance(row["marked_at"], datetime) for row in table.to_pylist())


def test_marks_leave_as_csv_that_a_spreadsheet_takes_for_no_formula(page, harbour):
    marked(page, harbour)
    with save(page, "csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = [{name: "" if value is None else str(value) for name, value in row.items()} for row in expected(harbour)]
    wanted[0]["note"] = f"'{wanted[0]['note']}"
    assert [without(row, "risk", "marked_at", "audit") for row in rows] == wanted


@pytest.mark.parametrize("way", ["save", "escape", "elsewhere"])
def test_the_menu_closes(page, harbour, way):
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


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_marks_come_back_from_their_file(page, harbour, ending):
    page.open(harbour.page, "#answers/1")
    open_menu(page)
    page.one("#reviewer").send_keys("Ada Marsh")
    page.one("h2.question").click()
    page.press("w", "n", '=1+1, "no"', Keys.ESCAPE, "]", "r")
    stored = "return localStorage.getItem(Object.keys(localStorage).find((key) => key.includes('marks')))"
    before = page.script(stored)
    file = save(page, ending)
    open_menu(page)
    page.one("#mark-clear").click()
    assert page.one("#mark-clear").text == "Really clear 2 marks?"
    page.one("#mark-clear").click()
    assert page.one("#mark-count").text == "0"
    page.one("#mark-import").send_keys(str(file))
    page.wait(lambda: page.one("#mark-count").text == "2")
    assert page.texts("#mark-told") == ["2 marks taken"]
    assert json.loads(page.script(stored)) == json.loads(before)
    assert page.texts(".span-row .mark-badge") == ["right"]
    assert page.complaints() == []


def test_an_older_mark_does_not_replace_a_newer_one_and_strangers_are_counted(page, harbour, tmp_path):
    page.open(harbour.page, "#answers/1")
    page.press("w")
    own = {"record_id": "ferry-0", "span_index": None, "mark": "right", "marked_at": "2001-01-01T00:00:00.000Z"}
    lines = [own, {**own, "record_id": "train-9"}]
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    open_menu(page)
    page.one("#mark-import").send_keys(str(tmp_path / "old.jsonl"))
    page.wait(lambda: page.texts("#mark-told")[0])
    told = "0 marks taken, 1 not newer than those here, 1 of answers or spans that are not on this page"
    assert page.texts("#mark-told") == [told]
    assert page.one('[data-mark="wrong"]').get_attribute("aria-pressed") == "true"


def test_a_mark_from_a_page_with_another_verdict_says_the_same_here(page, harbour, tmp_path):
    """Where the other page called the answer supported, this one has it flagged: "right" there is "wrong" here."""
    row = {"record_id": "ferry-0", "span_index": None, "mark": "right", "label": "supported", "marked_at": "2026-01-01"}
    (tmp_path / "first.jsonl").write_text(json.dumps(row), encoding="utf-8")
    page.open(harbour.page, "#answers/1")
    open_menu(page)
    page.one("#mark-import").send_keys(str(tmp_path / "first.jsonl"))
    page.wait(lambda: page.one("#mark-count").text == "1")
    assert badges(page) == {"row-0": "wrong"}


def test_a_file_that_holds_no_marks_is_refused_with_the_way_out(page, harbour, tmp_path):
    page.open(harbour.page, "#answers/1")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    open_menu(page)
    page.one("#mark-import").send_keys(str(tmp_path / "other.csv"))
    page.wait(lambda: page.texts("#mark-told")[0])
    (told,) = page.texts("#mark-told")
    assert "other.csv cannot be read: it has no columns record_id and mark." in told


def test_progress_counts_what_was_looked_at(page, harbour):
    page.open(harbour.page, "#answers/1")
    assert page.texts("#mark-progress-text") == ["0 rows of 5 on this page marked; 0 marks in all."]
    page.press("r", "]", "w", "j", "u")
    assert page.texts("#mark-progress-text") == ["2 rows of 5 on this page marked; 3 marks in all."]
    assert page.one("#mark-progress").get_attribute("value") == "2"


def test_the_bar_says_what_right_and_wrong_would_mean(page, claims):
    page.open(claims.page, "#answers/1")
    assert page.texts("#mark-verdict") == ["is said to have an unsupported claim. Is that right?"]
    assert page.texts("[data-mark] small") == ["something lacks support", "all is supported"]
    page.press("]")
    assert page.texts("#mark-verdict") == ["is called supported. Is that right?"]
    assert page.texts("[data-mark] small") == ["it is supported", "it lacks support"]
    page.press("]")
    assert page.texts("[data-mark] small") == ["it lacks support", "it is supported"]


def test_a_claim_without_a_verdict_is_marked_as_supported_or_not(page, claims):
    page.open(claims.page, "#answers/2")
    page.press("]")
    assert page.script("return document.querySelector('[data-mark=wrong]').firstChild.textContent") == "Unsupported"
    page.press("w")
    (row,) = [json.loads(line) for line in save(page, "jsonl").read_text(encoding="utf-8").splitlines()]
    assert (row["mark"], row["label"], row["support"]) == ("wrong", "unsupported", "not_calibrated")
