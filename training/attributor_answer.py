"""The answer of a training row: clauses of known origin, slightly reworded, and words that have none."""

import random
import re
from collections.abc import Sequence
from itertools import pairwise

from training.attributor_corpus import Corpus
from training.attributor_names import names_in
from training.attributor_wording import Answer, Wording

CharRange = tuple[int, int]
WORD = re.compile(r"\S+")
DAY_AND_MONTH = re.compile(
    r"(\d{1,2}) (January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
INVENTION_SHARE = 0.1
CONNECTOR_SHARE = 0.2
CITATION_SHARE = 0.1
BOLD_SHARE = 0.08
REVERSED_SHARE = 0.15
DROPPED_SHARE = 0.06
SUBJECT_SHARE = 0.35
SWITCH_SHARE = 0.25
RUN_WORDS = (2, 3, 4, 6, 8, 8, 12, 12, 16, 20, 30)
CONNECTORS = (
    "According to the first source, ", "Also, ", "In addition, ", "However, ", "One source states that ",
    "Another source says ", "It is ", "There are several answers. ", "Meanwhile, ", "The answer is ",
    "This is because ", "In terms of ", "Yes, ", "For example, ", "Based on the passages, ", "- ", "The ",
)  # fmt: skip
SENTENCE_ENDS = (". ", ". ", ". ", ".\n", ".\n- ", "\n", ". It ")
SWITCHES = (" and ", ", and ", ", ", "; ", ", while ", " while ", " or ", ", but ", " but ", ", whereas ")
SUBJECT_LINKS = (" ", " ", " was ", " is ", ", ", " has ", "'s ", " in ", ", which ", ", also known as ")
RUN_LINKS = (" ", " ", ", ", " and ", " that ", " was ", " of ", " in ", " for ", " by ")
NAME = re.compile(r"\b[A-Z][\w'-]+(?: (?:of |the |de |von )?[A-Z0-9][\w'-]*)*")


class AnswerWriter:
    """Stitches one answer from one prompt.

    ``quotable`` has, for each passage to be quoted, the ranges of its title, if any, and of its sentences.
    ``unsaid`` are sentences on the same subject that the prompt does not hold.
    """

    def __init__(
        self,
        prompt: str,
        quotable: list[list[CharRange]],
        *,
        unsaid: Sequence[str],
        corpus: Corpus,
        rng: random.Random,
    ) -> None:
        self._prompt = prompt
        self._quotable = quotable
        self._unsaid = unsaid
        self._corpus = corpus
        self._rng = rng
        self._names = [name for name in names_in(corpus.random_words(rng, 120)) if name not in prompt]

    def write(self, *, char_budget: int) -> Answer:
        """An answer of about ``char_budget`` characters."""
        answer, rng = Answer(), self._rng
        while len(answer.text) < char_budget:
            if rng.random() < INVENTION_SHARE:
                self._invent(answer)
            if rng.random() < CONNECTOR_SHARE:
                answer.invent(rng.choice(CONNECTORS))
            self._quote_passage(answer, rng.choice(self._quotable))
            if rng.random() < CITATION_SHARE:
                answer.invent(f" [{rng.randint(1, 30)}]")
            answer.invent(rng.choice(SWITCHES if rng.random() < SWITCH_SHARE else SENTENCE_ENDS))
        return answer

    def _invent(self, answer: Answer) -> None:
        """Append words of some other page, or of an unsaid sentence: a claim without support."""
        rng = self._rng
        count = rng.randint(2, 12)
        if self._unsaid and rng.random() < 0.6:
            words = rng.choice(self._unsaid).split()
            first = rng.randrange(max(1, len(words) - count))
            words = words[first : first + count]
        else:
            words = self._corpus.random_words(rng, count)
        answer.claim_invented(" ".join(words))
        answer.invent(rng.choice(SENTENCE_ENDS))

    def _quote_passage(self, answer: Answer, ranges: list[CharRange]) -> None:
        """Append runs of words of one or two sentences of a passage, now and then behind a name that it speaks of."""
        rng = self._rng
        noise = rng.choice([0.0, 0.0, 0.5, 1.0, 2.0])
        wording = Wording(rng, noise=noise, names=self._names)
        runs = [run for _ in range(rng.choice([1, 1, 1, 2])) for run in self._runs(self._words(rng.choice(ranges)))]
        if rng.random() < SUBJECT_SHARE:
            self._quote_run(answer, self._subject(ranges), Wording(rng))
            answer.invent(rng.choice(SUBJECT_LINKS))
        for turn, run in enumerate(runs):
            if turn:
                answer.invent(rng.choice(RUN_LINKS))
            self._quote_run(answer, run, wording)

    def _subject(self, ranges: list[CharRange]) -> list[CharRange]:
        """The words of the passage's title, or of a name anywhere in the passage: answers repeat what it is about."""
        rng = self._rng
        names = [found.span() for start, end in ranges for found in NAME.finditer(self._prompt, start, end)]
        return self._words(rng.choice(names) if names and rng.random() < 0.6 else ranges[0])

    def _words(self, char_range: CharRange) -> list[CharRange]:
        """The ranges in the prompt of the words that stand in ``char_range``."""
        return [found.span() for found in WORD.finditer(self._prompt, *char_range)]

    def _runs(self, words: list[CharRange]) -> list[list[CharRange]]:
        """One to three runs of a sentence's words, gaps between them, now and then the last one first."""
        rng = self._rng
        runs = []
        position = 0 if rng.random() < 0.4 else rng.randrange(len(words))
        for _ in range(rng.choice([1, 1, 2, 3])):
            length = rng.choice(RUN_WORDS)
            runs.append(words[position : position + length])
            position += length + rng.choice([0, 1, 2, 4])
        runs = [run for run in runs if run]
        return runs[::-1] if rng.random() < REVERSED_SHARE else runs

    def _quote_run(self, answer: Answer, words: list[CharRange], wording: Wording) -> None:
        """Append neighbouring words, perhaps in bold, perhaps with a small first letter or all of them small."""
        rng = self._rng
        bold = "**" if rng.random() < BOLD_SHARE else ""
        small_first, small = rng.random() < 0.3, rng.random() < 0.05
        answer.invent(bold)
        start, claims = len(answer.text), len(answer.claims)
        words = self._reordered(self._thinned(words, wording), wording)
        for index, (char_start, char_end) in enumerate(words):
            if index:
                answer.add_ignored(" ")
            text = self._prompt[char_start:char_end]
            if index == len(words) - 1:
                text = without_last_mark(text, rng)
            if small or (small_first and index == 0):
                text = lower_case(text)
            wording.write_word(answer, text, char_start)
        if len(answer.claims) == claims:
            answer.claim(start, supported=True)
        answer.invent(bold)

    def _thinned(self, words: list[CharRange], wording: Wording) -> list[CharRange]:
        """Without some words, the more the higher the noise; never without all."""
        return [word for word in words if self._rng.random() >= DROPPED_SHARE * wording.noise] or words

    def _reordered(self, words: list[CharRange], wording: Wording) -> list[CharRange]:
        """With day and month exchanged, now and then: "5 March" becomes "March 5"."""
        if not wording.noise or self._rng.random() < 0.5:
            return words
        reordered = list(words)
        for index, ((first, _), (_, last)) in enumerate(pairwise(words)):
            if DAY_AND_MONTH.match(self._prompt, first, last):
                reordered[index], reordered[index + 1] = words[index + 1], words[index]
        return reordered


def without_last_mark(text: str, rng: random.Random) -> str:
    """The word, mostly without the punctuation at its end."""
    return text.rstrip(".,;:") or text if rng.random() < 0.7 else text


def lower_case(text: str) -> str:
    """The word in small letters, unless that changes how long it is."""
    return text.lower() if len(text.lower()) == len(text) else text
