"""``attribeam history``: what a folder of audits tells, what moved out of its range, the table, and the page."""

import base64
import hashlib
import json
import os
import re
import shutil
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import sqrt
from statistics import mean, stdev

import pytest
from tests.report.made_audit import FIRST_NIGHT, Page, made_audit, made_history, made_night

from attribeam.pipeline.command_line import main
from attribeam.report.history_command import (
    DAMAGED,
    HEIGHT,
    MOST_DRAWN,
    Alert,
    AuditEntry,
    expected_ranges,
    find_alerts,
    read_entry,
    read_history,
)
from attribeam.report.overview import ShareGroup, SupportCounts
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import RunStatus

CALM = [60, 61, 59, 60, 62, 58]


def _page(root, output=None):
    output = output or root / "history.html"
    assert main(["history", str(root), "--output", str(output)]) == 0
    return Page(output.read_text(encoding="utf-8"))


def _table(root, capsys, *argv):
    assert main(["history", str(root), *argv]) == 0
    return capsys.readouterr().out


def test_the_table_has_a_line_an_audit_oldest_first_and_the_alerts(tmp_path, capsys):
    made_history(tmp_path, [*CALM, 120])
    made_night(tmp_path, 7, status=RunStatus.FAILED)
    lines = _table(tmp_path, capsys).splitlines()
    assert [line.split()[2] for line in lines[1:9]] == [f"2026-09-0{day}" for day in range(1, 9)]
    assert "12.0%" in lines[7]
    assert lines[8].split()[3] == "failed"
    assert lines[9:11] == ["", "alerts, the last 2 of 2"]
    assert "unsupported claims 12.00%, where" in lines[11]
    assert lines[12].endswith("2026-09-08: is not complete, its status is failed")


def test_the_page_is_as_private_as_the_most_private_of_its_audits(tmp_path):
    made_history(tmp_path, CALM)
    before = os.umask(0o022)
    try:
        _page(tmp_path)
        assert stat.S_IMODE((tmp_path / "history.html").stat().st_mode) == 0o644
        made_night(tmp_path, 8).chmod(0o700)
        _page(tmp_path)
        assert stat.S_IMODE((tmp_path / "history.html").stat().st_mode) == 0o600
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["run_manifest.json", "metrics.json"])
def test_the_page_takes_the_place_of_no_file_that_was_read(tmp_path, name):
    file = made_night(tmp_path, 0) / name
    before = file.read_bytes()
    assert main(["history", str(tmp_path), "--output", str(file)]) == 2
    assert file.read_bytes() == before


def test_claims_by_a_column_are_told(tmp_path, capsys):
    made_night(tmp_path, 0, groups={"team": [("harbour", 90, 10), (None, 1, 1)]})
    made_night(tmp_path, 1, groups={"team": [("harbour", 50, 50), ("pier", 2, 6)]})
    lines = _table(tmp_path, capsys, "--by", "team").splitlines()
    heads, *rows = lines[lines.index("unsupported claims by team") + 1 :][:3]
    assert heads.split() == ["date", "(UTC)", "audit", "harbour", "pier", "none"]
    assert [row.split()[3:] for row in rows] == [["10.0%", "50.0%"], ["50.0%", "75.0%"]]


@pytest.mark.parametrize(("last", "code"), [(60, 0), (20, 0), (120, 3)])
def test_an_alert_about_the_newest_audit_can_fail_the_command(tmp_path, last, code):
    made_history(tmp_path, [*CALM, last])
    assert main(["history", str(tmp_path), "--fail-on-alert"]) == code


