"""Other ways to write a word or a short phrase, words that say the opposite, and how both are drawn."""

import random
from collections.abc import Iterable, Sequence
from functools import cache

from training.lexicon_groups import NEVER_REPLACED, antonym_pairs, word_groups
from training.quantity_wording import quantity_groups

MARKS = ".,;:"
LONGEST_PHRASE = 3
VERB_LEADS = frozenset(
    {"to", "would", "can", "could", "may", "might", "must", "should", "not", "shall", "cannot"}
    | {"i", "you", "he", "she", "it", "we", "they", "who", "which", "will", "did", "does", "do"}
)
Choices = dict[str, tuple[str, ...]]


@cache
def alternatives() -> Choices:
    """Word or phrase, in small letters, to the others that may stand for it; never itself or an opposite.

    A word that shares several groups with it is named as often. A form that is a noun or a modifier too, such as
    "plant", is not read as a verb, unless it is a participle.
    """
    found = others_of([*word_groups(files=("nouns.txt", "modifiers.txt")), *quantity_groups()])
    for word, others in verb_alternatives().items():
        if word not in found or word.endswith("ed"):
            found[word] = found.get(word, ()) + others
    return _allowed(found)


@cache
def verb_alternatives() -> Choices:
    """Every form in ``verbs.txt`` to the others that may stand for it where a verb must stand, as behind "to"."""
    return _allowed(others_of(word_groups(files=("verbs.txt",))))


@cache
def opposites() -> Choices:
    """Word, in small letters, to the words that say the opposite."""
    return others_of(antonym_pairs())


@cache
def phrase_starts() -> frozenset[str]:
    """The first words of the phrases that have an alternative."""
    return frozenset(known.split(" ", 1)[0] for known in alternatives() if " " in known)


def others_of(groups: Iterable[tuple[str, ...]]) -> Choices:
    """Each word of the groups, in small letters, to all the others, once for each group that they share."""
    found: dict[str, list[str]] = {}
    for words in groups:
        for word in words:
            found.setdefault(word.lower(), []).extend(other for other in words if other.lower() != word.lower())
    return {word: tuple(others) for word, others in found.items() if others}


def other_wording(text: str, rng: random.Random, *, behind: str = "") -> str | None:
    """Another way to write ``text``, with the marks behind it and its first letter's case; None where none is known.

    ``behind`` is the word before it: behind "to" or "would" it is read as a verb where it can be one.
    """
    core = text.rstrip(MARKS)
    as_verb = _drawn(verb_alternatives(), core, rng) if behind.lower() in VERB_LEADS else None
    drawn = as_verb or _drawn(alternatives(), core, rng) or _other_digits(core)
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


def _allowed(found: Choices) -> Choices:
    """Without opposites and without words that are never replaced."""
    opposite = opposites()
    kept = {
        word: tuple(other for other in others if other not in opposite.get(word, ()))
        for word, others in found.items()
        if word not in NEVER_REPLACED
    }
    return {word: others for word, others in kept.items() if others}


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
