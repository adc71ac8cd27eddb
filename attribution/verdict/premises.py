"""The premise of a claim: the sentences of the passages that it is held against, and how they match it.

Attention (the evidence of the claim) and the words of the claim each propose sentences. Each is widened by its
neighbours and the title of its passage; the one that covers the claim best is the premise. What the rest of the context
says does not count as support, it only tells whether a missing word stands somewhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain, pairwise, repeat

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.markup import structured_text
from attribeam.attribution.answers.parsed_answer import base_label
from attribeam.attribution.answers.plain_text import numbers_in_word
from attribeam.attribution.verdict.claims import words_in
from attribeam.attribution.verdict.fitted_parts import WordTable
from attribeam.attribution.verdict.signals import AnswerRow
from attribeam.attribution.verdict.texts import (
    OPPOSITES,
    WORD_OR_MARK,
    PassageSentences,
    Sentence,
    carries_content,
    negated_words,
    stem,
)
from attribeam.attribution.verdict.word_matches import ragged
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
_MOST_COSINES = 2**22
"""How many cosines are computed at once, 16 MB: long answers take no more memory than short ones."""

PREMISE_NUMBERS = (
    "best", "window", "pair", "anywhere", "soft", "soft_least", "missing", "missing_weight", "missing_anywhere",
    "missing_anywhere_weight", "missing_nouns", "missing_names", "missing_verbs", "missing_numbers", "asked_only",
    "novel", "rival_names", "rival_numbers", "lead", "second", "bigrams", "heads", "run", "denied", "opposed",
    "inverted", "words", "context", "name_gap", "number_gap", "subject_gap", "noun_gap", "name_clause_gap",
    "number_clause_gap", "subject_clause_gap", "noun_clause_gap", "root_missing", "values", "values_window",
    "values_anywhere", "attention_coverage", "attention_soft", "attention_best", "attention_window", "evidence_mass",
    "top_share", "margin", "sentences", "swapped_numbers", "swapped_names", "aligned",
    "carried", "carried_clause",
)  # fmt: skip
"""What is measured of a claim beside its premise. Shares are of the weights of the claim's content words.

