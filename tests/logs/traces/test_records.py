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

from attribeam.logs.traces import json_values
from attribeam.logs.traces.json_values import Found
from attribeam.logs.traces.records import records
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
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_json_of_every_shape(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "BLOCK_BYTES", block)
    content = KINDS[name].encode()
    assert values(content, wrappers=("data",)) == ROWS
    assert values(gzip.compress(content), wrappers=("data",)) == ROWS


@pytest.mark.parametrize("content", ["", "\n \r\n", "\ufeff", "[]", " [ ] ", gzip.compress(b"", mtime=0)])
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
    ["{bad}", '{"a": "cut off', "[" * 100_000, '{"a": ' + "9" * 5000 + "}", "{} {}", "\x00"],
    ids=["bad", "cut", "deep", "long number", "two", "nul"],
)
def test_line_that_is_no_json_is_its_own_fault(line: str) -> None:
    assert values('{"a": 1}\n' + line + '\n{"a": 3}') == [{"a": 1}, Reason.INVALID_JSON, {"a": 3}]


def test_list_that_is_cut_off_loses_its_last_item_only() -> None:
    for cut in (2, 5, 9):
        found = values(json.dumps([{"a": "one"}, {"a": "two"}])[:-cut])
        assert found == [{"a": "one"}, Reason.INVALID_JSON], cut


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
        ("a,a\n1,2\n", "line 1 has 'a' twice"),
    ],
)
def test_file_of_another_kind_is_refused(content: bytes | str, problem: str) -> None:
    with pytest.raises(LogFormatError, match=problem):
        read(content)


def test_line_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "BLOCK_BYTES", 64)
    monkeypatch.setattr(json_values, "MOST_CHARS", 1000)
    assert len(values('{"a": 1}\n' + '{"a": "' + "x" * 980 + '"}\n')) == 2
    with pytest.raises(DataError, match="lines of at most 1000 bytes"):
        read('{"a": 1}\n' + '{"a": "' + "x" * 2000 + '"}')
    with pytest.raises(DataError, match="values of at most 1000 characters, the one in line 2 is longer"):
        read('[{"a": 1},\n' + '{"a": "' + "x" * 4000 + '"}]')


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
    stream = json_values._stream(file) if as_list else json_values._lines(file)  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        assert sum(1 for _ in stream) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
