"""``attribeam prune``: old audits go, and nothing else."""

from __future__ import annotations

import fcntl
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from tests.report.made_history import FIRST_NIGHT, made_history, made_night

from attribeam.pipeline.command_line import main
from attribeam.pipeline.outcome import retention
from attribeam.pipeline.outcome.retention import AgedAudit, Retention, aged_audits, remove_audit
from attribeam.report.audit_history import REMOVED_AUDITS, read_entry, read_history
from attribeam.schemas.run_manifest import RunStatus

NOW = FIRST_NIGHT + timedelta(days=9, hours=1)


def _nights(root: Path) -> set[int]:
    return {int(path.name[-2:]) for path in root.iterdir() if path.is_dir()}


def _aged(root: Path, **keep: int) -> list[int]:
    return [int(one.folder.name[-2:]) for one in aged_audits(root, Retention(**keep), NOW)[0]]


def _prune(root: Path, *argv: str) -> int:
    return main(["prune", str(root), *argv])


def test_nothing_is_removed_unless_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_history(tmp_path, [60] * 5)
    before = sorted(tmp_path.rglob("*"))
    assert _prune(tmp_path, "--keep", "2") == 0
    assert sorted(tmp_path.rglob("*")) == before
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[4] for line in lines[:-1]] == ["2026-09-01", "2026-09-02", "2026-09-03"]
    assert lines[-1] == "3 of 5 audits would be removed; --delete does it"


def test_the_newest_audits_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_history(tmp_path, [60] * 5)
    assert _prune(tmp_path, "--keep", "2", "--delete") == 0
    assert _nights(tmp_path) == {4, 5}
    assert capsys.readouterr().out.endswith("3 of 5 audits were removed\n")
    assert _prune(tmp_path, "--keep", "2", "--delete") == 0


@pytest.mark.parametrize(
    ("keep", "aged"),
    [
        ({"audits": 3}, [1, 2, 3, 4, 5, 6, 7]),
        ({"audits": 10}, []),
        ({"audits": 11}, []),
        ({"days": 4}, [1, 2, 3, 4, 5, 6]),
        ({"days": 400}, []),
        ({"audits": 3, "days": 4}, [1, 2, 3, 4, 5, 6]),
        ({"audits": 5, "days": 1}, [1, 2, 3, 4, 5]),
    ],
)
def test_an_audit_stays_if_its_number_or_its_age_keeps_it(
    tmp_path: Path, keep: dict[str, int], aged: list[int]
) -> None:
    assert _aged(made_history(tmp_path, [60] * 10), **keep) == aged


def test_failed_audits_do_not_push_finished_ones_out(tmp_path: Path) -> None:
    for night in range(10):
        made_night(tmp_path, night, status=RunStatus.DONE if night in (0, 2, 4) else RunStatus.FAILED)
    assert _aged(tmp_path, audits=2) == [1, 2]
    assert _aged(tmp_path, days=1) == [1, 2, 3, 4]
    assert _aged(tmp_path, audits=4) == []


def test_where_nothing_ever_finished_nothing_is_removed(tmp_path: Path) -> None:
    for night in range(3):
        made_night(tmp_path, night, status=RunStatus.FAILED)
    assert _aged(tmp_path, days=1) == []


