"""What a command says, to people and to machines."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path

import pytest

from attribeam.pipeline import progress
from attribeam.pipeline.command_line import main
from attribeam.pipeline.messages import ConsoleKind, Messages, console_kind, event_line
from attribeam.pipeline.progress import choose_progress


def _events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_event_is_one_line_with_its_name_and_time() -> None:
    line = event_line("note", message="a\nb\u2028 \ud800 ü")
    assert line.isascii()
    assert "\n" not in line
    event = json.loads(line)
    assert (event["event"], event["message"]) == ("note", "a\nb\u2028 \ud800 ü")
    assert datetime.fromisoformat(event["at"]).tzinfo is not None


def test_people_read_who_speaks_and_machines_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    Messages("attribeam audit").say("the gate failed", event="gate_failed", gate="rows < 1")
    assert capsys.readouterr().err == "attribeam audit: the gate failed\n"
    Messages("attribeam audit", ConsoleKind.JSON).say("the gate failed", event="gate_failed", gate="rows < 1")
    (event,) = _events(capsys.readouterr().err)
    assert (event["event"], event["message"], event["gate"]) == ("gate_failed", "the gate failed", "rows < 1")


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        ("--console json", "json"),
        ("--console=json", "json"),
        ("--console", "text"),
        ("--console yaml", "text"),
        ("--input json", "text"),
    ],
)
def test_what_is_asked_for_is_known_before_the_arguments_are_parsed(argv: str, kind: str) -> None:
    assert console_kind(argv.split()) == kind


def test_progress_for_machines_tells_start_speed_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 4.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    shown = choose_progress(quiet=False, console=ConsoleKind.JSON, stream=stream)
    shown.start(total=500, finished=100)
    shown.advance(50)
    shown.advance(150)
    shown.note("a worker has died")
    shown.close()
    start, advanced, note = _events(stream.getvalue())
    assert (start["event"], start["rows"], start["finished"]) == ("start", 500, 100)
    assert (advanced["event"], advanced["rows"], advanced["finished"]) == ("progress", 500, 300)
    assert (advanced["rows_per_second"], advanced["seconds_left"]) == (10.0, 20.0)
    assert (note["event"], note["message"]) == ("note", "a worker has died")


def test_quiet_progress_for_machines_has_notes_only() -> None:
    stream = io.StringIO()
    shown = choose_progress(quiet=True, console=ConsoleKind.JSON, stream=stream)
    shown.start(total=5, finished=0)
    shown.note("a worker has died")
    assert [event["event"] for event in _events(stream.getvalue())] == ["note"]


def test_errors_for_machines_are_events_with_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["audit", "--input", f"{tmp_path}/none.parquet", "--output", str(tmp_path / "out"), "--console", "json"]
    assert main(argv) == 2
    (event,) = _events(capsys.readouterr().err)
    assert (event["event"], event["exit_code"]) == ("error", 2)
    assert "nothing matches" in str(event["message"])


def test_wrong_arguments_for_machines_are_events_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--console=json", "--workers", "none"])
    assert ended.value.code == 2
    (event,) = _events(capsys.readouterr().err)
    assert (event["event"], event["exit_code"]) == ("error", 2)
    assert "--workers" in str(event["message"])
