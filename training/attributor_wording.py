"""A growing answer that knows where its characters come from, and how single words are reworded."""

import random
import re
from dataclasses import dataclass, field

NUMBER = re.compile(r"\d+")
NO_SOURCE, IGNORED = -1, -2
WRONG_NUMBER_SHARE = 0.03
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


def write_word(answer: Answer, text: str, source: int, rng: random.Random, *, noise: float) -> None:
    """Append one word that stands at ``source``, or what a careless writer puts in its place.

    Fillers, other endings and pronouns, the more of them the higher ``noise``, teach that wording may differ; a wrong
    number has no source.
    """
    dice = rng.random() / noise if noise else 1.0
    if NUMBER.search(text) and rng.random() < WRONG_NUMBER_SHARE:
        answer.invent(NUMBER.sub(lambda found: str(rng.randrange(1, 10 ** len(found[0]))), text))
    elif dice < 0.04:
        answer.add_ignored(rng.choice(FILLERS))
    elif dice < 0.07 and len(text) > 5 and text.isalpha():
        answer.copy(text[: -rng.choice((1, 2, 3))], source)
        answer.derive(rng.choice(SUFFIXES), source + len(text) - 1)
    elif dice < 0.1 and text[:1].isupper():
        answer.add_ignored(rng.choice(PRONOUNS))
    elif dice < 0.13:
        answer.add_ignored(rng.choice(FILLERS) + " ")
        answer.copy(text, source)
    else:
        answer.copy(text, source)
