"""MTRAG, SummEdits and BUMP: answers that people judged as a whole."""

import pytest
from tests.evaluation.dataset_rows import bump_row, mtrag_row, summedits_row, write_rows

from attribeam.evaluation.datasets.judged_summaries import load_bump, load_summedits
from attribeam.evaluation.datasets.labelled_log import load_judged_log
from attribeam.evaluation.datasets.passage_qa import load_mtrag
from attribeam.pipeline.command_line import main
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import JudgedAnswer, SkippedRow


def test_mtrag_answer_has_the_last_question_and_the_mean_grade(tmp_path):
    path = write_rows(tmp_path / "mtrag.jsonl", [mtrag_row("Ada did.", "4", "4", "3")])
    (answer,) = load_mtrag(path).answers
    assert answer.record.question == "Who lit it?"
    assert answer.record.passages == (Passage("Ada Thorne lit the lamp in 1874.", "Brigg Point", "p"),)
    assert (answer.record.generator, answer.split) == ("tiny", "test")
    assert answer.faithfulness == pytest.approx(11 / 3)
    assert (answer.is_supported, answer.unsupported) == (True, None)


@pytest.mark.parametrize(
    ("grades", "supported"), [("222", False), ("114", False), ("223", True), ("1", False), ("23", True)]
)
def test_mtrag_answer_with_a_mean_of_at_most_two_is_unsupported(tmp_path, grades, supported):
    (answer,) = load_mtrag(write_rows(tmp_path / "m.jsonl", [mtrag_row("Ada did.", *grades)])).answers
    assert answer.is_supported is supported


def test_mtrag_answers_that_people_wrote_are_a_split_of_their_own(tmp_path):
    rows = [mtrag_row("Ada did.", "4", model="reference"), mtrag_row("Ada.", "4")]
    dataset = load_mtrag(write_rows(tmp_path / "m.jsonl", rows))
    assert [answer.split for answer in dataset.answers] == ["reference", "test"]


def test_mtrag_rows_that_cannot_be_used_are_skipped_with_their_reason(tmp_path):
    rows = [mtrag_row(" ", "4"), mtrag_row("Ada.", "1", passages=[]), mtrag_row("Ada."), mtrag_row("Ada.", "1")]
    dataset = load_mtrag(write_rows(tmp_path / "m.jsonl", rows))
    assert dataset.skipped == (SkippedRow(0, "empty_answer"), SkippedRow(1, "no_passages"), SkippedRow(2, "not_judged"))
    assert len(dataset.answers) == 1


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"faithfulness": ["4", "5"]}, "line 2: field 'faithfulness' should have grades from 1 to 4, has: '5'"),
        ({"faithfulness": [4]}, "line 2: field 'faithfulness' should be a list of strings"),
        ({"conversation": []}, "line 2: field 'conversation' should end with a turn of the user"),
        ({"passages": "none"}, "line 2: field 'passages' should be a list of objects, was: str"),
    ],
)
def test_faulty_mtrag_row_is_an_error_with_file_line_and_field(tmp_path, fields, problem):
    path = write_rows(tmp_path / "m.jsonl", [mtrag_row("Ada.", "4"), mtrag_row("Ada.", "4", **fields)])
    with pytest.raises(DataError, match=rf"m\.jsonl, {problem}"):
        load_mtrag(path)


def test_summedits_document_is_the_passage_and_the_file_names_the_domain(tmp_path):
    rows = [summedits_row("Ada lit it."), summedits_row("Jon lit it.", "entity_modification", row_id="b")]
    good, edited = load_summedits(write_rows(tmp_path / "summedits_sea_mail.jsonl.xz", rows)).answers
    assert good.record.passages == (Passage("Ada Thorne lit the lamp at Brigg Point in 1874."),)
    assert (good.record.record_id, good.record.question, good.group) == ("a", "", "sea_mail")
    assert (good.is_supported, good.error_kinds) == (True, ())
    assert (edited.is_supported, edited.error_kinds) == (False, ("entity_modification",))


def test_summedits_repeated_summary_is_skipped_also_in_another_file(tmp_path):
    row = summedits_row("Ada lit it.")
    write_rows(tmp_path / "summedits_b.jsonl", [summedits_row("Jon lit it.", "swap"), row])
    write_rows(tmp_path / "summedits_a.jsonl", [row, row])
    write_rows(tmp_path / "others.jsonl", [{"no": "summary"}])
    dataset = load_summedits(tmp_path)
    assert [answer.group for answer in dataset.answers] == ["a", "b"]
    assert dataset.skipped == (
        SkippedRow(1, "duplicate", "summedits_a.jsonl"),
        SkippedRow(1, "duplicate", "summedits_b.jsonl"),
    )
    assert dataset.first(1).skipped == ()


