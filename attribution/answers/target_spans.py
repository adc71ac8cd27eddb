"""The target spans of an answer: what the audit asks evidence for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attribution.answers.fact_spans import fact_ranges
from attribution.answers.mention_spans import mention_ranges
from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.sentence_tree import sentence_bounds
from attribution.answers.span_edges import has_letter_or_digit, is_content_word, words_range
from schemas import CharRange, SpanKind, TargetSpan

DEFAULT_SPAN_KINDS = (SpanKind.GIVEN, SpanKind.FACTS, SpanKind.MENTIONS)


def parse_span_kinds(text: str) -> tuple[SpanKind, ...]:
    """The kinds of a comma-separated list such as "given,facts,mentions", in its order and without repetition.

    Raises:
        ValueError: if the list is empty or names something else.
    """
    names = [name.strip().lower() for name in text.split(",")]
    allowed = [kind.value for kind in SpanKind]
    for name in names:
        if name not in allowed:
            raise ValueError(f"target spans should be a comma-separated list of {', '.join(allowed)}, was: {text!r}")
    return tuple(SpanKind(name) for name in dict.fromkeys(names))


def choose_target_spans(
    parsed: ParsedAnswer,
    answer: str,
    *,
    kinds: Sequence[SpanKind],
    given: tuple[CharRange, ...] | None,
) -> tuple[TargetSpan, ...]:
    """The target spans of one answer, at least one for every answer that is not white space only.

    Where ``given`` is among ``kinds`` and the row has spans, exactly these. Else the spans of all other kinds, by
    (char_start, char_end); of equal ranges the one whose kind comes first in ``kinds``. Where that yields none, the
    sentences; where the answer has none either (marks or emoji only), all of it without white space at its edges.

    Raises:
        ValueError: if the answer is white space only.
    """
    if SpanKind.GIVEN in kinds and given:
        return tuple(TargetSpan(SpanKind.GIVEN, chars) for chars in given)
    chosen: dict[CharRange, SpanKind] = {}
    for kind in kinds:
        for chars in _ranges_of_kind(kind, parsed, answer):
            chosen.setdefault(chars, kind)
    if not chosen:
        chosen = dict.fromkeys(_sentence_ranges(parsed, answer) or [_whole_answer(answer)], SpanKind.SENTENCES)
    return tuple(TargetSpan(chosen[chars], chars) for chars in sorted(chosen))


def _ranges_of_kind(kind: SpanKind, parsed: ParsedAnswer, answer: str) -> Iterable[CharRange]:
    match kind:
        case SpanKind.GIVEN:
            return ()
        case SpanKind.SENTENCES:
            return _sentence_ranges(parsed, answer)
        case SpanKind.FACTS:
            return [chars for chars in fact_ranges(parsed, answer) if has_letter_or_digit(chars.of(answer))]
        case SpanKind.MENTIONS:
            return mention_ranges(parsed, answer)
        case SpanKind.WORDS:
            return _content_word_ranges(parsed, answer)


def _sentence_ranges(parsed: ParsedAnswer, answer: str) -> list[CharRange]:
    """The sentences, from their first to their last word; those without a letter or digit are left out."""
    ranges = [words_range(parsed, range(start, end)) for start, end in sentence_bounds(parsed)]
    return [chars for chars in ranges if has_letter_or_digit(chars.of(answer))]


def _content_word_ranges(parsed: ParsedAnswer, answer: str) -> list[CharRange]:
    return [chars for word, chars in enumerate(parsed.words) if is_content_word(parsed, word, answer)]


def _whole_answer(answer: str) -> CharRange:
    trimmed = answer.strip()
    if not trimmed:
        raise ValueError("an answer with something besides white space is needed to choose target spans")
    char_start = len(answer) - len(answer.lstrip())
    return CharRange(char_start, char_start + len(trimmed))
