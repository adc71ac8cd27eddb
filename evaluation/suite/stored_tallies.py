"""Tallies of one method as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from evaluation.comparison import FailedRow, MethodTally
from evaluation.measures.citation_run import CitationTally
from evaluation.measures.citation_scores import CitationCounts
from evaluation.measures.cost import Cost
from evaluation.measures.faithfulness import DropTally
from evaluation.measures.highlight_overlap import HighlightOverlap, HighlightTally

Stored = Mapping[str, Any]
"""What a cell's file holds; written by ``asdict`` of the tally and read by the functions here alone."""


def stored_tally(tally: MethodTally | DropTally | CitationTally) -> Stored:
    """Plain data, with all that the figures are made of."""
    return asdict(tally)


def method_tally(stored: Stored, name: str) -> MethodTally:
    """The tally under the name that the tables use."""
    return MethodTally(
        name=name,
        credits=[*stored["credits"]],
        spans=[*stored["spans"]],
        spans_without_evidence=stored["spans_without_evidence"],
        failed=_failed(stored),
        highlights=_overlaps(stored["highlights"]),
        sentences=_overlaps(stored["sentences"]),
        cost=None if stored["cost"] is None else Cost(**stored["cost"]),
    )


def drop_tally(stored: Stored, name: str) -> DropTally:
    """The tally under the name that the tables use."""
    return DropTally(
        name=name,
        drops=[*stored["drops"]],
        spans=[*stored["spans"]],
        spans_without_passage=stored["spans_without_passage"],
        failed=_failed(stored),
    )


def citation_tally(stored: Stored, name: str) -> CitationTally:
    """The tally under the name that the tables use."""
    return CitationTally(
        name=name, counts=[CitationCounts(**counts) for counts in stored["counts"]], failed=_failed(stored)
    )


def _failed(stored: Stored) -> list[FailedRow]:
    return [FailedRow(**row) for row in stored["failed"]]


def _overlaps(stored: Stored) -> HighlightTally:
    return HighlightTally([[HighlightOverlap(**overlap) for overlap in row] for row in stored["rows"]])
