"""Texts as the verdict compares them: words and their forms, a parsed answer, lines of records, passages' sentences."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache, partial, reduce
from html import unescape
from itertools import chain, pairwise
from operator import and_
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from attribeam.attribution.answers.answer_names import PassageContent
from attribeam.attribution.answers.markup import structured_text
from attribeam.attribution.answers.parsed_answer import (
    OPENING,
    ParsedAnswer,
    may_end_sentence,
    sentence_bounds,
    sentence_tree,
)
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS, INVISIBLE, plain_text, remembered, visible
from attribeam.schemas import CharRange, ClaimKind, EvidencePiece, Passage, SpanEvidence

WORD_OR_MARK = re.compile(
    r"(?:\d+(?:[.,]\d+)+|\d{1,2}:\d\d)(?![^\W_])|[vV](?=\d+\.\d)"
    rf"|[^\W_]+(?:[{INVISIBLE}]+[^\W_]+)*(?:['’][^\W_]+)?|[^\w\s{INVISIBLE}]|_"
)

NOWHERE = "\ue000"
"""It begins a word of an answer that is to match no word of a passage; ``plain_text`` keeps it."""
_QUOTES, _JOINTS = frozenset("'’"), frozenset("-‐‑‒–—/\\._&:@=~")
_STEM_LETTERS = 6
_KNOWN_WORDS = 2**15
"""How many words' forms are remembered: texts repeat their words."""
_AMOUNT = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def word_set(text: str) -> frozenset[str]:
    """The words of a text that are separated by white space."""
    return frozenset(text.split())


NEGATIONS = word_set("not no never n't without none neither nor unable lack lacks")
_OPPOSITES = """
up upper above over higher high: down lower below under beneath low; before earlier early: after later late; first:
last; more most many all every: less fewer least few none; rise rises rose risen rising increase increases increased
increasing grow grows grew grown growing climb climbs climbed gain gains gained raise raises raised up: fall falls
fell fallen falling decrease decreases decreased decreasing decline declines declined declining drop drops dropped
shrink shrinks shrank lose loses lost cut cuts down; expand expands expanded: shrink shrinks shrank contract contracts
contracted; win wins won: lose loses lost; profit profits: loss losses; open opens opened: close closes closed shut;
include includes included including: exclude excludes excluded excluding; allowed permitted allows permits may:
forbidden prohibited banned forbids prohibits; with: without; always often: never rarely seldom; everyone everybody:
nobody; free: paid; cheap cheaper cheapest: expensive dearer dearest; large larger largest big bigger biggest: small
smaller smallest; long longer longest: short shorter shortest; old older oldest: young younger youngest new newer
newest; fast faster fastest quick quicker quickly: slow slower slowest slowly; loud louder: quiet quieter; hot hotter
warm warmer: cold colder cool cooler; north northern: south southern; east eastern: west western; left: right; buy
buys bought: sell sells sold; accept accepts accepted: reject rejects rejected refuse refuses refused; agree agrees
agreed: disagree disagrees disagreed; approve approves approved: reject rejects rejected; safe: dangerous unsafe;
strong stronger: weak weaker; heavy heavier: light lighter; wet: dry; full: empty; male man men: female woman women;
father: mother; son: daughter; brother: sister; husband: wife; start starts started begin begins began: end ends ended
stop stops stopped finish finishes finished; enter enters entered: leave leaves left exit exits; arrive arrives
arrived: leave leaves left depart departs departed; day: night; morning: evening; summer: winter; spring: autumn;
indoor indoors inside: outdoor outdoors outside; import imports imported: export exports exported; maximum: minimum;
majority: minority; same: different; possible: impossible; required mandatory compulsory: optional voluntary; known:
unknown; likely: unlikely; legal: illegal; public: private; success: failure; succeed succeeds succeeded: fail fails
failed; pass passes passed: fail fails failed; improve improves improved better best: worsen worsens worsened worse
worst; positive: negative; support supports supported: oppose opposes opposed; remember: forget; add adds added:
remove removes removed; enable enables enabled: disable disables disabled; lend lends lent: borrow borrows borrowed;
sunrise: sunset; strengthen strengthens strengthened: weaken weakens weakened; employer: employee; lower
lowers lowered lowering reduce reduces reduced: raise raises raised raising increase increases increased; widen widens
widened wide wider widest: narrow narrows narrowed narrower narrowest; appear appears appeared: disappear disappears
disappeared vanished; hire hires hired appointed: fire fires fired dismiss dismisses dismissed; guilty convicted:
innocent acquitted; tighten tightens tightened: loosen loosens loosened relax relaxes relaxed; lock locked: unlock
unlocked; permanent: temporary; major: minor; deep deeper deepest: shallow shallower shallowest; thick thicker: thin
thinner; rich richer richest: poor poorer poorest; easy easier easiest: hard harder hardest difficult; top: bottom;
front: back rear; vertical: horizontal; domestic: foreign; urban: rural; surplus: deficit; victory: defeat; upstream:
downstream; clockwise: counterclockwise anticlockwise; online: offline; arrival: departure; birth: death; born: died;
alive: dead; true: false; active: inactive; available: unavailable; complete: incomplete; married: unmarried; internal
inner: external outer; manual: automatic; like likes liked: dislike dislikes disliked; love loves loved: hate hates
hated; ascending: descending; gain gains: loss losses; attack attacks attacked: defend defends defended; ancient:
modern; simple: complex; common: rare
"""


