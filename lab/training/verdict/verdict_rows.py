"""Judged answers as rows for the verdict: signals of their words, and what a person marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS, choose_target_spans
from attribeam.attribution.verdict.claim_kinds import word_kinds
from attribeam.attribution.verdict.claims import answer_claims
from attribeam.attribution.verdict.signals import Signals, answer_signals
from attribeam.attribution.verdict.word_table import WordTable
from attribeam.schemas import CharRange
from attribeam.schemas.labelled_answer import JudgedAnswer

_ANSWERS_PER_BATCH = 64


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One judged answer that claims something.

    Attributes:
        record_id: of the answer.
        signals: of its words.
        marked_words: bool (words,), True where a person marked the word.
        mark_sizes: for each word how many words the marked range has that it stands in, 1 outside marks.
        claims: the words of each claim, as indices of the answer's words.
        chars: the characters of each word.
        is_marked: whether a person marked anything.
        source: what the answer was made from; answers of one source stay in one fold.
        group: the part of the data set, such as a task.
        generator: what gave the answer.
        states: float16 (words, size), the words' hidden states in a decoder, None without one.
    """

    record_id: str
    signals: Signals
    marked_words: npt.NDArray[np.bool_]
    mark_sizes: npt.NDArray[np.int64]
    claims: tuple[tuple[int, ...], ...]
    chars: tuple[CharRange, ...]
    is_marked: bool
    source: str
    group: str
    generator: str
    states: npt.NDArray[np.float16] | None = None

    def only(self, names: Sequence[str]) -> VerdictRow:
        """The row with only those signals; numbers that the regressions read by name stay, as zeros."""
        kept = np.array([name in names for name in self.signals.names])
        return replace(self, signals=replace(self.signals, values=np.where(kept, self.signals.values, 0)))

    @property
    def letters(self) -> npt.NDArray[np.int64]:
        """How many characters each word has."""
        return np.array([one.char_end - one.char_start for one in self.chars], dtype=np.int64)

    @property
    def marked_claims(self) -> npt.NDArray[np.bool_]:
        """For each claim whether one of its words is marked."""
        marked = {word for word, mark in zip(self.signals.words, self.marked_words, strict=True) if mark}
        return np.array([not marked.isdisjoint(words) for words in self.claims], dtype=bool)


def verdict_rows(answers: Sequence[JudgedAnswer], parser: AnswerParser, table: WordTable) -> Iterator[VerdictRow]:
    """The rows of those answers that claim something, in order; shows a progress bar in a terminal."""
    with tqdm(total=len(answers), unit="answer", disable=None, leave=False) as bar:
        for start in range(0, len(answers), _ANSWERS_PER_BATCH):
            some = answers[start : start + _ANSWERS_PER_BATCH]
            records = [one.record for one in some]
            parses = parser.parse_many([one.answer for one in records], [one.passages for one in records])
            for answer, parsed in zip(some, parses, strict=True):
                row = _row(answer, parsed, table)
                if row.signals.words:
                    yield row
            bar.update(len(some))


def _row(answer: JudgedAnswer, parsed: ParsedAnswer, table: WordTable) -> VerdictRow:
    record = answer.record
    kinds = word_kinds(parsed, record)
    signals = answer_signals(record, parsed, kinds, table)
    spans = choose_target_spans(parsed, record.answer, kinds=DEFAULT_SPAN_KINDS, given=None)
    claims = answer_claims(parsed, record.answer, spans, kinds).spans
    chars = [parsed.words[word] for word in signals.words]
    sizes = np.ones(len(chars), dtype=np.int64)
    marked = np.zeros(len(chars), dtype=bool)
    for mark in answer.unsupported or ():
        inside = np.array([one.overlaps(mark.chars) for one in chars], dtype=bool)
        marked |= inside
        sizes[inside] = np.maximum(sizes[inside], inside.sum())
    return VerdictRow(
        record_id=record.record_id,
        signals=signals,
        marked_words=marked,
        mark_sizes=sizes,
        claims=tuple(one.words for index, one in enumerate(claims) if one.claim_index == index),
        chars=tuple(chars),
        is_marked=bool(answer.unsupported),
        source="\n".join([record.question, *(passage.text for passage in record.passages)]),
        group=answer.group or "",
        generator=record.generator or "",
    )
