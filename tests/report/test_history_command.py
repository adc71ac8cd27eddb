"""``attribeam history``: the table, and a page that stands for itself."""

import base64
import hashlib
import os
import re
import stat

import pytest
from tests.report.made_audit import Page, made_history, made_night

from attribeam.pipeline.command_line import main
from attribeam.report.history_command import HEIGHT, MOST_DRAWN
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
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy["content"] == (
        f"default-src 'none'; script-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
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


def test_names_and_values_are_texts_and_never_markup(tmp_path):
    made_night(tmp_path, 0, name="<img src=x onerror=alert(1)>", groups={"<b>": [("<script>alert(2)", 9, 1)]})
    page = _page(tmp_path)
    assert not [tag for tag, _ in page.tags if tag in ("img", "script", "b")]
    text = " ".join(page.texts)
    assert "<img src=x onerror=alert(1)>" in text
    assert "<script>alert(2)" in text


def test_a_folder_name_that_is_no_text_is_shown_without_a_link(tmp_path):
    made_night(tmp_path, 0, name="night-\udcff")
    page = _page(tmp_path)
    assert not [one for one in page.all("a") if "report.html" in str(one["href"])]
    assert "night-?" in page.texts


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
