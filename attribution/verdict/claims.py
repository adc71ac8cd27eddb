"""What in an answer is a claim: the kind of each word, and which target spans are claims or belong to another's.

A fact is a claim. A mention states nothing by itself: it belongs to the claim of the fact around it. Of a language that
is not read, scripts are counted first. Latin text is told apart by function words, and by py3langid where these do not
speak clearly: English with a name or a quotation has the function words of both.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from attribeam.attribution.answers.citation_pointers import named_ids, reference_ranges
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
from attribeam.attribution.answers.parsed_answer import (
    ParsedAnswer,
    base_label,
    has_letter_or_digit,
    label_scheme,
    sentence_bounds,
    words_in,
)
from attribeam.attribution.answers.target_spans import (
    ASKING,
    is_content_word,
    label_words,
    last_statement,
    words_range,
)
from attribeam.attribution.verdict import phrases
from attribeam.attribution.verdict.texts import word_set
from attribeam.schemas import AnswerKind, CharRange, ClaimKind, Passage, QARecord, SpanKind, TargetSpan

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_ENGLISH = word_set(
    "the of and with not this from were which they their you your its would there been who what when more than these"
    " other into out about how she our some does should used only such before first after them is are was that"
    " it"
)
"""Function words that tell English, since they are rare in other languages."""
_LATIN_LANGUAGES = word_set(
    "af az br bs ca cs cy da de en es et eu fi fr fy ga gl hr ht hu id is it la lb lt lv ms mt nl no oc pl pt ro sk sl"
    " so sq sv sw tl tr uz vi"
)
_LATIN, _HAN = "LATIN", "CJK"
_FEWEST_WORDS, _FEWEST_IN_LOWER_CASE, _FEWEST_THAT_TELL = 8, 3, 5
_FEWEST_LETTERS, _FEWEST_LETTERS_IN_SCRIPT = 4, 20
_ENGLISH_SHARE, _MOST_OF_ENGLISH = 0.08, 0.05
_MOST_OF_A_PASSAGE, _MOST_OF_PASSAGES = 500, 3000
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_RUNNING = re.compile(r"(?<=[^\W\d_] )(?=[^\W\d_])\w+")
"""A word behind another: those of running text are; units and the words of tables stand behind numbers and marks."""


def unread_ranges(parsed: ParsedAnswer, record: QARecord) -> tuple[CharRange, ...]:
    """The blocks of an answer, without its citation marks, that cannot be judged, ascending.

    That is the whole answer where most of the passages are in a language that is not read: its words cannot be compared
    with theirs; of records, whose words are few but for names, question and answer help to tell. Else it is every block
    in such a language. English is read; with a parser for Chinese, Han characters as well. A block with few words goes
    with the answer as a whole, so a name or a quotation stays where it is, and an answer with few words goes with its
    question: nothing tells the language of "Um neun." by itself.
    """
    scripts = {_LATIN, _HAN} if "chinese" in parsed.label_scheme else {_LATIN}
    answer = hide_ranges(record.answer, parsed.marked)
    passages = "\n".join(passage.text[:_MOST_OF_A_PASSAGE] for passage in record.passages)[:_MOST_OF_PASSAGES]
    tells = _is_long(passages) and _has_in_lower_case(passages, _FEWEST_THAT_TELL, _RUNNING)
    telling = passages if tells else f"{record.question} {answer} {passages}"
    if _is_in_other_script(passages, scripts) or _is_foreign_latin(telling):
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


def _is_short_foreign(answer: str, question: str, passages: str) -> bool:
    """Whether an answer of a few words to passages that are read is foreign, by itself or with its question.

    It is not if most of its longer words are of the passages: a name or a term that is wrong is to be judged. One
    English word of the question may be one of another language, too ("Was kostet es?").
    """
    asked = {word.lower() for word in _WORD.findall(question)}
    with_question = "" if len(asked & _ENGLISH) > 1 else question
    if not _is_foreign_latin(answer) and not _is_foreign_latin(f"{with_question} {answer}"):
        return False
    known = {word.lower() for word in _WORD.findall(passages)}
    long = [word.lower() for word in _WORD.findall(answer) if len(word) >= _FEWEST_LETTERS]
    return 2 * sum(word in known for word in long) < len(long)


def _is_long(text: str) -> bool:
    return next(islice(_WORD.finditer(text), _FEWEST_WORDS - 1, None), None) is not None


def _has_in_lower_case(text: str, count: int, pattern: re.Pattern[str] = _WORD) -> bool:
    """Whether a text has ``count`` different words in lower case, as a pattern finds words."""
    found = set[str]()
    for word in pattern.finditer(text):
        if word[0].islower():
            found.add(word[0])
            if len(found) == count:
                return True
    return False


def _is_in_other_script(text: str, scripts: Collection[str]) -> bool:
    """True where most letters are of none of the scripts."""
    beyond = Counter(_script_of(character) for character in _BEYOND_ASCII.findall(text) if character.isalpha())
    foreign = sum(count for script, count in beyond.items() if script not in scripts)
    return bool(foreign) and 2 * foreign > sum(map(str.isalpha, text))


@lru_cache(maxsize=256)
def _is_foreign_latin(text: str) -> bool:
    """True for a text in Latin letters with next to no function words of English, if py3langid agrees.

    Only words in lower case tell a language: names are the same in all.
    """
    words = _WORD.findall(text)
    if sum(map(_ENGLISH.__contains__, map(str.lower, words))) > _ENGLISH_SHARE * len(words):
        return False
    if not _has_in_lower_case(text, _FEWEST_IN_LOWER_CASE):
        return False
    plain = [word for word in words if word.islower()]
    return float(dict(_identifier().rank(" ".join(plain)))["en"]) <= _MOST_OF_ENGLISH


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    """py3langid with the languages that are written in Latin letters; it takes 0.6 s to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(_LATIN_LANGUAGES)
    return identifier


