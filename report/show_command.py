"""Print one record of an audit: an answer with its claims, evidence and passages, or a dead letter."""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, groupby, islice

import pyarrow as pa
import pyarrow.compute as pc
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import TEXTS_HELP, AuditedAnswer, AuditedLogs, audited_answers, with_texts
from attribeam.report.messages import Messages, harmless, one_line, print_harmless
from attribeam.schemas import AnswerKind, CharRange, ClaimKind, QARecord, SpanEvidence, Support
from attribeam.schemas.errors import RunError, UsageError

_LOOKS = {
    Support.NO_CLAIM: ("-", "dim"),
    Support.NOT_JUDGED: ("?", "dim"),
    Support.NOT_CALIBRATED: ("c", "underline"),
    Support.SUPPORTED: ("s", "cyan"),
    Support.WEAK: ("w", "yellow underline"),
    Support.UNSUPPORTED: ("U", "bold red underline"),
}
"""Letters and styles of spans, from what matters least to what matters most."""

_HEADING = "bold"
_QUIET = "dim"
_LONGEST = 240
_MARGIN = "  "
_INDENT = _MARGIN + " " * 8
_LEGEND = (
    "s supported, w weak, U unsupported, - no claim, ? not judged; "
    "a number names the span that starts there; the worst is on top"
)
_MAX_COMPARED = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam show``."""
    parser.add_argument("record_id", metavar="RECORD_ID", help="id of the row in its log")
    parser.add_argument("--audit", required=True, metavar="DIR", help="output directory of the audit, or its URI")
    parser.add_argument(
        "--evidence", type=_piece_count, default=1, metavar="N",
        help="pieces of evidence to print per span (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--all-spans", action="store_true", help="also print spans within claims, and what claims nothing"
    )
    parser.add_argument("--texts", action="store_true", help=TEXTS_HELP)


def _piece_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"should be a whole number of at least 0, was: {text!r}")
    return int(text)


def run(arguments: argparse.Namespace) -> None:
    """Print every answer and dead letter of the id.

    Raises ``UsageError`` if there is none; ``RunError`` if a file cannot be read.
    """
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        audit = AuditDirectory.open(arguments.audit)
        logs = AuditedLogs.of(audit, texts=arguments.texts)
        view = AnswerView(console.width, arguments.evidence, arguments.all_spans)
        lines = list(_record_lines(audit, logs, logs.redactor.mask(arguments.record_id), view))
    except (OSError, pa.ArrowException) as error:
        raise RunError(str(error)) from error
    with console.capture() as styled:
        for line in lines:
            console.print(line, soft_wrap=True)
    print_harmless(styled.get())
    if audit.incomplete:
        Messages("attribeam show").say(audit.incomplete)


def _record_lines(audit: AuditDirectory, logs: AuditedLogs, record_id: str, view: AnswerView) -> Iterator[Text]:
    answers = list(audited_answers(audit.evidence_of([record_id])))
    letters = audit.dead_letters_of(record_id).to_pylist()
    if not answers and not letters:
        near = nearest_ids(audit, record_id)
        hint = f"the nearest are: {', '.join(map(one_line, near))}" if near else "it has no records"
        lacks = f"the audit {audit.root!r} has no record {record_id!r}; {hint}"
        raise UsageError(f"{audit.incomplete}, and {lacks}" if audit.incomplete else lacks)
    rows = frozenset(answer.source for answer in answers)
    texts = {text.source: text for text in logs.answers(rows)}
    for number, answer in enumerate(answers):
        if number:
            yield Text()
        text = texts.get(answer.source)
        yield from view.lines(with_texts(answer, text), text)
    for problem in logs.problems(rows):
        yield Text(f"Question, answer and passages are not shown: {one_line(problem)}", style=_HEADING)
    for number, letter in enumerate(letters):
        if answers or number:
            yield Text()
        yield from view.dead_letter_lines(letter)


@dataclass(frozen=True, slots=True)
class AnswerView:
    """How to show an answer: lines of at most ``width`` cells, at most ``max_pieces`` of evidence per span.

    Spans that are no claims are shown with ``all_spans``, and where an answer has no claim.
    """

    width: int
    max_pieces: int
    all_spans: bool = False

    def dead_letter_lines(self, letter: Mapping[str, object]) -> Iterator[Text]:
        """Why the row was refused; its answer where the audit kept it."""
        yield Text(one_line(str(letter["record_id"])), style=_HEADING)
        yield Text(f"{_MARGIN}{one_line(str(letter['source_file']))}, row {letter['source_row']}")
        yield Text()
        reason = Text(f"{_MARGIN}dead letter: ").append(f"{letter['reason']}", "bold red")
        yield reason.append(f" at stage {letter['stage']}")
        yield from self._paragraphs(str(letter["message"]))
        if letter["answer"] is not None:
            yield from self._block("Answer", str(letter["answer"]))

    def lines(self, answer: AuditedAnswer, texts: QARecord | None) -> Iterator[Text]:
        """All lines; without ``texts``, only what the evidence holds. Nothing in them can control the terminal."""
        claims = {number: span for number, span in enumerate(answer.spans, start=1) if span.is_claim}
        spans = dict(enumerate(answer.spans, start=1)) if self.all_spans or not claims else claims
        yield from _head(answer)
        if texts is not None:
            ranks = list(_LOOKS)
            verdicts = [
                Mark(span.chars, *_LOOKS[span.support], rank=ranks.index(span.support), label=str(number))
                for number, span in spans.items()
            ]
            yield from self._block("Question", texts.question)
            yield from self._block("Answer", texts.answer, verdicts)
            yield Text(_MARGIN + _LEGEND, style=_QUIET)
        yield Text()
        title = f"Spans ({len(answer.spans)}, of which {len(claims)} are claims)"
        if len(spans) < len(answer.spans):
            title = f"Claims ({len(claims)}; see all {len(answer.spans)} spans with --all-spans)"
        yield Text(title, style=_HEADING)
        for number, span in spans.items():
            yield from self._span(number, span)
        # Each piece of evidence is marked, in the text or the title of a passage, with the span's number.
        marks: defaultdict[tuple[int, bool], list[Mark]] = defaultdict(list)
        for number, span in spans.items():
            for piece in span.evidence:
                mark = Mark(piece.chars, "^", "cyan underline", label=str(number))
                marks[piece.passage_index, piece.in_title].append(mark)
        for index, passage in enumerate(() if texts is None else texts.passages):
            name = f"Passage {index + 1}" + ("" if passage.passage_id is None else f" ({one_line(passage.passage_id)})")
            yield from self._block(name, passage.text, marks[index, False])
            if passage.title:
                yield from self._block(f"Title of passage {index + 1}", passage.title, marks[index, True])

    def _block(self, title: str, text: str, marks: Sequence[Mark] = ()) -> Iterator[Text]:
        yield Text()
        yield Text(title, style=_HEADING)
        yield from self._paragraphs(text, marks)

    def _paragraphs(self, text: str, marks: Sequence[Mark] = ()) -> Iterator[Text]:
        for line, letters in marked_lines(text, marks, width=self.width - len(_MARGIN)):
            yield Text(_MARGIN).append_text(line)
            if letters:
                yield Text(_MARGIN + letters, style=_QUIET)

    def _span(self, number: int, span: SpanEvidence) -> Iterator[Text]:
        letter, style = _LOOKS[span.support]
        label = Text(f"{_MARGIN}{number:>3} {letter} ").append(f"{span.support:<15}", style)
        score = "" if span.support_score is None else f"score {span.support_score:.2f}, "
        mass = "" if span.evidence_mass is None else f"{span.evidence_mass:>5.0%} of attention on evidence"
        yield label.append(f"{span.span_kind:<10}{score}{mass}  ").append(_cut(span.text), style)
        if span.claim_kind is not ClaimKind.CLAIM:
            why_none = "no claim: " if span.support is Support.NO_CLAIM else ""
            yield Text(f"{_INDENT}{why_none}{span.claim_kind}", style=_QUIET)
        elif span.claim_index is not None and not span.is_claim:
            yield Text(f"{_INDENT}within the claim of span {span.claim_index + 1}", style=_QUIET)
        if span.is_claim and span.why:
            yield Text(_INDENT + one_line(span.why), style=style)
        if span.unmatched_values:
            values = ", ".join(map(one_line, span.unmatched_values))
            yield Text(f"{_INDENT}not in the passages: ").append(values, _LOOKS[Support.UNSUPPORTED][1])
        if span.is_claim and span.cited_passages:
            numbers = ", ".join(str(index + 1) for index in span.cited_passages)
            agrees = "" if span.citation_agrees else ", evidence lies elsewhere"
            yield Text(f"{_INDENT}cites passage {numbers}{agrees}", style=_QUIET)
        rest = len(span.evidence) - self.max_pieces
        for number, piece in enumerate(span.evidence[: self.max_pieces], start=1):
            more = f" (+{rest}, see --evidence)" if rest > 0 and number == self.max_pieces else ""
            position = f"passage {piece.passage_index + 1}{', title' if piece.in_title else ''} {piece.score:.2f}"
            yield Text(f"{_INDENT}{position} ").append(_cut(piece.text), "cyan").append(more, _QUIET)
        if not span.evidence:
            yield Text(f"{_INDENT}no evidence", style=_QUIET)


def _head(answer: AuditedAnswer) -> Iterator[Text]:
    """Id, place, what is known of the answer, and its verdict; no line for what a plain answer lacks."""
    yield Text(one_line(answer.record_id), style=_HEADING)
    yield Text(f"{_MARGIN}{one_line(answer.source.source_file)}, row {answer.source.source_row}")
    facts = [("answered", answer.moment), ("generator", answer.generator), *answer.extra_columns]
    risk = answer.spans[0].answer_risk
    verdict = [
        "" if answer.kind is AnswerKind.ANSWER else f"kind of answer: {answer.kind}",
        "" if risk is None else f"risk {risk:.2f}",
        f"not judged: {', '.join(answer.not_judged)}" if answer.not_judged else "",
    ]
    for parts in ([f"{name}: {value}" for name, value in facts if value is not None], verdict):
        if line := " | ".join(filter(None, parts)):
            yield Text(_MARGIN + one_line(line))


def _cut(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


# Texts are broken into lines, each with a row of letters below it that shows what is marked. Offsets stay valid, as
# each character that could steer the terminal is replaced by one other.


@dataclass(frozen=True, slots=True)
class Mark:
    """Marks a range of a text with a letter and a style, and its start with ``label``; the larger ``rank`` shows."""

    chars: CharRange
    letter: str
    style: str
    rank: int = 0
    label: str = ""


def marked_lines(text: str, marks: Sequence[Mark], *, width: int) -> Iterator[tuple[Text, str]]:
    """The styled lines of ``text``, at most ``width`` cells wide, and the letters below each, empty if none is."""
    shown = harmless(text)
    seen: list[Mark | None] = [None] * len(shown)
    for mark in sorted(marks, key=lambda mark: (mark.rank, mark.chars.char_start)):
        start, end = mark.chars.char_start, min(mark.chars.char_end, len(shown))
        seen[start:end] = [mark] * (end - start)
    letters = _letters(shown, seen, marks)
    for start, end in line_ranges(shown, width):
        line = Text(shown[start:end])
        for top, indices in groupby(range(start, end), key=seen.__getitem__):
            run = list(indices)
            if top is not None:
                line.stylize(top.style, run[0] - start, run[-1] - start + 1)
        yield line, "".join(letters[start:end]).rstrip()


def line_ranges(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Half-open ranges of the lines, broken between words; white space at a break and line feeds are in none."""
    line = 0
    for paragraph in text.split("\n"):
        end = line + len(paragraph)
        for word in re.compile(r"\S+\s*|\s+").finditer(text, line, end):
            word_end = word.start() + len(word.group().rstrip())
            if line < word.start() and _end_of_fit(text, line, word_end, width) < word_end:
                yield line, line + len(text[line : word.start()].rstrip())
                line = word.start()
            while (cut := _end_of_fit(text, line, word_end, width)) < word_end:
                yield line, cut
                line = cut
        yield line, line + len(text[line:end].rstrip())
        line = end + 1