def test_summedits_rows_without_text_are_skipped(tmp_path):
    rows = [summedits_row(" "), summedits_row("Ada.", doc="\n")]
    dataset = load_summedits(write_rows(tmp_path / "s.jsonl", rows))
    assert dataset.skipped == (SkippedRow(0, "empty_answer"), SkippedRow(1, "no_passages"))


def test_faulty_summedits_label_is_an_error_with_its_place(tmp_path):
    path = write_rows(tmp_path / "s.jsonl", [summedits_row("Ada.", label=2)])
    with pytest.raises(DataError, match=r"s\.jsonl, line 1: field 'label' should be 0 or 1, was: 2"):
        load_summedits(path)


def test_bump_reference_counts_once_and_every_different_edit_once(tmp_path):
    rows = [
        bump_row(0, "Jon Reed lit the lamp."),
        bump_row(1, "Ada Thorne lit the bell.", corrected_error_type="Extrinsic Entity Error"),
        bump_row(2, "Jon Reed lit the lamp."),
    ]
    dataset = load_bump(write_rows(tmp_path / "bump_task1.jsonl", rows))
    found = [(one.record.record_id, one.is_supported, one.error_kinds) for one in dataset.answers]
    assert found == [
        ("bump_task1-0-reference", True, ()),
        ("bump_task1-0-edited", False, ("Intrinsic Entity",)),
        ("bump_task1-1-edited", False, ("Extrinsic Entity",)),
    ]
    assert dataset.skipped == (SkippedRow(2, "duplicate"),)
    assert {one.group for one in dataset.answers} == {"bump_task1"}


def test_bump_rows_without_text_are_skipped(tmp_path):
    rows = [bump_row(0, " "), bump_row(1, "Jon.", article="")]
    dataset = load_bump(write_rows(tmp_path / "b.jsonl", rows))
    assert dataset.skipped == (SkippedRow(0, "empty_answer"), SkippedRow(1, "no_passages"))


def test_directory_without_files_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match=r"should be a file or a directory with bump\*\.jsonl or \.jsonl\.xz, has none"):
        load_bump(tmp_path)


def test_plain_file_is_read_in_place_of_its_packed_twin(tmp_path):
    write_rows(tmp_path / "bump.jsonl", [bump_row(0, "Jon lit it.")])
    write_rows(tmp_path / "bump.jsonl.xz", [bump_row(1, "Jon lit it again.")])
    assert [one.record.record_id for one in load_bump(tmp_path).answers] == ["bump-0-reference", "bump-0-edited"]


@pytest.mark.parametrize(
    ("source", "load", "rows"),
    [
        ("mtrag", load_mtrag, [mtrag_row("Ada did.", "1", "4"), mtrag_row("Jon.", "4", model="reference")]),
        ("summedits", load_summedits, [summedits_row("Ada."), summedits_row("Jon.", "swap", "negation", row_id="b")]),
        ("bump", load_bump, [bump_row(0, "Jon Reed lit the lamp.")]),
    ],
)
def test_imported_log_has_the_judgements_of_the_data_set(tmp_path, source, load, rows):
    data, log = write_rows(tmp_path / f"{source}.jsonl", rows), tmp_path / "log.parquet"
    assert main(["import", source, "--data", str(data), "--output", str(log)]) == 0
    assert without_place(load_judged_log(log).answers) == without_place(load(data).answers)


def without_place(answers):
    return [str(answer).replace(repr(answer.record.source), "") for answer in answers]


def test_import_of_several_files_names_the_file_of_a_skipped_row(tmp_path, capsys):
    write_rows(tmp_path / "bump_1.jsonl", [bump_row(0, "Jon.")])
    write_rows(tmp_path / "bump_2.jsonl", [bump_row(0, "Jon.")])
    assert main(["import", "bump", "--data", str(tmp_path), "--output", str(tmp_path / "log.parquet")]) == 0
    assert "skipped, duplicate: 1 rows: bump_2.jsonl row 0" in capsys.readouterr().out


def test_answer_without_any_judgement_is_refused():
    record = QARecord("r", "", (Passage("x"),), "Ada.", RowSource("a", 0))
    with pytest.raises(ValueError, match="should have unsupported ranges or answer_supported, has neither"):
        JudgedAnswer(record, None)
