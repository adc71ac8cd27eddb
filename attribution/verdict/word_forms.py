"""Words in the form in which the verdict compares them: stems, and which words carry content."""

from __future__ import annotations

import re

WORD_OR_MARK = re.compile(r"[^\W_]+(?:['’][^\W_]+)?|[^\w\s]|_")

_STEM_LETTERS = 6
_POSSESSIVES = ("'s", "’s")


def word_set(text: str) -> frozenset[str]:
    """The words of a text that are separated by white space."""
    return frozenset(text.split())


FUNCTION_WORDS = word_set("""
    a an the of to in on at by for with from and or but nor so as is are was were be been being am do does did has have
    had having will would can could may might must shall should not no this that these those it its it's he she they
    them their his her him we us our you your i my me who whom whose which what when where how why there here than then
    if while because although though into onto over under about after before between through during without within
    against per via also such any some each other more most both all only just very too own same s t re ve ll d m
    """)
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
