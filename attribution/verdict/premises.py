"""The premise of a claim: the sentences of the passages that it is held against, and how they match it.

Attention (the evidence of the claim) and the words of the claim each propose sentences. Each is widened by its
neighbours and the title of its passage; the one that covers the claim best is the premise. What the rest of the context
says does not count as support, it only tells whether a missing word stands somewhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise, repeat

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import ParsedAnswer, base_label
from attribeam.attribution.answers.structured_text import structured_text
from attribeam.attribution.answers.unmatched_values import Value, ValueMatcher
from attribeam.attribution.verdict.claims import words_in
from attribeam.attribution.verdict.passage_sentences import PassageSentences
from attribeam.attribution.verdict.signals import AnswerRow
from attribeam.attribution.verdict.swapped_values import NOTHING_SWAPPED, swapped_values
from attribeam.attribution.verdict.word_forms import (
    DENIALS,
    OPPOSITES,
    WORD_OR_MARK,
    AnswerWords,
    WordTable,
    carries_content,
    stem,
)
from attribeam.attribution.verdict.word_matches import ragged
from attribeam.schemas import CharRange, QARecord, SpanEvidence

_DENIED_THERE = DENIALS | {"false"}
"""Words that deny in a passage, or in the value of a field."""
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
has in the same order, -1 where it has all of the claim's values. ``carried``: covered by the best
sentence (clause) together with its title and what its pronouns refer to.
"""

_MISSING = (
    "missing", "missing_anywhere", "missing_nouns", "missing_names", "missing_verbs", "missing_numbers",
)  # fmt: skip
_GAPS = tuple(f"{kind}{unit}gap" for unit in ("_", "_clause_") for kind in ("name", "number", "subject", "noun"))
_ATTENTION = slice(PREMISE_NUMBERS.index("attention_coverage"), PREMISE_NUMBERS.index("attention_window") + 1)
_WINDOW, _ATTENTION_WINDOW = map(PREMISE_NUMBERS.index, ("window", "attention_window"))

_Floats = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]


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


