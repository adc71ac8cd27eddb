"""Audited answers as tasks for people who label spans, in the JSON of Label Studio and in that of Argilla 2.

A task shows question, passages and answer, and suggests the claims with their verdicts. People correct ranges and
labels; ``attribeam import`` makes a labelled log of what they did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attribeam.schemas.evidence_record import VERDICTS, SpanEvidence, Support
from attribeam.schemas.qa_record import QARecord

QUESTION = "support"
"""What is asked of the answer: Label Studio's ``from_name``, Argilla's question."""
ANSWER = "answer"
"""The field whose text has the ranges."""
LABELS = tuple(str(support) for support in VERDICTS)
"""What a range may be called; ``weak`` says that a person cannot decide."""
AGENT = "attribeam"
"""Who made the suggestions."""

_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")
_STAND_IN = "\u25a1"


def label_studio_task(record: QARecord, spans: Sequence[SpanEvidence]) -> dict[str, object]:
    """A task with its predictions, for a labelling interface with ``Labels`` named "support" for a ``Text`` "answer".

    Ranges count code points, as Label Studio does.
    """
    results = [
        {
            "id": f"span-{span.span_index}",
            "from_name": QUESTION,
            "to_name": ANSWER,
            "type": "labels",
            "value": {
                "start": span.chars.char_start,
                "end": span.chars.char_end,
                "text": span.text,
                "labels": [str(span.support)],
            },
            **({"meta": {"text": [span.why]}} if span.why else {}),
        }
        for span in _suggested(spans)
    ]
    risk = _risk(spans)
    score = {} if risk is None else {"score": 1 - risk}
    return {
        "data": {
            **_place(record),
            "risk": risk,
            "question": record.question,
            "passages": _passages_text(record),
            ANSWER: record.answer,
        },
        "predictions": [{"model_version": AGENT, **score, "result": results}],
    }


def argilla_record(record: QARecord, spans: Sequence[SpanEvidence]) -> dict[str, object]:
    """A record with its suggestion, for the text fields of the task and a ``SpanQuestion`` "support".

    Argilla's page counts UTF-16 units where its server counts code points. So that both agree, a character beyond 16
    bits, such as an emoji, is shown as a square; offsets are those of the answer.
    """
    value = [
        {"label": str(span.support), "start": span.chars.char_start, "end": span.chars.char_end}
        for span in _suggested(spans)
    ]
    fields = {"question": record.question, "passages": _passages_text(record), ANSWER: record.answer}
    risk = _risk(spans)
    return {
        "id": f"{record.source.source_file}:{record.source.source_row}",
        "fields": {name: _BEYOND_16_BITS.sub(_STAND_IN, text) for name, text in fields.items()},
        "metadata": _place(record) | ({} if risk is None else {"risk": risk}) | _told(spans),
        "suggestions": {QUESTION: {"value": value, "score": None, "agent": AGENT}},
        "responses": {},
        "vectors": {},
    }


def _suggested(spans: Sequence[SpanEvidence]) -> Iterator[SpanEvidence]:
    """The claims with a verdict, in the order of the answer."""
    judged = (span for span in spans if span.is_claim and span.support is not Support.NOT_CALIBRATED)
    return iter(sorted(judged, key=lambda span: span.chars))


def _risk(spans: Sequence[SpanEvidence]) -> float | None:
    return spans[0].answer_risk if spans else None


def _told(spans: Sequence[SpanEvidence]) -> dict[str, object]:
    """What is told of the claims beside their verdicts: each value once, in their order; no names without any."""
    told = {name: [getattr(span, name) for span in _suggested(spans)] for name in ("reason", "expected", "how")}
    return {name: list(dict.fromkeys(filter(None, values))) for name, values in told.items() if any(values)}


def _place(record: QARecord) -> dict[str, object]:
    source = record.source
    return {"record_id": record.record_id, "source_file": source.source_file, "source_row": source.source_row}


def _passages_text(record: QARecord) -> str:
    """The passages one below the other, numbered from 1."""
    return "\n\n".join(
        f"[{number}] {passage.title}\n{passage.text}" if passage.title else f"[{number}] {passage.text}"
        for number, passage in enumerate(record.passages, start=1)
    )
