"""Reading: exactly one outcome per row, one faulty row harms no other, and batches stay small."""

import errno
import os
import pickle
import tracemalloc
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.logs.faults import FAULTS, LONGEST
from tests.logs.log_files import BROKEN_TEXT, LOG_SCHEMA, log_row, write_jsonl, write_log

from attribeam.logs import reader
from attribeam.logs import rows as log_rows
from attribeam.logs.columns import ColumnMap, LogOptions
from attribeam.logs.files import ArrowStorage
from attribeam.logs.qa_log import QALog, file_errors_named
from attribeam.logs.rows import EMPTY_PASSAGE, MOST_CARRIED_BYTES, FaultyRow
from attribeam.schemas import CharRange, Passage, QARecord, Reason
from attribeam.schemas.errors import DataError, ExitCode, LogFormatError, LogReadError, RunError

OPTIONS = LogOptions(max_text_chars=LONGEST)


def read(file, options=OPTIONS, rows=None):
    return list(QALog(file, options).outcomes(rows))


def records(file, options=OPTIONS):
    return [one for one in read(file, options) if isinstance(one, QARecord)]


def reasons(file, options=OPTIONS):
    return [one.fault.reason if isinstance(one, FaultyRow) else None for one in read(file, options)]


TOO_LARGE = "x" * 1000


@pytest.fixture
def short_memory(monkeypatch):
    """Arrow is refused memory for a batch with a value of 1,000 characters."""
    read_batches = pq.ParquetFile.iter_batches

    def refuse(self, *args, **options):
        for batch in read_batches(self, *args, **options):
            if TOO_LARGE in str(batch.to_pylist()):
                raise pa.ArrowMemoryError("malloc of size 1000 failed")
            yield batch

    monkeypatch.setattr(reader, "BATCH_BYTES", 1)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", refuse)


@pytest.mark.usefixtures("short_memory")
@pytest.mark.parametrize(
    ("large", "ids", "column"),
    [
        ({4: {"answer": TOO_LARGE}}, ["row-4", "row-5"], "answer"),
        ({3: {"question": TOO_LARGE}, 5: {"question": TOO_LARGE}}, ["row-3", "row-4", "row-5"], "question"),
        ({0: {"passages": [{"text": TOO_LARGE}]}}, ["row-0", "row-1", "row-2"], "passages"),
        ({8: {"record_id": TOO_LARGE}}, [None], "record_id"),
        ({7: {"record_id": TOO_LARGE, "answer": "y" * 9000}}, [None, None], "answer"),
        ({1: {"team": TOO_LARGE}, 6: {"team": TOO_LARGE}}, ["row-1", "row-2", "row-6", "row-7", "row-8"], "team"),
    ],
)
def test_rows_that_memory_cannot_hold_are_faulty_at_the_last_try_and_all_others_are_read(large, ids, column, tmp_path):
    rows = [log_row(number, **{"team": "a", **large.get(number, {})}) for number in range(9)]
    file = write_log(
        tmp_path / "log.parquet", rows, schema=LOG_SCHEMA.append(pa.field("team", pa.string())), row_group_size=3
    )
    log = QALog(file, LogOptions(extra_columns=("team",)))
    found = list(log.outcomes(last_try=True))
    faulty = [one for one in found if isinstance(one, FaultyRow)]
    assert [one.source.source_row for one in found] == list(range(9))
    assert [one.record_id for one in faulty] == ids
    assert {(one.fault.reason, one.fault.column) for one in faulty} == {(Reason.OUT_OF_MEMORY, column)}
    assert str(faulty[0].fault).startswith(f"row group {min(large) // 3} should")
    with pytest.raises(MemoryError):
        list(log.outcomes())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("logs")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(faults=st.lists(st.sampled_from([None, *FAULTS]), min_size=1, max_size=40), row_group_size=st.integers(1, 50))
def test_every_row_has_exactly_one_outcome_in_order(folder, faults, row_group_size):
    rows = [log_row(number, **(FAULTS[name][0] if name else {})) for number, name in enumerate(faults)]
    file = write_log(folder / "mixed.parquet", rows, row_group_size=row_group_size)
    assert [outcome.source.source_row for outcome in read(file)] == list(range(len(rows)))
    assert reasons(file) == [FAULTS[name][2] if name else None for name in faults]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(picked=st.sets(st.integers(0, 29)), row_group_size=st.integers(1, 31))
