"""Files of every kind: what is read, what becomes a fault of its line, and what is an error of the file."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attribeam.logs import jsonl_log
from attribeam.logs.traces import record_files
from attribeam.logs.traces.record_files import Found, records
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

ROWS = [{"a": "ä\n", "b": [1, {"c": None}]}, {"a": "second"}, {"a": '}]\\"'}]


def read(content: bytes | str, **options: object) -> list[Found]:
    """The records of a file's content."""
    raw = content.encode() if isinstance(content, str) else content
    return list(records(io.BytesIO(raw), **options))  # type: ignore[arg-type]


def values(content: bytes | str, **options: object) -> list[object]:
    """Values, with the reasons of faults in their places."""
    return [one.value.reason if isinstance(one.value, RowFault) else one.value for one in read(content, **options)]


LINES = "\n".join(json.dumps(one) for one in ROWS)
KINDS = {
    "lines": LINES,
    "lines with a mark and CRLF": "\ufeff" + LINES.replace("\n", "\r\n") + "\r\n\r\n",
    "list": json.dumps(ROWS),
    "list over lines": "\n " + json.dumps(ROWS, indent=2, ensure_ascii=False) + "\n",
    "objects over lines": "\n".join(json.dumps(one, indent=2) for one in ROWS),
    "wrapped": json.dumps({"meta": 1, "data": ROWS}),
    "wrapped over lines": json.dumps({"data": ROWS}, indent=1),
    "pages": "\n".join(json.dumps({"data": [one]}) for one in ROWS),
    "lists one behind the other": json.dumps(ROWS[:1]) + json.dumps(ROWS[1:]),
    "lists on lines": "[]\n" + json.dumps(ROWS[:2]) + "\n\ufeff" + json.dumps(ROWS[2:]) + "\n[]",
    "lines and a list behind them": json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[1:]),
    "list and lines behind it": json.dumps(ROWS[:1], indent=1) + "\n" + "\n".join(map(json.dumps, ROWS[1:])),
    "objects one behind the other": "".join(map(json.dumps, ROWS)),
    "lines that end as they once did": LINES.replace("\n", "\r"),
    "files with marks one behind the other": "\n".join("\ufeff" + json.dumps(one) for one in ROWS),
}
BLANKS = {"none": "", "blanks": " " * 5000, "lines": "\r\n\t" * 5000, "mark": "\ufeff" + " " * 4096 + "\n"}


