"""The premise of a claim: the sentences of the passages that it is held against, and how they match it.

Attention (the evidence of the claim) and the words of the claim each propose sentences. Each is widened by its
neighbours and the title of its passage; the one that covers the claim best is the premise. What the rest of the context
says does not count as support, it only tells whether a missing word stands somewhere else.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import reduce
from itertools import accumulate, chain, compress, groupby, pairwise, repeat
from operator import or_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.markup import structured_text
from attribeam.attribution.answers.parsed_answer import base_label, label_scheme, words_in
from attribeam.attribution.answers.plain_text import numbers_in_word
from attribeam.attribution.answers.target_spans import bold_labels
from attribeam.attribution.answers.unmatched_values import Value
from attribeam.attribution.verdict.contradictions import Contradiction, find_contradiction
from attribeam.attribution.verdict.fitted_parts import WordTable
from attribeam.attribution.verdict.signals import AnswerRow
from attribeam.attribution.verdict.texts import (
    OPPOSITES,
    PassageSentences,
    Sentence,
    Truth,
    carries_content,
    negated_words,
    record_lines,
    set_same_limit,
    stem,
    words_and_marks,
)
from attribeam.schemas import CharRange, SpanEvidence

_BY_WORDS, _BY_ATTENTION, _OTHERS = 4, 2, 2
"""How many sentences words and attention propose, and how many of these are read beside the premise."""
_COVERAGE_COUNTS, _CONTEXT_COUNTS, _ATTENTION_COUNTS = 0.15, 0.3, 0.05
_ABOUT_THE_SAME = 0.5
"""The share of a claim that a sentence must cover to have another value in the place of one of the claim's."""
_ALIKE = 0.6
"""The cosine from which on a word that is missing counts as said in another word."""
_TELLING, _LEAST_ATTENTION = 0.6, 0.2
"""The share of a claim that a premise has from which on evidence should lie there, and the least share of it."""
_RUN, _NEAR, _NEAR_HEAD, _MOST_PLACES = 3, 3, 6, 8
_MOST_RIVALS = 4.0
_SUBJECTS = frozenset({"nsubj", "csubj"})
_NONE = -1.0
_MOST_CELLS = 2**18
"""How many words of claims, times sentences and clauses, are measured at once, 2 MB an array."""

PREMISE_NUMBERS = (
    "best", "window", "pair", "anywhere", "soft", "soft_least", "missing", "missing_weight", "missing_anywhere",
    "missing_anywhere_weight", "missing_nouns", "missing_names", "missing_verbs", "missing_numbers", "asked_only",
    "novel", "rival_names", "rival_numbers", "lead", "second", "bigrams", "heads", "run", "denied", "opposed",
    "inverted", "words", "context", "name_gap", "number_gap", "subject_gap", "noun_gap", "name_clause_gap",
    "number_clause_gap", "subject_clause_gap", "noun_clause_gap", "root_missing", "values", "values_window",
    "values_anywhere", "attention_coverage", "attention_soft", "attention_best", "attention_window", "evidence_mass",
    "top_share", "margin", "sentences", "swapped_numbers", "swapped_names", "aligned",
    "carried", "carried_clause", "contradicted",
)  # fmt: skip
"""What is measured of a claim beside its premise. Shares are of the weights of the claim's content words.

``best``, ``window``, ``pair``, ``anywhere``: covered by the best sentence, by the premise, by it and one sentence more,
by all passages. ``soft``: with similar words counted by their cosine. ``missing``, ``rival``: words that the premise
lacks, or has instead. A *gap* says how much better the claim is covered by sentences (clauses) without its name,
number, subject or noun than by those that have it: a fact that hangs on something else. ``attention_...``: the same
where attention points, and how much of it lies on the premise. ``top_share``, ``margin``: how clearly evidence points
to one passage, 1 where the premise is in it. ``swapped_...``: words of the claim in whose place the sentence that
covers it best has another number or name; ``aligned``: the share of the claim's words that this sentence has in the
same order, -1 where it has all of the claim's values. ``denied``: the share of the words that claim and sentence have
in the same order which only one of them denies. ``opposed``: words whose opposite the best clause has. ``carried``:
covered by the best sentence (clause) together with its title and what its pronouns refer to.
``contradicted``: 1 where a sentence is the claim but for words that exclude each other, for which no tree is fitted.
"""

_MISSING = ("missing", "missing_anywhere", "missing_nouns", "missing_names", "missing_verbs", "missing_numbers")
_GAPS = tuple(f"{kind}{unit}gap" for unit in ("_", "_clause_") for kind in ("name", "number", "subject", "noun"))
_ATTENTION = ("attention_coverage", "attention_soft", "attention_best", "attention_window")
_OF_EACH = (
    "bigrams", "heads", "run", "denied", "opposed", "inverted", "swapped_numbers", "swapped_names", "aligned", "values",
    "values_window", "values_anywhere",
)  # fmt: skip
_WINDOW, _ATTENTION_WINDOW = map(PREMISE_NUMBERS.index, ("window", "attention_window"))

