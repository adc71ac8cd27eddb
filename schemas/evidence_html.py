"""Evidence as HTML for notebooks: one span, or an answer with its passages, in the colours of the report's page.

The fragments stand alone: they bring their style, load nothing and run no script. Texts of a log are escaped. While the
pointer is on a claim, ``:has`` lights its evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from attribeam.schemas.evidence_record import AnswerKind

if TYPE_CHECKING:
    from attribeam.schemas.evidence_record import SpanEvidence
    from attribeam.schemas.qa_record import QARecord

LIGHT = {
    "surface": "#ffffff", "ink": "#1b1f24", "soft": "#59616c", "line": "#dfdcd5", "rest": "#ece9e2",
    "light": "#ffe27a", "light-ink": "#1b1f24",
    "supported": "#2b6cb0", "weak": "#dd9a00", "unsupported": "#b4351c",
    "supported-ink": "#1f5a99", "weak-ink": "#7a5200", "unsupported-ink": "#9c2a13",
}  # fmt: skip
"""The colours of the report's page by day, under the names that its style sheet has for them."""

DARK = {
    "surface": "#1c1f25", "ink": "#e8e6e1", "soft": "#a2a9b4", "line": "#333841", "rest": "#2b3038",
    "light": "#6b5a12", "light-ink": "#fff6d8",
    "supported": "#6aa9e8", "weak": "#f0bb45", "unsupported": "#f0805f",
    "supported-ink": "#8fc0f2", "weak-ink": "#f4c869", "unsupported-ink": "#f79a7e",
}  # fmt: skip
"""The same by night."""

_Marked = tuple[int, int, str]
"""A half-open range of a text, and what it is marked with."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One answer with the evidence of its target spans, in their order; a notebook shows it as the report does."""

    record: QARecord
    spans: tuple[SpanEvidence, ...]

    def _repr_html_(self) -> str:
        return self.html

    @property
    def html(self) -> str:
        """A fragment of HTML that stands alone: question, answer, claims and passages."""
        return answer_html(self.record, self.spans)


def span_html(span: SpanEvidence) -> str:
    """One span with its verdict and its evidence."""
    return _fragment([f'<p class="answer" dir="auto">{_span_text(span)}</p>', *_verdict(span)], claims=())


def answer_html(record: QARecord, spans: Sequence[SpanEvidence]) -> str:
    """An answer with its claims, and its passages with what supports them."""
    claims = sorted((span for span in spans if span.is_claim), key=lambda span: span.chars)
    others = sorted((span for span in spans if span.is_counted and not span.is_claim), key=lambda span: span.chars)
    kind, risk = (spans[0].answer_kind, spans[0].answer_risk) if spans else (AnswerKind.ANSWER, None)
    facts = _facts(
        "" if kind == AnswerKind.ANSWER else f"kind of answer: {kind.replace('_', ' ')}",
        "" if risk is None else f"risk {risk:.2f}",
    )
    return _fragment(
        [
            f'<p class="question" dir="auto">{escape(record.question)}</p>',
            f'<p class="facts">{facts}</p>' if facts else "",
            f'<div class="answer" dir="auto">{_answer_text(record.answer, spans)}</div>',
            *_span_list(claims, f"{len(claims)} claim{'' if len(claims) == 1 else 's'}", is_open=True),
            *_span_list(others, f"{len(others)} not judged, or no claim", is_open=False),
            *(_passage(record, index, spans) for index in range(len(record.passages))),
        ],
        claims=[span.span_index for span in claims],
    )


