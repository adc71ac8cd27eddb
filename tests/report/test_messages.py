"""What a command says and writes: whole files or none, and no name can say something in its place."""

import ast
import io
import json
import logging
import os
import stat
import tracemalloc
import warnings
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.made_audit import made_audit, made_night

from attribeam.pipeline import console
from attribeam.pipeline.command_line import main
from attribeam.pipeline.console import choose_progress
from attribeam.report import messages
from attribeam.report.messages import (
    ConsoleKind,
    Messages,
    as_private_as,
    check_output,
    console_kind,
    event_line,
    print_library_messages,
    write_lines,
)
from attribeam.schemas.errors import RunError, UsageError


def _events(text):
    return [json.loads(line) for line in text.splitlines()]


def test_an_event_is_one_line_with_its_name_and_time():
    line = event_line("note", message="a\nb\u2028 \ud800 ü")
    assert line.isascii()
    assert "\n" not in line
    event = json.loads(line)
    assert (event["event"], event["message"]) == ("note", "a\nb\u2028 \ud800 ü")
    assert datetime.fromisoformat(event["at"]).tzinfo is not None


def test_people_read_who_speaks_and_machines_what_happened(capsys):
    Messages("attribeam audit").say("the gate failed", event="gate_failed", gate="rows < 1")
    assert capsys.readouterr().err == "attribeam audit: the gate failed\n"
    Messages("attribeam audit", ConsoleKind.JSON).say("the gate failed", event="gate_failed", gate="rows < 1")
    (event,) = _events(capsys.readouterr().err)
    assert (event["event"], event["message"], event["gate"]) == ("gate_failed", "the gate failed", "rows < 1")


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        ("--console json", "json"), ("--console=json", "json"), ("--console", "text"), ("--console yaml", "text"),
        ("--input json", "text"),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_known_before_the_arguments_are_parsed(argv, kind):
    assert console_kind(argv.split()) == kind


