"""Where words begin and end: English tokens close to the treebanks' words, and Chinese words as trees of characters.

spaCy's English tokenizer gets the rules of the Universal Dependencies treebanks. Text without spaces between words is
parsed character by character, and the parsed characters are joined into words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from spacy.lang.char_classes import ALPHA, HYPHENS
from spacy.language import Language
from spacy.symbols import NORM, ORTH  # type: ignore[import-not-found]
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

from attribeam.attribution.answers.parser_output import SUBTOKEN_LABEL, word_runs
from attribeam.lab.training.parser.treebank import Sentence

PREFIX_WORDS = (
    "anti", "co", "counter", "e", "ex", "extra", "inter", "intra", "mega", "micro", "mid", "mini", "multi", "non",
    "post", "pre", "pro", "pseudo", "re", "semi", "sub", "super", "ultra",
)  # fmt: skip
RUNS = [rf"(?:{mark}){{2,}}" for mark in ("=", r"\*", "_", "#", "~", r"\+", "<", ">", "-", r"\$")] + [r"[!?]{2,}"]
BETWEEN_LETTERS = rf"(?<=[{ALPHA}0-9])(?:{HYPHENS})(?=[{ALPHA}])"
MORE_PREFIXES = [*RUNS, rf"-(?=[{ALPHA}])"]
MORE_SUFFIXES = [*RUNS, rf"-(?<=[{ALPHA}]-)", r"[AP]M(?<=[0-9][AP]M)"]
MORE_INFIXES = [  # each begins with a rare character, because every rule is tried at every letter
    r"(?=[!?])(?<=\w)[!?]+(?=\w)",
    rf"(?=[()\[\];])(?<=[{ALPHA}0-9])[()\[\];](?=[{ALPHA}0-9$])",
    r"(?=[(\[,.])(?<=[)\]])[(\[,.](?=\w)",
    r"(?=[–—])(?<=[0-9])[–—](?=[0-9])",
    r"-{2,}",
]
NO_EXCEPTIONS = ("and/or", "):", "(=", "=)")
ABBREVIATIONS = ("Ft.", "vol.", "Vol.", "al.")


def adapt_tokenizer(nlp: Language) -> None:
    """Adapt the tokenizer of ``nlp``, which must be spaCy's English one, to the treebanks.

    A run of one mark ("!!", "====") is one word, "and/or" is three words, a prefix stays with its word ("co-founded"),
    and marks within a word ("it)(see", "1837–1908") split it.

    Raises:
        ValueError: if this version of spaCy does not have the rule for hyphens that is replaced.
    """
    tokenizer, rules = nlp.tokenizer, nlp.Defaults
    if not isinstance(tokenizer, Tokenizer) or BETWEEN_LETTERS not in (rules.infixes or ()):
        raise ValueError("expected the English tokenizer of spaCy 3.8 with its rule for hyphens, found another")
    no_prefix = "".join(rf"(?<!\b(?i:{word}))" for word in PREFIX_WORDS)
    hyphens = rf"(?=(?:{HYPHENS}))(?<=[{ALPHA}0-9]){no_prefix}(?:{HYPHENS})(?=[{ALPHA}])"
    infixes = [hyphens if rule == BETWEEN_LETTERS else rule for rule in rules.infixes or ()]
    tokenizer.prefix_search = compile_prefix_regex([*MORE_PREFIXES, *(rules.prefixes or ())]).search
    tokenizer.suffix_search = compile_suffix_regex([*MORE_SUFFIXES, *(rules.suffixes or ())]).search
    tokenizer.infix_finditer = compile_infix_regex([*MORE_INFIXES, *infixes]).finditer
    tokenizer.rules = {text: words for text, words in tokenizer.rules.items() if text not in NO_EXCEPTIONS}
    for abbreviation in ABBREVIATIONS:
        tokenizer.add_special_case(abbreviation, [{ORTH: abbreviation}])
    tokenizer.add_special_case("wanna", [{ORTH: "wan", NORM: "want"}, {ORTH: "na", NORM: "to"}])


def is_chinese(sentences: Iterable[Sentence]) -> bool:
    """Whether most letters of the words are Chinese characters."""
    letters = [letter for sentence in sentences for word in sentence.words for letter in word if letter.isalpha()]
    return 2 * sum(map(is_chinese_character, letters)) > len(letters)


def is_chinese_character(letter: str) -> bool:
    """Whether ``letter`` is a unified ideograph, including those of the supplementary planes."""
    return "\u3400" <= letter <= "\u9fff" or "\uf900" <= letter <= "\ufaff" or "\U00020000" <= letter <= "\U0003ffff"


def split_into_characters(sentence: Sentence) -> Sentence:
    """The sentence with one word per character.

    The last character of a word stands for the word; every other one is attached to its right neighbour with the label
    ``subtok``. All characters have the word's tag.
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
        split.labels += [SUBTOKEN_LABEL] * inside + [sentence.labels[place]]
    return split


def join_words(doc: Doc) -> Doc:
    """The document with parsed words as tokens; unchanged if no word has several characters as tokens."""
    runs = word_runs([token.dep_ for token in doc], [sentence.start for sentence in doc.sents])
    with doc.retokenize() as retokenizer:
        for run in runs:
            if len(run) > 1:
                retokenizer.merge(doc[run[0] : run[-1] + 1])
    return doc
