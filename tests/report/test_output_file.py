"""A report's file appears whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attribeam.report.output_file import write_lines
from attribeam.schemas.errors import RunError


def _failing() -> Iterator[str]:
    yield "first"
    raise RunError("the audit is not readable")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    output = tmp_path / "rows.csv"
    write_lines(str(output), ["a\r\n", "é\r\n"])
    assert output.read_bytes() == "a\r\né\r\n".encode()
    with pytest.raises(RunError):
        write_lines(str(output), _failing())
    assert output.read_bytes() == "a\r\né\r\n".encode()
    assert list(tmp_path.iterdir()) == [output]


def test_file_that_cannot_be_made_is_told_by_name(tmp_path: Path) -> None:
    output = tmp_path / ("x" * 300)
    with pytest.raises(RunError, match=r"x' cannot be written: .*File name too long"):
        write_lines(str(output), ["row"])


def test_lines_are_written_as_they_come_and_not_gathered(tmp_path: Path) -> None:
    alive = 0

    class Counted(str):
        """A part that knows how many of its kind there are."""

        def __new__(cls, text: str) -> Counted:
            nonlocal alive
            alive += 1
            return super().__new__(cls, text)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def parts() -> Iterator[str]:
        for _ in range(1000):
            yield Counted("row\n" * 1000)
            assert alive < 10

    write_lines(str(tmp_path / "rows"), parts())
    assert (tmp_path / "rows").read_text().count("row\n") == 1_000_000
