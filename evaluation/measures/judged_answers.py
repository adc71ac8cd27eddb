"""What people marked in an answer, and how far an audit's flags agree: by character, by span and by answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqdm import tqdm

from attribeam.attribution.answers.parsed_answer import whole_sentences
from attribeam.evaluation.datasets.dataset_file import JudgedAnswer
from attribeam.evaluation.measures import (
    Counts,
    Estimate,
    F1Figures,
    auroc,
    f1_figures,
    row_draws,
    visible,
)
from attribeam.schemas import CharRange, QARecord, RowFault, SpanEvidence, Support

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor

_ANSWERS_PER_BATCH = 32
_UNSUPPORTED = "unsupported"
LEVELS: Mapping[str, frozenset[Support]] = {
    _UNSUPPORTED: frozenset({Support.UNSUPPORTED}),
    "unsupported or weak": frozenset({Support.UNSUPPORTED, Support.WEAK}),
}
"""The two readings of the flag: the support levels that count as an alarm."""
_ORDER = (Support.UNSUPPORTED, Support.WEAK, Support.SUPPORTED)
_CLEAN = 5.0
"""The flag of a supported span with all of its mass."""


def audited_records(
    records: Sequence[QARecord], attributor: Attributor
) -> Iterator[tuple[int, tuple[SpanEvidence, ...] | RowFault]]:
    """The index of each record and what the audit says about it, in order; shows a progress bar in a terminal."""
    with tqdm(total=len(records), unit="answer", disable=None, leave=False) as bar:
        for start in range(0, len(records), _ANSWERS_PER_BATCH):
            batch = records[start : start + _ANSWERS_PER_BATCH]
            yield from enumerate(attributor.attribute_many(batch), start=start)
            bar.update(len(batch))


def flag_order(support: Support, evidence_mass: float) -> float:
    """A number that orders spans by support level, and by evidence mass within a level; no verdict comes last."""
    level = _ORDER.index(support) if support in _ORDER else len(_ORDER)
    return 2.0 * level + evidence_mass


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """A sentence or claim, and whether people marked it; None where they judged only the whole answer."""

    chars: CharRange
    is_marked: bool | None


@dataclass(frozen=True, slots=True)
class JudgedParts:
    """One answer, cut into the parts that people judged.

    Attributes:
        is_marked: whether people found anything unsupported.
        characters: positions of the visible characters that people looked at, ascending.
        marked: whether they marked each of them; None where they judged only the whole answer.
        sentences, claims: found without a parser; by the audit, empty without one, as ``evidence``.
    """

    answer: JudgedAnswer
    is_marked: bool
    characters: tuple[int, ...]
    marked: tuple[bool, ...] | None
    sentences: tuple[JudgedPart, ...]
    claims: tuple[JudgedPart, ...]
    evidence: tuple[SpanEvidence, ...]

    @property
    def text(self) -> str:
        return self.answer.record.answer


def judged_parts(answer: JudgedAnswer, evidence: Sequence[SpanEvidence]) -> JudgedParts:
    """The parts of an answer, of which ``evidence`` is the audit's, empty without one.

    A part is marked if at least half of its visible characters are, or at least half of those of one marked range.
    Parts that people did not look at are left out.
    """
    text = answer.record.answer
    seen = visible(answer.judged or (CharRange(0, len(text)),), text)
    characters = tuple(sorted(seen))
    marks = None if answer.unsupported is None else [visible([mark.chars], text) for mark in answer.unsupported]
    marked = None if marks is None else frozenset[int]().union(*marks)

    def is_marked(chars: frozenset[int]) -> bool | None:
        if marks is None or marked is None:
            return None
        of_marks = [(len(chars & mark), len(mark & seen)) for mark in marks]
        return 2 * len(chars & marked) >= len(chars) or any(0 < size <= 2 * common for common, size in of_marks)

    def parts(ranges: Iterable[CharRange]) -> tuple[JudgedPart, ...]:
        positions = ((chars, visible([chars], text) & seen) for chars in ranges)
        return tuple(JudgedPart(chars, is_marked(part_chars)) for chars, part_chars in positions if part_chars)

    return JudgedParts(
        answer=answer,
        is_marked=not answer.is_supported,
        characters=characters,
        marked=None if marked is None else tuple(position in marked for position in characters),
        sentences=parts(whole_sentences(text)),
        claims=parts(span.chars for span in evidence if span.is_claim),
        evidence=tuple(evidence),
    )


@dataclass(frozen=True, slots=True)
class Calls:
    """What is called unsupported: the answer, each claim, each visible character; None without a verdict."""

    answer: bool | None = None
    claims: tuple[bool, ...] | None = None
    characters: tuple[bool, ...] | None = None


def audit_calls(parts: JudgedParts, levels: frozenset[Support] = LEVELS[_UNSUPPORTED]) -> Calls:
    """What the audit calls unsupported, where the ``levels`` of support count as an alarm.

    A claim of such a level calls the words that it names, or else all its characters, and any other claim the words
    that it names. An answer is called if it has a claim of such a level; a mention leaves it to its claim.
    """
    spans, text = parts.evidence, parts.text
    alarms = [span for span in spans if span.support in levels and span.is_counted]
    of_alarms = visible((chars for span in alarms for chars in span.unsupported_words or (span.chars,)), text)
    called = of_alarms | visible((chars for span in spans for chars in span.unsupported_words), text)
    claims = {span.chars for span in alarms if span.is_claim}
    return Calls(
        answer=not of_alarms.isdisjoint(parts.characters),
        claims=tuple(part.chars in claims for part in parts.claims),
        characters=tuple(position in called for position in parts.characters),
    )


Marks = Sequence[tuple[bool, ...] | None]
"""For each answer whether its items are marked, or called; None where nobody said."""


def part_verdicts(calls: Marks, marks: Marks, counts: Counts) -> F1Figures | None:
    """Claims or characters that are called compared with those that are marked; None if there are none."""
    known = [
        (called, marked)
        for called, marked in zip(calls, marks, strict=True)
        if called is not None and marked is not None
    ]
    if len(known) < len(calls) or not any(called for called, _ in known):
        return None
    common = [sum(call and mark for call, mark in zip(called, marked, strict=True)) for called, marked in known]
    items = [
        (common_count, sum(called), sum(marked)) for common_count, (called, marked) in zip(common, known, strict=True)
    ]
    return f1_figures(items, counts)


def rows_of_groups(parts: Sequence[JudgedParts]) -> Iterator[tuple[str, list[int]]]:
    """All rows, then those of each group if there are several."""
    yield "all", [*range(len(parts))]
    groups = [part.answer.group for part in parts]
    names = sorted({group for group in groups if group is not None})
    for name in names if len(names) > 1 else ():
        yield name, [row for row, group in enumerate(groups) if group == name]


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """The figures of one of ``LEVELS``: of all characters, None if answers were judged as a whole, and of answers."""

    level: str
    characters: F1Figures | None
    answers: F1Figures


@dataclass(frozen=True, slots=True)
class KindRecall:
    """Percentage of the characters marked as one kind that are called unsupported, for each of ``LEVELS``."""

    kind: str
    characters: int
    recall: dict[str, float]


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The figures of one group of answers, or of all answers.

    The areas under the ROC curve are those of the lowest mass and flag of an answer, for answers without marks against
    those with marks, and of spans; None if one side is missing, or, for spans, if answers were judged as a whole. A
    span is marked if at least half of its visible characters are.
    """

    group: str
    answers: int
    marked_answers: int
    levels: tuple[LevelFigures, ...]
    answer_mass: Estimate | None
    answer_flag: Estimate | None
    span_mass: Estimate | None
    span_flag: Estimate | None
    kinds: tuple[KindRecall, ...]


