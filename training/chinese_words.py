"""Text without blanks between words: a treebank's words as trees of characters, and parsed characters as words."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from spacy.tokens import Doc

from attribution.answers.subtokens import INSIDE_WORD, word_runs
from training.treebank import Sentence


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


def join_words(doc: Doc) -> Doc:
    """The document with its parsed words for tokens; where no character lies inside a word, as it is."""
    runs = word_runs([token.dep_ for token in doc], [sentence.start for sentence in doc.sents])
    with doc.retokenize() as retokenizer:
        for run in runs:
            if len(run) > 1:
                retokenizer.merge(doc[run[0] : run[-1] + 1])
    return doc
