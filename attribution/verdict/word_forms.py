"""Words in the form in which the verdict compares them: stems, and which words carry content."""

from __future__ import annotations

import re

from attribeam.attribution.answers.function_words import FUNCTION_WORDS

WORD_OR_MARK = re.compile(r"[^\W_]+(?:['’][^\W_]+)?|[^\w\s]|_")

_STEM_LETTERS = 6
_POSSESSIVES = ("'s", "’s")


def word_set(text: str) -> frozenset[str]:
    """The words of a text that are separated by white space."""
    return frozenset(text.split())


NEGATIONS = word_set("not no never n't without none neither nor unable lack lacks")
MODALS = word_set("can could may might should must will would")


def stem(word: str) -> str:
    """The first six letters in lower case, without a possessive ending."""
    word = word.lower()
    return (word[:-2] if word.endswith(_POSSESSIVES) else word)[:_STEM_LETTERS]


def carries_content(word: str) -> bool:
    """True for words of three letters and more that are no function words, and for everything with a digit."""
    word = word.lower()
    if any(one.isdigit() for one in word):
        return True
    return len(word) > 2 and word[0].isalpha() and word not in FUNCTION_WORDS