def test_picked_rows_are_those_of_a_whole_reading(folder, picked, row_group_size):
    file = write_log(folder / "pick.parquet", [log_row(number) for number in range(30)], row_group_size=row_group_size)
    whole = read(file)
    assert read(file, rows=sorted(picked)) == [whole[row] for row in sorted(picked)]


def test_row_with_every_field_is_read_whole(tmp_path):
    moment = datetime(2026, 11, 19, 4, 5, 6, 7, tzinfo=UTC)
    spans = [{"char_start": 0, "char_end": 3}, {"char_start": 4, "char_end": 5}]
    row = log_row(0, target_spans=spans, answered_at=moment, generator="writer-2", answer="🙂é𝒳 ok")
    (record,) = records(write_log(tmp_path / "log.parquet", [row]))
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
        (pa.string(), "2026-11-19 04:05:06.000 UTC", datetime(2026, 11, 19, 4, 5, 6, tzinfo=UTC)),
    ],
)
def test_moments_of_every_kind_are_read_in_utc(tmp_path, kind, value, expected):
    schema = LOG_SCHEMA.set(5, pa.field("answered_at", kind))
    (record,) = records(write_log(tmp_path / "log.parquet", [log_row(0, answered_at=value)], schema=schema))
    assert record.answered_at == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.string(), "last Tuesday"), (pa.timestamp("us"), 2**62), (pa.string(), "0001-01-01T00:00+02")],
)
def test_moment_that_is_none_is_left_out_and_noted(tmp_path, kind, value):
    schema = LOG_SCHEMA.set(5, pa.field("answered_at", kind))
    rows = [log_row(0), log_row(1, answered_at=value), log_row(2)]
    file = write_log(tmp_path / "log.parquet", rows, schema=schema)
    assert [one.answered_at for one in records(file)] == [None] * 3
    noted = ("answered_at stays empty where answered_at holds no time that can be read",)
    assert [one.notes for one in records(file)] == [(), noted, ()]


@pytest.mark.parametrize("gap", [None, {"passage_id": "p1", "title": "Lamps", "text": None}])
def test_passage_of_null_stays_in_its_place_and_is_noted(tmp_path, gap):
    passages = [{"passage_id": "p0", "title": None, "text": "Ada Thorne lit the lamp."}, gap]
    (record,) = records(write_log(tmp_path / "log.parquet", [log_row(0, passages=passages)]))
    assert [one.text for one in record.passages] == ["Ada Thorne lit the lamp.", ""]
    assert record.notes == (EMPTY_PASSAGE,)


@pytest.mark.parametrize(
    ("name", "kind", "values", "expected"),
    [
        ("record_id", pa.null(), [None, None], Reason.MISSING_VALUE),
        ("question", pa.null(), [None, None], Reason.MISSING_VALUE),
        ("answer", pa.null(), [None, None], Reason.EMPTY_ANSWER),
        ("passages", pa.null(), [None, None], Reason.NO_PASSAGES),
        ("passages", pa.list_(pa.null()), [[], None], Reason.NO_PASSAGES),
        ("passages", pa.list_(pa.null()), [[None], [None, None]], Reason.NO_PASSAGES),
        ("passages", pa.list_(pa.struct([("text", pa.null())])), [[{"text": None}]] * 2, Reason.NO_PASSAGES),
        ("target_spans", pa.list_(pa.null()), [[], None], None),
        ("target_spans", pa.list_(pa.null()), [[None], [None]], Reason.MISSING_VALUE),
    ],
)
def test_column_of_nulls_only_is_a_fault_of_each_row(tmp_path, name, kind, values, expected):
    schema = LOG_SCHEMA.set(LOG_SCHEMA.get_field_index(name), pa.field(name, kind))
    rows = [log_row(number, **{name: value}) for number, value in enumerate(values)]
    assert reasons(write_log(tmp_path / "log.parquet", rows, schema=schema)) == [expected] * 2


