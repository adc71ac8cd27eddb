"""Audits whose pages the browser opens; texts of our own."""

import json
from collections import namedtuple
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
from tests.report.made_audit import (
    made_audit,
    no_claim,
    place,
    supported_span,
    tell_sizes,
    told_spans,
    unsupported_span,
)

from attribeam.schemas import AnswerKind, CharRange, ClaimKind, EvidencePiece, Passage, SpanKind, Support

ATTACK = (
    '<script>window.hacked=1</script><img src=x onerror="window.hacked=2"></script>'
    "<!-- <a href='javascript:hacked=3'>"
)
MARKDOWN = f"""## The ferry \U0001f6a2

It **leaves at noon** from *the pier* of snake_case_town: `2 * 3 * 4`, <b>**{ATTACK}**</b>.
- It carries __40 cars__.

| Pier | **Leaves** |
|------|:------:|
| East | a \\| b |
```
**code**
```
|-|
|-|
| no table |
"""
RTL_QUESTION = "متى تغادر العبّارة؟"
RTL_ANSWER = "تغادر العبّارة عند الظهر."
RTL_PASSAGE = "العبّارة إلى الجزيرة تغادر عند الظهر كل يوم."


LoggedAudit = namedtuple("LoggedAudit", ["page", "audit", "page_without_log"])


def harbour_audit(folder):
    """Four answers that filters can tell apart, one of them in Arabic, and a dead letter.

    Riskiest first: ``ferry-0`` (supported and unsupported), ``ferry-2`` (weak, isolated, no generator), then
    ``ferry-1`` (tern-2) and ``ferry-3`` (Arabic), which are supported.
    """
    supported = supported_span()
    weak = replace(supported, support=Support.WEAK, evidence_isolated=True, span_kind=SpanKind.SENTENCES)
    spans = {1: (supported,), 2: (weak,), 3: (_arabic_span(),)}
    ids = tuple(f"ferry-{row}" for row in range(4))
    return _with_pages(made_audit(folder / "made", record_ids=ids, spans=spans, change=_harbour_record), folder)


def claims_audit(folder):
    """Answers of every kind, with scores, and a dead letter.

    ``ferry-0`` has a supported claim, then an unsupported one with a part, and a heading; ``ferry-1`` refuses;
    ``ferry-2`` is in another language; ``ferry-3`` has a claim that is not calibrated and a table.
    """
    quoted, other = told_spans()
    claim = replace(other, support_score=0.0625)
    first = (
        replace(quoted, support_score=0.9375),
        claim,
        replace(claim, span_index=2, chars=CharRange(claim.chars.char_start, claim.chars.char_start + 2), text="40"),
        no_claim(ClaimKind.HEADING, 3, chars=CharRange(0, 9), text="The ferry"),
    )
    uncalibrated = replace(supported_span(), support=Support.NOT_CALIBRATED)
    spans = {
        0: tuple(replace(one, answer_risk=0.875) for one in first),
        1: (no_claim(ClaimKind.REFUSAL, answer_kind=AnswerKind.REFUSAL),),
        2: (no_claim(ClaimKind.LANGUAGE, answer_kind=AnswerKind.NOT_JUDGED),),
        3: (uncalibrated, no_claim(ClaimKind.TABLE, 1)),
    }
    long_id = f"{'0123456789abcdef' * 4}-row-3"
    ids = ("ferry-0", "ferry-1", "ferry-2", long_id)
    return _with_pages(made_audit(folder / "made", record_ids=ids, spans=spans), folder)


def markdown_audit(folder):
    """An answer in Markdown whose first claim begins and ends with a mark of bold text."""
    claim, cars = supported_span(MARKDOWN), unsupported_span(MARKDOWN)
    chars = CharRange(claim.chars.char_start - 2, claim.chars.char_end + 2)
    spans = {0: (replace(claim, chars=chars, text=chars.of(MARKDOWN), atomic_fact=()), cars)}
    change = lambda record: replace(record, answer=MARKDOWN)  # noqa: E731
    return _with_pages(made_audit(folder / "made", record_ids=["ferry"], spans=spans, change=change), folder)


def compared_audit(folder):
    """Answers beside those of an earlier audit, with risks.

    ``ferry-0`` is newly flagged, ``ferry-1`` no longer: its earlier claim had markup in its text. ``ferry-2`` is the
    same, with two claims that begin at one place, and ``ferry-3`` was not there.
    """
    fine = (replace(supported_span(), answer_risk=0.125),)
    flagged = tuple(replace(one, answer_risk=0.875) for one in (supported_span(), unsupported_span()))
    hostile = (*flagged[:1], replace(flagged[1], text=f"{flagged[1].text} {ATTACK}"))
    nested = _begin_at_one_place(*flagged)
    before = made_audit(folder / "before", spans={0: fine, 1: hostile, 2: nested})
    ids = tuple(f"ferry-{row}" for row in range(4))
    audit = made_audit(folder / "made", record_ids=ids, spans={0: flagged, 1: fine, 2: nested, 3: fine})
    return _with_pages(audit, folder, previous=before)


