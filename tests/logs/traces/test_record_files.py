"""Files of every kind: what is read, what becomes a fault of its line, and what is an error of the file."""

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import tracemalloc
import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.logs.traces.exports import (
    AGENT_TALK,
    ANSWER,
    EXPORTS,
    PASSAGES,
    QUESTION,
    csv_of,
    imported,
    lines_of,
    opened,
    parquet_of,
)

from attribeam.logs import jsonl_log, reader, rows
from attribeam.logs.traces import record_files
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import TraceOptions
from attribeam.logs.traces.record_files import records
from attribeam.logs.traces.trace_log import ExportRows, checked
from attribeam.schemas import QARecord, Reason, RowFault, RowSource
from attribeam.schemas.errors import DataError, LogFormatError

TALKS = [{"user_input": AGENT_TALK, "reference": "Ada"}, {"user_input": [{"content": "Hello?", "type": "human"}]}]
TURNS = [
    {
        "user_input": QUESTION,
        "retrieved_contexts": ['He said "no", in 1874.', "Ada's lamp,\nat the Point 🚢"],
        "retrieved_context_ids": ["brigg-1", "brigg-2"],
        "response": f'{ANSWER}\nSo it is "said".',
        "rubrics": {"score1_description": "wrong"},
    },
    {"user_input": "And the tower?", "retrieved_contexts": [PASSAGES[1][1]], "response": "The keeper's."},
    {"user_input": "Nothing found?", "response": "No."},
    {"user_input": "No answer?", "retrieved_contexts": [PASSAGES[0][1]]},
]


def frame_of(samples):
    """A frame's records in JSON, with null for what is missing."""
    names = dict.fromkeys(name for one in samples for name in one)
    return json.dumps([{name: one.get(name) for name in names} for one in samples]).encode()


ROWS = [{"a": "ä\n", "b": [1, {"c": None}]}, {"a": "second"}, {"a": '}]\\"'}]


def read(content, **options):
    raw = content.encode() if isinstance(content, str) else content
    return list(records(io.BytesIO(raw), **options))


def values(content, **options):
    """Values, with the reasons of faults in their places."""
    return [one.value.reason if isinstance(one.value, RowFault) else one.value for one in read(content, **options)]


LINES = "\n".join(json.dumps(one) for one in ROWS)
KINDS = {
    "lines": LINES, "lines with a mark and CRLF": "\ufeff" + LINES.replace("\n", "\r\n") + "\r\n\r\n",
    "list": json.dumps(ROWS), "list over lines": "\n " + json.dumps(ROWS, indent=2, ensure_ascii=False) + "\n",
    "objects over lines": "\n".join(json.dumps(one, indent=2) for one in ROWS),
    "wrapped": json.dumps({"meta": 1, "data": ROWS}), "wrapped over lines": json.dumps({"data": ROWS}, indent=1),
    "pages": "\n".join(json.dumps({"data": [one]}) for one in ROWS),
    "lists one behind the other": json.dumps(ROWS[:1]) + json.dumps(ROWS[1:]),
    "lists on lines": "[]\n" + json.dumps(ROWS[:2]) + "\n\ufeff" + json.dumps(ROWS[2:]) + "\n[]",
    "lines and a list behind them": json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[1:]),
    "list and lines behind it": json.dumps(ROWS[:1], indent=1) + "\n" + "\n".join(map(json.dumps, ROWS[1:])),
    "objects one behind the other": "".join(map(json.dumps, ROWS)),
    "lines that end as they once did": LINES.replace("\n", "\r"),
    "files with marks one behind the other": "\n".join("\ufeff" + json.dumps(one) for one in ROWS),
}  # fmt: skip
BLANKS = {"none": "", "blanks": " " * 5000, "lines": "\r\n\t" * 5000, "mark": "\ufeff" + " " * 4096 + "\n"}


def set_limits(monkeypatch, **limits):
    """How much of a file is read at once, and how long a record may be."""
    for name, count in limits.items():
        for module in (jsonl_log, record_files):
            monkeypatch.setattr(module, name, count)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("blanks", "block"), [("none", 7), *((one, 1 << 20) for one in BLANKS), ("mark", 1)])
def test_json_of_every_shape(name, blanks, block, monkeypatch):
    set_limits(monkeypatch, BLOCK_BYTES=block)
    content = (BLANKS[blanks] + KINDS[name]).encode()
    assert values(content, wrappers=("data",)) == ROWS
    assert values(gzip.compress(content), wrappers=("data",)) == ROWS


