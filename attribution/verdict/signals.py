"""The signals of the support verdict: what is measured of every content word of an answer, without any model.

The columns say how a word, its clause, its sentence and the whole answer match the passages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from operator import and_
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import ParsedAnswer, words_in
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.verdict.claims import WordKinds
from attribeam.attribution.verdict.fitted_parts import WordTable
from attribeam.attribution.verdict.spellings import passage_spellings
from attribeam.attribution.verdict.texts import (
    MODALS,
    NEGATIONS,
    AnswerWords,
    RowKind,
    carries_content,
    row_kind,
    stem,
    words_and_marks,
)
from attribeam.attribution.verdict.word_matches import (
    CONFLICTS,
    Coverage,
    PassageWords,
    WordMatches,
    field_agreement,
    largest_cosines,
    time_agreement,
)
from attribeam.schemas import CharRange, ClaimKind, Passage, QARecord

_TAGS = ("NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM", "AUX", "PRON", "ADP")
_LIST_ITEM = re.compile(r"(?:^|\n)[^\S\n]*(?:[-*•+]|\d+[.)])[^\S\n]*$")
_ADDING = ("additionally", "also", "furthermore", "moreover")
_CONCLUDING = ("overall", "therefore", "finally", "thus", "in")
_SOURCE_WORDS = frozenset({"passage", "passages", "text", "article", "provided"})
_LONGEST_RUN = 8

_NEIGHBOURS, _FAR_HEAD, _AROUND_CLAUSE, _AROUND_SENTENCE, _NEARBY = 3, 12, 15, 25, 2
"""Distances in words."""

_Column = npt.NDArray[np.generic]
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of one answer.

    Attributes:
        words: the words that are judged, ascending: those with content that are part of a claim.
        names: the name of each column.
        values: float32, (words, columns).
        kind: of the row.
    """

    words: tuple[int, ...]
    names: tuple[str, ...]
    values: npt.NDArray[np.float32]
    kind: RowKind


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer as the verdict reads it: its row, its words, what each of them is, and what values passages repeat."""

    record: QARecord
    words: AnswerWords
    kinds: WordKinds
    matcher: ValueMatcher

    @classmethod
    def of(cls, record: QARecord, parsed: ParsedAnswer, kinds: WordKinds, matcher: ValueMatcher | None = None) -> Self:
        """``matcher`` is one for this answer and its passages, where the caller has it already."""
        matcher = matcher or ValueMatcher(answer=record.answer, parsed=parsed, passages=record.passages)
        spellings = passage_spellings(parsed, record, matcher)
        return cls(record, AnswerWords(parsed, record.answer, kinds.kinds, spellings), kinds, matcher)


def answer_signals(rows: Sequence[AnswerRow], table: WordTable) -> list[Signals]:
    """The signals of the words of some answers, measured at once; ``values`` has no rows where nothing is judged."""
    if not rows:
        return []
    measured = _Measured(rows, table)
    columns = {**measured.of_words(), **measured.of_clauses(), **measured.of_sentences(), **measured.of_answers()}
    values = np.empty((len(measured.judged), len(columns)), dtype=np.float32)
    for index, column in enumerate(columns.values()):
        values[:, index] = column
    ends = np.searchsorted(measured.judged, measured.starts[1:]).tolist()
    words = [
        (part - start).tolist()
        for part, start in zip(np.split(measured.judged, ends[:-1]), measured.starts, strict=False)
    ]
    return [
        Signals(tuple(judged), tuple(columns), of_row, kind)
        for judged, of_row, kind in zip(words, np.split(values, ends[:-1]), measured.kinds, strict=True)
    ]


class _Group:
    """The clauses, sentences or whole answers that words stand in, and how the content words of each match passages.

    Attributes:
        of: int64 [content words], the group of each; ``of_words``, int64 [words], that of every word.
        counts, unseen: of each group, how many content words it has, and how many of these no passage has.
    """

    def __init__(self, of_words: _Ints, count: int, measured: _Measured) -> None:
        self.of_words, self._count, self._measured = of_words, count, measured
        self.of = of_words[measured.content]
        self.counts = np.bincount(self.of, minlength=count)
        self.unseen = self.counts - np.bincount(self.of[measured.seen[measured.content]], minlength=count)
        self.unseen_share = self.unseen / np.maximum(self.counts, 1)
        self._weights = measured.matches.weights[measured.columns[measured.content]]

    @cached_property
    def covered(self) -> Coverage:
        """How well passages cover each group."""
        return self._measured.matches.coverage(self.of, self._measured.columns[self._measured.content], self._count)

    def times_covered(self) -> _Column:
        """In how many of the best sentence of its group and the best two each content word stands."""
        have, columns = self._measured.matches.have, self._measured.columns[self._measured.content]
        best, pair = self.covered.best_sentence[self.of], self.covered.pair_start[self.of]
        in_pair = have(columns, pair) | (have(columns, pair + 1) & (pair >= 0))
        return have(columns, best).astype(np.int64) + in_pair

    def around(self, distance: int) -> _Column:
        """What of its group stands around each content word."""
        return self._measured.matches.shares_around(self.of, self._measured.columns[self._measured.content], distance)

    def mean(self, numbers: npt.NDArray[np.floating[Any]]) -> _Column:
        """The weighted mean of each group over its content words, 1 without any."""
        sums, totals = (np.bincount(self.of, part, self._count) for part in (numbers * self._weights, self._weights))
        return np.where(totals > 0, sums / np.where(totals > 0, totals, 1), 1.0)

    def matched(self) -> dict[str, _Column]:
        """How well passages cover each group, and what they lack of it."""
        cover = self.covered
        best = {"coverage": cover.best, "pair_coverage": cover.pair, "lead": cover.lead}
        return {**best, "unseen_share": self.unseen_share, "unseen": self.unseen}

    def mean_run(self) -> _Column:
        """The mean length of the runs of each group's words."""
        is_word = self._measured.is_word
        runs = np.minimum(self._measured.runs[is_word], _LONGEST_RUN)
        sums, counts = (np.bincount(self.of_words[is_word], part, self._count) for part in (runs, None))
        return np.asarray(sums / np.maximum(counts, 1))

    def count_of(self, which: npt.NDArray[np.bool_]) -> _Ints:
        """How many words of each group are so."""
        return np.bincount(self.of_words[which], minlength=self._count)


