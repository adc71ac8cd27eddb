"""The umask of ``--umask``: what it is, for how long, and what it takes from files that are there already."""

from __future__ import annotations

import os
import stat
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from attribeam.report.private_files import made_with, recorded_umask, take_rights, umask_text


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_of_the_block_are_private_and_later_ones_are_as_before(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with made_with("077"):
            (tmp_path / "private").touch()
            (tmp_path / "folder").mkdir()
        (tmp_path / "usual").touch()
        with made_with(None):
            (tmp_path / "unchanged").touch()
    finally:
        os.umask(before)
    names = ("private", "folder", "usual", "unchanged")
    assert [_mode(tmp_path / name) for name in names] == [0o600, 0o700, 0o644, 0o644]


def test_rights_are_taken_and_never_given(tmp_path: Path) -> None:
    (tmp_path / "open").touch(0o644)
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "closed").touch()
    (tmp_path / "closed").chmod(0o400)
    take_rights([tmp_path / "open", tmp_path / "closed", tmp_path / "gone"], "027")
    assert (_mode(tmp_path / "open"), _mode(tmp_path / "closed")) == (0o640, 0o400)


@pytest.mark.parametrize("text", ["", "77", "778", "0o77", "177", "700", "-77", "+077"])
def test_a_umask_is_three_octal_digits_that_leave_the_owner_all_rights(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="octal digits"):
        umask_text(text)


def test_the_umask_of_an_audit_is_read_from_its_manifest() -> None:
    assert umask_text("0077") == "0077"
    assert recorded_umask({"run": {"umask": "077"}}) == "077"
    assert recorded_umask({"run": {"umask": None}}) is recorded_umask({}) is None
