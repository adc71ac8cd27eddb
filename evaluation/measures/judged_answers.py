"""What people marked in an answer, and how far an audit's flags agree: by character, by span and by answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tqdm import tqdm

from attribeam.attribution.answers.parsed_answer import whole_sentences
from attribeam.evaluation.datasets.dataset_file import JudgedAnswer
from attribeam.evaluation.measures import (
    Counts,
    Estimate,
    F1Figures,
    auroc,
    estimate_cells,
    f1_figures,
    interval_cell,
    row_draws,
    text_table,
)
from attribeam.schemas import CharRange, QARecord, RowFault, SpanEvidence, Support

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor

_ANSWERS_PER_BATCH = 32
LEVELS: Mapping[str, frozenset[Support]] = {
    "unsupported": frozenset({Support.UNSUPPORTED}),
    "unsupported or weak": frozenset({Support.UNSUPPORTED, Support.WEAK}),
}
"""The two readings of the flag: the support levels that count as an alarm."""
_ORDER = (Support.UNSUPPORTED, Support.WEAK, Support.SUPPORTED)


def audited_records(
    records: Sequence[QARecord], attributor: Attributor
) -> Iterator[tuple[int, tuple[SpanEvidence, ...] | RowFault]]:
    """The index of each record and what the audit says about it, in order; shows a progress bar in a terminal."""
    with tqdm(total=len(records), unit="answer", disable=None, leave=False) as bar:
        for start in range(0, len(records), _ANSWERS_PER_BATCH):
            batch = records[start : start + _ANSWERS_PER_BATCH]
            yield from enumerate(attributor.attribute_many(batch), start=start)
            bar.update(len(batch))


def visible(ranges: Iterable[CharRange], text: str) -> frozenset[int]:
    """The positions of the ranges' characters in the text, without white space."""
    return frozenset(
        position
        for chars in ranges
        for position in range(chars.char_start, chars.char_end)
        if not text[position].isspace()
    )


def called_places(spans: Sequence[SpanEvidence], text: str, levels: frozenset[Support]) -> frozenset[int]:
    """The positions of the characters that evidence calls one of the ``levels``, such as unsupported.

    A span that names the words that lack support calls those; another one calls all its characters. A mention leaves
    it to its claim.
    """
    counted = (span for span in spans if span.support in levels and span.is_counted)
    return visible((chars for span in counted for chars in span.unsupported_words or (span.chars,)), text)


def named_places(spans: Sequence[SpanEvidence], text: str) -> frozenset[int]:
    """The positions of the characters of all words that evidence names, in unsupported and in weak claims."""
    return visible((chars for span in spans for chars in span.unsupported_words), text)


def flag_order(support: Support, evidence_mass: float) -> float:
    """A number that orders spans by support level, and by evidence mass within a level; no verdict comes last."""
    level = _ORDER.index(support) if support in _ORDER else len(_ORDER)
    return 2.0 * level + evidence_mass


def _looked_at(answer: JudgedAnswer) -> frozenset[int]:
    text = answer.record.answer
    return visible(answer.judged or (CharRange(0, len(text)),), text)


class Overlap(NamedTuple):
    """Numbers of characters: called unsupported, marked by a person, and both (``common``)."""

    common: int
    called: int
    marked: int


class AuditedSpan(NamedTuple):
    """One audited span: its numbers, and whether a person marked at least half of its characters."""

    evidence_mass: float
    flag: float
    marked: bool


@dataclass(frozen=True, slots=True)
class AuditedAnswer:
    """One answer after the audit; what has an entry for each of ``LEVELS`` has them as its keys.

    Attributes:
        overlaps: the overlap of characters for each level; empty if nobody marked characters, as ``kinds``.
        kinds: the overlap with the marked ranges of each kind.
        spans: the audited spans within the part that a person looked at.
        marked: whether a person marked anything, or found the whole answer unsupported.
        calls: whether any span raises an alarm.
    """

    group: str | None
    overlaps: Mapping[str, Overlap]
    kinds: Mapping[str, Mapping[str, Overlap]]
    spans: tuple[AuditedSpan, ...]
    marked: bool
    calls: Mapping[str, bool]

    @property
    def lowest_mass(self) -> float:
        return min((span.evidence_mass for span in self.spans), default=1.0)

    @property
    def lowest_flag(self) -> float:
        return min((span.flag for span in self.spans), default=2.0 * len(_ORDER) - 1)