def test_progress_for_machines_tells_start_speed_and_notes(monkeypatch):
    clock = iter([0.0, 0.0, 4.0, 20.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
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


def test_errors_for_machines_are_events_with_the_exit_code(tmp_path, capsys):
    argv = ["audit", "--input", f"{tmp_path}/none.parquet", "--output", str(tmp_path / "out"), "--console", "json"]
    assert main(argv) == 2
    with pytest.raises(SystemExit) as ended:  # wrong arguments, too
        main(["audit", "--console=json", "--workers", "none"])
    assert ended.value.code == 2
    events = _events(capsys.readouterr().err)
    assert [(one["event"], one["exit_code"]) for one in events] == [("error", 2)] * 2
    assert [
        said in str(one["message"]) for said, one in zip(("nothing matches", "--workers"), events, strict=True)
    ] == [True] * 2


ROOT = Path(__file__).parents[2]
PRINTER = "report/messages.py"
OTHERS = ("attribution/models/precision.py",)
"""It speaks to the process that started it."""


def _printing(path):
    """The lines that write to a standard stream, or let a library do it, themselves."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        alone = ("print", "input", "pprint", "logging.basicConfig", "traceback.print_exc", "argparse.ArgumentParser")
        if text in alone[:-1] or text.startswith(("sys.stdout.write", "sys.stdout.buffer.", "sys.stderr.write")):
            yield node.lineno
        if text == alone[-1] and any(one.arg == "prog" for one in getattr(node, "keywords", ())):
            yield node.lineno


def test_one_module_alone_prints():
    rooms = ("schemas", "logs", "attribution", "transforms", "report", "pipeline", "evaluation", "lab")
    paths = {path.relative_to(ROOT).as_posix(): path for room in rooms for path in (ROOT / room).rglob("*.py")}
    found = {name: list(_printing(path)) for name, path in paths.items() if not name.startswith("lab/benchmarks/")}
    assert found.pop(PRINTER)
    assert all(found.pop(name) for name in OTHERS)
    assert {name: lines for name, lines in found.items() if lines} == {}


EVIL = "x\x1b[2J\nattribeam audit: all rows fine\n\u202ey\x9b31m\x7f\u2028\x85z\r"
IN_TOML = json.dumps(EVIL).replace("\x7f", "\\u007f")


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A folder of files that have ``EVIL`` wherever a name or a text may stand."""
    folder = tmp_path_factory.mktemp("evil")
    made_audit(folder / EVIL, record_ids=(EVIL, "b"), change=lambda one: replace(one, generator=EVIL, question=EVIL))
    made_night(folder / "nights", 0, name=EVIL, groups={EVIL: [(EVIL, 5, 4)]}, failed_gate=True)
    pq.write_table(pa.table({EVIL: ["a"], "record_id": ["1"]}), folder / "log.parquet")
    (folder / f"{EVIL}.parquet").write_bytes(b"no log")
    (folder / "rows.jsonl").write_text(json.dumps({EVIL: EVIL, "record_id": EVIL}), encoding="utf-8")
    (folder / "marks.jsonl").write_text(json.dumps({"record_id": EVIL, "label": EVIL}), encoding="utf-8")
    (folder / "key.toml").write_text(f"{IN_TOML} = {IN_TOML}\nworkers = {IN_TOML}", encoding="utf-8")
    (folder / "value.toml").write_text(f"output = {IN_TOML}", encoding="utf-8")
    (folder / f"model{EVIL}").mkdir()
    (folder / f"model{EVIL}" / "config.json").write_text(json.dumps({"model_type": EVIL}), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("audit --input log.parquet --output o", "the file has: x␛[2J attribeam audit: all"),
        ("audit --input EVIL.parquet --output o", "does not begin like one"),
        ("audit --input rows.jsonl --log-format jsonl --output o", "are needed, there are none"),
        ("audit --config key.toml", "there is no such option"),
        ("audit --input log.parquet --output o --EVIL", "unknown arguments: --x␛[2J attribeam"),
        ("audit --input log.parquet --output o --console json --fail-if EVIL", "should be NAME OP NUMBER"),
        ("import ragas --data rows.jsonl --output o.parquet", "have none: 1 missing_value"),
        ("import ragas --data rows.jsonl --guess", "x␛[2J attribeam audit"),
        ("import langfuse --data EVIL.parquet --output o.parquet", ""),
        ("report --audit EVIL/audit --format md --output -", "x␛"),
        ("report --audit EVIL --format md --output -", "expected the output directory of an audit"),
        ("show b --audit EVIL/audit", "x␛[2J"),
        ("show EVILL --audit EVIL/audit", "the nearest are: x␛[2J attribeam"),
        ("export --audit EVIL/audit --format argilla --output EVIL/no/file", "should be a file in an existing"),
        ("history nights", "x␛[2J attribeam audit"),
        ("history nights --by EVIL", "unsupported claims by x␛[2J attribeam"),
        ("history nights --by none", "--by should be one of x␛[2J attribeam"),
        ("calibrate --audit EVIL/audit --marks marks.jsonl --output o", "label should be 'supported'"),
        ("calibrate --audit EVIL/audit --marks EVIL --output o", "marks file x␛[2J attribeam"),
        ("evaluate --dataset log --data log.parquet", "the file has: x␛[2J attribeam"),
        ("evaluate --dataset quotesum --data EVIL.parquet", "x␛[2J attribeam audit: all rows fine"),
        ("evaluate --dataset lfqa --data rows.jsonl", "field 'query' should be a string"),
        ("models check --model modelEVIL", "this model cannot serve"),
        ("config check key.toml", "attribeam config: key.toml"),
        ("config print value.toml", 'output = "x\\U0000001b[2J'),
        ("EVIL", "there is no command"),
    ],
)
def test_no_name_or_text_of_a_file_steers_the_terminal_or_forges_a_line(line, said, evil, monkeypatch, capfd):
    monkeypatch.chdir(evil)
    with suppress(SystemExit):
        main([word.replace("EVIL", EVIL) for word in line.split()])
    printed = "".join(capfd.readouterr())
    assert said in printed
    assert [char for char in printed if not char.isprintable() and char != "\n"] == []
    assert [text for text in printed.split("\n") if text.startswith("attribeam audit: all rows fine")] == []
    assert "Traceback" not in printed


def test_data_for_a_terminal_is_harmless_and_data_for_a_pipe_is_as_it_is(monkeypatch):
    for is_terminal, written in ((True, "a␛[2J\n"), (False, "a\x1b[2J\n")):
        output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(output, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr(messages.sys, "stdout", output)
        messages.write_output(["a\x1b[2J\n"])
        assert output.buffer.getvalue().decode() == written


def test_messages_of_libraries_are_harmless(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(messages.sys, "stderr", stream)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    print_library_messages(logging.ERROR)
    logging.getLogger("library").error("cannot read %s", "a\x1b[2J\u202e")
    assert stream.getvalue() == "ERROR:library:cannot read a␛[2J\ufffd\n"
    assert "\x1b" not in warnings.formatwarning("a\x1b[2J", UserWarning, "x.py", 1)


def test_messages_that_nobody_would_read_to_their_end_are_short(capsys):
    Messages("attribeam x").say("a" * 3000 + "b" * 3000, *["more"] * 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"attribeam x: {'a' * 2000} [2,000 characters left out] {'b' * 2000}"
    assert lines[-1] == "attribeam x: and 951 more"
    assert len(lines) == 51


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
    tracemalloc.start()
    write_lines(str(tmp_path / "rows"), ("row\n" * 1000 for _ in range(1000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert (tmp_path / "rows").read_text() == "row\n" * 1_000_000


@pytest.mark.parametrize(
    ("folders", "modes"),
    [
        ([], (0o644, 0o755)), (["open"], (0o644, 0o755)), (["open", "group"], (0o640, 0o750)),
        (["open", "group", "private"], (0o600, 0o700)), (["private", "s3://bucket/audit"], (0o600, 0o700)),
    ],
    ids=str,
)  # fmt: skip
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