def test_the_page_loads_nothing_and_runs_nothing(tmp_path):
    page = _page(made_history(tmp_path, CALM))
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    style = re.search(r"<style>(.*?)</style>", (tmp_path / "history.html").read_text(encoding="utf-8"), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    wanted = f"default-src 'none'; script-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
    assert policy["content"] == f"{wanted}form-action 'none'"
    assert not list(page.all("script"))
    assert not [name for name, attributes in page.tags if "style" in attributes or "src" in attributes]
    assert {attributes["href"] for attributes in page.all("link")} == {"data:,"}


def test_a_drawing_has_a_point_an_audit_within_its_frame_and_marks_what_moved(tmp_path):
    page = _page(made_history(tmp_path, [*CALM, 120]))
    dots = list(page.all("circle", **{"class": "dot "}))
    assert len([one for one in dots if one["class"] == "dot worse"]) == 1
    assert len(dots) == 7 * 4  # unsupported, weak, mean risk, dead letters
    for one in dots:
        assert 0 <= float((one["cx"] or "").removesuffix("%")) <= 100
        assert 0 <= float(one["cy"] or "") <= HEIGHT
    for one in page.all("rect", **{"class": "expected"}):
        assert 0 <= float(one["y"] or "") <= float(one["y"] or "") + float(one["height"] or "") <= HEIGHT + 1
    assert any("expected" in text and "12.00%" in text for text in page.texts)


def test_names_and_values_are_texts_and_never_markup_and_one_that_is_no_text_has_no_link(tmp_path):
    made_night(tmp_path, 0, name="<img src=x onerror=alert(1)>", groups={"<b>": [("<script>alert(2)", 9, 1)]})
    assert not [tag for tag, _ in _page(tmp_path).tags if tag in ("img", "script", "b")]
    made_night(tmp_path, 1, name="night-\udcff")
    page = _page(tmp_path)
    text = " ".join(page.texts)
    assert [one in text for one in ("<img src=x onerror=alert(1)>", "<script>alert(2)", "night-?")] == [True] * 3
    links = {one["href"] for one in page.all("a")}
    assert links == {"#history", "%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E/report.html"}


def test_the_page_tells_generators_damage_and_what_was_left_out(tmp_path):
    for night in range(3):
        made_night(tmp_path, night, errors={}, groups={"generator": [("gull-1", 900, 30), ("gull-2", 40, 30)]})
    (made_night(tmp_path, 3) / "run_manifest.json").write_text("{", encoding="utf-8")
    text = " ".join(" ".join(_page(tmp_path).texts).split())
    assert "Unsupported claims by generator" in text
    assert "gull-2" in text
    assert "is damaged: run_manifest.json" in text
    assert "3 audits have no standard errors" in text


def test_hundreds_of_audits_are_drawn_to_a_limit_and_listed_whole(tmp_path):
    count = MOST_DRAWN + 40
    page = _page(made_history(tmp_path, [60 + night % 3 for night in range(count)]))
    assert len(list(page.all("circle", **{"class": "dot "}))) == 4 * MOST_DRAWN
    assert len(list(page.all("tr"))) == count + 1
    assert any(f"the last {MOST_DRAWN} of {count}" in text for text in page.texts)
    weeks = {one["x"] for one in page.all("rect", **{"class": "fill-"})}
    assert 50 < len(weeks) <= 62


@pytest.mark.parametrize("output", ["-", "no/such/folder/history.html"])
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, output, capsys):
    assert main(["history", str(tmp_path / "none"), "--output", output]) == 2
    assert "--output should be a file" in capsys.readouterr().err


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
def test_an_audit_is_of_the_day_of_its_answers_or_its_paths_and_not_of_its_run(tmp_path, told, moment):
    assert read_entry(made_night(tmp_path, 0, **told)).moment == datetime(*moment, tzinfo=UTC)


def test_an_entry_has_the_figures_of_manifest_and_metrics(tmp_path):
    groups = {"generator": [("gull", 500, 40), (None, 440, 20)]}
    entry = read_entry(made_night(tmp_path, 0, unsupported=60, groups=groups, failed_gate=True))
    assert (entry.moment, entry.status) == (datetime(2026, 9, 1, tzinfo=UTC), "done")
    assert (entry.rows, entry.claims) == (200, 1000)
    shares = {"supported_share": 0.94, "weak_share": 0.0, "unsupported_share": 0.06}
    assert entry.metrics == {"dead_letter_share": 0.01, **shares, "mean_answer_risk": 0.25}
    assert entry.errors == {"unsupported_share": 0.002}
    assert entry.groups == {
        "generator": (ShareGroup("gull", SupportCounts(500, 0, 40)), ShareGroup(None, SupportCounts(440, 0, 20)))
    }
    assert entry.failed_gates == ("weak_share > 0.01: 0.05",)
    assert (entry.page, entry.note) == (True, "")


