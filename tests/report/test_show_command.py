"""One record on a terminal, its lines with letters below what is marked, and ids like one that is not there."""

import os
import re
import unicodedata
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.report.made_audit import (
    ANSWER,
    PASSAGES,
    carry_instead,
    made_audit,
    no_claim,
    supported_span,
    told_spans,
    unsupported_span,
)

from attribeam.pipeline.command_line import main
from attribeam.report.messages import harmless, one_line
from attribeam.report.show_command import Mark, line_ranges, marked_lines, nearest_ids
from attribeam.schemas import AnswerKind, CharRange, ClaimKind, Passage
from attribeam.schemas.run_manifest import RunStatus

_COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch):
    """What tells rich about a terminal is the test's own business."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "90")


def _show(made, record_id, *more):
    return main(["show", record_id, "--audit", str(made.root), *more])


@pytest.fixture
def shown(capsys):
    def out(made, record_id, *more):
        assert _show(made, record_id, *more) == 0
        return capsys.readouterr().out

    return out


def test_an_answer_is_shown_with_spans_evidence_and_passages(tmp_path, shown):
    lines = shown(made_audit(tmp_path), "ferry-1", "--evidence", "3").splitlines()
    assert "When does the ferry leave?" in lines[lines.index("Question") + 1]
    answer = lines.index("Answer") + 1
    assert lines[answer] == f"  {ANSWER}"
    letters = "1sssssssssssss", "2UUUUUU"
    gap = ANSWER.index("40 cars") - ANSWER.index(" It carries") + len(".")
    assert lines[answer + 1] == f"  {' ' * ANSWER.index('leaves')}{letters[0]}{' ' * gap}{letters[1]}"
    assert any(re.search(r"1 s supported .*62%.*leaves at noon", line) for line in lines)
    assert any("not in the passages: 40" in line for line in lines)
    assert any("passage 1 6.50 leaves the east pier at noon" in line for line in lines)
    assert any("passage 1, title 0.50 Time" in line for line in lines)
    passage = lines.index("Passage 1 (pier-1)") + 1
    assert lines[passage] == f"  {PASSAGES[0].text}"
    marks = "1" + "^" * len("eaves the east pier at noon")
    assert lines[passage + 1] == " " * (2 + PASSAGES[0].text.index("leaves")) + marks
    assert "generator: gull-1 | team: harbour" in "\n".join(lines)


def test_a_claim_says_why_it_has_its_verdict(tmp_path, shown):
    quoted, other = told_spans()
    inside = replace(other, span_index=2, claim_index=1)
    attack = replace(other, span_index=3, claim_index=3, expected="twelve\x1b[2J\nand more")
    out = shown(made_audit(tmp_path, spans={1: (quoted, other, inside, attack)}), "ferry-1")
    lines = [line.strip() for line in out.splitlines()]
    assert [line for line in lines if line == "quoted" or line.startswith("other value")] == [
        "quoted",
        "other value — evidence says: twelve",
        next(line for line in lines if "and more" in line),
    ]
    assert "\x1b" not in out


def test_spans_have_colour_on_a_terminal_where_it_is_wanted(tmp_path, shown, monkeypatch):
    made = made_audit(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = shown(made, "ferry-1")
    assert "\x1b[36mleaves at noon" in out
    assert "\x1b[1;4;31m40 cars" in out
    monkeypatch.setenv("NO_COLOR", "1")
    out = shown(made, "ferry-1")
    assert not _COLOUR.search(out)
    assert "\x1b[1;4m40 cars" in out
    assert "2UUUUUU" in out


HOSTILE = "\x1b[31m[bold]\x1b]0;title\x07\x9b2J\u202e\r:ship:"


def _hostile(record):
    passage = Passage(f"{PASSAGES[0].text}{HOSTILE}", f"{PASSAGES[0].title}{HOSTILE}", HOSTILE)
    texts = {"record_id": f"ferry{HOSTILE}", "question": HOSTILE, "answer": f"{ANSWER}{HOSTILE}", "generator": HOSTILE}
    return replace(record, passages=(passage, PASSAGES[1]), extra_columns=(("team", HOSTILE),), **texts)


def test_texts_that_would_steer_the_terminal_are_shown_as_text(tmp_path, shown):
    piece = replace(supported_span().evidence[0], text=HOSTILE, passage_id=HOSTILE)
    span = replace(unsupported_span(), span_index=0, claim_index=0, unmatched_values=(HOSTILE,), evidence=(piece,))
    made = made_audit(tmp_path, record_ids=["x"], spans={0: (span,)}, change=_hostile)
    out = shown(made, f"ferry{HOSTILE}")
    assert not set(out) & set("\x1b\x07\x9b\u202e\r")
    assert out.count("␛[31m[bold]␛]0;title␇") >= 8
    assert ":ship:" in out


@pytest.mark.parametrize(
    ("ticks", "kind", "told"),
    [
        (10**15, pa.timestamp("us", "Mars/Base"), "team: 2001-09-09 01:46:40.000000Z"),
        (253402300800, pa.timestamp("s"), "team: 10000-01-01 00:00:00"),
        (10**18 + 1, pa.timestamp("ns"), "team: 2001-09-09 01:46:40.000000001"),
    ],
)
def test_a_time_that_python_lacks_is_shown_as_arrow_writes_it(ticks, kind, told, tmp_path, shown):
    made = made_audit(tmp_path)
    carry_instead(made.root, ticks, kind)
    assert told in shown(made, "ferry-0")


@pytest.mark.parametrize("status", [RunStatus.DONE, RunStatus.RUNNING])
def test_an_unknown_id_is_bad_usage_and_names_the_nearest_and_what_may_come_yet(tmp_path, capsys, status):
    assert _show(made_audit(tmp_path, status=status), "ferry-9\x1b[2J") == 2
    said = capsys.readouterr().err
    unfinished = "attribeam show: this audit is not complete: its status is running; only finished chunks"
    assert said.startswith(unfinished) is (status is RunStatus.RUNNING)
    assert re.search("has no record 'ferry-9.*'; the nearest are: .*ferry-1", said)
    assert "\x1b" not in said
    assert said.count("\n") == 1


def test_a_dead_letter_is_shown_with_its_reason(tmp_path, shown):
    out = shown(made_audit(tmp_path), "ferry-bad")
    assert "dead letter: empty_answer at stage validate" in out
    assert "an answer was expected" in out


def test_claims_their_parts_and_what_is_none_are_told_apart(tmp_path, shown):
    claim = replace(unsupported_span(), span_index=0, claim_index=0, support_score=0.25)
    part = replace(claim, span_index=1, text="40")
    others = (no_claim(ClaimKind.HEADING, 2), no_claim(ClaimKind.CODE, 3))
    spans = [replace(one, answer_kind=AnswerKind.PARTIAL, answer_risk=0.75) for one in (claim, part, *others)]
    made = made_audit(tmp_path, record_ids=["ferry"], spans={0: tuple(spans)})
    out = shown(made, "ferry")
    assert "Claims (1; see all 4 spans with --all-spans)" in out
    assert "score 0.25" in out
    assert "within the claim" not in out
    assert "no claim: heading" not in out
    out = shown(made, "ferry", "--all-spans")
    kind = "kind of answer: partial | risk 0.75 | not judged: code"
    for text in (
        kind,
        "Spans (4, of which 1 are claims)",
        "score 0.25",
        "within the claim of span 1",
        "no claim: heading",
    ):
        assert text in out
    assert out.count("within the claim") == 1


def test_an_id_of_several_rows_shows_them_all(tmp_path, shown):
    made = made_audit(tmp_path, record_ids=["ferry", "ferry-bad"])
    out = shown(made, "ferry-bad")
    assert (out.count("Spans (2, of which 2 are claims)"), out.count("dead letter:")) == (1, 1)


def test_without_its_log_the_spans_are_shown_and_what_is_missing_is_said(tmp_path, shown):
    made = made_audit(tmp_path)
    made.log.unlink()
    out = shown(made, "ferry-1")
    assert "leaves at noon" in out
    assert "not there any more" in out
    assert "Question\n" not in out


IDS = ["trace-8f3a-001", "trace-8f3a-002", "trace-77c0-001", "0451"]


def test_one_slip_finds_the_id_that_was_meant(tmp_path):
    audit = made_audit(tmp_path, record_ids=IDS).opened
    wanted = ["trace-8f3a-0O1", "race-77c0-001", "451", "ferry-bed"]
    found = [nearest_ids(audit, one)[0] for one in wanted]
    assert found == ["trace-8f3a-001", "trace-77c0-001", "0451", "ferry-bad"]


def test_an_id_without_its_zeros_finds_the_one_with_the_same_number_first(tmp_path):
    ids = [f"qa-{number:03}" for number in (*range(19, 99, 10), 9, 90)]
    audit = made_audit(tmp_path, record_ids=ids).opened
    assert nearest_ids(audit, "qa-9")[0] == "qa-009"
    assert nearest_ids(audit, "QA-0090", count=1) == ["qa-090"]


def test_a_pipe_in_place_of_evidence_is_told_and_not_waited_for(tmp_path, capsys):
    made = made_audit(tmp_path)
    (evidence, *_) = sorted((made.root / "evidence").iterdir())
    evidence.unlink()
    os.mkfifo(evidence)
    assert _show(made, "ferry-1") == 1
    assert "bytes as it was written, but it is missing; start the audit's command again" in capsys.readouterr().err


@given(st.text())
def test_nothing_that_steers_a_terminal_is_left_and_every_character_keeps_its_place(text):
    shown = harmless(text)
    assert len(shown) == len(text)
    assert not {char for char in shown if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")} - {"\n"}
    assert "\n" not in one_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "M"])))
def test_plain_text_of_any_script_stays_as_it_is(text):
    assert harmless(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "␛[2J"), ("\x9b31m", "\ufffd31m"), ("a\tb\r", "a b␍"), ("\x7f\x00\x07", "␡␀␇"),
        ("abc\u202edef", "abc\ufffddef"), ("\u2066x\u2069", "\ufffdx\ufffd"), ("a\u00a0b\u3000c", "a b c"),
        ("क्‍ष می‌خواهم", "क्‍ष می‌خواهم"), ("\ud800", "\ufffd"),
    ],
)  # fmt: skip
def test_what_steers_is_shown_instead_of_done(text, shown):
    assert harmless(text) == shown


TEXTS = st.text(st.sampled_from("ab \n語é🚢\u0301\u200d"), max_size=60)
WIDTHS = st.integers(min_value=2, max_value=20)


def _plain(text, marks, width=40):
    return [(line.plain, letters) for line, letters in marked_lines(text, marks, width=width)]


def test_the_higher_rank_is_seen_where_marks_overlap_a_label_names_the_start_and_a_mark_goes_on_in_the_next_line():
    marks = [Mark(CharRange(0, 10), "s", "cyan", label="1"), Mark(CharRange(5, 8), "U", "red", rank=2, label="2")]
    assert _plain("Noon east.", marks) == [("Noon east.", "1ssss2UUss")]
    marks = [Mark(CharRange(5, 14), "w", "yellow")]
    assert _plain("Noon east pier.", marks, width=9) == [("Noon east", "     wwww"), ("pier.", "wwww")]


@given(TEXTS, WIDTHS)
def test_lines_fit_and_lose_only_white_space(text, width):
    lines = list(line_ranges(text, width))
    for start, end in lines:
        assert cell_len(text[start:end]) <= width
        assert "\n" not in text[start:end]
    kept = "".join(text[start:end] for start, end in lines)
    assert "".join(kept.split()) == "".join(text.split())
    assert lines == sorted(lines)


@given(TEXTS, WIDTHS)
def test_marked_lines_show_the_harmless_text_with_letters_of_its_width(text, width):
    marks = [Mark(CharRange(0, len(text)), "s", "cyan")] if text else []
    for line, letters in marked_lines(text, marks, width=width):
        assert line.plain in harmless(text)
        assert len(letters) <= sum(cell_len(char) for char in line.plain)


def test_one_endless_word_is_cut_without_trying_it_whole():
    lines = list(line_ranges("a" * 200_000, 50))
    assert len(lines) == 4000
    assert lines[-1] == (199_950, 200_000)
