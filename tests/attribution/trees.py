"""The bundled parser, and hand-written dependency trees in a compact notation, one word a line or an item.

``"The/det/2/DET company/nsubj/3/NOUN ..."``: text, label, 1-based head (0 for the root), universal tag; words are
joined by single blanks unless an item starts with "~", which glues it to the word before. "||" starts a new sentence,
whose heads count from 1 again.
"""

from __future__ import annotations

from functools import cache

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.schemas import CharRange


@cache
def bundled_parser() -> AnswerParser:
    """Loaded once for all tests of a process."""
    return AnswerParser.from_pretrained("bundled")


def tree(notation: str, *, label_scheme: str = "universal") -> tuple[str, ParsedAnswer]:
    """The text and the parse of one answer in the notation above."""
    text = ""
    words: list[CharRange] = []
    heads: list[int] = []
    labels: list[str] = []
    tags: list[str] = []
    starts: list[int] = []
    for sentence in notation.split("||"):
        first = len(words)
        starts.append(first)
        for item in sentence.split():
            form, label, head, tag = item.removeprefix("~").rsplit("/", 3)
            text += "" if item.startswith("~") or not text else " "
            words.append(CharRange(len(text), len(text) + len(form)))
            text += form
            heads.append(first + int(head) - 1 if int(head) else len(words) - 1)
            labels.append(label)
            tags.append(tag)
    parsed = ParsedAnswer(
        words=tuple(words),
        dependency_heads=tuple(heads),
        dependency_labels=tuple(labels),
        universal_tags=tuple(tags),
        fine_tags=("",) * len(words),
        sentence_starts=tuple(starts),
        label_scheme=label_scheme,
    )
    return text, parsed


def word_index(text: str, parsed: ParsedAnswer, form: str, occurrence: int = 1) -> int:
    """The index of the ``occurrence``-th word of this form."""
    places = [index for index, chars in enumerate(parsed.words) if chars.of(text) == form]
    return places[occurrence - 1]


def forms(text: str, parsed: ParsedAnswer, words: frozenset[int]) -> str:
    """The words in their order, joined by blanks."""
    return " ".join(parsed.words[word].of(text) for word in sorted(words))


COMPANY_UNIVERSAL = (
    "The/det/2/DET company/nsubj/3/NOUN earned/root/0/VERB one/compound/5/NUM million/nummod/6/NUM dollars/obj/3/NOUN "
    "and/cc/10/CCONJ two/compound/9/NUM million/nummod/10/NUM dollars/conj/6/NOUN in/case/12/ADP 2012/obl/3/NUM "
    "and/cc/14/CCONJ 2013/conj/12/NUM ~,/punct/16/PUNCT respectively/advmod/3/ADV ~./punct/3/PUNCT"
)
COMPANY_SPACY_ENGLISH = (
    "The/det/2/DET company/nsubj/3/NOUN earned/ROOT/0/VERB one/compound/5/NUM million/nummod/6/NUM dollars/dobj/3/NOUN "
    "and/cc/6/CCONJ two/compound/9/NUM million/nummod/10/NUM dollars/conj/6/NOUN in/prep/3/ADP 2012/pobj/11/NUM "
    "and/cc/12/CCONJ 2013/conj/12/NUM ~,/punct/3/PUNCT respectively/advmod/3/ADV ~./punct/3/PUNCT"
)