def audited_answer(answer: JudgedAnswer, evidence: Sequence[SpanEvidence]) -> AuditedAnswer:
    """Compare the audit of an answer with its labels; white space does not count.

    A character is called unsupported if a claim is that contains it, and names it if it names any words, or if a weak
    claim names it. An answer is called unsupported if a claim is. What the person did not look at is left out on both
    sides.
    """
    text, seen, ranges = answer.record.answer, _looked_at(answer), answer.unsupported or ()
    marked = visible((one.chars for one in ranges), text) & seen
    placed = [(span, own) for span in evidence if (own := visible([span.chars], text)) & seen]
    spans = [span for span, _ in placed]
    of_claims = {name: called_places(spans, text, levels) & seen for name, levels in LEVELS.items()}
    named = named_places(spans, text) & seen

    def overlaps(chars: frozenset[int]) -> dict[str, Overlap]:
        called = {name: positions | named for name, positions in of_claims.items()}
        return {name: Overlap(len(one & chars), len(one), len(chars)) for name, one in called.items()}

    return AuditedAnswer(
        group=answer.group,
        overlaps={} if answer.unsupported is None else overlaps(marked),
        kinds={
            kind: overlaps(visible((one.chars for one in ranges if one.kind == kind), text) & seen)
            for kind in sorted({one.kind for one in ranges if one.kind is not None})
        },
        spans=tuple(
            AuditedSpan(
                span.measured_mass, flag_order(span.support, span.measured_mass), 2 * len(own & marked) >= len(own)
            )
            for span, own in placed
        ),
        marked=bool(marked) if answer.unsupported is not None else not answer.is_supported,
        calls={name: bool(chars) for name, chars in of_claims.items()},
    )


def rows_of_groups(groups: Sequence[str | None]) -> Iterator[tuple[str, list[int]]]:
    """All rows, then those of each group if there are several; ``groups`` has that of each row."""
    yield "all", [*range(len(groups))]
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
    those with marks, and of spans; None if one side is missing, or, for spans, if answers were judged as a whole.
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


def group_figures(answers: Sequence[AuditedAnswer], *, draws: int, seed: int) -> tuple[GroupFigures, ...]:
    """The figures of all answers, of which there is at least one, then of each group if there are several."""
    row_counts = row_draws(len(answers), draws=draws, seed=seed)
    return tuple(
        _figures(group, [answers[row] for row in rows], row_counts[:, rows])
        for group, rows in rows_of_groups([answer.group for answer in answers])
    )


def _figures(name: str, answers: Sequence[AuditedAnswer], row_counts: Counts) -> GroupFigures:
    right = [not answer.marked for answer in answers]
    has_marks = all(answer.overlaps for answer in answers)
    spans = [(row, span) for row, answer in enumerate(answers) for span in answer.spans if has_marks]
    of_spans = [not span.marked for _, span in spans], [row for row, _ in spans], row_counts
    of_answers = right, range(len(answers)), row_counts
    levels, kinds = [], []
    for level in LEVELS:
        calls = [(one.calls[level] and one.marked, one.calls[level], one.marked) for one in answers]
        characters = f1_figures([one.overlaps[level] for one in answers], row_counts) if has_marks else None
        levels.append(LevelFigures(level, characters, f1_figures(calls, row_counts)))
    for kind in sorted({kind for answer in answers for kind in answer.kinds}):
        overlaps = [answer.kinds[kind] for answer in answers if kind in answer.kinds]
        marked = sum(next(iter(one.values())).marked for one in overlaps)
        common = {level: sum(one[level].common for one in overlaps) for level in LEVELS}
        recall = {level: 100 * number / marked if marked else 0.0 for level, number in common.items()}
        kinds.append(KindRecall(kind, marked, recall))
    return GroupFigures(
        group=name,
        answers=len(answers),
        marked_answers=len(answers) - sum(right),
        levels=tuple(levels),
        answer_mass=auroc([answer.lowest_mass for answer in answers], *of_answers),
        answer_flag=auroc([answer.lowest_flag for answer in answers], *of_answers),
        span_mass=auroc([span.evidence_mass for _, span in spans], *of_spans),
        span_flag=auroc([span.flag for _, span in spans], *of_spans),
        kinds=tuple(kinds),
    )


