"""``--redact`` and ``--no-texts``: secrets in every field of a log, and in no file that an audit writes."""

import os
import shutil
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.pipeline.audit_fixtures import run_locally
from tests.pipeline.audit_process import output_digests, read_all, read_manifest
from tests.pipeline.secret_log import (
    CARD,
    CASE,
    CASE_PATTERNS,
    EMAIL,
    EXTRA_COLUMNS,
    PHONE,
    TRACES,
    leaks,
    secret_rows,
    write_secret_log,
)
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.options import ModelOptions
from attribeam.logs.privacy import MASK, PrivacySettings
from attribeam.pipeline.command_line import main
from attribeam.pipeline.input_plan import check_input
from attribeam.pipeline.worker_process import stop_import_server
from attribeam.schemas.errors import LeakError
from attribeam.transforms import row_groups
from attribeam.transforms.audit_settings import AuditSettings

ROWS = 8
WORDS = ("Who is", "west pier", "The office", "Office of", "Write to")
REDACT = ("--redact", "--redact-patterns", str(CASE_PATTERNS))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_secret_log(tmp_path_factory.mktemp("log") / "log.parquet", secret_rows(ROWS))


@pytest.fixture(scope="module")
def audit(log, tmp_path_factory):
    """Audits the log with small models and more options; gives the directory."""
    root = tmp_path_factory.mktemp("models")
    models = ["--model", str(save_tiny_model(root / "model")), "--parser", str(save_tiny_parser(root / "parser"))]

    def run(output, *more):
        given = ["--input", str(log), "--output", str(output), *models, "--quiet", "--rows-per-chunk", "3"]
        given += ["--workers", "1", "--extra-columns", ",".join(EXTRA_COLUMNS), "--token-evidence"]
        assert main(["audit", *given, *more]) == 0
        return output

    return run


@pytest.fixture(scope="module")
def plain(audit, tmp_path_factory):
    return audit(tmp_path_factory.mktemp("plain") / "out")


@pytest.fixture(scope="module")
def redacted(audit, tmp_path_factory):
    return audit(tmp_path_factory.mktemp("redacted") / "out", *REDACT)


@pytest.fixture(scope="module")
def without_texts(audit, tmp_path_factory):
    return audit(tmp_path_factory.mktemp("none") / "out", "--no-texts")


def test_the_search_finds_secrets_where_nothing_is_masked(plain):
    assert {name.split("-")[0] for name, _ in leaks(plain)} == {"00000", "metrics.json", "report.html"}


def test_no_file_of_a_redacted_audit_holds_a_secret(redacted):
    assert list(leaks(redacted)) == []
    assert {path.name for path in redacted.iterdir()} >= {"report.html", "metrics.json", "run_manifest.json"}


def _offsets_and_scores(table):
    """The rows without what may hold texts."""
    texts = ["record_id", "text", "unmatched_values", "expected", *EXTRA_COLUMNS, "generator", "top_passage_id"]
    rows = table.drop_columns([name for name in texts if name in table.column_names]).to_pylist()
    for row in rows:
        row["evidence"] = [{**piece, "text": None, "passage_id": None} for piece in row["evidence"]]
    return rows


def test_redaction_moves_no_offset_and_no_score(plain, redacted):
    ours, theirs = read_all(redacted / "evidence"), read_all(plain / "evidence")
    assert ours.num_rows > ROWS
    assert _offsets_and_scores(ours) == _offsets_and_scores(theirs)
    assert ours.schema.types == theirs.schema.types


def test_a_mask_is_as_long_as_what_it_hides_and_covers_nothing_else(plain, redacted):
    pairs = zip(read_all(redacted / "evidence").to_pylist(), read_all(plain / "evidence").to_pylist(), strict=True)
    for ours, theirs in pairs:
        texts = [(ours["text"], theirs["text"]), (ours["note"], theirs["note"])]
        texts += [(one["text"], other["text"]) for one, other in zip(ours["evidence"], theirs["evidence"], strict=True)]
        for masked, text in texts:
            assert len(masked) == len(text)
            assert all(one in (MASK, other) for one, other in zip(masked, text, strict=True))
        assert theirs["note"].replace(PHONE, MASK * len(PHONE)).replace(CARD, MASK * len(CARD)) == ours["note"]


def test_a_span_that_ends_within_an_address_shows_no_part_of_it(redacted):
    first, second, _ = read_all(redacted / "evidence").to_pylist()[:3]
    assert (first["text"], second["text"]) == ("Write to " + MASK * 6, MASK * 14)