@lru_cache(maxsize=8192)
def _script_of(character: str) -> str:
    """The first word of a letter's Unicode name, which names its script: "LATIN", "HEBREW", "CJK", "HIRAGANA"."""
    name = unicodedata.name(unicodedata.normalize("NFKC", character)[:1] or character, "")
    return _LATIN if name.startswith(("MODIFIER", "FEMININE", "MASCULINE", "MICRO")) else name.split(" ", 1)[0]


@dataclass(frozen=True, slots=True)
class WordKinds:
    """The kind of each word of an answer, and the ranges in which the answer refuses, ascending."""

    kinds: tuple[ClaimKind, ...]
    refused: tuple[CharRange, ...]


def word_kinds(parsed: ParsedAnswer, record: QARecord, *, assume_language: bool = False) -> WordKinds:
    """Decide what each word of the record's answer is.

    With ``assume_language``, everything counts as a language that is read.
    """
    answer, everything = record.answer, range(len(parsed.words))
    text, unmarked = hide_markup(answer, parsed.marked), hide_ranges(answer, parsed.marked)
    if parsed.words and phrases.is_bare_refusal(text):
        return WordKinds((ClaimKind.REFUSAL,) * len(everything), (words_range(parsed, everything),))
    if phrases.is_yes_or_no(text):
        return WordKinds((ClaimKind.DISCOURSE,) * len(everything), ())
    references = reference_ranges(answer, record.passages)
    named = (reference.chars for reference in named_ids(answer, record.passages))
    ids = [chars for chars in named if not range_overlapping(chars, parsed.marked)]
    long = sorted(mark for mark in {*parsed.marked, *ids} if mark.char_end - mark.char_start > 2)
    cited = replace_ranges(answer, long, ["[1]".ljust(mark.char_end - mark.char_start) for mark in long])
    headings = _heading_lines(unmarked)
    nesting = [CharRange(*match.span()) for match in _NESTING_ITEM.finditer(unmarked)]
    kinds, refused = [ClaimKind.CLAIM for _ in everything], list[CharRange]()
    label_ranges = label_words(parsed, answer)
    labels = {label.start: label.stop for label in label_ranges if label.stop < len(everything)}
    for start, end in sentence_bounds(parsed):
        chars = CharRange(parsed.words[start].char_start, parsed.words[end - 1].char_end)
        tags = parsed.universal_tags[start:end]
        opened = _last_statement(parsed, start, end, text) - chars.char_start
        regions = [*_sentence_regions(tags, chars.of(text), chars.of(cited), opened, record.passages)]
        if start in labels:
            behind = parsed.words[labels[start]].char_start - chars.char_start
            openings = phrases.openings(chars.of(text)[behind:])
            regions += [((behind + first, behind + last), ClaimKind.DISCOURSE) for first, last in openings]
        for (first, last), kind in regions:
            region = CharRange(chars.char_start + first, chars.char_start + last)
            for word in _words_beginning_in(parsed, region, range(start, end)):
                kinds[word] = kind
            if kind is ClaimKind.REFUSAL:
                refused.append(region)
        is_item = range_overlapping(chars, nesting) and not _has_verb(tags)
        if is_item or (range_overlapping(chars, headings) and not _states(parsed, range(start, end), chars.of(text))):
            kinds[start:end] = [ClaimKind.HEADING] * (end - start)
    structure = structured_text(answer)
    for part, kind in zip(structure.parts, structure.kinds, strict=True):
        for word in _words_beginning_in(parsed, part, everything) if kind is not ClaimKind.CLAIM else ():
            kinds[word] = kind
    for label in label_ranges:
        kinds[label.start : label.stop] = [ClaimKind.HEADING] * len(label)
    for kind, ranges in (
        (ClaimKind.DISCOURSE, references),
        (ClaimKind.LANGUAGE, () if assume_language else unread_ranges(parsed, record)),
        (ClaimKind.CODE, _code(parsed, answer)),
    ):
        for word in (word for region in ranges for word in _words_beginning_in(parsed, region, everything)):
            if kind is not ClaimKind.DISCOURSE or kinds[word] is ClaimKind.CLAIM:
                kinds[word] = kind
    return WordKinds(tuple(kinds), tuple(refused))


