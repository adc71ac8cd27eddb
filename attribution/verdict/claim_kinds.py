"""What each word of an answer is: part of a claim, or of a heading, a refusal, another language and the like.

Of a language that is not read, scripts are counted first. Latin text is told apart by function words, and by py3langid
where these do not speak clearly: English with a name or a quotation has the function words of both. A short answer goes
with its question and its passages, since nothing tells the language of "Um neun." or "Coq au vin." by itself.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from attribeam.attribution.answers.citation_pointers import reference_ranges
from attribeam.attribution.answers.markup import (
    block_ranges,
    fenced_code,
    formula_ranges,
    hide_markup,
    hide_ranges,
    inline_code,
    range_overlapping,
    replace_ranges,
    structured_text,
)
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds
from attribeam.attribution.answers.target_spans import label_words, words_range
from attribeam.attribution.verdict import discourse_phrases as phrases
from attribeam.attribution.verdict.discourse_phrases import Span
from attribeam.attribution.verdict.refusal_phrases import is_bare_refusal, refusals
from attribeam.attribution.verdict.word_forms import word_set
from attribeam.schemas import CharRange, ClaimKind, Passage, QARecord

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


@dataclass(frozen=True, slots=True)
class WordKinds:
    """The kind of each word of an answer, and the ranges in which the answer refuses, ascending."""

    kinds: tuple[ClaimKind, ...]
    refused: tuple[CharRange, ...]


def word_kinds(parsed: ParsedAnswer, record: QARecord, *, assume_language: bool = False) -> WordKinds:
    """Decide what each word of the record's answer is.

    With ``assume_language``, everything counts as a language that is read.
    """
    answer = record.answer
    kinds = [ClaimKind.CLAIM] * len(parsed.words)
    refused: list[CharRange] = []
    text, unmarked = hide_markup(answer, parsed.marked), hide_ranges(answer, parsed.marked)
    cited = _with_plain_marks(answer, parsed.marked)
    if parsed.words and is_bare_refusal(text):
        return WordKinds((ClaimKind.REFUSAL,) * len(kinds), (words_range(parsed, range(len(kinds))),))
    headings = _heading_lines(unmarked)
    nesting = [CharRange(*match.span()) for match in _NESTING_ITEM.finditer(unmarked)]
    for start, end in sentence_bounds(parsed):
        chars = CharRange(parsed.words[start].char_start, parsed.words[end - 1].char_end)
        for found, kind in _sentence_regions(parsed, range(start, end), chars.of(text), chars.of(cited)):
            region = CharRange(chars.char_start + found[0], chars.char_start + found[1])
            _mark(parsed, range(start, end), region, kind, kinds)
            if kind == ClaimKind.REFUSAL:
                refused.append(region)
        is_item = range_overlapping(chars, nesting) and not _has_verb(parsed, range(start, end))
        if is_item or range_overlapping(chars, headings):
            kinds[start:end] = [ClaimKind.HEADING] * (end - start)
    everything = range(len(parsed.words))
    structure = structured_text(answer)
    for part, kind in zip(structure.parts, structure.kinds, strict=True):
        if kind is not ClaimKind.CLAIM:
            _mark(parsed, everything, part, kind, kinds)
    for label in label_words(parsed, answer):
        kinds[label.start : label.stop] = [ClaimKind.HEADING] * len(label)
    for kind, ranges in (
        (ClaimKind.DISCOURSE, reference_ranges(answer)),
        (ClaimKind.LANGUAGE, () if assume_language else unread_ranges(parsed, record)),
        (ClaimKind.CODE, _code(parsed, answer)),
    ):
        for region in ranges:
            _mark(parsed, everything, region, kind, kinds, over_claims_only=kind == ClaimKind.DISCOURSE)
    return WordKinds(tuple(kinds), tuple(refused))


def _with_plain_marks(answer: str, marks: Sequence[CharRange]) -> str:
    """The answer with each mark of three code points or more written as "[1]", and blanks to its end."""
    long = [mark for mark in marks if mark.char_end - mark.char_start > 2]
    return replace_ranges(answer, long, ["[1]".ljust(mark.char_end - mark.char_start) for mark in long])


def _sentence_regions(
    parsed: ParsedAnswer, words: range, sentence: str, written: str
) -> Iterator[tuple[Span, ClaimKind]]:
    """Regions of one sentence, the weightiest kind last. ``written`` is the sentence with its markup.

    Its citation marks are written as numbers there.
    """
    if written != sentence:
        yield from ((found, ClaimKind.DISCOURSE) for found in phrases.leads(written))
    yield from ((found, ClaimKind.DISCOURSE) for found in phrases.leads(sentence))
    yield from ((found, ClaimKind.DISCOURSE) for found in phrases.openings(sentence))
    yield from ((found, ClaimKind.DISCOURSE) for found in phrases.announcements(sentence))
    label = phrases.label(sentence)
    if label is not None:
        yield label, ClaimKind.HEADING
    yield from ((found, ClaimKind.REFUSAL) for found in refusals(sentence))
    whole = (0, len(sentence))
    courtesy = phrases.offer(sentence)
    if courtesy is not None:
        yield courtesy, ClaimKind.OFFER
    elif phrases.is_question(sentence) and not any(phrases.announcements(sentence)):
        yield whole, ClaimKind.QUESTION
    elif phrases.introduces_list(sentence, has_verb=_has_verb(parsed, words) and not _lacks_complement(parsed, words)):
        yield whole, ClaimKind.HEADING


def _has_verb(parsed: ParsedAnswer, words: range) -> bool:
    return any(parsed.universal_tags[word] in ("VERB", "AUX") for word in words)


def _lacks_complement(parsed: ParsedAnswer, words: range) -> bool:
    """Whether the words before the closing mark end with a verb or preposition: "Renting offers:"."""
    return [parsed.universal_tags[word] for word in words][-2:-1] in (["VERB"], ["ADP"])


def _mark(
    parsed: ParsedAnswer,
    within: range,
    region: CharRange,
    kind: ClaimKind,
    kinds: list[ClaimKind],
    *,
    over_claims_only: bool = False,
) -> None:
    """Give the words that begin in the region this kind."""
    first = bisect_left(parsed.words, region.char_start, lo=within.start, hi=within.stop, key=_start)
    for word in range(first, within.stop):
        if parsed.words[word].char_start >= region.char_end:
            return
        if not over_claims_only or kinds[word] == ClaimKind.CLAIM:
            kinds[word] = kind


def _start(chars: CharRange) -> int:
    return chars.char_start


_HEADING_LINE = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+\S.*|(?:[^\w\s*_#|>-]{1,4}[ \t]*)?(\*\*|__)[^*\n]{1,80}\1:?[ \t]*"
    r"|(?P<indent>[ \t]*)(?:[-*+•‣▪]|\d{1,2}[.)])[ \t]+(\*\*|__)[^*\n]{1,80}\3:?[ \t]*"
    r"(?=\n+(?:(?P=indent)[ \t]{2,}\S|[ \t]*[^\W\d_])))$",
    re.MULTILINE,
)


_NESTING_ITEM = re.compile(
    r"^(?P<indent>[ \t]*)(?:[-*+•‣▪]|\d{1,2}[.)])[ \t]+[^\n.!?:]{1,60}:?[ \t]*"
    r"(?=\n+(?P=indent)[ \t]+(?:[-*+•‣▪]|\d{1,2}[.)]|[a-z]\))[ \t])",
    re.MULTILINE,
)
"""An item of a list with an inner list below it, of which it is the heading where it has no verb."""


def _heading_lines(answer: str) -> tuple[CharRange, ...]:
    """Markdown headings and lines in bold alone that have text behind them, outside fenced code.

    A list item in bold alone is one only where text or an inner list stands below it: else it may be what is listed.
    """
    fences = fenced_code(answer)
    lines = (CharRange(*match.span()) for match in _HEADING_LINE.finditer(answer))
    return tuple(one for one in lines if answer[one.char_end :].strip() and range_overlapping(one, fences) is None)


def _code(parsed: ParsedAnswer, answer: str) -> Iterator[CharRange]:
    """Fenced code, formulas and sentences of inline code alone; other inline code names something in a claim."""
    yield from fenced_code(answer)
    yield from formula_ranges(answer)
    inline = inline_code(answer)
    for start, end in sentence_bounds(parsed) if inline else ():
        words = [word for word in parsed.words[start:end] if any(map(str.isalnum, word.of(answer)))]
        if words and all(range_overlapping(word, inline) for word in words):
            yield CharRange(words[0].char_start, words[-1].char_end)