def test_every_column_of_the_log_is_masked_in_its_own_type(redacted):
    row = read_all(redacted / "evidence").to_pylist()[0]
    assert row["account"] is None
    assert row["raw"] == b"mail: " + b"*" * len(EMAIL)
    first, second = {"kind": "mail", "value": MASK * len(EMAIL)}, {"kind": MASK * len(PHONE), "value": MASK * len(CARD)}
    assert row["contacts"] == [first, second]
    assert row["labels"] == [(MASK * len(EMAIL), MASK * len(CASE))]
    assert row["record_id"] == MASK * len(f"0-{EMAIL}")


@pytest.mark.parametrize(
    ("runner", "hiding"),
    [([], [*REDACT]), (["--runner", "DirectRunner"], [*REDACT, "--no-texts"])],
    ids=["local, masks", "Beam, masks and no texts"],
)
def test_nothing_that_leaves_an_audit_holds_a_secret(runner, hiding, log, plain, tmp_path, capfd):
    """Neither files nor what is printed, in an audit whose gate fails."""
    carried = ["--extra-columns", ",".join(EXTRA_COLUMNS), "--token-evidence"]
    output = tmp_path / "out"
    given = ["--input", str(log), "--output", str(output), *_models(plain), *carried, "--console", "json", *runner]
    assert main(["audit", *given, *hiding, "--fail-if", "rows > 0"]) == 3
    printed = "".join(capfd.readouterr())
    assert '"event": "result"' in printed
    assert [trace for trace in TRACES if trace in printed] == []
    assert list(leaks(output)) == []
    assert read_all(output / "evidence").num_rows == read_all(plain / "evidence").num_rows
    if "--no-texts" in hiding:
        said = printed + repr(read_all(output / "evidence").to_pylist())
        assert [words for words in WORDS if words in said] == []


def test_a_redacted_audit_resumes_and_gives_the_same_bytes(audit, redacted, tmp_path):
    stop_import_server()  # the workers of another have other hashes of texts
    output = shutil.copytree(redacted, tmp_path / "out")
    for chunk in sorted((output / "_chunks").iterdir())[1:]:
        chunk.unlink()
    again = audit(output, *REDACT)
    assert output_digests(again) == output_digests(redacted)


def test_other_privacy_settings_are_another_audit(redacted, log, capsys):
    given = ["--input", str(log), "--output", str(redacted), *_models(redacted), "--quiet", "--rows-per-chunk", "3"]
    assert main(["audit", *given, "--extra-columns", ",".join(EXTRA_COLUMNS), "--token-evidence"]) == 2
    assert "another option or a version" in capsys.readouterr().err
    patterns = {"path": str(CASE_PATTERNS), "sha256": sha256(CASE_PATTERNS.read_bytes()).hexdigest()}
    assert read_manifest(redacted).options["privacy"] == {"redact": True, "redact_patterns": patterns}


def _models(output):
    """The options that name the models of an audit."""
    options = read_manifest(output).options
    return ["--model", options["model"]["model"], "--parser", options["parser"]]


@pytest.fixture
def forgetful(monkeypatch):
    """Tables of this process are written without their masks, as if a column had been forgotten."""
    monkeypatch.setattr(row_groups, "hide_texts", lambda table, _: table)


@pytest.mark.usefixtures("forgetful")
def test_a_file_that_shows_what_is_masked_elsewhere_fails_its_chunk_by_column_and_row(log, redacted, tmp_path):
    _, model, _, parser = _models(redacted)
    asked = {"extra_columns": ("account", "tags", "hard"), "privacy": PrivacySettings(redact=True)}
    settings = AuditSettings(model=ModelOptions(model=model, device="cpu"), parser=parser, **asked)
    fields = check_input([str(log)], settings).extra_fields
    with pytest.raises(LeakError, match=r"column 'record_id' of dead_letters\.parquet, made from row 1 of") as caught:
        run_locally(str(log), settings, tmp_path / "attempt", extra_fields=fields)
    assert [trace for trace in TRACES if trace in str(caught.value)] == []


@pytest.mark.usefixtures("forgetful")
def test_a_distributed_run_commits_no_chunk_that_shows_what_is_masked(log, redacted, tmp_path, capfd):
    models = _models(redacted)
    given = ["--input", str(log), "--output", str(tmp_path / "out"), *models, "--extra-columns", "note", *REDACT]
    assert main(["audit", *given, "--runner", "DirectRunner"]) == 1
    assert not list((tmp_path / "out").rglob("_chunks/*.json"))
    said = "".join(capfd.readouterr())
    assert "column 'record_id' of dead_letters.parquet, made from row 1 of" in said
    assert [trace for trace in TRACES if trace in said] == []


def test_objects_whose_keys_are_secrets_are_refused_before_anything_is_written(tmp_path, capsys):
    row = {name: secret_rows(1)[0][name] for name in ("record_id", "question", "answer")}
    log = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist([{**row, "by_mail": {EMAIL: 3}, "passages": ["A"]}]), log)
    given = ["--input", str(log), "--output", str(tmp_path / "out"), "--extra-columns", "by_mail"]
    assert main(["audit", *given, "--redact"]) == 2
    assert EMAIL not in (said := capsys.readouterr().err)
    assert "'by_mail'" in said
    assert not (tmp_path / "out").exists()


