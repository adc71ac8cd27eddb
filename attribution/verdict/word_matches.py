"""How the words of an answer match its passages: where their stems stand, how alike words are, fields and times.

A match is a place of the passages where a stem of the answer stands. From the table of all matches follow runs of
words, neighbours, and the sentences that cover clauses and sentences of the answer best.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count, pairwise, repeat, starmap

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import words_in
from attribeam.attribution.answers.plain_text import clock_times_in, remembered
from attribeam.attribution.verdict.fitted_parts import EVERY_WORD_COUNTS, WordTable
from attribeam.attribution.verdict.texts import (
    LONGEST_TITLE,
    WEEKDAYS,
    AnswerWords,
    RecordLine,
    Truth,
    Wholes,
    end_sentence,
    read_sentences,
    record_lines,
    stem,
    wholes_in,
    words_and_marks,
)
from attribeam.schemas import CharRange, Passage

_SENTENCE_ENDS = frozenset(".!?;")
_MOST_PLACES_NEAR, _MOST_PLACES_OF_A_RUN, _MOST_PLACES_AROUND = 50, 200, 30
_FARTHEST = 64
"""No distance between words is larger."""
UNKNOWN = -0.5
"""The similarity of a word without a vector; vectors that have nothing in common have 0, opposite ones -1."""
_MOST_COSINES = 2**23
"""The largest table of cosines that is kept, 32 MB; beyond it they are computed where they are asked for."""

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]
_Cosines = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _TextWords:
    """The words and marks of one title or text, in lower case, which end sentences, and each part's line and length."""

    lines: tuple[RecordLine, ...]
    words: tuple[str, ...]
    ends: tuple[bool, ...]
    part_lines: tuple[int, ...]
    lengths: tuple[int, ...]


@remembered
def _text_words(text: str, wholes: Wholes) -> _TextWords:
    lines = tuple(record_lines(text))
    if any(line.key is not None for line in lines):
        by_line = [(*words_and_marks(line.text, wholes), *line.joined_names) for line in lines]
        parts = [*enumerate(by_line)]
    else:
        parts = [(sentence.line, sentence.words) for sentence in read_sentences(text, wholes)]
    words = tuple(map(str.lower, chain.from_iterable(part for _, part in parts)))
    ends = tuple(chain.from_iterable(_ends(part) for _, part in parts))
    return _TextWords(lines, words, ends, tuple([index for index, _ in parts]), tuple([len(part) for _, part in parts]))


def _ends(words: Sequence[str]) -> Iterator[bool]:
    """Which of the words and marks of a part end a sentence; the full stop of "J. Ray" and "Dr. Ray" does not."""
    if "." not in words[:-1]:
        yield from map(_SENTENCE_ENDS.__contains__, words)
        return
    before = ""  # up to a full stop that ends no sentence, such as that of "p" in "p.m."
    for earlier, word, following in zip(
        ["", "", *words][: len(words)], words, [*words[1:], ""][: len(words)], strict=True
    ):
        is_letter_behind = before[-1:] == "." and len(word) == 1 and all(len(part) < 2 for part in before.split("."))
        before = (before + word)[-LONGEST_TITLE:] if word == "." or is_letter_behind else word
        is_end = word in _SENTENCE_ENDS
        yield is_end and (word != "." or not following or end_sentence(before, following, earlier.lower()))


