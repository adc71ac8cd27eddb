"""The page as a text: nothing from a log becomes markup, nothing is loaded, and what is not on it is said."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.report.made_audit import made_audit, supported_span

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.html_page import write_html_report
from attribeam.report.markdown_digest import digest_lines, escape_markdown
from attribeam.schemas import Passage, QARecord
from attribeam.schemas.passage_sample import CutPassages
from attribeam.schemas.run_manifest import RunManifest

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & ' \" <!-- \u2028 ]]>"


class Elements(HTMLParser):
    """Collects every element with its attributes, and the text of each script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.lasttag in ("script", "style") and data.strip():
            self.texts.append((self.lasttag, data))


def page_of(folder: Path, **options: object) -> str:
    audit = made_audit(folder, **options)  # type: ignore[arg-type]
    output = folder / "report.html"
    write_html_report(audit.root, output)
    return output.read_bytes().decode("utf-8")


def parsed(page: str) -> Elements:
    elements = Elements()
    elements.feed(page)
    return elements


def embedded(page: str, name: str) -> object:
    return json.loads(re.search(rf'<script type="application/json" id="data-{name}">(.*?)</script>', page, re.S)[1])


def hostile(record: QARecord) -> QARecord:
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
def plain_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    ids = ("ferry-0", f"ferry-1 {HOSTILE}", "ferry-2")
    return page_of(tmp_path_factory.mktemp("hostile"), record_ids=ids, change=hostile)


def test_hostile_texts_in_every_field_add_no_element(plain_page: str, hostile_page: str) -> None:
    plain, attacked = (sorted({tag for tag, _ in parsed(page).found}) for page in (plain_page, hostile_page))
    assert attacked == plain
    assert "img" not in attacked
    count = sum(tag == "script" for tag, _ in parsed(plain_page).found)
    assert sum(tag == "script" for tag, _ in parsed(hostile_page).found) == count


def test_no_element_has_a_handler_or_a_style_of_its_own(hostile_page: str) -> None:
    for tag, attributes in parsed(hostile_page).found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag


def test_nothing_is_loaded_from_anywhere(plain_page: str) -> None:
    for tag, attributes in parsed(plain_page).found:
        assert tag not in ("iframe", "object", "embed", "base"), tag
        for name in ("src", "href", "srcset", "action"):
            assert (attributes.get(name) or "#").startswith(("data:", "#")), tag


def test_policy_allows_exactly_the_scripts_and_styles_of_the_page(plain_page: str) -> None:
    elements = parsed(plain_page)
    (policy,) = [
        attributes["content"] or ""
        for tag, attributes in elements.found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    own_scripts = re.findall(r"<script>(.*?)</script>", plain_page, re.S)
    styles = re.findall(r"<style>(.*?)</style>", plain_page, re.S)
    assert len(own_scripts) == 3
    assert styles
    for text in [*own_scripts, *styles]:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_worklist_holds_the_riskiest_answers_and_says_that_there_are_more(tmp_path: Path) -> None:
    audit = made_audit(tmp_path)
    output = tmp_path / "report.html"
    write_html_report(audit.root, output, answers=1)
    page = output.read_text(encoding="utf-8")
    assert "The worklist holds the 1 riskiest of 3 answers." in page


def test_page_and_digest_say_that_passages_seem_cut(tmp_path: Path) -> None:
    audit = made_audit(tmp_path)
    manifest = audit.root / "run_manifest.json"
    cut = CutPassages(9, 12, "characters", 200)
    for found, times in ((None, 0), (cut, 1)):
        manifest.write_text(replace(RunManifest.from_json(manifest.read_text()), cut_passages=found).to_json())
        write_html_report(audit.root, tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text(encoding="utf-8").count(f"{cut}.") == times
        lines = digest_lines(AuditDirectory.open(audit.root), answers=1)
        assert [*lines].count(f"- {escape_markdown(str(cut))}\n") == times


@pytest.mark.parametrize("agrees", [True, False])
def test_page_says_that_evidence_and_words_disagree(tmp_path: Path, agrees: bool) -> None:
    names = [f"ferry-{row}" for row in range(24)]
    span = replace(supported_span(), evidence_agrees=agrees)
    audit = made_audit(tmp_path, record_ids=names, spans=dict.fromkeys(range(24), (span,)))
    write_html_report(audit.root, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert ("Evidence and words disagree: for 24 of 24 claims" in page) is not agrees


def test_page_says_where_the_log_is_gone(tmp_path: Path) -> None:
    audit = made_audit(tmp_path)
    audit.log.unlink()
    output = tmp_path / "report.html"
    write_html_report(audit.root, output)
    assert "Only spans and evidence can be shown" in output.read_text(encoding="utf-8")