def _end_of_fit(text: str, start: int, end: int, width: int) -> int:
    """The end of the longest part of ``[start, end)`` that fits; at least one character."""
    cells = 0
    for index in range(start, end):
        cells += cell_len(text[index])
        if cells > width and index > start:
            return index
    return end


def _letters(text: str, seen: Sequence[Mark | None], marks: Sequence[Mark]) -> list[str]:
    """What stands below each character, as wide as it is; labels at the starts of marks that have room for them."""
    letters = [(mark.letter if mark else " ") * cell_len(char) for char, mark in zip(text, seen, strict=True)]
    taken: set[int] = set()
    for mark in marks:
        below = range(mark.chars.char_start, mark.chars.char_start + len(mark.label))
        narrow = all(cell_len(text[index]) == 1 for index in below if index < len(text))
        if mark.label and below.stop < min(mark.chars.char_end, len(text)) and narrow and taken.isdisjoint(below):
            taken.update(below)
            letters[below.start : below.stop] = list(mark.label)
    return letters


def nearest_ids(audit: AuditDirectory, wanted: str, *, count: int = 5) -> list[str]:
    """Up to ``count`` ids that resemble ``wanted``, most similar first; if none does, the first ids of the audit.

    First come ids that differ in leading zeros and case only: qa-9 means qa-009. A single slip leaves one half of an id
    intact, so of the others only those that share a half are compared, at most 20,000 of them.
    """

    def without_leading_zeros(ids: pa.Array) -> pa.Array:
        return pc.replace_substring_regex(pc.utf8_lower(ids), r"(^|[^0-9])0+([0-9])", r"\1\2")

    def distinct(ids: pa.Array) -> dict[str, None]:
        return dict.fromkeys(pc.unique(ids).to_pylist())

    half = (len(wanted) + 1) // 2
    (meant,) = without_leading_zeros(pa.array([wanted]))
    same: dict[str, None] = {}
    alike: dict[str, None] = {}
    first: dict[str, None] = {}
    for batch in chain(audit.dead_letter_batches(["record_id"]), audit.evidence_batches(["record_id"])):
        ids = batch["record_id"].drop_null()
        same |= distinct(ids.filter(pc.equal(without_leading_zeros(ids), meant)))
        if len(alike) < _MAX_COMPARED:
            alike |= distinct(ids.filter(pc.or_(pc.starts_with(ids, wanted[:half]), pc.ends_with(ids, wanted[half:]))))
        if len(first) < count:
            first |= distinct(ids)
    near = get_close_matches(wanted, islice(alike, _MAX_COMPARED), n=count, cutoff=0.5)
    return list(islice({**dict.fromkeys(islice(same, count)), **dict.fromkeys(near)} or first, count))
