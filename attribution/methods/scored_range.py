"""Passage characters that a method names as evidence, and how strongly."""

from __future__ import annotations

from dataclasses import dataclass

from attribeam.schemas.labelled_answer import PassageRange


@dataclass(frozen=True, slots=True)
class ScoredRange:
    """One piece of a method's evidence; ``score`` is positive, in the method's own unit."""

    where: PassageRange
    score: float