class _Measured:
    """Some answers beside their passages; every method gives columns with one number per judged word.

    Words of all answers are counted on, and so are their clauses and sentences.

    Attributes:
        starts: int64 [rows + 1], where the words of each answer begin, and where the last ones end.
        judged, content: int64, the words that are judged, and those with content.
        columns: int64 [words], the column of each word's stem in ``matches``, -1 for a mark.
        is_word, seen, runs: of each word, whether it may state something and is no mark, whether passages have it, and
            the run around it.
    """

    def __init__(self, rows: Sequence[AnswerRow], table: WordTable) -> None:
        self._rows, self._table = rows, table
        answers = [row.words for row in rows]
        self._passages = PassageWords([row.record.passages for row in rows], table, [words.wholes for words in answers])
        stems = [{*compress(words.stems, words.content)} for words in answers]
        self.kinds = [
            row_kind(row.record.question, self._passages.lines_of_texts(number, stems[number]))
            for number, row in enumerate(rows)
        ]
        asked = [words_and_marks(row.record.question, row.words.wholes) for row in rows]
        self._asked_stems = [{*map(stem, words)} for words in asked]
        self._asked = [[*map(stem, filter(carries_content, words))] for words in asked]
        self.starts = np.cumsum([0, *map(len, answers)])
        self._states = _joined([words.states for words in answers], bool)
        self.is_word = _joined([words.is_word for words in answers], bool) & self._states
        self.content = np.flatnonzero(_joined([words.content for words in answers], bool))
        self._lowered = [*chain.from_iterable(words.lowered for words in answers)]
        self._texts = [*chain.from_iterable(words.texts for words in answers)]
        self._stems = [*chain.from_iterable(words.stems for words in answers)]
        self._tags = [*chain.from_iterable(words.parsed.universal_tags for words in answers)]
        are_claims = [kind == ClaimKind.CLAIM for row in rows for kind in row.kinds.kinds]
        self.judged = self.content[np.array(are_claims, dtype=bool)[self.content]]
        self._positions = np.searchsorted(self.content, self.judged)
        self._row_of = np.repeat(np.arange(len(rows)), np.diff(self.starts))
        self._match(answers)
        sentences, clauses = [len(words.bounds) for words in answers], [len(words.clauses) for words in answers]
        self._bounds = [
            (start + int(first), start + int(first_end))
            for words, start in zip(answers, self.starts.tolist(), strict=False)
            for first, first_end in words.bounds
        ]
        self._sentences = _Group(_counted_on([words.sentences for words in answers], sentences), sum(sentences), self)
        self._clauses = _Group(_counted_on([words.clause_of for words in answers], clauses), sum(clauses), self)
        self._answers = _Group(self._row_of, len(rows), self)
        self._row_of_sentence = np.repeat(np.arange(len(rows)), sentences)
        vector_rows = table.rows(self._lowered)[self.content]
        groups = self._sentences, self._clauses
        pairs = [group.covered.pair_start[group.of] for group in groups]
        bounds = np.searchsorted(self.content, self.starts)
        anywhere, beside = largest_cosines(vector_rows, bounds, self._passages, pairs, table)
        self._anywhere = np.where(self.seen[self.content], np.float32(1), anywhere)
        self._in_sentences, self._in_clauses = beside
        lines = self._passages.lines
        read = [*zip(rows, lines, strict=True)]
        self._fields = _joined([field_agreement(row.words, own) for row, own in read], np.int64)
        self._times = _joined([time_agreement(row.words, own, row.record.passages) for row, own in read], np.int64)
        self._field_shares = np.array([sum(line.key is not None for line in own) / max(len(own), 1) for own in lines])
        self._are_items = [_is_list_item(row.words, start) for row in rows for start, _ in row.words.bounds]

    def _match(self, answers: Sequence[AnswerWords]) -> None:
        stems = [[*compress(words.stems, map(and_, words.is_word, words.states))] for words in answers]
        distinct = [dict.fromkeys((*row, *asked)) for row, asked in zip(stems, self._asked, strict=True)]
        self.matches = WordMatches([[*row] for row in distinct], self._passages, self._table)
        columns_of = self.matches.columns_of
        self.columns = np.full(len(self._stems), -1, dtype=np.int64)
        self.columns[self.is_word] = [of[word] for row, of in zip(stems, columns_of, strict=True) for word in row]
        self._asked_columns = _joined(
            [[of[word] for word in row] for row, of in zip(self._asked, columns_of, strict=True)], np.int64
        )
        self.seen = self.is_word & np.append(self.matches.counts, 0)[self.columns].astype(bool)
        self.runs = np.zeros(len(self._stems), dtype=np.int64)
        self.runs[self.is_word] = self.matches.runs(self.columns[self.is_word])

    def of_words(self) -> dict[str, _Column]:
        """What is measured of each word by itself and with its neighbours."""
        words, positions = self.judged, self._positions
        columns, rows, listed = self.columns[words], self._row_of[words], words.tolist()
        texts, stems, tags = ([of[word] for word in listed] for of in (self._texts, self._stems, self._tags))
        pairs = [*zip(listed, rows.tolist(), strict=True)]
        sentence = self._sentences.of
        before, after = (self._neighbours(step) for step in (-1, 1))
        starts = self.starts.tolist()
        ancestors = [(starts[row], self._rows[row].words.content_head(word - starts[row])) for word, row in pairs]
        heads = np.array([-1 if head is None else start + head for start, head in ancestors], dtype=np.int64)
        numbers = {
            "seen": self.seen[words],
            "seen_as_written": self._passages.have(rows, [self._lowered[word] for word in listed]),
            "occurrences": np.log1p(self.matches.counts[columns]),
            "run": self.runs[words],
            "run_nearby": self._runs_nearby(),
            "previous_adjacent": self._near(before, _NEIGHBOURS),
            "next_adjacent": self._near(after, _NEIGHBOURS),
            "head_near": self._near(heads, _FAR_HEAD),
            "clause_around": self._clauses.around(_AROUND_CLAUSE)[positions],
            "sentence_around": self._sentences.around(_AROUND_SENTENCE)[positions],
            "in_sentence_coverage": self._sentences.times_covered()[positions],
            "in_clause_coverage": self._clauses.times_covered()[positions],
            "rarity": self.matches.rarities[columns],
            "letters": [*map(len, texts)],
            "has_digit": [not text.isalpha() and any(map(str.isdigit, text)) for text in texts],
            "is_capitalised": [text[0].isupper() for text in texts],
            "part_of_speech": [_TAGS.index(tag) if tag in _TAGS else len(_TAGS) for tag in tags],
            "unmatched_value": _joined([*map(_are_unmatched, self._rows)], bool)[words],
            "similarity": self._anywhere[positions],
            "similarity_in_sentence": self._in_sentences[positions],
            "similarity_in_clause": self._in_clauses[positions],
            "in_question": [word in self._asked_stems[row] for word, (_, row) in zip(stems, pairs, strict=True)],
            "place_in_sentence": (positions - np.searchsorted(sentence, sentence[positions]))
            / self._sentences.counts[sentence[positions]],
            "previous_seen": (before >= 0) & self.seen[before],
            "next_seen": (after >= 0) & self.seen[after],
            "field_truth": np.where(self._field_shares[rows] > 0, self._field_truths(columns), -1),
            "field_agreement": self._fields[words],
            "time_agreement": self._times[words],
        }
        return {f"word_{name}": np.asarray(column) for name, column in numbers.items()}

    def of_clauses(self) -> dict[str, _Column]:
        """What is measured of each word's clause."""
        group = self._clauses
        numbers = {
            **group.matched(),
            "words": group.count_of(self._states),
            "similarity": group.mean(self._in_clauses),
            "run": group.mean_run(),
        }
        return {f"clause_{name}": column[group.of[self._positions]] for name, column in numbers.items()}

    def of_sentences(self) -> dict[str, _Column]:
        """What is measured of each word's sentence, and where the sentence stands."""
        group, row_of = self._sentences, self._row_of_sentence
        counts = np.bincount(row_of, minlength=len(self._rows))
        position = np.arange(len(row_of)) - (np.cumsum(counts) - counts)[row_of]
        last = counts[row_of] - 1
        shares = group.unseen_share
        bounds, states = self._bounds, self._states
        sentences = [[*compress(self._lowered[start:end], states[start:end])] or [""] for start, end in bounds]
        numbers = {
            **group.matched(),
            "words": group.counts,
            "similarity": group.mean(self._in_sentences),
            "similarity_anywhere": group.mean(self._anywhere),
            "run": group.mean_run(),
            "previous_unseen_share": np.where(position > 0, np.roll(shares, 1), -1),
            "next_unseen_share": np.where(position < last, np.roll(shares, -1), -1),
            "place": position,
            "place_from_end": last - position,
            "relative_place": position / np.maximum(last, 1),
            "is_list_item": self._are_items,
            "modals": [sum(word in MODALS for word in words) for words in sentences],
            "negations": [sum(word in NEGATIONS for word in words) for words in sentences],
            "addresses_reader": ["you" in words or "your" in words for words in sentences],
            "adds": [words[0] in _ADDING for words in sentences],
            "concludes": [words[0] in _CONCLUDING for words in sentences],
            "notes": ["note" in words[:3] or "important" in words[:6] for words in sentences],
            "names_sources": [not _SOURCE_WORDS.isdisjoint(words) for words in sentences],
            "asks": ["?" in words for words in sentences],
            "field_agreement": self._most_of_sentences(self._fields),
            "time_agreement": self._most_of_sentences(self._times),
        }
        return {f"sentence_{name}": np.asarray(column)[group.of[self._positions]] for name, column in numbers.items()}

    def of_answers(self) -> dict[str, _Column]:
        """What is measured of the whole answer, its question and its passages."""
        group, rows = self._answers, self._rows
        kinds = [row.kinds.kinds for row in rows]
        words, passage_words = group.count_of(self._states), np.diff(self._passages.starts)
        sentences = np.array([len(row.words.bounds) for row in rows])
        word_counts = np.maximum(group.count_of(self.is_word), 1)
        fields = np.bincount(self._row_of_sentence, self._most_of_sentences(self._fields), len(rows))
        numbers = {
            "unseen_share": group.unseen_share,
            "unseen": group.unseen,
            "words": words,
            "sentences": sentences,
            "similarity": group.mean(self._anywhere),
            "similarity_in_sentences": group.mean(self._in_sentences),
            "field_share": self._field_shares,
            "passage_words": np.log1p(passage_words),
            "passages": [len(row.record.passages) for row in rows],
            "has_question": [bool(row.record.question.strip()) for row in rows],
            **self._questions(),
            "refuses": [bool(row.kinds.refused) for row in rows],
            "offers": [ClaimKind.OFFER in row_kinds for row_kinds in kinds],
            "discourse_share": [row_kinds.count(ClaimKind.DISCOURSE) / max(len(row_kinds), 1) for row_kinds in kinds],
            **{
                f"copied_{length}": group.count_of(self.is_word & (self.runs >= length)) / word_counts
                for length in (3, 5, 8)
            },
            "list_items": np.bincount(self._row_of_sentence, self._are_items, len(rows)),
            "field_conflicts": group.count_of(self._fields == CONFLICTS),
            "time_conflicts": group.count_of(self._times == CONFLICTS),
            "field_mean": fields / np.maximum(sentences, 1),
            "length_ratio": words / np.maximum(passage_words, 1),
        }
        of_judged = self._row_of[self.judged]
        return {f"answer_{name}": np.asarray(number)[of_judged] for name, number in numbers.items()}

    def _questions(self) -> dict[str, _Column]:
        """How far the passages cover the question, at once or in two sentences, and how far the answer repeats it."""
        columns, matches = self._asked_columns, self.matches
        rows = np.repeat(np.arange(len(self._rows)), [*map(len, self._asked)])
        stems = [frozenset(row.words.stems) for row in self._rows]
        repeated = [word in answer for answer, asked in zip(stems, self._asked, strict=True) for word in asked]
        weights = matches.weights[columns]
        of_seen, of_repeated, total = (
            np.bincount(rows, weights * which, len(self._rows))
            for which in (matches.counts[columns] > 0, np.array(repeated, dtype=bool), True)
        )
        divisor = np.where(total > 0, total, 1)
        numbers = {
            "seen": of_seen / divisor,
            "coverage": matches.coverage(rows, columns, len(self._rows)).pair,
            "repeated": of_repeated / divisor,
        }
        return {f"question_{name}": np.where(total > 0, column, -1) for name, column in numbers.items()}

    def _neighbours(self, step: int) -> _Ints:
        """For each judged word the content word before or behind it in its sentence, -1 where there is none."""
        at = np.clip(self._positions + step, 0, max(len(self.content) - 1, 0))
        sentence = self._sentences.of
        beside = (at != self._positions) & (sentence[at] == sentence[self._positions])
        return np.where(beside, self.content[at], -1)

    def _near(self, others: _Ints, distance: int) -> _Column:
        """Whether the stems of each judged word and of another word stand near each other; -1 without the other."""
        near = self.matches.stand_near(self.columns[self.judged], self.columns[others], distance)
        return np.where(others < 0, -1, near)

    def _runs_nearby(self) -> _Column:
        """The longest run of a word and those beside it; of the words before it only those of its sentence count."""
        starts = np.array([start for start, _ in self._bounds], dtype=np.int64)
        firsts, ends = starts[self._sentences.of_words[self.judged]], self.starts[1:][self._row_of[self.judged]]
        words = self.judged[:, None] + np.arange(-_NEARBY, _NEARBY + 1)
        inside = (words >= firsts[:, None]) & (words < ends[:, None])
        return np.asarray(np.where(inside, self.runs[np.where(inside, words, 0)], 0).max(axis=1))

    def _most_of_sentences(self, numbers: _Ints) -> _Ints:
        return np.maximum.reduceat(numbers, [start for start, _ in self._bounds]) if self._bounds else numbers

    def _field_truths(self, columns: _Ints) -> _Column:
        """What the fields in whose lines each word stands say: 0 to 5, one a mixture, -1 where it stands nowhere."""
        other, yes, no, absent = self.matches.has_truth()[:, columns]
        alone = ~other & ~yes
        mixtures = [alone & no & absent, alone & no, alone & absent, no | absent, yes, other]
        return np.select(mixtures, [4, 2, 3, 5, 1, 0], default=-1)