_IMPOSSIBLE = [-1, float("nan"), float("inf"), "x", [1], {"x": 1}]
_ODD = [None, 10**30, 1.5]
_PLACES = {
    "run_manifest.json": [("counts", "rows"), ("counts", "claims", "weak"), ("seconds",), ("options", "privacy")],
    "metrics.json": [("metrics", "mean_answer_risk"), ("standard_errors", "unsupported_share"), ("groups", "team")],
}


@pytest.mark.parametrize(("name", "place"), [(name, place) for name, places in _PLACES.items() for place in places])
def test_no_edited_figure_breaks_the_history(tmp_path, name, place):
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
        (entry,) = read_history(tmp_path)
        assert entry.status == DAMAGED or entry.note or value in _ODD
        assert json.loads(entry.to_json())["name"] == path.parent.name


_NO_MOMENTS = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-13-01", "now", ""]


@pytest.mark.parametrize(
    ("harm", "note"),
    [
        (None, "it has no run_manifest.json"),
        *((content, "it cannot be read") for content in (b"", b"{", b"[]", b'{"status": "done"}', b"\xff")),
        *(({"started_at": moment}, "it cannot be read") for moment in _NO_MOMENTS),
        ({"schema_version": "1.1"}, "is of schema version '1.1', but only files of version '1.2'"),
    ],
)
def test_a_damaged_manifest_makes_a_damaged_entry_and_harms_no_other(tmp_path, harm, note):
    made_history(tmp_path, [60, 60])
    broken = made_night(tmp_path, 2)
    manifest = broken / "run_manifest.json"
    content = json.dumps(json.loads(manifest.read_text()) | harm).encode() if isinstance(harm, dict) else harm
    manifest.write_bytes(content or b"")
    os.utime(manifest, (1e14, 1e14))
    os.utime(broken / "_attribeam", (1, 1))
    if content is None:
        manifest.unlink()
    entries = {one.name: one for one in read_history(tmp_path)}
    assert [one.status for name, one in entries.items() if name != broken.name] == ["done", "done"]
    assert entries[broken.name].status == DAMAGED
    assert entries[broken.name].note.startswith("run_manifest.json")
    assert note in entries[broken.name].note


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (None, "it has no metrics.json"), ("{", "metrics.json cannot be read"), ("[]", "metrics.json cannot be read"),
        ("{}", "metrics.json cannot be read"), ("of another run", "metrics.json is of another run"),
    ],
)  # fmt: skip
def test_without_good_metrics_the_figures_of_the_manifest_are_told(tmp_path, content, note):
    folder, other = made_night(tmp_path, 0), made_night(tmp_path, 1)
    (folder / "metrics.json").unlink()
    if content == "of another run":
        shutil.copy(other / "metrics.json", folder)
    elif content is not None:
        (folder / "metrics.json").write_text(content, encoding="utf-8")
    entry = read_entry(folder)
    assert (entry.note, entry.errors, entry.metrics["unsupported_share"]) == (note, {}, 0.06)


def test_links_hidden_folders_and_what_is_no_audit_are_passed_over(tmp_path):
    audit = made_night(tmp_path, 0)
    (tmp_path / "latest").symlink_to(audit, target_is_directory=True)
    made_night(tmp_path, 1, name=".hidden")
    (tmp_path / "notes").mkdir()
    (tmp_path / "history.html").touch()
    assert [one.name for one in read_history(tmp_path)] == [audit.name]


def test_an_audit_itself_a_file_and_an_empty_folder_are_refused(tmp_path):
    audit = made_night(tmp_path, 0)
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder, said in ((audit, "is one audit"), (tmp_path / "x", "there is no folder"), (empty, "holds none")):
        with pytest.raises(UsageError, match=said):
            read_history(folder)


