"""The page as a text: nothing from a log becomes markup, nothing is loaded, and what is not on it is said."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.made_audit import Page, made_audit, supported_span, tell_sizes

from attribeam.report.audited_answer import (
    DEAD_LETTERS_PER_REASON,
    AuditedLogs,
    embedded_answers,
    embedded_dead_letters,
)
from attribeam.report.report_command import digest_lines, escape_markdown
from attribeam.schemas import Passage
from attribeam.schemas.run_manifest import CutPassages, RunManifest, RunStatus

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & ' \" <!-- \u2028 ]]>"


def hostile(record):
    passages = tuple(Passage(one.text + HOSTILE, HOSTILE, HOSTILE) for one in record.passages)
    return replace(
        record,
        question=HOSTILE,
        answer=record.answer + HOSTILE,
        passages=passages,
        generator=HOSTILE,
        extra_columns=(("team", HOSTILE),),
    )


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


def test_an_audit_of_dead_letters_alone_says_that_there_is_nothing_to_flag(plain_page, tmp_path):
    audit = made_audit(tmp_path, record_ids=())
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


def test_worklist_holds_the_riskiest_answers_and_says_that_there_are_more(tmp_path):
    assert "The worklist holds the 1 riskiest of 3 answers." in made_audit(tmp_path).page(answers=1)


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


def test_page_of_a_stopped_audit_says_how_many_rows_it_shows(tmp_path):
    audit = made_audit(tmp_path, status=RunStatus.INTERRUPTED)
    max((audit.root / "_chunks").iterdir()).unlink()
    assert "its status is “interrupted”. The page shows its finished chunks, 2 of 4 rows." in audit.page()


def test_page_says_where_the_log_is_gone(tmp_path):
    audit = made_audit(tmp_path)
    audit.log.unlink()
    assert "Only spans and evidence can be shown" in audit.page()


def test_an_answer_brings_its_spans_in_order_and_the_texts_of_its_log(tmp_path):
    made = made_audit(tmp_path)
    audit = made.opened
    wanted = {made.records[row].source: risk for row, risk in ((2, 0.9), (0, 0.1))}
    found = list(embedded_answers(audit, AuditedLogs.of(audit), wanted))
    assert [(one.answer.source, one.risk) for one in found] == [*wanted.items()]
    for one in found:
        assert [span.text for span in one.answer.spans] == ["leaves at noon", "40 cars"]
        assert one.texts is not None
        assert one.texts.answer == made.records[0].answer
        assert one.extra_columns == (("team", "harbour"),)


def test_texts_that_are_too_long_for_the_page_are_left_out(tmp_path):
    made = made_audit(
        tmp_path, change=lambda record: replace(record, question="x" * 400_001 * (record.source.source_row == 1))
    )
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
    assert [(one["reason"], one["source_row"]) for one in found] == [
        (reason, row) for reason in ("empty_answer", "missing_value") for row in range(DEAD_LETTERS_PER_REASON)
    ]
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


def test_the_bundle_was_made_from_the_sources_as_they_are():
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in SOURCES)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    first = BUNDLE.read_text(encoding="utf-8").partition("\n")[0]
    assert first.endswith(f"sources sha256 {digest}"), "run report/vendor/make_bundles.sh page"


def test_the_bundle_can_stand_in_a_script_element():
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
