"""The umask of ``--umask``: what it is, for how long, and what it takes from files that are there already."""

from __future__ import annotations

import os
import re
import stat
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from attribeam.report.privacy import made_with, recorded_umask, take_rights, umask_of_folders, umask_text


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
    (tmp_path / "foreign").touch(0o644)
    (tmp_path / "foreign").chmod(0o644)
    tmp_path.chmod(0o755)
    take_rights(tmp_path, re.compile("open|closed|gone"), "027")
    names = ("open", "closed", "foreign", ".")
    assert [_mode(tmp_path / name) for name in names] == [0o640, 0o400, 0o644, 0o750]


def test_rights_of_what_a_link_leads_to_are_not_touched(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir(0o755)
    (outside / "own").touch()
    (outside / "own").chmod(0o666)
    folder.mkdir()
    (folder / "own").symlink_to(outside / "own")
    os.mkfifo(folder / "owned")
    take_rights(folder, re.compile("own.*"), "077")
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(OSError, match="link"):
        take_rights(tmp_path / "link", re.compile("own"), "077")
    assert (_mode(outside), _mode(outside / "own")) == (0o755, 0o666)


@pytest.mark.parametrize("text", ["", "77", "778", "0o77", "177", "700", "-77", "+077"])
def test_a_umask_is_three_octal_digits_that_leave_the_owner_all_rights(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="octal digits"):
        umask_text(text)


def test_the_umask_of_an_audit_is_read_from_its_manifest() -> None:
    assert umask_text("0077") == "0077"
    assert recorded_umask({"run": {"umask": "077"}}) == "077"
    assert recorded_umask({"run": {"umask": None}}) is recorded_umask({}) is None


def test_what_is_made_of_several_audits_is_as_private_as_the_most_private_of_them(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        assert recorded_umask({"run": {"umask": "027"}}, {}, {"run": {"umask": "072"}}) == "077"
        assert recorded_umask({"run": {"umask": "005"}}) == "027"
        for name, mode in (("open", 0o755), ("group", 0o750), ("private", 0o700)):
            (tmp_path / name).mkdir()
            (tmp_path / name).chmod(mode)
        assert umask_of_folders([tmp_path / "open", tmp_path / "group"]) == "027"
        assert umask_of_folders(tmp_path.iterdir()) == "077"
    finally:
        os.umask(before)
