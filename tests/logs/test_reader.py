"""Readers: the worked example of docs/extending.md, and one reason for a faulty row whoever reads it."""

import re
import sys
from importlib import invalidate_caches
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.faults import FAULTS, LONGEST
from tests.logs.log_files import LOG_SCHEMA, log_row, write_log

from attribeam.evaluation.datasets.dataset_file import SkippedRow
from attribeam.evaluation.datasets.labelled_log import load_judged_log, load_log
from attribeam.logs.columns import LogOptions
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import ParquetReader, reader_named, reader_names
from attribeam.logs.rows import FaultyRow
from attribeam.schemas.errors import UsageError

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "extending.md"
ROWS = [log_row(number, **(FAULTS["broken answer"][0] if number == 3 else {})) for number in range(600)]


def install_example(folder):
    """Put the document's reader where an installed package would be."""
    text = DOCUMENT.read_text(encoding="utf-8")
    code = re.findall(r"```python\n(# arrow_log\.py\n.*?)```", text, flags=re.DOTALL)
    ((group, entry),) = re.findall(r'entry-points\."(attribeam\.log_readers)"\]\n(.*?)\n```', text)
    (folder / "arrow_log.py").write_text("".join(code), encoding="utf-8")
    (folder / "arrow_log-1.dist-info").mkdir()
    (folder / "arrow_log-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: arrow_log\nVersion: 1\n")
    (folder / "arrow_log-1.dist-info" / "entry_points.txt").write_text(f"[{group}]\n{entry.replace(chr(34), '')}\n")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    install_example(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    invalidate_caches()
    yield tmp_path
    sys.modules.pop("arrow_log", None)


def arrow_copy(parquet):
    table = pq.read_table(parquet)
    path = parquet.replace(".parquet", ".arrow")
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    return path


def reasons(log, rows=None):
    return [
        (one.source.source_row, one.record_id, one.fault.reason if isinstance(one, FaultyRow) else one.passages)
        for one in log.outcomes(rows)
    ]


def test_reader_of_another_package_gives_what_parquet_gives(installed):
    parquet = QALog(write_log(installed / "log.parquet", ROWS))
    log = QALog(arrow_copy(parquet.path), LogOptions(format="arrow"))
    assert log.check().row_count == len(ROWS)
    assert reasons(log) == reasons(parquet)
    assert reasons(log, [0, 3, 257, 599]) == reasons(parquet, [0, 3, 257, 599])
    assert log.duplicate_rows().tolist() == []


@pytest.mark.usefixtures("installed")
def test_unknown_format_is_refused_with_those_that_there_are():
    traces = ["ragas", "openinference", "langfuse", "otel-genai", "mlflow", "langsmith", "responses"]
    assert reader_names() == ["parquet", "jsonl", *traces, "arrow"]
    with pytest.raises(
        UsageError, match=r"--log-format should be one of parquet, jsonl, .*responses, arrow, was: 'csv'"
    ):
        reader_named("csv")


def test_reader_that_cannot_be_imported_is_a_clear_error(installed):
    (installed / "arrow_log.py").write_text("import no_such_module\n")
    with pytest.raises(UsageError, match=r"'arrow_log:ArrowReader', which cannot be imported: No module named"):
        reader_named("arrow")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class ArrowReader:\n    suffix = '.arrow'\n", "should be a class with a suffix and a method open"),
        ("class ArrowReader:\n    def open(self, file): ...\n", "should be a class with a suffix and a method open"),
        ("class ArrowReader:\n    def __init__(self, path): ...\n", "cannot be imported: .*missing 1 required"),
        ("ArrowReader = None\n", "cannot be imported: 'NoneType' object is not callable"),
    ],
)
def test_what_is_registered_and_is_no_reader_is_a_clear_error(installed, code, message):
    (installed / "arrow_log.py").write_text(code)
    with pytest.raises(UsageError, match=message):
        reader_named("arrow")


def test_our_own_readers_come_first(tmp_path, monkeypatch):
    (tmp_path / "other-1.dist-info").mkdir()
    (tmp_path / "other-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (tmp_path / "other-1.dist-info" / "entry_points.txt").write_text("[attribeam.log_readers]\nparquet = other:Evil\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(reader_named("parquet"), ParquetReader)


OPTIONS = LogOptions(max_text_chars=LONGEST)
LABELLED = pa.schema([*LOG_SCHEMA, ("span_labels", pa.list_(pa.struct([("supported", pa.bool_())])))])


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_row_has_one_reason_for_all(name, tmp_path):
    changes, _, reason, column = FAULTS[name]
    spans = {"target_spans": [{"char_start": 0, "char_end": 3}], "span_labels": [{"supported": True}]}
    rows = [log_row(0, **spans), log_row(1, **(spans | changes)), log_row(2, **spans)]
    log = QALog(write_log(tmp_path / "log.parquet", rows, schema=LABELLED), OPTIONS)
    read = [(one.fault.reason, one.fault.column) for one in log.outcomes() if isinstance(one, FaultyRow)]
    assert read == [(reason, column)]
    judged = load_judged_log(Path(log.path), OPTIONS)
    assert judged.skipped == (SkippedRow(1, str(reason)),)
    assert SkippedRow(1, str(reason)) in load_log(Path(log.path), OPTIONS).skipped
    assert [one.record.record_id for one in judged.answers] == ["row-0", "row-2"]