def _begin_at_one_place(shorter, longer):
    """The claims "leaves" and "leaves at noon", each with the index and the verdict that it has."""
    chars, text = shorter.chars, shorter.text
    end = chars.char_start + len("leaves")
    return (
        replace(shorter, chars=CharRange(chars.char_start, end), text="leaves"),
        replace(longer, chars=chars, text=text, unmatched_values=()),
    )


def hostile_audit(folder):
    """One answer and one dead letter, with markup and script in every field that can hold a text."""
    place = folder / ATTACK.replace("/", "") / "made"
    spans = {0: (_hostile_span(supported_span()), _hostile_span(unsupported_span()))}
    audit = made_audit(place, record_ids=(f"ferry-0 {ATTACK}",), spans=spans, change=_hostile_record)
    _attack_letters(audit.root)
    _attack_manifest(audit.root)
    return _with_pages(audit, folder)


def crowded_audit(folder):
    ids = tuple(f"ferry-{row:04d}" for row in range(1000))
    return _with_pages(made_audit(folder / "made", record_ids=ids, rows_per_chunk=500), folder)


def _with_pages(audit, folder, previous=None):
    page, other = folder / "page.html", folder / "page_without_log.html"
    page.write_text(audit.page(previous=previous), encoding="utf-8")
    hidden = audit.log.with_name("hidden")
    audit.log.rename(hidden)
    other.write_text(audit.page(), encoding="utf-8")
    hidden.rename(audit.log)
    return LoggedAudit(page, audit, other)


def _harbour_record(record):
    row = record.source.source_row
    question = f"{record.question} ({('today', 'tomorrow', 'in winter', '')[row]})"
    told = {"generator": ("gull-1", "tern-2", None, "gull-1")[row], "question": question}
    record = replace(record, answered_at=datetime(2026, 11, 10 + row, 8, tzinfo=UTC), **told)
    if row == 3:
        passages = (Passage(RTL_PASSAGE, None, "arabic-1"), record.passages[1])
        return replace(record, question=RTL_QUESTION, answer=RTL_ANSWER, passages=passages)
    return record


def _arabic_span():
    text, evidence = "عند الظهر", "تغادر عند الظهر"
    chars, piece = place(text, RTL_ANSWER), place(evidence, RTL_PASSAGE)
    pieces = (EvidencePiece(0, "arabic-1", False, piece, evidence, 6.0),)
    told = {"chars": chars, "text": text, "atomic_fact": (CharRange(0, chars.char_end),)}
    return replace(supported_span(), evidence=pieces, top_passage_id="arabic-1", **told)


def _hostile_record(record):
    passages = tuple(Passage(f"{one.text} {ATTACK}", f"{one.title} {ATTACK}", ATTACK) for one in record.passages)
    texts = {"question": ATTACK, "answer": f"{record.answer} {ATTACK}", "generator": f"gull {ATTACK}"}
    return replace(record, passages=passages, extra_columns=(("team", f"harbour {ATTACK}"),), **texts)


def _hostile_span(span):
    """The span with markup as passage ids, in the texts of its evidence, in its values and what stands instead."""
    evidence = tuple(replace(one, passage_id=ATTACK, text=f"{one.text}{ATTACK}") for one in span.evidence)
    unmatched = (*span.unmatched_values, ATTACK)
    return replace(span, text=f"{span.text}{ATTACK}", evidence=evidence, unmatched_values=unmatched, expected=ATTACK)


def _attack_letters(root):
    """Put markup into every text of the dead letters."""
    for file in (root / "dead_letters").iterdir():
        table = pq.read_table(file)
        texts = {"record_id": "bad", "reason": "reason", "column": "column", "message": "message", "answer": "answer"}
        rows = [row | {name: f"{text} {ATTACK}" for name, text in texts.items()} for row in table.to_pylist()]
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)
    tell_sizes(root)


def _attack_manifest(root):
    file = root / "run_manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest["models"] = {f"model {ATTACK}": f"tiny {ATTACK}", "model": f"tiny {ATTACK}"}
    manifest["versions"] = {f"version {ATTACK}": ATTACK}
    file.write_text(json.dumps(manifest), encoding="utf-8")