def test_a_damaged_audit_goes_by_the_time_of_its_files(tmp_path: Path) -> None:
    made_history(tmp_path, [60] * 3)
    for name, at in (("old", FIRST_NIGHT - timedelta(days=9)), ("new", NOW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "_attribeam").touch()
        os.utime(tmp_path / name / "_attribeam", (at.timestamp(),) * 2)
    assert [one.folder.name for one in aged_audits(tmp_path, Retention(audits=1), NOW)[0]] == [
        "old",
        "2026-09-01",
        "2026-09-02",
    ]


def test_a_running_audit_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_history(tmp_path, [60] * 3)
    with (tmp_path / "2026-09-01" / "_attribeam").open("r+") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        assert _prune(tmp_path, "--keep", "1", "--delete") == 0
    assert _nights(tmp_path) == {1, 3}
    assert "keep          2026-09-01 02:00  2026-09-01  (done, 0.0 MB): it is running" in capsys.readouterr().out
    assert _prune(tmp_path, "--keep", "1", "--delete") == 0
    assert _nights(tmp_path) == {3}


def test_an_audit_without_a_lock_that_may_be_running_stays(tmp_path: Path) -> None:
    (made_night(tmp_path, 0, status=RunStatus.RUNNING) / "_attribeam").unlink()
    made_night(tmp_path, 1)
    made_night(tmp_path, 2)
    assert _prune(tmp_path, "--keep", "1", "--delete") == 0
    assert _nights(tmp_path) == {1, 3}


@pytest.mark.parametrize("foreign", ["notes.txt", ".DS_Store", "evidence/notes.txt", "evidence/deep/a.txt", "mine/a"])
def test_an_audit_that_holds_something_else_stays_whole(
    tmp_path: Path, foreign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made_history(tmp_path, [60] * 3)
    file = tmp_path / "2026-09-01" / foreign
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    before = sorted((tmp_path / "2026-09-01").rglob("*"))
    assert _prune(tmp_path, "--keep", "1", "--delete") == 0
    assert _nights(tmp_path) == {1, 3}
    assert sorted((tmp_path / "2026-09-01").rglob("*")) == before
    assert "which no audit wrote; move that away" in capsys.readouterr().out


def test_links_are_neither_followed_nor_removed(tmp_path: Path) -> None:
    root, outside = tmp_path / "audits", tmp_path / "outside"
    made_history(root, [60] * 4)
    made_night(outside, 0, name="precious")
    (root / "linked").symlink_to(outside / "precious", target_is_directory=True)
    shutil.rmtree(root / "2026-09-01" / "evidence")
    (root / "2026-09-01" / "evidence").symlink_to(outside, target_is_directory=True)
    (root / "2026-09-02" / "evidence" / "a.parquet").symlink_to(outside / "precious" / "report.html")
    assert _prune(root, "--keep", "1", "--delete") == 0
    assert (outside / "precious" / "report.html").read_text() == "page"
    assert {path.name for path in root.iterdir()} == {
        "2026-09-01", "2026-09-02", "2026-09-04", "linked", REMOVED_AUDITS,
    }  # fmt: skip


def test_folders_that_are_no_audits_are_left_alone(tmp_path: Path) -> None:
    made_history(tmp_path, [60] * 2)
    (tmp_path / "2020-01-01").mkdir()
    (tmp_path / "2020-01-01" / "evidence.parquet").touch()
    assert _prune(tmp_path, "--keep", "1", "--delete") == 0
    assert (tmp_path / "2020-01-01" / "evidence.parquet").is_file()
    assert not (tmp_path / "2026-09-01").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [([], "--keep N or --keep-days N is needed"), (["--keep", "1"], "is one audit")],
)
def test_without_a_rule_or_in_an_audit_itself_nothing_is_removed(
    tmp_path: Path, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made_night(tmp_path, 0)
    assert _prune(folder, *argv, "--delete") == 2
    assert said in capsys.readouterr().err
    assert folder.is_dir()


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5"])
def test_keeping_nothing_cannot_be_asked_for(tmp_path: Path, number: str) -> None:
    with pytest.raises(SystemExit) as ended:
        _prune(tmp_path, "--keep", number, "--delete")
    assert ended.value.code == 2


def test_the_history_keeps_what_was_removed(tmp_path: Path) -> None:
    made_history(tmp_path, [60, 70, 80])
    before = read_history(tmp_path)
    assert _prune(tmp_path, "--keep", "1", "--delete") == 0
    after = read_history(tmp_path)
    assert [one.metrics for one in after] == [one.metrics for one in before]
    assert [(one.removed, one.page) for one in after] == [(True, False), (True, False), (False, True)]


def test_a_removal_that_was_killed_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_history(tmp_path, [60] * 3)

    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(retention.shutil, "rmtree", killed)
        assert _prune(tmp_path, "--keep", "1", "--delete") == 130
    assert [one.name for one in read_history(tmp_path)] == ["2026-09-01", "2026-09-02", "2026-09-03"]
    assert len([path for path in tmp_path.iterdir() if path.name.startswith(".removed-")]) == 1
    assert _prune(tmp_path, "--keep", "1", "--delete") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"2026-09-03", REMOVED_AUDITS}
    assert [one.name for one in read_history(tmp_path)] == ["2026-09-01", "2026-09-02", "2026-09-03"]


def test_an_audit_that_cannot_be_removed_is_told_and_the_others_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made_history(tmp_path, [60] * 3)
    rename = Path.rename

    def refused(path: Path, target: Path) -> Path:
        if path.name == "2026-09-01":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(OSError, match="Permission denied"):
        remove_audit(tmp_path, AgedAudit(tmp_path / "2026-09-01", read_entry(tmp_path / "2026-09-01")))
    assert _prune(tmp_path, "--keep", "1", "--delete") == 1
    assert _nights(tmp_path) == {1, 3}
    assert "1 audits could not be removed" in capsys.readouterr().err
