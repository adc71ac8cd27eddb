"""Which parts of an answer are not judged, since they or their passages are in a language that is not read.

Scripts are counted first. Latin text is told apart by function words, and by py3langid where these do not speak
clearly: English with a name or a quotation has the function words of both. A short answer goes with its question and
its passages, since nothing tells the language of "Um neun." or "Coq au vin." by itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from attribeam.attribution.answers.markup import block_ranges, hide_ranges
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.verdict.word_forms import word_set
from attribeam.schemas import CharRange, Passage, QARecord

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_ENGLISH = word_set(
    "the of and with not this from were which they their you your its would there been who what when more than these"
    " other into out about how she our some does should used only such before first after them is are was that it"
)
"""Function words that tell English, since they are rare in other languages."""
_LATIN_LANGUAGES = word_set(
    "af az br bs ca cs cy da de en es et eu fi fr fy ga gl hr ht hu id is it la lb lt lv ms mt nl no oc pl pt ro sk sl"
    " so sq sv sw tl tr uz vi"
)
_LATIN, _HAN = "LATIN", "CJK"
_FEWEST_WORDS = 8
_FEWEST_IN_LOWER_CASE = 3
_FEWEST_LETTERS = 4
_FEWEST_LETTERS_IN_SCRIPT = 20
_ENGLISH_SHARE = 0.08
_MOST_OF_ENGLISH = 0.05
_MOST_OF_A_PASSAGE, _MOST_OF_PASSAGES = 500, 3000
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def unread_ranges(parsed: ParsedAnswer, record: QARecord) -> tuple[CharRange, ...]:
    """The blocks of an answer, without its citation marks, that cannot be judged, ascending.

    That is the whole answer where most of the passages are in a language that is not read: its words cannot be compared
    with theirs. Else it is every block in such a language. English is read; with a parser for Chinese, Han characters
    as well. A block with few words goes with the answer as a whole, so a name or a quotation stays where it is, and an
    answer with few words goes with its question.
    """
    scripts = {_LATIN, _HAN} if "chinese" in parsed.label_scheme else {_LATIN}
    answer = hide_ranges(record.answer, parsed.marked)
    passages = _beginnings(record.passages)
    if _is_unread(passages, scripts, beside=record.question):
        return (CharRange(0, len(answer)),)
    in_other_script = _is_in_other_script(answer, scripts)
    is_foreign_latin = not in_other_script and (
        _is_foreign_latin(answer) if _is_long(answer) else _is_short_foreign(answer, record.question, passages)
    )
    blocks = block_ranges(answer)
    unread = []
    for block in blocks:
        text = block.of(answer)
        if _is_in_other_script(text, scripts):
            is_long = sum(map(str.isalpha, text)) >= _FEWEST_LETTERS_IN_SCRIPT
            unread.append(is_long or in_other_script or is_foreign_latin)
        else:
            unread.append(_is_foreign_latin(text) if _is_long(text) else is_foreign_latin)
    if blocks and all(unread):
        return (CharRange(0, len(answer)),)
    return tuple(block for block, is_unread in zip(blocks, unread, strict=True) if is_unread)


def _beginnings(passages: Sequence[Passage]) -> str:
    """The beginnings of the passages, as many as tell their language."""
    return "\n".join(one.text[:_MOST_OF_A_PASSAGE] for one in passages)[:_MOST_OF_PASSAGES]


def _is_unread(text: str, scripts: Collection[str], *, beside: str) -> bool:
    """True for a text in another script or language; a text of a few words is told with what stands beside it."""
    if _is_in_other_script(text, scripts):
        return True
    return _is_foreign_latin(text) if _is_long(text) else _is_foreign_latin(f"{beside} {text}")


def _is_short_foreign(answer: str, question: str, passages: str) -> bool:
    """Whether an answer of a few words to passages that are read is foreign.

    It is if it is by itself or with its question, but not if it has a word of the passages: a name or a term that is
    wrong is to be judged.
    """
    asked = {word.lower() for word in _WORD.findall(question)}
    with_question = "" if asked & _ENGLISH else question
    if not _is_foreign_latin(answer) and not _is_foreign_latin(f"{with_question} {answer}"):
        return False
    told = {word.lower() for word in _WORD.findall(passages)}
    return not any(len(word) >= _FEWEST_LETTERS and word.lower() in told for word in _WORD.findall(answer))


def _is_long(text: str) -> bool:
    return next(islice(_WORD.finditer(text), _FEWEST_WORDS - 1, None), None) is not None


def _is_in_other_script(text: str, scripts: Collection[str]) -> bool:
    """True where most letters are of none of the scripts."""
    beyond = Counter(script_of(character) for character in _BEYOND_ASCII.findall(text) if character.isalpha())
    foreign = sum(count for script, count in beyond.items() if script not in scripts)
    return bool(foreign) and 2 * foreign > sum(map(str.isalpha, text))


@lru_cache(maxsize=256)
def _is_foreign_latin(text: str) -> bool:
    """True for a text in Latin letters with next to no function words of English, if py3langid agrees.

    Only words in lower case tell a language: names are the same in all.
    """
    words = _WORD.findall(text)
    if sum(word.lower() in _ENGLISH for word in words) > _ENGLISH_SHARE * len(words):
        return False
    plain = [word for word in words if word.islower()]
    if len(plain) < _FEWEST_IN_LOWER_CASE:
        return False
    return float(dict(_identifier().rank(" ".join(plain)))["en"]) <= _MOST_OF_ENGLISH


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    """py3langid with the languages that are written in Latin letters; it takes 0.6 s to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(_LATIN_LANGUAGES)
    return identifier


@lru_cache(maxsize=8192)
def script_of(character: str) -> str:
    """The first word of a letter's Unicode name, which names its script: "LATIN", "HEBREW", "CJK", "HIRAGANA"."""
    if character.isascii():
        return _LATIN
    name = unicodedata.name(unicodedata.normalize("NFKC", character)[:1] or character, "")
    if name.startswith(("MODIFIER", "FEMININE", "MASCULINE", "MICRO")):
        return _LATIN
    return name.split(" ", 1)[0]