def cut(text: str, ranges: Iterable[_Marked]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The pieces of ``text`` between the ends of ``ranges``, and what covers each; together they are the text."""
    inside = [(start, end, mark) for start, end, mark in ranges if 0 <= start < end <= len(text)]
    ends = sorted({0, len(text), *(position for start, end, _ in inside for position in (start, end))})
    for start, end in pairwise(ends):
        yield text[start:end], tuple(mark for first, last, mark in inside if first <= start and end <= last)


def _fragment(parts: Iterable[str], *, claims: Iterable[int]) -> str:
    """``tex2jax_ignore`` and ``mathjax_ignore`` keep notebooks from taking dollar signs for formulas."""
    lights = "".join(f".attribeam:has(.c{claim}:hover) .e{claim}{{{_LIT}}}" for claim in claims)
    body = "".join(parts)
    return f'<div class="attribeam tex2jax_ignore mathjax_ignore"><style>{_STYLE}{lights}</style>{body}</div>'


def _facts(*facts: str) -> str:
    return escape(", ".join(filter(None, facts)))


def _answer_text(answer: str, spans: Sequence[SpanEvidence]) -> str:
    """The answer, each piece with the support of the shortest span around it."""
    marked: list[_Marked] = []
    for span in sorted(spans, key=lambda span: span.chars.char_start - span.chars.char_end):
        marked.append((span.chars.char_start, span.chars.char_end, f"seg {span.support} c{_claim(span)}"))
        marked += _against(span, answer, 0)
    pieces = []
    for text, marks in cut(answer, marked):
        around = [mark.split() for mark in marks if mark.startswith("seg ")]
        claims = " ".join(dict.fromkeys(claim for _, _, claim in around))
        opened, closed = (f'<span class="seg {around[-1][1]} {claims}">', "</span>") if around else ("", "")
        pieces.append(f"{opened}{_doubted(text, marks)}{closed}")
    return "".join(pieces)


def _span_text(span: SpanEvidence) -> str:
    against = _against(span, span.text, span.chars.char_start)
    return "".join(_doubted(text, marks) for text, marks in cut(span.text, against))


def _against(span: SpanEvidence, text: str, offset: int) -> Iterator[_Marked]:
    """What speaks against a span: words, and values that no passage has; ``text`` begins at ``offset``."""
    for words in span.unsupported_words:
        yield words.char_start - offset, words.char_end - offset, "suspect"
    first, last = span.chars.char_start - offset, span.chars.char_end - offset
    for value in span.unmatched_values:
        start = text.find(value, first, last) if value else -1
        while start >= 0:
            yield start, start + len(value), "unmatched"
            start = text.find(value, start + len(value), last)


def _doubted(text: str, marks: Sequence[str]) -> str:
    if "unmatched" in marks:
        return f'<s title="in no passage with evidence">{escape(text)}</s>'
    return f'<em title="speaks most against this claim">{escape(text)}</em>' if "suspect" in marks else escape(text)


def _span_list(spans: Sequence[SpanEvidence], title: str, *, is_open: bool) -> Iterator[str]:
    if spans:
        rows = "".join(
            f'<details class="row c{_claim(span)}"><summary dir="auto">{_name(span)} {_span_text(span)}</summary>'
            f"{''.join(_verdict(span))}</details>"
            for span in spans
        )
        yield f'<details class="list"{" open" if is_open else ""}><summary>{escape(title)}</summary>{rows}</details>'


def _name(span: SpanEvidence) -> str:
    return f'<b class="verdict {span.support}">{span.support.replace("_", " ")}</b>'


def _verdict(span: SpanEvidence) -> Iterator[str]:
    facts = _facts(
        span.why,
        "" if span.support_score is None else f"support {span.support_score:.2f}",
        "" if span.evidence_mass is None else f"evidence mass {span.evidence_mass:.2f}",
        "no evidence" if span.top_passage_index is None else f"best passage {span.top_passage_index + 1}",
        "" if span.margin is None else f"margin {span.margin:.2f}",
        f"not in the passages: {', '.join(span.unmatched_values)}" if span.unmatched_values else "",
    )
    yield f'<p class="facts">{_name(span)} {facts}</p>'
    if span.evidence:
        pieces = (
            f'<li><span class="facts">passage {piece.passage_index + 1}{", title" if piece.in_title else ""}'
            f'{_id(piece.passage_id)}, {piece.score:.2f}:</span> <mark dir="auto">{escape(piece.text)}</mark></li>'
            for piece in span.evidence
        )
        yield f'<ul class="evidence">{"".join(pieces)}</ul>'


def _id(passage_id: str | None) -> str:
    return "" if passage_id is None else f" <bdi>{escape(passage_id)}</bdi>"


def _passage(record: QARecord, index: int, spans: Sequence[SpanEvidence]) -> str:
    passage = record.passages[index]
    name = f'<p class="facts"><b>Passage {index + 1}</b>{_id(passage.passage_id)}</p>'
    title = f'<p class="title" dir="auto">{_marked(passage.title, index, spans, True)}</p>' if passage.title else ""
    text = f'<div dir="auto">{_marked(passage.text, index, spans, False)}</div>'
    return f'<section class="passage">{name}{title}{text}</section>'


def _marked(text: str, passage: int, spans: Sequence[SpanEvidence], in_title: bool) -> str:
    pieces = [
        (piece.chars.char_start, piece.chars.char_end, f"e{_claim(span)}")
        for span in spans
        for piece in span.evidence
        if (piece.passage_index, piece.in_title) == (passage, in_title)
    ]
    return "".join(
        f'<mark class="{" ".join(dict.fromkeys(marks))}">{escape(part)}</mark>' if marks else escape(part)
        for part, marks in cut(text, pieces)
    )


def _claim(span: SpanEvidence) -> int:
    return span.span_index if span.claim_index is None else span.claim_index


def _variables(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_LIT = "background:var(--light);color:var(--light-ink)"
_STYLE = "".join(
    (
        f".attribeam{{{_variables(LIGHT)}color-scheme:light}}",
        f"@media (prefers-color-scheme:dark){{.attribeam{{{_variables(DARK)}color-scheme:dark}}}}",
        f'[data-jp-theme-light="true"] .attribeam,.vscode-light .attribeam{{{_variables(LIGHT)}color-scheme:light}}',
        f'[data-jp-theme-light="false"] .attribeam,.vscode-dark .attribeam{{{_variables(DARK)}color-scheme:dark}}',
        ".attribeam{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--surface);padding:.8rem 1rem;",
        "border:1px solid var(--line);border-radius:10px;max-width:60rem;overflow-wrap:anywhere}",
        ".attribeam p{margin:.3rem 0}.attribeam .question{font-size:1.2rem;font-weight:600}",
        ".attribeam .answer,.attribeam .passage div{white-space:pre-wrap}.attribeam .answer{font-size:1.05rem}",
        ".attribeam .facts{font-size:.85rem;color:var(--soft)}.attribeam .facts b{color:var(--ink)}",
        ".attribeam .seg{text-decoration:underline;text-underline-offset:.28em}",
        ".attribeam .seg.supported{text-decoration-color:var(--supported)}",
        ".attribeam .seg.weak{text-decoration:underline dashed 2.5px var(--weak)}",
        ".attribeam .seg.unsupported{text-decoration:underline wavy var(--unsupported)}",
        ".attribeam .seg.no_claim{text-decoration:none}",
        ".attribeam .seg.not_judged,.attribeam .seg.not_calibrated{text-decoration:underline dotted var(--soft)}",
        ".attribeam b.verdict.supported{color:var(--supported-ink)}.attribeam b.verdict.weak{color:var(--weak-ink)}",
        ".attribeam b.verdict.unsupported{color:var(--unsupported-ink)}",
        ".attribeam s{text-decoration:line-through 2px var(--unsupported);font-weight:600}",
        ".attribeam em{font-style:normal;font-weight:600;color:var(--unsupported-ink)}",
        ".attribeam mark{background:var(--rest);color:inherit;border-radius:3px}",
        ".attribeam details{margin:.4rem 0}.attribeam summary{cursor:pointer}.attribeam .row{margin:.2rem 1rem}",
        ".attribeam .passage{border-top:1px solid var(--line);padding:.4rem 0}.attribeam .title{font-weight:600}",
        ".attribeam ul{margin:.2rem 0;padding-left:1.5rem}",
    )
)