def test_show_finds_an_answer_by_the_id_of_the_log_and_prints_it_masked(redacted, capsys):
    assert main(["show", f"0-{EMAIL}", "--audit", str(redacted)]) == 0
    shown = capsys.readouterr().out
    assert f"Who is {MASK * len(EMAIL)}, {MASK * len(PHONE)}, {MASK * len(CASE)}" in shown
    assert "reached at" in shown
    assert EMAIL not in shown


def test_no_texts_leaves_ids_offsets_and_scores(plain, without_texts):
    ours, theirs = read_all(without_texts / "evidence"), read_all(plain / "evidence")
    assert set(ours["text"].to_pylist()) == {""}
    assert {piece["text"] for pieces in ours["evidence"].to_pylist() for piece in pieces} == {""}
    assert _offsets_and_scores(ours) == _offsets_and_scores(theirs)
    assert ours["record_id"] == theirs["record_id"]
    lengths = [[len(values) for values in table["unmatched_values"].to_pylist()] for table in (ours, theirs)]
    assert lengths[0] == lengths[1]


def test_no_file_of_an_audit_without_texts_holds_words_of_question_passages_or_answer(without_texts):
    for path in (one for one in without_texts.rglob("*") if one.is_file()):
        content = path.read_bytes().decode("latin-1")
        content += repr(read_all(path.parent).to_pylist()) if path.suffix == ".parquet" else ""
        assert [words for words in WORDS if words in content] == []


def test_a_report_without_texts_shows_places_and_with_texts_the_log(without_texts, tmp_path, capsys):
    page = without_texts / "report.html"
    assert "characters 0 to 15" in page.read_text(encoding="utf-8")
    assert "--texts" in page.read_text(encoding="utf-8")
    more = tmp_path / "more.html"
    assert main(["report", "--audit", str(without_texts), "--output", str(more), "--texts"]) == 0
    assert "The west pier is closed." in more.read_text(encoding="utf-8")
    assert main(["show", f"0-{EMAIL}", "--audit", str(without_texts)]) == 0
    assert "Write to" not in (shown := capsys.readouterr().out)
    assert "characters 0 to 15" in shown
    assert main(["show", f"0-{EMAIL}", "--audit", str(without_texts), "--texts"]) == 0
    assert f"Write to {EMAIL[:6]}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("(", "line 1 should be a regular expression"), ("x*", "empty text"), ("(a|aa)+$", "takes more than"),
        ("# nothing", "holds none"), (["--redact-patterns", "none.txt"], "cannot be read"),
        (["--no-texts", "--extra-columns", "question"], "leave one out"),
    ],
)  # fmt: skip
def test_what_cannot_be_hidden_is_refused_before_anything_is_written(log, tmp_path, more, said, capsys):
    if isinstance(more, str):
        (tmp_path / "patterns.txt").write_text(more, encoding="utf-8")
        more = ["--redact-patterns", str(tmp_path / "patterns.txt")]
    assert main(["audit", "--input", str(log), "--output", str(tmp_path / "out"), *more]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_a_file_of_patterns_holds_is_written_nowhere(audit, tmp_path):
    patterns = tmp_path / "names.txt"
    patterns.write_text("# people\nmarta\\.quill\nferry 4\n", encoding="utf-8")
    output = audit(tmp_path / "out", "--redact-patterns", str(patterns))
    texts = [path.read_bytes().decode("latin-1") for path in output.rglob("*") if path.is_file()]
    assert [text for text in texts if "quill" in text or "ferry 4" in text] == []
    assert MASK in (output / "report.html").read_text(encoding="utf-8")
    patterns.write_text("other\n", encoding="utf-8")
    later = tmp_path / "later.html"
    assert main(["report", "--audit", str(output), "--output", str(later)]) == 0
    assert "is not what the audit used" in later.read_text(encoding="utf-8")
    assert "marta" not in later.read_text(encoding="utf-8")


def test_files_of_driver_and_workers_are_private_under_a_private_umask_and_so_is_a_later_page(audit, tmp_path):
    output = tmp_path / "out"
    stop_import_server()  # a new one is started, which has the driver's umask
    before = os.umask(0o077)
    try:
        audit(output)
        os.umask(0o022)
        assert main(["report", "--audit", str(output), "--output", str(tmp_path / "later.html")]) == 0
    finally:
        os.umask(before)
        stop_import_server()
    written = [output, tmp_path / "later.html", *output.rglob("*")]
    assert len(written) > 10
    assert [path.name for path in written if path.stat().st_mode & 0o077] == []