@pytest.mark.parametrize("name", ["log.parquet", "log.jsonl"])
def test_file_without_rows_and_columns_has_no_rows(tmp_path, name):
    path = tmp_path / name
    path.touch()
    if path.suffix == ".parquet":
        pq.write_table(pa.table({}), path)
    log = QALog(str(path), LogOptions((("answer", "response"),), ("region",), format=path.suffix[1:]))
    checked = log.check()
    assert (checked.row_count, [field.name for field in checked.columns.extra_fields]) == (0, ["region"])
    assert (list(log.outcomes()), log.duplicate_rows().tolist(), list(log.passage_ids())) == ([], [], [])


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.timestamp("us"), 2**62, Reason.INVALID_VALUE),
        (pa.timestamp("ms", "UTC"), -(2**62), Reason.INVALID_VALUE),
        (pa.timestamp("us", "+10:00"), 253_402_300_799_000_000, Reason.INVALID_VALUE),
        (pa.date32(), 2**31 - 1, Reason.INVALID_VALUE),
        (pa.duration("s"), 2**62, Reason.INVALID_VALUE),
        (pa.list_(pa.int64()), [0] * (MOST_CARRIED_BYTES // 8 + 1), Reason.TEXT_TOO_LONG),
        (pa.string(), BROKEN_TEXT, Reason.INVALID_UTF8),
    ],
    ids=["moment", "moment in UTC", "moment of a zone", "date", "duration", "large list", "broken text"],
)
def test_carried_value_that_cannot_be_read_is_a_fault_of_its_row(tmp_path, kind, value, reason):
    rows = [log_row(0), log_row(1, seen=value), log_row(2)]
    file = write_log(tmp_path / "log.parquet", rows, schema=LOG_SCHEMA.append(pa.field("seen", kind)))
    before, faulty, after = read(file, LogOptions(extra_columns=("seen",)))
    assert (faulty.fault.reason, faulty.fault.column) == (reason, "seen")
    assert [type(one) for one in (before, after)] == [QARecord, QARecord]


@pytest.mark.parametrize("kind", [pa.timestamp("ns", "UTC"), pa.time64("ns"), pa.duration("ns")])
def test_carried_time_keeps_its_nanoseconds(tmp_path, kind):
    schema = LOG_SCHEMA.append(pa.field("seen", kind))
    file = write_log(tmp_path / "log.parquet", [log_row(0, seen=1_000_000_000_001)], schema=schema)
    (record,) = records(file, LogOptions(extra_columns=("seen",)))
    assert record.extra_columns == (("seen", 1_000_000_000_001),)


@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
@pytest.mark.parametrize("make_list", [pa.list_, pa.large_list, pa.list_view])
def test_variants_of_text_and_list_are_read_alike(tmp_path, text, make_list):
    plain = text if pa.types.is_large_string(text) else pa.string()
    item = pa.struct([("passage_id", pa.int64()), ("title", plain), ("text", plain)])
    schema = pa.schema(
        [("record_id", pa.uint16()), ("question", text), ("passages", make_list(item)), ("answer", text)]
    )
    passages = [{"passage_id": 7, "title": None, "text": "One."}, {"passage_id": None, "title": "T", "text": "Two."}]
    rows = [log_row(0, record_id=5, passages=passages), log_row(1, record_id=6, passages=None)]
    table = pa.Table.from_arrays(
        [pa.array([row[name] for row in rows], schema.field(name).type) for name in schema.names], schema=schema
    )
    pq.write_table(table, tmp_path / "log.parquet")
    (record,) = records(str(tmp_path / "log.parquet"))
    assert (record.record_id, record.passages) == ("5", (Passage("One.", None, "7"), Passage("Two.", "T")))
    assert reasons(str(tmp_path / "log.parquet")) == [None, Reason.NO_PASSAGES]


SIZE = 4 << 20
LARGE = {
    "record_id": {"record_id": "x" * SIZE}, "question": {"question": "x" * SIZE}, "answer": {"answer": b"\xff" * SIZE},
    "generator": {"generator": "x" * SIZE}, "passages": {"passages": [{"text": "x" * SIZE}]},
    "title": {"passages": [{"text": "a", "title": "x" * SIZE}]},
    "many": {"passages": [{"text": "x" * 600}] * (SIZE // 600)},
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_large_row_is_refused_unread_and_leaves_its_neighbours_untouched(tmp_path, name):
    rows = [log_row(number) for number in range(3)]
    clean = read(write_log(tmp_path / "log.parquet", rows))
    file = write_log(tmp_path / "log.parquet", [rows[0], {**rows[1], **LARGE[name]}, rows[2]])
    tracemalloc.start()
    try:
        before, refused, after = read(file)
        assert tracemalloc.get_traced_memory()[1] < (2 * SIZE if name == "many" else SIZE // 4)
    finally:
        tracemalloc.stop()
    assert (before, after) == (clean[0], clean[2])
    assert refused.fault.reason is Reason.TEXT_TOO_LONG
    assert refused.record_id == (None if name == "record_id" else "row-1")
    assert len(str(refused.fault)) < 300


def test_answer_and_passages_may_make_so_many_pairs_only(tmp_path, monkeypatch):
    file = write_log(tmp_path / "log.parquet", [log_row(0), log_row(1, answer="Ada."), log_row(2, answer="é" * 40)])
    monkeypatch.setattr(log_rows, "MOST_BYTE_PAIRS", 60 * 79)
    assert reasons(file) == [None, None, Reason.TEXT_TOO_LONG]
    assert "pairs of bytes, holds 80 in the answer times 60 in the passages" in str(read(file)[2])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "", "é", b"\xff"])), max_size=30))