def test_an_audit_made_by_the_program_is_read(tmp_path):
    made = made_audit(tmp_path / "night")
    (entry,) = read_history(made.root.parent)
    assert (entry.claims, entry.metrics["unsupported_share"]) == (6, 0.5)
    assert json.loads(entry.to_json())["note"] == "it has no metrics.json"


METRIC = "unsupported_share"


def nights(shares, *, error=0.002, configurations=()):
    told = {"errors": {} if error is None else {METRIC: error}}
    return [
        AuditEntry(f"night-{night}", FIRST_NIGHT + timedelta(days=night), "done", metrics={METRIC: share}, **told,
            configuration=configurations[night] if configurations else "")
        for night, share in enumerate(shares)
    ]  # fmt: skip


def _moved(entries):
    return [(one.entry.name, one.kind) for one in find_alerts(entries)]


def test_two_nights_are_compared_by_their_standard_errors():
    reach = 3 * sqrt(2) * 0.002
    found = expected_ranges(nights([0.05, 0.05]), METRIC)[1]
    assert (found.low, found.high) == (pytest.approx(0.05 - reach), pytest.approx(0.05 + reach))
    assert _moved(nights([0.05, 0.05 + reach * 0.99])) == []
    assert _moved(nights([0.05, 0.05 + reach * 1.01])) == [("night-1", "worse")]
    assert _moved(nights([0.05, 0.05 - reach * 1.01])) == [("night-1", "better")]


def test_nights_that_differ_by_more_than_chance_widen_the_range():
    shares = [0.03, 0.07, 0.05, 0.04, 0.06]
    before = nights(shares, error=0.0001)
    found = expected_ranges([*before[:1], *nights(shares, error=None)[1:], *nights([0.05] * 6)[5:]], METRIC)[-1]
    reach = 6.62 * stdev(shares) * sqrt(1 + 1 / 5)
    assert (found.low, found.high) == (0.0, pytest.approx(mean(shares) + reach))


def test_without_errors_nobody_can_tell_before_five_nights():
    ranges = expected_ranges(nights([0.05] * 7, error=None), METRIC)
    assert [one is not None for one in ranges] == [False] * 5 + [True] * 2


def test_one_night_outside_does_not_make_the_next_ones_look_normal_and_two_are_a_new_level():
    calm = [0.050, 0.051, 0.049, 0.050, 0.052, 0.048, 0.050]
    assert _moved(nights([*calm, 0.2, 0.05, 0.2])) == [("night-7", "worse"), ("night-9", "worse")]
    shares = [0.05] * 7 + [0.2] * 5 + [0.05]
    assert _moved(nights(shares)) == [("night-7", "worse"), ("night-8", "worse"), ("night-12", "better")]


def test_another_configuration_is_compared_with_a_remark_and_then_with_its_like():
    entries = nights([0.05, 0.05, 0.2, 0.2], configurations=["a", "a", "b", "b"])
    alerts = find_alerts(entries)
    assert [one.entry.name for one in alerts] == ["night-2", "night-3"]
    assert "which had other options, models or versions" in alerts[0].text
    mixed = nights([0.05, 0.2, 0.05, 0.2], configurations=["a", "b", "a", "b"])
    assert [one.entry.name for one in find_alerts(mixed)] == ["night-1", "night-3"]


def test_what_failed_is_told_and_serves_nobody_as_reference():
    first, failed, last = nights([0.05, 0.9, 0.05])
    damaged = AuditEntry("damaged", failed.moment, DAMAGED, "run_manifest.json: it cannot be read")
    found = find_alerts([first, replace(failed, status="failed"), damaged, last])
    assert [(one.entry.name, one.kind, one.text) for one in found] == [
        ("night-1", "broken", "is not complete, its status is failed"),
        ("damaged", "broken", "is damaged: run_manifest.json: it cannot be read"),
    ]


def test_failed_gates_and_broken_metrics_are_told():
    entry = AuditEntry("night", FIRST_NIGHT, "done", "it has no metrics.json", failed_gates=("rows < 1: 0",))
    assert find_alerts([entry]) == [
        Alert(entry, "broken", "it has no metrics.json"),
        Alert(entry, "gate", "failed the gate rows < 1: 0"),
    ]