def set_block_bytes(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """How much of a file is read at once."""
    for module in (jsonl_log, record_files):
        monkeypatch.setattr(module, "BLOCK_BYTES", count)


def set_most_bytes(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """How long a record may be."""
    for module in (jsonl_log, record_files):
        monkeypatch.setattr(module, "MOST_BYTES", count)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("blanks", "block"), [("none", 7), *((one, 1 << 20) for one in BLANKS), ("mark", 1)])
def test_json_of_every_shape(name: str, blanks: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_block_bytes(monkeypatch, block)
    content = (BLANKS[blanks] + KINDS[name]).encode()
    assert values(content, wrappers=("data",)) == ROWS
    assert values(gzip.compress(content), wrappers=("data",)) == ROWS


@pytest.mark.parametrize("blanks", BLANKS)
def test_csv_may_begin_with_blanks(blanks: str) -> None:
    content = f"{BLANKS[blanks]}a,b\n1,2\n".encode()
    assert values(content) == values(gzip.compress(content)) == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("content", ["", "\n \r\n", "\ufeff", "[]", " [ ] ", "[] \n[]", gzip.compress(b"", mtime=0)])
def test_empty_file_has_no_records(content: bytes | str) -> None:
    assert read(content) == []


def test_record_with_a_list_of_its_own_is_no_envelope() -> None:
    row = {"question": "Who?", "data": [{"a": 1}]}
    assert values(json.dumps(row), wrappers=("data",)) == [row]
    assert values('{"data": [], "meta": {}}', wrappers=("data",)) == []


def test_place_of_a_record_is_its_line() -> None:
    assert [one.place for one in read('{"a": 1}\n\n{"a": 2}')] == ["line 1", "line 3"]
    assert [one.place for one in read('[\n{"a":\n 1},\n\n{"a": 2}]')] == ["line 2", "line 5"]
    assert [one.place for one in read('{"data": [{}, {}]}', wrappers=("data",))] == ["line 1, item 0", "line 1, item 1"]
    assert [one.place for one in read('a,b\n1,"x\ny"\n2,z\n')] == ["line 2", "line 4"]


@pytest.mark.parametrize(
    "line",
    ["{bad}", '{"a": "cut off', "[" * 100_000, '{"a": ' + "9" * 5000 + "}", "\x00"],
    ids=["bad", "cut", "deep", "long number", "nul"],
)
def test_line_that_is_no_json_is_its_own_fault(line: str) -> None:
    assert values('{"a": 1}\n' + line + '\n{"a": 3}') == [{"a": 1}, Reason.INVALID_JSON, {"a": 3}]


def test_line_of_several_values_gives_each_of_them() -> None:
    found = values('{"a": 1}{"a": 2}\n{"a": 3}\n{"a": 4} {"a": 5},\n{"a": 6} garbage\n{"a": 7}')
    assert found == [*({"a": number} for number in range(1, 7)), Reason.INVALID_JSON, {"a": 7}]


def test_list_that_is_cut_off_loses_its_last_item_only() -> None:
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
def test_what_stands_behind_a_list_and_is_no_json_is_never_passed_over(behind: str, count: int) -> None:
    found: list[object] = []
    try:
        found.extend(one.value for one in records(io.BytesIO((json.dumps(ROWS) + behind * count).encode())))
    except DataError as error:
        found.append(error)
    assert found[:3] == ROWS
    assert isinstance(found[-1], RowFault | DataError)


def test_damage_within_a_list_is_an_error_that_names_the_line() -> None:
    with pytest.raises(DataError, match=r"line 3 cannot be parsed: .*; export it again, best as JSON lines"):
        read('[{"a": 1},\n{"a": 2},\n{"a" 3},\n{"a": 4}]' + " " * 50)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{bad\n}" + " " * 50, "line 1 cannot be parsed"),
        ('{"a": 1}'.encode("utf-16"), "should be UTF-8, begins like UTF-16"),
        (b"\x00\x01\x02", "begins like none of these"),
        ("one column\nx\n", "line 1 has no comma"),
    ],
)
def test_file_of_another_kind_is_refused(content: bytes | str, problem: str) -> None:
    with pytest.raises(LogFormatError, match=problem):
        read(content)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_line_that_is_too_long_is_its_own_fault(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_block_bytes(monkeypatch, 64)
    set_most_bytes(monkeypatch, 1000)
    lines = [json.dumps({"a": "x" * 990}), json.dumps({"a": 2})]
    lines.insert(at, json.dumps({"a": "x" * 2000}))
    found = read("\n".join(lines))
    assert [isinstance(one.value, RowFault) for one in found] == [number == at for number in range(3)]
    assert str(found[at].value).startswith(f"line {at + 1} should have at most 1000 bytes, has more")


@pytest.mark.parametrize(
    "content", ['[{"a": 1},\n{"a": "LONG"}]', '\n{"a": "LONG"}', '{"a": 1\n, "b": "LONG"}', "[1,\n[LONG"]
)
def test_value_that_is_too_long_and_has_no_line_of_its_own_is_an_error(
    content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_block_bytes(monkeypatch, 64)
    set_most_bytes(monkeypatch, 1000)
    assert read(content.replace("LONG", "1" * 900))
    with pytest.raises(DataError, match=r"values of at most 1000 characters, the one in line \d is longer; exp"):
        read(content.replace("LONG", '"1",' * 900 if "[LONG" in content else "x" * 4000))


def test_file_that_unpacks_to_far_more_than_logs_do_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_files, "_LEAST_UNPACKED", 1 << 20)
    for begin in (b'{"a": "', b"[", b"", b"a,b\n1,"):
        packed = gzip.compress(begin + (b"x" if begin.strip(b"[") else b" ") * (1 << 23))
        with pytest.raises(DataError, match=r"should unpack to at most 300 times its size, its first \d+ bytes give"):
            read(packed)
    assert len(read(gzip.compress(LINES.encode() * 10))) == 30


def test_streams_of_arrow_may_stand_one_behind_the_other() -> None:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, pa.schema([("a", pa.int64())])) as writer:
        writer.write(pa.record_batch({"a": [1, 2]}))
    assert values(file.getvalue() * 2) == [{"a": 1}, {"a": 2}] * 2
    with pytest.raises(DataError, match="is damaged"):
        read(file.getvalue() + b"garbage")


