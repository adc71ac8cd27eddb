"""What the support flags of an audit say about each character of an answer, and what a person said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluation.datasets.judged_answer import JudgedAnswer
from schemas import CharRange, SpanEvidence, Support

LEVELS: Mapping[str, frozenset[Support]] = {
    "unsupported": frozenset({Support.UNSUPPORTED}),
    "unsupported or weak": frozenset({Support.UNSUPPORTED, Support.WEAK}),
}
"""The two ways to read the flag: which levels count as an alarm."""

_ORDER = (Support.UNSUPPORTED, Support.WEAK, Support.SUPPORTED)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Numbers of characters: in both, called unsupported, marked by a person."""

    common: int
    called: int
    marked: int


@dataclass(frozen=True, slots=True)
class AuditedSpan:
    """One span of an audit: its numbers, and whether a person marked at least half of its characters."""

    evidence_mass: float
    flag: float
    marked: bool


@dataclass(frozen=True, slots=True)
class AuditedAnswer:
    """One answer after the audit.

    Attributes:
        group: its part of the data set.
        overlaps: for each of ``LEVELS`` the characters.
        kinds: for each kind of unsupported range and each of ``LEVELS`` the overlap with the ranges of that kind.
        spans: what was audited, of the part that a person looked at.
        marked: whether a person marked anything.
        calls: for each of ``LEVELS`` whether any span is called so.
    """

    group: str | None
    overlaps: Mapping[str, Overlap]
    kinds: Mapping[str, Mapping[str, Overlap]]
    spans: tuple[AuditedSpan, ...]
    marked: bool
    calls: Mapping[str, bool]

    @property
    def lowest_mass(self) -> float:
        """The smallest evidence mass of a span; 1 without spans."""
        return min((span.evidence_mass for span in self.spans), default=1.0)

    @property
    def lowest_flag(self) -> float:
        """The smallest flag of a span; that of full support without spans."""
        return min((span.flag for span in self.spans), default=2.0 * len(_ORDER) - 1)


def audited_answer(answer: JudgedAnswer, found: Sequence[SpanEvidence]) -> AuditedAnswer:
    """Hold the audit of an answer against its labels; white space counts nowhere.

    A character is called unsupported where any span that it is in is called so. What the person did not look at is
    left out on both sides.
    """
    text = answer.record.answer
    judged = None if answer.judged is None else _characters(answer.judged, text)
    marked = _within(_characters([one.chars for one in answer.unsupported], text), judged)
    seen = [span for span in found if _within(_characters([span.chars], text), judged)]
    called = {
        name: _within(_characters([span.chars for span in seen if span.support in levels], text), judged)
        for name, levels in LEVELS.items()
    }
    kinds = {
        kind: _within(_characters([one.chars for one in answer.unsupported if one.kind == kind], text), judged)
        for kind in sorted({one.kind for one in answer.unsupported if one.kind is not None})
    }
    return AuditedAnswer(
        group=answer.group,
        overlaps={name: _overlap(chars, marked) for name, chars in called.items()},
        kinds={kind: {name: _overlap(chars, own) for name, chars in called.items()} for kind, own in kinds.items()},
        spans=tuple(_audited_span(span, marked, text) for span in seen),
        marked=bool(marked),
        calls={name: bool(chars) for name, chars in called.items()},
    )


def flag_order(support: Support, evidence_mass: float) -> float:
    """Orders spans by support level, and within a level by evidence mass."""
    return 2.0 * _ORDER.index(support) + evidence_mass


def _audited_span(span: SpanEvidence, marked: Collection[int], text: str) -> AuditedSpan:
    own = _characters([span.chars], text)
    half = 2 * len(own & frozenset(marked)) >= len(own) > 0
    return AuditedSpan(span.evidence_mass, flag_order(span.support, span.evidence_mass), half)


def _characters(ranges: Iterable[CharRange], text: str) -> frozenset[int]:
    return frozenset(
        place for one in ranges for place in range(one.char_start, one.char_end) if not text[place].isspace()
    )


def _within(characters: frozenset[int], judged: frozenset[int] | None) -> frozenset[int]:
    return characters if judged is None else characters & judged


def _overlap(called: frozenset[int], marked: frozenset[int]) -> Overlap:
    return Overlap(len(called & marked), len(called), len(marked))