_HEADER = ("called", "of", "precision %", "recall %", "F1 %", "95% interval")
_AUROC_HEADER = ("AUROC", "mass", "95% interval", "flag", "95% interval")


def group_tables(dataset: str, method: str, groups: Sequence[GroupFigures]) -> Iterator[str]:
    """For each group a title, its F1 and its AUROC, and a line for each kind of mark."""
    for group in groups:
        has_marks = all(level.characters is not None for level in group.levels)
        marked = "with unsupported characters" if has_marks else "unsupported"
        yield f"{dataset}, {group.group}, {method}: {group.answers} answers, {group.marked_answers} of them {marked}"
        lines = [
            (level.level, what, *f1_cells(figures))
            for level in group.levels
            for what, figures in (("characters", level.characters), ("answers", level.answers))
            if figures is not None
        ]
        yield text_table(_HEADER, lines)
        areas = (("answers", group.answer_mass, group.answer_flag), ("spans", group.span_mass, group.span_flag))
        shown = [
            (name, *estimate_cells(mass, digits=3), *estimate_cells(flag, digits=3))
            for name, mass, flag in areas
            if mass is not None and flag is not None
        ]
        yield text_table(_AUROC_HEADER, shown)
        for kind in group.kinds:
            shares = ", ".join(f"{share:.1f}% {level}" for level, share in kind.recall.items())
            yield f"{kind.kind}: of {kind.characters} characters {shares}"


def f1_cells(figures: F1Figures) -> tuple[str, ...]:
    shares = [f"{share:.1f}" for share in (figures.precision, figures.recall, figures.f1)]
    return (*shares, interval_cell(figures.f1_interval))


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


def judged_parts(answer: JudgedAnswer, evidence: Sequence[SpanEvidence]) -> JudgedParts:
    """The parts of an answer, of which ``evidence`` is the audit's, empty without one.

    A part is marked if at least half of its visible characters are, or at least half of those of one marked range.
    Parts that people did not look at are left out.
    """
    text, seen = answer.record.answer, _looked_at(answer)
    characters = tuple(sorted(seen))
    marks = None if answer.unsupported is None else [visible([one.chars], text) for one in answer.unsupported]
    marked = None if marks is None else frozenset[int]().union(*marks)

    def is_marked(own: frozenset[int]) -> bool | None:
        if marks is None or marked is None:
            return None
        of_marks = [(len(own & mark), len(mark & seen)) for mark in marks]
        return 2 * len(own & marked) >= len(own) or any(0 < size <= 2 * common for common, size in of_marks)

    def parts(ranges: Iterable[CharRange]) -> tuple[JudgedPart, ...]:
        positions = ((chars, visible([chars], text) & seen) for chars in ranges)
        return tuple(JudgedPart(chars, is_marked(own)) for chars, own in positions if own)

    return JudgedParts(
        answer=answer,
        is_marked=not answer.is_supported,
        characters=characters,
        marked=None if marked is None else tuple(position in marked for position in characters),
        sentences=parts(whole_sentences(text)),
        claims=parts(span.chars for span in evidence if span.is_claim),
        evidence=tuple(evidence),
    )
