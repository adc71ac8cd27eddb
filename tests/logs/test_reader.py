"""Readers: the worked example of docs/extending.md, and one reason for a faulty row whoever reads it."""

import re
import sys
from base64 import b64encode
from collections import Counter
from importlib import invalidate_caches
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet.encryption import CryptoFactory, EncryptionConfiguration, KmsClient, KmsConnectionConfig
from tests.logs.faults import FAULTS, LONGEST
from tests.logs.log_files import LOG_SCHEMA, log_row, write_log

from attribeam.evaluation.datasets.dataset_file import SkippedRow
from attribeam.evaluation.datasets.labelled_log import load_judged_log, load_log
from attribeam.logs import reader, rows
from attribeam.logs.columns import ColumnMap, ColumnPart, LogOptions
from attribeam.logs.qa_log import QALog, TableLog
from attribeam.logs.reader import BATCH_ROWS, ParquetReader, reader_named, reader_names
from attribeam.logs.rows import FaultyRow
from attribeam.logs.traces.record_files import table_rows
from attribeam.schemas import Passage, QARecord, Reason
from attribeam.schemas.errors import DataError, LogFormatError, UsageError

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
    with pytest.raises(UsageError, match=r"--log-format should be one of parquet, .*responses, arrow, was: 'csv'"):
        reader_named("csv")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module\n", "'arrow_log:ArrowReader', which cannot be imported: No module named"),
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


SPANS = [{"char_start": 0, "char_end": 10}, {"char_start": 0, "char_end": 10}]
ALL_ROWS = [log_row(number, generator="gull-1" if number % 2 else None) for number in range(600)]
ALL_ROWS[3] = log_row(3, target_spans=SPANS)
ALL_ROWS[4] = log_row(4, answer=" ")
ALL_ROWS[5] = log_row(5, record_id="row-1")
ALL_ROWS[6] = log_row(6, passages=None)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.parquet", ALL_ROWS)


def outcomes(data, name, options=None):
    return list(TableLog(data, name, options or LogOptions()).outcomes())


def comparable(found):
    return [
        one if isinstance(one, QARecord) else (one.source, one.record_id, one.fault.reason, one.fault.column)
        for one in found
    ]


def test_value_that_many_rows_share_is_never_copied_for_all_of_them(monkeypatch):
    monkeypatch.setattr(rows, "BATCH_BYTES", 1 << 22, raising=False)
    table = pa.Table.from_pylist([log_row(number) for number in range(200)], schema=LOG_SCHEMA)
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int8()), pa.array(["x" * (1 << 20)]))
    pool = pa.logging_memory_pool(pa.default_memory_pool())
    before = pool.max_memory()
    found = outcomes(table.set_column(3, "answer", shared), "table", LogOptions(max_text_chars=1000))
    assert pool.max_memory() - before < 16 << 20
    assert [one.fault.reason for one in found if isinstance(one, FaultyRow)] == [Reason.TEXT_TOO_LONG] * 200


def polars_frame(table):
    return pytest.importorskip("polars").from_arrow(table)


def pandas_frame(table):
    pytest.importorskip("pandas")
    return table.to_pandas()


def duckdb_relation(table):
    return pytest.importorskip("duckdb").connect().from_arrow(table)


def hugging_face_dataset(table):
    return pytest.importorskip("datasets").Dataset(table)


TABLES = {
    "table": (lambda table: table, True), "batch": (lambda table: table.combine_chunks().to_batches()[0], True),
    "reader": (lambda table: table.to_reader(max_chunksize=7), False), "polars": (polars_frame, True),
    "pandas": (pandas_frame, True), "duckdb": (duckdb_relation, False), "datasets": (hugging_face_dataset, True),
}  # fmt: skip
"""Tables of every library, and whether asking for the number of rows uses nothing up."""


@pytest.mark.parametrize(("made", "known"), TABLES.values(), ids=TABLES)
def test_a_table_has_the_rows_of_the_file(log, made, known):
    file = QALog(log)
    expected = list(file.outcomes(duplicate_rows=file.duplicate_rows().tolist()))
    reasons = [one.fault.reason for one in expected if isinstance(one, FaultyRow)]
    assert reasons == [Reason.EMPTY_ANSWER, Reason.DUPLICATE_RECORD_ID, Reason.NO_PASSAGES]
    table = TableLog(made(pq.read_table(log)), log, LogOptions())
    assert table.row_count == (len(ALL_ROWS) if known else None)
    assert comparable(list(table.outcomes())) == comparable(expected)


def test_chosen_rows_of_a_dataset_are_read_in_their_order(log):
    dataset = hugging_face_dataset(pq.read_table(log)).select([9, 7])
    assert [one.record_id for one in outcomes(dataset, "d")] == ["row-9", "row-7"]
    assert TableLog(dataset, "d", LogOptions()).row_count == 2
    assert outcomes(dataset.select([]), "d") == []


