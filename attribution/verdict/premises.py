"""The premise of a claim: the sentences of the passages that it is held against, and how they match it.

Attention (the evidence of the claim) and the words of the claim each propose sentences. Each is widened by its
neighbours and the title of its passage; the one that covers the claim best is the premise. What the rest of the context
says does not count as support, it only tells whether a missing word stands somewhere else.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import base_label
from attribeam.attribution.answers.passage_values import PassageContent
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.verdict.answer_words import DENIALS, AnswerWords
from attribeam.attribution.verdict.claims import label_words, words_in
from attribeam.attribution.verdict.record_fields import RecordLine, is_json, record_lines
from attribeam.attribution.verdict.signals import AnswerRow
from attribeam.attribution.verdict.word_forms import OPPOSITES, WORD_OR_MARK, carries_content, stem
from attribeam.attribution.verdict.word_table import WordTable
from attribeam.schemas import CharRange, EvidencePiece, Passage, QARecord, SpanEvidence

_SENTENCE_ENDS = frozenset(".!?")
_CLAUSE_BREAKS = frozenset([",", ";", ":", "and", "but", "while", "whereas", "which", "although", "–", "—"])
_DENIED_THERE = DENIALS | {"false"}
"""Words that deny in a passage, or in the value of a field."""
_PRONOUNS = frozenset(["he", "she", "it", "they", "his", "her", "its", "their", "this", "these", "those", "that"])
_BY_WORDS, _BY_ATTENTION = 4, 2
"""How many sentences words and attention propose."""
_COVERAGE_COUNTS, _CONTEXT_COUNTS, _ATTENTION_COUNTS = 0.15, 0.3, 0.05
_ALIKE = 0.6
"""The cosine from which on a word that is missing counts as said in another word."""
_TELLING, _LEAST_ATTENTION = 0.6, 0.2
"""The share of a claim that a premise has from which on evidence should lie there, and the least share of it."""
_RUN, _NEAR, _NEAR_HEAD, _MOST_PLACES = 3, 3, 6, 8
_MOST_RIVALS = 4.0
_SUBJECTS = frozenset({"nsubj", "csubj"})
_NONE = -1.0
_KNOWN_TEXTS = 256
"""How many titles and texts are kept with their sentences."""
_MOST_COSINES = 2**22
"""How many cosines are computed at once, 16 MB: long answers take no more memory than short ones."""

PREMISE_NUMBERS = (
    "best", "window", "pair", "anywhere", "soft", "soft_least", "missing", "missing_weight", "missing_anywhere",
    "missing_anywhere_weight", "missing_nouns", "missing_names", "missing_verbs", "missing_numbers", "asked_only",
    "novel", "rival_names", "rival_numbers", "lead", "second", "bigrams", "heads", "run", "denied", "opposed",
    "inverted", "words", "context", "name_gap", "number_gap", "subject_gap", "noun_gap", "name_clause_gap",
    "number_clause_gap", "subject_clause_gap", "noun_clause_gap", "root_missing", "values", "values_window",
    "values_anywhere", "attention_coverage", "attention_soft", "attention_best", "attention_window", "evidence_mass",
    "top_share", "margin", "sentences",
)  # fmt: skip
"""What is measured of a claim beside its premise. Shares are of the weights of the claim's content words.

``best``, ``window``, ``pair``, ``anywhere``: covered by the best sentence, by the premise, by it and one sentence more,
by all passages. ``soft``: with similar words counted by their cosine. ``missing``, ``rival``: words that the premise
lacks, or has instead. A *gap* says how much better the claim is covered by sentences (clauses) without its name,
number, subject or noun than by those that have it: a fact that hangs on something else. ``attention_...``: the same
where attention points, and how much of it lies on the premise.
"""

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
    """

    numbers: npt.NDArray[np.float32]
    sentence: int | None
    window: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()


