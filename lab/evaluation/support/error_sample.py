"""A sample of an audit's errors on judged answers.

Errors of an audit on judged answers, and the kinds of them that code can decide.

Write a readable sample of an audit's errors on judged answers, for people to sort by kind.

``python -m attribeam.lab.evaluation.support.error_sample`` draws false alarms and misses at random and writes them as
Markdown: the answer with the claim and people's marks, its evidence and scores, and the kinds that code can decide.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.option_types import BUNDLED_VERDICT_NAME, positive_integer, whole_number
from attribeam.attribution.options import ATTN_UNION_DEP, UNIONS
from attribeam.attribution.verdict import discourse_phrases
from attribeam.attribution.verdict.refusal_phrases import refusals
from attribeam.attribution.verdict.verbatim import LiteralIndex
from attribeam.lab.evaluation.datasets.loaders import JUDGED_LOADERS
from attribeam.lab.evaluation.measures.bootstrap import FOLDS_FILE
from attribeam.lab.evaluation.support.judged_answers import audited_records
from attribeam.lab.evaluation.support.judged_parts import judged_parts, visible
from attribeam.lab.evaluation.support.unseen_words import content_words, is_unseen, word_beginnings
from attribeam.lab.markdown_table import markdown_table
from attribeam.report.messages import CommandParser, Messages, print_lines
from attribeam.schemas import CharRange, EvidencePiece, Passage, QARecord, RowFault, SpanEvidence, Support
from attribeam.schemas.errors import AttribeamError, DataError, ExitCode, RunError, UsageError
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor


class ErrorKind(StrEnum):
    """What is in the text of an error; several may apply."""

    VALUES = "values"
    """A digit, or a value that the audit found unmatched."""
    UNSEEN_WORDS = "unseen words"
    """A content word whose beginning no passage has."""
    NEGATION = "negation"
    DISCOURSE = "discourse"
    """Words about the answer or its sources, or a refusal."""
    LITERAL = "literal"
    """All of it stands in one passage, word for word."""
    SHORT = "short"
    """At most two words."""
    RECORDS = "records"
    """A passage of the answer consists of lines ``name: value``."""
    PROSE = "prose"
    """No passage does."""


@dataclass(frozen=True, slots=True)
class AuditError:
    """One error: a claim that was called unsupported and is not, or marked text that was not called.

    Attributes:
        answer: the judged answer.
        chars: the claim, or the marked range; the whole answer where people judged it as a whole.
        spans: the evidence of the claim, or of every span that reaches into the marked range.
        kinds: what is in its text.
    """

    answer: JudgedAnswer
    chars: CharRange
    spans: tuple[SpanEvidence, ...]
    kinds: frozenset[ErrorKind]


def false_alarms(answer: JudgedAnswer, found: Sequence[SpanEvidence]) -> Iterator[AuditError]:
    """The claims that the audit calls unsupported and people did not mark."""
    claims = judged_parts(answer, found).claims
    supported = {part.chars for part in claims if not _is_unsupported(part.is_marked, answer)}
    for span in found:
        if span.is_claim and span.support is Support.UNSUPPORTED and span.chars in supported:
            yield AuditError(answer, span.chars, (span,), _kinds(answer, span.chars, (span,)))


def _is_unsupported(mark: bool | None, answer: JudgedAnswer) -> bool:
    return not answer.is_supported if mark is None else mark


def misses(answer: JudgedAnswer, found: Sequence[SpanEvidence]) -> Iterator[AuditError]:
    """The marked ranges of which less than half of the visible characters are called unsupported.

    Where people judged the answer as a whole, it is missed if it is unsupported and nothing in it is called so.
    """
    text = answer.record.answer
    called = visible((span.chars for span in found if span.support is Support.UNSUPPORTED), text)
    if answer.unsupported is None:
        missed = [CharRange(0, len(text))] if not (answer.is_supported or called) else []
    else:
        missed = [one.chars for one in answer.unsupported if _is_missed(visible([one.chars], text), called)]
    for chars in missed:
        spans = tuple(span for span in found if span.chars.overlaps(chars))
        yield AuditError(answer, chars, spans, _kinds(answer, chars, ()))


def _is_missed(own: frozenset[int], called: frozenset[int]) -> bool:
    return 2 * len(own & called) < len(own)


_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|\w+n['’]t)\b", re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
_RECORD_LINE = re.compile(r"[^\s:][^:\n]{0,60}: ?\S")
_SHORTEST_CLAIM = 3


def _kinds(answer: JudgedAnswer, chars: CharRange, spans: Sequence[SpanEvidence]) -> frozenset[ErrorKind]:
    text, passages = chars.of(answer.record.answer), answer.record.passages
    beginnings = _beginnings(passages)
    decided = {
        ErrorKind.VALUES: bool(_DIGIT.search(text)) or any(span.unmatched_values for span in spans),
        ErrorKind.UNSEEN_WORDS: any(is_unseen(word.of(text), beginnings) for word in content_words(text)),
        ErrorKind.NEGATION: bool(_NEGATION.search(text)),
        ErrorKind.DISCOURSE: any(True for _ in _discourse(text)),
        ErrorKind.LITERAL: bool(_literal(passages).literal_passages(text)),
        ErrorKind.SHORT: len(text.split()) < _SHORTEST_CLAIM,
        ErrorKind.RECORDS: any(_is_record(passage) for passage in passages),
        ErrorKind.PROSE: not any(_is_record(passage) for passage in passages),
    }
    return frozenset(kind for kind, applies in decided.items() if applies)


def _discourse(text: str) -> Iterable[tuple[int, int]]:
    yield from discourse_phrases.openings(text)
    yield from discourse_phrases.leads(text)
    yield from discourse_phrases.announcements(text)
    yield from refusals(text)


def _is_record(passage: Passage) -> bool:
    lines = [line for line in passage.text.splitlines() if line.strip()]
    return len(lines) > 1 and 2 * sum(bool(_RECORD_LINE.match(line)) for line in lines) > len(lines)


@lru_cache(maxsize=8)
def _beginnings(passages: tuple[Passage, ...]) -> frozenset[str]:
    return word_beginnings(passages)


@lru_cache(maxsize=8)
def _literal(passages: tuple[Passage, ...]) -> LiteralIndex:
    return LiteralIndex(passages)


_SPLIT = "test"
_AROUND = 80
_MOST_PIECES = 5
_CLAIM_MARKS = ("⟦", "⟧")
_PEOPLE_MARKS = ("⟨", "⟩")
_LEGEND = (
    f"{_CLAIM_MARKS[0]} {_CLAIM_MARKS[1]} enclose the error, {_PEOPLE_MARKS[0]} {_PEOPLE_MARKS[1]} what people marked. "
    "Write a kind behind each `label:`."
)


def collect_errors(
    dataset: JudgedDataset, attributor: Attributor
) -> tuple[tuple[AuditError, ...], tuple[AuditError, ...]]:
    """All false alarms and all misses of an audit, in the data set's order; rows that it refuses have none."""
    alarms: list[AuditError] = []
    missed: list[AuditError] = []
    for index, outcome in audited_records([answer.record for answer in dataset.answers], attributor):
        if not isinstance(outcome, RowFault):
            alarms += false_alarms(dataset.answers[index], outcome)
            missed += misses(dataset.answers[index], outcome)
    return tuple(alarms), tuple(missed)


