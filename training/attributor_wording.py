"""A growing answer that knows where its characters come from, and how single words are reworded."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from training.attributor_synonyms import other_wording

NUMBER = re.compile(r"\d+")
NO_SOURCE, IGNORED = -1, -2
WRONG_NUMBER_SHARE = 0.04
WRONG_NAME_SHARE = 0.03
OTHER_WORDING_SHARE = 0.5
PRONOUNS = ("He", "She", "It", "They", "This")
SUFFIXES = ("s", "ed", "ing", "ly", "'s", "er")
FILLERS = ("also", "then", "the", "later", "a", "mainly", "later", "first", "of", "that", "in", "to")


@dataclass(slots=True)
class Answer:
    """A growing answer; ``sources`` has one entry a character.

    An entry is the character's place in the prompt it was copied from, ``NO_SOURCE`` where nothing in the prompt
    says it, or ``IGNORED`` where there is nothing to learn. ``claims`` are (char_start, char_end, supported).
    """

    text: str = ""
    sources: list[int] = field(default_factory=list)
    claims: list[tuple[int, int, bool]] = field(default_factory=list)

    def copy(self, text: str, source: int) -> None:
        """Append characters that stand at ``source`` and after it in the prompt (their case may differ)."""
        self.text += text
        self.sources.extend(range(source, source + len(text)))

    def derive(self, text: str, source: int) -> None:
        """Append characters that all go back to the one at ``source``."""
        self.text += text
        self.sources.extend([source] * len(text))

    def invent(self, text: str) -> None:
        """Append characters that come from nowhere."""
        self.derive(text, NO_SOURCE)

    def add_ignored(self, text: str) -> None:
        """Append characters that nothing is to be learned from."""
        self.derive(text, IGNORED)

    def claim(self, char_start: int, *, supported: bool) -> None:
        """Note that what was written since ``char_start`` is one span, supported or not."""
        char_end = len(self.text.rstrip())
        if char_end > char_start:
            self.claims.append((char_start, char_end, supported))

    def claim_invented(self, text: str) -> None:
        """Append characters that come from nowhere, as a claim of their own."""
        start = len(self.text)
        self.invent(text)
        self.claim(start, supported=False)


@dataclass(frozen=True, slots=True)
class Wording:
    """How careless the writer is: ``noise`` 0 copies; ``names`` are what a wrong name is drawn from."""

    rng: random.Random
    noise: float = 0.0
    names: Sequence[str] = ()

    def write_word(self, answer: Answer, text: str, source: int) -> None:
        """Append one word that stands at ``source``, or what a careless writer puts in its place.

        Fillers, other endings, other words of the same sense and pronouns, the more of them the higher ``noise``,
        teach that wording may differ; a wrong number and a wrong name have no source.
        """
        if not self._write_wrong(answer, text):
            self._write_right(answer, text, source)

    def _write_wrong(self, answer: Answer, text: str) -> bool:
        """Append another number or another name in the place of one; whether that was done."""
        rng = self.rng
        if NUMBER.search(text) and rng.random() < WRONG_NUMBER_SHARE:
            answer.claim_invented(NUMBER.sub(lambda found: str(rng.randrange(1, 10 ** min(len(found[0]), 9))), text))
            return True
        if self.names and len(text) > 3 and text[0].isupper() and rng.random() < WRONG_NAME_SHARE:
            answer.claim_invented(rng.choice(self.names))
            return True
        return False

    def _write_right(self, answer: Answer, text: str, source: int) -> None:
        rng = self.rng
        dice = rng.random() / self.noise if self.noise else 1.0
        other = other_wording(text, rng) if self.noise and rng.random() < OTHER_WORDING_SHARE else None
        if other is not None:
            answer.derive(other, source + len(text) // 2)
        elif dice < 0.04:
            answer.add_ignored(rng.choice(FILLERS))
        elif dice < 0.08 and len(text) > 5 and text.isalpha():
            answer.copy(text[: -rng.choice((1, 2, 3))], source)
            answer.derive(rng.choice(SUFFIXES), source + len(text) - 1)
        elif dice < 0.1 and text[:1].isupper():
            answer.add_ignored(rng.choice(PRONOUNS))
        elif dice < 0.13:
            answer.add_ignored(rng.choice(FILLERS) + " ")
            answer.copy(text, source)
        else:
            answer.copy(text, source)
