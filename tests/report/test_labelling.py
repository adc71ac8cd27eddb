"""Tasks for people who label, riskiest first or by ids, and the marks that they saved: what is read, what refused."""

import json
import math
import random
import sys
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import cohen_kappa_score
from tests.evaluation.marked_ferries import save
from tests.report.made_audit import ANSWER, made_audit, supported_span, told_spans

from attribeam.pipeline.command_line import main
from attribeam.report.labelling import Mark, cohen_kappa, krippendorff_alpha, marks_by_answer, read_marks
from attribeam.schemas import CharRange, RowSource, Support
from attribeam.schemas.errors import DataError, ExitCode, UsageError
from attribeam.schemas.files import check_apart


def export(audit, output, *options, tool="label-studio"):
    return main(["export", "--audit", str(audit.root), "--format", tool, "--output", str(output), *options])


def exported(audit, output, *options, tool="label-studio"):
    assert export(audit, output, *options, tool=tool) == ExitCode.DONE
    return json.loads(output.read_text(encoding="utf-8"))


@pytest.fixture
def audit(tmp_path):
    return made_audit(tmp_path / "made", spans={1: (supported_span(),)})


def test_a_label_studio_task_suggests_the_claims_with_their_verdicts(audit, tmp_path):
    task, *_ = exported(audit, tmp_path / "tasks.json")
    assert task["data"]["record_id"] == "ferry-0"
    assert task["data"]["source_file"] == str(audit.log)
    assert task["data"]["answer"] == ANSWER
    assert task["data"]["passages"].startswith("[1] Timetable\nThe ferry to Aln")
    (prediction,) = task["predictions"]
    regions = [one["value"] for one in prediction["result"]]
    suggested = [(one["text"], one["labels"]) for one in regions]
    assert suggested == [("leaves at noon", ["supported"]), ("40 cars", ["unsupported"])]
    assert all(ANSWER[one["start"] : one["end"]] == one["text"] for one in regions)
    names = {(one["from_name"], one["to_name"], one["type"]) for one in prediction["result"]}
    assert names == {("support", "answer", "labels")}


def test_an_argilla_record_suggests_the_claims_with_their_verdicts(audit, tmp_path):
    record, *_ = exported(audit, tmp_path / "records.json", tool="argilla")
    assert set(record) == {"id", "fields", "metadata", "suggestions", "responses", "vectors"}
    assert record["id"] == f"{audit.log}:0"
    assert record["metadata"] == {"record_id": "ferry-0", "source_file": str(audit.log), "source_row": 0}
    value = record["suggestions"]["support"]["value"]
    suggested = [(ANSWER[one["start"] : one["end"]], one["label"]) for one in value]
    assert suggested == [("leaves at noon", "supported"), ("40 cars", "unsupported")]


def test_tasks_say_why_claims_have_their_verdicts(tmp_path):
    audit = made_audit(tmp_path / "made", record_ids=["ferry-0"], spans={0: told_spans()})
    (task,) = exported(audit, tmp_path / "tasks.json")
    told = [one["meta"]["text"] for one in task["predictions"][0]["result"]]
    assert told == [["quoted"], ["other value — evidence says: twelve"]]
    (record,) = exported(audit, tmp_path / "records.json", tool="argilla")
    told = {name: record["metadata"][name] for name in ("reason", "expected", "how")}
    assert told == {"reason": ["other_value"], "expected": ["twelve"], "how": ["quoted"]}


def test_what_argillas_page_would_count_twice_is_a_square_there(tmp_path):
    def with_emoji(record):
        return replace(record, answer=f"🚢{record.answer[1:]}", question="🚢?")

    audit = made_audit(tmp_path / "made", change=with_emoji)
    record, *_ = exported(audit, tmp_path / "records.json", tool="argilla")
    assert record["fields"]["question"] == "□?"
    assert record["fields"]["answer"] == f"□{ANSWER[1:]}"
    task, *_ = exported(audit, tmp_path / "tasks.json")
    assert task["data"]["answer"] == f"🚢{ANSWER[1:]}"


def test_what_claims_nothing_is_not_suggested(tmp_path):
    heading = replace(supported_span(), support=Support.NO_CLAIM, claim_index=None)
    mention = replace(supported_span(), span_index=2, claim_index=1)
    audit = made_audit(tmp_path / "made", record_ids=["ferry-0"], spans={0: (heading, mention)})
    (task,) = exported(audit, tmp_path / "tasks.json")
    assert task["predictions"][0]["result"] == []


