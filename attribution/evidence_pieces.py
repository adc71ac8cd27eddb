"""Evidence tokens merged into pieces of passage text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attribution.token_attribution import EncodedRow
from attribution.union import SpanScores
from schemas import CharRange, EvidencePiece, Passage

_Run = tuple[int, bool, int, int, float]  # passage_index, in_title, char_start, char_end, score


def evidence_pieces(
    scores: SpanScores, *, encoded: EncodedRow, passages: Sequence[Passage]
) -> tuple[EvidencePiece, ...]:
    """The evidence as pieces of neighbouring tokens, by falling score, then passage, title, place.

    Tokens of one text are neighbours where their columns are, or where only white space lies between. A piece has no
    white space at its edges unless it is nothing else; tokens that cover no code point are in no piece.
    """
    pieces = [_piece(run, passages) for run in _joined(_column_runs(scores, encoded), passages)]
    pieces.sort(key=lambda one: (-one.score, one.passage_index, not one.in_title, one.chars.char_start))
    return tuple(pieces)


def scaled_pieces(pieces: Sequence[EvidencePiece], factor: float) -> tuple[EvidencePiece, ...]:
    """The same pieces with their scores times a positive factor; their order stays."""
    return tuple(
        EvidencePiece(one.passage_index, one.passage_id, one.in_title, one.chars, one.text, one.score * factor)
        for one in pieces
    )


def _column_runs(scores: SpanScores, encoded: EncodedRow) -> Iterator[_Run]:
    """Runs of adjacent columns of one text, ascending."""
    visible = encoded.column_char_start[scores.columns] < encoded.column_char_end[scores.columns]
    columns = scores.columns[visible]
    if not len(columns):
        return iter(())
    texts = 2 * encoded.column_passage[columns] + encoded.column_in_title[columns]
    last_of_run = (columns[1:] - columns[:-1] > 1) | (texts[1:] != texts[:-1])
    lasts = np.append(np.flatnonzero(last_of_run), len(columns) - 1)
    starts = np.append(0, lasts[:-1] + 1)
    return zip(
        encoded.column_passage[columns[starts]].tolist(),
        encoded.column_in_title[columns[starts]].tolist(),
        encoded.column_char_start[columns[starts]].tolist(),
        encoded.column_char_end[columns[lasts]].tolist(),
        np.add.reduceat(scores.scores[visible], starts).tolist(),
        strict=True,
    )


def _joined(runs: Iterator[_Run], passages: Sequence[Passage]) -> Iterator[_Run]:
    """Runs joined where only white space, or nothing, lies between."""
    joined: _Run | None = None
    for run in runs:
        if joined is not None and joined[:2] == run[:2]:
            between = _text(passages, run)[joined[3] : run[2]]
            if not between or between.isspace():
                joined = (*joined[:3], max(joined[3], run[3]), joined[4] + run[4])
                continue
        if joined is not None:
            yield joined
        joined = run
    if joined is not None:
        yield joined


def _piece(run: _Run, passages: Sequence[Passage]) -> EvidencePiece:
    passage_index, in_title, char_start, char_end, score = run
    covered = _text(passages, run)[char_start:char_end]
    text = covered.strip()
    if text and len(text) < len(covered):
        char_start += len(covered) - len(covered.lstrip())
        char_end = char_start + len(text)
    chars = CharRange(char_start, char_end)
    return EvidencePiece(passage_index, passages[passage_index].passage_id, in_title, chars, text or covered, score)


def _text(passages: Sequence[Passage], run: _Run) -> str:
    passage = passages[run[0]]
    return (passage.title or "") if run[1] else passage.text