def _both_ways(text: str) -> dict[str, frozenset[str]]:
    pairs: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for entry in text.split(";"):
        sides = [*map(word_set, entry.split(":"))]
        for words, opposites in (sides, sides[::-1]):
            for word in words:
                pairs[word] |= opposites
    return dict(pairs)


OPPOSITES = _both_ways(_OPPOSITES)
"""Words of opposite meaning, each with its opposites."""
MODALS = word_set("can could may might should must will would")


@lru_cache(maxsize=_KNOWN_WORDS)
def stem(word: str) -> str:
    """The first six letters in lower case, without diacritics and possessive ending; of a number what it amounts to.

    So "1,250.50" is "1250.5", "9:00" is "9", and "4.8.2" stays as it is. A word with marks has the stems of its parts:
    "e-mail" is "email", and "24/7" stays as it is, like "u.s", which is not "us".
    """
    word = plain_text(word).lower()
    if parts := word_parts(word):
        joined = reduce(_joined_stems, map(stem, parts))
        return joined if joined not in FUNCTION_WORDS else word.rstrip(".")
    word = word.removesuffix(":00")
    if not word[:1].isdigit():
        return (word[:-2] if word.endswith("'s") else word)[:_STEM_LETTERS]
    if _AMOUNT.fullmatch(word) is None:
        return word
    whole, _, decimals = word.replace(",", "").partition(".")
    return f"{whole}.{decimals}".rstrip("0").rstrip(".") if decimals else whole


def _joined_stems(left: str, right: str) -> str:
    return f"{left}/{right}" if left[-1:].isdigit() and right[:1].isdigit() else left + right


@lru_cache(maxsize=_KNOWN_WORDS)
def word_parts(word: str) -> tuple[str, ...]:
    """What ``WORD_OR_MARK`` reads in a word that is more to it than one, in lower case; of marks only "+" and "#".

    Empty for a word that it reads as one, for marks, and for endings such as "'s".
    """
    parts = WORD_OR_MARK.findall(word.lower())
    if len(parts) < 2 or parts[0] in _QUOTES or word[0] == NOWHERE:
        return ()
    kept = tuple([part for part in parts if part[0].isalnum() or part in "+#"])
    return kept if any(part[0].isalnum() for part in kept) else ()


@lru_cache(maxsize=_KNOWN_WORDS)
def carries_content(word: str) -> bool:
    """True for words of three letters, or of two capitals ("UK"), that are no function words, and all with a digit."""
    word = word.removeprefix(NOWHERE)
    if any(map(str.isdigit, word)):
        return True
    is_long = len(word) > 2 or (len(word) == 2 and word.isupper() and word != "PM")
    return is_long and word[0].isalpha() and word.lower() not in FUNCTION_WORDS


class WholeWord(NamedTuple):
    """A word of an answer that is one for its parser, and its parts, as ``word_parts`` has them.

    ``apart`` are those of the parts that are words of the answer by themselves, too.
    """

    text: str
    parts: tuple[str, ...]
    apart: tuple[str, ...]

    def end_in(self, words: Sequence[str], lowered: Sequence[str], start: int) -> int:
        """Where it ends in a text, given by its words and marks, if it begins at ``start`` there; else 0.

        Its parts stand in a row, with any joints or none between them. "U.S." is "US", and not "us", nor "A." "a".
        """
        if lowered[start] == "".join(self.parts):
            return start + 1 if words[start].isupper() or lowered[start] not in FUNCTION_WORDS else 0
        end = start
        for part in self.parts:
            while start < end < len(lowered) - 1 and lowered[end] in _JOINTS and lowered[end] != part:
                end += 1
            if end == len(lowered) or lowered[end] != part:
                return 0
            end += 1
        return end


Wholes = tuple[WholeWord, ...]


def words_and_marks(text: str, wholes: Wholes = ()) -> list[str]:
    """The words and marks of a text, in which the whole words of an answer are one word each, as the answer has them.

    Last stand those of their parts that are words of the answer by themselves.
    """
    words: list[str] = WORD_OR_MARK.findall(text)
    if not wholes:
        return words
    lowered, read, apart, start = [word.lower() for word in words], list[str](), list[str](), 0
    firsts = {first for whole in wholes for first in (whole.parts[0], "".join(whole.parts))}
    begins = defaultdict[tuple[str, str], list[WholeWord]](list)
    for whole in wholes:
        for beginning in {(whole.parts[0], "".join(whole.parts[1:2])), ("".join(whole.parts), "")}:
            begins[beginning].append(whole)
    while start < len(words):
        found = []
        if lowered[start] in firsts:
            second = next((lowered[at] for at in range(start + 1, len(words)) if lowered[at] not in _JOINTS), "")
            some = (begins.get((lowered[start], key), ()) for key in {"", second})
            found = [(whole.end_in(words, lowered, start), whole) for whole in chain.from_iterable(some)]
        end, longest = max(found, default=(0, None))
        if longest is None or not end:
            read.append(words[start])
            start += 1
            continue
        read.append(longest.text)
        apart += longest.apart
        is_dotted = longest.text[-1] == "." and words[end : end + 1] == ["."] and end + 1 < len(words)
        start = end + (is_dotted and not end_sentence(longest.text, words[end + 1]))
    return read + apart


