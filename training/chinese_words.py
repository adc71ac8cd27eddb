"""Text without blanks between words: a treebank's words as trees of characters, which the parser joins again."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from training.treebank import Sentence

INSIDE_WORD = "subtok"
"""The label of a character that the next one belongs to; spaCy's ``merge_subtokens`` joins what it connects."""


def is_chinese(sentences: Iterable[Sentence]) -> bool:
    """True where most letters of the words are Chinese characters."""
    letters = [letter for sentence in sentences for word in sentence.words for letter in word if letter.isalpha()]
    return 2 * sum(map(is_chinese_character, letters)) > len(letters)


def is_chinese_character(letter: str) -> bool:
    """True for the characters of the unified ideographs, the rare ones of the supplementary planes included."""
    return "\u3400" <= letter <= "\u9fff" or "\uf900" <= letter <= "\ufaff" or "\U00020000" <= letter <= "\U0003ffff"


def in_characters(sentence: Sentence) -> Sentence:
    """The sentence with a word for each character.

    A word's last character stands for the word; every other one hangs on its neighbour to the right with the label
    ``subtok``. All have the word's tag.
    """
    lengths = [len(word) for word in sentence.words]
    lasts = [end - 1 for end in accumulate(lengths)]
    split = replace(sentence, words=[], spaces=[], tags=[], heads=[], labels=[])
    for place, word in enumerate(sentence.words):
        inside = len(word) - 1
        split.words += word
        split.spaces += [False] * inside + [sentence.spaces[place]]
        split.tags += [sentence.tags[place]] * len(word)
        split.heads += [*range(lasts[place] - inside + 1, lasts[place] + 1), lasts[sentence.heads[place]]]
        split.labels += [INSIDE_WORD] * inside + [sentence.labels[place]]
    return split