``best``, ``window``, ``pair``, ``anywhere``: covered by the best sentence, by the premise, by it and one sentence more,
by all passages. ``soft``: with similar words counted by their cosine. ``missing``, ``rival``: words that the premise
lacks, or has instead. A *gap* says how much better the claim is covered by sentences (clauses) without its name,
number, subject or noun than by those that have it: a fact that hangs on something else. ``attention_...``: the same
where attention points, and how much of it lies on the premise. ``swapped_...``: words of the claim in whose place the
sentence that covers it best has another number or name; ``aligned``: the share of the claim's words that this sentence
has in the same order, -1 where it has all of the claim's values. ``denied``: the share of the words that claim and
sentence have in the same order which only one of them denies. ``opposed``: words whose opposite the best clause has.
``carried``: covered by the best sentence (clause) together with its title and what its pronouns refer to.
"""

_MISSING = ("missing", "missing_anywhere", "missing_nouns", "missing_names", "missing_verbs", "missing_numbers")
_GAPS = tuple(f"{kind}{unit}gap" for unit in ("_", "_clause_") for kind in ("name", "number", "subject", "noun"))
_ATTENTION = ("attention_coverage", "attention_soft", "attention_best", "attention_window")
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
    """

    numbers: npt.NDArray[np.float32]
    sentence: int | None
    window: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    others: tuple[int, ...] = ()


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
    row and of its column, but a head such as "Details" need not be there.
    """
    if not claims:
        return []
    answer, structure, premises = row.words, structured_text(row.record.answer), []
    beside = _BesidePassages(row, sentences, table)
    for words, evidence in claims:
        parts = (
            {structure.part_at(answer.parsed.words[word].char_start) for word in words} if structure.parts else set()
        )
        ranges = (label for part in parts if part is not None for label in structure.labels[part])
        labels = sorted({word for label in ranges for word in words_in(answer.parsed, label) if answer.content[word]})
        known = [word for word in labels if beside.present[:, beside.columns[word]].any()]
        content = [word for word in words if answer.content[word]]
        own = [*known, *(content or (word for word in words if answer.is_word[word]))]
        fact = (word for chars in evidence.atomic_fact for word in words_in(answer.parsed, chars))
        around = [word for word in fact if answer.content[word] and word not in own]
        if len(sentences) and own:
            claim = _OneClaim(beside, np.array(own), np.array(around, dtype=np.int64), words, evidence)
            premises.append(claim.premise())
        else:
            premises.append(Premise(np.full(len(PREMISE_NUMBERS), _NONE, dtype=np.float32), None))
    return premises


class _BesidePassages:
    """One answer beside the sentences of its passages.

    Presence matrices say which stem of the answer stands in which sentence, clause and window.
    """

    def __init__(self, row: AnswerRow, sentences: PassageSentences, table: WordTable) -> None:
        answer = row.words
        self.row, self.answer, self.sentences, self._table = row, answer, sentences, table
        spoken = (one for one, is_word in zip(answer.stems, answer.is_word, strict=True) if is_word)
        columns = {one: column for column, one in enumerate(dict.fromkeys(spoken))}
        self.columns = np.array([columns.get(one, -1) for one in answer.stems], dtype=np.int64)
        self.weights = np.array([table.weight(one) for one in answer.stems], dtype=np.float64)
        self._rows = table.rows(answer.lowered)
        stems = [one.stems for one in sentences.all]
        lengths = np.array([*map(len, stems)], dtype=np.int64)
        found = np.fromiter(map(columns.get, chain.from_iterable(stems), repeat(-1)), np.int64, lengths.sum())
        self.present = _presence(np.repeat(np.arange(len(stems)), lengths), found, (len(stems), len(columns)))
        self.clauses = [(place, words) for place, one in enumerate(sentences.all) for words in one.clauses]
        self._sentence_of_clause = np.array([place for place, _ in self.clauses], dtype=np.int64)
        firsts = (np.cumsum(lengths) - lengths)[self._sentence_of_clause]
        bounds = np.array([(words.start, len(words)) for _, words in self.clauses], dtype=np.int64).reshape(-1, 2).T
        clauses, places = ragged(firsts + bounds[0], bounds[1])
        self.clause_present = _presence(clauses, found[places], (len(self.clauses), len(columns)))
        tagged = [*zip(answer.parsed.universal_tags, answer.texts, strict=True)]
        asked = {stem(word) for word in WORD_OR_MARK.findall(row.record.question)}
        labels = map(base_label, answer.parsed.dependency_labels)
        self.heads = np.array(answer.heads, dtype=np.int64)
        self.is_subject, self.is_noun, self.is_verb, self.is_name, self.is_number, self.asked = (
            np.array(flags, dtype=bool)
            for flags in (
                [label in _SUBJECTS for label in labels],
                [tag == "NOUN" for tag, _ in tagged],
                [tag in ("VERB", "AUX") for tag, _ in tagged],
                [tag == "PROPN" and text[:1].isupper() for tag, text in tagged],
                [tag == "NUM" or any(map(str.isdigit, text)) for tag, text in tagged],
                [one in asked for one in answer.stems],
            )
        )

    @cached_property
    def carried(self) -> tuple[_Bools, _Bools]:
        """Presence in sentences and clauses, with the title's words and those of the sentence a pronoun refers to.

        A clause without a name shares the subject of its sentence's first clause.
        """
        carried_to = np.zeros_like(self.present)
        for title, text in self.sentences.ranges:
            if title:
                carried_to[text.start : text.stop] = self.present[title.start : title.stop].any(axis=0)
        for place in self.sentences.carried():
            carried_to[place] |= self.present[place - 1] | carried_to[place - 1]
        in_sentences = self.present | carried_to
        if not self.clauses:
            return in_sentences, in_sentences
        of = self._sentence_of_clause
        in_clauses = self.clause_present | carried_to[of]
        firsts = np.searchsorted(of, of)
        named = np.array([one for sentence in self.sentences.all for one in sentence.named], dtype=bool)
        sharing = np.flatnonzero(~named & (firsts != np.arange(len(of))))
        in_clauses[sharing] |= self.clause_present[firsts[sharing]]
        return in_sentences, in_clauses

    @cached_property
    def _windows(self) -> tuple[_Ints, _Ints]:
        """The sentences of all windows, one after the other, and where each window begins."""
        windows = [self.sentences.window(place) for place in range(len(self.sentences))]
        return np.concatenate(windows), np.cumsum([0, *map(len, windows[:-1])])

    @cached_property
    def window_present(self) -> _Bools:
        """Presence in windows."""
        places, starts = self._windows
        return np.logical_or.reduceat(self.present[places], starts, axis=0)

    @cached_property
    def window_cosines(self) -> npt.NDArray[np.float32]:
        """float32 [words, sentences]: the largest cosine, from 0 on, of each word with a word of each window."""
        found = np.zeros((len(self._rows), len(self.sentences)), dtype=np.float32)
        words = [one.lowered for one in self.sentences.all]
        every = self._table.rows(chain.from_iterable(words))
        sentence_of = np.repeat(np.arange(len(words)), [*map(len, words)])[every >= 0]
        counts = np.bincount(sentence_of, minlength=len(words))
        filled, of_words = np.flatnonzero(counts), np.flatnonzero(self._rows >= 0)
        if len(filled) and len(of_words):
            vectors = self._table.vectors
            places, starts = self._windows
            columns, place_of = np.unique(every[every >= 0], return_inverse=True)
            firsts = (np.cumsum(counts) - counts)[filled]
            at_once = max(1, _MOST_COSINES // max(len(place_of), len(places)))
            for some in np.split(of_words, range(at_once, len(of_words), at_once)):
                cosines = (vectors[self._rows[some]] @ vectors[columns].T)[:, place_of]
                of_sentences = np.zeros((len(some), len(words)), dtype=np.float32)
                of_sentences[:, filled] = np.maximum.reduceat(cosines, firsts, axis=1)
                found[some] = np.maximum.reduceat(of_sentences[:, places], starts, axis=1)
        return np.clip(found, 0.0, 1.0)


def _presence(rows: _Ints, columns: _Ints, shape: tuple[int, int]) -> _Bools:
    """True at these rows and columns, but those of column -1."""
    found = np.zeros(shape, dtype=bool)
    found[rows[columns >= 0], columns[columns >= 0]] = True
    return found


class _OneClaim:
    """One claim beside all sentences; ``own`` and ``around`` are content words of the answer, by place."""

    def __init__(
        self, of: _BesidePassages, own: _Ints, around: _Ints, words: Sequence[int], evidence: SpanEvidence
    ) -> None:
        self._of, self._own, self._around, self._words, self._evidence = of, own, around, words, evidence
        self._own_words = own.tolist()
        self._weights = of.weights[own]
        self._total = float(self._weights.sum())
        columns = of.columns[own]
        self._in_sentences, self._in_clauses = of.present[:, columns], of.clause_present[:, columns]
        self._covered = self._in_sentences @ self._weights / self._total
        self._context = of.present[:, of.columns[around]] @ of.weights[around]
        self._attention = of.sentences.attention(evidence)
        self._attended = float(self._attention.sum())
        self._exact = of.is_name[own] | of.is_number[own]
        parsed = of.answer.parsed.words
        self._chars = CharRange(parsed[min(words)].char_start, parsed[max(words)].char_end)
        values = of.row.matcher.values_in(self._chars)
        self._values = [one for one in values if any(parsed[word].overlaps(one.chars) for word in words)]

    def premise(self) -> Premise:
        """The sentence that covers the claim best, among those that words and attention propose."""
        rank = self._covered * self._total + _CONTEXT_COUNTS * self._context
        by_words = np.argsort(-rank, kind="stable")[:_BY_WORDS].tolist()
        by_attention = np.argsort(-self._attention, kind="stable")[:_BY_ATTENTION].tolist()
        proposed = [*dict.fromkeys([*by_words, *by_attention])]
        places = np.array(proposed)
        # of each proposed sentence, whether its window has a word, and the largest cosine there, 1 if it has
        seen = self._of.window_present[places[:, None], self._of.columns[self._own]]
        cosines = self._of.window_cosines[self._own, places[:, None]].astype(np.float64)
        alike = np.where(seen, 1.0, cosines)
        counted = np.where(self._exact & ~seen, 0.0, alike)
        scores = counted @ self._weights / self._total + _COVERAGE_COUNTS * self._covered[places]
        if self._attended:
            scores += _ATTENTION_COUNTS * self._attention[places] / self._attended
        best = int(np.argmax(scores))
        place, attended = proposed[best], proposed.index(by_attention[0])
        window = self._of.sentences.window(place)
        numbers = {
            **self._coverage(place, seen[best], alike[best]),
            **self._manner(place),
            **self._gaps(),
            **self._swapped(),
            **self._value_numbers(window),
            **self._attended_numbers(place, window, seen[attended], alike[attended]),
        }
        missing = self._own[~seen[best] & (alike[best] < _ALIKE)]
        return Premise(
            np.array([numbers[name] for name in PREMISE_NUMBERS], dtype=np.float32),
            place,
            tuple(window),
            tuple(missing.tolist()),
            self._others(window, [by_attention[0], *by_words, *by_attention[1:]]),
        )

    def _others(self, window: Sequence[int], proposed: Sequence[int]) -> tuple[int, ...]:
        """The first proposed sentences with other texts than those of the window."""
        sentences = self._of.sentences.all
        texts = {sentences[place].text for place in window}
        by_text = {sentences[place].text: place for place in reversed(proposed) if sentences[place].text not in texts}
        return tuple(sorted(by_text.values(), key=proposed.index)[:_OTHERS])

    def _coverage(self, place: int, seen: _Bools, alike: _Floats) -> dict[str, float]:
        of, own, weights = self._of, self._own, self._weights
        anywhere = self._in_sentences.any(axis=0)
        extra = self._in_sentences @ (weights * ~seen)
        other = int(np.argmax(extra))
        pair = seen | self._in_sentences[other] if extra[other] > 0 else seen
        unseen, lacking, asked = ~seen, ~seen & (alike < _ALIKE), of.asked[own]
        shares = np.array([seen, pair, anywhere, unseen & asked, ~anywhere & ~asked]) @ weights / self._total
        counts = np.array([
            unseen, ~anywhere, lacking & of.is_noun[own], unseen & of.is_name[own], lacking & of.is_verb[own],
            unseen & of.is_number[own],
        ]).sum(axis=1)  # fmt: skip
        told = {of.answer.stems[word] for word in (*self._own_words, *self._around.tolist())}
        sentence = of.sentences.all[place]
        others = [word for word, one in zip(sentence.words, sentence.stems, strict=True) if one not in told]
        names = sum(word[:1].isupper() and carries_content(word) for word in others if word != sentence.words[0])
        order = np.sort(self._covered)[::-1].tolist()
        second = order[1] if len(order) > 1 else 0.0
        counted = np.where(self._exact & unseen, 0.0, alike)
        root = of.heads[own] == own
        return {
            "best": float(self._covered[place]),
            **dict(zip(("window", "pair", "anywhere", "asked_only", "novel"), shares.tolist(), strict=True)),
            **dict(zip(_MISSING, counts.tolist(), strict=True)),
            "soft": float(weights @ alike) / self._total,
            "soft_least": float(alike.min()),
            "missing_weight": float((weights * (1 - counted)).max()),
            "missing_anywhere_weight": float((weights * ~anywhere).max()),
            "rival_names": min(float(names), _MOST_RIVALS),
            "rival_numbers": min(float(sum(any(map(str.isdigit, word)) for word in others)), _MOST_RIVALS),
            "lead": order[0] - second,
            "second": second,
            "root_missing": float(lacking[root].any()) if root.any() else _NONE,
            "words": float(len(own)),
            "context": float(self._context[place] / of.weights[self._around].sum()) if len(self._around) else _NONE,
        }

    def _manner(self, place: int) -> dict[str, float]:
        """Runs and neighbours of words, negation, words of opposite meaning, and the order of words."""
        of, answer = self._of, self._of.answer
        places, runs = of.sentences.places_and_runs(place)
        stems = [answer.stems[word] for word in self._own_words]
        heads = [(answer.stems[word], answer.content_head(word)) for word in self._own_words]
        pairs = [(one, answer.stems[head]) for one, head in heads if head is not None]
        words: Sequence[str] = ()
        if of.clauses:
            number, clause = of.clauses[int(np.argmax(self._in_clauses @ self._weights))]
            words = of.sentences.all[number].lowered[clause.start : clause.stop]
        own, sentence, denied = [answer.lowered[word] for word in self._words], of.sentences.all[place], 0.0
        if self._covered[place] >= _ABOUT_THE_SAME:
            denied = _denied_share(own, [answer.stems[word] for word in self._words], sentence)
        there = set(words)
        opposed = sum(bool(OPPOSITES[word] & there) and word not in there for word in {*own} if word in OPPOSITES)
        return {
            "bigrams": _mean([_near(places, *pair, _NEAR) for pair in pairwise(stems)]),
            "heads": _mean([_near(places, *pair, _NEAR_HEAD) for pair in pairs]),
            "run": _share_in_runs([answer.stems[word] for word in self._words if answer.is_word[word]], runs),
            "denied": denied,
            "opposed": float(opposed),
            "inverted": _share_inverted(stems, sentence.stems),
        }

    def _gaps(self) -> dict[str, float]:
        """What the claim owes to one of its words, and what sentences and clauses cover with what they carry."""
        of, own, weights, columns = self._of, self._own, self._weights, self._of.columns[self._own]
        is_own = np.zeros(len(of.heads), dtype=bool)
        is_own[own] = True
        heads = of.heads[own]
        is_subject = of.is_subject[own] | (of.is_subject[heads] & is_own[heads])
        kinds = np.array([of.is_name[own], of.is_number[own], is_subject, of.is_noun[own]])
        in_units = (self._in_sentences, self._in_clauses if of.clauses else self._in_sentences)
        carried = [one[:, columns] for one in of.carried]
        gaps = []
        for present, with_carried in zip(in_units, carried, strict=True):
            # of each word, how much more of the others a unit without it covers than one that has it
            weighted = present * weights
            others = weighted.sum(axis=1)[:, None] - weighted
            with_it = np.where(with_carried, others, 0.0).max(axis=0)
            gaps.append((others.max(axis=0) - with_it) / np.maximum(self._total - weights, 0.5))
        largest = np.where(kinds, np.stack(gaps)[:, None], -np.inf).max(axis=2)
        largest[:, ~kinds.any(axis=1)] = _NONE
        shares = [float((one @ weights).max()) / self._total for one in carried]
        return dict(zip((*_GAPS, "carried", "carried_clause"), [*largest.ravel().tolist(), *shares], strict=True))

    def _swapped(self) -> dict[str, float]:
        """Words of values in whose place the sentence that covers the claim best has another number or name.

        Both texts are aligned word by word, by stems; where other words stand between the same ones, a number or name
        of the sentence may be what the claim should say.
        """
        of, answer, place = self._of, self._of.answer, int(np.argmax(self._covered))
        sentence, nothing = of.sentences.all[place], {"swapped_numbers": 0.0, "swapped_names": 0.0, "aligned": _NONE}
        if self._covered[place] < _ABOUT_THE_SAME:
            return nothing
        unlike, known = self._unlike(place), _numbers_in(sentence.words)
        own_numbers = {one for one in unlike if of.is_number[one] and not numbers_in_word(answer.texts[one]) <= known}
        own_names = {one for one in unlike if of.is_name[one] and not of.is_number[one]}
        if not own_numbers and not own_names:
            return nothing
        own = [word for word in self._words if answer.is_word[word]]
        stems, counted = [answer.stems[word] for word in own], _numbers_in([answer.texts[word] for word in own])
        there = [number for number, word in enumerate(sentence.words) if word[0].isalnum()]
        matcher = SequenceMatcher(None, stems, [sentence.stems[number] for number in there], autojunk=False)
        same = numbers = names = 0
        for kind, start, end, first, last in matcher.get_opcodes():
            if kind == "equal":
                same += end - start
            elif kind == "replace":
                others = [sentence.words[number] for number in there[first:last] if sentence.stems[number] not in stems]
                rivals = sum(not numbers_in_word(word) <= counted for word in others)
                numbers += min(rivals, len(own_numbers.intersection(own[start:end])))
                named = sum(word[0].isupper() and carries_content(word) for word in others)
                names += min(named, len(own_names.intersection(own[start:end])))
        return {"swapped_numbers": float(numbers), "swapped_names": float(names), "aligned": same / len(own)}

    def _unlike(self, place: int) -> set[int]:
        """The words of values that a sentence with its title does not repeat, and of numbers that are in no value."""
        of, words = self._of, self._of.answer.parsed.words
        content = of.sentences.content_of([*of.sentences.titles_of(place), place])
        inside = [
            (value, [word for word in self._words if words[word].overlaps(value.chars)]) for value in self._values
        ]
        unlike = {word for value, own in inside if not value.is_repeated_by(value.parts_in(content)) for word in own}
        known = {word for _, own in inside for word in own}
        unlike.update(word for word in self._words if of.is_number[word] and word not in known)
        return {word for word in unlike if of.answer.stems[word] not in of.sentences.all[place].stems}

    def _value_numbers(self, window: Sequence[int]) -> dict[str, float]:
        if not self._values:
            return {"values": 0.0, "values_window": 0.0, "values_anywhere": 0.0}
        content, everywhere = self._of.sentences.content_of(window), range(len(self._of.row.record.passages))
        return {
            "values": float(len(self._values)),
            "values_window": float(sum(not one.is_repeated_by(one.parts_in(content)) for one in self._values)),
            "values_anywhere": float(len(self._of.row.matcher.unmatched_ranges(self._chars, everywhere))),
        }

    def _attended_numbers(self, place: int, window: Sequence[int], seen: _Bools, alike: _Floats) -> dict[str, float]:
        """How attention goes with the premise; ``seen`` and ``alike`` are of the window with most of it."""
        evidence = self._evidence
        scores = np.array(evidence.passage_scores, np.float32).astype(float)  # as they are written
        found = {
            "evidence_mass": _NONE if evidence.evidence_mass is None else float(np.float32(evidence.evidence_mass)),
            "top_share": float(scores.max() / scores.sum()) if scores.sum() > 0 else 0.0,
            "margin": _NONE if evidence.margin is None else float(np.float32(evidence.margin)),
            "sentences": math.log1p(len(self._of.sentences)),
        }
        if not self._attended:
            return {**found, **dict.fromkeys(_ATTENTION, 0.0)}
        shares = [float(self._weights @ one) / self._total for one in (seen, alike)]
        shares += [float(self._attention[one].sum()) / self._attended for one in (place, list(window))]
        return {**found, **dict(zip(_ATTENTION, shares, strict=True))}


def _numbers_in(words: Sequence[str]) -> frozenset[int]:
    """The numbers of some words, one by one."""
    return frozenset[int]().union(*map(numbers_in_word, words))


def _denied_share(lowered: Sequence[str], stems: Sequence[str], sentence: Sentence) -> float:
    """The share of the words that claim and sentence have in the same order which one of them denies, and one does not.

    0 where as many are denied in both.
    """
    in_claim, in_sentence = negated_words(lowered), negated_words(sentence.lowered)
    if sentence.start < 0 and sentence.lowered[-1:] in (("false",), ("no",), ("none",)):
        in_sentence = [True] * len(in_sentence)
    if not any(in_claim) and not any(in_sentence):
        return 0.0
    blocks = SequenceMatcher(None, stems, sentence.stems, autojunk=False).get_matching_blocks()
    aligned = [(one + step, two + step) for one, two, size in blocks for step in range(size)]
    both = [(in_claim[one], in_sentence[two]) for one, two in aligned if carries_content(lowered[one])]
    differing = sum(one is not two for one, two in both)
    return differing / len(both) if differing > sum(one and two for one, two in both) else 0.0


def _share_inverted(own: Sequence[str], stems: Sequence[str]) -> float:
    """The share of successive content words whose order in the sentence is the other way round."""
    at = {one: place for place, one in reversed([*enumerate(stems)])}
    places = [at[one] for one in own if one in at]
    return _mean([one > two for one, two in pairwise(places)])


def _mean(found: Sequence[bool]) -> float:
    return sum(found) / len(found) if found else _NONE


def _near(places: dict[str, list[int]], first: str, second: str, distance: int) -> bool:
    one, two = places.get(first, ())[:_MOST_PLACES], places.get(second, ())[:_MOST_PLACES]
    return any(abs(here - there) <= distance for here in one for there in two)


def _share_in_runs(words: Sequence[str], known: frozenset[tuple[str, ...]]) -> float:
    """The share of words that stand in a run of three that the premise repeats."""
    if len(words) < _RUN:
        return _NONE
    inside = [False] * len(words)
    for at, run in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if run in known:
            inside[at : at + _RUN] = [True] * _RUN
    return sum(inside) / len(inside)
