"""The lexicon files beside this module: groups of words of like sense, and pairs of opposites, in all their forms."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from training.inflection import noun_forms, verb_forms

LEXICON = Path(__file__).parent / "lexicon"
Form = str | None
Forms = Callable[[str], tuple[Form, ...]]
# Forms that are mostly another word: an auxiliary, a preposition, an adverb.
_NEVER_REPLACED = """
am are back be been being can could did do does doing done even had has have having is just left like likes may
might mine must off on out over own past round still us was well were will would
"""
NEVER_REPLACED = frozenset(_NEVER_REPLACED.split())


def one_form(lemma: str) -> tuple[Form, ...]:
    """The lemma alone: adjectives, adverbs, prepositions and connectives are not inflected."""
    return (lemma,)


FORMS_BY_FILE: dict[str, Forms] = {"verbs.txt": verb_forms, "nouns.txt": noun_forms, "modifiers.txt": one_form}
FORMS_BY_LETTER: dict[str, Forms] = {"v": verb_forms, "n": noun_forms, "m": one_form}


def lexicon_lines(path: Path) -> Iterator[str]:
    """The lines of a lexicon file, without comments, blank lines and outer spaces."""
    for line in path.read_text(encoding="utf-8").splitlines():
        content = line.partition("#")[0].strip()
        if content:
            yield content


def lemmas_in(text: str) -> list[str]:
    """The lemmas of a group, each once, in their order."""
    return list(dict.fromkeys(lemma.strip() for lemma in text.split(",") if lemma.strip()))


def word_groups(folder: Path = LEXICON, *, files: Iterable[str] = tuple(FORMS_BY_FILE)) -> Iterator[tuple[str, ...]]:
    """The groups of ``files``, one tuple for each inflected form: past stands with past, plural with plural.

    Raises ``FileNotFoundError`` where one of them is missing.
    """
    for name in files:
        for line in lexicon_lines(folder / name):
            yield from same_forms(lemmas_in(line), FORMS_BY_FILE[name])


def antonym_pairs(folder: Path = LEXICON) -> Iterator[tuple[str, ...]]:
    """Words and their opposites, one tuple for each inflected form that both have.

    Raises ``ValueError`` where a line is not "v|n|m: word, word".
    """
    for line in lexicon_lines(folder / "antonyms.txt"):
        letter, _, words = line.partition(":")
        lemmas = lemmas_in(words)
        if letter.strip() not in FORMS_BY_LETTER or len(lemmas) < 2:
            raise ValueError(
                f"{folder / 'antonyms.txt'}: expected 'v|n|m: word, word', found {line!r}; correct the line"
            )
        for pair in pairwise(lemmas):
            yield from (both for both in same_forms(pair, FORMS_BY_LETTER[letter.strip()]) if len(both) == 2)


def same_forms(lemmas: Iterable[str], forms: Forms) -> Iterator[tuple[str, ...]]:
    """One tuple for each form, of the lemmas that have it; equal words stand once."""
    for together in zip(*map(forms, lemmas), strict=True):
        yield tuple(dict.fromkeys(form for form in together if form is not None))
