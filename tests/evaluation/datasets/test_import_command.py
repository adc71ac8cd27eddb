import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.evaluation.dataset_rows import (
    alce_row,
    lfqa_row,
    quotesum_row,
    ragtruth_response,
    ragtruth_source,
    veri_gran_row,
    write_alce,
    write_ragtruth,
    write_rows,
)
from tests.pipeline.audit_fixtures import run_locally, save_tiny_audit

from attribeam.evaluation.datasets import import_command
from attribeam.evaluation.datasets.labelled_log import load_cited_log, load_judged_log, load_log
from attribeam.evaluation.datasets.marked_datasets import load_lfqa, load_quotesum, load_veri_gran
from attribeam.evaluation.datasets.passage_qa import load_alce
from attribeam.evaluation.datasets.ragtruth import load_ragtruth
from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import ExitCode
from attribeam.schemas.labelled_answer import LabelledDataset
from attribeam.schemas.qa_record import labelled_log_schema


def import_into(output: Path, source: str, data: Path, *options: str) -> int:
    return main(["import", source, "--data", str(data), "--output", str(output), *options])


def quotesum(folder: Path) -> Path:
    rows = [
        quotesum_row("The lamp is kept by [ 1 Ada Thorne ] .", row_id="a"),
        quotesum_row("No mark.", row_id="b"),
        quotesum_row("[ 2 A bell ] rings at [ 2 the rock ] .", row_id="c"),
    ]
    return write_rows(folder / "quotesum.jsonl", rows)


def veri_gran(folder: Path) -> Path:
    return write_rows(folder / "veri.jsonl", [veri_gran_row("A buoy lies[ 2  off the rock ] .", ["Grey.", "A buoy."])])


def lfqa(folder: Path) -> Path:
    documents = ["The lamp burns on.", "Bells ring."]
    row = lfqa_row("A lamp burns. A bell rings.", documents, [("A lamp burns.", 0, "lamp burns")])
    return write_rows(folder / "lfqa.jsonl", [row, row])


def alce(folder: Path) -> Path:
    return write_alce(folder / "alce.json", [alce_row("Ada lit it [1]. A buoy lies there [2][3]."), alce_row(" ")])


def ragtruth(folder: Path) -> Path:
    source = ragtruth_source("s", {"question": "Who lit it?", "passages": "passage 1:Ada lit the lamp."})
    responses = [
        ragtruth_response("1", "s", "Ada lit it in May.", {"in May": "Baseless"}),
        ragtruth_response("2", "s", "Ada lit it."),
        ragtruth_response("3", "t", "Ada lit it."),
    ]
    return write_ragtruth(folder / "ragtruth", [source], responses)


DATA = {"quotesum": quotesum, "veri-gran": veri_gran, "lfqa": lfqa, "alce": alce, "ragtruth": ragtruth}
LOADED = {
    "quotesum": (load_quotesum, load_log),
    "veri-gran": (load_veri_gran, load_log),
    "lfqa": (load_lfqa, load_log),
    "alce": (load_alce, load_cited_log),
    "ragtruth": (load_ragtruth, load_judged_log),
}
SKIPPED = {
    "quotesum": "skipped, no_span: 1 rows: 1",
    "lfqa": "skipped, duplicate: 1 rows: 1",
    "alce": "skipped, empty_answer: 1 rows: 1",
    "ragtruth": "skipped, no_source: 1 rows: 2",
}


def without_place(dataset: LabelledDataset) -> list[object]:
    """The answers as strings without their sources."""
    return [str(answer).replace(repr(answer.record.source), "") for answer in dataset.answers]


@pytest.mark.parametrize("source", DATA)
def test_log_has_the_answers_and_labels_of_the_data_set(source, tmp_path, capsys):
    data, log = DATA[source](tmp_path), tmp_path / "log.parquet"
    assert import_into(log, source, data) == 0
    load_data, load_imported = LOADED[source]
    assert without_place(load_imported(log)) == without_place(load_data(data))
    assert pq.read_schema(log).equals(labelled_log_schema())
    first, *skipped = capsys.readouterr().out.splitlines()
    rows = [int(word) for word in first.split() if word.isdigit()]
    assert rows[0] == rows[1] + rows[2] > 0
    assert skipped == ([SKIPPED[source]] if source in SKIPPED else [])


def test_imported_logs_are_audited_without_dead_letters_and_keep_their_labels(tmp_path):
    logs = [tmp_path / f"{source}.parquet" for source in DATA]
    for (source, make), log in zip(DATA.items(), logs, strict=True):
        assert main(["import", source, "--data", str(make(tmp_path)), "--output", str(log)]) == 0
    log = tmp_path / "log.parquet"
    pq.write_table(pa.concat_tables([pq.read_table(one) for one in logs]), log)
    columns = ("span_labels", "unsupported_spans", "label_group", "split")
    settings = replace(save_tiny_audit(tmp_path), extra_columns=columns)
    extra = [pq.read_schema(log).field(name) for name in columns]
    run_locally(str(log), settings, tmp_path / "out", extra_fields=extra)
    (letters,), (file,) = (tmp_path / "out").glob("dead_letters*"), (tmp_path / "out").glob("evidence*")
    assert pq.read_metadata(letters).num_rows == 0
    evidence = pq.read_table(file).to_pylist()
    assert {row["source_row"] for row in evidence} == set(range(7)) == set(range(pq.read_metadata(log).num_rows))
    of_alce = [row for row in evidence if row["source_row"] == 4]
    assert [row["text"] for row in of_alce] == ["Ada lit it.", "A buoy lies there."]
    assert [row["span_labels"][row["span_index"]]["cited_passages"] for row in of_alce] == [[0], [1, 2]]
    marked = {row["record_id"]: row["unsupported_spans"] for row in evidence if row["label_group"] == "QA"}
    assert marked == {"1": [{"char_start": 11, "char_end": 17, "kind": "Baseless"}], "2": []}