def test_a_query_over_a_stream_loses_no_row(log):
    duckdb = pytest.importorskip("duckdb")
    reader = pq.read_table(log).to_reader(max_chunksize=100)
    assert reader is not None
    assert len(outcomes(duckdb.connect().sql("FROM reader"), "t")) == len(ALL_ROWS)


def test_a_broken_text_harms_no_other_row(tmp_path):
    rows = [log_row(number, **(FAULTS["broken answer"][0] if number == 1 else {})) for number in range(3)]
    table = pq.read_table(write_log(tmp_path / "log.parquet", rows))
    faults = [one.fault.reason if isinstance(one, FaultyRow) else None for one in outcomes(table, "t")]
    assert faults == [None, Reason.INVALID_UTF8, None]


def test_missing_ids_are_each_their_own_fault():
    table = pa.Table.from_pylist([log_row(number, record_id=None if number else "first") for number in range(3)])
    found = outcomes(table, "t")
    assert [one.fault.reason for one in found if isinstance(one, FaultyRow)] == [Reason.MISSING_VALUE] * 2


def test_categories_that_are_views_are_read_as_texts():
    """polars gives its categories as a dictionary of string views."""
    names = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.uint32()), pa.array(["a", "b"]).cast(pa.string_view()))
    table = pa.table(
        {"record_id": names, "question": names, "passages": [["One."]] * 2, "answer": names, "team": names}
    )
    found = outcomes(table, "t", LogOptions(extra_columns=("team",)))
    assert [(one.record_id, one.question, one.answer, one.extra_columns) for one in found] == [
        (name, name, name, (("team", name),)) for name in ("b", "a")
    ]


def test_a_missing_column_is_an_error_in_the_words_of_python(log):
    table = pq.read_table(log).drop_columns(["answer"])
    with pytest.raises(
        LogFormatError, match=r"^table: one column 'answer' is needed.*with columns=\{\"answer\": ...\}$"
    ):
        outcomes(table, "table")


def test_passages_in_json_text_are_an_error_in_the_words_of_python(log):
    table = pq.read_table(log)
    texts = table.set_column(table.schema.get_field_index("passages"), "passages", pa.array(["[]"] * len(table)))
    with pytest.raises(LogFormatError, match=r"is string; .*, or give lists, such as json\.loads makes of JSON text$"):
        outcomes(texts, "table")


@pytest.mark.parametrize("data", [[{"question": "Who?"}], {"question": ["Who?"]}, "log.parquet", 7])
def test_what_is_no_table_is_refused_with_the_way_out(data):
    with pytest.raises(UsageError, match=f"a table is needed.*was a {type(data).__name__};.*attribute_many"):
        outcomes(data, "table")


@pytest.mark.parametrize("values", [5, "half a pair: \ud83d"])
def test_a_frame_that_arrow_cannot_hold_is_refused(values):
    frame = pytest.importorskip("pandas").DataFrame({"question": ["Who?", values]}, dtype=object)
    with pytest.raises(UsageError, match="one type of values for each column"):
        outcomes(frame, "table")


def test_a_frame_without_rows_has_no_outcomes_whatever_its_types():
    frame = pytest.importorskip("pandas").DataFrame(columns=["record_id", "question", "contexts", "answer"])
    assert outcomes(frame, "t", LogOptions((("passages", "contexts"),))) == []


def test_row_group_of_60000_rows_is_read_in_small_batches(tmp_path):
    rows = 60_000
    table = pa.table({"answer": pa.array([f"answer {number}" for number in range(rows)])})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=rows)
    with (tmp_path / "big.parquet").open("rb") as file:
        sizes = [one.rows.num_rows for one in ParquetReader().open(file).batches([ColumnPart("answer")], range(rows))]
    assert pq.read_metadata(tmp_path / "big.parquet").num_row_groups == 1
    assert max(sizes) <= BATCH_ROWS
    assert sum(sizes) == rows


COUNTS = {
    "rows of the file": lambda metadata: metadata.num_rows,
    "rows of the row group": lambda metadata: metadata.row_group(0).num_rows,
    "values of the first column": lambda metadata: metadata.row_group(0).column(0).num_values,
}


@pytest.mark.parametrize("found", [1, 23, 25])
@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
def test_footer_whose_counts_of_rows_differ_is_an_error_that_names_the_file(tmp_path, count, found):
    path = tmp_path / "log.parquet"
    write_log(path, [log_row(number) for number in range(24)])
    footers = changed_footers(path.read_bytes(), 24, found)
    path.write_bytes(next(one for one in footers if count_in(one, count) == found))
    with pytest.raises(DataError, match=rf"log\.parquet' should have one count of rows, has .*{found}"):
        QALog(str(path)).check()
    with path.open("rb") as file, pytest.raises(DataError, match="should have one count of rows"):
        list(table_rows(file, Counter()))


