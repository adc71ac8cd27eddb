"""The signals of the support verdict: what is measured of every content word of an answer, without any model.

The columns say how a word, its clause, its sentence and the whole answer match the passages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.verdict.answer_words import AnswerWords
from attribeam.attribution.verdict.claim_kinds import WordKinds
from attribeam.attribution.verdict.claims import words_in
from attribeam.attribution.verdict.field_agreement import CONFLICTS, UNTOLD, field_agreement, time_agreement
from attribeam.attribution.verdict.record_fields import Truth
from attribeam.attribution.verdict.row_kind import RowKind, row_kind
from attribeam.attribution.verdict.similarity import WordSimilarity
from attribeam.attribution.verdict.word_forms import MODALS, NEGATIONS, WORD_OR_MARK, carries_content, stem
from attribeam.attribution.verdict.word_matches import Coverage, PassageWords, coverage, run_lengths, shares_around
from attribeam.attribution.verdict.word_table import WordTable
from attribeam.schemas import CharRange, ClaimKind, Passage, QARecord

_TAGS = ("NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM", "AUX", "PRON", "ADP")
_LIST_ITEM = re.compile(r"(?:^|\n)[^\S\n]*(?:[-*•+]|\d+[.)])[^\S\n]*$")
_ADDING = ("additionally", "also", "furthermore", "moreover")
_CONCLUDING = ("overall", "therefore", "finally", "thus", "in")
_SOURCE_WORDS = frozenset({"passage", "passages", "text", "article", "provided"})
_LONGEST_RUN = 8

_Column = npt.NDArray[np.float32]


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


def answer_signals(
    record: QARecord,
    parsed: ParsedAnswer,
    kinds: WordKinds,
    table: WordTable,
    matcher: ValueMatcher | None = None,
    answer: AnswerWords | None = None,
) -> Signals:
    """The signals of the answer's words; ``values`` has no rows where nothing is judged.

    ``matcher`` is one for this answer and its passages, and ``answer`` its words, where the caller has them already.
    """
    matcher = matcher or ValueMatcher(answer=record.answer, parsed=parsed, passages=record.passages)
    answer = answer or AnswerWords(parsed, record.answer)
    measured = _Measured(record, answer, kinds, table, matcher)
    columns = {**measured.of_words(), **measured.of_clauses(), **measured.of_sentences(), **measured.of_answer()}
    words = measured.judged
    of_words = np.empty((len(words), len(columns)), dtype=np.float32)
    for place, column in enumerate(columns.values()):
        of_words[:, place] = column
    return Signals(tuple(words), tuple(columns), of_words, measured.kind)


class _Measured:
    """One answer beside its passages; every method gives columns with one number per judged word, or one for all."""

    def __init__(
        self, record: QARecord, words: AnswerWords, kinds: WordKinds, table: WordTable, matcher: ValueMatcher
    ) -> None:
        self._matcher = matcher
        self._record = record
        self._table = table
        self._kinds = kinds
        self._passages = PassageWords(record.passages, table)
        self._answer = words
        answer, places = self._answer, self._passages.places
        self.kind = row_kind(record.question, self._passages.text_lines)
        self.judged = [
            word for word in range(len(answer)) if answer.content[word] and kinds.kinds[word] == ClaimKind.CLAIM
        ]
        self._seen = [one in places for one in answer.stems]
        self._runs = run_lengths(answer, self._passages)
        self._sentence_words = [answer.content_of(range(start, end)) for start, end in answer.bounds]
        self._clause_words = [answer.content_of(words) for words in answer.clauses]
        self._sentence_coverage = [self._covered(words) for words in self._sentence_words]
        self._clause_coverage = [self._covered(words) for words in self._clause_words]
        self._similarity = WordSimilarity(answer, self._passages, table)
        self._anywhere = self._similarity.anywhere()
        self._in_sentence = self._beside(self._sentence_words, self._sentence_coverage)
        self._in_clause = self._beside(self._clause_words, self._clause_coverage)
        self._fields = field_agreement(answer, self._passages)
        self._times = time_agreement(answer, self._passages, record.passages)

    def _covered(self, words: Sequence[int]) -> Coverage:
        return coverage([self._answer.stems[word] for word in words], self._passages, self._table)

    def _beside(self, groups: Sequence[Sequence[int]], covered: Sequence[Coverage]) -> _Column:
        found = np.ones(len(self._answer), dtype=np.float32)
        for words, one in zip(groups, covered, strict=True):
            if words:
                found[list(words)] = self._similarity.beside(words, one.pair_start)
        return found

    def of_words(self) -> dict[str, _Column]:
        """What is measured of each word by itself and with its neighbours."""
        answer, passages, words = self._answer, self._passages, self.judged
        before, after = zip(*map(self._neighbours, words), strict=True) if words else ((), ())
        unmatched = self._unmatched_words()
        question = {stem(word) for word in WORD_OR_MARK.findall(self._record.question)}
        in_clauses, in_sentences = self._around(self._clause_words, 15), self._around(self._sentence_words, 25)
        columns = {
            "seen": [self._seen[word] for word in words],
            "seen_as_written": [answer.lowered[word] in passages.lowered for word in words],
            "occurrences": [math.log1p(len(passages.places.get(answer.stems[word], ()))) for word in words],
            "run": [self._runs[word] for word in words],
            "run_nearby": [max(self._runs[max(self._start(word), word - 2) : word + 3]) for word in words],
            "previous_adjacent": [self._near(*pair, 3) for pair in zip(words, before, strict=True)],
            "next_adjacent": [self._near(*pair, 3) for pair in zip(words, after, strict=True)],
            "head_near": [self._near(word, answer.content_head(word), 12) for word in words],
            "clause_around": [in_clauses[answer.clause_of[word]][answer.stems[word]] for word in words],
            "sentence_around": [in_sentences[answer.sentences[word]][answer.stems[word]] for word in words],
            "in_sentence_coverage": [
                _times_covered(answer.stems[word], self._sentence_coverage[answer.sentences[word]]) for word in words
            ],
            "in_clause_coverage": [
                _times_covered(answer.stems[word], self._clause_coverage[answer.clause_of[word]]) for word in words
            ],
            "rarity": [self._table.rarity(answer.stems[word]) for word in words],
            "letters": [len(answer.texts[word]) for word in words],
            "has_digit": [any(one.isdigit() for one in answer.texts[word]) for word in words],
            "is_capitalised": [answer.texts[word][0].isupper() for word in words],
            "part_of_speech": [_tag_number(answer.parsed.universal_tags[word]) for word in words],
            "unmatched_value": [unmatched[word] for word in words],
            "similarity": self._anywhere[words],
            "similarity_in_sentence": self._in_sentence[words],
            "similarity_in_clause": self._in_clause[words],
            "in_question": [answer.stems[word] in question for word in words],
            "place_in_sentence": [self._place_in_sentence(word) for word in words],
            "previous_seen": [one is not None and self._seen[one] for one in before],
            "next_seen": [one is not None and self._seen[one] for one in after],
            "field_truth": [self._field_truth(word) for word in words],
            "field_agreement": [self._fields[word] for word in words],
            "time_agreement": [self._times[word] for word in words],
        }
        return {f"word_{name}": np.asarray(column, dtype=np.float32) for name, column in columns.items()}

    def of_clauses(self) -> dict[str, _Column]:
        """What is measured of each word's clause."""
        numbers = [
            [one.best, one.pair, one.lead, *self._unseen(words), len(all_words), self._mean(self._in_clause, words),
             self._mean_run(all_words)]
            for words, all_words, one in zip(
                self._clause_words, self._answer.clauses, self._clause_coverage, strict=True
            )
        ]  # fmt: skip
        names = ("coverage", "pair_coverage", "lead", "unseen_share", "unseen", "words", "similarity", "run")
        return self._columns("clause", names, numbers, [self._answer.clause_of[word] for word in self.judged])

    def of_sentences(self) -> dict[str, _Column]:
        """What is measured of each word's sentence, and where the sentence stands."""
        last = len(self._answer.bounds) - 1
        shares = [self._unseen(words)[0] for words in self._sentence_words]
        numbers = [
            [one.best, one.pair, one.lead, *self._unseen(words), len(words), self._mean(self._in_sentence, words),
             self._mean(self._anywhere, words), self._mean_run(list(range(*bounds))),
             shares[place - 1] if place else -1, shares[place + 1] if place < last else -1,
             place, last - place, place / max(last, 1), *self._manner(*bounds),
             max((self._fields[word] for word in range(*bounds)), default=UNTOLD),
             max((self._times[word] for word in range(*bounds)), default=UNTOLD)]
            for place, (words, bounds, one) in enumerate(
                zip(self._sentence_words, self._answer.bounds, self._sentence_coverage, strict=True)
            )
        ]  # fmt: skip
        names = (
            "coverage", "pair_coverage", "lead", "unseen_share", "unseen", "words", "similarity", "similarity_anywhere",
            "run", "previous_unseen_share", "next_unseen_share", "place", "place_from_end", "relative_place",
            "is_list_item", "modals", "negations", "addresses_reader", "adds", "concludes", "notes", "names_sources",
            "asks", "field_agreement", "time_agreement",
        )  # fmt: skip
        return self._columns("sentence", names, numbers, [self._answer.sentences[word] for word in self.judged])

    def of_answer(self) -> dict[str, _Column]:
        """What is measured of the whole answer, its question and its passages."""
        answer, passages = self._answer, self._passages
        content = answer.content_of(range(len(answer)))
        spoken = [self._runs[word] for word in range(len(answer)) if answer.is_word[word]]
        share, count = self._unseen(content)
        kinds = self._kinds.kinds
        sentence_fields = [max((self._fields[word] for word in range(*bounds)), default=-1) for bounds in answer.bounds]
        numbers = {
            "unseen_share": share,
            "unseen": count,
            "words": len(answer),
            "sentences": len(answer.bounds),
            "similarity": self._mean(self._anywhere, content),
            "similarity_in_sentences": self._mean(self._in_sentence, content),
            "field_share": passages.field_share,
            "passage_words": math.log1p(len(passages.stems)),
            "passages": len(self._record.passages),
            "has_question": bool(self._record.question.strip()),
            **self._question(),
            "refuses": bool(self._kinds.refused),
            "offers": ClaimKind.OFFER in kinds,
            "discourse_share": sum(kind == ClaimKind.DISCOURSE for kind in kinds) / max(len(kinds), 1),
            **{f"copied_{length}": _share_of(spoken, length) for length in (3, 5, 8)},
            "list_items": sum(self._is_list_item(start) for start, _ in answer.bounds),
            "field_conflicts": self._fields.count(CONFLICTS),
            "time_conflicts": self._times.count(CONFLICTS),
            "field_mean": sum(sentence_fields) / max(len(sentence_fields), 1),
            "length_ratio": len(answer) / max(len(passages.stems), 1),
        }
        return {f"answer_{name}": np.asarray(number, dtype=np.float32) for name, number in numbers.items()}

    def _columns(
        self, of: str, names: Sequence[str], numbers: Sequence[Sequence[float]], groups: Sequence[int]
    ) -> dict[str, _Column]:
        table = np.asarray(numbers, dtype=np.float32).reshape(len(numbers), len(names))
        return {f"{of}_{name}": table[list(groups), place] for place, name in enumerate(names)}

    def _question(self) -> dict[str, float]:
        """How far the passages cover the question, at once or in two sentences, and how far the answer repeats it."""
        stems = [stem(word) for word in WORD_OR_MARK.findall(self._record.question) if carries_content(word)]
        if not stems:
            return {"question_seen": -1.0, "question_coverage": -1.0, "question_repeated": -1.0}
        weights = [self._table.weight(one) for one in stems]
        own = set(self._answer.stems)
        return {
            "question_seen": _weighted([one in self._passages.places for one in stems], weights),
            "question_coverage": coverage(stems, self._passages, self._table).pair,
            "question_repeated": _weighted([one in own for one in stems], weights),
        }

    def _unseen(self, words: Sequence[int]) -> tuple[float, int]:
        unseen = sum(not self._seen[word] for word in words)
        return unseen / max(len(words), 1), unseen

    def _mean(self, numbers: _Column, words: Sequence[int]) -> float:
        if not words:
            return 1.0
        weights = [self._table.weight(self._answer.stems[word]) for word in words]
        return float(np.dot(numbers[list(words)], weights)) / sum(weights)

    def _mean_run(self, words: Sequence[int]) -> float:
        runs = [min(self._runs[word], _LONGEST_RUN) for word in words if self._answer.is_word[word]]
        return sum(runs) / max(len(runs), 1)

    def _start(self, word: int) -> int:
        return self._answer.bounds[self._answer.sentences[word]][0]

    def _neighbours(self, word: int) -> tuple[int | None, int | None]:
        words = self._sentence_words[self._answer.sentences[word]]
        place = words.index(word)
        return words[place - 1] if place else None, words[place + 1] if place + 1 < len(words) else None

    def _place_in_sentence(self, word: int) -> float:
        words = self._sentence_words[self._answer.sentences[word]]
        return words.index(word) / len(words)

    def _near(self, word: int, other: int | None, distance: int) -> float:
        if other is None:
            return -1.0
        stems = self._answer.stems
        return float(self._passages.stand_near(stems[word], stems[other], distance))

    def _around(self, groups: Sequence[Sequence[int]], distance: int) -> list[dict[str, float]]:
        stems = self._answer.stems
        return [
            shares_around([stems[word] for word in group], distance, self._passages, self._table) for group in groups
        ]

    def _field_truth(self, word: int) -> int:
        """What the fields say in whose lines the word stands: -1 outside records, else 0 to 5, one kind per mixture."""
        places = self._passages.places.get(self._answer.stems[word])
        if not places or not self._passages.field_share:
            return -1
        truths = {self._passages.truths[place] for place in places}
        if truths <= {Truth.NO, Truth.ABSENT}:
            return 2 if truths == {Truth.NO} else 3 if truths == {Truth.ABSENT} else 4
        if truths & {Truth.NO, Truth.ABSENT}:
            return 5
        return 1 if Truth.YES in truths else 0

    def _unmatched_words(self) -> list[bool]:
        """Whether each word belongs to a value that neither passages nor question have."""
        answer, question = self._answer, self._record.question
        matcher = self._matcher.with_passage(Passage(question)) if question.strip() else self._matcher
        ranges = matcher.unmatched_ranges(CharRange(0, len(answer.answer)), ()) if answer.answer else ()
        unmatched = {word for one in ranges for word in words_in(answer.parsed, one)}
        return [word in unmatched for word in range(len(answer))]

    def _is_list_item(self, start: int) -> bool:
        first = self._answer.parsed.words[start].char_start
        line = self._answer.answer[max(0, first - 12) : first]
        return _LIST_ITEM.search(line) is not None or re.fullmatch(r"[-*•+]|\d+", self._answer.texts[start]) is not None

    def _manner(self, start: int, end: int) -> list[float]:
        """How a sentence speaks: list item, modals, negations, "you", adds, concludes, notes, names sources, asks."""
        words = self._answer.lowered[start:end]
        return [
            self._is_list_item(start),
            sum(word in MODALS for word in words),
            sum(word in NEGATIONS for word in words),
            "you" in words or "your" in words,
            words[0] in _ADDING,
            words[0] in _CONCLUDING,
            "note" in words[:3] or "important" in words[:6],
            any(word in _SOURCE_WORDS for word in words),
            "?" in words,
        ]


def _times_covered(word_stem: str, covered: Coverage) -> int:
    return (word_stem in covered.best_stems) + (word_stem in covered.pair_stems)


def _tag_number(tag: str) -> int:
    return _TAGS.index(tag) if tag in _TAGS else len(_TAGS)


def _weighted(hits: Sequence[bool], weights: Sequence[float]) -> float:
    return sum(weight for hit, weight in zip(hits, weights, strict=True) if hit) / sum(weights)


def _share_of(runs: Sequence[int], length: int) -> float:
    return sum(run >= length for run in runs) / max(len(runs), 1)
