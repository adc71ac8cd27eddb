"""A growing answer that knows where its characters come from, and how single words are reworded."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from training.attributor_synonyms import opposite_wording, other_wording, phrase_length

NUMBER = re.compile(r"\d+")
NO_SOURCE, IGNORED = -1, -2
WRONG_NUMBER_SHARE = 0.04
WRONG_NAME_SHARE = 0.03
OPPOSITE_SHARE = 0.03
OTHER_WORDING_SHARE = 0.5
HEAVY_WORDING_SHARE = 0.95
HEAVY_NOISE = 4.0
MOST_DEBRIS = 2.0
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

    def write_phrase(self, answer: Answer, words: Sequence[str], sources: Sequence[int]) -> int:
        """Append another wording of the phrase that ``words`` begin with; how many of them it stands for, 0 if none.

        ``sources`` are where the words stand; all that is written goes back to the middle of the phrase.
        """
        count = phrase_length(words)
        if not count or not self.noise or self.rng.random() >= self._other_wording_share():
            return 0
        other = other_wording(" ".join(words[:count]), self.rng)
        if other is None:
            return 0
        answer.derive(other, middle(words[count // 2], sources[count // 2]))
        return count

    def write_word(self, answer: Answer, text: str, source: int, *, name: bool = False, behind: str = "") -> None:
        """Append one word that stands at ``source``, or what a careless writer puts in its place.

        Fillers, other endings, other words of the same sense and pronouns, the more of them the higher ``noise``,
        teach that wording may differ: all go back to the word. A wrong number, a wrong name and an opposite have no
        source. A ``name`` is never given in words of the same or of the opposite sense. ``behind`` is the word before.
        """
        if not self._write_wrong(answer, text, name=name):
            self._write_right(answer, text, source, name=name, behind=behind)

    def _write_wrong(self, answer: Answer, text: str, *, name: bool) -> bool:
        """Append another number, another name or an opposite in the place of one; whether that was done."""
        rng = self.rng
        if NUMBER.search(text) and rng.random() < WRONG_NUMBER_SHARE:
            answer.claim_invented(NUMBER.sub(lambda found: str(rng.randrange(1, 10 ** min(len(found[0]), 9))), text))
            return True
        if self.names and len(text) > 3 and text[0].isupper() and rng.random() < WRONG_NAME_SHARE:
            answer.claim_invented(rng.choice(self.names))
            return True
        opposite = None if name or rng.random() >= OPPOSITE_SHARE else opposite_wording(text, rng)
        if opposite is not None:
            answer.claim_invented(opposite)
        return opposite is not None

    def _write_right(self, answer: Answer, text: str, source: int, *, name: bool, behind: str) -> None:
        rng = self.rng
        dice = rng.random() / min(self.noise, MOST_DEBRIS) if self.noise else 1.0
        reworded = self.noise and not name and rng.random() < self._other_wording_share()
        other = other_wording(text, rng, behind=behind) if reworded else None
        if other is not None:
            answer.derive(other, middle(text, source))
        elif dice < 0.04:
            answer.derive(rng.choice(FILLERS), middle(text, source))
        elif dice < 0.08 and len(text) > 5 and text.isalpha():
            answer.copy(text[: -rng.choice((1, 2, 3))], source)
            answer.derive(rng.choice(SUFFIXES), source + len(text) - 1)
        elif dice < 0.1 and text[:1].isupper():
            answer.derive(rng.choice(PRONOUNS), middle(text, source))
        elif dice < 0.13:
            answer.derive(rng.choice(FILLERS) + " ", middle(text, source))
            answer.copy(text, source)
        else:
            answer.copy(text, source)

    def _other_wording_share(self) -> float:
        return HEAVY_WORDING_SHARE if self.noise >= HEAVY_NOISE else OTHER_WORDING_SHARE


def middle(text: str, source: int) -> int:
    """Where the middle character of a word stands that begins at ``source``."""
    return source + len(text) // 2
