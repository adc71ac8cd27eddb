"""``attribeam import``: files, options, summary, dead letters, what is refused, and every command of its page."""

import errno
import gzip
import io
import json
import os
import random
import re
import resource
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pytest
from tests.logs.log_files import log_row, write_log
from tests.logs.traces.exports import (
    AGENT_TALK,
    ANSWER,
    EXPORTS,
    PASSAGES,
    QUESTION,
    RECORDS,
    ROW,
    SPAN_FORMATS,
    TURNS,
    csv_of,
    langfuse,
    langsmith,
    mlflow,
    openinference,
    otlp,
    parquet_of,
    ragas,
    rows_of,
    write_lines,
)
from tqdm import tqdm

from attribeam.logs import import_run
from attribeam.logs.columns import LogOptions
from attribeam.logs.files import ArrowStorage
from attribeam.logs.qa_log import QALog
from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import ExitCode


def run(kind, *options):
    return main(["import", kind, *map(str, options)])


def test_summary_says_what_became_of_every_row(tmp_path, capsys):
    faulty = {"user_input": "Who?"}, {"user_input": "Who?", "response": "A."}
    path = Path(write_lines(tmp_path / "a.jsonl", [*ragas(), *faulty]))
    path.write_text(path.read_text() + '{"user_input": "cut')
    output = tmp_path / "log.parquet"
    assert run("ragas", "--data", path, "--output", output) == 0
    letters = tmp_path / "_log.dead_letters.parquet"
    assert capsys.readouterr().out.splitlines() == [
        f"4 rows read of 1 file, 1 written to {output}, 3 dead letters in {letters}",
        "dead letters, empty_answer: 1",
        "dead letters, invalid_json: 1",
        "dead letters, no_passages: 1",
    ]
    found = rows_of(letters)
    assert [(one["source_file"], one["source_row"], one["reason"]) for one in found] == [
        (str(path), 1, "empty_answer"), (str(path), 2, "no_passages"), (str(path), 3, "invalid_json")
    ]  # fmt: skip
    assert all(str(one["message"]).startswith(f"line {row}") for row, one in enumerate(found, start=2))


def test_a_log_that_grows_is_read_to_where_it_ended_when_it_was_opened(tmp_path, capsys, monkeypatch):
    path = Path(write_lines(tmp_path / "a.jsonl", ragas()))
    content = path.read_bytes()

    class Growing(io.FileIO):
        """Has more at its end whenever it is read, eight times."""

        def read(self, size=-1):
            if path.stat().st_size < 9 * len(content):
                path.write_bytes(path.read_bytes() + content)
            return super().read(-1 if size is None else size)

    @contextmanager
    def grown(_, path):
        with Growing(path) as file:
            yield cast(BinaryIO, file)

    monkeypatch.setattr(ArrowStorage, "open", grown)
    monkeypatch.setattr(import_run, "_BUFFER_BYTES", 64)
    rows = len(ragas())
    assert run("ragas", "--data", path, "--output", tmp_path / "log.parquet") == 0
    assert f"{rows} rows read of 1 file, {rows} written" in capsys.readouterr().out


@pytest.mark.parametrize("kind", SPAN_FORMATS)
def test_ids_of_the_store_are_carried_without_being_asked_for(kind, tmp_path):
    output = tmp_path / "log.parquet"
    assert run(kind, "--data", write_lines(tmp_path / "a.jsonl", EXPORTS[kind]()), "--output", output) == 0
    for log in (QALog(str(output)), QALog(str(tmp_path / "a.jsonl"), LogOptions(format=kind))):
        (row,) = log.outcomes()
        carried = dict(row.extra_columns)
        assert carried["trace_id"] == row.record_id
        assert carried["span_id"]
        places = cast("list[dict[str, object]]", carried["retrievals"])
        assert [(one["position"], one["passage_index"]) for one in places] == [(0, 0), (1, 1)]
        assert not {one["span_id"] for one in places} & {carried["span_id"], None}


