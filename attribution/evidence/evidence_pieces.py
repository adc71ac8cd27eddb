"""Evidence tokens merged into pieces of passage text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from attribution.evidence.union import UnionScores
from attribution.token_attribution import EncodedRow
from schemas import CharRange, EvidencePiece, Passage

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
    for (union, index, in_title, start, end, score), text in _joined(_column_runs(scores, encoded), passages):
        chars, covered = _visible(text, start, end)
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


def _joined(runs: Iterator[_Run], passages: Sequence[Passage]) -> Iterator[tuple[_Run, str]]:
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


def _visible(text: str, char_start: int, char_end: int) -> tuple[CharRange, str]:
    """The range without white space at its edges, and what it covers; all of it where it is nothing else."""
    covered = text[char_start:char_end]
    visible = covered.strip()
    if not visible or len(visible) == len(covered):
        return CharRange(char_start, char_end), covered
    char_start += len(covered) - len(covered.lstrip())
    return CharRange(char_start, char_start + len(visible)), visible


def _text(passage: Passage, *, in_title: bool) -> str:
    return (passage.title or "") if in_title else passage.text
