"""What a union of token-wise attributions says: its pieces of passage text and its passage decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from attribeam.attribution.evidence.span_result import PassageDecision, decide_passage
from attribeam.attribution.evidence.union import UnionScores, WindowedScores
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import CharRange, EvidencePiece, Passage


@dataclass(frozen=True, slots=True)
class UnionEvidence:
    """The evidence of one union, shared by all spans whose tokens have the same atomic facts.

    ``scores`` are those of the passages. ``evidence_passages`` are the passages with a piece, ascending.
    """

    pieces: list[UnscaledPiece]
    scores: tuple[float, ...]
    decision: PassageDecision
    evidence_passages: tuple[int, ...]
    evidence_isolated: bool


def union_evidence(scores: WindowedScores, *, encoded: EncodedRow, passages: Sequence[Passage]) -> list[UnionEvidence]:
    """For each union, cut the evidence into pieces and decide the passage (Section 4.1: the largest summed score).

    Without evidence there is no passage, whatever the context says.
    """
    evidence = scores.evidence
    found = zip(
        evidence_pieces(evidence, encoded=encoded, passages=passages),
        scores.passage_scores.tolist(),
        evidence.evidence_isolated,
        strict=True,
    )
    return [_evidence_of_union(pieces, sums, isolated) for pieces, sums, isolated in found]


def _evidence_of_union(pieces: list[UnscaledPiece], sums: list[float], isolated: bool) -> UnionEvidence:
    scores = tuple(sums) if pieces else (0.0,) * len(sums)
    return UnionEvidence(
        pieces=pieces,
        scores=scores,
        decision=decide_passage(scores),
        evidence_passages=tuple(sorted({piece[0] for piece in pieces})),
        evidence_isolated=isolated,
    )


_Run = tuple[int, int, bool, int, int, float]  # union, passage_index, in_title, char_start, char_end, score
UnscaledPiece: TypeAlias = tuple[int, str | None, bool, CharRange, str, float]
"""The fields of an ``EvidencePiece``, its score that of the union."""


def evidence_pieces(
    scores: UnionScores, *, encoded: EncodedRow, passages: Sequence[Passage]
) -> list[list[UnscaledPiece]]:
    """For each union its evidence as pieces of neighbouring tokens, by falling score, then passage, title, place.

    Tokens of one text are neighbours where their columns are, or where only white space lies between. A piece has no
    white space at its edges unless it is nothing else.
    """
    pieces: list[list[UnscaledPiece]] = [[] for _ in scores.evidence_isolated]
    for (union, index, in_title, start, end, score), text in _joined_runs(_column_runs(scores, encoded), passages):
        chars, covered = _trimmed(text, start, end)
        pieces[union].append((index, passages[index].passage_id, in_title, chars, covered, score))
    for of_union in pieces:
        of_union.sort(key=_rank)
    return pieces


def scaled_pieces(pieces: Sequence[UnscaledPiece], factor: float) -> tuple[EvidencePiece, ...]:
    """The pieces with their scores times a positive factor; their order stays."""
    return tuple(
        [
            EvidencePiece(index, passage_id, in_title, chars, text, score * factor)
            for index, passage_id, in_title, chars, text, score in pieces
        ]
    )


def _rank(piece: UnscaledPiece) -> tuple[float, int, bool, int]:
    index, _, in_title, chars, _, score = piece
    return -score, index, not in_title, chars.char_start


def _column_runs(scores: UnionScores, encoded: EncodedRow) -> Iterator[_Run]:
    """Runs of adjacent columns of one text, ascending within each union."""
    columns, unions = scores.columns, scores.unions
    if not len(columns):
        return iter(())
    texts = 2 * encoded.column_passage[columns] + encoded.column_in_title[columns]
    ends_run = (columns[1:] - columns[:-1] != 1) | (texts[1:] != texts[:-1]) | (unions[1:] != unions[:-1])
    lasts = np.append(np.flatnonzero(ends_run), len(columns) - 1)
    starts = np.append(0, lasts[:-1] + 1)
    firsts = columns[starts]
    return zip(
        unions[starts].tolist(),
        encoded.column_passage[firsts].tolist(),
        encoded.column_in_title[firsts].tolist(),
        encoded.column_char_start[firsts].tolist(),
        encoded.column_char_end[columns[lasts]].tolist(),
        np.add.reduceat(scores.scores, starts).tolist(),
        strict=True,
    )


def _joined_runs(runs: Iterator[_Run], passages: Sequence[Passage]) -> Iterator[tuple[_Run, str]]:
    """Runs joined where only white space, or nothing, lies between, each with the text that it stands in."""
    joined: _Run | None = None
    text = ""
    for run in runs:
        if joined is not None and joined[:3] == run[:3]:
            between = text[joined[4] : run[3]]
            if not between or between.isspace():
                joined = (*joined[:4], max(joined[4], run[4]), joined[5] + run[5])
                continue
        if joined is not None:
            yield joined, text
        joined, text = run, _text(passages[run[1]], in_title=run[2])
    if joined is not None:
        yield joined, text


def _trimmed(text: str, char_start: int, char_end: int) -> tuple[CharRange, str]:
    """The range without white space at its edges, and what it covers; all of it where it is nothing else."""
    covered = text[char_start:char_end]
    visible = covered.strip()
    if not visible or len(visible) == len(covered):
        return CharRange(char_start, char_end), covered
    char_start += len(covered) - len(covered.lstrip())
    return CharRange(char_start, char_start + len(visible)), visible


def _text(passage: Passage, *, in_title: bool) -> str:
    return (passage.title or "") if in_title else passage.text
