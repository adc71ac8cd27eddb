"""Labels of people come back: exported, labelled in the tool's own format, and imported as target spans."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from tests.report.made_audit import ANSWER, made_audit

from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import ExitCode

SHIP = "🚢"
TOOLS = ("label-studio", "argilla")


def with_emoji(record):
    """The same offsets, with a first character that is two UTF-16 units."""
    return replace(record, answer=f"{SHIP}{record.answer[1:]}")


@pytest.fixture
def audit(tmp_path):
    return made_audit(tmp_path / "made", change=with_emoji)


def export(audit, tool, folder):
    path = folder / "tasks.json"
    assert main(["export", "--audit", str(audit.root), "--format", tool, "--output", str(path)]) == ExitCode.DONE
    return json.loads(path.read_text(encoding="utf-8"))


def import_back(tool, tasks, audit, folder):
    data, output = folder / "labels.json", folder / "labelled.parquet"
    data.write_text(json.dumps(tasks), encoding="utf-8")
    command = ["import", tool, "--data", str(data), "--log", str(audit.log), "--output", str(output)]
    return main(command), output


def annotate(tool, task, *, person=1, change=lambda _: None):
    """What the tool writes when a person takes the suggestions, ``change`` made, and submits."""
    if tool == "label-studio":
        regions = json.loads(json.dumps(task["predictions"][0]["result"]))
        change(regions)
        done = {"id": person, "completed_by": person, "was_cancelled": False, "ground_truth": False, "result": regions}
        task.setdefault("annotations", []).append(done)
    else:
        spans = json.loads(json.dumps(task["suggestions"]["support"]["value"]))
        change(spans)
        task["responses"].setdefault("support", []).append({"value": spans, "user_id": str(person)})


def relabel(tool, label):
    def change(regions):
        if tool == "label-studio":
            regions[-1]["value"]["labels"] = [label]
        else:
            regions[-1]["label"] = label

    return change


@pytest.mark.parametrize("tool", TOOLS)
def test_suggestions_that_are_taken_come_back_as_target_spans_with_verdicts(audit, tmp_path, tool):
    tasks = export(audit, tool, tmp_path)
    for task in tasks:
        annotate(tool, task)
    code, output = import_back(tool, tasks, audit, tmp_path)
    assert code == ExitCode.DONE
    rows = {row["record_id"]: row for row in pq.read_table(output).to_pylist()}
    assert set(rows) == {"ferry-0", "ferry-1", "ferry-2"}
    row = rows["ferry-0"]
    assert row["answer"] == f"{SHIP}{ANSWER[1:]}"
    spans = [row["answer"][one["char_start"] : one["char_end"]] for one in row["target_spans"]]
    assert spans == ["leaves at noon", "40 cars"]
    assert [one["supported"] for one in row["span_labels"]] == [True, False]
    assert [one["text"] for one in row["passages"]] == [one.text for one in audit.records[0].passages]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("labels", [(None, "supported"), ("weak",)], ids=["people-disagree", "nobody-can-decide"])
def test_a_range_without_one_answer_has_no_verdict(audit, tmp_path, tool, labels):
    tasks = export(audit, tool, tmp_path)
    for person, label in enumerate(labels):
        annotate(tool, tasks[0], person=person, change=relabel(tool, label) if label else lambda _: None)
    _, output = import_back(tool, tasks[:1], audit, tmp_path)
    (row,) = pq.read_table(output).to_pylist()
    assert [one["supported"] for one in row["span_labels"]] == [True, None]
    assert len(row["target_spans"]) == 2


@pytest.mark.parametrize("tool", TOOLS)
def test_every_task_that_is_left_out_has_a_reason(audit, tmp_path, tool, capsys):
    tasks = export(audit, tool, tmp_path)
    data, texts = ("data", "data") if tool == "label-studio" else ("metadata", "fields")
    done, unmarked, gone = tasks
    annotate(tool, done)
    annotate(tool, gone)
    gone[data]["record_id"] = "ferry-9"
    changed = json.loads(json.dumps(done))
    changed[data] |= {"record_id": "ferry-1", "source_row": 1}
    changed[texts]["answer"] += " Now."
    if tool == "label-studio":
        unmarked["annotations"] = [{"was_cancelled": True, "result": done["annotations"][0]["result"]}]
    code, output = import_back(tool, [done, unmarked, gone, changed, done], audit, tmp_path)
    assert code == ExitCode.DONE
    assert pq.read_metadata(output).num_rows == 1
    printed = capsys.readouterr().out
    assert "5 rows read, 1 written" in printed
    for reason, row in (("not_marked", 1), ("not_in_log", 2), ("answer_changed", 3), ("duplicate_record_id", 0)):
        assert f"skipped, {reason}: 1 rows: {row}" in printed


def shifted(*by):
    def change(regions):
        for region, (start, end) in zip(regions, by, strict=False):
            region["value"]["start"] += start
            region["value"]["end"] += end

    return change


def test_offsets_in_utf_16_units_are_told_by_the_text_that_label_studio_saves(audit, tmp_path):
    tasks = export(audit, "label-studio", tmp_path)
    annotate("label-studio", tasks[0], change=shifted((1, 1), (1, 1)))  # as older versions count
    _, output = import_back("label-studio", tasks[:1], audit, tmp_path)
    (row,) = pq.read_table(output).to_pylist()
    spans = [row["answer"][one["char_start"] : one["char_end"]] for one in row["target_spans"]]
    assert spans == ["leaves at noon", "40 cars"]


def test_a_range_that_does_not_have_its_own_text_is_left_out(audit, tmp_path, capsys):
    tasks = export(audit, "label-studio", tmp_path)
    annotate("label-studio", tasks[0])
    annotate("label-studio", tasks[1], change=shifted((5, 0)))
    import_back("label-studio", tasks[:2], audit, tmp_path)
    assert "skipped, span_out_of_range: 1 rows: 1" in capsys.readouterr().out


def flattened(record, *responses):
    """A record with (value, status) responses as ``records.to_list(flatten=True)`` of Argilla 2.8.0 writes it."""
    flat = {"id": record["id"], "status": "completed", "_server_id": "0d0c", **record["fields"], **record["metadata"]}
    suggestion = {f"support.suggestion{name}": None for name in (".score", ".agent")}
    names = ("support.responses", "support.responses.users", "support.responses.status")
    columns = zip(*((value, "person", status) for value, status in responses), strict=True) if responses else [None] * 3
    found = {name: None if one is None else list(one) for name, one in zip(names, columns, strict=True)}
    return {**flat, **found, "support.suggestion": record["suggestions"]["support"]["value"], **suggestion}


def test_only_submitted_responses_of_a_flat_argilla_export_count(audit, tmp_path, capsys):
    both, discarded, nobody = export(audit, "argilla", tmp_path)
    taken, draft = both["suggestions"]["support"]["value"], [{"label": "unsupported", "start": 0, "end": 5}]
    first = flattened(both, (taken, "submitted"), (draft, "draft"))
    others = flattened(discarded, (draft, "discarded"), (None, "draft")), flattened(nobody)
    code, output = import_back("argilla", [first, *others], audit, tmp_path)
    assert code == ExitCode.DONE
    (row,) = pq.read_table(output).to_pylist()
    assert [one["supported"] for one in row["span_labels"]] == [True, False]
    assert len(row["target_spans"]) == len(taken) == 2
    assert "skipped, not_marked: 2 rows: 1, 2" in capsys.readouterr().out


def test_flat_argilla_export_without_its_statuses_is_refused(audit, tmp_path, capsys):
    record, *_ = export(audit, "argilla", tmp_path)
    flat = flattened(record, (record["suggestions"]["support"]["value"], "submitted"))
    del flat["support.responses.status"]
    code, _ = import_back("argilla", [flat], audit, tmp_path)
    assert code == ExitCode.BAD_USAGE
    assert "should be a list with as many items as 'support.responses.status'" in capsys.readouterr().err


@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_label_is_an_error_that_names_its_place(audit, tmp_path, tool, capsys):
    tasks = export(audit, tool, tmp_path)
    annotate(tool, tasks[0], change=relabel(tool, "maybe"))
    code, output = import_back(tool, tasks, audit, tmp_path)
    assert code == ExitCode.BAD_USAGE
    error = capsys.readouterr().err
    assert "labels.json" in error
    assert "should be one of supported, weak, unsupported, was: maybe" in error
    assert not output.exists()


@pytest.mark.parametrize(
    ("tool", "content", "message"),
    [
        ("label-studio", [{"id": 1, "answer": "a", "annotations": []}], "field 'data' should be an object"),
        ("label-studio", [{"id": 1, "data": {}}], "field 'annotations' should be a list of objects, is missing"),
        ("argilla", [{"id": 1, "fields": {}}], "field 'responses' should be an object"),
        ("argilla", "text", "should be a list or an object"),
    ],
)
def test_another_kind_of_export_is_refused(audit, tmp_path, tool, content, message, capsys):
    code, _ = import_back(tool, content, audit, tmp_path)
    assert code == ExitCode.BAD_USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["label-studio"], "--log is needed for label-studio"),
        (["label-studio", "--log", "/absent/*.parquet"], "--log should name existing files"),
        (["ragtruth", "--log", "a.parquet"], "--log says nothing to ragtruth"),
        (["openinference", "--log-format", "jsonl"], "--log-format says nothing to openinference"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, options, message, capsys):
    (tmp_path / "labels.json").write_text("[]", encoding="utf-8")
    command = ["import", *options, "--data", str(tmp_path / "labels.json"), "--output", str(tmp_path / "o.parquet")]
    assert main(command) == ExitCode.BAD_USAGE
    assert message in capsys.readouterr().err