def _sentence_regions(
    tags: Sequence[str], sentence: str, cited: str, opened: int, passages: Sequence[Passage]
) -> Iterator[tuple[phrases.Span, ClaimKind]]:
    """Regions of one sentence, the weightiest kind last.

    ``tags`` are those of its words, ``cited`` is the sentence with its markup and each citation mark of three code
    points or more written as "[1]" with blanks to its end, and the last of its statements begins at ``opened``.
    """
    for kind, spans in (
        (ClaimKind.DISCOURSE, phrases.leads(cited) if cited != sentence else ()),
        (ClaimKind.DISCOURSE, phrases.leads(sentence)),
        (ClaimKind.DISCOURSE, phrases.openings(sentence)),
        (ClaimKind.DISCOURSE, phrases.announcements(sentence, opened)),
        (ClaimKind.HEADING, phrases.label(sentence)),
        (ClaimKind.REFUSAL, phrases.refusals(sentence, passages)),
    ):
        yield from ((span, kind) for span in spans)
    for span, is_whole in phrases.pointers(cited, passages):
        yield span, ClaimKind.OFFER if is_whole else ClaimKind.DISCOURSE
    courtesy = phrases.offer(sentence)
    ends_openly = len(tags) > 1 and tags[-2] in ("VERB", "ADP")
    if courtesy is not None:
        yield courtesy, ClaimKind.OFFER
    elif phrases.is_question(sentence) and not any(phrases.announcements(sentence)):
        yield (0, len(sentence)), ClaimKind.QUESTION
    elif phrases.introduces_list(sentence[opened:], has_verb=_has_verb(tags), ends_openly=ends_openly):
        yield (opened, len(sentence)), ClaimKind.HEADING


def _last_statement(parsed: ParsedAnswer, start: int, end: int, text: str) -> int:
    """The code point at which the last statement of a sentence begins, where a colon ends it, else the sentence.

    That of "The plan costs $5 and has:" is "and has:"; what stands before it is claimed. A purpose or a condition
    before it belongs to it: "To rotate the keys, do this:".
    """
    first = parsed.words[start].char_start
    if end - start > 1 and text[parsed.words[end - 1].char_start] in ":：":
        opened = last_statement(parsed, text, start, end).start
        before = phrases.purpose_before(text[first : parsed.words[opened].char_start])
        words = [word for word in range(start, opened) if parsed.words[word].char_start < first + before]
        if len(words) >= _SHORTEST_STATEMENT and _has_verb([parsed.universal_tags[word] for word in words]):
            return first + before
    return first


_SHORTEST_STATEMENT = 3


def _has_verb(tags: Sequence[str]) -> bool:
    return not {"VERB", "AUX"}.isdisjoint(tags)


_COUNTED = frozenset(["NOUN", "SYM", "PROPN"])