class Premises:
    """One answer beside the sentences of its passages.

    Work on presence matrices: which content stem of the answer stands in which sentence, and in which clause.
    """

    def __init__(
        self,
        record: QARecord,
        answer: AnswerWords,
        sentences: PassageSentences,
        table: WordTable,
        matcher: ValueMatcher,
    ) -> None:
        self._record, self._answer, self._table, self._matcher = record, answer, table, matcher
        self.sentences = sentences
        spoken = (one for one, is_word in zip(answer.stems, answer.is_word, strict=True) if is_word)
        columns = {one: column for column, one in enumerate(dict.fromkeys(spoken))}
        self._columns = np.array([columns.get(one, -1) for one in answer.stems], dtype=np.int64)
        self._weights = np.array([table.weight(one) for one in answer.stems], dtype=np.float64)
        self._rows = table.rows(answer.lowered)
        stems = [one.stems for one in sentences.all]
        lengths = np.array([*map(len, stems)], dtype=np.int64)
        found = np.fromiter(map(columns.get, chain.from_iterable(stems), repeat(-1)), np.int64, lengths.sum())
        self._present = _presence(np.repeat(np.arange(len(stems)), lengths), found, (len(stems), len(columns)))
        self._clauses = [(place, words) for place, one in enumerate(sentences.all) for words in one.clauses]
        starts = np.cumsum(lengths) - lengths
        bounds = np.array([(words.start, len(words)) for _, words in self._clauses], dtype=np.int64).reshape(-1, 2).T
        self._sentence_of_clause = np.array([place for place, _ in self._clauses], dtype=np.int64)
        clauses, places = ragged(starts[self._sentence_of_clause] + bounds[0], bounds[1])
        self._clause_present = _presence(clauses, found[places], (len(self._clauses), len(columns)))
        self._question = {stem(word) for word in WORD_OR_MARK.findall(record.question)}
        tags = answer.parsed.universal_tags
        self._heads = np.array(answer.heads, dtype=np.int64)
        self._is_subject = np.array(
            [base_label(label) in _SUBJECTS for label in answer.parsed.dependency_labels], dtype=bool
        )
        self._is_noun = np.array([tag == "NOUN" for tag in tags], dtype=bool)
        self._is_verb = np.array([tag in ("VERB", "AUX") for tag in tags], dtype=bool)
        self._is_name = np.array(
            [tag == "PROPN" and text[:1].isupper() for tag, text in zip(tags, answer.texts, strict=True)], dtype=bool
        )
        self._is_number = np.array(
            [tag == "NUM" or any(map(str.isdigit, text)) for tag, text in zip(tags, answer.texts, strict=True)],
            dtype=bool,
        )
        self._asked = np.array([one in self._question for one in answer.stems], dtype=bool)

    @cached_property
    def _denied(self) -> list[bool]:
        return self._answer.denied_words()

    @cached_property
    def _carried_to(self) -> _Bools:
        """Presence in the titles of sentences, and in the sentences that a pronoun of theirs refers to."""
        found = np.zeros_like(self._present)
        for title, text in self.sentences.titles_and_texts():
            if title:
                found[text.start : text.stop] = self._present[title.start : title.stop].any(axis=0)
        for place in self.sentences.carried():
            found[place] |= self._present[place - 1] | found[place - 1]
        return found

    @cached_property
    def _carried(self) -> _Bools:
        """Presence in sentences, with the title's words, and those of the sentence that a pronoun refers to."""
        return np.asarray(self._present | self._carried_to, dtype=bool)

    @cached_property
    def _clause_carried(self) -> _Bools:
        """Presence in clauses; one without a name shares the subject of its sentence's first clause."""
        of, present = self._sentence_of_clause, self._clause_present
        found = present | self._carried_to[of]
        firsts = np.searchsorted(of, of)
        named = np.array([one for sentence in self.sentences.all for one in sentence.named], dtype=bool)
        sharing = np.flatnonzero(~named & (firsts != np.arange(len(of))))
        found[sharing] |= present[firsts[sharing]]
        return np.asarray(found, dtype=bool)

    def of_claim(
        self, words: Sequence[int], context: Sequence[int], evidence: SpanEvidence, labels: Sequence[int] = ()
    ) -> Premise:
        """The premise of the claim with these words of the answer.

        ``context`` are the words of its atomic fact: they help to find the premise, and are not missed in it.
        ``evidence`` is what attention found for the claim. ``labels`` are words that say what the claim is about, such
        as those of a column: they count as its own where passages have them, since a head such as "Details" need not be
        there.
        """
        known = [word for word in labels if self._answer.content[word] and self._occurs(word)]
        own = np.array([*known, *self._own(words)], dtype=np.int64)
        told = set(own.tolist())
        around = np.array([w for w in context if self._answer.content[w] and w not in told], dtype=np.int64)
        if not len(self.sentences) or not len(own):
            return Premise(np.full(len(PREMISE_NUMBERS), _NONE, dtype=np.float32), None)
        return _OneClaim(self, own, around, words, evidence).premise()

    def _occurs(self, word: int) -> bool:
        return bool(self._present[:, self._columns[word]].any())

    def _own(self, words: Sequence[int]) -> list[int]:
        answer = self._answer
        content = [word for word in words if answer.content[word]]
        return content or [word for word in words if answer.is_word[word]]

    @cached_property
    def _windows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The sentences of all windows, one after the other, and where each window begins."""
        windows = [self.sentences.window(place) for place in range(len(self.sentences))]
        return np.concatenate(windows), np.cumsum([0, *map(len, windows[:-1])])

    @cached_property
    def _window_present(self) -> _Bools:
        """Presence in windows."""
        places, starts = self._windows
        return np.logical_or.reduceat(self._present[places], starts, axis=0)

    @cached_property
    def _window_cosines(self) -> npt.NDArray[np.float32]:
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


def _presence(rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], shape: tuple[int, int]) -> _Bools:
    """True at these rows and columns, but those of column -1."""
    found = np.zeros(shape, dtype=bool)
    found[rows[columns >= 0], columns[columns >= 0]] = True
    return found


def claim_premises(
    row: AnswerRow,
    sentences: PassageSentences,
    claims: Sequence[tuple[Sequence[int], SpanEvidence]],
    table: WordTable,
) -> list[Premise]:
    """The premise of each claim of an answer, given by its words and what attention found for it."""
    if not claims:
        return []
    parsed = row.words.parsed
    premises = Premises(row.record, row.words, sentences, table, row.matcher)
    return [
        premises.of_claim(
            words,
            [word for chars in found.atomic_fact for word in words_in(parsed, chars)],
            found,
            _words_of_labels(parsed, row.record.answer, words),
        )
        for words, found in claims
    ]


def _words_of_labels(parsed: ParsedAnswer, answer: str, words: Sequence[int]) -> list[int]:
    """The words of the labels of the table cells and fields that a claim with these words stands in, ascending.

    "24 months" in a table says something of its row and of its column.
    """
    structure = structured_text(answer)
    parts = {structure.part_at(parsed.words[word].char_start) for word in words} if structure.parts else set()
    labels = (label for part in parts if part is not None for label in structure.labels[part])
    return sorted({word for label in labels for word in words_in(parsed, label)})


class _OneClaim:
    """One claim beside all sentences; ``own`` and ``around`` are content words of the answer, by place."""

    def __init__(
        self,
        of: Premises,
        own: npt.NDArray[np.int64],
        around: npt.NDArray[np.int64],
        words: Sequence[int],
        evidence: SpanEvidence,
    ) -> None:
        self._of, self._own, self._around, self._words, self._evidence = of, own, around, words, evidence
        self._own_words = own.tolist()
        self._weights = of._weights[own]
        self._total = float(self._weights.sum())
        columns = of._columns[own]
        self._in_sentences, self._in_clauses = of._present[:, columns], of._clause_present[:, columns]
        self._covered = self._in_sentences @ self._weights / self._total
        self._context = of._present[:, of._columns[around]] @ of._weights[around]
        self._attention = of.sentences.attention(evidence)
        self._attended = float(self._attention.sum())
        self._exact = of._is_name[own] | of._is_number[own]

    def premise(self) -> Premise:
        """The sentence that covers the claim best, among those that words and attention propose."""
        rank = self._covered * self._total + _CONTEXT_COUNTS * self._context
        by_words = np.argsort(-rank, kind="stable")[:_BY_WORDS].tolist()
        by_attention = np.argsort(-self._attention, kind="stable")[:_BY_ATTENTION].tolist()
        proposed = [*dict.fromkeys([*by_words, *by_attention])]
        places = np.array(proposed)
        seen, alike = self._in_windows(places)
        best = self._best_of(places, seen, alike)
        place, attended = proposed[best], proposed.index(by_attention[0])
        window = self._of.sentences.window(place)
        numbers = {**self._coverage(place, seen[best], alike[best]), **self._manner(place), **self._gaps()}
        numbers |= {**self._swapped(), **self._carried_shares(), **self._values(window)}
        numbers |= self._attended_numbers(place, window, seen[attended], alike[attended])
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

    def _best_of(self, places: npt.NDArray[np.int64], seen: _Bools, alike: _Floats) -> int:
        """Which of some sentences is best, by what their windows have and how alike it is."""
        counted = np.where(self._exact & ~seen, 0.0, alike)
        scores = counted @ self._weights / self._total + _COVERAGE_COUNTS * self._covered[places]
        if self._attended:
            scores += _ATTENTION_COUNTS * self._attention[places] / self._attended
        return int(np.argmax(scores))

    def _in_windows(self, places: npt.NDArray[np.int64]) -> tuple[_Bools, _Floats]:
        """[places, words]: whether the window of a sentence has a word, and the largest cosine there, 1 if it has."""
        seen = self._of._window_present[places[:, None], self._of._columns[self._own]]
        return seen, np.where(seen, 1.0, self._of._window_cosines[self._own, places[:, None]].astype(np.float64))

    def _coverage(self, place: int, seen: _Bools, alike: _Floats) -> dict[str, float]:
        of, own, weights = self._of, self._own, self._weights
        anywhere = self._in_sentences.any(axis=0)
        extra = self._in_sentences @ (weights * ~seen)
        other = int(np.argmax(extra))
        pair = seen | self._in_sentences[other] if extra[other] > 0 else seen
        unseen, lacking, asked = ~seen, ~seen & (alike < _ALIKE), of._asked[own]
        shares = np.array([seen, pair, anywhere, unseen & asked, ~anywhere & ~asked]) @ weights / self._total
        counts = np.array([
            unseen, ~anywhere, lacking & of._is_noun[own], unseen & of._is_name[own], lacking & of._is_verb[own],
            unseen & of._is_number[own],
        ]).sum(axis=1)  # fmt: skip
        told = {of._answer.stems[word] for word in (*self._own_words, *self._around.tolist())}
        sentence = of.sentences.all[place]
        others = [word for word, one in zip(sentence.words, sentence.stems, strict=True) if one not in told]
        names = sum(word[:1].isupper() and carries_content(word) for word in others if word != sentence.words[0])
        order = np.sort(self._covered)[::-1].tolist()
        second = order[1] if len(order) > 1 else 0.0
        counted = np.where(self._exact & unseen, 0.0, alike)
        root = of._heads[own] == own
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
            "context": float(self._context[place] / of._weights[self._around].sum()) if len(self._around) else _NONE,
        }

    def _manner(self, place: int) -> dict[str, float]:
        """Runs and neighbours of words, negation, words of opposite meaning, and the order of words."""
        of, answer = self._of, self._of._answer
        places, runs = of.sentences.places_and_runs(place)
        stems = [answer.stems[word] for word in self._own_words]
        heads = [(answer.stems[word], answer.content_head(word)) for word in self._own_words]
        pairs = [(one, answer.stems[head]) for one, head in heads if head is not None]
        clause = self._best_clause()
        words = () if clause is None else of.sentences.all[clause[0]].lowered[clause[1].start : clause[1].stop]
        denied = any(of._denied[word] for word in self._own_words) != any(word in _DENIED_THERE for word in words)
        there = set(words)
        own = {answer.lowered[word] for word in self._words}
        opposed = sum(bool(OPPOSITES[word] & there) and word not in there for word in own if word in OPPOSITES)
        return {
            "bigrams": _mean([_near(places, *pair, _NEAR) for pair in pairwise(stems)]),
            "heads": _mean([_near(places, *pair, _NEAR_HEAD) for pair in pairs]),
            "run": _share_in_runs([answer.stems[word] for word in self._words if answer.is_word[word]], runs),
            "denied": float(denied),
            "opposed": float(opposed),
            "inverted": _share_inverted(stems, of.sentences.all[place].stems),
        }

    def _best_clause(self) -> tuple[int, range] | None:
        of = self._of
        if not of._clauses:
            return None
        return of._clauses[int(np.argmax(self._in_clauses @ self._weights))]

    def _gaps(self) -> dict[str, float]:
        of, own, columns = self._of, self._own, self._of._columns[self._own]
        is_subject, heads = of._is_subject[own], of._heads[own]
        is_own = np.zeros(len(of._heads), dtype=bool)
        is_own[own] = True
        is_subject |= of._is_subject[heads] & is_own[heads]
        kinds = np.array([of._is_name[own], of._is_number[own], is_subject, of._is_noun[own]])
        sentences = self._gap_of_words(self._in_sentences, of._carried[:, columns])
        clauses = self._gap_of_words(self._in_clauses, of._clause_carried[:, columns]) if of._clauses else sentences
        largest = np.where(kinds, np.stack((sentences, clauses))[:, None], -np.inf).max(axis=2)
        largest[:, ~kinds.any(axis=1)] = _NONE
        return dict(zip(_GAPS, largest.ravel().tolist(), strict=True))

    def _gap_of_words(self, present: _Bools, carried: _Bools) -> _Floats:
        """For each word, how much more of the others a unit without it covers than one that has it."""
        weights = self._weights
        weighted = present * weights
        rest = weighted.sum(axis=1)[:, None] - weighted
        with_it = np.where(carried, rest, 0.0).max(axis=0)
        gaps: _Floats = (rest.max(axis=0) - with_it) / np.maximum(self._total - weights, 0.5)
        return gaps

    def _carried_shares(self) -> dict[str, float]:
        of, columns = self._of, self._of._columns[self._own]
        units = {"carried": of._carried, "carried_clause": of._clause_carried if of._clauses else of._carried}
        return {name: float((one[:, columns] @ self._weights).max()) / self._total for name, one in units.items()}

    def _swapped(self) -> dict[str, float]:
        """Values in whose place the sentence that covers the claim best has another one."""
        of, place, found = self._of, int(np.argmax(self._covered)), NOTHING_SWAPPED
        if self._covered[place] >= _ABOUT_THE_SAME:
            content = of.sentences.content_of([*of.sentences.titles_of(place), place])
            numbers, names = ({word for word in self._words if flags[word]} for flags in (of._is_number, of._is_name))
            sentence = of.sentences.all[place]
            found = swapped_values(of._answer, self._words, self._own_values, numbers, names, sentence, content)
        return {"swapped_numbers": found.numbers, "swapped_names": found.names, "aligned": found.aligned}

    @cached_property
    def _own_chars(self) -> CharRange:
        words = self._of._answer.parsed.words
        return CharRange(words[min(self._words)].char_start, words[max(self._words)].char_end)

    @cached_property
    def _own_values(self) -> list[Value]:
        words = self._of._answer.parsed.words
        found = self._of._matcher.values_in(self._own_chars)
        return [one for one in found if any(words[word].overlaps(one.chars) for word in self._words)]

    def _values(self, window: Sequence[int]) -> dict[str, float]:
        of, own, chars = self._of, self._own_values, self._own_chars
        content = of.sentences.content_of(window) if own else None
        unmatched = sum(not one.is_repeated_by(one.parts_in(content)) for one in own) if content is not None else 0
        everywhere = range(len(of._record.passages))
        return {
            "values": float(len(own)),
            "values_window": float(unmatched),
            "values_anywhere": float(len(of._matcher.unmatched_ranges(chars, everywhere))) if own else 0.0,
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
            return {**found, **dict.fromkeys(PREMISE_NUMBERS[_ATTENTION], 0.0)}
        return {
            **found,
            "attention_coverage": float(self._weights @ seen) / self._total,
            "attention_soft": float(self._weights @ alike) / self._total,
            "attention_best": float(self._attention[place]) / self._attended,
            "attention_window": float(self._attention[list(window)].sum()) / self._attended,
        }


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