def test_the_riskiest_answers_come_first(audit, tmp_path):
    tasks = exported(audit, tmp_path / "tasks.json")
    assert [one["data"]["record_id"] for one in tasks] == ["ferry-0", "ferry-2", "ferry-1"]
    (first,) = exported(audit, tmp_path / "tasks.json", "--answers", "1")
    assert first == tasks[0]


def test_chosen_records_are_exported_and_unknown_ids_are_counted(audit, tmp_path, capsys):
    (tmp_path / "ids.txt").write_text("ferry-1\r\n\nferry-2\nferry-9\n", encoding="utf-8")
    tasks = exported(audit, tmp_path / "tasks.json", "--records", str(tmp_path / "ids.txt"))
    assert [one["data"]["record_id"] for one in tasks] == ["ferry-2", "ferry-1"]
    assert "2 answers of the 3 ids of --records were audited" in capsys.readouterr().err


def test_name_that_no_file_has_is_apart_from_every_file(tmp_path):
    check_apart(tmp_path, ["x" * 300, "a\0b", tmp_path / "nothing"])
    with pytest.raises(UsageError, match="is one of the files to read"):
        check_apart(tmp_path, ["x" * 300, tmp_path / "."])


@pytest.mark.parametrize(
    "command", ["export --format argilla", "report", "report --format csv", "evaluate --dataset marks --data no.jsonl"]
)
def test_no_file_of_the_audit_and_no_log_of_it_is_replaced(audit, capsys, command):
    files = [audit.log, *(path for path in audit.root.rglob("*") if path.suffix in (".json", ".parquet"))]
    before = [path.read_bytes() for path in files]
    for path in files:
        assert main([*command.split(), "--audit", str(audit.root), "--output", str(path)]) == ExitCode.BAD_USAGE
        assert "is one of the files to read" in capsys.readouterr().err
    assert len(files) > 3
    assert [path.read_bytes() for path in files] == before


def test_without_its_log_there_is_nothing_to_label(audit, tmp_path, capsys):
    audit.log.unlink()
    output = tmp_path / "tasks.json"
    assert export(audit, output) == ExitCode.FAILED
    assert "3 answers are left out" in capsys.readouterr().err
    assert not output.exists()


def test_the_list_of_ids_is_not_replaced(audit, tmp_path):
    ids = tmp_path / "ids.txt"
    ids.write_text("ferry-1\n")
    assert export(audit, ids, "--records", str(ids)) == ExitCode.BAD_USAGE
    assert ids.read_text() == "ferry-1\n"


@pytest.mark.parametrize(("text", "message"), [("\n \n", "has none"), (None, "one record_id a line: ")])
def test_a_list_of_ids_that_is_none_is_refused(audit, tmp_path, capsys, text, message):
    ids = tmp_path / "ids.txt"
    if text is not None:
        ids.write_text(text, encoding="utf-8")
    assert export(audit, tmp_path / "o.json", "--records", str(ids)) == ExitCode.BAD_USAGE
    assert message in capsys.readouterr().err


NOBODY = {"char_start": None, "char_end": None, "reviewer": None, "marked_at": "2026"}
ROWS = [
    {"record_id": "=a", "char_start": 3, "char_end": 9, "label": "unsupported", "reviewer": "Ada", "marked_at": "2026"},
    {"record_id": "b", "label": "supported", **NOBODY},
    {"record_id": "c", "label": None, **NOBODY},
]
EXPECTED = (Mark("=a", CharRange(3, 9), False), Mark("b", None, True))


def csv_text(rows):
    lines = [",".join(rows[0])]
    for row in rows:
        fields = ["" if row[name] is None else str(row[name]) for name in rows[0]]
        lines.append(",".join(f"'{one}" if one.startswith("=") else one for one in fields))
    return "\ufeff" + "\r\n".join(lines) + "\r\n"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_every_format_that_the_page_saves_is_read(tmp_path, ending):
    file = tmp_path / f"marks.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    else:
        text = csv_text(ROWS) if ending == "csv" else "".join(f"{json.dumps(row)}\n" for row in ROWS)
        file.write_text(text, encoding="utf-8", newline="")
    found = read_marks([file])
    assert found.marks == EXPECTED
    assert (found.silent, found.disputed) == (1, 0)