def _states(parsed: ParsedAnswer, words: range, heading: str) -> bool:
    """Whether a heading is a statement, with a verb, its subject and an amount: "The pump weighs 3 kg".

    Others are too short to tell from "Table 1 shows the costs" or "Key features include weight".
    """
    if ASKING.match(heading) or phrases.is_question(heading):
        return False
    root = next(word for word in words if parsed.dependency_heads[word] == word)
    below = [word for word in words if parsed.dependency_heads[word] == root]
    labels, tags = label_scheme(parsed.label_scheme).subject_labels, parsed.universal_tags
    subjects = [tags[word] for word in below if base_label(parsed.dependency_labels[word]) in labels]
    has_amount = any(tags[word] == "NUM" and tags[behind] in _COUNTED for word, behind in pairwise(words))
    return (
        has_amount and bool(subjects) and "PRON" not in subjects and _has_verb([tags[word] for word in (root, *below)])
    )


def _words_beginning_in(parsed: ParsedAnswer, region: CharRange, within: range) -> range:
    first, end = (
        bisect_left(parsed.words, border, lo=within.start, hi=within.stop, key=lambda word: word.char_start)
        for border in (region.char_start, region.char_end)
    )
    return range(first, end)


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
    return tuple(line for line in lines if answer[line.char_end :].strip() and range_overlapping(line, fences) is None)


def _code(parsed: ParsedAnswer, answer: str) -> Iterator[CharRange]:
    """Fenced code, formulas and sentences of inline code alone; other inline code names something in a claim."""
    yield from fenced_code(answer)
    yield from formula_ranges(answer)
    inline = inline_code(answer)
    for start, end in sentence_bounds(parsed) if inline else ():
        words = [word for word in parsed.words[start:end] if any(map(str.isalnum, word.of(answer)))]
        if words and all(range_overlapping(word, inline) for word in words):
            yield CharRange(words[0].char_start, words[-1].char_end)


_CLAIMING = (SpanKind.FACTS, SpanKind.SENTENCES, SpanKind.GIVEN)
_FEWEST_CONTENT_WORDS = 2


@dataclass(frozen=True, slots=True)
class SpanClaim:
    """What one target span is.

    Attributes:
        claim_index: index of the span whose claim it belongs to, its own where it is a claim itself; None for a span
            that claims nothing. In a language that is not read, a claim is one only if a passage repeats it.
        kind: ``CLAIM``, or why it is none.
        words: the words of the answer, ascending, that state the span's own part of a claim: without words that claim
            nothing, and for a claim without those of facts nested in it; empty for a span that claims nothing.
    """

    claim_index: int | None
    kind: ClaimKind
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerClaims:
    """What an answer is, and what each of its target spans is."""

    kind: AnswerKind
    spans: tuple[SpanClaim, ...]


def answer_claims(parsed: ParsedAnswer, answer: str, spans: Sequence[TargetSpan], kinds: WordKinds) -> AnswerClaims:
    """What the answer and each target span is, in the order of ``spans``; ``kinds`` are those of its words.

    A span is a claim if one of its content words is part of a claim: "the answer is: Oslo" claims something. Otherwise
    it is of the kind that most of them are. A mention belongs to the smallest fact, sentence or given span around it,
    else to one whose edge it crosses, and is a claim of its own where there is none. A fact around other facts is a
    claim of its own for the words that are left, unless fewer than two of them carry content: then it belongs to the
    first of those facts. A span that is given again belongs to the claim of the first.
    """
    content = [
        is_content_word(parsed, word, answer) or (kind == ClaimKind.LANGUAGE and has_letter_or_digit(chars.of(answer)))
        for word, (chars, kind) in enumerate(zip(parsed.words, kinds.kinds, strict=True))
    ]
    first: dict[TargetSpan, int] = {}
    for index, span in enumerate(spans):
        first.setdefault(span, index)
    claims = dict(zip(first, _SpanClaims(parsed, [*first.items()], kinds.kinds, content).of_spans(), strict=True))
    has_claim = any(carries and kind == ClaimKind.CLAIM for carries, kind in zip(content, kinds.kinds, strict=True))
    if kinds.refused:
        kind = AnswerKind.PARTIAL if has_claim else AnswerKind.REFUSAL
    elif has_claim:
        kind = AnswerKind.ANSWER
    else:
        kind = AnswerKind.NO_CLAIM if all(kind.is_judgeable for kind in kinds.kinds) else AnswerKind.NOT_JUDGED
    return AnswerClaims(kind, tuple(claims[span] for span in spans))


