"""CSV: a row whose quotes are wrong is one fault that names its lines, and the rows after it are read."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from tests.logs.traces.exports import ANSWER, PASSAGES, QUESTION, imported

from attribeam.logs.traces import record_files
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import LogFormatError

Read = tuple[list[tuple[int, object]], list[str]]


def read(content: str) -> Read:
    """The rows of a CSV file, each with its line, and what is said of its faults."""
    found = list(record_files.csv_rows(io.BytesIO(content.encode())))
    rows = [(one.line, one.value) for one in found if not isinstance(one.value, RowFault)]
    return rows, [str(one.value) for one in found if isinstance(one.value, RowFault)]


def row(line: int, first: str, second: str) -> tuple[int, object]:
    return line, {"a": first, "b": second}


def test_quote_that_is_never_closed_costs_its_own_row_only() -> None:
    rows, (fault,) = read('a,b\n1,x\n2,"y\n3,z\n4,w\n')
    assert rows == [row(2, "1", "x"), row(4, "3", "z"), row(5, "4", "w")]
    assert fault.startswith("line 3 should be CSV, is not: unexpected end of data; close its quotes")


def test_quote_that_the_next_one_seems_to_close_costs_its_own_row_only() -> None:
    rows, (fault,) = read('a,b\n1,"x"\n2,"y\n3,"z"\n4,"w"\n')
    assert rows == [row(2, "1", "x"), row(4, "3", "z"), row(5, "4", "w")]
    assert fault.startswith("line 3 should be CSV, is not")


def test_text_over_lines_with_a_bare_quote_is_one_fault_that_names_its_lines() -> None:
    rows, (fault,) = read('a,b\n1,"first\nsays "hello" there\nlast"\n2,"x\ny"\n')
    assert rows == [row(5, "2", "x\ny")]
    assert fault.startswith("line 2 should be CSV, is not, and the lines up to 4 begin no row")


def test_each_of_several_open_quotes_is_named() -> None:
    rows, faults = read('a,b\n1,"x\n2,y\n3,"z\n4,w\n')
    assert rows == [row(3, "2", "y"), row(5, "4", "w")]
    assert [fault.split(" should")[0] for fault in faults] == ["line 2", "line 4"]


def test_file_that_is_cut_off_within_quotes_loses_its_last_row_only() -> None:
    rows, faults = read('a,b\r\n1,x\r\n2,"y\r\nand')
    assert rows == [row(2, "1", "x")]
    assert faults[0].startswith("line 3 should be CSV, is not, and the lines up to 4 begin no row")


def test_open_quote_takes_no_more_than_the_longest_row_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_files, "MOST_CHARS", 100)
    lines = [f"{number},{'x' * 20}" for number in range(50)]
    rows, (fault,) = read("\n".join(["a,b", '0,"open', *lines]))
    assert rows == [row(number + 3, str(number), "x" * 20) for number in range(50)]
    assert "line 2 should be CSV, is not: no end after 100 characters" in fault
    monkeypatch.setattr(record_files, "MOST_CHARS", 1000)
    monkeypatch.setattr(record_files, "MOST_LINES", 10)
    assert read("\n".join(["a,b", '0,"open', *lines[:9]]))[1][0].startswith(
        "line 2 should be CSV, is not: unexpected end"
    )
    assert "or 10 lines" in read("\n".join(["a,b", '0,"open', *lines]))[1][0]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_that_is_too_long_costs_its_own_row_only(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_files, "MOST_CHARS", 100)
    monkeypatch.setattr(record_files, "BLOCK_BYTES", 30)
    rows, faults = read(end.join(["a,b", "1,x", "2," + "x" * 1000, "3,z", "4," + "x" * 200, "5," + "x" * 98]))
    assert rows == [row(2, "1", "x"), row(4, "3", "z"), row(6, "5", "x" * 98)]
    assert [fault.split(" should")[0] for fault in faults] == ["line 3", "line 5"]
    with pytest.raises(LogFormatError, match="line of names, line 1 is none: no end after 100 characters"):
        read("a," + "b" * 200)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (['x","z'], 0),
        (['x","z', "1,2"], 1),
        (['1,"x', "1,2", "1,2"], 2),
        (['"', ",", '"",""'], 1),
        (['1,"x" y', 'x","z', '","', "z"], 0),
    ],
)
@pytest.mark.parametrize("last", ["", '"a"b', 'z"', 'y",w'])
def test_no_quotes_make_lines_be_read_again_and_again(
    lines: list[str], count: int, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    real = record_files._Lines.take
    monkeypatch.setattr(record_files._Lines, "take", lambda self: taken.append(1) or real(self))
    rows, _ = read("\n".join(["a,b", '1,"x"y', *lines * 500, last]))
    assert len(rows) >= 499 * count
    assert len(taken) < 6 * 500 * len(lines)


def test_row_of_several_lines_with_a_wrong_number_of_fields_names_them() -> None:
    rows, (fault,) = read('a,b\n1,"x\n2,y\n3,z",w\n4,v\n')
    assert rows == [row(5, "4", "v")]
    assert fault.startswith("line 2, whose quotes end in line 4, should have 2 fields as line 1 has, has 3")


def test_line_of_names_may_follow_blank_lines_and_has_to_be_whole() -> None:
    assert read("\n\na,b\n1,x\n") == ([row(4, "1", "x")], [])
    assert read(" \t\r\n\ufeff\n  a,b\n1,x\n") == ([row(4, "1", "x")], [])
    with pytest.raises(LogFormatError, match="line of names, line 1 is none: unexpected end of data"):
        read('a,"b\n1,x\n')


@pytest.mark.parametrize("before", ["\u00a0", "\u200b" * 3, "\x1e", "data: ", "var traces = ", "1,2,"])
@pytest.mark.parametrize("json", ['{"a": "x, y"}', '[{ "a": 1, "b": 2}]', '{\t"a,b": []}'])
def test_json_behind_other_characters_is_no_line_of_names(before: str, json: str) -> None:
    wanted = f"should begin with JSON, or with names of columns, line 2 has {len(before)} characters before its JSON"
    with pytest.raises(LogFormatError, match=wanted):
        read(f"\n{before}{json}")


def test_what_pythons_csv_writes_is_read_as_it_was() -> None:
    texts = ['"', '""', "a\nb", "a\r\nb", ",", "'", 'x "y", z', "", "\n", "ä\u2028b"]
    wanted = [{"a": one or None, "b": other or None} for one in texts for other in texts]
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerows([["a", "b"], *([one["a"] or "", one["b"] or ""] for one in wanted)])
    rows, faults = read(file.getvalue())
    assert faults == []
    assert [value for _, value in rows] == wanted


def test_rows_of_a_damaged_ragas_file_reconcile(tmp_path: Path) -> None:
    contexts = f"{[text for _, text in PASSAGES]!r}".replace('"', '""')
    good = f'{QUESTION},"{contexts}","{ANSWER}"'
    lines = ["user_input,retrieved_contexts,response", good, f'{QUESTION},"{contexts}","{ANSWER}', *[good] * 3]
    (tmp_path / "ragas.csv").write_text("\n".join(lines), encoding="utf-8")
    summary, rows, (letter,) = imported("ragas", str(tmp_path / "ragas.csv"), output=tmp_path / "log.parquet")
    assert summary.read == len(rows) + 1 == 5
    assert letter["reason"] == Reason.INVALID_VALUE
    assert str(letter["message"]).startswith("line 3 should be CSV, is not")