def wholes_in(text: str, wholes: Wholes) -> Wholes:
    """Those of an answer's whole words whose parts a text has somewhere."""
    lowered = text.lower() if wholes else ""
    return tuple([whole for whole in wholes if all(part in lowered for part in whole.parts)])


_BREAKS = frozenset(["but", "however", "although", "though", "while", "whereas", "yet", "despite", ";"])
_SUBJECTS = word_set("the it they there customers he she we this its their")
_SUBJECTS_OR_VERBS = _SUBJECTS | word_set(
    "has have is are does do offers offer provides provide takes accepts features"
)
_BEGINS_BEHIND = {",": _SUBJECTS, "and": _SUBJECTS_OR_VERBS}
DENIALS = NEGATIONS | word_set("unavailable absent absence closed cannot except excluding lacking limited")
_DENYING = DENIALS | word_set(
    "avoid avoids avoided denied denies deny doubt doubted doubts exempt fail failed fails hardly lacked nobody "
    "non nothing rarely refuse refused refuses refusing seldom stop stopped unclear unlikely"
)
_CONTRACTED = ("n't", "n’t")
_MAY_DENY = _DENYING | {"free"}
_NOT_DENIED = word_set("earlier fewer just later less matter merely more only other")
"""After "no" and "not": words that they do not deny anything with."""
_BEYOND = word_set(", ; : ( ) although as because but except if since so though unless whereas while")
_DENIED_WORDS = 3
"""How many words that carry content a negation before them reaches, up to a word or mark of ``_BEYOND``."""


def negated_words(lowered: Sequence[str]) -> list[bool]:
    """Whether each word of a text stands behind a negation that reaches it."""
    negated, reach = [], 0
    if _MAY_DENY.isdisjoint(lowered) and not any(word.endswith(_CONTRACTED) for word in lowered):
        return [False] * len(lowered)
    for word, following in zip(lowered, [*lowered[1:], ""], strict=True):
        negated.append(reach > 0)
        if _denies(word, following):
            reach = _DENIED_WORDS
        elif word in _BEYOND:
            reach = 0
        elif reach and carries_content(word):
            reach -= 1
    return negated