_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Premise:
    """The premise of one claim.

    Attributes:
        numbers: float32 [names], as ``PREMISE_NUMBERS`` names them.
        sentence: the place of its main sentence in ``PassageSentences``, None where the passages have no word.
        window: the places of all its sentences, ascending.
        missing: the claim's content words, by place in the answer, that the window neither has nor says alike.
        others: the places of up to two more sentences that attention or words proposed, best first.
        contradiction: what one of these sentences says instead, None for nothing.
        label: the words of the label in bold type that are read with the claim, ascending.
    """

    numbers: npt.NDArray[np.float32]
    sentence: int | None
    window: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    contradiction: Contradiction | None = None
    label: tuple[int, ...] = ()


def is_attended(numbers: npt.NDArray[np.float32]) -> bool | None:
    """Whether evidence lies in the premise with these numbers; None where that has too few of the claim's words."""
    if numbers[_WINDOW] < _TELLING:
        return None
    return bool(numbers[_ATTENTION_WINDOW] >= _LEAST_ATTENTION)


def claim_premises(
    row: AnswerRow,
    sentences: PassageSentences,
    claims: Sequence[tuple[Sequence[int], SpanEvidence]],
    table: WordTable,
) -> list[Premise]:
    """The premise of each claim of an answer, given by its words and what attention found for it.

    The words of its atomic fact help to find the premise, and are not missed in it. Words of the labels of the cells
    and fields that it stands in count as its own where passages have them: "24 months" in a table says something of its
    row and of its column, but a head such as "Details" need not be there. So do those of the label in bold type of a
    claim without a subject. That label is missed, too, where passages have most labels of such claims, and none of its
    words.
    """
    nothing = Premise(np.full(len(PREMISE_NUMBERS), _NONE, dtype=np.float32), None)
    if not claims or not len(sentences):
        return [nothing] * len(claims)
    beside, premises = _BesidePassages(row, sentences), list[Premise]()
    read = [*_read_claims(beside, claims)]
    cells = accumulate(len(claim.own) * (len(sentences) + len(beside.clauses)) for claim in read)
    parts = groupby(zip(read, cells, strict=True), lambda pair: (bool(pair[0].own), pair[1] // _MOST_CELLS))
    for (has_words, _), part in parts:
        some = [claim for claim, _ in part]
        premises += _Claims(beside, some, table).premises() if has_words else [nothing] * len(some)
    return premises


@dataclass(frozen=True, slots=True)
class _Claim:
    """One claim; ``own`` and ``around`` are content words of the answer, by place."""

    words: Sequence[int]
    evidence: SpanEvidence
    own: list[int]
    around: list[int]
    label: tuple[int, ...] = ()


def _read_claims(of: _BesidePassages, claims: Sequence[tuple[Sequence[int], SpanEvidence]]) -> Iterator[_Claim]:
    answer, parsed, structure = of.answer, of.answer.parsed, structured_text(of.row.record.answer)
    anywhere = reduce(or_, of.in_sentences, 0)
    bold = _bold_labels(of, [words for words, _ in claims], anywhere)
    for (words, evidence), label in zip(claims, bold, strict=True):
        parts = {structure.part_at(parsed.words[word].char_start) for word in words} if structure.parts else set()
        ranges = (label for part in parts if part is not None for label in structure.labels[part])
        labels = sorted({word for label in ranges for word in words_in(parsed, label) if answer.content[word]})
        known = [word for word in labels if of.bits[word] & anywhere]
        content = [word for word in words if answer.content[word]]
        own = known + label + (content or [word for word in words if answer.is_word[word]])
        fact = (word for chars in evidence.atomic_fact for word in words_in(parsed, chars))
        around = [word for word in fact if answer.content[word] and word not in own]
        yield _Claim(words, evidence, own, around, tuple(label))


def _bold_labels(of: _BesidePassages, claims: Sequence[Sequence[int]], anywhere: int) -> list[list[int]]:
    """For each claim the content words of its label in bold type that count as its own."""
    parsed, content = of.answer.parsed, of.answer.content
    tags, subjects = parsed.universal_tags, label_scheme(parsed.label_scheme).subject_labels
    labels = [*bold_labels(parsed, of.row.record.answer)]
    found = list[Sequence[int]]()
    for words in claims:
        led = {base_label(parsed.dependency_labels[word]) for word in words if tags[word] != "PRON"}
        label = next((label for label, behind in labels if words[0] in behind), ()) if subjects.isdisjoint(led) else ()
        found.append([word for word in label if content[word]])
    known = [[word for word in label if of.bits[word] & anywhere] for label in found]
    listed = [bool(in_passages) for label, in_passages in zip(found, known, strict=True) if label]
    are_missed = 1 < len(listed) <= 2 * sum(listed)
    for index, words in enumerate(claims):
        states = not {"VERB", "AUX"}.isdisjoint(tags[word] for word in words)
        if are_missed and not known[index] and not states:
            known[index] = [*found[index]]
    return known


class _BesidePassages:
    """One answer beside the sentences of its passages.

    Each stem of the answer is one bit of an integer, and each set of stems an integer with the bits of all.

    Attributes:
        stems, bits: the stems of the answer, and that of each of its words, 0 for marks.
        word_bits: the stems of each sentence, word by word, 0 for one that the answer has not.
        clauses: the sentence, the first word and the end of each clause.
        in_sentences, in_clauses: the stems of each.
    """

    def __init__(self, row: AnswerRow, sentences: PassageSentences) -> None:
        answer = row.words
        self.row, self.answer, self.sentences = row, answer, sentences
        stems = dict.fromkeys(compress(answer.stems, answer.is_word))
        self.stems = {text: 1 << number for number, text in enumerate(stems)}
        self.bits = [*map(self.stems.get, answer.stems, repeat(0))]
        self.word_bits = [[*map(self.stems.get, sentence.stems, repeat(0))] for sentence in sentences.all]
        self.in_sentences = [reduce(or_, sentence) for sentence in self.word_bits]
        self.clauses = [(index, *words) for index, sentence in enumerate(sentences.all) for words in sentence.clauses]
        self.in_clauses = [reduce(or_, self.word_bits[index][start:end]) for index, start, end in self.clauses]
        self._read: dict[int, _ReadSentence] = {}
        units, size = [*self.in_sentences, *(self.in_clauses or self.in_sentences)], len(stems) // 8 + 1
        rows = b"".join([unit.to_bytes(size, "little") for unit in (*units, *self._carried())])
        self._present = np.unpackbits(np.frombuffer(rows, np.uint8).reshape(-1, size), axis=1, bitorder="little")
        tagged = [*zip(answer.parsed.universal_tags, answer.texts, strict=True)]
        self.is_name = [tag == "PROPN" and text[:1].isupper() for tag, text in tagged]
        self.is_number = [tag == "NUM" or _has_digit(text) for tag, text in tagged]

    def presence(self, words: Sequence[int]) -> _Bools:
        """bool [words, units]: which words of the answer, which are no marks, have their stem in which units.

        Units are the sentences, the clauses (where there are none, the sentences again), and what these carry.
        """
        return self._present[:, [self.bits[word].bit_length() - 1 for word in words]].T.astype(bool)

    def _carried(self) -> list[int]:
        """The stems of sentences and clauses, with those of the title and of the sentence that a pronoun refers to.

        A clause without a name shares the subject of its sentence's first clause.
        """
        carried_to = [0] * len(self.word_bits)
        for title, text in self.sentences.ranges:
            if title:
                of_title = reduce(or_, self.in_sentences[title.start : title.stop])
                carried_to[text.start : text.stop] = [of_title] * len(text)
        for index in self.sentences.carried():
            carried_to[index] |= self.in_sentences[index - 1] | carried_to[index - 1]
        in_clauses, first, before = [], 0, -1
        for (index, start, end), bits in zip(self.clauses, self.in_clauses, strict=True):
            first, before = (first, before) if index == before else (bits, index)
            more = carried_to[index]
            if first & ~(bits | more) and not self.sentences.all[index].has_name(max(start, 1), end):
                more |= first
            in_clauses.append(bits | more)
        in_sentences = [bits | more for bits, more in zip(self.in_sentences, carried_to, strict=True)]
        return in_sentences + (in_clauses or in_sentences)

    def read(self, index: int) -> _ReadSentence:
        """One sentence and its window."""
        if index not in self._read:
            window = [bit for other in self.sentences.window(index) for bit in self.word_bits[other]]
            positions = defaultdict[int, list[int]](list)
            for number, bit in enumerate(window):
                if bit:
                    positions[bit].append(number)
            words, bits = self.sentences.all[index].words, self.word_bits[index]
            capitals = [(word, bit) for word, bit in zip(words, bits, strict=True) if word[0].isupper()]
            names = [bit for word, bit in capitals if word != words[0] and carries_content(word)]
            numbers = [bit for word, bit in zip(words, bits, strict=True) if _has_digit(word)]
            runs = frozenset(zip(window, window[1:], window[2:], strict=False))
            self._read[index] = _ReadSentence(runs, positions, names, numbers)
        return self._read[index]


class _ReadSentence(NamedTuple):
    """The runs of three stems of a sentence's window, where each stem stands there, and the stems of the sentence's
    names and numbers."""

    runs: frozenset[tuple[int, ...]]
    positions: Mapping[int, list[int]]
    names: list[int]
    numbers: list[int]


class _Claims:
    """Some claims of an answer beside all sentences, measured at once.

    Arrays of [words] have the own words of one claim behind those of the claim before.
    """

    def __init__(self, of: _BesidePassages, claims: Sequence[_Claim], table: WordTable) -> None:
        self._of, self._claims, self._table = of, claims, table
        own, answer = [word for claim in claims for word in claim.own], of.answer
        around = [word for claim in claims for word in claim.around]
        stems, tags, heads = answer.stems, answer.parsed.universal_tags, answer.heads
        counts, count = [len(claim.own) for claim in claims], len(own)
        self._own, self._weights = own, np.array([table.weight(stems[word]) for word in own])
        self._bounds = [*pairwise(accumulate(counts, initial=0))]
        self._starts = [start for start, _ in self._bounds]
        self._claim_of = np.repeat(np.arange(len(claims)), counts)
        self._total = self._sums(self._weights)
        asked = {stem(word) for word in words_and_marks(of.row.record.question, answer.wholes)}
        subjects = {label for label in {*answer.parsed.dependency_labels} if base_label(label) in _SUBJECTS}
        leads = [label in subjects for label in answer.parsed.dependency_labels]
        flags = [
            (
                of.is_name[word], of.is_number[word], tags[word] == "NOUN", tags[word] in ("VERB", "AUX"),
                leads[word] or (leads[heads[word]] and heads[word] in claim.own), heads[word] == word,
                stems[word] in asked,
            )
            for claim in claims
            for word in claim.own
        ]  # fmt: skip
        self._is_name, self._is_number, self._is_noun, self._is_verb, self._leads, self._is_root, self._asked = (
            np.array(flags).T
        )
        # of each word, which sentences and clauses have it, and which have it with what they carry
        present = of.presence((*own, *around))
        units = present.shape[1] // 2
        self._present, self._carried = present[:count, :units], present[:count, units:]
        self._in_sentences = present[:count, : len(of.in_sentences)]
        self._borders = [0, len(of.in_sentences)]
        self._weighted = self._weights[:, None] * self._present
        self._shared = self._sums(self._weighted)
        self._covered = self._shared[:, : len(of.in_sentences)] / self._total[:, None]
        # of the words around each claim, what those weigh that each sentence has, and last what all weigh
        self._context = np.zeros((len(claims), len(of.in_sentences) + 1))
        if around:
            weights = np.array([[table.weight(stems[word])] for word in around])
            context = weights * np.hstack((present[count:, : len(of.in_sentences)], np.ones((len(around), 1))))
            sizes = np.array([len(claim.around) for claim in claims])
            self._context[sizes > 0] = np.add.reduceat(context, (np.cumsum(sizes) - sizes)[sizes > 0], axis=0)
        self._attention = np.array([of.sentences.attention(claim.evidence) for claim in claims])
        self._attended = self._attention.sum(axis=1)

    def _sums(self, of_words: _Floats) -> _Floats:
        """The sums over the words of each claim, one by one: so equal shares of equal words stay equal."""
        return np.array([of_words[start:end].sum(axis=0) for start, end in self._bounds])

    def premises(self) -> list[Premise]:
        """For each claim the sentence that covers it best, among those that words and attention propose."""
        every = np.arange(len(self._claims))
        rank = self._covered * self._total[:, None] + _CONTEXT_COUNTS * self._context[:, :-1]
        by_words = np.argsort(-rank, axis=1, kind="stable")[:, :_BY_WORDS]
        by_attention = np.argsort(-self._attention, axis=1, kind="stable")[:, :_BY_ATTENTION]
        proposed = np.concatenate((by_words, by_attention), axis=1)
        # of each proposed sentence, whether its window has a word, and the largest cosine there, 1 if it has
        seen, alike = self._in_windows(proposed)
        counted = np.where((self._is_name | self._is_number)[:, None] & ~seen, 0.0, alike)
        covering = self._sums(self._weights[:, None] * counted) / self._total[:, None]
        scores = covering + _COVERAGE_COUNTS * self._covered[every[:, None], proposed]
        attended = np.where(self._attended > 0, self._attended, 1.0)
        scores += _ATTENTION_COUNTS * self._attention[every[:, None], proposed] / attended[:, None]
        best, first = scores.argmax(axis=1), by_words.shape[1]
        of_best = np.arange(len(self._own)), best[self._claim_of]
        indices = proposed[every, best].tolist()
        windows = [self._of.sentences.window(index) for index in indices]
        lacking = ~seen[of_best] & (alike[of_best] < _ALIKE)
        each = [self._of_each(*parts) for parts in zip(range(len(indices)), indices, windows, strict=True)]
        numbers: dict[str, Sequence[float] | _Floats] = {
            **self._coverage(indices, seen[of_best], alike[of_best], counted[of_best], lacking),
            **self._gaps(),
            **self._attended_numbers(
                self._alike(indices, proposed, covering >= covering[every, best][:, None]),
                seen[:, first],
                alike[:, first],
            ),
            **dict(zip(_OF_EACH, zip(*each, strict=True), strict=True)),
        }
        tried = [[tries[first], *tries[:first], *tries[first + 1 :]] for tries in proposed.tolist()]
        others = [self._others(*pair) for pair in zip(windows, tried, strict=True)]
        instead = [self._contradiction(*parts) for parts in zip(self._claims, indices, windows, others, strict=True)]
        numbers["contradicted"] = [contradiction is not None for contradiction in instead]
        rows = np.array([numbers[name] for name in PREMISE_NUMBERS], dtype=np.float32).T.copy()
        is_missing = iter(lacking.tolist())
        return [
            Premise(row, index, tuple(window), tuple(compress(claim.own, is_missing)), other, instead_of, claim.label)
            for claim, row, index, window, other, instead_of in zip(
                self._claims, rows, indices, windows, others, instead, strict=True
            )
        ]

    def _contradiction(
        self, claim: _Claim, index: int, window: Sequence[int], others: Sequence[int]
    ) -> Contradiction | None:
        """What the premise, or else a sentence beside it, says instead; its titles say nothing."""
        sentences = self._of.sentences
        titles = sentences.titles_of(index)
        tried = dict.fromkeys([index, *(other for other in window if other not in titles), *others])
        return find_contradiction(self._of.answer, claim.words, sentences, [*tried])

    def _alike(self, indices: Sequence[int], proposed: _Ints, cover: _Bools) -> list[set[int]]:
        """For each claim the premise's sentence, and those of other passages whose windows cover it as well."""
        passage_of = self._of.sentences.passage_of
        return [
            {index, *(other for other in compress(tries, flags) if passage_of(other) != passage_of(index))}
            for index, tries, flags in zip(indices, proposed.tolist(), cover.tolist(), strict=True)
        ]

    def _others(self, window: Sequence[int], proposed: Sequence[int]) -> tuple[int, ...]:
        """The first proposed sentences with other texts than those of the window."""
        sentences = self._of.sentences.all
        texts = {sentences[index].text for index in window}
        by_text = {sentences[index].text: index for index in reversed(proposed) if sentences[index].text not in texts}
        return tuple(sorted(by_text.values(), key=proposed.index)[:_OTHERS])

    def _in_windows(self, proposed: _Ints) -> tuple[_Bools, _Floats]:
        """[words, proposed]: whether the window of each sentence proposed for the claim has the word, and how alike.

        That is 1 if it has, else the largest cosine, from 0 on, with one of its words.
        """
        sentences, table = self._of.sentences, self._table
        proposals = proposed.tolist()
        windows = {index: sentences.window(index) for index in {*chain.from_iterable(proposals)}}
        inside = {index: number for number, index in enumerate({*chain.from_iterable(windows.values())})}
        of_windows = [inside[index] for window in windows.values() for index in window]
        borders = [*accumulate(map(len, windows.values()), initial=0)][:-1]
        words = [sentences.all[index].lowered for index in inside]
        rows = table.rows(chain.from_iterable(words))
        own_rows = table.rows([self._of.answer.lowered[word] for word in self._own])
        known, own_known = rows >= 0, np.flatnonzero(own_rows >= 0)
        starts = [*accumulate(map(len, words), initial=0)][:-1]
        counts = np.add.reduceat(known, starts, dtype=np.int64)
        filled, largest = np.flatnonzero(counts), np.zeros((len(own_rows), len(words)), dtype=np.float32)
        if len(filled) and len(own_known):
            cosines = table.vectors[own_rows[own_known]] @ table.vectors[rows[known]].T
            firsts = (np.cumsum(counts) - counts)[filled]
            largest[own_known[:, None], filled] = np.maximum.reduceat(cosines, firsts, axis=1)
        alike = np.maximum.reduceat(largest[:, of_windows], borders, axis=1).clip(0.0, 1.0).astype(np.float64)
        seen = np.logical_or.reduceat(self._in_sentences[:, [*inside]][:, of_windows], borders, axis=1)
        numbers = {index: number for number, index in enumerate(windows)}
        columns = np.array([[numbers[index] for index in row] for row in proposals])[self._claim_of]
        of_words = np.arange(len(self._own))[:, None], columns
        return seen[of_words], np.where(seen, 1.0, alike)[of_words]

    def _coverage(
        self, indices: Sequence[int], seen: _Bools, alike: _Floats, counted: _Floats, lacking: _Bools
    ) -> dict[str, Sequence[float] | _Floats]:
        of, own, weights, every = self._of, self._own, self._weights, np.arange(len(indices))
        nowhere, unseen = ~self._in_sentences.any(axis=1), ~seen
        extra = self._sums(self._weighted[:, : len(of.in_sentences)] * unseen[:, None])
        other = extra.argmax(axis=1)
        pair = seen | (
            self._in_sentences[np.arange(len(own)), other[self._claim_of]] & (extra.max(axis=1) > 0)[self._claim_of]
        )
        asked = self._asked
        shares = np.array([seen, pair, ~nowhere, unseen & asked, nowhere & ~asked, alike])
        shares = np.add.reduceat(shares * weights, self._starts, axis=1) / self._total
        counts = np.array(
            [
                unseen,
                nowhere,
                lacking & self._is_noun,
                unseen & self._is_name,
                lacking & self._is_verb,
                unseen & self._is_number,
            ]
        )
        root = np.where(self._is_root, lacking, _NONE)
        largest = np.array([weights * (1 - counted), weights * nowhere, -alike, root])
        missing, missing_anywhere, least, root = np.maximum.reduceat(largest, self._starts, axis=1)
        order = np.sort(self._covered, axis=1)
        second = order[:, -2] if order.shape[1] > 1 else np.zeros(len(indices))
        rivals = np.minimum(
            np.array([self._rivals(*pair) for pair in zip(self._claims, indices, strict=True)]).T, _MOST_RIVALS
        )
        context, around = self._context[every, indices], self._context[:, -1]
        return {
            **dict(zip(("window", "pair", "anywhere", "asked_only", "novel", "soft"), shares, strict=True)),
            **dict(zip(_MISSING, np.add.reduceat(counts, self._starts, axis=1, dtype=np.int64), strict=True)),
            "best": self._covered[every, indices],
            "soft_least": -least,
            "missing_weight": missing,
            "missing_anywhere_weight": missing_anywhere,
            "rival_names": rivals[0],
            "rival_numbers": rivals[1],
            "lead": order[:, -1] - second,
            "second": second,
            "root_missing": root,
            "words": [len(claim.own) for claim in self._claims],
            "context": np.where(around > 0, context / np.where(around > 0, around, 1.0), _NONE),
        }

    def _rivals(self, claim: _Claim, index: int) -> tuple[int, int]:
        """How many names, and words with numbers, a sentence has that the claim has not."""
        known, read = reduce(or_, (self._of.bits[word] for word in (*claim.own, *claim.around))), self._of.read(index)
        return sum(not bit & known for bit in read.names), sum(not bit & known for bit in read.numbers)

    def _gaps(self) -> dict[str, Sequence[float] | _Floats]:
        """What the claims owe to one of their words, and what sentences and clauses cover with what they carry."""
        weights = self._weights
        kinds = np.array([self._is_name, self._is_number, self._leads, self._is_noun])
        left = np.maximum(self._total[self._claim_of] - weights, 0.5)
        # of each word, how much more of the others a unit without it covers than one that has it
        others = self._shared[self._claim_of] - self._weighted
        most, with_it = (
            np.maximum.reduceat(part, self._borders, axis=1) for part in (others, np.where(self._carried, others, 0.0))
        )
        gaps = ((most - with_it).T / left)[:, None]
        largest = np.maximum.reduceat(np.where(kinds, gaps, -np.inf), self._starts, axis=2).reshape(len(_GAPS), -1)
        shares = (
            np.maximum.reduceat(self._sums(weights[:, None] * self._carried), self._borders, axis=1).T / self._total
        )
        rows = [*np.where(largest == -np.inf, _NONE, largest), *shares]
        return dict(zip((*_GAPS, "carried", "carried_clause"), rows, strict=True))

    def _attended_numbers(
        self, premises: Sequence[set[int]], seen: _Bools, alike: _Floats
    ) -> dict[str, Sequence[float] | _Floats]:
        """How attention goes with the premises, each given by the sentences that ``_alike`` names.

        ``seen`` and ``alike`` are of the windows with most of it.
        """
        records = [claim.evidence for claim in self._claims]
        scores = np.array([record.passage_scores for record in records], np.float32).astype(float)  # as written
        sums, attended = scores.sum(axis=1), np.where(self._attended > 0, self._attended, 1.0)
        shares = np.add.reduceat(np.array([seen, alike]) * self._weights, self._starts, axis=1) / self._total
        window = self._of.sentences.window
        pointed = [
            (
                sum([of_claim[index] for index in same]),
                sum([of_claim[other] for other in {*chain.from_iterable(map(window, same))}]),
            )
            for of_claim, same in zip(self._attention.tolist(), premises, strict=True)
        ]
        attention = np.concatenate((shares, np.array(pointed).T / attended)) * (self._attended > 0)
        # other passages say nothing against a premise in the one that most of the evidence points to
        passages = [{*map(self._of.sentences.passage_of, same)} for same in premises]
        is_first = (sums > 0) & [top in of for top, of in zip(scores.argmax(axis=1).tolist(), passages, strict=True)]
        margins = np.array([_NONE if record.margin is None else record.margin for record in records])
        return {
            **dict(zip(_ATTENTION, attention, strict=True)),
            "evidence_mass": [_NONE if record.evidence_mass is None else record.evidence_mass for record in records],
            "top_share": np.where(is_first, 1.0, scores.max(axis=1) / np.where(sums > 0, sums, 1.0)),
            "margin": np.where(is_first, 1.0, margins),
            "sentences": [math.log1p(len(self._of.sentences))] * len(records),
        }

    def _of_each(self, number: int, index: int, window: Sequence[int]) -> tuple[float, ...]:
        """What ``_OF_EACH`` names of one claim."""
        claim, answer, matcher = self._claims[number], self._of.answer, self._of.row.matcher
        parsed, words = answer.parsed.words, [word for word in self._claims[number].words if answer.states[word]]
        chars = CharRange(parsed[min(claim.words)].char_start, parsed[max(claim.words)].char_end)
        values = [
            (value, [word for word in words if parsed[word].overlaps(value.chars)])
            for value in matcher.values_in(chars)
        ]
        values = [(value, words) for value, words in values if words]
        known = 0, 0, 0
        if values:
            content, everywhere = self._of.sentences.content_of(window), range(len(self._of.row.record.passages))
            unlike = sum(not value.is_repeated_by(value.parts_in(content)) for value, _ in values)
            unmatched = matcher.unmatched_ranges(chars, everywhere)
            nowhere = [value for value in unmatched if any(parsed[word].overlaps(value) for word in words)]
            known = len(values), unlike, len(nowhere)
        return *self._manner(claim, number, index), *self._swapped(claim, number, values), *known

    def _manner(self, claim: _Claim, number: int, index: int) -> tuple[float, ...]:
        """Runs and neighbours of words, negation, words of opposite meaning, and the order of words."""
        of, answer, bits = self._of, self._of.answer, self._of.bits
        read, lowered, denied, opposed = of.read(index), [answer.lowered[word] for word in claim.words], 0.0, 0
        own = [bits[word] for word in claim.own]
        heads = [(bit, answer.content_head(word)) for bit, word in zip(own, claim.own, strict=True)]
        if self._covered[number, index] >= _ABOUT_THE_SAME:
            denied = _denied_share(lowered, [answer.stems[word] for word in claim.words], of.sentences.all[index])
        if of.clauses and not OPPOSITES.keys().isdisjoint(lowered):
            where, start, end = of.clauses[int(self._shared[number, len(of.in_sentences) :].argmax())]
            opposed = _opposed_words(lowered, of.sentences.all[where].lowered, start, end)
            if opposed < 0:
                denied, opposed = 0.0, 0
        met = [of.word_bits[index].index(bit) for bit in own if bit & of.in_sentences[index]]
        return (
            _mean([_near(read.positions, *pair, _NEAR) for pair in pairwise(own)]),
            _mean([_near(read.positions, bit, bits[head], _NEAR_HEAD) for bit, head in heads if head is not None]),
            _share_in_runs([bits[word] for word in claim.words if bits[word]], read),
            denied,
            opposed,
            _NONE if of.sentences.all[index].is_row else _mean([left > right for left, right in pairwise(met)]),
        )

    def _swapped(self, claim: _Claim, number: int, values: Sequence[tuple[Value, list[int]]]) -> tuple[float, ...]:
        """Words of values in whose place the sentence that covers the claim best has another number or name.

        Both texts are aligned word by word, by stems; where other words stand between the same ones, a number or name
        of the sentence may be what the claim should say.
        """
        of, answer, index = self._of, self._of.answer, int(self._covered[number].argmax())
        sentence, nothing = of.sentences.all[index], (0, 0, _NONE)
        if self._covered[number, index] < _ABOUT_THE_SAME:
            return nothing
        unlike = self._unlike(claim, index, values)
        own_numbers = {word for word in unlike if of.is_number[word]}
        own_names = unlike - own_numbers
        if own_numbers:
            known = _numbers_in(sentence.words)
            own_numbers = {word for word in own_numbers if not numbers_in_word(answer.texts[word]) <= known}
        if not own_numbers and not own_names:
            return nothing
        words = [word for word in claim.words if answer.is_word[word]]
        stems, counted = [answer.stems[word] for word in words], _numbers_in([answer.texts[word] for word in words])
        indices = [number for number, word in enumerate(sentence.words) if word[0].isalnum()]
        of_sentence = sentence.stems
        matcher = SequenceMatcher(None, stems, [of_sentence[number] for number in indices], autojunk=False)
        same = numbers = names = 0
        for kind, start, end, first, last in matcher.get_opcodes():
            if kind == "equal":
                same += end - start
            elif kind == "replace":
                others = [sentence.words[number] for number in indices[first:last] if of_sentence[number] not in stems]
                rivals = sum(not numbers_in_word(word) <= counted for word in others)
                numbers += min(rivals, len(own_numbers.intersection(words[start:end])))
                named = sum(word[0].isupper() and carries_content(word) for word in others)
                names += min(named, len(own_names.intersection(words[start:end])))
        return numbers, names, same / len(words)

    def _unlike(self, claim: _Claim, index: int, values: Sequence[tuple[Value, list[int]]]) -> set[int]:
        """The names and numbers that a sentence lacks: those of values that it does not repeat with its title, and
        numbers that are in no value."""
        of, known = self._of, self._of.in_sentences[index]
        lacking = {
            word for word in claim.words if (of.is_number[word] or of.is_name[word]) and not of.bits[word] & known
        }
        if not lacking:
            return lacking
        unlike = {word for word in lacking if of.is_number[word]}.difference(*(words for _, words in values))
        for value, words in values:
            if not lacking.isdisjoint(words):
                content = of.sentences.content_of([*of.sentences.titles_of(index), index])
                if not value.is_repeated_by(value.parts_in(content)):
                    unlike |= lacking.intersection(words)
        return unlike


def _numbers_in(words: Sequence[str]) -> frozenset[int]:
    """The numbers of some words, one by one."""
    return frozenset[int]().union(*map(numbers_in_word, words))


def _denied_share(lowered: Sequence[str], stems: Sequence[str], sentence: Sentence) -> float:
    """The share of the words that claim and sentence have in the same order which one of them denies, and one does not.

    0 where as many are denied in both, and where one sets a limit with a negation, and one without.
    """
    in_claim, in_sentence = negated_words(lowered), negated_words(sentence.lowered)
    cells = sentence.text.removesuffix(".").split(", ") if sentence.is_row else [sentence.text]
    if ":" in sentence.text and any(field.truth is Truth.NO for cell in cells for field in record_lines(cell)):
        in_sentence = [True] * len(in_sentence)
    if (not any(in_claim) and not any(in_sentence)) or set_same_limit(lowered, sentence.lowered):
        return 0.0
    said = [word for word, text in enumerate(lowered) if carries_content(text)]
    read = [word for word, text in enumerate(sentence.lowered) if carries_content(text)]
    of_sentence = sentence.stems
    matcher = SequenceMatcher(
        None, [stems[word] for word in said], [of_sentence[word] for word in read], autojunk=False
    )
    both = [
        (in_claim[said[left + step]], in_sentence[read[right + step]])
        for left, right, size in matcher.get_matching_blocks()
        for step in range(size)
    ]
    differing = sum(left is not right for left, right in both)
    return differing / len(both) if differing > sum(left and right for left, right in both) else 0.0


def _opposed_words(lowered: Sequence[str], sentence: Sequence[str], start: int, end: int) -> int:
    """How many words have an opposite instead of them in a clause of a sentence; -1 where one of the two is turned.

    "Not open" is "closed", and so are "open until six" and "closes at six", or "open every day except Monday".
    """
    clause = frozenset(sentence[start:end])
    own = ((at, OPPOSITES[word]) for at, word in enumerate(lowered) if word in OPPOSITES and word not in clause)
    turning = [(at, others) for at, opposites in own if (others := clause & opposites)]
    if not turning:
        return 0
    in_claim, in_clause = negated_words(lowered), defaultdict[str, set[bool]](set)
    for word, is_negated in zip(sentence[start:end], negated_words(sentence)[start:end], strict=True):
        in_clause[word].add(is_negated)
    differ = _TURNING.isdisjoint(lowered) is not _TURNING.isdisjoint(sentence[start:end]) or any(
        in_clause[other] != {in_claim[at]} for at, others in turning for other in others
    )
    return -1 if differ else len(turning)


_TURNING = frozenset(["until", "till", "except", "unless"])


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else _NONE


def _near(positions: Mapping[int, list[int]], first: int, second: int, distance: int) -> bool:
    others = positions.get(second, ())[:_MOST_PLACES]
    for here in positions.get(first, ())[:_MOST_PLACES]:
        for other in others:
            if -distance <= here - other <= distance:
                return True
    return False


def _has_digit(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


def _share_in_runs(words: Sequence[int], read: _ReadSentence) -> float:
    """The share of words that stand in a run of three that the premise repeats."""
    if len(words) < _RUN:
        return _NONE
    inside = [False] * len(words)
    for at, run in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if run in read.runs:
            inside[at : at + _RUN] = [True] * _RUN
    return sum(inside) / len(inside)