def test_location_of_a_record_is_its_line():
    wrapped = read('{"data": [{}, {}]}', wrappers=("data",))
    assert [record.location for record in wrapped] == ["line 1, item 0", "line 1, item 1"]
    assert [record.location for record in read('{"a": 1}\n\n{"a": 2}')] == ["line 1", "line 3"]
    assert [record.location for record in read('[\n{"a":\n 1},\n\n{"a": 2}]')] == ["line 2", "line 5"]
    assert [record.location for record in read('[{"a": 1}, {"a": 2},\n{"a": 3}]')] == [
        "line 1, item 0", "line 1, item 1", "line 2",
    ]  # fmt: skip
    assert [record.location for record in read('a,b\n1,"x\ny"\n2,z\n')] == ["line 2", "line 4"]


WRONG, NO_JSON = Reason.INVALID_VALUE, Reason.INVALID_JSON
READ = {
    **{f"nothing in {one!r}": (one, []) for one in ("", "\n \r\n", "\ufeff", "[]", " [ ] ", "[] \n[]")},
    "nothing, zipped": (gzip.compress(b"", mtime=0), []), "an envelope of nothing": ('{"data": [], "meta": {}}', []),
    "a record with a list of its own": ('{"query": "Who?", "data": [{}]}', [{"query": "Who?", "data": [{}]}]),
    **{f"a line that is {name}": ('{"a": 1}\n' + line + '\n{"a": 3}', [{"a": 1}, NO_JSON, {"a": 3}]) for name,
        line in {"bad": "{bad}", "cut": '{"a": "cut off', "deep": "[" * 100_000, "nul": "\x00",
        "a long number": '{"a": ' + "9" * 5000 + "}"}.items()},
    "a line that is an empty list": ('{"a": 1}\n[]\n[{"a": 3}]', [{"a": 1}, [], {"a": 3}]),
    "lines of several values": ('{"a": 1}{"a": 2}\n{"a": 3}\n{"a": 4} {"a": 5},\n{"a": 6} garbage\n{"a": 7}',
        [*({"a": number} for number in range(1, 7)), NO_JSON, {"a": 7}]),
    "CSV with other numbers of fields": ('a,b\n1,2\n1\n1,2,3\n"1","x ""y"", z"\n"cut', [{"a": "1", "b": "2"}, WRONG,
        WRONG, {"a": "1", "b": 'x "y", z'}, WRONG]),
    "a long field of CSV": ("a,b\n1," + "x" * 500_000, [{"a": "1", "b": "x" * 500_000}]),
    "JSON that is no UTF-8": (b'{"a": "caf\xe9"}', [{"a": "caf\udce9"}]),
    "CSV that is no UTF-8": (b"a,b\ncaf\xe9,2\n", [{"a": "caf\udce9", "b": "2"}]),
    "two members of one name, of which the last counts": ('{"a": 1, "a": 2}', [{"a": 2}]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_records_and_faults_of_a_file(name):
    content, expected = READ[name]
    assert values(content, wrappers=("data",)) == expected


def test_list_that_is_cut_off_loses_its_last_item_only():
    for cut in (2, 5, 9, 14, 15):
        found = values(json.dumps([{"a": "one"}, {"a": "two"}])[:-cut])
        assert found == [{"a": "one"}, Reason.INVALID_JSON], cut
    *rows, fault = read('[{"a": 1}]\n[\n{"a": 2}\n')
    assert [one.value for one in rows] == [{"a": 1}, {"a": 2}]
    assert str(fault.value).startswith(
        "list that begins in line 2 should be JSON, cannot be parsed: the file ends within"
    )


@pytest.mark.parametrize("behind", ["garbage", "]", "}", "\0", ":", '{"a" 1}', "[1, ", "{", "nul", "\x1a"])
@pytest.mark.parametrize("count", [1, 100])
def test_what_stands_behind_a_list_and_is_no_json_is_never_passed_over(behind, count):
    found = []
    try:
        found.extend(one.value for one in records(io.BytesIO((json.dumps(ROWS) + behind * count).encode())))
    except DataError as error:
        found.append(error)
    assert found[:3] == ROWS
    assert isinstance(found[-1], RowFault | DataError)


def tarred(content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        member = tarfile.TarInfo("a.jsonl")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


def arrow_stream():
    file = io.BytesIO()
    with pa.ipc.new_stream(file, pa.schema([("a", pa.int64())])) as writer:
        writer.write(pa.record_batch({"a": [1, 2]}))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "kind", "problem"),
    [
        ("{bad\n}" + " " * 50, LogFormatError, "line 1 cannot be parsed"),
        ('{"a": 1}'.encode("utf-16"), LogFormatError, "should be UTF-8, begins like UTF-16"),
        (b"\x00\x01\x02", LogFormatError, "begins like none of these"),
        (bz2.compress(LINES.encode()), LogFormatError, "is packed as bzip2; unpack it first"),
        (lzma.compress(LINES.encode()), LogFormatError, "is packed as xz; unpack it first"),
        (b"\x28\xb5\x2f\xfd\x04\x00", LogFormatError, "is packed as zstd; unpack it first"),
        (b"PK\x03\x04\x14\x00", LogFormatError, "is packed as zip; unpack it first"),
        (tarred(LINES.encode()), LogFormatError, "is packed as tar; unpack it first"),
        (gzip.compress(tarred(LINES.encode())), LogFormatError, "is packed as tar; unpack it first"),
        ("one column\nx\n", LogFormatError, "line 1 has no comma, semicolon, tab or bar"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", LogFormatError, "line 1 has no comma, semicolon, tab or bar"),
        ('[{"a": 1},\n{"a": 2},\n{"a" 3},\n{"a": 4}]' + " " * 50, DataError,
         r"line 3 cannot be parsed: .*; export it again, best as JSON lines"),
        (gzip.compress(LINES.encode() * 100)[:-20], DataError, "should be whole gzip"),
        *((content, DataError, "is damaged") for content in (
            b"PAR1 and more", b"\x1f\x8b\x08 cut", b"ARROW1 and more", b"\xff\xff\xff\xff more",
            arrow_stream() + b"garbage",
        )),
    ],
)  # fmt: skip
def test_file_that_is_damaged_or_of_another_kind_is_refused(content, kind, problem):
    with pytest.raises(kind, match=problem):
        read(content)


def test_csv_is_refused_where_the_format_has_none():
    with pytest.raises(LogFormatError, match="begins like none of these"):
        read("a,b\n1,2\n", takes_csv=False)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_line_that_is_too_long_is_its_own_fault(at, monkeypatch):
    set_limits(monkeypatch, BLOCK_BYTES=64, MOST_BYTES=1000)
    lines = [json.dumps({"a": "x" * 990}), json.dumps({"a": 2})]
    lines.insert(at, json.dumps({"a": "x" * 2000}))
    found = read("\n".join(lines))
    assert [isinstance(one.value, RowFault) for one in found] == [number == at for number in range(3)]
    assert str(found[at].value).startswith(f"line {at + 1} should have at most 1000 bytes, has more")


@pytest.mark.parametrize(
    "content", ['[{"a": 1},\n{"a": "LONG"}]', '\n{"a": "LONG"}', '{"a": 1\n, "b": "LONG"}', "[1,\n[LONG"]
)
def test_value_that_is_too_long_and_has_no_line_of_its_own_is_an_error(content, monkeypatch):
    set_limits(monkeypatch, BLOCK_BYTES=64, MOST_BYTES=1000)
    assert read(content.replace("LONG", "1" * 900))
    with pytest.raises(DataError, match=r"values of at most 1000 characters, the one in line \d is longer; exp"):
        read(content.replace("LONG", '"1",' * 900 if "[LONG" in content else "x" * 4000))


def test_file_that_unpacks_to_far_more_than_logs_do_is_an_error(monkeypatch):
    monkeypatch.setattr(record_files, "_LEAST_UNPACKED", 1 << 20)
    for begin in (b'{"a": "', b"[", b"", b"a,b\n1,"):
        packed = gzip.compress(begin + (b"x" if begin.strip(b"[") else b" ") * (1 << 23))
        with pytest.raises(DataError, match=r"should unpack to at most 300 times its size, its first \d+ bytes give"):
            read(packed)
    assert len(read(gzip.compress(LINES.encode() * 10))) == 30


def test_streams_of_arrow_may_stand_one_behind_the_other():
    assert values(arrow_stream() * 2) == [{"a": 1}, {"a": 2}] * 2


@pytest.mark.parametrize("as_list", [True, False])
def test_memory_does_not_grow_with_the_file(as_list, tmp_path):
    record, count = b'{"a": "' + b"x" * 1000 + b'"}', 40_000
    with (tmp_path / "long").open("wb") as file:
        file.write(b"[" if as_list else b"")
        file.writelines(record + (b"," if as_list else b"\n") for _ in range(count - 1))
        file.write(record + (b"]" if as_list else b"\n"))
    with (tmp_path / "long").open("rb") as file:
        stream = record_files._stream(file) if as_list else record_files._lines(file)
        tracemalloc.start()
        try:
            assert sum(1 for _ in stream) == count
            assert tracemalloc.get_traced_memory()[1] < 12 << 20
        finally:
            tracemalloc.stop()


def csv_read(content):
    """The rows of a CSV file, each with its line, and what is said of its faults."""
    found = list(record_files.csv_rows(io.BytesIO(content.encode())))
    rows = [(one.line, one.value) for one in found if not isinstance(one.value, RowFault)]
    return rows, [str(one.value) for one in found if isinstance(one.value, RowFault)]


def row(line, first, second):
    return line, {"a": first, "b": second}


@pytest.mark.parametrize(
    ("content", "rows", "faults"),
    [
        ('a,b\n1,x\n2,"y\n3,z\n4,w\n', [row(2, "1", "x"), row(4, "3", "z"), row(5, "4", "w")],
         ["line 3 should be CSV, is not: unexpected end of data; close its quotes"]),
        ('a,b\n1,"x"\n2,"y\n3,"z"\n4,"w"\n', [row(2, "1", "x"), row(4, "3", "z"), row(5, "4", "w")],
         ["line 3 should be CSV, is not"]),
        ('a,b\n1,"first\nsays "hello" there\nlast"\n2,"x\ny"\n', [row(5, "2", "x\ny")],
         ["line 2 should be CSV, is not, and the lines up to 4 begin no row"]),
        ('a,b\n1,"x\n2,y\n3,"z\n4,w\n', [row(3, "2", "y"), row(5, "4", "w")],
         ["line 2 should be CSV", "line 4 should be CSV"]),
        ('a,b\r\n1,x\r\n2,"y\r\nand', [row(2, "1", "x")],
         ["line 3 should be CSV, is not, and the lines up to 4 begin no row"]),
        ('a,b\n1,"x\n2,y\n3,z",w\n4,v\n', [row(5, "4", "v")],
         ["line 2, whose quotes end in line 4, should have 2 fields as line 1 has, has 3"]),
    ],
    ids=["never closed", "closed by the next", "bare quote over lines", "several", "cut off", "wrong number of fields"],
)  # fmt: skip
def test_wrong_quotes_cost_their_own_row_only(content, rows, faults):
    found, said = csv_read(content)
    assert found == rows
    assert [one.startswith(start) for one, start in zip(said, faults, strict=True)] == [True] * len(faults)


def test_open_quote_takes_no_more_than_the_longest_row_along(monkeypatch):
    monkeypatch.setattr(record_files, "MOST_CHARS", 100)
    lines = [f"{number},{'x' * 20}" for number in range(50)]
    rows, (fault,) = csv_read("\n".join(["a,b", '0,"open', *lines]))
    assert rows == [row(number + 3, str(number), "x" * 20) for number in range(50)]
    assert "line 2 should be CSV, is not: no end after 100 characters" in fault
    monkeypatch.setattr(record_files, "MOST_CHARS", 1000)
    monkeypatch.setattr(record_files, "MOST_LINES", 10)
    assert csv_read("\n".join(["a,b", '0,"open', *lines[:9]]))[1][0].startswith(
        "line 2 should be CSV, is not: unexpected end"
    )
    assert "or 10 lines" in csv_read("\n".join(["a,b", '0,"open', *lines]))[1][0]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_that_is_too_long_costs_its_own_row_only(end, monkeypatch):
    monkeypatch.setattr(record_files, "MOST_CHARS", 100)
    monkeypatch.setattr(record_files, "BLOCK_BYTES", 30)
    rows, faults = csv_read(end.join(["a,b", "1,x", "2," + "x" * 1000, "3,z", "4," + "x" * 200, "5," + "x" * 98]))
    assert rows == [row(2, "1", "x"), row(4, "3", "z"), row(6, "5", "x" * 98)]
    assert [fault.split(" should")[0] for fault in faults] == ["line 3", "line 5"]
    with pytest.raises(LogFormatError, match="line of names, line 1 is none: no end after 100 characters"):
        csv_read("a," + "b" * 200)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (['x","z'], 0), (['x","z', "1,2"], 1), (['1,"x', "1,2", "1,2"], 2), (['"', ",", '"",""'], 1),
        (['1,"x" y', 'x","z', '","', "z"], 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("last", ["", '"a"b', 'z"', 'y",w'])
def test_no_quotes_make_lines_be_read_again_and_again(lines, count, last, monkeypatch):
    taken = []
    real = record_files._Lines.take
    monkeypatch.setattr(record_files._Lines, "take", lambda self: taken.append(1) or real(self))
    rows, _ = csv_read("\n".join(["a,b", '1,"x"y', *lines * 500, last]))
    assert len(rows) >= 499 * count
    assert len(taken) < 6 * 500 * len(lines)


def test_line_of_names_may_follow_blank_lines_and_has_to_be_whole():
    assert csv_read("\n\na,b\n1,x\n") == ([row(4, "1", "x")], [])
    assert csv_read(" \t\r\n\ufeff\n  a,b\n1,x\n") == ([row(4, "1", "x")], [])
    assert csv_read("a,b\n1,x\na,b\n2,y\n") == (
        [row(2, "1", "x"), row(4, "2", "y")], ["line 3 should be a row, repeats the names of columns; leave it out"]
    )  # fmt: skip
    with pytest.raises(LogFormatError, match="line of names, line 1 is none: unexpected end of data"):
        csv_read('a,"b\n1,x\n')


@pytest.mark.parametrize("before", ["\u00a0", "\u200b" * 3, "\x1e", "data: ", "var traces = ", "1,2,"])
@pytest.mark.parametrize("json", ['{"a": "x, y"}', '[{ "a": 1, "b": 2}]', '{\t"a,b": []}'])
def test_json_behind_other_characters_is_no_line_of_names(before, json):
    wanted = f"should begin with JSON, or with names of columns, line 2 has {len(before)} characters before its JSON"
    with pytest.raises(LogFormatError, match=wanted):
        csv_read(f"\n{before}{json}")


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_marks_than_commas_may_stand_between_cells(mark):
    content = f'\ufeff""{mark}"b"\n0{mark}"x, ""y""\n{mark}z"\n1{mark}w'
    found = list(record_files.csv_rows(io.BytesIO(content.encode())))
    assert [record.value for record in found] == [{"": "0", "b": f'x, "y"\n{mark}z'}, {"": "1", "b": "w"}]
    unquoted = list(record_files.csv_rows(io.BytesIO(f"{mark}b\n0{mark}x".encode())))
    assert [record.value for record in unquoted] == [{"": "0", "b": "x"}]
    of_excel = list(record_files.csv_rows(io.BytesIO(f"sep={mark}\r\na,c{mark}b\r\n0{mark}x\r\n".encode())))
    assert [record.value for record in of_excel] == [{"a,c": "0", "b": "x"}]


def test_what_pythons_csv_writes_is_read_as_it_was():
    texts = ['"', '""', "a\nb", "a\r\nb", ",", "'", 'x "y", z', "", "\n", "ä\u2028b"]
    wanted = [{"a": one or None, "b": other or None} for one in texts for other in texts]
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerows([["a", "b"], *([one["a"] or "", one["b"] or ""] for one in wanted)])
    rows, faults = csv_read(file.getvalue())
    assert faults == []
    assert [value for _, value in rows] == wanted


MOMENT = 1_795_168_800_000_000_000


def table_read(table):
    """The records of a table, as a Parquet file and as an Arrow stream has it, with the reasons of faults."""
    parquet, stream = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    found = []
    for file in (parquet, stream):
        file.seek(0)
        values = [one.value for one in records(file)]
        found.append([one.reason if isinstance(one, RowFault) else one for one in values])
    assert found[0] == found[1]
    return found[0]


MAP = pa.map_(pa.string(), pa.list_(pa.map_(pa.string(), pa.int64())))
MOMENTS = pa.struct([("at", pa.timestamp("ns", "UTC")), ("all", pa.list_(pa.timestamp("ns")))])
UUID = uuid.UUID(int=7)
RAW_ID = pa.array([UUID.bytes], pa.binary(16))
BROKEN = pa.Array.from_buffers(pa.string(), 2, pa.array([b"x", b"\xff"]).buffers())
TABLES = {
    "maps are objects at any depth": ({"a": pa.array([[("x", [[("y", 1)]])], None], MAP)}, [{"a": {"x": [{"y": 1}]}},
        {"a": None}]),
    "ids that are no texts come as texts": ({"uuid": pa.ExtensionArray.from_storage(pa.uuid(), RAW_ID), "raw": RAW_ID,
        "text": pa.array([b"trace-1"], pa.binary()), "decimals": pa.array([[Decimal("7.00"), Decimal("0.25")]])},
        [{"uuid": str(UUID), "raw": UUID.hex, "text": "trace-1", "decimals": [7, 0.25]}]),
    "nanoseconds are cut at any depth": ({"a": pa.array([{"at": MOMENT + 1234, "all": [MOMENT + 999]}], MOMENTS)},
        [{"a": {"at": datetime(2026, 11, 20, 10, 0, 0, 1, UTC), "all": [datetime(2026, 11, 20, 10)]}}]),
    "embeddings are left out": ({"a": ["x"], "attributes.embedding.embeddings": [[0.1]]}, [{"a": "x"}]),
    "a broken text harms its row only": ({"a": BROKEN, "b": ["x", "y"]}, [{"a": "x", "b": "x"}, Reason.INVALID_UTF8]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_a_table_are_records(name):
    columns, expected = TABLES[name]
    assert table_read(pa.table(columns)) == expected


def test_moment_beyond_the_year_9999_is_a_fault_of_its_row():
    for kind, value in ((pa.timestamp("us"), 2**62), (pa.date32(), 2**30), (pa.duration("s"), 2**60)):
        table = pa.table({"a": ["x", "y"], "at": pa.array([0, value], kind)})
        first, second = table_read(table)
        assert first["a"] == "x"
        assert second == Reason.INVALID_VALUE, kind


def test_value_that_many_rows_share_is_held_a_few_times_only(monkeypatch):
    value, count = "word " * 50_000, 250
    for module in (reader, rows):
        monkeypatch.setattr(module, "BATCH_BYTES", 8 * len(value))
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value]))
    table = pa.table({"answer": shared, "number": range(count), "embedding": [0.5] * count})
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table)
    for file in (parquet, arrow):
        file.seek(0)
        tracemalloc.start()
        found = [(one.line, one.value["number"], len(one.value["answer"])) for one in records(file)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found == [(number + 1, number, len(value)) for number in range(count)]
        assert peak < 20 * len(value)


SCALARS = st.none() | st.booleans() | st.integers(-5, 10**19) | st.floats() | st.text(max_size=6)
KEYS = st.sampled_from(
    ["role", "content", "parts", "type", "text", "messages", "input", "output", "documents", "document", "id", "kwargs",
     "metadata", "choices", "delta", "0", "1", "a.b", "", "question", "answer", "ids", "node", "data", "message"]
)  # fmt: skip
ODD = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
ODD_OR_TEXT = ODD | ODD.map(json.dumps)


def leaves(value, path=()):
    if path:
        yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, (*path, index))


def replaced(value, path, by):
    if not path:
        return by
    if isinstance(value, dict):
        return {key: replaced(one, path[1:], by) if key == path[0] else one for key, one in value.items()}
    return [replaced(one, path[1:], by) if index == path[0] else one for index, one in enumerate(value)]


def outcomes(kind, records, options):
    """What the records come to, and how many are no spans."""
    rows = ExportRows(LOG_KINDS[kind], options)
    found = [checked(one.row, RowSource("a", one.number)) for one in rows.read([opened(lines_of(records))])]
    return found, rows.seen.skipped


@pytest.mark.parametrize("kind", EXPORTS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_record_with_any_value_in_any_place(kind, data):
    records = list(EXPORTS[kind]())
    number = data.draw(st.integers(0, len(records) - 1))
    path = data.draw(st.sampled_from(list(leaves(records[number]))))
    records[number] = replaced(records[number], path, data.draw(ODD_OR_TEXT))
    options = TraceOptions(history=data.draw(st.sampled_from([0, 2])), tool_outputs=data.draw(st.booleans()))
    found, skipped = outcomes(kind, records, options)
    assert found or skipped
    for one in found:
        assert isinstance(one, QARecord) or str(one.fault)


@pytest.mark.parametrize("kind", EXPORTS)
@settings(max_examples=25, deadline=None)
@given(records=st.lists(st.dictionaries(KEYS | st.text(max_size=4), ODD_OR_TEXT, max_size=5), min_size=1, max_size=4))
def test_records_of_any_shape(kind, records):
    found, skipped = outcomes(kind, [{"first": "line is an object"}, *records], TraceOptions(tool_outputs=True))
    assert len(found) + skipped > 0


def nest(depth, key):
    value = "x"
    for _ in range(depth):
        value = {key: value}
    return value


@pytest.mark.parametrize("kind", EXPORTS)
@pytest.mark.parametrize("key", ["document", "messages"])
def test_value_deeper_than_python_goes_is_a_fault_of_its_record(kind, key):
    records = list(EXPORTS[kind]())
    for path in list(leaves(records[0]))[::4]:
        some = [replaced(records[0], path, nest(450, key)), *records[1:]]
        found, skipped = outcomes(kind, some, TraceOptions(history=1, tool_outputs=True))
        assert found or skipped, path


def test_integer_of_otlp_that_is_none_stays_a_text():
    for value in (*({"intValue": text} for text in ("--5", "-", "\u0663", "9" * 5000)), {"newValue": "5"}):
        (record,) = EXPORTS["otel-genai"]()
        span = record["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        span["attributes"].append({"key": "gen_ai.usage.input_tokens", "value": value})
        (found,), _ = outcomes("otel-genai", [record], TraceOptions())
        assert isinstance(found, QARecord), value


def samples_imported(content, folder, options=None):
    (folder / "data").write_bytes(content)
    return imported("ragas", str(folder / "data"), output=folder / "log.parquet", options=options)


def test_conversation_that_numpy_printed_is_refused(tmp_path):
    """``to_hf_dataset().to_csv()`` prints lists of messages as arrays of objects, without commas."""
    talk = "[{'content': 'Hello', 'type': 'human'}\n {'content': 'Hi', 'type': 'ai'}]"
    samples = [
        {"user_input": talk, "retrieved_contexts": ["A lamp."], "response": "Hi."},
        {"user_input": "[sic] Who?", "retrieved_contexts": ["A lamp."], "response": "Hi."},
    ]
    _, (row,), (letter,) = samples_imported(csv_of(samples), tmp_path)
    assert row["question"] == "[sic] Who?"
    assert letter["reason"] == Reason.INVALID_VALUE
    assert "'user_input' should be a text or a conversation" in str(letter["message"])


def test_rows_of_a_damaged_ragas_file_reconcile(tmp_path):
    contexts = f"{[text for _, text in PASSAGES]!r}".replace('"', '""')
    good = f'{QUESTION},"{contexts}","{ANSWER}"'
    lines = ["user_input,retrieved_contexts,response", good, f'{QUESTION},"{contexts}","{ANSWER}', *[good] * 3]
    (tmp_path / "ragas.csv").write_text("\n".join(lines), encoding="utf-8")
    summary, rows, (letter,) = imported("ragas", str(tmp_path / "ragas.csv"), output=tmp_path / "log.parquet")
    assert summary.read == len(rows) + 1 == 5
    assert letter["reason"] == Reason.INVALID_VALUE
    assert str(letter["message"]).startswith("line 3 should be CSV, is not")


@pytest.mark.parametrize("made", [lines_of, csv_of, frame_of, parquet_of])
@pytest.mark.parametrize(
    ("samples", "options", "questions", "reasons"),
    [
        (TURNS, TraceOptions(), [QUESTION, "And the tower?"], {Reason.NO_PASSAGES: 1, Reason.EMPTY_ANSWER: 1}),
        (TALKS, TraceOptions(history=2, tool_outputs=True), [f"User: Good day\nAssistant: Ask me.\nUser: {QUESTION}"],
         {Reason.EMPTY_ANSWER: 1}),
    ],
    ids=["turns", "talks"],
)  # fmt: skip
def test_every_way_to_write_a_data_set_gives_the_same_log(made, samples, options, questions, reasons, tmp_path):
    summary, rows, _ = samples_imported(made(samples), tmp_path, options)
    assert [row["question"] for row in rows] == questions
    assert summary.reasons == reasons
    assert rows == samples_imported(lines_of(samples), tmp_path, options)[1]