def test_csv_is_refused_where_the_format_has_none() -> None:
    with pytest.raises(LogFormatError, match="begins like none of these"):
        read("a,b\n1,2\n", takes_csv=False)


@pytest.mark.parametrize(
    "content", [b"PAR1 and more", b"\x1f\x8b\x08 cut", b"ARROW1 and more", b"\xff\xff\xff\xff more"]
)
def test_damaged_file_is_an_error(content: bytes) -> None:
    with pytest.raises(DataError, match="is damaged"):
        read(content)


def test_gzip_that_is_cut_off_is_an_error() -> None:
    with pytest.raises(DataError, match="should be whole gzip"):
        read(gzip.compress(LINES.encode() * 100)[:-20])


def test_csv_rows_with_other_numbers_of_fields_are_faults() -> None:
    found = values('a,b\n1,2\n1\n1,2,3\n"1","x ""y"", z"\n"cut')
    wrong = Reason.INVALID_VALUE
    assert found == [{"a": "1", "b": "2"}, wrong, wrong, {"a": "1", "b": 'x "y", z'}, wrong]


def test_long_field_of_a_csv_file_is_read() -> None:
    ((row),) = values("a,b\n1," + "x" * 500_000)
    assert isinstance(row, dict)
    assert len(row["b"]) == 500_000


def test_bytes_that_are_no_utf8_reach_their_row() -> None:
    assert values(b'{"a": "caf\xe9"}') == [{"a": "caf\udce9"}]
    assert values(b"a,b\ncaf\xe9,2\n") == [{"a": "caf\udce9", "b": "2"}]


def test_last_of_two_members_of_the_same_name_counts() -> None:
    assert values('{"a": 1, "a": 2}') == [{"a": 2}]


def test_parquet_leaves_embeddings_out_and_reads_nanoseconds(tmp_path: Path) -> None:
    moments = pa.array([1_795_168_800_000_000_001], pa.timestamp("ns", tz="UTC"))
    table = pa.table({"a": ["x"], "attributes.embedding.embeddings": [[0.1]], "start_time": moments})
    pq.write_table(table, tmp_path / "a.parquet")
    (row,) = values((tmp_path / "a.parquet").read_bytes())
    assert isinstance(row, dict)
    assert list(row) == ["a", "start_time"]
    assert isinstance(row["start_time"], datetime)


def test_broken_text_in_parquet_harms_its_row_only(tmp_path: Path) -> None:
    good, bad = pa.array(["x", "y"]), pa.array([b"x", b"\xff"])
    broken = pa.Array.from_buffers(pa.string(), 2, bad.buffers())
    pq.write_table(pa.table({"a": broken, "b": good}), tmp_path / "a.parquet")
    assert values((tmp_path / "a.parquet").read_bytes()) == [{"a": "x", "b": "x"}, Reason.INVALID_UTF8]


@pytest.mark.parametrize("as_list", [True, False])
def test_memory_does_not_grow_with_the_file(as_list: bool) -> None:
    class Endless(io.RawIOBase):
        """A long file that is made while it is read."""

        def __init__(self, items: int) -> None:
            self._left, self._at = items, 0
            self._text = b"[" if as_list else b""

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            assert (offset, whence) == (0, 0) or offset == self._at
            return self._at

        def tell(self) -> int:
            return self._at

        def read(self, size: int = -1) -> bytes:
            while len(self._text) < size and self._left:
                self._left -= 1
                end = b"," if as_list and self._left else b"]" if as_list else b"\n"
                self._text += b'{"a": "' + b"x" * 1000 + b'"}' + end
            found, self._text = self._text[:size], self._text[size:]
            return found

    file = Endless(40_000)
    stream = record_files._stream(file) if as_list else record_files._lines(file)  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        assert sum(1 for _ in stream) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
