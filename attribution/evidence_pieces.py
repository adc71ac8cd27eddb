"""Evidence tokens merged into pieces of passage text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attribution.token_attribution import EncodedRow
from attribution.union import SpanScores
from schemas import CharRange, EvidencePiece, Passage


@dataclass(slots=True)
class _Run:
    passage_index: int
    in_title: bool
    column_end: int
    char_start: int
    char_end: int
    score: float


def evidence_pieces(
    scores: SpanScores, *, encoded: EncodedRow, passages: Sequence[Passage]
) -> tuple[EvidencePiece, ...]:
    """The evidence as pieces of neighbouring tokens, by falling score, then passage, title, place.

    Tokens of one text are neighbours where their columns are, or where only white space lies between. A piece has no
    white space at its edges unless it is nothing else; tokens that cover no code point are in no piece.
    """
    pieces = [_piece(run, passages) for run in _runs(scores, encoded, passages)]
    pieces.sort(key=lambda one: (-one.score, one.passage_index, not one.in_title, one.chars))
    return tuple(pieces)


def _runs(scores: SpanScores, encoded: EncodedRow, passages: Sequence[Passage]) -> Iterator[_Run]:
    columns = scores.columns
    run: _Run | None = None
    for column, passage_index, in_title, char_start, char_end, score in zip(
        columns.tolist(),
        encoded.column_passage[columns].tolist(),
        encoded.column_in_title[columns].tolist(),
        encoded.column_char_start[columns].tolist(),
        encoded.column_char_end[columns].tolist(),
        scores.scores.tolist(),
        strict=True,
    ):
        if char_start >= char_end:
            continue
        if run is not None and (run.passage_index, run.in_title) == (passage_index, in_title):
            between = _text(passages, passage_index, in_title)[run.char_end : char_start]
            if column == run.column_end or not between or between.isspace():
                run.column_end = column + 1
                run.char_end = max(run.char_end, char_end)
                run.score += score
                continue
        if run is not None:
            yield run
        run = _Run(passage_index, in_title, column + 1, char_start, char_end, score)
    if run is not None:
        yield run


def _piece(run: _Run, passages: Sequence[Passage]) -> EvidencePiece:
    passage = passages[run.passage_index]
    text = _text(passages, run.passage_index, run.in_title)
    covered = text[run.char_start : run.char_end]
    char_start = run.char_start + len(covered) - len(covered.lstrip())
    char_end = char_start + len(covered.strip())
    chars = CharRange(char_start, char_end) if char_start < char_end else CharRange(run.char_start, run.char_end)
    return EvidencePiece(run.passage_index, passage.passage_id, run.in_title, chars, chars.of(text), run.score)


def _text(passages: Sequence[Passage], passage_index: int, in_title: bool) -> str:
    passage = passages[passage_index]
    return (passage.title or "") if in_title else passage.text
