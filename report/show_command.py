"""Print one record of an audit: an answer with its claims, evidence and passages, or a dead letter."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, audited_answers
from attribeam.report.audited_logs import TEXTS_HELP, AuditedLogs
from attribeam.report.messages import Messages, harmless, one_line, print_styled
from attribeam.report.privacy import with_texts
from attribeam.report.terminal_text import Mark, line_ranges, marked_lines
from attribeam.schemas import AnswerKind, ClaimKind, EvidencePiece, QARecord, SpanEvidence, Support
from attribeam.schemas.errors import RunError, UsageError

_STYLES = {
    Support.NO_CLAIM: "dim",
    Support.NOT_JUDGED: "dim",
    Support.NOT_CALIBRATED: "underline",
    Support.SUPPORTED: "cyan",
    Support.WEAK: "yellow underline",
    Support.UNSUPPORTED: "bold red underline",
}
"""How spans look, from what matters least to what matters most."""

_LETTERS = {
    Support.SUPPORTED: "s",
    Support.WEAK: "w",
    Support.UNSUPPORTED: "U",
    Support.NO_CLAIM: "-",
    Support.NOT_JUDGED: "?",
    Support.NOT_CALIBRATED: "c",
}
_EVIDENCE = "cyan underline"
_HEADING = "bold"
_QUIET = "dim"
_LONGEST = 240
_MARGIN = "  "
_LEGEND = (
    "s supported, w weak, U unsupported, - no claim, ? not judged; "
    "a number names the span that starts there; the worst is on top"
)


@dataclass(frozen=True, slots=True)
class AnswerView:
    """How to show an answer: lines of at most ``width`` cells, at most ``max_pieces`` of evidence per span.

    Spans that are no claims are shown with ``all_spans``, and where an answer has no claim.
    """

    width: int
    max_pieces: int
    all_spans: bool = False

    def lines(self, answer: AuditedAnswer, texts: QARecord | None) -> Iterator[Text]:
        """All lines; without ``texts``, only what the evidence holds. Nothing in them can control the terminal."""
        claims = {number: span for number, span in enumerate(answer.spans, start=1) if span.is_claim}
        spans = dict(enumerate(answer.spans, start=1)) if self.all_spans or not claims else claims
        yield from self._head(answer)
        if texts is not None:
            yield from self._block("Question", texts.question, ())
            yield from self._block("Answer", texts.answer, _answer_marks(spans))
            yield Text(_MARGIN + _LEGEND, style=_QUIET)
        yield from self._spans(spans, len(claims), len(answer.spans))
        if texts is not None:
            yield from self._passages(spans, texts)

    def _head(self, answer: AuditedAnswer) -> Iterator[Text]:
        yield Text(one_line(answer.record_id), style=_HEADING)
        yield Text(f"{_MARGIN}{one_line(answer.source.source_file)}, row {answer.source.source_row}")
        moment = None if answer.answered_at is None else answer.answered_at.strftime("%Y-%m-%d %H:%M:%S UTC")
        facts = [("answered", moment), ("generator", answer.generator), *answer.extra_columns]
        known = [f"{name}: {value}" for name, value in facts if value is not None]
        if known:
            yield Text(_MARGIN + one_line(" | ".join(known)))
        if verdict := _answer_verdict(answer):
            yield Text(_MARGIN + verdict)

    def _block(self, title: str, text: str, marks: Sequence[Mark]) -> Iterator[Text]:
        yield Text()
        yield Text(title, style=_HEADING)
        for line in marked_lines(text, marks, width=self.width - len(_MARGIN)):
            yield Text(_MARGIN).append_text(line.text)
            if line.letters:
                yield Text(_MARGIN + line.letters, style=_QUIET)

    def _spans(self, spans: Mapping[int, SpanEvidence], claims: int, count: int) -> Iterator[Text]:
        yield Text()
        title = f"Spans ({count}, of which {claims} are claims)"
        if len(spans) < count:
            title = f"Claims ({claims}; see all {count} spans with --all-spans)"
        yield Text(title, style=_HEADING)
        for number, span in spans.items():
            yield from self._span(number, span)

    def _span(self, number: int, span: SpanEvidence) -> Iterator[Text]:
        label = Text(f"{_MARGIN}{number:>3} {_LETTERS[span.support]} ")
        label.append(f"{span.support:<15}", style=_STYLES[span.support])
        label.append(f"{span.span_kind:<10}{_score(span)}{_mass(span)}  ")
        yield label.append(_cut(span.text), style=_STYLES[span.support])
        if about := _claim(span):
            yield Text(f"{_MARGIN}        {about}", style=_QUIET)
        if span.is_claim and span.why:
            yield Text(f"{_MARGIN}        {one_line(span.why)}", style=_STYLES[span.support])
        if span.unmatched_values:
            values = ", ".join(one_line(value) for value in span.unmatched_values)
            yield Text(f"{_MARGIN}        not in the passages: ").append(values, style=_STYLES[Support.UNSUPPORTED])
        if span.is_claim and span.cited_passages:
            numbers = ", ".join(str(index + 1) for index in span.cited_passages)
            agrees = "" if span.citation_agrees else ", evidence lies elsewhere"
            yield Text(f"{_MARGIN}        cites passage {numbers}{agrees}", style=_QUIET)
        rest = len(span.evidence) - self.max_pieces
        for number, piece in enumerate(span.evidence[: self.max_pieces], start=1):
            more = f" (+{rest}, see --evidence)" if rest > 0 and number == self.max_pieces else ""
            line = Text(f"{_MARGIN}        {_place(piece)} ").append(_cut(piece.text), style="cyan")
            yield line.append(more, style=_QUIET)
        if not span.evidence:
            yield Text(f"{_MARGIN}        no evidence", style=_QUIET)

    def _passages(self, spans: Mapping[int, SpanEvidence], texts: QARecord) -> Iterator[Text]:
        for index, passage in enumerate(texts.passages):
            name = f"Passage {index + 1}" + ("" if passage.passage_id is None else f" ({one_line(passage.passage_id)})")
            yield from self._block(name, passage.text, _passage_marks(spans, index, in_title=False))
            if passage.title:
                yield from self._block(
                    f"Title of passage {index + 1}", passage.title, _passage_marks(spans, index, in_title=True)
                )


def _answer_marks(spans: Mapping[int, SpanEvidence]) -> list[Mark]:
    ranks = list(_STYLES)
    return [
        Mark(
            span.chars.char_start,
            span.chars.char_end,
            _LETTERS[span.support],
            _STYLES[span.support],
            rank=ranks.index(span.support),
            label=str(number),
        )
        for number, span in spans.items()
    ]


def _passage_marks(spans: Mapping[int, SpanEvidence], index: int, *, in_title: bool) -> list[Mark]:
    """One mark per piece of evidence in the text or title of a passage, labelled with the span's number."""
    return [
        Mark(piece.chars.char_start, piece.chars.char_end, "^", _EVIDENCE, label=str(number))
        for number, span in spans.items()
        for piece in span.evidence
        if (piece.passage_index, piece.in_title) == (index, in_title)
    ]