def lowered_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words and marks of a text in lower case; that of "bay No. 5" or "bay No 5" denies nothing, and is "no."."""
    lowered = [*map(str.lower, words)]
    for at, word in enumerate(lowered):
        if word == "no" and any(number[:1].isdigit() for number in lowered[at + 1 : at + 3]):
            is_dotted = lowered[at + 1] == "."
            is_label = is_dotted or (at > 0 and words[at - 1].isalnum() and words[at] == "No")
            if is_label and lowered[at + 1 + is_dotted][:1].isdigit():
                lowered[at] = "no."
    return tuple(lowered)


_NEGATION = r"(?:not|no|never|cannot|without|nothing|\S*n['’]t)\b"
_LIMITS = [
    (re.compile(plain), re.compile(rf"\b{_NEGATION}{denied}\b"))
    for plain, denied in (
        (
            r"\b(?:up to|at most|maximum of|max of)\b",
            r"(?: \S+){0,4}? (?:exceed\w*|(?:more|\w{3,}er) than|(?:over|above) \d+)",
        ),
        (r"\bonly\b", r"(?: \S+){0,30}? (?:unless|except)"),
        (r"\bfree\b(?! of (?!charge))", r"(?: \S+){0,3}? (?:fees?|costs?|charges?|charged)"),
    )
]
"""How a limit is set without a negation, and how with one."""


def set_same_limit(lowered: Sequence[str], other: Sequence[str]) -> bool:
    """Whether of two texts one says with a negation what the other says without: "not over 9" is "up to 9"."""
    texts = " ".join(lowered), " ".join(other)
    return any(
        plain.search(one) and denied.search(two) and not plain.search(two)
        for plain, denied in _LIMITS
        for one, two in (texts, texts[::-1])
    )


def _denies(word: str, following: str) -> bool:
    if word in ("no", "not"):
        return following not in _NOT_DENIED
    if word == "free":
        return following in ("of", "from")
    return word in _DENYING or word.endswith(_CONTRACTED)


def _respelled(
    answer: str, words: Sequence[CharRange], spellings: Mapping[int, str]
) -> tuple[str, Sequence[CharRange]]:
    if not spellings:
        return answer, words
    text, ranges, end = "", list[CharRange](), 0
    for word, chars in enumerate(words):
        text += answer[end : chars.char_start]
        ranges.append(CharRange(len(text), len(text) + len(spellings.get(word) or chars.of(answer))))
        text += spellings.get(word) or chars.of(answer)
        end = chars.char_end
    return text + answer[end:], ranges


class AnswerWords:
    """One parsed answer.

    Attributes:
        text, ranges: the answer as it is read, and where each word stands there; ``answer`` is as it was given.
        texts, lowered, stems: each word as it is read, in lower case, and its stem.
        states: whether each word may state something: "According to the passage," leads what is stated.
        content: whether each word carries content and may state something.
        bounds: half-open word ranges of the sentences.
        sentences: the sentence that each word stands in.
        clauses: the words of each clause: those whose closest predicate is the same.
        clause_of: the clause that each word belongs to.
        heads: the head of each word, with conjuncts on the first conjunct.
        is_word: False for marks.
        wholes: its words with marks in them, which passages are read with as one word, too.
    """

    def __init__(
        self,
        parsed: ParsedAnswer,
        answer: str,
        kinds: Sequence[ClaimKind],
        spellings: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """``spellings`` has the words that are read as others; "" for one that is not read."""
        self.parsed, self.answer = parsed, answer
        self.text, self.ranges = _respelled(answer, parsed.words, spellings)
        self.texts = [chars.of(self.text) for chars in self.ranges]
        self.lowered = [*lowered_words(self.texts)]
        self.stems = [stem(text) for text in self.texts]
        self.is_word = [text.isalnum() or any(map(str.isalnum, text)) for text in self.texts]
        wholes = {text: parts for text in self.texts if (parts := word_parts(text))}
        apart = frozenset(self.lowered if wholes else ())
        self.wholes = tuple(
            [WholeWord(text, parts, (*filter(apart.__contains__, parts),)) for text, parts in wholes.items()]
        )
        self.states = [kind is not ClaimKind.DISCOURSE and spellings.get(word) != "" for word, kind in enumerate(kinds)]
        self.content = [*map(and_, map(carries_content, self.texts), self.states)]
        self.bounds = sentence_bounds(parsed)
        self.sentences, self.clause_of = [0] * len(self.texts), [0] * len(self.texts)
        self.heads = list(range(len(self.texts)))
        clauses: dict[tuple[int, int | None], list[int]] = {}
        for sentence, (start, end) in enumerate(self.bounds):
            tree = sentence_tree(parsed, start, end)
            for word in range(start, end):
                self.sentences[word] = sentence
                self.heads[word] = tree.heads[word - start] + start
                clauses.setdefault((sentence, tree.closest_predicate(word - start)), []).append(word)
        self.clauses = list(clauses.values())
        for index, words in enumerate(self.clauses):
            for word in words:
                self.clause_of[word] = index

    def __len__(self) -> int:
        return len(self.texts)

    def content_head(self, word: int) -> int | None:
        """The closest ancestor that carries content, None if there is none."""
        head = self.heads[word]
        while not self.content[head] and self.heads[head] != head:
            head = self.heads[head]
        return head if head != word and self.content[head] else None

    def denied_words(self) -> list[bool]:
        """Whether each word stands in a part of a sentence that denies something.

        A part ends at a conjunction of contrast, and before a new subject or verb after a comma or "and".
        """
        part, parts = 0, [0] * len(self.texts)
        for start, end in self.bounds:
            part += 1
            for word, following in zip(range(start, end), [*self.lowered[start + 1 : end], ""], strict=True):
                text = self.lowered[word]
                part += text in _BREAKS or following in _BEGINS_BEHIND.get(text, ())
                parts[word] = part
        denying = {part for part, text in zip(parts, self.lowered, strict=True) if text in DENIALS}
        return [part in denying for part in parts]


_UNSEEN, _FILLER = ("&", "\\u", "\u00ad", "-\n", "-\r", "- ", "-\t"), "\u2060"
_WITHOUT_BLANKS = re.compile(rf"[^\s{_FILLER}](?:.*[^\s{_FILLER}])?", re.DOTALL)
_WRITTEN_OTHERWISE = re.compile(
    r"&(?:amp;)*(?:[a-zA-Z][a-zA-Z0-9]{1,30}|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});|(?<!\\)(?:\\u[0-9a-fA-F]{4})+"
    r"|(?:(?<=[^\W\d_])-|\u00ad)(?:[ \t]*\r?\n[ \t]*|[ \t]+)(?=[^\W_])"
)
_LETTERS_BEFORE, _LETTERS, _LONGEST_PART = re.compile(r"[^\W\d_]*\Z"), re.compile(r"[^\W_]*"), 40
_NO_TEXT, _NO_TEXT_IN_JSON = re.compile(r"[\ud800-\udfff]"), re.compile(r"[\ud800-\udfff\"\\\x00-\x1f]")


def as_seen(text: str, answer: str) -> str:
    """A passage's title or text as its reader sees it, for this answer: as long, with invisible code points between.

    Read are character references ("&eacute;"), escapes ("\\u00e9"), and words that are hyphenated at the end of a
    line. Such a hyphen stays before a capital letter or digit, and where the answer has it, or a blank there. One
    before a blank goes only where the answer has the word without it. JSON stays JSON.
    """
    if not any(sign in text for sign in _UNSEEN):
        return text
    lowered, kept = answer.lower(), _NO_TEXT if _json_document(text) is None else _NO_TEXT_IN_JSON

    def seen(match: re.Match[str]) -> str:
        written = match.group()
        if written[0] == "&":
            read = unescape(unescape(written))
            read = written if ";" in read else read  # more than a reference is none
        elif written[0] == "\\":
            read = str(json.loads(f'"{written}"'))
        else:
            read = _unhyphenated(match, lowered)
        is_seen = len(read) <= len(written) and not kept.search(read)
        return read.ljust(len(written), _FILLER) if is_seen else written

    return _WRITTEN_OTHERWISE.sub(seen, text)


def _unhyphenated(match: re.Match[str], answer: str) -> str:
    text, start, written = match.string, match.start(), match.group()
    left = _LETTERS_BEFORE.findall(text, max(start - _LONGEST_PART, 0), start)[0]
    right = _LETTERS.findall(text, match.end(), match.end() + _LONGEST_PART)[0]
    is_broken = "\n" in written
    if (left + right).lower() in answer or (is_broken and written[0] != "-"):
        return ""
    if not is_broken:
        return written
    is_kept = not right[0].islower() and not (left.isupper() and right.isupper())
    return "-" if is_kept or any(f"{left}{joint}{right}".lower() in answer for joint in "- ") else ""


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_NAMES_OF_A_PATH, _LONGEST_KEY = 3, 60
_FIELD = re.compile(r"^([^:\n]{1,60}): (.*)$")
_KEY_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_GENERAL_KEY_WORDS = FUNCTION_WORDS - {"out", "up", "off"} | {"restaurants", "business", "good", "attributes"}


class Truth(IntEnum):
    """What the value of a field says."""

    OTHER = 0
    YES = 1
    NO = 2
    ABSENT = 3
    """The value is null: the record does not say."""


_TRUTHS = {
    "true": Truth.YES, "yes": Truth.YES, "free": Truth.YES, "paid": Truth.YES,
    "false": Truth.NO, "no": Truth.NO, "none": Truth.NO,
    "null": Truth.ABSENT, "": Truth.ABSENT,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One line of a passage; ``key`` is None for plain text, ``text`` holds the key too, its words apart."""

    text: str
    key: str | None
    value: str
    truth: Truth

    @property
    def key_words(self) -> list[str]:
        """The words of the key's last part that say something: "RestaurantsTakeOut" is take, out."""
        parts = (self.key or "").split()
        words = [word.lower() for word in _KEY_WORD.findall(parts[-1])] if parts else []
        return [word for word in words if word not in _GENERAL_KEY_WORDS]

    @property
    def joined_names(self) -> list[str]:
        """The last part of the key as one word where it is written as several: "TakeOut" is also "takeout"."""
        words = self.key_words
        return ["".join(words)] if len(words) > 1 else []