@pytest.mark.parametrize(
    ("kind", "records", "options", "said"),
    [
        ("langfuse", langfuse(), [], "passed over, since they are no spans: 1 records"),
        ("ragas", [{**ragas()[0], "id": one} for one in ("x", "y", "x")], [], "letters, duplicate_record_id: 1"),
        ("ragas", ragas() * 5, ["--limit", 2], "2 rows read of 1 file, 2 written"),
        ("otel-genai", [{"resourceSpans": []}, {"resourceSpans": [{"scopeSpans": []}]}], [],
         "none of 2 records is a span; check the format's name"),
    ],
)  # fmt: skip
def test_what_is_left_out_is_counted(kind, records, options, said, tmp_path, capsys):
    path, output = write_lines(tmp_path / "a.jsonl", records), tmp_path / "log.parquet"
    is_written = run(kind, "--data", path, "--output", output, *options) == 0
    assert said in "".join(capsys.readouterr())
    assert is_written == output.exists() == (kind != "otel-genai")
    if "duplicate" in said:
        assert [row["record_id"] for row in rows_of(output)] == ["x", "y"]
        (letter,) = rows_of(tmp_path / "_log.dead_letters.parquet")
        assert "where each has one passage of an answer, put these in one list" in letter["message"]


def test_dead_letters_of_an_earlier_import_do_not_stay(tmp_path):
    output, letters = tmp_path / "log.parquet", tmp_path / "_log.dead_letters.parquet"
    path = tmp_path / "a.jsonl"
    write_lines(path, [*ragas(), {}])
    assert run("ragas", "--data", path, "--output", output) == 0
    assert letters.exists()
    write_lines(path, ragas())
    assert run("ragas", "--data", path, "--output", output, "--overwrite") == 0
    assert not letters.exists()


@pytest.mark.parametrize("name", ["log.parquet", "_log.dead_letters.parquet"])
@pytest.mark.parametrize("is_link", [False, True])
def test_file_that_is_there_is_replaced_only_where_that_was_asked_for(name, is_link, tmp_path, capsys):
    path, there = write_lines(tmp_path / "a.jsonl", [*ragas(), {}]), tmp_path / name
    if is_link:
        there.symlink_to(tmp_path / "nowhere")
    else:
        there.write_text("mine")
    options = ["--data", path, "--output", tmp_path / "log.parquet"]
    assert run("ragas", *options) == ExitCode.BAD_USAGE
    assert f"{name} exists already; name another --output, or replace it with --overwrite" in capsys.readouterr().err
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["a.jsonl", name])
    assert there.is_symlink() if is_link else there.read_text() == "mine"
    assert run("ragas", *options, "--overwrite") == 0
    assert rows_of(there)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("kind", ["ragas", "langfuse", "parquet"])
def test_progress_counts_the_bytes_of_the_files_whatever_they_unpack_to(kind, tmp_path, monkeypatch):
    bars = []

    class Bar(tqdm):
        def __init__(self, *given, **options):
            super().__init__(*given, **{**options, "disable": False, "file": io.StringIO()})
            self.moves = []
            bars.append(self)

        def update(self, n=1):
            self.moves.append(int(n or 0))
            return super().update(n)

    monkeypatch.setattr(import_run, "tqdm", Bar)
    path = tmp_path / "in"
    if kind == "parquet":
        write_log(path, [log_row(number) for number in range(3000)])
    else:
        texts = [random.Random(number).randbytes(300).hex() for number in range(1000)]
        rows = [{**EXPORTS[kind]()[0], "answer": text, "output": text} for text in texts]
        path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in rows).encode()))
    assert run(kind, "--data", path, path, "--output", tmp_path / "log.parquet") in (0, ExitCode.FAILED)
    read = next(one for one in bars if one.desc == "read")
    assert read.total == read.n == path.stat().st_size
    assert kind == "parquet" or len([one for one in read.moves if one]) > 4


