"""Answers of an audit as tasks for people: in the formats of both tools, riskiest first or by their ids."""

import json
from dataclasses import replace

import pytest
from tests.report.made_audit import ANSWER, made_audit, supported_span, told_spans

from attribeam.pipeline.command_line import main
from attribeam.schemas import Support
from attribeam.schemas.errors import ExitCode


def exported(audit, output, *options, tool="label-studio"):
    command = ["export", "--audit", str(audit.root), "--format", tool, "--output", str(output), *options]
    assert main(command) == ExitCode.DONE
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
    assert [(one["text"], one["labels"]) for one in regions] == [
        ("leaves at noon", ["supported"]),
        ("40 cars", ["unsupported"]),
    ]
    assert all(ANSWER[one["start"] : one["end"]] == one["text"] for one in regions)
    assert {(one["from_name"], one["to_name"], one["type"]) for one in prediction["result"]} == {
        ("support", "answer", "labels")
    }


def test_an_argilla_record_suggests_the_claims_with_their_verdicts(audit, tmp_path):
    record, *_ = exported(audit, tmp_path / "records.json", tool="argilla")
    assert set(record) == {"id", "fields", "metadata", "suggestions", "responses", "vectors"}
    assert record["id"] == f"{audit.log}:0"
    assert record["metadata"] == {"record_id": "ferry-0", "source_file": str(audit.log), "source_row": 0}
    value = record["suggestions"]["support"]["value"]
    assert [(ANSWER[one["start"] : one["end"]], one["label"]) for one in value] == [
        ("leaves at noon", "supported"),
        ("40 cars", "unsupported"),
    ]


def test_tasks_say_why_claims_have_their_verdicts(tmp_path):
    audit = made_audit(tmp_path / "made", record_ids=["ferry-0"], spans={0: told_spans()})
    (task,) = exported(audit, tmp_path / "tasks.json")
    assert [one["meta"]["text"] for one in task["predictions"][0]["result"]] == [
        ["quoted"],
        ["other value — evidence says: twelve"],
    ]
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


def test_without_its_log_there_is_nothing_to_label(audit, tmp_path, capsys):
    audit.log.unlink()
    output = tmp_path / "tasks.json"
    command = ["export", "--audit", str(audit.root), "--format", "argilla", "--output", str(output)]
    assert main(command) == ExitCode.FAILED
    assert "3 answers are left out" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(("text", "message"), [("\n \n", "has none"), (None, "one record_id a line: ")])
def test_a_list_of_ids_that_is_none_is_refused(audit, tmp_path, capsys, text, message):
    ids = tmp_path / "ids.txt"
    if text is not None:
        ids.write_text(text, encoding="utf-8")
    command = ["export", "--audit", str(audit.root), "--format", "argilla", "--output", str(tmp_path / "o.json")]
    assert main([*command, "--records", str(ids)]) == ExitCode.BAD_USAGE
    assert message in capsys.readouterr().err