def test_duplicates_are_those_of_a_naive_search(folder, ids):
    file = write_log(folder / "ids.parquet", [log_row(0, record_id=value) for value in ids], row_group_size=7)
    naive = [row for row, value in enumerate(ids) if value is not None and value in ids[:row]]
    assert QALog(file).duplicate_rows().tolist() == naive


def test_passage_ids_come_with_the_rows_that_retrieved_them(tmp_path):
    file = write_log(tmp_path / "log.parquet", [log_row(0), log_row(1, passages=None), log_row(2)])
    found = [row for batch in QALog(file).passage_ids() for row in batch.to_pylist()]
    ids = [None if row is None else [one["passage_id"] for one in row] for row in found]
    assert ids == [["p0", None], None, ["p2", None]]


def test_file_with_fewer_rows_than_planned_is_an_error(tmp_path):
    file = write_log(tmp_path / "log.parquet", [log_row(0)])
    with pytest.raises(DataError, match=r"log\.parquet.*at least 2 rows, has 1"):
        read(file, rows=range(2))


@pytest.mark.parametrize(
    ("change", "kind", "problem"),
    [
        (Path.unlink, DataError, r"log\.parquet' is not there"),
        (lambda path: path.write_text('{"a": 1}'), LogFormatError,
            r"log\.parquet.*does not begin like one.*--log-format.*`attribeam import jsonl`$"),
        (lambda path: path.write_bytes(b""), LogFormatError,
            r"log\.parquet' .* is empty: 0 bytes; write it anew, or remove it$"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), DataError, r"log\.parquet.*footer is not"),
    ],
)  # fmt: skip
def test_file_that_is_gone_damaged_or_of_another_format_is_named(change, kind, problem, tmp_path):
    file = write_log(tmp_path / "log.parquet", [log_row(0)])
    change(Path(file))
    with pytest.raises(kind, match=problem):
        QALog(file).check()


def test_damaged_page_is_bad_input_and_no_failure_of_the_disk(tmp_path):
    file = Path(write_log(tmp_path / "log.parquet", [log_row(number) for number in range(50)]))
    content = bytearray(file.read_bytes())
    content[4:200] = bytes(196)
    file.write_bytes(content)
    log = QALog(str(file))
    log.check()
    with pytest.raises(DataError, match=r"log\.parquet' cannot be read") as caught:
        list(log.outcomes())
    assert caught.value.exit_code == ExitCode.BAD_USAGE


def test_replaced_file_is_never_taken_for_the_one_that_was_fingerprinted(tmp_path):
    rows = [log_row(number) for number in range(3)]
    log = QALog(write_log(tmp_path / "log.parquet", rows)).stamped()
    assert len(list(log.outcomes())) == 3
    write_log(tmp_path / "new.parquet", rows)
    (tmp_path / "new.parquet").replace(log.path)
    with pytest.raises(DataError, match=r"log\.parquet' was replaced or written to"):
        next(log.outcomes())


def test_file_that_is_replaced_while_it_is_read_is_an_error_at_its_end(tmp_path):
    rows = [log_row(number) for number in range(3)]
    outcomes = QALog(write_log(tmp_path / "log.parquet", rows)).stamped().outcomes()
    next(outcomes)
    write_log(tmp_path / "log.parquet", rows)
    with pytest.raises(DataError, match="was replaced or written to"):
        list(outcomes)