class PassageWords:
    """All words and marks of the passages of some rows, titles included, in one sequence.

    Attributes:
        starts: int64 [rows + 1], where the words of each row begin, and where the last ones end.
        row_of: the row of each word.
        numbers, stem_numbers: the number of each different word in lower case, and of each different stem.
        words, stems: the numbers of each word and of its stem.
        sentences: the sentence that each word stands in, ascending; a line of a record is one. They are counted from 1,
            up to below ``sentence_count``, and no two rows have successive ones.
        first_sentences: int64 [rows], below those of each row.
        truths: what the field says in whose line each word stands, a ``Truth``.
        vector_rows: of each different word its row in the table of vectors, -1 for function words and unknown words.
        lines: for each row the lines of all its passages.
    """

    def __init__(
        self, rows: Sequence[Sequence[Passage]], table: WordTable, wholes: Iterable[Wholes] = repeat(())
    ) -> None:
        """``wholes`` are the whole words of the answer of each row."""
        texts = [
            [
                _text_words(text, wholes_in(text, of_row))
                for passage in row
                for text in (passage.title or "", passage.text)
            ]
            or [_text_words("", ())]
            for row, of_row in zip(rows, wholes, strict=False)
        ]
        self.lines = [[line for text in row for line in text.lines] for row in texts]
        self._texts = [[*zip(row[::2], row[1::2], strict=False)] for row in texts]
        every = [*chain.from_iterable(texts)]
        counts = [sum([len(text.words) for text in row]) for row in texts]
        self.starts = np.cumsum([0, *counts])
        self.row_of = np.repeat(np.arange(len(rows)), counts)
        self.numbers, self.words = _numbered(chain.from_iterable(text.words for text in every), sum(counts))
        self.stem_numbers, stems = _numbered(map(stem, self.numbers), len(self.numbers))
        self.stems = stems[self.words]
        self.vector_rows = table.rows(self.numbers)
        is_word = [word == "_" or word[:1].isalnum() for word in self.stem_numbers]
        self.is_word = np.array(is_word, dtype=bool)[self.stems]
        lengths = [count for text in every for count in text.lengths]
        truths = [text.lines[line].truth for text in every for line in text.part_lines]
        self.truths = np.repeat(np.array(truths, dtype=np.int64), lengths)
        borders = [len(text.lines) + 1 + (text is row[-1]) for row in texts for text in row]
        firsts = [*accumulate(borders, initial=0)]
        lines = [first + line + 1 for text, first in zip(every, firsts, strict=False) for line in text.part_lines]
        ends = np.fromiter(chain.from_iterable(text.ends for text in every), np.int64, sum(counts))
        ended = np.append(0, np.cumsum(ends))
        self.sentences = np.repeat(np.array(lines, dtype=np.int64), lengths) + ended[:-1]
        self.sentence_count = firsts[-1] + int(ended[-1])
        first_texts = np.cumsum([0, *map(len, texts[:-1])])
        self.first_sentences = np.array(firsts)[first_texts] + ended[self.starts[:-1]]

    def lines_of_texts(self, row: int, stems: set[str]) -> list[RecordLine]:
        """The lines of a row's texts, without titles, that speak of the same as these stems.

        Those are the texts that have with their title at least half as many of the stems as the one that has most.
        """
        texts = self._texts[row]
        if not any(line.key for _, text in texts for line in text.lines):
            return [line for _, text in texts for line in text.lines]
        shared = [len(stems.intersection(map(stem, (*title.words, *text.words)))) for title, text in texts]
        most = max(shared)
        return [line for (_, text), size in zip(texts, shared, strict=True) if 2 * size >= most for line in text.lines]

    def have(self, rows: _Ints, words: Sequence[str]) -> _Bools:
        """Whether the passages of each row have a word, which is in lower case."""
        present = np.zeros((len(self.starts) - 1, len(self.numbers) + 1), dtype=bool)
        present[self.row_of, self.words] = True
        return present[rows, np.fromiter(map(self.numbers.get, words, repeat(-1)), np.int64, len(words))]