def sample(errors: Sequence[AuditError], count: int, *, seed: int) -> list[AuditError]:
    """``count`` errors drawn at random, all if there are fewer, in their order. Deterministic."""
    chosen = random.Random(seed).sample(range(len(errors)), min(count, len(errors)))
    return [errors[place] for place in sorted(chosen)]


def error_document(title: str, sections: Sequence[tuple[str, Sequence[AuditError], Sequence[AuditError]]]) -> str:
    """The Markdown text; each section is a name, all of its errors and the sample of them."""
    parts = [f"# {title}", _LEGEND]
    for name, everything, chosen in sections:
        parts += [f"## {name}: {len(chosen)} of {len(everything)}", _kind_table(everything, chosen)]
        parts += [_entry(number, error) for number, error in enumerate(chosen, start=1)]
    return "\n\n".join(parts) + "\n"


def _kind_table(everything: Sequence[AuditError], chosen: Sequence[AuditError]) -> str:
    rows = []
    for kind in ErrorKind:
        cells: list[str] = [str(kind)]
        for errors in (everything, chosen):
            count = sum(kind in error.kinds for error in errors)
            cells += [str(count), f"{100 * count / len(errors):.1f}" if errors else ""]
        rows.append(cells)
    return markdown_table(("kind, several may apply", "all", "%", "sample", "%"), rows)