class PlainKeys(KmsClient):
    """Keys that are kept as they are."""

    def wrap_key(self, key_bytes, master_key_identifier):  # noqa: ARG002
        return b64encode(key_bytes)


@pytest.mark.parametrize("columns", [{"c": ["answer"]}, {"c": ["record_id", "question"]}])
@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_file_is_an_error_that_says_so(tmp_path, columns, plaintext_footer):
    asked = EncryptionConfiguration(footer_key="f", column_keys=columns, plaintext_footer=plaintext_footer)
    factory = CryptoFactory(lambda _: PlainKeys())
    properties = factory.file_encryption_properties(KmsConnectionConfig(), asked)
    table = pa.Table.from_pylist([log_row(0)], schema=LOG_SCHEMA)
    with pq.ParquetWriter(tmp_path / "log.parquet", LOG_SCHEMA, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"log\.parquet' should .* is encrypted"):
        list(QALog(str(tmp_path / "log.parquet")).outcomes())


def changed_footers(content, number, other):
    """The file with another number in its footer, in each place where the bytes of the number stand in turn."""
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for index in range(footer, len(content) - 8):
        if content[index] == 2 * number:  # as Thrift writes small numbers
            yield content[:index] + bytes([2 * other]) + content[index + 1 :]


def count_in(content, count):
    try:
        return count(pq.read_metadata(BytesIO(content)))
    except (OSError, pa.ArrowException):
        return None


def test_file_with_a_column_too_deep_for_arrow_is_an_error_that_says_so(tmp_path):
    kind = pa.int8()
    for _ in range(200):
        kind = pa.struct([("a", kind)])
    schema = LOG_SCHEMA.append(pa.field("deep", kind))
    write_log(tmp_path / "log.parquet", [log_row(0)], schema=schema)
    with pytest.raises(DataError, match=r"log\.parquet' .* nested more than 100 levels deep.*; write it anew"):
        QALog(str(tmp_path / "log.parquet")).check()


def test_neighbour_of_a_large_row_is_read_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "BATCH_BYTES", 1 << 16, raising=False)
    answers = ["small"] * 9
    answers[5] = "word " * 100_000
    pq.write_table(pa.table({"answer": pa.array(answers)}), tmp_path / "log.parquet", use_dictionary=False)
    before = pa.total_allocated_bytes()
    with (tmp_path / "log.parquet").open("rb") as file:
        (batch,) = ParquetReader().open(file).batches([ColumnPart("answer")], [4])
        assert pa.total_allocated_bytes() - before < len(answers[5])
    assert (batch.first_row, batch.rows.to_pylist()) == (4, [{"answer": "small"}])


def test_only_needed_columns_are_read(tmp_path):
    item = pa.struct([("text", pa.string()), ("embedding", pa.list_(pa.float32()))])
    schema = pa.schema([*LOG_SCHEMA.remove(2), ("passages", pa.list_(item)), ("prompt", pa.string()), ("x", pa.int8())])
    rows = [log_row(0, passages=[{"text": "One.", "embedding": [0.5]}], prompt="long", x=1)]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "log.parquet")
    options = LogOptions(extra_columns=("x",))
    with (tmp_path / "log.parquet").open("rb") as file:
        log = ParquetReader().open(file)
        (batch,) = log.batches(ColumnMap.from_schema("log", log.schema, options).parts(), [0])
    assert batch.rows.schema.field("passages").type == pa.list_(pa.field("element", pa.struct([("text", pa.string())])))
    assert {"x", "answer"} < set(batch.rows.schema.names)
    assert "prompt" not in batch.rows.schema.names
    (record,) = QALog(str(tmp_path / "log.parquet"), options).outcomes()
    assert (record.passages, record.extra_columns) == ((Passage("One."),), (("x", 1),))


def test_value_that_many_rows_share_makes_small_batches(tmp_path, monkeypatch):
    value, rows = "word " * 50_000, 250
    monkeypatch.setattr(reader, "BATCH_BYTES", 8 * len(value), raising=False)
    pq.write_table(pa.table({"answer": pa.array([value] * rows)}), tmp_path / "shared.parquet")
    assert (tmp_path / "shared.parquet").stat().st_size < len(value)
    with (tmp_path / "shared.parquet").open("rb") as file:
        batches = [one.rows for one in ParquetReader().open(file).batches([ColumnPart("answer")], range(rows))]
    assert sum(one.num_rows for one in batches) == rows
    assert max(one.nbytes for one in batches) < 8 * len(value)