def _answer_verdict(answer: AuditedAnswer) -> str:
    """What the answer is, if it does not just answer; its risk; what of it is not judged. Empty for a plain answer."""
    risk = answer.spans[0].answer_risk
    parts = [
        "" if answer.kind is AnswerKind.ANSWER else f"kind of answer: {answer.kind}",
        "" if risk is None else f"risk {risk:.2f}",
        f"not judged: {', '.join(answer.not_judged)}" if answer.not_judged else "",
    ]
    return " | ".join(part for part in parts if part)


def _claim(span: SpanEvidence) -> str:
    """Why a span is no claim, or whose verdict it takes; empty for a claim."""
    if span.claim_kind is not ClaimKind.CLAIM:
        return f"no claim: {span.claim_kind}" if span.support is Support.NO_CLAIM else f"{span.claim_kind}"
    return (
        f"within the claim of span {span.claim_index + 1}" if span.claim_index is not None and not span.is_claim else ""
    )


def _score(span: SpanEvidence) -> str:
    return "" if span.support_score is None else f"score {span.support_score:.2f}, "


def _mass(span: SpanEvidence) -> str:
    return "" if span.evidence_mass is None else f"{span.evidence_mass:>5.0%} of attention on evidence"


def _place(piece: EvidencePiece) -> str:
    return f"passage {piece.passage_index + 1}{', title' if piece.in_title else ''} {piece.score:.2f}"


