"""Mentions: named entities, numbers and dates with their units, and noun chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from attribution.answers.answer_blocks import without_marks
from attribution.answers.label_schemes import LabelScheme, base_label, label_scheme
from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.sentence_tree import sentence_bounds
from attribution.answers.span_edges import is_content_word, trimmed_words, words_range
from attribution.answers.value_patterns import DATE, QUANTITY
from schemas import CharRange


def mention_ranges(parsed: ParsedAnswer, answer: str) -> list[CharRange]:
    """The mentions of an answer, ascending; of nested ones the outermost, and none without a word of content.

    Entities are the parser's where it gives any, else runs of proper nouns.
    """
    runs = [*_value_words(parsed, answer), *_name_words(parsed), *_noun_chunks(parsed, answer)]
    whole = [piece for run in runs for piece in _without_bars(parsed, _with_hyphenated(parsed, run, answer), answer)]
    trimmed = {trimmed_words(parsed, run, answer) for run in whole}
    named = [words for words in trimmed if words and any(is_content_word(parsed, word, answer) for word in words)]
    return [words_range(parsed, words) for words in _outermost(named)]


def _with_hyphenated(parsed: ParsedAnswer, run: range, answer: str) -> range:
    """The run with the words that a hyphen without white space joins to its edges: "Runa line" of "Skelde-Runa"."""
    if not run:
        return run
    first, end = run.start, run.stop
    while first >= 2 and _is_hyphen_inside(parsed, first - 1, answer):
        first -= 2
    while end + 1 < len(parsed.words) and _is_hyphen_inside(parsed, end, answer):
        end += 2
    return range(first, end)


def _is_hyphen_inside(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    before, hyphen, after = parsed.words[word - 1 : word + 2]
    glued = before.char_end == hyphen.char_start and hyphen.char_end == after.char_start
    return glued and hyphen.of(answer) in ("-", "\u2010", "\u2011")


def _without_bars(parsed: ParsedAnswer, run: range, answer: str) -> Iterator[range]:
    """The parts of a run between the bars of a table's row."""
    first = run.start
    for word in run:
        following = parsed.words[word + 1].char_start if word + 1 < run.stop else None
        if following is None or "|" in answer[parsed.words[word].char_end : following]:
            yield range(first, word + 1)
            first = word + 1


def _outermost(runs: list[range]) -> list[range]:
    kept: list[range] = []
    for run in sorted(runs, key=lambda one: (one.start, -one.stop)):
        if not kept or run.stop > kept[-1].stop:
            kept.append(run)
    return kept


def _value_words(parsed: ParsedAnswer, answer: str) -> Iterator[range]:
    """Numbers and dates written with digits, with the words of their unit."""
    text = without_marks(answer)
    for pattern in (DATE, QUANTITY):
        for match in pattern.finditer(text):
            yield _words_in(parsed, match.start(), match.end())


def _name_words(parsed: ParsedAnswer) -> Iterator[range]:
    for entity in parsed.entities:
        yield _words_in(parsed, entity.char_start, entity.char_end)
    if not parsed.entities:
        for start, end in sentence_bounds(parsed):
            yield from _runs_tagged(parsed, start, end, "PROPN")


def _runs_tagged(parsed: ParsedAnswer, start: int, end: int, tag: str) -> Iterator[range]:
    first = start
    for word in range(start, end + 1):
        if word == end or parsed.universal_tags[word] != tag:
            if first < word:
                yield range(first, word)
            first = word + 1


def _words_in(parsed: ParsedAnswer, char_start: int, char_end: int) -> range:
    """The words that share a code point with ``[char_start, char_end)``."""
    return range(
        bisect_right(parsed.words, char_start, key=lambda word: word.char_end),
        bisect_left(parsed.words, char_end, key=lambda word: word.char_start),
    )


def _noun_chunks(parsed: ParsedAnswer, answer: str) -> Iterator[range]:
    """Each noun with the determiners, adjectives, numbers and names that hang on it, as far as they stand together."""
    scheme = label_scheme(parsed.label_scheme)
    for start, end in sentence_bounds(parsed):
        members = _chunk_heads(parsed, start, end, scheme)
        for noun in range(start, end):
            if members[noun - start] == noun and parsed.universal_tags[noun] in scheme.noun_tags:
                inside = {start + word for word, head in enumerate(members) if head == noun}
                between = range(start + 1, end - 1)
                hyphens = {word for word in between if word + 1 in inside and _is_hyphen_inside(parsed, word, answer)}
                yield _run_around(noun, inside | hyphens)


def _chunk_heads(parsed: ParsedAnswer, start: int, end: int, scheme: LabelScheme) -> list[int]:
    """For each word of the sentence the noun whose chunk it may be in, itself where it hangs on none."""
    heads = []
    for word in range(start, end):
        top = word
        while _hangs_within_chunk(parsed, top, start, end, scheme):
            top = parsed.dependency_heads[top]
        heads.append(top)
    return heads


def _hangs_within_chunk(parsed: ParsedAnswer, word: int, start: int, end: int, scheme: LabelScheme) -> bool:
    label = parsed.dependency_labels[word]
    dependency_head = parsed.dependency_heads[word]
    if dependency_head == word or not start <= dependency_head < end:
        return False
    possessive = parsed.universal_tags[word] == "PART" and base_label(label) == "case"
    return possessive or label in scheme.noun_chunk_labels or base_label(label) in scheme.noun_chunk_labels


def _run_around(noun: int, inside: set[int]) -> range:
    first = end = noun
    while first - 1 in inside:
        first -= 1
    while end in inside:
        end += 1
    return range(first, end)
