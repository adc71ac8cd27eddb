"""What is made of audits is as private as their folders."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from attribeam.report.privacy import as_private_as


@pytest.mark.parametrize(
    ("folders", "modes"),
    [
        ([], (0o644, 0o755)),
        (["open"], (0o644, 0o755)),
        (["open", "group"], (0o640, 0o750)),
        (["open", "group", "private"], (0o600, 0o700)),
        (["private", "s3://bucket/audit"], (0o600, 0o700)),
    ],
    ids=str,
)
def test_what_is_made_of_audits_is_as_private_as_the_most_private_of_them(
    folders: list[str], modes: tuple[int, int], tmp_path: Path
) -> None:
    for name, mode in (("open", 0o755), ("group", 0o750), ("private", 0o700)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    before = os.umask(0o022)
    try:
        with as_private_as([name if "://" in name else tmp_path / name for name in folders]):
            (tmp_path / "page").touch()
            (tmp_path / "pages").mkdir()
        (tmp_path / "later").touch()
    finally:
        os.umask(before)
    found = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("page", "pages", "later")]
    assert found == [*modes, 0o644]