def _cut(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def dead_letter_lines(letter: Mapping[str, object], *, width: int) -> Iterator[Text]:
    """Why the row was refused; its answer where the audit kept it."""
    yield Text(one_line(str(letter["record_id"])), style="bold")
    yield Text(f"  {one_line(str(letter['source_file']))}, row {letter['source_row']}")
    yield Text()
    yield Text("  dead letter: ").append(f"{letter['reason']}", style="bold red").append(f" at stage {letter['stage']}")
    yield from _paragraph(str(letter["message"]), width)
    if letter["answer"] is not None:
        yield Text()
        yield Text("Answer", style="bold")
        yield from _paragraph(str(letter["answer"]), width)


def _paragraph(text: str, width: int) -> Iterator[Text]:
    shown = harmless(text)
    for start, end in line_ranges(shown, width - 2):
        yield Text(f"  {shown[start:end]}")


_DEFAULT_PIECES = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam show``."""
    parser.add_argument("record_id", metavar="RECORD_ID", help="id of the row in its log")
    parser.add_argument("--audit", required=True, metavar="DIR", help="output directory of the audit, or its URI")
    parser.add_argument(
        "--evidence", type=_piece_count, default=_DEFAULT_PIECES, metavar="N",
        help="pieces of evidence to print per span (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--all-spans", action="store_true", help="also print spans within claims, and what claims nothing"
    )
    parser.add_argument("--texts", action="store_true", help=TEXTS_HELP)


def run(arguments: argparse.Namespace) -> None:
    """Print every answer and dead letter of the id.

    Raises:
        UsageError: if there is none.
        RunError: if a file cannot be read.
    """
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        audit = AuditDirectory.open(arguments.audit)
        logs = AuditedLogs.of(audit, texts=arguments.texts)
        view = AnswerView(console.width, arguments.evidence, arguments.all_spans)
        lines = list(record_lines(audit, logs, arguments.record_id, view))
    except (OSError, pa.ArrowException) as error:
        raise RunError(str(error)) from error
    with console.capture() as styled:
        for line in lines:
            console.print(line, soft_wrap=True)
    print_styled(styled.get())
    if audit.incomplete:
        Messages("attribeam show").say(audit.incomplete)


def record_lines(audit: AuditDirectory, logs: AuditedLogs, record_id: str, view: AnswerView) -> Iterator[Text]:
    """All lines about one id, as it is in the log or masked in the audit; several rows may have it.

    Raises:
        UsageError: if the audit has no such id.
        RunError, OSError, pyarrow.ArrowException: if a file cannot be read.
    """
    record_id = logs.masked(record_id)
    answers = list(audited_answers(audit.evidence_of([record_id])))
    letters = audit.dead_letters_of(record_id)
    if not answers and not letters.num_rows:
        raise UsageError(_unknown_id_message(audit, record_id))
    yield from _answer_lines(logs, answers, view)
    for number, letter in enumerate(letters.to_pylist()):
        if answers or number:
            yield Text()
        yield from dead_letter_lines(letter, width=view.width)


def _answer_lines(logs: AuditedLogs, answers: list[AuditedAnswer], view: AnswerView) -> Iterator[Text]:
    rows = frozenset(answer.source for answer in answers)
    texts = {text.source: text for text in logs.answers(rows)}
    for number, answer in enumerate(answers):
        if number:
            yield Text()
        text = texts.get(answer.source)
        yield from view.lines(with_texts(answer, text), text)
    for problem in logs.problems(rows):
        yield Text(f"Question, answer and passages are not shown: {one_line(problem)}", style="bold")


def _unknown_id_message(audit: AuditDirectory, record_id: str) -> str:
    near = nearest_ids(audit, record_id)
    hint = f"the nearest are: {', '.join(one_line(name) for name in near)}" if near else "it has no records"
    lacks = f"the audit {audit.root!r} has no record {record_id!r}; {hint}"
    return f"{audit.incomplete}, and {lacks}" if audit.incomplete else lacks


def _piece_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"should be a whole number of at least 0, was: {text!r}")
    return int(text)


_MAX_COMPARED = 20_000


def nearest_ids(audit: AuditDirectory, wanted: str, *, count: int = 5) -> list[str]:
    """Up to ``count`` ids that resemble ``wanted``, most similar first; if none does, the first ids of the audit.

    First come ids that differ in leading zeros and case only: qa-9 means qa-009. A single slip leaves one half of an id
    intact, so of the others only those that share a half are compared, at most 20,000 of them.
    """
    same = islice(_distinct_ids(_ids_of_the_same_numbers(audit, wanted)), count)
    alike = list(islice(_distinct_ids(_ids_sharing_a_half(audit, wanted)), _MAX_COMPARED))
    found = dict.fromkeys([*same, *get_close_matches(wanted, alike, n=count, cutoff=0.5)])
    return list(islice(found or _distinct_ids(_id_columns(audit)), count))


def _id_columns(audit: AuditDirectory) -> Iterator[pa.Array]:
    for batch in audit.dead_letter_batches(["record_id"]):
        yield batch.column("record_id")
    for batch in audit.evidence_batches(["record_id"]):
        yield batch.column("record_id")


def _ids_of_the_same_numbers(audit: AuditDirectory, wanted: str) -> Iterator[pa.Array]:
    (meant,) = _without_leading_zeros(pa.array([wanted]))
    for ids in _id_columns(audit):
        yield ids.filter(pc.equal(_without_leading_zeros(ids), meant))


def _without_leading_zeros(ids: pa.Array) -> pa.Array:
    """The ids in lower case, ``qa-009`` as ``qa-9``."""
    return pc.replace_substring_regex(pc.utf8_lower(ids), r"(^|[^0-9])0+([0-9])", r"\1\2")


def _ids_sharing_a_half(audit: AuditDirectory, wanted: str) -> Iterator[pa.Array]:
    half = (len(wanted) + 1) // 2
    for ids in _id_columns(audit):
        alike = pc.or_(pc.starts_with(ids, wanted[:half]), pc.ends_with(ids, wanted[half:]))
        yield ids.filter(alike)


def _distinct_ids(arrays: Iterator[pa.Array]) -> Iterator[str]:
    seen: set[str] = set()
    for ids in arrays:
        for name in pc.unique(ids.drop_null()).to_pylist():
            if name not in seen:
                seen.add(name)
                yield name