@pytest.mark.parametrize(
    ("saved", "shown", "same"),
    [
        ("at noon", "at noon", True),
        ("at noon", "at dawn", False),
        ("1250 cars", "1,250 cars", True),  # as a spreadsheet writes it
        ("", "at noon", True),
        ("█████ at noon", "Anna, at noon", True),
    ],
)
def test_a_mark_is_of_the_words_that_it_was_made_on(tmp_path, saved, shown, same):
    row = {**mark("supported", "Ada", "2026"), "char_start": 0, "char_end": 9, "text": saved}
    (found,) = read_marks([save(tmp_path / "marks.jsonl", [row])]).marks
    assert found.may_be_of(shown) is same


def mark(label, reviewer, moment):
    return {"record_id": "a", "label": label, "reviewer": reviewer, "marked_at": moment}


def test_of_one_reviewer_the_newest_mark_counts_and_reviewers_who_disagree_cancel_out(tmp_path):
    first = save(
        tmp_path / "1.jsonl", [mark("supported", "Ada", "2026-01-02"), mark("unsupported", "Ada", "2026-01-01")]
    )
    assert read_marks([first]).marks == (Mark("a", None, True),)
    second = save(tmp_path / "2.jsonl", [mark("unsupported", "Ben", "2026-01-01")])
    found = read_marks([first, second])
    assert (found.marks, found.disputed) == ((), 1)


def test_marks_of_several_people_are_merged_and_disputed_ones_become_unsure(tmp_path, capsys):
    ada = [{**mark("supported", "Ada", "2026"), "record_id": name, "mark": "wrong"} for name in "abcd"]
    labels = ("supported", "unsupported", None)
    ben = [{**row, "reviewer": None, "label": label} for row, label in zip(ada, labels, strict=False)]
    files = [save(tmp_path / "ada.jsonl", ada), save(tmp_path / "ben.jsonl", ben)]
    output = tmp_path / "merged.jsonl"
    assert main(["import", "marks", "--data", *map(str, files), "--output", str(output)]) == 0
    rows = {row["record_id"]: row for row in map(json.loads, output.read_text(encoding="utf-8").splitlines())}
    assert [(row["label"], row["mark"], row["reviewer"]) for row in rows.values()] == [
        ("supported", "wrong", "Ada, ben"), (None, "unsure", "Ada, ben"),
        ("supported", "wrong", "Ada, ben"), ("supported", "wrong", "Ada"),
    ]  # fmt: skip
    assert rows["b"]["note"] == "disputed; Ada: supported, ben: unsupported"
    assert len(read_marks([output]).marks) == 3
    printed = capsys.readouterr().out
    assert "4 places are marked, reviewers disagree on 1" in printed
    assert "Ada and ben: 2 marked by both, 50.0% alike, Cohen's kappa 0.00" in printed
    assert "all together: Krippendorff's alpha 0.00" in printed
    assert main(["import", "marks", "--data", *map(str, files), "--output", str(tmp_path / "m.csv")]) == 2


def test_files_of_one_name_are_of_several_people(tmp_path):
    for name in ("ann", "ben"):
        (tmp_path / name).mkdir()
    labels = {"ann": "supported", "ben": "unsupported"}
    files = [save(tmp_path / one / "marks.jsonl", [{"record_id": "f", "label": own}]) for one, own in labels.items()]
    assert read_marks(files).disputed == 1


def test_kappa_is_that_of_scikit_learn():
    chance = random.Random(3)
    for _ in range(20):
        labels = [(chance.random() < 0.7, chance.random() < 0.4) for _ in range(12)]
        expected = cohen_kappa_score(*zip(*labels, strict=True))
        assert cohen_kappa(labels) == pytest.approx(expected)
    assert cohen_kappa([(True, True)]) == 1


def test_alpha_is_one_minus_observed_by_expected_disagreement_of_all_who_marked_a_place():
    chance = random.Random(5)
    labels = [{name: chance.random() < 0.6 for name in "abc" if chance.random() < 0.8} for _ in range(30)]
    several = [[*one.values()] for one in labels if len(one) > 1]
    values = list(chain.from_iterable(several))
    observed = sum(2 * sum(one) * (len(one) - sum(one)) / (len(one) - 1) for one in several) / len(values)
    expected = 2 * sum(values) * (len(values) - sum(values)) / len(values) / (len(values) - 1)
    assert krippendorff_alpha(labels) == pytest.approx(1 - observed / expected)
    assert krippendorff_alpha([{"a": True, "b": True}, {"a": False}]) == 1
    assert math.isnan(krippendorff_alpha([{"a": True}]))