def _numbered(words: Iterable[str], length: int) -> tuple[dict[str, int], _Ints]:
    """The number of each different word, in their order, and the numbers of all of these ``length`` words."""
    numbers = defaultdict[str, int](count().__next__)
    return numbers, np.fromiter(map(numbers.__getitem__, words), np.int64, length)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How well one passage sentence covers each of some groups of words; shares are of the words' weights.

    Attributes:
        best: share that the best sentence has, 1 for a group without words.
        pair: share that the best two successive sentences have.
        lead: by how much the best sentence leads the second.
        best_sentence, pair_start: that sentence and the first of these two; -1 where nothing matches.
    """

    best: _Floats
    pair: _Floats
    lead: _Floats
    best_sentence: _Ints
    pair_start: _Ints


class WordMatches:
    """Where some stems stand in the passages of their rows.

    Groups of words are given as two arrays, [words]: the group of each word, and its column, the place of its stem
    among those of all rows. Sums run in the order of the words.

    Attributes:
        columns_of: for each row the column of each stem.
        counts: int64 [stems], how often each stands there.
        rarities: float64 [stems], the inverse document frequency of each.
        weights: float64 [stems], what each counts in a share: its rarity plus one half.
    """

    def __init__(self, stems: Sequence[Sequence[str]], passages: PassageWords, table: WordTable) -> None:
        """``stems`` are the distinct ones of each row."""
        every = [*chain.from_iterable(stems)]
        firsts = accumulate(map(len, stems), initial=0)
        numbered = (enumerate(row, first) for row, first in zip(stems, firsts, strict=False))
        self.columns_of = [{text: column for column, text in row} for row in numbered]
        row_of = np.repeat(np.arange(len(stems)), [len(row) for row in stems])
        column_of = np.full((len(stems), len(passages.stem_numbers) + 1), -1)
        number_of = np.fromiter(map(passages.stem_numbers.get, every, repeat(-1)), np.int64, len(every))
        column_of[row_of, number_of] = np.arange(len(every))
        columns = column_of[passages.row_of, passages.stems]
        positions = np.flatnonzero(columns >= 0)
        self._positions = positions[np.argsort(columns[positions], kind="stable")]
        of = columns[self._positions]
        self.counts = np.bincount(of, minlength=len(every))
        self.rarities = np.array([*map(table.rarity, every)], dtype=np.float64)
        self.weights = self.rarities + EVERY_WORD_COUNTS
        self._starts = np.cumsum(self.counts) - self.counts
        self._ranks = np.cumsum(passages.is_word)[self._positions] + row_of[of]
        self._truths = of, passages.truths[self._positions]
        self._apart = len(passages.stems) + _FARTHEST
        self._keys = of * self._apart + self._positions
        self._sentence_count = passages.sentence_count
        self._first_sentences = passages.first_sentences[row_of]
        self._cells = np.unique(of * self._sentence_count + passages.sentences[self._positions])
        of_cells, self._cell_sentences = np.divmod(self._cells, self._sentence_count)
        self._cell_counts = np.bincount(of_cells, minlength=len(every))
        self._cell_starts = np.cumsum(self._cell_counts) - self._cell_counts
        is_mark = np.array([len(text) == 1 and not text.isdigit() for text in every], dtype=bool)
        self._told_cells = self._cells[~is_mark[of_cells]]

    def have(self, columns: _Ints, sentences: _Ints) -> _Bools:
        """Whether each sentence has the stem; none has a mark, and there is no sentence -1."""
        wanted = columns * self._sentence_count + sentences
        is_told = np.append(self._told_cells, -1)[np.searchsorted(self._told_cells, wanted)] == wanted
        return np.asarray(is_told & (sentences >= 0), dtype=bool)

    def has_truth(self) -> _Bools:
        """bool [4, stems]: whether each stem stands in a line of each ``Truth``."""
        of, truths = self._truths
        flags = np.zeros((4, len(self.counts)), dtype=bool)
        flags[truths, of] = True
        return flags

    def coverage(self, groups: _Ints, columns: _Ints, count: int) -> Coverage:
        """The passage sentences that share the most with each of ``count`` groups."""
        words, cells = ragged(self._cell_starts[columns], self._cell_counts[columns])
        keys = groups[words] * self._sentence_count + self._cell_sentences[cells]
        keys, of_words = np.unique(keys, return_inverse=True)
        shared = np.bincount(of_words, self.weights[columns[words]]).astype(np.float64, copy=False)
        follows = np.append(keys[1:] == keys[:-1] + 1, False)[: len(keys)]
        pairs = shared + np.where(follows, np.append(shared[1:], 0.0)[: len(keys)], 0.0)
        of_keys, sentences = np.divmod(keys, self._sentence_count)
        best, most = self._first_best(of_keys, sentences, shared, groups, columns, count)
        pair, _ = self._first_best(of_keys, sentences, pairs, groups, columns, count)
        in_pair = self.have(columns, pair[groups]) | (self.have(columns, pair[groups] + 1) & (pair[groups] >= 0))
        weights = self.weights[columns]
        covered, total = (np.bincount(groups, part, count) for part in (weights * in_pair, weights))
        ranked = np.lexsort((shared, of_keys))
        ends = np.cumsum(np.bincount(of_keys, minlength=count))
        has_second = np.diff(ends, prepend=0) > 1
        second = np.zeros(count)
        second[has_second] = shared[ranked[ends[has_second] - 2]]
        empty, divisor = total == 0, np.where(total == 0, 1, total)
        return Coverage(
            best=np.where(empty, 1, most / divisor),
            pair=np.where(empty, 1, covered / divisor),
            lead=(most - second) / divisor,
            best_sentence=best,
            pair_start=pair,
        )

    def _first_best(
        self, of_keys: _Ints, sentences: _Ints, shared: _Floats, groups: _Ints, columns: _Ints, count: int
    ) -> tuple[_Ints, _Floats]:
        """For each group its sentence with the most, of equal ones the one whose words come first, and its share.

        It is -1 where a group has none; ``of_keys`` are the groups of the sentences.
        """
        most, chosen = np.zeros(count), np.full(count, -1)
        np.maximum.at(most, of_keys, shared)
        best = np.flatnonzero(shared == most[of_keys])
        chosen[of_keys[best]] = sentences[best]
        repeated = np.bincount(of_keys[best], minlength=count) > 1
        equal = defaultdict[int, set[int]](set)
        for cell in best[repeated[of_keys[best]]].tolist():
            equal[int(of_keys[cell])].add(int(sentences[cell]))
        tied = repeated[groups]
        for group, column in zip(groups[tied].tolist(), columns[tied].tolist(), strict=True):
            start, first = self._cell_starts[column], int(self._first_sentences[column])
            offsets = self._cell_sentences[start : start + self._cell_counts[column]] - first
            # of equal sentences the first counts as a set of their numbers in the row is ordered
            of_word = (first + offset for offset in set(offsets.tolist()) if first + offset in equal[group])
            if (sentence := next(of_word, None)) is not None:
                chosen[group] = sentence
                equal[group] = set()
        return chosen, most

    def stand_near(self, first: _Ints, second: _Ints, distance: int) -> _Bools:
        """Whether the two stems of each pair stand anywhere within ``distance`` words of each other."""
        pairs, matches = self._matches_of(first, _MOST_PLACES_NEAR)
        near = self._is_near(self._positions[matches], second[pairs], distance)
        return np.asarray(np.bincount(pairs[near], minlength=len(first)) > 0, dtype=bool)

    def shares_around(self, groups: _Ints, columns: _Ints, distance: int) -> _Floats:
        """For each word the largest weighted share of its group's others within ``distance`` words of its stem.

        It is -1 for a word that is alone, and a stem that the group has twice is one of its others.
        """
        count = int(groups.max(initial=-1)) + 1
        order = np.argsort(groups, kind="stable")
        keys = (groups * len(self.counts) + columns)[order]
        _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
        by_first = np.argsort(firsts)
        entry_of = np.empty_like(by_first)
        entry_of[by_first] = np.arange(len(by_first))
        entry_of_word = np.empty_like(order)
        entry_of_word[order] = entry_of[inverse]
        group_of, column_of = (part[order][firsts[by_first]] for part in (groups, columns))
        weights = np.bincount(entry_of_word[order], self.weights[columns[order]], len(by_first))
        sizes = np.bincount(group_of, minlength=count)
        entries, matches = self._matches_of(column_of, _MOST_PLACES_AROUND)
        windows, others = ragged((np.cumsum(sizes) - sizes)[group_of[entries]], sizes[group_of[entries]])
        near = self._is_near(self._positions[matches][windows], column_of[others], distance)
        around = np.bincount(windows, weights[others] * near, len(entries))
        largest = np.zeros(len(by_first))
        np.maximum.at(largest, entries, around)
        own, total = self.weights[column_of], np.bincount(group_of, weights, count)[group_of]
        alone = (np.bincount(groups, minlength=count) == 1)[group_of]
        shares = np.maximum(largest - own, 0) / np.where(alone, 1, total - own)
        return np.asarray(np.where(alone, -1, shares)[entry_of_word], dtype=np.float64)

    def runs(self, columns: _Ints) -> _Ints:
        """For each of successive words the length, in words, of the longest run around it that some passage repeats."""
        words, matches = self._matches_of(columns, _MOST_PLACES_OF_A_RUN)
        diagonals = self._ranks[matches] - words
        order = np.lexsort((words, diagonals))
        words, diagonals = words[order], diagonals[order]
        begins = np.ones(len(words), dtype=bool)
        begins[1:] = (diagonals[1:] != diagonals[:-1]) | (words[1:] != words[:-1] + 1)
        at = np.arange(len(words))
        ending = np.zeros(len(columns), dtype=np.int64)
        np.maximum.at(ending, words, at - np.maximum.accumulate(np.where(begins, at, 0)) + 1)
        ends = np.flatnonzero(np.append((ending[1:] != ending[:-1] + 1) | (ending[:-1] == 0), True))
        return np.asarray(ending[ends[np.searchsorted(ends, np.arange(len(ending)))]] if len(ending) else ending)

    def _matches_of(self, columns: _Ints, most: int) -> tuple[_Ints, _Ints]:
        """The first ``most`` matches of each column: to which of the columns each belongs, and its place."""
        return ragged(self._starts[columns], np.minimum(self.counts[columns], most))

    def _is_near(self, positions: _Ints, columns: _Ints, distance: int) -> _Bools:
        """Whether the stem stands within ``distance`` words of the place."""
        first = columns * self._apart + positions - distance
        index = np.searchsorted(self._keys, first)
        within = np.append(self._keys, np.iinfo(np.int64).max)[index] <= first + 2 * distance
        return np.asarray(within, dtype=bool)


def ragged(starts: _Ints, counts: _Ints) -> tuple[_Ints, _Ints]:
    """The numbers of all ranges ``[start, start + count)`` one after the other, and the range of each."""
    owners = np.repeat(np.arange(len(counts)), counts)
    return owners, np.arange(len(owners)) + (starts - np.cumsum(counts) + counts)[owners]


def largest_cosines(
    rows: _Ints, starts: _Ints, passages: PassageWords, pair_starts: Sequence[_Ints], table: WordTable
) -> tuple[_Cosines, list[_Cosines]]:
    """How close the words of answers, given by their rows in the table of vectors, come to those of their passages.

    The words of each answer begin at one of the ``starts``, and the last of these is their end.

    Returns:
        For each word its largest cosine with any word of the passages of its row, 0 for an unknown word. And for each
        of some ``pair_starts``, int64 [words], that with a word of these two successive sentences; -1 without any.
    """
    vector_rows = passages.vector_rows[passages.words]
    pairs = np.stack([(start, start + 1) for start in pair_starts])
    is_asked = np.zeros(passages.sentence_count + 1, dtype=bool)
    is_asked[pairs] = True
    asked = np.flatnonzero((vector_rows >= 0) & is_asked[passages.sentences])
    sentences = passages.sentences[asked]
    runs = np.flatnonzero(np.diff(sentences, prepend=-1))
    run_of = np.full(passages.sentence_count + 1, -1)
    run_of[sentences[runs]] = np.arange(len(runs))
    pair_runs = run_of[pairs]
    borders = (passages.starts, starts, *(np.searchsorted(part, passages.starts) for part in (asked, asked[runs])))
    anywhere = np.zeros(len(rows), dtype=np.float32)
    beside = np.full((len(pair_starts), len(rows)), -np.inf, dtype=np.float32)
    for told, answer, ask, run in zip(*(starmap(slice, pairwise(part.tolist())) for part in borders), strict=True):
        is_told = np.zeros(len(table.vectors) + 1, dtype=bool)
        is_told[vector_rows[told]] = True
        known = np.flatnonzero(is_told[:-1])
        if not len(known):
            continue
        columns = np.searchsorted(known, vector_rows[asked[ask]])
        vectors = table.vectors[known].T
        at_once = max(1, _MOST_COSINES // max(len(known), len(columns)))
        for start in range(answer.start, answer.stop, at_once):
            words = slice(start, min(start + at_once, answer.stop))
            cosines = np.full((words.stop - start, len(known)), UNKNOWN, dtype=np.float32)
            cosines[rows[words] >= 0] = table.vectors[rows[words][rows[words] >= 0]] @ vectors
            anywhere[words] = cosines.max(axis=1)
            if len(columns):
                of_runs = np.maximum.reduceat(cosines[:, columns], runs[run] - ask.start, axis=1)
                wanted = pair_runs[..., words]
                largest = of_runs[np.arange(len(of_runs)), np.maximum(wanted - run.start, 0)]
                beside[:, words] = np.where(wanted >= 0, largest, -np.inf).max(axis=1)
    anywhere[rows < 0] = 0
    beside[np.isinf(beside)] = -1
    beside[(pairs[:, 0] < 0) & (rows < 0)] = UNKNOWN
    return anywhere, [*beside]


UNTOLD, AGREES, CONFLICTS, ABSENT = -1, 0, 1, 2
"""Of a word: no field is about it, a field says the same, a field says the opposite, the field has no value."""

_ORDER = (AGREES, ABSENT, CONFLICTS)
_HOURS = re.compile(r"(\d{1,2}):(\d{1,2})(?::\d\d)?\s*-\s*(\d{1,2}):(\d{1,2})")
_DAY = "|".join(WEEKDAYS)
_DAYS = re.compile(rf"\b({_DAY})s?\s*(to|through|until|and|&|-|–|—)\s*({_DAY})s?\b", re.IGNORECASE)
_EVERY_DAY = re.compile(
    r"\b(?:seven|7) days\b|\bevery ?day\b|\bdaily\b|\bthroughout the week\b|\ball week\b", re.IGNORECASE
)
_ONE_DAY = re.compile(rf"\b({_DAY})s?\b", re.IGNORECASE)
_CLOSED = re.compile(r"\bclosed\b[^.;]{0,40}$", re.IGNORECASE)


def field_agreement(answer: AnswerWords, lines: Sequence[RecordLine]) -> list[int]:
    """For each word of the answer, what the yes-or-no fields among the passages' lines say about what it names.

    Where several fields have the same name, the one that agrees counts.
    """
    agreement = [UNTOLD] * len(answer)
    fields = [(line, key) for line in lines if line.truth is not Truth.OTHER and (key := line.key_words)]
    if not fields:
        return agreement
    denied = answer.denied_words()
    named, of_stems = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for word, text in enumerate(answer.lowered):
        named[text.replace("-", "")].append(word)
        of_stems[answer.stems[word]].append(word)
    for field, key_words in fields:
        stems, whole = [*map(stem, key_words)], named["".join(key_words)]
        apart = (_side_by_side(word, stems, answer) for word in of_stems[stems[0]] if word not in whole)
        for words in (*((word,) for word in whole), *filter(None, apart)):
            agrees = (field.truth is Truth.YES) is not denied[words[0]]
            verdict = ABSENT if field.truth is Truth.ABSENT else AGREES if agrees else CONFLICTS
            for word in words:
                known = agreement[word]
                agreement[word] = verdict if known == UNTOLD else min(known, verdict, key=_ORDER.index)
    return agreement


def _side_by_side(word: int, stems: Sequence[str], answer: AnswerWords) -> tuple[int, ...]:
    """The words of the answer, this one first, that are all words of a key side by side; none where they are not."""
    if len(stems) == 1:
        return (word,)
    following = word + 2 if answer.lowered[word + 1 : word + 2] == ["-"] else word + 1
    return (word, following) if answer.stems[following : following + 1] == [stems[1]] else ()


def time_agreement(answer: AnswerWords, lines: Sequence[RecordLine], sources: Sequence[Passage]) -> list[int]:
    """The same for times of day and, where a record has opening hours, for weekdays."""
    hours = list(clock_times_in(answer.answer))
    known = {minute for source in sources if hours for time in clock_times_in(source.text) for minute in time.readings}
    times = ((time.start, time.end, not known.isdisjoint(time.readings)) for time in hours)
    agreement = [UNTOLD] * len(answer)
    for start, end, agrees in (*times, *_days(answer.answer, open_days(lines))):
        for word in words_in(answer.parsed, CharRange(start, end)):
            agreement[word] = max(agreement[word], AGREES if agrees else CONFLICTS)
    return agreement


def open_days(lines: Sequence[RecordLine]) -> frozenset[int]:
    """The weekdays, Monday 0, for which a record gives hours that are not from midnight to midnight of zero length."""
    days = set()
    for line in lines:
        times, words = _HOURS.match(line.value), (line.key or "").lower().split()
        if times and words and words[-1] in WEEKDAYS and times.group(1, 2) != times.group(3, 4):
            days.add(WEEKDAYS.index(words[-1]))
    return frozenset(days)


def _days(answer: str, open_days: frozenset[int]) -> Iterator[tuple[int, int, bool]]:
    """The ranges of characters that tell of weekdays, and whether these are open as told."""
    if not open_days:
        return
    days: list[tuple[re.Match[str], list[int]]] = []
    for match in _DAYS.finditer(answer):
        first, last = WEEKDAYS.index(match.group(1).lower()), WEEKDAYS.index(match.group(3).lower())
        between = [(first + step) % 7 for step in range((last - first) % 7 + 1)]
        days.append((match, [first, last] if match.group(2).lower() in ("and", "&") else between))
    taken = [match.span() for match, _ in days]
    for match in _ONE_DAY.finditer(answer):
        if not any(start <= match.start() < end for start, end in taken):
            days.append((match, [WEEKDAYS.index(match.group(1).lower())]))
    for match, named in days:
        told_closed = _CLOSED.search(answer[: match.start()]) is not None
        yield *match.span(), all((day in open_days) is not told_closed for day in named)
    for match in _EVERY_DAY.finditer(answer):
        yield *match.span(), len(open_days) == len(WEEKDAYS)