@pytest.mark.parametrize(
    "read",
    [
        QALog.check, QALog.fingerprint, QALog.duplicate_rows, lambda log: [*log.outcomes()],
        lambda log: [*log.passage_ids()],
    ],
)  # fmt: skip
def test_file_that_a_link_leads_to_for_a_moment_is_never_read(tmp_path, monkeypatch, read):
    audited, other, link = (tmp_path / name for name in ("a.parquet", "b.parquet", "log.parquet"))
    for number, path in enumerate((audited, other)):
        write_log(path, [log_row(number)])
    link.symlink_to(audited)
    log, opened = QALog(str(link)).stamped(), ArrowStorage.open

    @contextmanager
    def switched(self, path):
        for target in (other, audited):
            link.unlink()
            link.symlink_to(target)
            if target is other:
                entered = opened(self, path)
                file = entered.__enter__()
        yield file
        entered.__exit__(None, None, None)

    read(log)
    monkeypatch.setattr(ArrowStorage, "open", switched)
    with pytest.raises(LogReadError, match=r"log\.parquet' was replaced or written to"):
        read(log)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_temporary_file_that_a_reader_cannot_write_is_no_fault_of_the_log(code):
    told = f"^a temporary file cannot be written: .*{os.strerror(code)}; free space in "
    with pytest.raises(RunError, match=told), file_errors_named("log.json"):
        raise OSError(code, os.strerror(code))


class InMemory:
    def __init__(self, files):
        self.files = files

    def find(self, pattern, *, suffix):
        return [path for path in self.files if path == pattern and path.endswith(suffix)]

    def open(self, path):
        return nullcontext(BytesIO(self.files[path]))

    def stamp(self, path, file=None):
        return str(len(self.files[path])) if file is None and path in self.files else None


@pytest.mark.parametrize(("write", "options"), [(write_log, LogOptions()), (write_jsonl, LogOptions(format="jsonl"))])
def test_any_storage_gives_what_a_local_disk_gives(tmp_path, write, options):
    rows = [log_row(number, **(FAULTS["broken answer"][0] if number == 4 else {})) for number in range(9)]
    local = QALog(write(tmp_path / "log.parquet", rows), options)
    log = QALog(local.path, options, storage=InMemory({local.path: Path(local.path).read_bytes()}))
    assert (log.check(), log.fingerprint()) == (local.check(), local.fingerprint())
    assert [repr(one) for one in log.outcomes()] == [repr(one) for one in local.outcomes()]


def test_extra_columns_keep_their_values(tmp_path):
    kinds = {"when": pa.timestamp("ns"), "tags": pa.list_(pa.string()), "kind": pa.dictionary(pa.int8(), pa.string())}
    schema = pa.schema([*LOG_SCHEMA, *kinds.items()])
    row = log_row(0, when=1_000_000_001, tags=["a", None], kind="live")
    pq.write_table(
        pa.Table.from_arrays([pa.array([row.get(field.name)], field.type) for field in schema], schema=schema),
        tmp_path / "log.parquet",
    )
    options = LogOptions(extra_columns=("kind", "when", "tags"))
    (record,) = records(str(tmp_path / "log.parquet"), options)
    fields = ColumnMap.from_schema("log", schema, options).extra_fields
    assert [field.type for field in fields] == [pa.string(), pa.timestamp("ns"), pa.list_(pa.string())]
    values = dict(record.extra_columns)
    assert pa.array([values["when"]], pa.timestamp("ns")).cast(pa.int64()).to_pylist() == [1_000_000_001]
    assert (values["kind"], values["tags"]) == ("live", ["a", None])


@pytest.mark.parametrize(
    ("ids", "texts"),
    [
        (pa.array([Decimal(7), Decimal(100), Decimal(7)], pa.decimal128(38, 0)), ["7", "100", "7"]),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), b"\1" * 16, bytes(16)], pa.binary(16))),
            [str(UUID(int=0)), str(UUID(bytes=b"\1" * 16)), str(UUID(int=0))],
        ),
    ],
)
def test_ids_of_warehouses_are_texts(ids, texts, tmp_path):
    table = pa.Table.from_pylist([log_row(number) for number in range(3)], LOG_SCHEMA)
    pq.write_table(
        table.set_column(table.schema.get_field_index("record_id"), "record_id", ids), tmp_path / "a.parquet"
    )
    log = QALog(str(tmp_path / "a.parquet"))
    assert [one.record_id for one in log.outcomes()] == texts
    assert [*log.duplicate_rows()] == [2]