class _SpanClaims:
    """Distinct spans with their indices, and whose claim each belongs to; spans are counted anew here."""

    def __init__(
        self,
        parsed: ParsedAnswer,
        spans: Sequence[tuple[TargetSpan, int]],
        kinds: Sequence[ClaimKind],
        content: Sequence[bool],
    ) -> None:
        self._spans = [span for span, _ in spans]
        self._indices = [index for _, index in spans]
        self._kinds, self._content = kinds, content
        self._words = [words_in(parsed, span.chars) for span in self._spans]
        self._parents = _parents(self._spans)
        self._children = defaultdict[int, list[int]](list)
        for number, parent in enumerate(self._parents):
            if parent is not None and self._spans[number].kind in _CLAIMING:
                self._children[parent].append(number)

    def of_spans(self) -> Iterator[SpanClaim]:
        own = []
        for number, words in enumerate(self._words):
            nested = {word for child in self._children[number] for word in self._words[child]}
            own.append([word for word in words if word not in nested])
        kinds = [
            self._kind_of(left) if words else ClaimKind.DISCOURSE for words, left in zip(self._words, own, strict=True)
        ]
        heads = {kind: self._heads(own, kinds, kind) for kind in (ClaimKind.CLAIM, ClaimKind.LANGUAGE)}
        for number, (kind, left) in enumerate(zip(kinds, own, strict=True)):
            head = heads[kind][number] if kind in heads else None
            if head is None:
                yield SpanClaim(None, ClaimKind.DISCOURSE if kind == ClaimKind.CLAIM else kind)
            else:
                stating = tuple(word for word in left if self._kinds[word] == kind == ClaimKind.CLAIM)
                yield SpanClaim(self._indices[head], kind, stating)

    def _kind_of(self, words: Sequence[int]) -> ClaimKind:
        """The kind of some words, by those that carry content; by all of them where none does."""
        counted = [word for word in words if self._content[word]] or words
        kinds = [self._kinds[word] for word in counted]
        if not kinds or ClaimKind.CLAIM in kinds:
            return ClaimKind.CLAIM
        return max(dict.fromkeys(kinds), key=kinds.count)

    def _heads(self, own: Sequence[Sequence[int]], kinds: Sequence[ClaimKind], kind: ClaimKind) -> list[int | None]:
        """For each span of a kind the one whose claim it belongs to; smaller ones are decided before those around."""
        spans, heads = self._spans, list[int | None]([None] * len(self._spans))
        order = sorted(range(len(spans)), key=lambda number: len(self._words[number]))
        for number in order:
            if spans[number].kind in _CLAIMING and kinds[number] == kind:
                inner = [heads[child] for child in self._children[number] if heads[child] is not None]
                left = sum(self._content[word] and self._kinds[word] == kind for word in own[number])
                heads[number] = inner[0] if inner and left < _FEWEST_CONTENT_WORDS else number
        mentions = (number for number in order if spans[number].kind not in _CLAIMING and kinds[number] == kind)
        for number in sorted(mentions, key=lambda number: self._parents[number] is not None):
            parent = self._parents[number]
            head = None if parent is None else heads[parent]
            is_inside = parent is not None and (
                spans[parent].chars.char_start <= spans[number].chars.char_start
                and spans[number].chars.char_end <= spans[parent].chars.char_end
            )
            heads[number] = number if head is None and not is_inside else head
        return heads


def _parents(spans: Sequence[TargetSpan]) -> list[int | None]:
    """For each span the smallest claiming span around it, the first of equal ones; None where there is none.

    A mention that only crosses the edge of a claiming span belongs to it, too, and else to a mention that it crosses:
    so no two claims share words, but where the log's own spans cross.
    """
    parents: list[int | None] = [None] * len(spans)
    open_spans: list[int] = []
    order = sorted(range(len(spans)), key=lambda at: (spans[at].chars.char_start, -spans[at].chars.char_end, at))
    claiming = [at for at in order if spans[at].kind in _CLAIMING]
    alone: int | None = None
    for index in order:
        chars = spans[index].chars
        open_spans = [other for other in open_spans if spans[other].chars.char_end > chars.char_start]
        around = [other for other in open_spans if spans[other].chars.char_end >= chars.char_end]
        parents[index] = min(
            around, key=lambda other: spans[other].chars.char_end - spans[other].chars.char_start, default=None
        )
        if spans[index].kind in _CLAIMING:
            open_spans.append(index)
        elif parents[index] is None:
            following = bisect_left(claiming, chars.char_start, key=lambda other: spans[other].chars.char_start)
            crossed = [*open_spans[-1:], *claiming[following : following + 1], *([] if alone is None else [alone])]
            parents[index] = next((other for other in crossed if chars.overlaps(spans[other].chars)), None)
            alone = index if parents[index] is None else alone
    return parents
