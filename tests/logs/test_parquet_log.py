"""Reading: exactly one outcome a row, one faulty row harms no other, and batches stay small."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.logs.log_files import BROKEN_TEXT, LOG_SCHEMA, log_row, write_log

from attribeam.logs.columns import InputFormat
from attribeam.logs.parquet_log import BATCH_ROWS, QARecordReader, record_batches
from attribeam.logs.rows import RowRange
from attribeam.schemas import CharRange, DeadLetter, Passage, QARecord, Reason, Stage
from attribeam.transforms.audit_settings import AuditSettings

LONGEST = 200
BLANK = [{"text": ""}, {"text": " \n"}]
FAULTS: dict[str, tuple[dict[str, object], Stage, Reason, str]] = {
    "null id": ({"record_id": None}, Stage.VALIDATE, Reason.MISSING_VALUE, "record_id"),
    "empty id": ({"record_id": ""}, Stage.VALIDATE, Reason.MISSING_VALUE, "record_id"),
    "broken id": ({"record_id": BROKEN_TEXT}, Stage.READ, Reason.INVALID_UTF8, "record_id"),
    "null question": ({"question": None}, Stage.VALIDATE, Reason.MISSING_VALUE, "question"),
    "broken question": ({"question": BROKEN_TEXT}, Stage.READ, Reason.INVALID_UTF8, "question"),
    "null answer": ({"answer": None}, Stage.VALIDATE, Reason.EMPTY_ANSWER, "answer"),
    "blank answer": ({"answer": " \n\u3000"}, Stage.VALIDATE, Reason.EMPTY_ANSWER, "answer"),
    "broken answer": ({"answer": BROKEN_TEXT}, Stage.READ, Reason.INVALID_UTF8, "answer"),
    "long answer": ({"answer": "é" * (LONGEST + 1)}, Stage.VALIDATE, Reason.TEXT_TOO_LONG, "answer"),
    "null passages": ({"passages": None}, Stage.VALIDATE, Reason.NO_PASSAGES, "passages"),
    "blank passages": ({"passages": BLANK}, Stage.VALIDATE, Reason.NO_PASSAGES, "passages"),
    "no passages": ({"passages": []}, Stage.VALIDATE, Reason.NO_PASSAGES, "passages"),
    "null passage": ({"passages": [None]}, Stage.VALIDATE, Reason.MISSING_VALUE, "passages"),
    "null passage text": ({"passages": [{"text": None}]}, Stage.VALIDATE, Reason.MISSING_VALUE, "passages"),
    "broken passage": ({"passages": [{"text": BROKEN_TEXT}]}, Stage.READ, Reason.INVALID_UTF8, "passages"),
    "broken title": (
        {"passages": [{"text": "a", "title": BROKEN_TEXT}]}, Stage.READ, Reason.INVALID_UTF8, "passages"
    ),
    "long passage": ({"passages": [{"text": "a" * 201}]}, Stage.VALIDATE, Reason.TEXT_TOO_LONG, "passages"),
    "span beyond the answer": (
        {"answer": "🙂🙂", "target_spans": [{"char_start": 0, "char_end": 3}]},
        Stage.VALIDATE, Reason.SPAN_OUT_OF_RANGE, "target_spans",
    ),
    "empty span": (
        {"target_spans": [{"char_start": 2, "char_end": 2}]}, Stage.VALIDATE, Reason.SPAN_OUT_OF_RANGE, "target_spans"
    ),
    "reversed span": (
        {"target_spans": [{"char_start": 3, "char_end": 1}]}, Stage.VALIDATE, Reason.SPAN_OUT_OF_RANGE, "target_spans"
    ),
    "negative span": (
        {"target_spans": [{"char_start": -1, "char_end": 1}]}, Stage.VALIDATE, Reason.SPAN_OUT_OF_RANGE, "target_spans"
    ),
    "null span": ({"target_spans": [None]}, Stage.VALIDATE, Reason.MISSING_VALUE, "target_spans"),
    "broken generator": ({"generator": BROKEN_TEXT}, Stage.READ, Reason.INVALID_UTF8, "generator"),
}  # fmt: skip
AUDIT = AuditSettings(max_text_chars=LONGEST)


def read(file: str, audit: AuditSettings = AUDIT, duplicate_rows: tuple[int, ...] = ()) -> list[QARecord | DeadLetter]:
    rows = pq.read_metadata(file).num_rows
    return list(QARecordReader(audit).read(RowRange(file, 0, rows, duplicate_rows)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_row_is_one_dead_letter_and_leaves_its_neighbours_untouched(tmp_path: Path, name: str) -> None:
    changes, stage, reason, column = FAULTS[name]
    clean = read(write_log(tmp_path / "log.parquet", [log_row(0), log_row(1), log_row(2)]))
    file = write_log(tmp_path / "log.parquet", [log_row(0), log_row(1, **changes), log_row(2)])
    before, letter, after = read(file)
    assert (before, after) == (clean[0], clean[2])
    assert isinstance(letter, DeadLetter)
    assert (letter.stage, letter.reason, letter.column) == (stage, reason, column)
    assert (letter.source.source_file, letter.source.source_row) == (file, 1)
    assert letter.record_id == (None if column == "record_id" else "row-1")
    assert column in letter.message


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(faults=st.lists(st.sampled_from([None, *FAULTS]), min_size=1, max_size=40), row_group_size=st.integers(1, 50))
def test_every_row_has_exactly_one_outcome_in_order(
    folder: Path, faults: Sequence[str | None], row_group_size: int
) -> None:
    rows = [log_row(number, **(FAULTS[name][0] if name else {})) for number, name in enumerate(faults)]
    outcomes = read(write_log(folder / "mixed.parquet", rows, row_group_size=row_group_size))
    assert [outcome.source.source_row for outcome in outcomes] == list(range(len(rows)))
    found = [outcome.reason if isinstance(outcome, DeadLetter) else None for outcome in outcomes]
    assert found == [FAULTS[name][2] if name else None for name in faults]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 30), max_size=4), row_group_size=st.integers(1, 31))
def test_ranges_that_cover_a_file_read_it_once(folder: Path, cuts: list[int], row_group_size: int) -> None:
    file = write_log(folder / "cut.parquet", [log_row(number) for number in range(30)], row_group_size=row_group_size)
    bounds = [0, *sorted(cuts), 30]
    reader = QARecordReader(AUDIT)
    ranges = [RowRange(file, start, end) for start, end in pairwise(bounds)]
    parts = [outcome for one in ranges for outcome in reader.read(one)]
    assert parts == read(file)


def test_row_group_of_60000_rows_is_read_in_small_batches(tmp_path: Path) -> None:
    rows = 60_000
    table = pa.table({"answer": pa.array([f"answer {number}" for number in range(rows)])})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=rows)
    parquet = pq.ParquetFile(tmp_path / "big.parquet")
    sizes = [batch.num_rows for _, batch in record_batches(parquet, RowRange("big", 0, rows), ["answer"])]
    assert parquet.num_row_groups == 1
    assert max(sizes) <= BATCH_ROWS
    assert sum(sizes) == rows


def test_only_needed_columns_are_read(tmp_path: Path) -> None:
    item = pa.struct([("text", pa.string()), ("embedding", pa.list_(pa.float32()))])
    schema = pa.schema([*LOG_SCHEMA.remove(2), ("passages", pa.list_(item)), ("prompt", pa.string()), ("x", pa.int8())])
    rows = [log_row(0, passages=[{"text": "One.", "embedding": [0.5]}], prompt="long", x=1)]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "log.parquet")
    parquet = pq.ParquetFile(tmp_path / "log.parquet")
    audit = AuditSettings(extra_columns=("x",))
    paths = InputFormat.from_schema("log", parquet.schema_arrow, audit).leaf_paths(parquet.schema)
    assert "x" in paths
    assert "passages.list.element.text" in paths
    assert not [path for path in paths if "embedding" in path or path == "prompt"]
    record = read(str(tmp_path / "log.parquet"), audit)[0]
    assert record.passages == (Passage("One."),)  # type: ignore[union-attr]
    assert record.extra_columns == (("x", 1),)  # type: ignore[union-attr]


def test_row_with_every_field_is_read_whole(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 19, 4, 5, 6, 7, tzinfo=UTC)
    spans = [{"char_start": 0, "char_end": 3}, {"char_start": 4, "char_end": 5}]
    row = log_row(0, target_spans=spans, answered_at=moment, generator="writer-2", answer="🙂é𝒳 ok")
    (record,) = read(write_log(tmp_path / "log.parquet", [row]))
    assert isinstance(record, QARecord)
    assert record.target_spans == (CharRange(0, 3), CharRange(4, 5))
    assert (record.answered_at, record.generator, record.answer) == (moment, "writer-2", "🙂é𝒳 ok")
    assert record.passages[0] == Passage("Ada Thorne lit lamp 0 in 1874.", "Brigg Point", "p0")
    assert record.passages[1] == Passage("The keeper lived in the tower.")
    assert pickle.loads(pickle.dumps(record)) == record


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.timestamp("ns"), 1_500_000_000_000_000_999, datetime(2017, 7, 14, 2, 40, tzinfo=UTC)),
        (pa.timestamp("ms", tz="Asia/Tokyo"), 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (pa.date32(), 1, datetime(1970, 1, 2, tzinfo=UTC)),
        (pa.string(), "2026-11-19T04:05:06+02:00", datetime(2026, 11, 19, 2, 5, 6, tzinfo=UTC)),
        (pa.string(), "2026-11-19", datetime(2026, 11, 19, tzinfo=UTC)),
        (pa.string(), "2026-11-19T04:05:06Z", datetime(2026, 11, 19, 4, 5, 6, tzinfo=UTC)),
    ],
)
def test_moments_of_every_kind_are_read_in_utc(
    tmp_path: Path, kind: pa.DataType, value: object, expected: datetime
) -> None:
    schema = LOG_SCHEMA.set(5, pa.field("answered_at", kind))
    (record,) = read(write_log(tmp_path / "log.parquet", [log_row(0, answered_at=value)], schema=schema))
    assert record.answered_at == expected  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.string(), "last Tuesday"), (pa.timestamp("us"), 2**62), (pa.string(), "0001-01-01T00:00+02")],
)
def test_moment_that_is_none_is_an_invalid_value_of_its_row(tmp_path: Path, kind: pa.DataType, value: object) -> None:
    schema = LOG_SCHEMA.set(5, pa.field("answered_at", kind))
    rows = [log_row(0), log_row(1, answered_at=value), log_row(2)]
    outcomes = read(write_log(tmp_path / "log.parquet", rows, schema=schema))
    assert [getattr(outcome, "reason", None) for outcome in outcomes] == [None, Reason.INVALID_VALUE, None]


@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
@pytest.mark.parametrize("make_list", [pa.list_, pa.large_list, pa.list_view])
def test_variants_of_text_and_list_are_read_alike(tmp_path: Path, text: pa.DataType, make_list: object) -> None:
    plain = text if pa.types.is_large_string(text) else pa.string()
    item = pa.struct([("passage_id", pa.int64()), ("title", plain), ("text", plain)])
    schema = pa.schema(
        [("record_id", pa.uint16()), ("question", text), ("passages", make_list(item)), ("answer", text)]  # type: ignore[operator]
    )
    passages = [{"passage_id": 7, "title": None, "text": "One."}, {"passage_id": None, "title": "T", "text": "Two."}]
    rows = [log_row(0, record_id=5, passages=passages), log_row(1, record_id=6, passages=None)]
    table = pa.Table.from_arrays(
        [pa.array([row[name] for row in rows], schema.field(name).type) for name in schema.names], schema=schema
    )
    pq.write_table(table, tmp_path / "log.parquet")
    record, letter = read(str(tmp_path / "log.parquet"))
    assert record.record_id == "5"  # type: ignore[union-attr]
    assert record.passages == (Passage("One.", None, "7"), Passage("Two.", "T"))  # type: ignore[union-attr]
    assert letter.reason is Reason.NO_PASSAGES  # type: ignore[union-attr]


def test_passages_may_be_plain_strings(tmp_path: Path) -> None:
    schema = LOG_SCHEMA.set(2, pa.field("passages", pa.list_(pa.string())))
    rows = [log_row(0, passages=["One.", ""]), log_row(1, passages=[None]), log_row(2, passages=[BROKEN_TEXT])]
    record, null, broken = read(write_log(tmp_path / "log.parquet", rows, schema=schema))
    assert record.passages == (Passage("One."), Passage(""))  # type: ignore[union-attr]
    assert (null.reason, broken.reason) == (Reason.MISSING_VALUE, Reason.INVALID_UTF8)  # type: ignore[union-attr]


def test_duplicate_rows_of_the_plan_are_dead_letters(tmp_path: Path) -> None:
    file = write_log(tmp_path / "log.parquet", [log_row(0), log_row(0), log_row(2)])
    outcomes = read(file, duplicate_rows=(1,))
    assert [getattr(outcome, "reason", None) for outcome in outcomes] == [None, Reason.DUPLICATE_RECORD_ID, None]
    assert outcomes[1].record_id == "row-0"


def test_answer_text_is_in_the_dead_letter_only_when_asked_for(tmp_path: Path) -> None:
    answer = "A secret answer."
    file = write_log(tmp_path / "log.parquet", [log_row(0, answer=answer, passages=[])])
    (without,) = read(file)
    (with_text,) = read(file, AuditSettings(dead_letter_text=True))
    assert "secret" not in repr(without)
    assert isinstance(with_text, DeadLetter)
    assert with_text.answer == answer


def test_extra_columns_keep_their_values(tmp_path: Path) -> None:
    kinds = {"when": pa.timestamp("ns"), "tags": pa.list_(pa.string()), "kind": pa.dictionary(pa.int8(), pa.string())}
    schema = pa.schema([*LOG_SCHEMA, *kinds.items()])
    row = log_row(0, when=1_000_000_001, tags=["a", None], kind="live")
    pq.write_table(
        pa.Table.from_arrays([pa.array([row.get(field.name)], field.type) for field in schema], schema=schema),
        tmp_path / "log.parquet",
    )
    audit = AuditSettings(extra_columns=("kind", "when", "tags"))
    (record,) = read(str(tmp_path / "log.parquet"), audit)
    fields = InputFormat.from_schema("log", schema, audit).extra_fields
    assert [field.type for field in fields] == [pa.string(), pa.timestamp("ns"), pa.list_(pa.string())]
    values = dict(record.extra_columns)  # type: ignore[union-attr]
    assert pa.array([values["when"]], pa.timestamp("ns")).cast(pa.int64()).to_pylist() == [1_000_000_001]
    assert (values["kind"], values["tags"]) == ("live", ["a", None])


def test_broken_extra_column_is_a_fault_of_its_row(tmp_path: Path) -> None:
    schema = pa.schema([*LOG_SCHEMA, ("source", pa.string())])
    file = write_log(tmp_path / "log.parquet", [log_row(0, source=BROKEN_TEXT), log_row(1, source="b")], schema=schema)
    letter, record = read(file, AuditSettings(extra_columns=("source",)))
    assert (letter.reason, letter.column) == (Reason.INVALID_UTF8, "source")  # type: ignore[union-attr]
    assert record.extra_columns == (("source", "b"),)  # type: ignore[union-attr]


def test_file_with_fewer_rows_than_planned_is_an_error(tmp_path: Path) -> None:
    file = write_log(tmp_path / "log.parquet", [log_row(0)])
    with pytest.raises(EOFError, match="at least 2 rows, has 1"):
        list(QARecordReader(AUDIT).read(RowRange(file, 0, 2)))