def test_without_its_package_alpha_is_named_with_the_way_to_get_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "krippendorff", None)
    files = [save(tmp_path / f"{name}.jsonl", [mark("supported", name, "2026")]) for name in ("Ada", "Ben")]
    assert main(["import", "marks", "--data", *map(str, files), "--output", str(tmp_path / "all.jsonl")]) == 0
    assert "pip install 'attribeam[agreement]'" in capsys.readouterr().out


FIRST, SECOND = RowSource("log.parquet", 3), RowSource("log.parquet", 4)


def test_answers_with_one_id_are_told_apart_by_their_rows(tmp_path):
    rows = [{**mark("supported", "Ada", "2026"), "source_file": "log.parquet", "source_row": row} for row in (3, 4)]
    rows[1]["label"] = "unsupported"
    marks = read_marks([save(tmp_path / "marks.jsonl", rows)]).marks
    assert [(one.source, one.supported) for one in marks] == [(FIRST, True), (SECOND, False)]
    found = marks_by_answer(marks, [("a", FIRST), ("a", SECOND), ("b", RowSource("log.parquet", 5))])
    assert {source: [one.supported for one in own] for source, own in found.items()} == {FIRST: [True], SECOND: [False]}


def test_a_mark_whose_row_moved_is_of_the_only_answer_with_its_id():
    moved, rowless = Mark("a", None, True, FIRST), Mark("b", None, True)
    elsewhere = RowSource("other.parquet", 0)
    found = marks_by_answer([moved, rowless], [("a", elsewhere), ("b", SECOND)])
    assert found == {elsewhere: [moved], SECOND: [rowless]}
    assert marks_by_answer([moved, rowless], [(one, RowSource("x", row)) for one in "ab" for row in (0, 1)]) == {}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"record_id": "a", "mark": "right"}, "lacks label"),
        (
            {"record_id": "a", "label": "good"},
            "row 1: label should be 'supported', 'unsupported' or empty, was: 'good'",
        ),
        ({"record_id": None, "label": "supported"}, "record_id should be the id"),
        ({"record_id": "a", "label": "supported", "char_start": 5}, "char_start and char_end should be"),
        ({"record_id": "a", "label": "supported", "source_file": "x", "source_row": "y"}, "source_row should be"),
    ],
)
def test_a_row_that_is_no_mark_is_refused_by_file_row_and_field(tmp_path, row, complaint):
    file = save(tmp_path / "marks.jsonl", [row])
    with pytest.raises(DataError, match=complaint) as error:
        read_marks([file])
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("marks.jsonl", "{"), ("marks.jsonl", "[" * 100_000),
        ("marks.jsonl", '{"record_id": "\\ud800", "label": "supported"}'), ("marks.xls", "x"), ("marks.parquet", "x"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=name):
        read_marks([tmp_path / name])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_of_parquet_are_read_whatever_python_can_hold(tmp_path, unit, zone):
    ticks = {"s": 10**12, "ms": 10**15, "us": 10**18, "ns": 10**18 + 1}[unit]
    times = pa.array([ticks + 1, ticks], pa.int64()).view(pa.timestamp(unit, zone))
    columns = {"record_id": ["a", "a"], "label": ["supported", "unsupported"], "marked_at": times, "note": times}
    pq.write_table(pa.table(columns), tmp_path / "marks.parquet")
    assert read_marks([tmp_path / "marks.parquet"]).marks == (Mark("a", None, True),)


def test_of_two_marks_on_one_day_the_newer_counts_in_whatever_format_it_was_saved(tmp_path):
    morning = save(tmp_path / "1.jsonl", [mark("supported", "Ada", "2026-01-02T08:00:00.000Z")])
    evening = mark("unsupported", "Ada", datetime(2026, 1, 2, 20, tzinfo=UTC))
    pq.write_table(pa.Table.from_pylist([evening]), tmp_path / "2.parquet")
    assert read_marks([tmp_path / "2.parquet", morning]).marks == (Mark("a", None, False),)


@pytest.mark.parametrize("column", ["record_id", "label", "char_start", "source_row"])
def test_a_column_of_parquet_that_holds_something_else_is_told(tmp_path, column):
    other = pa.array([[2**62]], pa.list_(pa.timestamp("ns")))
    columns = {"record_id": pa.array(["a"]), "label": pa.array(["supported"]), "char_end": pa.array([1])}
    columns |= {"source_file": pa.array(["f"]), column: other}
    pq.write_table(pa.table(columns), tmp_path / "marks.parquet")
    with pytest.raises(DataError, match=r"marks\.parquet"):
        read_marks([tmp_path / "marks.parquet"])
