"""The page as a text, and its figures: nothing of a log is markup, nothing is loaded, what is not on it is said."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.made_audit import Page, made_audit, no_claim, supported_span, tell_sizes, unsupported_span

from attribeam.report.audit_summary import Change, audit_title, comparison_remark, top_figures, verdict_accuracy
from attribeam.report.audited_answer import (
    DEAD_LETTERS_PER_REASON,
    AuditedLogs,
    embedded_answers,
    embedded_dead_letters,
)
from attribeam.report.report_command import digest_lines, escape_markdown
from attribeam.schemas import AnswerKind, ClaimKind, Passage
from attribeam.schemas.run_manifest import CutPassages, RunManifest, RunStatus

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & ' \" <!-- \u2028 ]]>"


def hostile(record):
    passages = tuple(Passage(one.text + HOSTILE, HOSTILE, HOSTILE) for one in record.passages)
    texts = {"question": HOSTILE, "answer": record.answer + HOSTILE, "generator": HOSTILE}
    return replace(record, passages=passages, extra_columns=(("team", HOSTILE),), **texts)


@pytest.fixture(scope="module")
def plain_page(tmp_path_factory):
    return made_audit(tmp_path_factory.mktemp("plain")).page()


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    ids = ("ferry-0", f"ferry-1 {HOSTILE}", "ferry-2")
    return made_audit(tmp_path_factory.mktemp("hostile"), record_ids=ids, change=hostile).page()


def test_hostile_texts_in_every_field_add_no_element(plain_page, hostile_page):
    plain, attacked = ([tag for tag, _ in Page(page).tags] for page in (plain_page, hostile_page))
    assert set(attacked) == set(plain)
    assert "img" not in attacked
    assert attacked.count("script") == plain.count("script")


def test_page_says_how_many_are_flagged_and_that_there_are_more_or_none(plain_page, tmp_path):
    audit = made_audit(tmp_path / "none", record_ids=())
    assert "The worklist holds the 1 riskiest of 3 answers." in made_audit(tmp_path / "some").page(answers=1)
    assert "Flagged: 3 of 3 answers with claims, each for an unsupported claim." in plain_page
    assert "No answer has a claim that is judged." in audit.page()
    assert "riskiest" not in "".join(digest_lines(audit.opened, answers=5))


def test_no_element_has_a_handler_or_a_style_of_its_own(hostile_page):
    for tag, attributes in Page(hostile_page).tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag


def test_nothing_is_loaded_from_anywhere(plain_page):
    for tag, attributes in Page(plain_page).tags:
        assert tag not in ("iframe", "object", "embed", "base"), tag
        for name in ("src", "href", "srcset", "action"):
            assert (attributes.get(name) or "#").startswith(("data:", "#")), tag


def test_policy_allows_exactly_the_scripts_and_styles_of_the_page(plain_page):
    (found,) = Page(plain_page).all("meta", **{"http-equiv": "Content-Security-Policy"})
    policy = found["content"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    own_scripts = re.findall(r"<script>(.*?)</script>", plain_page, re.S)
    styles = re.findall(r"<style>(.*?)</style>", plain_page, re.S)
    assert len(own_scripts) == 3
    assert styles
    for text in [*own_scripts, *styles]:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_page_and_digest_say_that_passages_seem_cut(tmp_path):
    audit = made_audit(tmp_path)
    manifest = audit.root / "run_manifest.json"
    cut = CutPassages(9, 12, "characters", 200)
    for found, times in ((None, 0), (cut, 1)):
        manifest.write_text(replace(RunManifest.from_json(manifest.read_text()), cut_passages=found).to_json())
        assert audit.page().count(f"{cut}.") == times
        lines = digest_lines(audit.opened, answers=1)
        assert [*lines].count(f"- {escape_markdown(str(cut))}\n") == times


@pytest.mark.parametrize("agrees", [True, False])
def test_page_says_that_evidence_and_words_disagree(tmp_path, agrees):
    names = [f"ferry-{row}" for row in range(24)]
    span = replace(supported_span(), evidence_agrees=agrees)
    audit = made_audit(tmp_path, record_ids=names, spans=dict.fromkeys(range(24), (span,)))
    assert ("Evidence and words disagree: for 24 of 24 claims" in audit.page()) is not agrees


def test_a_score_has_the_digits_to_be_rounded_as_elsewhere(tmp_path):
    """0.8250128 is 0.83 for ``attribeam show``; 0.825, its first three digits, is 0.82 in a browser."""
    span = replace(supported_span(), support_score=0.8250128)
    page = made_audit(tmp_path, record_ids=["ferry-0"], spans={0: (span,)}).page()
    assert [f"{float(score):.2f}" for score in re.findall(r'"score":([0-9.]+)', page)] == ["0.83"]


def test_page_of_a_stopped_audit_says_how_many_rows_it_shows_and_where_the_log_is_gone(tmp_path):
    audit = made_audit(tmp_path, status=RunStatus.INTERRUPTED)
    max((audit.root / "_chunks").iterdir()).unlink()
    audit.log.unlink()
    page = audit.page()
    assert "its status is “interrupted”. The page shows its finished chunks, 2 of 4 rows." in page
    assert "Only spans and evidence can be shown" in page


def test_an_answer_brings_its_spans_in_order_and_the_texts_of_its_log(tmp_path):
    made = made_audit(tmp_path)
    audit = made.opened
    wanted = {made.records[row].source: risk for row, risk in ((2, 0.9), (0, 0.1))}
    found = list(embedded_answers(audit, AuditedLogs.of(audit), wanted))
    assert [(one.answer.source, one.risk) for one in found] == [*wanted.items()]
    for one in found:
        assert [span.text for span in one.answer.spans] == ["leaves at noon", "40 cars"]
        assert one.texts.answer == made.records[0].answer
        assert one.extra_columns == (("team", "harbour"),)


def test_texts_that_are_too_long_for_the_page_are_left_out(tmp_path):
    long = lambda record: replace(record, question="x" * 400_001 * (record.source.source_row == 1))  # noqa: E731
    made = made_audit(tmp_path, change=long)
    audit = made.opened
    wanted = {record.source: 0.5 for record in made.records}
    found = list(embedded_answers(audit, AuditedLogs.of(audit), wanted))
    assert [one.texts is None for one in found] == [False, True, False]


def test_the_first_dead_letters_of_each_reason_are_listed_and_long_answers_cut(tmp_path):
    made = made_audit(tmp_path)
    (file,) = (path for path in (made.root / "dead_letters").iterdir() if pq.read_metadata(path).num_rows)
    table = pq.read_table(file)
    (letter,) = table.to_pylist()
    rows = [
        {**letter, "source_row": row, "reason": reason, "answer": "é" * length}
        for reason, length in (("empty_answer", 20_001), ("missing_value", 20_000))
        for row in range(DEAD_LETTERS_PER_REASON + 1)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)
    tell_sizes(made.root)
    found = embedded_dead_letters(made.opened)
    listed = [(one["reason"], one["source_row"]) for one in found]
    assert listed == [*product(("empty_answer", "missing_value"), range(DEAD_LETTERS_PER_REASON))]
    assert {one["answer"] for one in found} == {"é" * 20_000 + "…", "é" * 20_000}


REPORT = Path(__file__).parents[2] / "report"
BUNDLE = REPORT / "assets" / "page.js"
MAKE_BUNDLES = REPORT / "vendor" / "make_bundles.sh"
SOURCES = sorted((REPORT / "page_scripts").glob("*.js"))
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function")


def pinned_program(name):
    """The bundler or linter in the version that ``make_bundles.sh`` names; skips the test where it is not installed."""
    wanted = re.search(rf"^{name.upper()}=(.+)$", MAKE_BUNDLES.read_text(encoding="utf-8"), re.M)[1]
    program = os.environ.get(f"ATTRIBEAM_{name.upper()}") or shutil.which(name)
    if program is None:
        pytest.skip(f"needs {name} {wanted} on PATH, or its path in ATTRIBEAM_{name.upper()}")
    found = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    if found != wanted:
        pytest.skip(f"needs {name} {wanted}, {program} is {found}")
    return program


def test_the_bundle_was_made_from_the_sources_as_they_are_and_can_stand_in_a_script_element():
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in SOURCES)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    first = BUNDLE.read_text(encoding="utf-8").partition("\n")[0]
    assert first.endswith(f"sources sha256 {digest}"), "run report/vendor/make_bundles.sh page"
    assert not re.search(r"</script|<!--", BUNDLE.read_text(encoding="utf-8"), re.I)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_script_makes_no_markup_or_code_out_of_text(source):
    assert MARKUP.findall(source.read_text(encoding="utf-8")) == []


def test_the_pinned_bundler_gives_the_committed_bytes(tmp_path):
    environment = {**os.environ, "ATTRIBEAM_ESBUILD": pinned_program("esbuild")}
    subprocess.run([str(MAKE_BUNDLES), "page", str(tmp_path / "page.js")], env=environment, check=True)
    assert (tmp_path / "page.js").read_bytes() == BUNDLE.read_bytes()


def test_the_pinned_linter_finds_nothing():
    environment = {**os.environ, "ATTRIBEAM_BIOME": pinned_program("biome")}
    run = subprocess.run([str(MAKE_BUNDLES), "lint"], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(("speed", "note"), [(2.5, "2.5 rows/s after 4 s of loading"), (0.0, "nothing was left to do")])
def test_run_that_found_all_rows_finished_tells_no_speed(tmp_path, speed, note):
    audit = made_audit(tmp_path).opened
    audit = replace(audit, manifest=replace(audit.manifest, rows_per_second=speed))
    (duration,) = (figure for figure in top_figures(audit, None) if figure.name == "duration")
    assert (duration.value, duration.note) == ("20 s", note)


def test_an_earlier_audit_that_is_not_complete_is_compared_with_a_remark(tmp_path):
    audit = made_audit(tmp_path).opened
    assert comparison_remark(audit, audit) is None
    earlier = replace(audit, manifest=replace(audit.manifest, status=RunStatus.RUNNING))
    assert "The earlier audit is not complete (its status is running)" in str(comparison_remark(audit, earlier))


@pytest.mark.parametrize(
    ("paths", "title"),
    [
        (["logs/answers.parquet"], "answers.parquet"), (["logs/2026-11-19.parquet"], "2026-11-19.parquet"),
        (["logs/date=2026-11-19/part-0.parquet"], "date=2026-11-19"),
        (["s3://logs/date=2026-11-19/part-00000-1f-c000.snappy.parquet"], "date=2026-11-19"),
        (["night/data.parquet"], "night"), (["night/a.jsonl", "night/b.jsonl"], "night"),
        (["one/a.jsonl", "two/b.jsonl"], "2 log files"), (["part-0.parquet"], "part-0.parquet"),
    ],
)  # fmt: skip
def test_an_audit_is_called_by_its_file_or_where_that_says_nothing_by_the_folder(tmp_path, paths, title):
    audit = made_audit(tmp_path).opened
    inputs = tuple(replace(audit.manifest.inputs[0], path=path) for path in paths)
    assert audit_title(replace(audit, manifest=replace(audit.manifest, inputs=inputs))) == title


@pytest.mark.parametrize(("configuration", "verdict"), [("same", "worse"), ("thresholds", "neutral")])
def test_a_change_is_worse_only_where_the_audits_were_made_alike(tmp_path, configuration, verdict):
    spans = {"now": replace(unsupported_span(), span_index=0, claim_index=0), "then": supported_span()}
    audits = [
        made_audit(tmp_path / name, record_ids=["ferry"], spans={0: (one,)}).opened for name, one in spans.items()
    ]
    now, then = (replace(one, manifest=replace(one.manifest, configuration="same")) for one in audits)
    then = replace(then, manifest=replace(then.manifest, configuration=configuration))
    changes = {one.name: one.change for one in top_figures(now, then)}
    assert changes["unsupported"] == Change("+100.0 points", verdict)


def test_what_did_not_change_is_called_so_whatever_it_counts(tmp_path):
    audit = made_audit(tmp_path).opened
    changes = {one.name: one.change for one in top_figures(audit, audit) if one.change}
    assert set(changes) == {"rows", "claims", "supported", "weak", "unsupported", "dead_letters"}
    assert {one.text for one in changes.values()} == {"no change"}


def figures_of(folder, *spans):
    audit = made_audit(folder, record_ids=["ferry"], spans={0: spans}).opened
    return {figure.name: (figure.value, figure.note) for figure in top_figures(audit, None)}


def test_claims_count_once_and_refusals_and_what_is_not_judged_stand_apart(tmp_path):
    part = replace(unsupported_span(), span_index=2, claim_index=1)
    code = no_claim(ClaimKind.CODE, 3)
    figures = figures_of(tmp_path / "claims", supported_span(), unsupported_span(), part, code)
    assert figures["claims"] == ("2", "2.0 an answer")
    assert figures["unsupported"] == ("50.0%", "1 claim")
    assert figures["not_judged"] == ("1", "spans: code")
    assert not {"refusals", "not_calibrated"} & set(figures)
    refusal = no_claim(ClaimKind.REFUSAL, answer_kind=AnswerKind.REFUSAL)
    figures = figures_of(tmp_path / "refusal", refusal)
    assert (figures["claims"], figures["refusals"]) == (("0", "0.0 an answer"), ("1", "100.0% of the answers"))
    assert figures["supported"][0] == "–"


def test_figures_stand_where_the_manifest_has_them():
    models = {"precision": "0.714", "recall": "0.64", "false_alarms": "0.125", "measured_on": "90 answers"}
    models |= {"short_precision": "0.9", "short_recall": "0.8"}
    text = verdict_accuracy({f"verdict_{name}": told for name, told in models.items()})
    assert "71% do have an unsupported claim" in text
    assert "it flags 64% (measured on 90 answers)." in text
    assert "nothing wrong with, it flags 12%." in text
    assert "short answers" not in text
    text = verdict_accuracy(
        {f"verdict_{name}": told for name, told in models.items()} | {"verdict_short_false_alarms": "0.1"}
    )
    assert "With short answers, of up to three claims, these are 90%, 80% and 10%." in text


@pytest.mark.parametrize(("risk", "text"), [(0.5, "is a calibrated probability"), (None, "is no probability")])
def test_the_order_is_explained_as_it_was_made(tmp_path, risk, text):
    spans = (replace(supported_span(), answer_risk=risk),)
    page = made_audit(tmp_path, record_ids=["ferry"], spans={0: spans}).page()
    assert [one in page for one in ("is a calibrated probability", "is no probability")].count(True) == 1
    assert text in page
    assert "Refusals come after" in page