def test_limit_takes_the_first_answers(tmp_path, capsys):
    log = tmp_path / "log.parquet"
    assert import_into(log, "quotesum", quotesum(tmp_path), "--limit", "1") == 0
    assert pq.read_table(log)["record_id"].to_pylist() == ["a"]
    assert capsys.readouterr().out.startswith("1 rows read, 1 written")


def test_row_with_the_id_of_an_earlier_row_is_skipped(tmp_path, capsys):
    row = quotesum_row("[ 1 Ada ] keeps it.", row_id="a")
    assert import_into(tmp_path / "log.parquet", "quotesum", write_rows(tmp_path / "q.jsonl", [row, row])) == 0
    assert capsys.readouterr().out.splitlines()[1] == "skipped, duplicate_record_id: 1 rows: 1"


def test_row_with_invalid_unicode_is_skipped(tmp_path, capsys):
    rows = [quotesum_row("[ 1 Ada ] keeps it.", row_id="a"), quotesum_row("[ 1 Jon ] too.", row_id="b", title1="X?")]
    data = write_rows(tmp_path / "q.jsonl", rows)
    data.write_text(data.read_text().replace("X?", "\\ud83d"))
    assert import_into(tmp_path / "log.parquet", "quotesum", data) == 0
    assert capsys.readouterr().out.splitlines()[1] == "skipped, invalid_unicode: 1 rows: 1"


def test_existing_log_is_kept_unless_it_may_be_replaced(tmp_path, capsys):
    data, log = quotesum(tmp_path), tmp_path / "log.parquet"
    log.write_text("mine")
    (tmp_path / ".log.parquet.partial").symlink_to(tmp_path / "elsewhere")
    assert import_into(log, "quotesum", data) == ExitCode.BAD_USAGE
    assert log.read_text() == "mine"
    assert "exists already; name another --output, or replace it with --overwrite" in capsys.readouterr().err
    assert import_into(log, "quotesum", data, "--overwrite") == 0
    assert pq.read_metadata(log).num_rows == 2
    assert (tmp_path / ".log.parquet.partial").is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def test_faulty_data_leaves_no_file(tmp_path, capsys):
    data = write_rows(tmp_path / "q.jsonl", [quotesum_row("[ 1 Ada ] ."), quotesum_row("[ 7 Ada ] .")])
    assert import_into(tmp_path / "log.parquet", "quotesum", data) == ExitCode.BAD_USAGE
    assert "line 2: field 'summary' marks source 7" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["q.jsonl"]


def test_data_without_importable_rows_is_an_error(tmp_path, capsys):
    data = write_rows(tmp_path / "q.jsonl", [quotesum_row("No mark.")])
    assert import_into(tmp_path / "log.parquet", "quotesum", data) == 2
    assert "has none: {'no_span': [0]}" in capsys.readouterr().err


def test_rows_that_do_not_add_up_are_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(import_command, "write_log", lambda *_: 1)
    assert import_into(tmp_path / "log.parquet", "quotesum", quotesum(tmp_path)) == ExitCode.FAILED
    said = "each of the 3 rows should be written or skipped, 1 were written and 1 skipped"
    assert said in capsys.readouterr().err


def test_surrogate_in_a_label_is_a_skipped_row(tmp_path, capsys):
    source = ragtruth_source("s", "Ada lit the lamp.")
    responses = [
        ragtruth_response("1", "s", "Ada lit it.", {"Ada": "\ud800"}),
        ragtruth_response("2", "s", "Ada lit it.", split="\ud800"),
        ragtruth_response("3", "s", "Ada lit it."),
    ]
    folder = tmp_path / "ragtruth"
    folder.mkdir()
    for name, rows in (("source_info", [source]), ("response", responses)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="ascii")
    assert import_into(tmp_path / "log.parquet", "ragtruth", folder) == 0
    assert "skipped, invalid_unicode: 2 rows: 0, 1" in capsys.readouterr().out


def test_row_that_an_audit_would_refuse_is_skipped_with_its_reason(tmp_path, capsys):
    rows = [
        quotesum_row("[ 1 Ada ] lit it.", row_id=""),
        quotesum_row("[ 1 Ada ] lit it.", row_id="b", source1=" ", source2=" "),
        quotesum_row("[ 1 Ada ] lit it.", row_id="c"),
    ]
    assert import_into(tmp_path / "log.parquet", "quotesum", write_rows(tmp_path / "q.jsonl", rows)) == 0
    said = capsys.readouterr().out
    assert "skipped, no_record_id: 1 rows: 0" in said
    assert "skipped, no_passages: 1 rows: 1" in said


def test_limit_counts_no_rows_after_the_last_answer(tmp_path, capsys):
    source = ragtruth_source("s", "Ada lit the lamp.")
    responses = [ragtruth_response(str(row), "s", text) for row, text in enumerate(["", "Ada lit it.", "", "Bells."])]
    folder = write_ragtruth(tmp_path / "ragtruth", [source], responses)
    assert import_into(tmp_path / "log.parquet", "ragtruth", folder, "--limit", "1") == 0
    assert "2 rows read, 1 written" in capsys.readouterr().out