def _entry(number: int, error: AuditError) -> str:
    record = error.answer.record
    head = [record.record_id, error.answer.group, record.generator]
    lines = [f"### {number}. {', '.join(one for one in head if one)}"]
    if record.question:
        lines.append(f"question: {_one_line(record.question)}")
    lines.append(f"answer: {_one_line(_marked_answer(error))}")
    lines += [line for span in error.spans for line in _span_lines(record, span)] or ["no audited span is here"]
    if error.answer.faithfulness is not None:
        lines.append(f"mean grade: {error.answer.faithfulness:.2f}")
    lines.append(f"kinds: {', '.join(kind for kind in ErrorKind if kind in error.kinds)}")
    return "\n".join(f"- {line}" if place else f"{line}\n" for place, line in enumerate([*lines, "label:"]))


def _marked_answer(error: AuditError) -> str:
    """The answer, from two windows before the error to two behind it, with marks."""
    text, chars = error.answer.record.answer, error.chars
    start, end = max(0, chars.char_start - 4 * _AROUND), min(len(text), chars.char_end + 4 * _AROUND)
    marks = [(chars, _CLAIM_MARKS), *((one.chars, _PEOPLE_MARKS) for one in error.answer.unsupported or ())]
    places = [(one.char_start, opening) for one, (opening, _) in marks]
    places += [(one.char_end, closing) for one, (_, closing) in marks]
    parts, last = [], start
    for place, mark in sorted(places, key=_place):
        if start <= place <= end:
            parts += [text[last:place], mark]
            last = place
    return ("... " if start else "") + "".join([*parts, text[last:end]]) + (" ..." if end < len(text) else "")


def _place(mark: tuple[int, str]) -> tuple[int, bool]:
    """Marks in the order of their places; where one range ends and another begins, the end comes first."""
    place, sign = mark
    return place, sign in (_CLAIM_MARKS[0], _PEOPLE_MARKS[0])


def _span_lines(record: QARecord, span: SpanEvidence) -> Iterator[str]:
    scores = [f"{span.span_kind} span {_quoted(span.text)}: {span.support}"]
    for name, value in (
        ("mass", span.evidence_mass),
        ("margin", span.margin),
        ("support score", span.support_score),
        ("answer risk", span.answer_risk),
    ):
        scores += [] if value is None else [f"{name} {value:.3f}"]
    scores += [f"unmatched {_quoted(', '.join(span.unmatched_values))}"] if span.unmatched_values else []
    yield ", ".join(scores)
    best = sorted(span.evidence, key=lambda piece: -piece.score)[:_MOST_PIECES]
    for piece in best:
        yield f"evidence {piece.score:.3f}, passage {piece.passage_index + 1}: {_in_context(record, piece)}"


def _in_context(record: QARecord, piece: EvidencePiece) -> str:
    passage = record.passages[piece.passage_index]
    text, chars = (passage.title or "") if piece.in_title else passage.text, piece.chars
    start, end = max(0, chars.char_start - _AROUND), min(len(text), chars.char_end + _AROUND)
    before, after = text[start : chars.char_start], text[chars.char_end : end]
    return _one_line(f"{before}{_CLAIM_MARKS[0]}{chars.of(text)}{_CLAIM_MARKS[1]}{after}")


