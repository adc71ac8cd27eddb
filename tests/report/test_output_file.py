"""A report's file appears whole or not at all."""

import os
import stat

import pytest

from attribeam.report.messages import as_private_as, check_output, write_lines
from attribeam.schemas.errors import RunError, UsageError


def _failing():
    yield "first"
    raise RunError("the audit is not readable")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    output = tmp_path / "rows.csv"
    write_lines(str(output), ["a\r\n", "é\r\n"])
    assert output.read_bytes() == "a\r\né\r\n".encode()
    with pytest.raises(RunError):
        write_lines(str(output), _failing())
    assert output.read_bytes() == "a\r\né\r\n".encode()
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "link to a device", "folder", "pipe"])
def test_only_a_file_or_nothing_is_replaced(tmp_path, kind):
    output, outside = tmp_path / "page.html", tmp_path / "outside"
    if kind == "folder":
        output.mkdir()
    elif kind == "pipe":
        os.mkfifo(output)
    else:
        output.symlink_to("/dev/null" if kind.endswith("device") else outside)
    if kind == "link to a file":
        outside.write_text("years of work")
    with pytest.raises(UsageError, match="no link"):
        check_output(str(output))


def test_a_link_is_never_followed_wherever_it_lies(tmp_path):
    """Also one that appears after the check, and at the names that unfinished files once had."""
    output, outside = tmp_path / "page.html", tmp_path / "outside"
    outside.write_text("years of work")
    for name in ("page.html", ".page.html.partial", "page.html.new", "page.html.partial"):
        (tmp_path / name).symlink_to(outside)
    write_lines(str(output), ["row"])
    assert (output.read_text(), output.is_symlink(), outside.read_text()) == ("row", False, "years of work")


@pytest.mark.parametrize("output", ["x" * 300, "missing/page.html", "file/page.html"])
def test_an_output_that_no_file_can_have_is_refused(tmp_path, output):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--output"):
        check_output(str(tmp_path / output))


def test_lines_are_written_as_they_come_and_not_gathered(tmp_path):
    alive = 0

    class Counted(str):
        """A part that knows how many of its kind there are."""

        def __new__(cls, text):
            nonlocal alive
            alive += 1
            return super().__new__(cls, text)

        def __del__(self):
            nonlocal alive
            alive -= 1

    def parts():
        for _ in range(1000):
            yield Counted("row\n" * 1000)
            assert alive < 10

    write_lines(str(tmp_path / "rows"), parts())
    assert (tmp_path / "rows").read_text().count("row\n") == 1_000_000


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
def test_what_is_made_of_audits_is_as_private_as_the_most_private_of_them(folders, modes, tmp_path):
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
