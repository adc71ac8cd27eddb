"""The stages of the graph: groups of rows, reading, parsing, and masking what a span says."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.logs.faults import FAULTS, LONGEST
from tests.logs.log_files import log_row, write_log
from tests.report.made_audit import ANSWER, made_record, unsupported_span

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.methods.audit_row import AuditRow
from attribeam.logs.files import ArrowStorage
from attribeam.logs.privacy import MASK, PrivacySettings, Redactor
from attribeam.logs.rows import RowRange
from attribeam.schemas import (
    DeadLetter,
    Passage,
    QARecord,
    Reason,
    RowFault,
    RowSource,
    Stage,
    UnsupportedReason,
    dead_letter_schema,
    evidence_schema,
)
from attribeam.schemas.evidence_record import evidence_table
from attribeam.transforms import stages
from attribeam.transforms.audit_answers import RowGroupCoder
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas
from attribeam.transforms.row_groups import (
    DEAD_LETTER_FILE,
    RowGroup,
    dead_letter,
    hide_texts,
    pack_rows,
    take_stage_seconds,
    timed_stage,
    write_group,
)
from attribeam.transforms.stages import attributed_blocks, parse_each, read_rows, redacted, runs_in_model_thread

SCHEMAS = OutputSchemas(evidence_schema(), dead_letter_schema())


def letter(row):
    return DeadLetter("x", RowSource("log", row), [*Stage][row % len(Stage)], Reason.PARSE_FAILED, "no")


def refuse_odd(group):
    def rows():
        for number in group.rows:
            if number % 2:
                group.refuse(letter(number))
            else:
                yield number

    return group.with_rows(rows())


def test_rows_are_made_when_they_are_asked_for_and_a_runner_may_move_the_group_at_any_stage():
    coder, group = RowGroupCoder(), refuse_odd(RowGroup("chunk", iter([1, 2, 3, 4]), [letter(9)]))
    assert coder.estimate_size(group) == 1
    assert [one.source.source_row for one in group.dead_letters] == [9]
    moved = coder.decode(coder.encode(group))
    assert (moved.chunk, moved.rows, moved.dead_letters) == ("chunk", (2, 4), [letter(9), letter(1), letter(3)])


@given(rows=st.lists(st.integers(0, 100)), max_rows=st.integers(1, 10), max_weight=st.integers(1, 200))
def test_packs_are_the_rows_in_order_and_keep_their_bounds(rows, max_rows, max_weight):
    found = [*pack_rows(rows, max_rows=max_rows, weigh=int, max_weight=max_weight)]
    assert [row for pack in found for row in pack] == rows
    assert all(1 <= len(pack) <= max_rows and sum(pack[:-1]) < max_weight for pack in found)


@pytest.mark.parametrize("count", [5, 1500])
def test_file_of_dead_letters_is_the_same_in_whatever_order_they_come(tmp_path, count):
    letters = [letter(row) for row in range(count)]
    files = []
    for name, order in (("upwards", letters), ("downwards", letters[::-1])):
        (tmp_path / name).mkdir()
        write_group(RowGroup("chunk", [], order), tmp_path / name, SCHEMAS)
        files.append(tmp_path / name / DEAD_LETTER_FILE)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert pq.read_table(files[0])["source_row"].to_pylist() == [*range(count)]


def test_a_letter_masks_what_any_text_of_its_row_shows_to_be_a_secret():
    settings = AuditSettings(privacy=PrivacySettings(redact=True), dead_letter_text=True)
    record = QARecord("482719", "My phone is 482719.", (Passage("A"),), "It is 482719.", RowSource("log.parquet", 0))
    refused = dead_letter(record, RowFault(Reason.PARSE_FAILED, "at 482719"), Stage.PARSE, settings)
    assert (refused.record_id, refused.message) == (MASK * 6, f"at {MASK * 6}")
    assert refused.answer == f"It is {MASK * 6}."


class ThreadModel:
    """Finds something in every row, in a thread, once it may."""

    settings = None

    def __init__(self):
        self.may_go_on, self.second = threading.Event(), threading.Event()
        self.threads, self.started = ThreadPoolExecutor(1), list[int]()

    def start(self, rows):
        self.started.append(len(rows))
        if len(self.started) > 1:
            self.second.set()
        return self.threads.submit(lambda: [self.may_go_on.wait()] * len(rows))


def test_the_next_block_is_started_before_the_outcomes_of_the_first_are_waited_for(monkeypatch):
    model = ThreadModel()
    monkeypatch.setattr(stages, "BLOCK_ROWS", 2)
    record = made_record("log", 0)
    rows = [AuditRow(replace(record), ParsedAnswer((), (), (), (), (), ()), (), None)] * 5
    blocks = attributed_blocks(iter(rows), model)
    with ThreadPoolExecutor(1) as consumer:
        first = consumer.submit(next, blocks)
        assert model.second.wait(60)
        assert not first.done()
        model.may_go_on.set()
        assert [len(pairs) for pairs in (first.result(), *blocks)] == [2, 2, 1]
    assert model.started == [2, 2, 1]


def test_model_works_ahead_on_a_gpu_only():
    assert runs_in_model_thread(torch.device("cuda", 0))
    assert not runs_in_model_thread(torch.device("cpu"))


def test_stages_stand_in_the_order_of_the_graph_are_taken_once_and_count_work_that_fails():
    take_stage_seconds()
    for name in ("write", "parse", "read"):
        with timed_stage(name):
            pass
    with pytest.raises(ValueError, match="no"), timed_stage("parse"):
        raise ValueError("no")
    assert [one.stage for one in take_stage_seconds()] == ["read", "parse", "write"]
    assert take_stage_seconds() == ()


def read(file, *, rows, with_text=False):
    settings = AuditSettings(max_text_chars=LONGEST, dead_letter_text=with_text)
    group = read_rows(RowGroup("chunk", [RowRange(file, 0, rows)]), settings, ArrowStorage(), {})
    return group.with_rows([*group.rows])


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_row_is_one_dead_letter_of_its_stage(name, tmp_path):
    changes, stage, reason, column = FAULTS[name]
    file = write_log(tmp_path / "log.parquet", [log_row(0), log_row(1, **changes), log_row(2)])
    group = read(file, rows=3)
    (letter,) = group.dead_letters
    assert (letter.stage, letter.reason, letter.column) == (stage, reason, column)
    assert (letter.source.source_file, letter.source.source_row) == (file, 1)
    assert [record.source.source_row for record in group.rows] == [0, 2]


def test_answer_text_is_in_the_dead_letter_only_when_asked_for(tmp_path):
    file = write_log(tmp_path / "log.parquet", [log_row(0, answer="A secret answer.", passages=[])])
    (without,) = read(file, rows=1).dead_letters
    (with_text,) = read(file, rows=1, with_text=True).dead_letters
    assert "secret" not in repr(without)
    assert with_text.answer == "A secret answer."


class FragileParser:
    """Fails on every text that begins with "bad"."""

    def __init__(self, error):
        self._error = error

    def parse_many(self, texts, _passages):
        for text in texts:
            if text.startswith("bad"):
                raise self._error
            yield ParsedAnswer((), (), (), (), (), ())


@given(bad=st.lists(st.booleans(), max_size=20))
def test_only_the_answers_that_break_the_parser_fail(bad):
    answers = [made_record("log", 0, answer="bad one" if one else "good one") for one in bad]
    outcomes = parse_each(FragileParser(KeyError("bad one")), answers)
    assert [isinstance(outcome, RowFault) for outcome in outcomes] == bad
    for outcome in outcomes:
        if isinstance(outcome, RowFault):
            assert outcome.reason is Reason.PARSE_FAILED
            assert "KeyError" in str(outcome)
            assert "bad one" not in str(outcome)


def test_running_out_of_memory_fails_the_run():
    with pytest.raises(MemoryError):
        parse_each(FragileParser(MemoryError()), [made_record("log", 0, answer=one) for one in ("good", "bad")])


SPAN = replace(unsupported_span(), reason=UnsupportedReason.OTHER_VALUE)
MAIL = "ann@pier.example"


@pytest.mark.parametrize(
    ("passage", "title", "expected", "shown"),
    [
        pytest.param(f"Write to {MAIL}.", None, MAIL, MASK * len(MAIL), id="all of it is masked"),
        pytest.param(f"Write to {MAIL}.", None, f"to {MAIL}", f"to {MASK * len(MAIL)}", id="a part is masked"),
        pytest.param(f"Write to {MAIL}.", None, "pier", MASK * 4, id="it is part of what is masked"),
        pytest.param(f"The pier: {MAIL}.", None, "pier", MASK * 4, id="it is part of it in one place"),
        pytest.param(f"Write to {MAIL} by noon.", None, "noon", "noon", id="it stands elsewhere"),
        pytest.param(f"Write to {MAIL}.", None, "12:00", MASK * 5, id="it stands nowhere, and something is masked"),
        pytest.param("Write by noon.", None, "12:00", "12:00", id="it stands nowhere, and nothing is masked"),
        pytest.param("Write by noon.", f"Ask {MAIL}", "Ask", "Ask", id="it stands in a title"),
        pytest.param("Write by noon.", None, None, None, id="there is none"),
    ],
)
def test_what_the_evidence_has_instead_is_masked_as_in_the_passages(passage, title, expected, shown):
    record = replace(made_record("log", 0), passages=(Passage("The ferry leaves."), Passage(passage, title)))
    _, (span,) = redacted(record, [replace(SPAN, expected=expected)], Redactor(PrivacySettings(redact=True)))
    assert (span.expected, span.reason) == (shown, SPAN.reason)


def test_without_texts_the_reason_stays_and_what_the_evidence_has_is_null():
    record = replace(made_record("log", 0, answer=ANSWER), extra_columns=())
    table = evidence_table([(record, [replace(SPAN, expected="twelve")])], evidence_schema())
    (row,) = hide_texts(table, PrivacySettings(no_texts=True)).to_pylist()
    assert (row["reason"], row["expected"], row["text"]) == ("other_value", None, "")
    assert (row["record_id"], row["generator"]) == (record.record_id, record.generator)
