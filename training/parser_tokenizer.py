"""spaCy's English tokenizer, brought nearer to the words of the Universal Dependencies treebanks."""

from spacy.lang.char_classes import ALPHA, HYPHENS
from spacy.language import Language
from spacy.symbols import NORM, ORTH  # type: ignore[import-not-found]
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

PREFIX_WORDS = (
    "anti", "co", "counter", "e", "ex", "extra", "inter", "intra", "mega", "micro", "mid", "mini", "multi", "non",
    "post", "pre", "pro", "pseudo", "re", "semi", "sub", "super", "ultra",
)  # fmt: skip
RUNS = [rf"(?:{mark}){{2,}}" for mark in ("=", r"\*", "_", "#", "~", r"\+", "<", ">", "-", r"\$")] + [r"[!?]{2,}"]
BETWEEN_LETTERS = rf"(?<=[{ALPHA}0-9])(?:{HYPHENS})(?=[{ALPHA}])"
MORE_PREFIXES = [*RUNS, rf"-(?=[{ALPHA}])"]
MORE_SUFFIXES = [*RUNS, rf"-(?<=[{ALPHA}]-)", r"[AP]M(?<=[0-9][AP]M)"]
MORE_INFIXES = [  # what is rare is looked for first, since each rule is tried at each letter
    r"(?=[!?])(?<=\w)[!?]+(?=\w)",
    rf"(?=[()\[\];])(?<=[{ALPHA}0-9])[()\[\];](?=[{ALPHA}0-9$])",
    r"(?=[(\[,.])(?<=[)\]])[(\[,.](?=\w)",
    r"(?=[–—])(?<=[0-9])[–—](?=[0-9])",
    r"-{2,}",
]
NO_EXCEPTIONS = ("and/or", "):", "(=", "=)")
ABBREVIATIONS = ("Ft.", "vol.", "Vol.", "al.")


def adapt_tokenizer(nlp: Language) -> None:
    """Change the tokenizer of ``nlp``, which is spaCy's English one.

    A run of one mark ("!!", "====") is one word; "and/or" is three; a prefix stays with its word ("co-founded"); marks
    within a word ("it)(see", "1837–1908") part it.

    Raises:
        ValueError: if this spaCy splits hyphens by another rule than the one that is replaced.
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