def _quoted(text: str) -> str:
    return f'"{_one_line(text)}"'


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        _run(_arguments(arguments))
    except AttribeamError as error:
        Messages("error_sample").say(str(error))
        return error.exit_code
    return ExitCode.DONE


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m attribeam.lab.evaluation.support.error_sample", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--dataset", required=True, choices=[*JUDGED_LOADERS], help="which judged data set")
    parser.add_argument(
        "--data", required=True, type=Path, metavar="PATH", help="its file, or a directory of its files"
    )
    parser.add_argument("--false-alarms", type=whole_number, default=100, metavar="N", help="how many (default: 100)")
    parser.add_argument("--misses", type=whole_number, default=100, metavar="N", help="how many (default: 100)")
    parser.add_argument("--seed", type=whole_number, default=0, help="seed of the draw (default: 0)")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE.md", help="the file to write")
    parser.add_argument("--limit", type=positive_integer, metavar="N", help="only the first N answers")
    parser.add_argument("--model", default="bundled", help="bundled, a hub id or a directory (default: bundled)")
    parser.add_argument("--parser", default="bundled", help="bundled, a spaCy pipeline or a directory")
    parser.add_argument("--method", choices=UNIONS, default=ATTN_UNION_DEP)
    parser.add_argument("--threads", type=positive_integer, help="CPU threads of torch")
    verdict = parser.add_mutually_exclusive_group()
    verdict.add_argument("--verdict", default=BUNDLED_VERDICT_NAME, help="bundled, mass or a directory")
    verdict.add_argument(
        "--fold-verdicts", type=Path, metavar="DIR",
        help="output of attribeam train verdict --cross-validate: a verdict judges only answers that it never saw",
    )  # fmt: skip
    return parser.parse_args(arguments)


def _run(args: argparse.Namespace) -> None:
    if args.output.is_dir() or not args.output.parent.is_dir():
        raise UsageError(f"--output should be a file in an existing directory, was: {args.output}")
    dataset = JUDGED_LOADERS[args.dataset](args.data).of_split(_SPLIT)
    if not dataset.answers:
        raise DataError(f"data {args.data} should have answers with labels of support, has none")
    dataset = dataset if args.limit is None else dataset.first(args.limit)
    alarms, missed = _collect(dataset, args)
    text = error_document(
        f"Errors of {args.method} on {len(dataset.answers)} answers of {args.dataset}",
        [
            ("False alarms", alarms, sample(alarms, args.false_alarms, seed=args.seed)),
            ("Misses", missed, sample(missed, args.misses, seed=args.seed)),
        ],
    )
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"--output {args.output} could not be written: {error}") from error
    print_lines(f"{len(alarms)} false alarms, {len(missed)} misses; sample written to {args.output}")


def _collect(dataset: JudgedDataset, args: argparse.Namespace) -> tuple[tuple[AuditError, ...], tuple[AuditError, ...]]:
    if args.fold_verdicts is None:
        return collect_errors(dataset, _attributor(args, args.verdict))
    folds = _folds(args.fold_verdicts)
    alarms: tuple[AuditError, ...] = ()
    missed: tuple[AuditError, ...] = ()
    for fold in sorted(set(folds.values())):
        some = tuple(one for one in dataset.answers if folds.get(one.record.record_id) == fold)
        found = collect_errors(JudgedDataset(some), _attributor(args, str(args.fold_verdicts / str(fold))))
        alarms, missed = alarms + found[0], missed + found[1]
    return alarms, missed


def _folds(directory: Path) -> dict[str, int]:
    file = directory / FOLDS_FILE
    try:
        return {str(name): int(fold) for name, fold in json.loads(file.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(
            f"--fold-verdicts should be an output of attribeam train verdict --cross-validate, but {file}: {error}"
        ) from error


def _attributor(args: argparse.Namespace, verdict: str) -> Attributor:
    from attribeam.attribution.attributor import Attributor

    try:
        return Attributor.from_pretrained(
            args.model,
            parser=args.parser,
            spans=DEFAULT_SPAN_KINDS,
            threads=args.threads,
            method=args.method,
            verdict=verdict,
        )
    except (OSError, ValueError) as error:
        raise RunError(f"model or parser could not be loaded: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
