"""What a folder of audits tells: each audit once, in the order of time, damaged ones too."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.report.made_audit import made_audit
from tests.report.made_history import made_history, made_night

from attribeam.report.audit_history import DAMAGED, read_entry, read_history
from attribeam.report.support_distribution import ShareGroup, SupportCounts
from attribeam.schemas.errors import UsageError


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        ({"answered_at": "2026-08-03T14:00:00+00:00", "path": "logs/date=2026-08-05/a.parquet"}, (2026, 8, 3, 14)),
        ({"path": "logs/date=2026-08-05/part-0.parquet"}, (2026, 8, 5)),
        ({"path": "s3://logs/year=2026/month=08/day=06/a.parquet", "name": "night-20260801"}, (2026, 8, 6)),
        ({"path": "log.parquet", "name": "night-20260801"}, (2026, 8, 1)),
        ({"path": "2026/13/45/120260801.parquet", "name": "a"}, (2026, 9, 1, 2)),
    ],
)
def test_an_audit_is_of_the_day_of_its_answers_or_its_paths_and_not_of_its_run(
    tmp_path: Path, told: dict[str, str], moment: tuple[int, ...]
) -> None:
    assert read_entry(made_night(tmp_path, 0, **told)).moment == datetime(*moment, tzinfo=UTC)


def test_an_entry_has_the_figures_of_manifest_and_metrics(tmp_path: Path) -> None:
    groups = {"generator": [("gull", 500, 40), (None, 440, 20)]}
    entry = read_entry(made_night(tmp_path, 0, unsupported=60, groups=groups, failed_gate=True))
    assert (entry.moment, entry.status, entry.rows, entry.claims) == (
        datetime(2026, 9, 1, tzinfo=UTC),
        "done",
        200,
        1000,
    )
    assert entry.metrics == {
        "dead_letter_share": 0.01,
        "supported_share": 0.94,
        "weak_share": 0.0,
        "unsupported_share": 0.06,
        "mean_answer_risk": 0.25,
    }
    assert entry.errors == {"unsupported_share": 0.002}
    assert entry.groups == {
        "generator": (ShareGroup("gull", SupportCounts(500, 0, 40)), ShareGroup(None, SupportCounts(440, 0, 20)))
    }
    assert entry.failed_gates == ("weak_share > 0.01: 0.05",)
    assert (entry.page, entry.note) == (True, "")


_HOSTILE_MOMENTS = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-13-01", "now", ""]


@pytest.mark.parametrize("moment", _HOSTILE_MOMENTS)
def test_a_manifest_of_no_possible_time_makes_a_damaged_entry(tmp_path: Path, moment: str) -> None:
    path = made_night(tmp_path, 0) / "run_manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"started_at": moment}))
    os.utime(path, (1e14, 1e14))
    (entry,) = read_history(tmp_path)
    assert (entry.status, entry.note) == (DAMAGED, "run_manifest.json: it cannot be read")


def test_an_audit_of_another_schema_version_makes_a_damaged_entry_that_names_it(tmp_path: Path) -> None:
    path = made_night(tmp_path, 0) / "run_manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": "1.1"}))
    (entry,) = read_history(tmp_path)
    assert entry.status == DAMAGED
    assert entry.note.startswith("run_manifest.json is of schema version '1.1', but only files of version '1.2'")


_IMPOSSIBLE = [-1, float("nan"), float("inf"), "x", [1], {"x": 1}]
_ODD = [None, 10**30, 1.5]
_PLACES = {
    "run_manifest.json": [("counts", "rows"), ("counts", "claims", "weak"), ("seconds",), ("options", "privacy")],
    "metrics.json": [("metrics", "mean_answer_risk"), ("standard_errors", "unsupported_share"), ("groups", "team")],
}


@pytest.mark.parametrize(("name", "place"), [(name, place) for name, places in _PLACES.items() for place in places])
def test_no_edited_figure_breaks_the_history(tmp_path: Path, name: str, place: tuple[str, ...]) -> None:
    groups = {"team": [("gull", 500, 40)]}
    path = made_night(tmp_path, 0, groups=groups) / name
    made_history(tmp_path / "others", [60])
    text = path.read_text()
    for value in (*_IMPOSSIBLE, *_ODD):
        fields = json.loads(text)
        inner = fields
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        path.write_text(json.dumps(fields))
        (entry,) = (one for one in read_history(tmp_path))
        assert entry.status == DAMAGED or entry.note or value in _ODD
        assert json.loads(entry.to_json())["name"] == path.parent.name


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"status": "done"}', b"\xff"])
def test_a_damaged_manifest_makes_a_damaged_entry_and_harms_no_other(
    tmp_path: Path, content: str | bytes | None
) -> None:
    made_history(tmp_path, [60, 60])
    broken = made_night(tmp_path, 2)
    manifest = broken / "run_manifest.json"
    if content is None:
        manifest.unlink()
    else:
        manifest.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(broken / "_attribeam", (1, 1))
    entries = {one.name: one for one in read_history(tmp_path)}
    assert [one.status for name, one in entries.items() if name != broken.name] == ["done", "done"]
    assert entries[broken.name].status == DAMAGED
    assert entries[broken.name].note.startswith("run_manifest.json: it ")


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (None, "it has no metrics.json"),
        ("{", "metrics.json cannot be read"),
        ("[]", "metrics.json cannot be read"),
        ("{}", "metrics.json cannot be read"),
        ("of another run", "metrics.json is of another run"),
    ],
)
def test_without_good_metrics_the_figures_of_the_manifest_are_told(
    tmp_path: Path, content: str | None, note: str
) -> None:
    folder, other = made_night(tmp_path, 0), made_night(tmp_path, 1)
    (folder / "metrics.json").unlink()
    if content == "of another run":
        shutil.copy(other / "metrics.json", folder)
    elif content is not None:
        (folder / "metrics.json").write_text(content, encoding="utf-8")
    entry = read_entry(folder)
    assert (entry.note, entry.errors, entry.metrics["unsupported_share"]) == (note, {}, 0.06)


def test_links_hidden_folders_and_what_is_no_audit_are_passed_over(tmp_path: Path) -> None:
    audit = made_night(tmp_path, 0)
    (tmp_path / "latest").symlink_to(audit, target_is_directory=True)
    made_night(tmp_path, 1, name=".hidden")
    (tmp_path / "notes").mkdir()
    (tmp_path / "history.html").touch()
    assert [one.name for one in read_history(tmp_path)] == [audit.name]


def test_an_audit_itself_a_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    audit = made_night(tmp_path, 0)
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder, said in ((audit, "is one audit"), (tmp_path / "x", "there is no folder"), (empty, "holds none")):
        with pytest.raises(UsageError, match=said):
            read_history(folder)


def test_an_audit_made_by_the_program_is_read(tmp_path: Path) -> None:
    made = made_audit(tmp_path / "night")
    (entry,) = read_history(made.root.parent)
    assert (entry.claims, entry.metrics["unsupported_share"]) == (6, 0.5)
    assert json.loads(entry.to_json())["note"] == "it has no metrics.json"