def is_attended(numbers: npt.NDArray[np.float32]) -> bool | None:
    """Whether evidence lies in the premise with these numbers; None where that has too few of the claim's words."""
    if numbers[_WINDOW] < _TELLING:
        return None
    return bool(numbers[_ATTENTION_WINDOW] >= _LEAST_ATTENTION)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """One sentence; ``start`` and ``end`` lie in its title or text, and are -1 in JSON, read field by field."""

    text: str
    start: int
    end: int
    words: tuple[str, ...]
    lowered: tuple[str, ...]
    stems: tuple[str, ...]
    clauses: tuple[range, ...]

    @property
    def is_carried_on(self) -> bool:
        """Whether a pronoun at its beginning names what the sentence before is about."""
        return not _PRONOUNS.isdisjoint(self.lowered[:2])


class PassageSentences:
    """The sentences of one row's passages, titles included, in their order."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.all: list[_Sentence] = []
        self._text_of: list[tuple[int, bool]] = []
        self._in_text: dict[tuple[int, bool], range] = {}
        for index, passage in enumerate(passages):
            for key, text in (((index, True), passage.title or ""), ((index, False), passage.text)):
                self.all += _sentences(text)
                self._in_text[key] = range(len(self._text_of), len(self.all))
                self._text_of += [key] * len(self._in_text[key])
        self.words = frozenset(word for one in self.all for word in one.lowered)
        self._contents: dict[tuple[int, ...], PassageContent] = {}
        self._sequences: dict[int, tuple[dict[str, list[int]], frozenset[tuple[str, ...]]]] = {}

    def __len__(self) -> int:
        return len(self.all)

    def titles_of(self, place: int) -> range:
        """The sentences of the title over a sentence of a text."""
        index, in_title = self._text_of[place]
        return range(0) if in_title else self._in_text[index, True]

    def carried_from(self, place: int) -> int | None:
        """The sentence before in the same passage, where a pronoun at the beginning refers to it."""
        same = place > 0 and self._text_of[place - 1][0] == self._text_of[place][0]
        return place - 1 if same and self.all[place].is_carried_on else None

    def window(self, place: int) -> list[int]:
        """A sentence with its neighbours in the same text, and the title, ascending."""
        text = self._in_text[self._text_of[place]]
        return [*self.titles_of(place), *range(max(place - 1, text.start), min(place + 2, text.stop))]

    def content_of(self, places: Sequence[int]) -> PassageContent:
        """What these sentences say, in the form in which values are compared."""
        key = tuple(places)
        if key not in self._contents:
            self._contents[key] = PassageContent(Passage(" ".join(self.all[one].text for one in places)))
        return self._contents[key]

    def places_and_runs(self, place: int) -> tuple[dict[str, list[int]], frozenset[tuple[str, ...]]]:
        """Where each stem stands in the window of a sentence, by number, and its runs of three stems."""
        if place not in self._sequences:
            sequence = [one for where in self.window(place) for one in self.all[where].stems]
            places: dict[str, list[int]] = {}
            for at, one in enumerate(sequence):
                places.setdefault(one, []).append(at)
            self._sequences[place] = places, frozenset(zip(sequence, sequence[1:], sequence[2:], strict=False))
        return self._sequences[place]

    def attention(self, evidence: SpanEvidence) -> _Floats:
        """float64 [sentences]: the scores of the evidence, spread over the sentences that it overlaps."""
        found = np.zeros(len(self.all))
        for piece in evidence.evidence:
            shared = self._shared(piece)
            total = sum(shared.values())
            for place, count in shared.items():
                found[place] += piece.score * count / total
        return found

    def _shared(self, piece: EvidencePiece) -> dict[int, int]:
        """How many code points of the piece each sentence has, or in JSON, how many of its stems."""
        own = self._in_text.get((piece.passage_index, piece.in_title), range(0))
        if own and self.all[own.start].start < 0:
            stems = {stem(word) for word in WORD_OR_MARK.findall(piece.text)}
            counts = ((place, len(stems.intersection(self.all[place].stems))) for place in own)
            return {place: count for place, count in counts if count}
        start, end = piece.chars.char_start, piece.chars.char_end
        first = bisect_right(self.all, start, own.start, own.stop, key=lambda one: one.end)
        overlapping = takewhile(lambda place: self.all[place].start < end, range(first, own.stop))
        return {place: min(end, self.all[place].end) - max(start, self.all[place].start) for place in overlapping}


@lru_cache(maxsize=_KNOWN_TEXTS)
def _sentences(text: str) -> tuple[_Sentence, ...]:
    """The sentences of a title or text; logs repeat their passages, so the last ones are remembered."""
    if is_json(text):
        return tuple(one for field in record_lines(text) for one in _of_field(field))
    found: list[_Sentence] = []
    offset = 0
    for line in text.split("\n"):
        found += _of_line(line, offset)
        offset += len(line) + 1
    return tuple(found)


def _of_field(field: RecordLine) -> Iterator[_Sentence]:
    """The sentences of a field; the first has the name, also written as one word, which stands for its value."""
    for place, words in enumerate(_sentence_words(field.text)):
        if place:
            yield _sentence(field.text, words, None)
        else:
            yield _sentence(field.text, words, None, also=field.joined_names, breaks=_CLAUSE_BREAKS - {":"})


def _of_line(line: str, offset: int) -> Iterator[_Sentence]:
    return (_sentence(line, words, offset) for words in _sentence_words(line))


def _sentence_words(line: str) -> Iterator[list[re.Match[str]]]:
    """The words and marks of each sentence of a line."""
    words: list[re.Match[str]] = []
    for word in WORD_OR_MARK.finditer(line):
        words.append(word)
        if word.group() in _SENTENCE_ENDS and (word.end() == len(line) or line[word.end()] in " \t\"'”’)]"):
            yield words
            words = []
    if words:
        yield words


def _sentence(
    line: str,
    words: Sequence[re.Match[str]],
    offset: int | None,
    *,
    also: Sequence[str] = (),
    breaks: frozenset[str] = _CLAUSE_BREAKS,
) -> _Sentence:
    """The sentence of these words of a line that begins at ``offset``, None in JSON; ``also`` are words besides."""
    start, end = words[0].start(), words[-1].end()
    texts = (*(word.group() for word in words), *also)
    lowered = tuple(map(str.lower, texts))
    bounds = [0, *(place for place, word in enumerate(lowered) if word in breaks), len(texts)]
    return _Sentence(
        line[start:end],
        -1 if offset is None else offset + start,
        -1 if offset is None else offset + end,
        texts,
        lowered,
        tuple(map(stem, texts)),
        tuple(range(one, two) for one, two in pairwise(bounds) if two - one > 1),
    )


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
        content = [place for place in range(len(answer)) if answer.is_word[place]]
        columns = {one: column for column, one in enumerate(dict.fromkeys(answer.stems[place] for place in content))}
        self._columns = np.array([columns.get(one, -1) for one in answer.stems], dtype=np.int64)
        self._weights = np.array([table.weight(one) for one in answer.stems], dtype=np.float64)
        self._rows = np.array(
            [table.row(one) if ok else -1 for one, ok in zip(answer.lowered, answer.content, strict=True)],
            dtype=np.int64,
        )
        self._present = _presence([one.stems for one in sentences.all], columns)
        self._question = {stem(word) for word in WORD_OR_MARK.findall(record.question)}
        tags = answer.parsed.universal_tags
        self._labels = [base_label(label) for label in answer.parsed.dependency_labels]
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
    def _clauses(self) -> list[tuple[int, range]]:
        """The clauses of all sentences: the place of the sentence, and words of it."""
        return [(place, words) for place, one in enumerate(self.sentences.all) for words in one.clauses]

    @cached_property
    def _clause_present(self) -> _Bools:
        columns = {one: int(self._columns[place]) for place, one in enumerate(self._answer.stems)}
        stems = [self.sentences.all[place].stems[words.start : words.stop] for place, words in self._clauses]
        return _presence(stems, {one: column for one, column in columns.items() if column >= 0})

    @cached_property
    def _carried(self) -> _Bools:
        """Presence in sentences, with the title's words, and those of the sentence that a pronoun refers to."""
        found = self._present.copy()
        for place in range(len(self.sentences)):
            for other in self._carried_to(place):
                found[place] |= self._present[other]
        return found

    def _carried_to(self, place: int) -> Iterator[int]:
        yield from self.sentences.titles_of(place)
        before = self.sentences.carried_from(place)
        if before is not None:
            yield before

    @cached_property
    def _clause_carried(self) -> _Bools:
        """Presence in clauses; one without a name shares the subject of its sentence's first clause."""
        found = self._clause_present.copy()
        first: dict[int, int] = {}
        for row, (place, words) in enumerate(self._clauses):
            one = self.sentences.all[place]
            first.setdefault(place, row)
            for other in self._carried_to(place):
                found[row] |= self._present[other]
            named = any(word[:1].isupper() for word in one.words[max(words.start, 1) : words.stop])
            if row != first[place] and not named:
                found[row] |= self._clause_present[first[place]]
        return found

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
        """float32 [words, sentences]: the largest cosine of each word with a word of each window."""
        places, starts = self._windows
        found = np.empty_like(self._cosines)
        at_once = max(1, _MOST_COSINES // len(places))
        for first in range(0, len(found), at_once):
            words = slice(first, first + at_once)
            found[words] = np.maximum.reduceat(self._cosines[words, places], starts, axis=1)
        return found

    @cached_property
    def _cosines(self) -> npt.NDArray[np.float32]:
        """float32 [words, sentences]: the largest cosine of each word of the answer with a word of each sentence."""
        found = np.zeros((len(self._rows), len(self.sentences)), dtype=np.float32)
        content = {word: self._table.row(word) for word in self.sentences.words if carries_content(word)}
        rows = [[row for word in one.lowered if (row := content.get(word, -1)) >= 0] for one in self.sentences.all]
        filled = [place for place, own in enumerate(rows) if own]
        known = self._rows >= 0
        if filled and known.any():
            vectors = self._table.vectors
            columns, place_of = np.unique([row for own in rows for row in own], return_inverse=True)
            starts = np.cumsum([0, *(len(rows[place]) for place in filled)])[:-1]
            at_once = max(1, _MOST_COSINES // len(place_of))
            of_words = np.flatnonzero(known)
            for words in np.split(of_words, range(at_once, len(of_words), at_once)):
                cosines = (vectors[self._rows[words]] @ vectors[columns].T)[:, place_of]
                found[np.ix_(words, np.array(filled))] = np.maximum.reduceat(cosines, starts, axis=1)
        return np.clip(found, 0.0, 1.0)


def _presence(texts: Sequence[Sequence[str]], columns: dict[str, int]) -> _Bools:
    found = np.zeros((len(texts), len(columns)), dtype=bool)
    for row, stems in enumerate(texts):
        found[row, [columns[one] for one in stems if one in columns]] = True
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
            label_words(parsed, row.record.answer, words),
        )
        for words, found in claims
    ]


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
        self._weights = of._weights[own]
        self._total = float(self._weights.sum())
        self._in_sentences = of._present[:, of._columns[own]]
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
        place, seen, alike = self._best_of(np.array([*dict.fromkeys([*by_words, *by_attention])]))
        window = self._of.sentences.window(place)
        numbers = {**self._coverage(place, seen, alike), **self._manner(place), **self._gaps()}
        numbers |= {**self._values(window), **self._attended_numbers(place, window)}
        missing = self._own[~seen & (alike < _ALIKE)]
        return Premise(
            np.array([numbers[name] for name in PREMISE_NUMBERS], dtype=np.float32),
            place,
            tuple(window),
            tuple(missing.tolist()),
        )

    def _best_of(self, places: npt.NDArray[np.int64]) -> tuple[int, _Bools, _Floats]:
        """The best of some sentences; of each word, whether its window has it, and how alike a word there is."""
        seen, alike = self._in_windows(places)
        counted = np.where(self._exact & ~seen, 0.0, alike)
        scores = counted @ self._weights / self._total + _COVERAGE_COUNTS * self._covered[places]
        if self._attended:
            scores += _ATTENTION_COUNTS * self._attention[places] / self._attended
        best = int(np.argmax(scores))
        return int(places[best]), seen[best], alike[best]

    def _in_windows(self, places: npt.NDArray[np.int64]) -> tuple[_Bools, _Floats]:
        """[places, words]: whether the window of a sentence has a word, and the largest cosine there, 1 if it has."""
        seen = self._of._window_present[places[:, None], self._of._columns[self._own]]
        return seen, np.where(seen, 1.0, self._of._window_cosines[self._own, places[:, None]].astype(np.float64))

    def _share(self, which: _Bools) -> float:
        return float(self._weights @ which) / self._total

    def _coverage(self, place: int, seen: _Bools, alike: _Floats) -> dict[str, float]:
        of, own = self._of, self._own
        anywhere = np.asarray(self._in_sentences.any(axis=0), dtype=bool)
        extra = self._in_sentences @ (self._weights * ~seen)
        other = int(np.argmax(extra))
        pair = seen | self._in_sentences[other] if extra[other] > 0 else seen
        lacking = ~seen & (alike < _ALIKE)
        asked = of._asked[own]
        told = {of._answer.stems[word] for word in (*own.tolist(), *self._around.tolist())}
        sentence = of.sentences.all[place]
        others = [word for word, one in zip(sentence.words, sentence.stems, strict=True) if one not in told]
        names = sum(word[:1].isupper() and carries_content(word) for word in others if word != sentence.words[0])
        order = np.sort(self._covered)[::-1]
        second = float(order[1]) if len(order) > 1 else 0.0
        counted = np.where(self._exact & ~seen, 0.0, alike)
        root = [of._answer.heads[word] == word for word in own.tolist()]
        return {
            "best": float(self._covered[place]),
            "window": self._share(seen),
            "pair": self._share(pair),
            "anywhere": self._share(anywhere),
            "soft": float(self._weights @ alike) / self._total,
            "soft_least": float(alike.min()),
            "missing": float((~seen).sum()),
            "missing_weight": float((self._weights * (1 - counted)).max()),
            "missing_anywhere": float((~anywhere).sum()),
            "missing_anywhere_weight": float((self._weights * ~anywhere).max()),
            "missing_nouns": float((lacking & of._is_noun[own]).sum()),
            "missing_names": float((~seen & of._is_name[own]).sum()),
            "missing_verbs": float((lacking & of._is_verb[own]).sum()),
            "missing_numbers": float((~seen & of._is_number[own]).sum()),
            "asked_only": self._share(~seen & asked),
            "novel": self._share(~anywhere & ~asked),
            "rival_names": min(float(names), _MOST_RIVALS),
            "rival_numbers": min(float(sum(any(map(str.isdigit, word)) for word in others)), _MOST_RIVALS),
            "lead": float(order[0]) - second,
            "second": second,
            "root_missing": float((lacking & np.array(root, dtype=bool)).any()) if any(root) else _NONE,
            "words": float(len(own)),
            "context": float(self._context[place] / of._weights[self._around].sum()) if len(self._around) else _NONE,
        }

    def _manner(self, place: int) -> dict[str, float]:
        """Runs and neighbours of words, negation, words of opposite meaning, and the order of words."""
        of, answer = self._of, self._of._answer
        places, runs = of.sentences.places_and_runs(place)
        stems = [answer.stems[word] for word in self._own]
        heads = [(answer.stems[word], answer.content_head(int(word))) for word in self._own]
        pairs = [(one, answer.stems[head]) for one, head in heads if head is not None]
        clause = self._best_clause()
        words = () if clause is None else of.sentences.all[clause[0]].lowered[clause[1].start : clause[1].stop]
        denied = any(of._denied[word] for word in self._own) != any(word in _DENIED_THERE for word in words)
        there = set(words)
        own = {answer.lowered[word] for word in self._words}
        opposed = sum(bool(OPPOSITES[word] & there) and word not in there for word in own if word in OPPOSITES)
        return {
            "bigrams": _mean([_near(places, *pair, _NEAR) for pair in pairwise(stems)]),
            "heads": _mean([_near(places, *pair, _NEAR_HEAD) for pair in pairs]),
            "run": _share_in_runs([answer.stems[word] for word in self._words if answer.is_word[word]], runs),
            "denied": float(denied),
            "opposed": float(opposed),
            "inverted": self._inverted(of.sentences.all[place].stems),
        }

    def _best_clause(self) -> tuple[int, range] | None:
        of = self._of
        if not of._clauses:
            return None
        return of._clauses[int(np.argmax(self._in_clauses @ self._weights))]

    @cached_property
    def _in_clauses(self) -> _Bools:
        return self._of._clause_present[:, self._of._columns[self._own]]

    def _inverted(self, stems: Sequence[str]) -> float:
        """The share of successive content words whose order in the sentence is the other way round."""
        at = {one: place for place, one in reversed([*enumerate(stems)])}
        own = [at[one] for one in (self._of._answer.stems[word] for word in self._own) if one in at]
        return _mean([one > two for one, two in pairwise(own)])

    def _gaps(self) -> dict[str, float]:
        of, own = self._of, self._own
        subjects = {word for word in own.tolist() if of._labels[word] in _SUBJECTS}
        is_subject = np.array(
            [word in subjects or of._answer.heads[word] in subjects for word in own.tolist()], dtype=bool
        )
        kinds = {
            "name": of._is_name[own], "number": of._is_number[own], "subject": is_subject, "noun": of._is_noun[own],
        }  # fmt: skip
        columns = of._columns[own]
        sentences = self._gap_of_words(self._in_sentences, of._carried[:, columns])
        clauses = self._gap_of_words(self._in_clauses, of._clause_carried[:, columns]) if of._clauses else sentences
        return {
            f"{kind}{unit}gap": float(gaps[which].max()) if which.any() else _NONE
            for unit, gaps in (("_", sentences), ("_clause_", clauses))
            for kind, which in kinds.items()
        }

    def _gap_of_words(self, present: _Bools, carried: _Bools) -> _Floats:
        """For each word, how much more of the others a unit without it covers than one that has it."""
        weights = self._weights
        covered = (present * weights).sum(axis=1)
        rest = covered[:, None] - present * weights
        with_it = np.where(carried, rest, 0.0).max(axis=0)
        gaps: _Floats = (rest.max(axis=0) - with_it) / np.maximum(self._total - weights, 0.5)
        return gaps

    def _values(self, window: Sequence[int]) -> dict[str, float]:
        of = self._of
        words = of._answer.parsed.words
        chars = CharRange(words[min(self._words)].char_start, words[max(self._words)].char_end)
        own = [one for one in of._matcher.values_in(chars) if any(words[w].overlaps(one.chars) for w in self._words)]
        content = of.sentences.content_of(window) if own else None
        unmatched = sum(not one.is_repeated_by(one.parts_in(content)) for one in own) if content is not None else 0
        everywhere = range(len(of._record.passages))
        return {
            "values": float(len(own)),
            "values_window": float(unmatched),
            "values_anywhere": float(len(of._matcher.unmatched_ranges(chars, everywhere))) if own else 0.0,
        }

    def _attended_numbers(self, place: int, window: Sequence[int]) -> dict[str, float]:
        evidence, scores = self._evidence, np.array(self._evidence.passage_scores)
        found = {
            "evidence_mass": _NONE if evidence.evidence_mass is None else evidence.evidence_mass,
            "top_share": float(scores.max() / scores.sum()) if scores.sum() > 0 else 0.0,
            "margin": _NONE if evidence.margin is None else evidence.margin,
            "sentences": math.log1p(len(self._of.sentences)),
        }
        if not self._attended:
            return {**found, **dict.fromkeys(("attention_coverage", "attention_soft"), 0.0), **_UNATTENDED}
        seen, alike = (one[0] for one in self._in_windows(np.array([np.argmax(self._attention)])))
        return {
            **found,
            "attention_coverage": self._share(seen),
            "attention_soft": self._share_of(alike),
            "attention_best": float(self._attention[place]) / self._attended,
            "attention_window": float(self._attention[list(window)].sum()) / self._attended,
        }

    def _share_of(self, counts: _Floats) -> float:
        return float(self._weights @ counts) / self._total


_UNATTENDED = {"attention_best": 0.0, "attention_window": 0.0}


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