def group_figures(parts: Sequence[JudgedParts], *, draws: int, seed: int) -> tuple[GroupFigures, ...]:
    """The figures of all answers, of which there is at least one, then of each group if there are several."""
    row_counts = row_draws(len(parts), draws=draws, seed=seed)
    return tuple(
        _figures(group, [parts[row] for row in rows], row_counts[:, rows]) for group, rows in rows_of_groups(parts)
    )


def _spans(parts: JudgedParts) -> Iterator[tuple[float, float, bool]]:
    """Mass and flag of the spans of which people looked at some character, and whether they marked half or more."""
    marked = dict(zip(parts.characters, parts.marked or (False,) * len(parts.characters), strict=True))
    for span in parts.evidence:
        if own := [marked[position] for position in visible([span.chars], parts.text) if position in marked]:
            yield span.measured_mass, flag_order(span.support, span.measured_mass), 2 * sum(own) >= len(own)


def _figures(group: str, parts: Sequence[JudgedParts], counts: Counts) -> GroupFigures:
    calls = {level: [audit_calls(part, supports) for part in parts] for level, supports in LEVELS.items()}
    marked, spans = [part.marked for part in parts], [[*_spans(part)] for part in parts]
    is_marked = [part.is_marked if part.marked is None else any(part.marked) for part in parts]
    of_answers = [not flag for flag in is_marked], range(len(parts)), counts
    placed = [(row, *span) for row, own in enumerate(spans) for span in own if None not in marked]
    of_spans = [not span_is_marked for *_, span_is_marked in placed], [row for row, *_ in placed], counts
    levels = []
    for level, own in calls.items():
        pairs = [(bool(call.answer), mark) for call, mark in zip(own, is_marked, strict=True)]
        answers = f1_figures([(call and mark, call, mark) for call, mark in pairs], counts)
        levels.append(LevelFigures(level, part_verdicts([call.characters for call in own], marked, counts), answers))
    kinds = {mark.kind for part in parts for mark in part.answer.unsupported or () if mark.kind is not None}
    return GroupFigures(
        group=group,
        answers=len(parts),
        marked_answers=sum(is_marked),
        levels=tuple(levels),
        answer_mass=auroc([min((mass for mass, _, _ in own), default=1.0) for own in spans], *of_answers),
        answer_flag=auroc([min((flag for _, flag, _ in own), default=_CLEAN) for own in spans], *of_answers),
        span_mass=auroc([mass for _, mass, _, _ in placed], *of_spans),
        span_flag=auroc([flag for _, _, flag, _ in placed], *of_spans),
        kinds=tuple(_kind_recall(kind, parts, calls) for kind in sorted(kinds)),
    )


def _kind_recall(kind: str, parts: Sequence[JudgedParts], calls: Mapping[str, Sequence[Calls]]) -> KindRecall:
    marked = [
        visible((mark.chars for mark in part.answer.unsupported or () if mark.kind == kind), part.text)
        for part in parts
    ]
    called = {
        level: [
            call
            for part, answer, positions in zip(parts, own, marked, strict=True)
            for position, call in zip(part.characters, answer.characters or (), strict=True)
            if position in positions
        ]
        for level, own in calls.items()
    }
    recall = {level: 100 * sum(own) / len(own) if own else 0.0 for level, own in called.items()}
    return KindRecall(kind, len(called[_UNSUPPORTED]), recall)