def _joined(parts: Sequence[Sequence[float] | npt.NDArray[np.bool_]], dtype: type) -> npt.NDArray[Any]:
    return np.concatenate([np.asarray(part, dtype=dtype) for part in parts])


def _counted_on(parts: Sequence[Sequence[int]], counts: Sequence[int]) -> _Ints:
    """Numbers of all parts, those of each behind those of the parts before it."""
    firsts = np.cumsum([0, *counts[:-1]])
    return np.asarray(_joined(parts, np.int64) + np.repeat(firsts, [*map(len, parts)]), dtype=np.int64)


def _are_unmatched(row: AnswerRow) -> npt.NDArray[np.bool_]:
    """Whether each word belongs to a value that neither passages nor question have."""
    answer, question = row.words, row.record.question
    flags = np.zeros(len(answer), dtype=bool)
    if not answer.answer:
        return flags
    everything = CharRange(0, len(answer.answer))
    unmatched = row.matcher.unmatched_ranges(everything, ())
    if question.strip():
        unmatched = row.matcher.with_passage(Passage(question)).unmatched_ranges(everything, ())
    for chars in unmatched:
        words = words_in(answer.parsed, chars)
        flags[words.start : words.stop] = True
    return flags


def _is_list_item(answer: AnswerWords, start: int) -> bool:
    first = answer.parsed.words[start].char_start
    line = answer.answer[max(0, first - 12) : first]
    return _LIST_ITEM.search(line) is not None or re.fullmatch(r"[-*•+]|\d+", answer.texts[start]) is not None