def record_lines(text: str) -> Iterator[RecordLine]:
    """The lines of a passage; those of JSON are its fields, and another row of a table is one, and no field."""
    document = _json_document(text)
    yield from map(_record_line, _lines(text) if document is None else _flat_lines(document, with_rows=False))


def _record_line(line: _Line) -> RecordLine:
    shown = visible(line.text) or line.text
    match = None if line.is_row else _FIELD.match(shown)
    if match is None:
        return RecordLine(shown, None, shown, Truth.OTHER)
    key, value = match.group(1), match.group(2).strip()
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key)
    return RecordLine(f"{spread}: {value}", key, value, _TRUTHS.get(value.lower().strip('"'), Truth.OTHER))


class _Line(NamedTuple):
    """A line that is not blank, where it begins and ends in its text, and whether it is a row of a table."""

    start: int
    end: int
    text: str
    is_row: bool = False


_BLOCK_TAGS = (
    "article|aside|blockquote|br|caption|d[dlt]|div|footer|h[1-6r]|header|li|main|nav|[ou]l|p|pre|section|table|tbody"
    "|tfoot|thead|tr"
)
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|cite|code|em|font|i|img|mark|q|s|small|span|strong|su[bp]|(?P<cell>t[dh])|u)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_LINE_END = re.compile(rf"\n|</?(?:{_BLOCK_TAGS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_JSON_OBJECT = re.compile(r"(?:^|[\[,])[ \t]*(?P<object>\{[^{}]*\})(?=[ \t]*(?:[\],]|$))", re.MULTILINE)
"""An object without others in it, which stands in a list, or alone in its lines."""
_LONGEST_CELL = 20
"""The most words of a value in a list of objects that is read as a table; a list of reviews has longer ones."""


@remembered
def _lines(text: str) -> tuple[_Line, ...]:
    """The lines of a text, which tags of HTML blocks end, too; JSON is read as the lines ``path of names: value``.

    Rows of tables and the objects in a list of JSON are one line each, as "head: cell, head: cell.". Lines of a text
    that is JSON as a whole stand at -1; those of other texts have invisible code points instead of HTML tags.
    """
    document = _json_document(text)
    if document is not None:
        return (*_flat_lines(document),)
    seen, lines, start = _INLINE_TAG.sub(_hidden_tag, text) if "<" in text else text, list[_Line](), 0
    for row in sorted((*_json_rows(text), *_table_rows(text, seen))):
        if row.start >= start:
            lines += (*_lines_between(seen, start, row.start), row)
            start = row.end
    return (*lines, *_lines_between(seen, start, len(text)))


def _hidden_tag(tag: re.Match[str]) -> str:
    return (" " if tag["cell"] else "").ljust(len(tag[0]), _FILLER)


def _lines_between(text: str, start: int, end: int) -> Iterator[_Line]:
    ends = [match.span() for match in _LINE_END.finditer(text, start, end)]
    for (_, first), (last, _) in pairwise(((start, start), *ends, (end, end))):
        if _WITHOUT_BLANKS.search(text, first, last):
            yield _Line(first, last, text[first:last])


def _json_rows(text: str) -> Iterator[_Line]:
    for match in _JSON_OBJECT.finditer(text) if "{" in text else ():
        if row := _row_text(_json_document(match["object"])):
            yield _Line(*match.span("object"), row, is_row=True)


def _table_rows(text: str, seen: str) -> Iterator[_Line]:
    """The rows of tables with heads; ``seen`` is the text without HTML."""
    if "<th" not in text.lower() and text.count("|") + text.count("\t") < _FEWEST_SIGNS:
        return
    table, heads = structured_text(text), list[CharRange]()
    for row in table.rows:
        first = bisect_left(table.parts, row.char_start, key=lambda part: part.char_start)
        last = bisect_left(table.parts, row.char_end, key=lambda part: part.char_start)
        cells = [*table.parts[first:last]]
        if all(kind is ClaimKind.HEADING for kind in table.kinds[first:last]):
            heads = cells
        elif len(cells) > 1 and len(cells) == len(heads) and heads[-1] in table.labels[last - 1]:
            named = (f"{head.of(seen).strip()}: {cell.of(seen)}" for head, cell in zip(heads, cells, strict=True))
            yield _Line(row.char_start, row.char_end, ", ".join(named) + ".", is_row=True)


def _json_document(text: str) -> object:
    """What a text says that is JSON as a whole, None for one that is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _flat_lines(document: object, *, with_rows: bool = True) -> Iterator[_Line]:
    """One line per value, in their order, after the last three of the names on the way to it.

    The objects of a list are one line each, if they may be rows of a table.
    """
    left: list[tuple[object, tuple[str, ...]]] = [(document, ())]
    while left:
        value, path = left.pop()
        names = " ".join(path)[-_LONGEST_KEY:]
        if isinstance(value, dict):
            named = ((" ".join(str(name).split()), inner) for name, inner in value.items())
            left += [(inner, (*path, name)[-_NAMES_OF_A_PATH:]) for name, inner in reversed([*named])]
        elif isinstance(value, list):
            rows = [*map(_row_text, value)] if with_rows else []
            if len(rows) > 1 and all(rows):
                yield from (_Line(-1, -1, f"{names}: {row}" if path else row, is_row=True) for row in rows)
            else:
                left += [(inner, path) for inner in reversed(value)]
        else:
            text = _json_value(value)
            written = f"{names}: {text}" if path else text
            yield from (_Line(-1, -1, line) for line in written.split("\n") if line.strip())


def _row_text(record: object) -> str:
    """An object of JSON as a row, empty for one with one value or with long or nested ones."""
    if (
        not isinstance(record, dict)
        or len(record) < 2
        or any(isinstance(value, dict | list) for value in record.values())
    ):
        return ""
    cells = [(name, _json_value(value).split()) for name, value in record.items()]
    if any(len(words) > _LONGEST_CELL for _, words in cells):
        return ""
    return ", ".join(f"{name}: {' '.join(words)}" for name, words in cells) + "."


def _json_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_FIELD_SHARE, _FIELD_WORDS = 0.5, 0.25
"""The least shares of the lines of a record that are fields, and of its words that stand in them: a review in a record
may have more lines than its other fields, but a page with a header such as "Date: 2020" is no record."""
_LONGEST_FIELD = 5
"""The most words that half of the fields of a record may exceed; a paragraph that begins "Note: ..." is longer."""
_QUESTION_END = re.compile(r"[.?!]+(?=\s)")
_ASKS_OF_SOMETHING = re.compile(
    r"\W*(?:who|whose|which|when|where|why|how (?:do|does|did|to)|what (?:do|does|did)|is|are|was|were|do|does|did)\b",
    re.IGNORECASE,
)
"""How a sentence begins that asks for a fact, even where it speaks of summaries: "How do I write an abstract?"."""
_ASKS_FOR_A_SUMMARY = re.compile(
    r"\bsummari[sz](?:e|es|ing|ation)\b|\bsum (?:\w+ )?up\b|\btl;?dr\b|\bcondense\b"
    r"|^\W*(?:(?:a|an|the|short|brief|concise|quick) )*(?:summary|synopsis|abstract)\b"
    r"|\b(?:give|write|provide|create|make|draft|produce|generate|need|want|get)\b.{0,40}\b(?:summary|synopsis|abstract)\b",
    re.IGNORECASE | re.DOTALL,
)


class RowKind(StrEnum):
    """The kinds, by the names that a verdict's file has for them."""

    QUESTION = "questions"
    SUMMARY = "summaries"
    RECORD = "records"


def row_kind(question: str, lines: Sequence[RecordLine]) -> RowKind:
    """The kind of a row with this question, and these ``lines`` of its passages' texts.

    It is a record if at least half of the lines are fields, these hold at least a quarter of the words, and half of
    them are short; else a summary if nothing is asked, or a summary is asked for in English. Titles do not count: many
    look like a field ("Museum: ground floor").
    """
    fields = [line for line in lines if line.key is not None]
    if fields and len(fields) >= _FIELD_SHARE * len(lines):
        field_words, all_words = (sum(len(line.text.split()) for line in some) for some in (fields, lines))
        length = median(len(line.value.split()) for line in fields)
        if field_words >= _FIELD_WORDS * all_words and length <= _LONGEST_FIELD:
            return RowKind.RECORD
    is_summary = not question.strip() or any(
        _ASKS_FOR_A_SUMMARY.search(sentence) and not _ASKS_OF_SOMETHING.match(sentence)
        for sentence in _QUESTION_END.split(question)
    )
    return RowKind.SUMMARY if is_summary else RowKind.QUESTION


_SENTENCE_END = re.compile(rf"""[.!?](?=$|[ \t"'”’)\]{_FILLER}])""")
_WORD_BEHIND = re.compile(rf"""[\s"'”’)\]{_FILLER}]*(\w+)""")
_FEWEST_SIGNS = 3
"""The fewest bars or tabs of a table of two rows."""
_INITIALS, LONGEST_TITLE = re.compile(r"(?:[^\W\d_]\.)+"), 12
_LETTERED = word_set(
    "annex appendix bay block building category class column deck exhibit figure gate grade group hall hepatitis level"
    " option pier plan platform room row section sector stage stand table terminal tier type unit variant vitamin ward"
    " wing zone"
)
_CLAUSE_BREAKS = frozenset([",", ";", ":", "and", "but", "while", "whereas", "which", "although", "–", "—"])
_PRONOUNS = frozenset(["he", "she", "it", "they", "his", "her", "its", "their", "this", "these", "those", "that"])


class Sentence(NamedTuple):
    """One sentence; ``start`` and ``end`` lie in its title or text, and are -1 in JSON, read field by field.

    ``text`` is without what no reader sees, ``line`` its line among those that are not blank, and ``clauses`` has the
    first word and the end of each clause. A row of a table ``is_row``: it is read with the heads of its columns, and
    the rows beside it say nothing of it.
    """

    text: str
    start: int
    end: int
    line: int
    words: tuple[str, ...]
    lowered: tuple[str, ...]
    stems: tuple[str, ...]
    clauses: tuple[tuple[int, int], ...]
    is_row: bool = False

    def has_name(self, start: int, end: int) -> bool:
        """Whether one of these words has a capital first letter."""
        words = self.words[start:end]
        return words != self.lowered[start:end] and any(word[0].isupper() for word in words)


class PassageSentences:
    """The sentences of one row's passages, titles included, in their order.

    ``ranges`` has for each passage those of its title, and those of its text.
    """

    def __init__(self, passages: Sequence[Passage], wholes: Wholes = ()) -> None:
        """``wholes`` are the whole words of the answer."""
        self.all: list[Sentence] = []
        self.ranges: list[tuple[range, range]] = []
        self._passage_of: list[int] = []
        for index, passage in enumerate(passages):
            start = len(self.all)
            self.all += read_sentences(passage.title or "", wholes_in(passage.title or "", wholes))
            border = len(self.all)
            self.all += read_sentences(passage.text, wholes_in(passage.text, wholes))
            self.ranges.append((range(start, border), range(border, len(self.all))))
            self._passage_of += [index] * (len(self.all) - start)
        self._contents: dict[tuple[int, ...], PassageContent] = {}
        self._wholes = wholes
        self._ends = [sentence.end for sentence in self.all]

    def __len__(self) -> int:
        return len(self.all)

    def passage_of(self, index: int) -> int:
        """The index of the passage of a sentence."""
        return self._passage_of[index]

    def titles_of(self, index: int) -> range:
        """The sentences of the title over a sentence of a text."""
        title, text = self.ranges[self._passage_of[index]]
        return title if index in text else range(0)

    def carried(self) -> list[int]:
        """The sentences whose pronoun at the beginning refers to the one before, in the same passage; ascending."""
        return [
            index
            for index, (before, passage) in enumerate(pairwise(self._passage_of), 1)
            if before == passage and not _PRONOUNS.isdisjoint(self.all[index].lowered[:2])
        ]

    def window(self, index: int) -> list[int]:
        """A sentence with its neighbours in the same text, and the title, ascending; a row stands alone."""
        title, text = self.ranges[self._passage_of[index]]
        part = text if index in text else title
        near = 0 if self.all[index].is_row else 1
        return [*self.titles_of(index), *range(max(index - near, part.start), min(index + near + 1, part.stop))]

    def content_of(self, indices: Sequence[int]) -> PassageContent:
        """What these sentences say, in the form in which values are compared."""
        key = tuple(indices)
        if key not in self._contents:
            self._contents[key] = PassageContent(Passage(" ".join(self.all[index].text for index in indices)))
        return self._contents[key]

    def attention(self, evidence: SpanEvidence) -> list[float]:
        """For each sentence the scores of the evidence, spread over the sentences that it overlaps."""
        scores = [0.0] * len(self.all)
        for piece in evidence.evidence:
            shared = self._shared(piece)
            total = sum(shared.values())
            score = float(np.float32(piece.score))  # as it is written
            for index, count in shared.items():
                scores[index] += score * count / total
        return scores

    def _shared(self, piece: EvidencePiece) -> dict[int, int]:
        """How many code points of the piece each sentence has, or in JSON, how many of its stems."""
        title, text = self.ranges[piece.passage_index]
        part = title if piece.in_title else text
        if part and self.all[part.start].start < 0:
            stems = {stem(word) for word in words_and_marks(piece.text, self._wholes)}
            counts = ((index, len(stems.intersection(self.all[index].stems))) for index in part)
            return {index: count for index, count in counts if count}
        start, end = piece.chars.char_start, piece.chars.char_end
        shared = {}
        for index in range(bisect_right(self._ends, start, part.start, part.stop), part.stop):
            sentence = self.all[index]
            if sentence.start >= end:
                break
            shared[index] = min(end, sentence.end) - max(start, sentence.start)
        return shared


@remembered
def read_sentences(text: str, wholes: Wholes = ()) -> tuple[Sentence, ...]:
    """The sentences of a title or text; the first of a field in JSON has its name as one word, too, for its value.

    ``wholes`` are the whole words of the answer that it has.
    """
    _sentence = partial(_sentence_of, wholes)
    sentences: list[Sentence] = []
    for number, line in enumerate(_lines(text)):
        if line.is_row:
            row = _sentence(line.text, number, line.start, breaks=frozenset())
            sentences.append(row._replace(end=line.end, is_row=True))
        elif line.start < 0:
            field = _record_line(line)
            (_, first), *others = [*_texts_of_sentences(field.text)] or [(0, field.text)]
            sentences.append(_sentence(first, number, -1, also=field.joined_names, breaks=_CLAUSE_BREAKS - {":"}))
            sentences += (_sentence(sentence, number, -1) for _, sentence in others)
        else:
            parts = _texts_of_sentences(line.text)
            sentences += (_sentence(sentence, number, line.start + start) for start, sentence in parts)
    return tuple(sentences)


def end_sentence(word: str, following: str, before: str = "") -> bool:
    """Whether a word with a mark at its end ends a sentence before another word: titles do not ("Dr."), nor "e.g.".

    Initials do ("J.", "U.S.", "p.m.") before "The" and the like, small ones before any capital letter, and so does the
    letter of what is named by one: "hall B.", with "hall" ``before`` it.
    """
    lowered = word.lower()
    if not may_end_sentence(lowered, following) or word == "v.":
        return False
    if not _INITIALS.fullmatch(word):
        return True
    begins = len(following) > 1 and following.lower() in FUNCTION_WORDS
    return following[:1].isupper() and (begins or word == lowered or before in _LETTERED)


def _texts_of_sentences(line: str) -> Iterator[tuple[int, str]]:
    """Where each sentence of a line begins, and its text."""
    ends = (match.end() for match in _SENTENCE_END.finditer(line) if _is_end(line, match.end()))
    for start, end in pairwise((0, *ends, len(line))):
        if text := _WITHOUT_BLANKS.search(line, start, end):
            yield text.start(), text.group()


def _is_end(line: str, end: int) -> bool:
    before, word = ["", *line[max(end - 2 * LONGEST_TITLE, 0) : end].split()][-2:]
    behind = _WORD_BEHIND.match(line, end)
    return end_sentence(word.lstrip(OPENING), behind[1] if behind else "", before.lower())


def _sentence_of(
    wholes: Wholes,
    text: str,
    line: int,
    start: int,
    *,
    also: Sequence[str] = (),
    breaks: frozenset[str] = _CLAUSE_BREAKS,
) -> Sentence:
    """A sentence that begins at ``start``, -1 in JSON; ``also`` are words besides. One without any is a word itself."""
    seen = visible(text)
    words = (*words_and_marks(seen, wholes), *also) or (text,)
    lowered = lowered_words(words)
    bounds = [0, *[index for index, word in enumerate(lowered) if word in breaks], len(words)]
    clauses = tuple([words for words in pairwise(bounds) if words[1] - words[0] > 1])
    end = -1 if start < 0 else start + len(text)
    return Sentence(seen, start, end, line, words, lowered, tuple(map(stem, words)), clauses)