def test_import_without_any_row_fails_and_leaves_the_reasons(tmp_path, capsys):
    path = write_lines(tmp_path / "a.jsonl", [{"user_input": "Who?"}] * 2)
    assert run("ragas", "--data", path, "--output", tmp_path / "log.parquet") == ExitCode.FAILED
    said = capsys.readouterr().err
    assert "have none: 2 empty_answer;" in said
    assert "line 1: row should have an answer, has none of actual_output, " in said
    assert "the row has user_input; name its place with --answer-path" in said
    assert sorted(one.name for one in tmp_path.iterdir()) == ["_log.dead_letters.parquet", "a.jsonl"]


def test_damaged_file_leaves_nothing_behind(tmp_path, capsys):
    good, bad = write_lines(tmp_path / "a.jsonl", ragas()), tmp_path / "b.parquet"
    bad.write_bytes(b"PAR1 damaged")
    assert run("ragas", "--data", good, bad, "--output", tmp_path / "log.parquet") == ExitCode.BAD_USAGE
    assert "b.parquet' should be readable Parquet, is damaged" in capsys.readouterr().err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.jsonl", "b.parquet"]


@pytest.mark.parametrize(
    ("name", "options"), [("openinference", []), ("otel-genai", []), ("ragas", ["--passages-table", "passages.jsonl"])]
)
def test_temporary_file_that_cannot_be_written_is_not_blamed_on_the_log_or_the_output(
    name, options, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a.jsonl", openinference() * 3000)
    write_lines(tmp_path / "passages.jsonl", [{"id": str(number), "text": "x" * 99_999} for number in range(50)])
    with largest_file(4096):
        assert main(["import", name, "--data", "a.jsonl", "--output", "log.parquet", *options]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert "a temporary file cannot be written: " in error
    assert not {"a.jsonl", "--output"} & {*error.split()}


@contextmanager
def largest_file(size):
    """No file can grow beyond so many bytes, as after ``ulimit -f``."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_made_ids_are_the_same_in_every_import(tmp_path):
    ids = []
    for name, rows in (("a", ragas() * 2), ("b", [{**ragas()[0], "response": "Other."}, *ragas()])):
        path = write_lines(tmp_path / f"{name}.jsonl", rows)
        assert run("ragas", "--data", path, "--output", tmp_path / f"{name}.parquet") == 0
        ids.append([str(row["record_id"]) for row in rows_of(tmp_path / f"{name}.parquet")])
    assert ids[0][0] == ids[1][1]
    assert ids[0][1] == f"{ids[0][0]}-2"


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "is not there"), ('{"a": 1}', "none of its 1 rows has both"), ("{bad", "cannot be parsed")],
)
def test_table_that_is_none_is_refused(content, problem, tmp_path, capsys):
    path, table = write_lines(tmp_path / "a.jsonl", otlp(texts=False)), tmp_path / "t.jsonl"
    if content is not None:
        table.write_text(content)
    options = ["--data", path, "--output", tmp_path / "log.parquet", "--passages-table", table]
    assert run("otel-genai", *options) in (ExitCode.BAD_USAGE, ExitCode.FAILED)
    said = capsys.readouterr().err
    assert f"--passages-table '{table}'" in said
    assert problem in said


def test_log_of_a_reader_is_imported_row_by_row(tmp_path, capsys):
    marked = log_row(2, target_spans=[{"char_start": 0, "char_end": 3}])
    path = write_log(tmp_path / "in.parquet", [log_row(0), log_row(1, answer=None), log_row(0), marked])
    assert run("parquet", "--data", path, "--output", tmp_path / "log.parquet") == 0
    said = capsys.readouterr().out
    assert "4 rows read of 1 file, 2 written" in said
    assert "dead letters, duplicate_record_id: 1" in said
    found = rows_of(tmp_path / "log.parquet")
    assert [one["record_id"] for one in found] == ["row-0", "row-2"]
    assert found[1]["target_spans"] == [{"char_start": 0, "char_end": 3}]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["ragas", "--data", "none*.jsonl", "--output", "log.parquet"], "nothing matches 'none*.jsonl'"),
        (["ragas", "--data", "", "--output", "log.parquet"], "was empty"),
        (["ragas", "--data", "a.jsonl"], "--output is needed"),
        (["ragas", "--data", "a.jsonl", "--output", "no/log.parquet"], "a file in an existing directory"),
        (["ragas", "--data", "a.jsonl", "--output", "a.jsonl"], "exists already"),
        (["ragas", "--data", "a.jsonl", "--output", "log.parquet", "--columns", "answer=a"], "--columns says nothing"),
        (["parquet", "--data", "a.jsonl", "--output", "log.parquet", "--history", "1"], "--history says nothing"),
        (["parquet", "--data", "a.jsonl", "--output", "log.parquet"], "should be a Parquet file"),
        (["quotesum", "--data", "a.jsonl", "--output", "log.parquet", "--tool-outputs"], "--tool-outputs says nothing"),
        (["quotesum", "--data", "a.jsonl", "b", "--output", "log.parquet"], "should be one path, were 2"),
        (["ragas", "--data", "odd.bin", "--output", "log.parquet"], "odd.bin' should be JSON, JSON lines, CSV"),
        (["mlflow", "--data", "utf16.json", "--output", "log.parquet"], "begins like UTF-16"),
        (["ragas", "--data", ".", "--output", "a.jsonl", "--overwrite"], "a.jsonl is one of the files to read; name"),
        (["jsonl", "--data", "a.jsonl", "--preset", "gemini", "--output", "log.parquet"],
            "--preset gemini says nothing to jsonl; use it with attribeam import responses"),
    ],
)  # fmt: skip
def test_request_that_makes_no_sense_is_refused_and_writes_nothing(arguments, problem, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a.jsonl", ragas())
    (tmp_path / "odd.bin").write_bytes(b"\x00\x01")
    (tmp_path / "utf16.json").write_text("{}", encoding="utf-16")
    before = {one: one.read_bytes() for one in tmp_path.iterdir()}
    assert main(["import", *arguments]) == ExitCode.BAD_USAGE
    assert problem in capsys.readouterr().err
    assert {one: one.read_bytes() for one in tmp_path.iterdir()} == before


@pytest.mark.parametrize("value", ["-1", "some", "1.5"])
def test_history_is_a_number_or_all(value, capsys):
    with pytest.raises(SystemExit):
        main(["import", "ragas", "--data", "a", "--history", value])
    assert 'should be a number of messages or "all"' in capsys.readouterr().err


def test_guess_writes_nothing_and_needs_no_output(tmp_path, capsys):
    path = write_lines(tmp_path / "a.jsonl", langfuse())
    assert run("langfuse", "--data", path, "--guess") == 0
    said = capsys.readouterr().out
    assert "found already: question in 1, passages in 1, answer in 1; whole rows: 1" in said
    assert "observations[?type=='RETRIEVER'].output[]  in 1 of 1" in said
    assert [one.name for one in tmp_path.iterdir()] == ["a.jsonl"]


def test_conversation_and_preset_reach_the_rows(tmp_path):
    pytest.importorskip("jmespath", reason="the extra 'traces' is not installed")
    path = write_lines(tmp_path / "a.jsonl", [{**ragas()[0], "user_input": TURNS}])
    for history, expected in (("0", QUESTION), ("all", f"User: Hello.\nAssistant: What is it?\nUser: {QUESTION}")):
        output = tmp_path / f"{history}.parquet"
        assert run("ragas", "--data", path, "--output", output, "--history", history) == 0
        assert rows_of(output)[0]["question"] == expected
    path = write_lines(tmp_path / "b.jsonl", langfuse())
    options = ["--data", path, "--output", tmp_path / "p.parquet", "--preset", "metadata"]
    assert run("langfuse", *options) == ExitCode.FAILED
    found_by_path = ["--passages-path", "observations[?type=='RETRIEVER'].output[]"]
    assert run("langfuse", *options, *found_by_path, "--overwrite") == 0


PAGE = (Path(__file__).parents[2] / "docs" / "importing_logs.md").read_text(encoding="utf-8")
ARGUMENTS = [
    shlex.split(line)
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]


@pytest.fixture(name="exports")
def make_exports(tmp_path, monkeypatch):
    """The files that the commands of the page name."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "ragas.jsonl", ragas())
    (tmp_path / "ragas.csv").write_bytes(csv_of(ragas()))
    (tmp_path / "ragas_dataset").mkdir()
    table = pa.Table.from_pylist(ragas())
    with pa.ipc.new_stream(tmp_path / "ragas_dataset" / "data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("dataset_info.json", "state.json"):
        (tmp_path / "ragas_dataset" / name).write_text("{}")
    spans = [{**span, "attributes": json.dumps(span["attributes"]), "events": None} for span in openinference()]
    (tmp_path / "phoenix.parquet").write_bytes(parquet_of(spans))
    (tmp_path / "langfuse" / "observations_v2").mkdir(parents=True)
    for number, row in enumerate(langfuse()):
        write_lines(tmp_path / "langfuse" / "observations_v2" / f"{number}.jsonl", [row])
    write_lines(tmp_path / "otlp.jsonl", otlp(texts=False))
    (tmp_path / "passages.parquet").write_bytes(
        parquet_of([{"passage_id": one, "text": text} for one, text in PASSAGES])
    )
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "tr-1.json").write_text(json.dumps(mlflow()[0], indent=1))
    write_lines(tmp_path / "langsmith.jsonl", langsmith())
    for name, (record, *_) in RECORDS.items():
        write_lines(tmp_path / f"{name}.jsonl", [record])
    row = {"query": QUESTION, "contexts": [one for _, one in PASSAGES], "reply": {"text": ANSWER}}
    write_lines(tmp_path / "rows.jsonl", [row])
    write_lines(tmp_path / "agents.jsonl", [{"user_input": AGENT_TALK}])


@pytest.mark.parametrize("words", ARGUMENTS, ids=" ".join)
@pytest.mark.usefixtures("exports")
def test_command_of_the_page_runs(words, capsys):
    if words[2] == "responses" or any(word.endswith("-path") for word in words):
        pytest.importorskip("jmespath", reason="the extra 'traces' is not installed")
    assert words[0] == "attribeam"
    assert main(words[1:]) == 0, capsys.readouterr().err
    if "--guess" not in words:
        (row,) = rows_of(Path("logs.parquet"))
        assert row["answer"] == ROW["answer"]
        assert str(row["question"]).endswith(QUESTION)
        assert not list(Path().glob("_*"))


def test_file_whose_disk_fails_may_be_read_another_time(tmp_path, monkeypatch, capsys):
    @contextmanager
    def failing(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
        yield

    path = write_lines(tmp_path / "a.jsonl", ragas())
    monkeypatch.setattr(ArrowStorage, "open", failing)
    assert run("ragas", "--data", path, "--output", tmp_path / "log.parquet") == ExitCode.FAILED
    assert "a.jsonl' cannot be read: [Errno 5] Input/output error" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "content"), [("a.json", "[]"), ("a.jsonl", ""), ("a.csv", "user_input,response\n")])
def test_a_day_without_rows_makes_an_empty_log(name, content, tmp_path, capsys):
    (tmp_path / name).write_text(content)
    assert run("ragas", "--data", tmp_path / name, "--output", tmp_path / "log.parquet") == 0
    assert "0 rows read of 1 file, 0 written" in capsys.readouterr().out
    assert [*QALog(str(tmp_path / "log.parquet")).outcomes()] == []
