"""Other ways to write a word or a short phrase, words that say the opposite, and how both are drawn."""

import random
from collections.abc import Iterable, Sequence
from functools import cache

from training.lexicon_groups import NEVER_REPLACED, antonym_pairs, word_groups
from training.quantity_wording import quantity_groups

MARKS = ".,;:"
LONGEST_PHRASE = 3
Choices = dict[str, tuple[str, ...]]


@cache
def alternatives() -> Choices:
    """Word or phrase, in small letters, to the others that may stand for it; never itself or an opposite."""
    found = others_of([*word_groups(), *quantity_groups()])
    opposite = opposites()
    kept = {
        word: tuple(other for other in others if other not in opposite.get(word, ())) for word, others in found.items()
    }
    return {word: others for word, others in kept.items() if others and word not in NEVER_REPLACED}


@cache
def opposites() -> Choices:
    """Word, in small letters, to the words that say the opposite."""
    return others_of(antonym_pairs())


@cache
def phrase_starts() -> frozenset[str]:
    """The first words of the phrases that have an alternative."""
    return frozenset(known.split(" ", 1)[0] for known in alternatives() if " " in known)


def others_of(groups: Iterable[tuple[str, ...]]) -> Choices:
    """Each word of the groups, in small letters, to all the others that it stands with, each once."""
    found: dict[str, dict[str, None]] = {}
    for words in groups:
        for word in words:
            others = dict.fromkeys(other for other in words if other.lower() != word.lower())
            found.setdefault(word.lower(), {}).update(others)
    return {word: tuple(others) for word, others in found.items() if others}


def other_wording(text: str, rng: random.Random) -> str | None:
    """Another way to write ``text``, with the marks behind it and its first letter's case; None where none is known."""
    core = text.rstrip(MARKS)
    drawn = _drawn(alternatives(), core, rng) or _other_digits(core)
    return drawn and drawn + text[len(core) :]


def opposite_wording(text: str, rng: random.Random) -> str | None:
    """A word that says the opposite of ``text``, written like it; None where none is known."""
    core = text.rstrip(MARKS)
    drawn = _drawn(opposites(), core, rng)
    return drawn and drawn + text[len(core) :]


def phrase_length(words: Sequence[str]) -> int:
    """How many of the first ``words`` make up a phrase that has an alternative; 0 where none do."""
    if words[0].lower() not in phrase_starts():
        return 0
    known = alternatives()
    for count in range(min(LONGEST_PHRASE, len(words)), 1, -1):
        if " ".join(words[:count]).rstrip(MARKS).lower() in known:
            return count
    return 0


def _drawn(choices: Choices, core: str, rng: random.Random) -> str | None:
    others = choices.get(core.lower())
    if not others or (len(core) > 1 and core.isupper()):
        return None
    other = rng.choice(others)
    return other[0].upper() + other[1:] if core[0].isupper() else other


def _other_digits(core: str) -> str | None:
    """ "40%" as "40 percent", "12500" as "12,500" and the other way round."""
    if core.endswith("%") and core[:-1].isdecimal():
        return core[:-1] + " percent"
    digits = core.replace(",", "")
    if digits.isdecimal() and len(digits) > 4:
        return digits if "," in core else f"{int(core):,}"
    return None
