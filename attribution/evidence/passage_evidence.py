"""What a union of token-wise attributions says: its pieces of passage text and its passage decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from attribeam.attribution.evidence.readable_pieces import FAINT_SHARE, Run, readable_runs, text_of
from attribeam.attribution.evidence.span_result import PassageDecision, decide_passage
from attribeam.attribution.evidence.union import UnionScores, WindowedScores
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import CharRange, EvidencePiece, Passage, TokenEvidence


@dataclass(frozen=True, slots=True)
class UnionEvidence:
    """The evidence of one union, shared by all spans whose tokens have the same atomic facts.

    ``scores`` are those of the passages. ``evidence_passages`` are the passages with evidence tokens, ascending.
    """

    pieces: list[UnscaledPiece]
    scores: tuple[float, ...]
    decision: PassageDecision
    evidence_passages: tuple[int, ...]
    evidence_isolated: bool
    tokens: tuple[TokenEvidence, ...] | None


def union_evidence(
    scores: WindowedScores, *, encoded: EncodedRow, passages: Sequence[Passage], with_tokens: bool = False
) -> list[UnionEvidence]:
    """For each union, cut the evidence into pieces and decide the passage (Section 4.1: the largest summed score).

    Without evidence there is no passage, whatever the context says. The evidence tokens themselves are there only
    ``with_tokens``.
    """
    having = _passages_with_evidence(scores.evidence, encoded, len(passages))
    sums = [
        tuple(row) if own else (0.0,) * len(row)
        for row, own in zip(scores.passage_scores.tolist(), having, strict=True)
    ]
    decisions = [decide_passage(row) for row in sums]
    pieces = evidence_pieces(
        scores.evidence, encoded=encoded, passages=passages, leading=[decision.top_index for decision in decisions]
    )
    tokens = evidence_tokens(scores.evidence, encoded=encoded) if with_tokens else [None] * len(pieces)
    found = zip(pieces, sums, decisions, having, scores.evidence.evidence_isolated, tokens, strict=True)
    return [UnionEvidence(*of_union) for of_union in found]


def _passages_with_evidence(scores: UnionScores, encoded: EncodedRow, passage_count: int) -> list[tuple[int, ...]]:
    """For each union the passages with evidence, ascending."""
    found: list[list[int]] = [[] for _ in scores.evidence_isolated]
    cells = np.unique(scores.unions * passage_count + encoded.column_passage[scores.columns])
    for union, passage in zip(*(part.tolist() for part in np.divmod(cells, passage_count)), strict=True):
        found[union].append(passage)
    return [tuple(one) for one in found]


UnscaledPiece: TypeAlias = tuple[int, str | None, bool, CharRange, str, float]
"""The fields of an ``EvidencePiece``, its score that of the union."""


def evidence_pieces(
    scores: UnionScores,
    *,
    encoded: EncodedRow,
    passages: Sequence[Passage],
    leading: Sequence[int | None] | None = None,
) -> list[list[UnscaledPiece]]:
    """For each union its evidence as pieces of passage text, by falling score, then passage, title, place.

    ``readable_pieces`` says what becomes a piece; ``leading`` is each union's passage, None where it has none. A piece
    has no white space at its edges unless it is nothing else.
    """
    pieces: list[list[UnscaledPiece]] = [[] for _ in scores.evidence_isolated]
    for union, found in groupby(_column_runs(scores, encoded), key=itemgetter(0)):
        runs = readable_runs((run for _, run in found), passages, leading=leading[union] if leading else None)
        pieces[union] = sorted((_piece(run, passages) for run in runs), key=_rank)
    return pieces


def _piece(run: Run, passages: Sequence[Passage]) -> UnscaledPiece:
    index, in_title, start, end, score = run
    chars, covered = _trimmed(text_of(run, passages), start, end)
    return index, passages[index].passage_id, in_title, chars, covered, score


def scaled_pieces(pieces: Sequence[UnscaledPiece], factor: float) -> tuple[EvidencePiece, ...]:
    """The pieces with their scores times a positive factor; their order stays."""
    return tuple(
        [
            EvidencePiece(index, passage_id, in_title, chars, text, score * factor)
            for index, passage_id, in_title, chars, text, score in pieces
        ]
    )


def evidence_tokens(scores: UnionScores, *, encoded: EncodedRow) -> list[tuple[TokenEvidence, ...]]:
    """For each union every token of its evidence, in the order of the prompt."""
    tokens: list[list[TokenEvidence]] = [[] for _ in scores.evidence_isolated]
    columns = scores.columns
    parts = (
        scores.unions,
        encoded.column_passage[columns],
        encoded.column_in_title[columns],
        encoded.column_char_start[columns],
        encoded.column_char_end[columns],
        scores.scores,
    )
    for union, passage, in_title, start, end, score in zip(*(part.tolist() for part in parts), strict=True):
        tokens[union].append(TokenEvidence(passage, in_title, CharRange(start, end), score))
    return [tuple(one) for one in tokens]


def scaled_tokens(tokens: Sequence[TokenEvidence], factor: float) -> tuple[TokenEvidence, ...]:
    """The tokens with their scores times a positive factor."""
    return tuple([replace(token, score=token.score * factor) for token in tokens])


def _rank(piece: UnscaledPiece) -> tuple[float, int, bool, int]:
    index, _, in_title, chars, _, score = piece
    return -score, index, not in_title, chars.char_start


def _column_runs(scores: UnionScores, encoded: EncodedRow) -> Iterator[tuple[int, Run]]:
    """Unions and their runs of adjacent columns of one text, both ascending, without the faint ones."""
    columns, unions = scores.columns, scores.unions
    if not len(columns):
        return iter(())
    texts = 2 * encoded.column_passage[columns] + encoded.column_in_title[columns]
    ends_run = (columns[1:] - columns[:-1] != 1) | (texts[1:] != texts[:-1]) | (unions[1:] != unions[:-1])
    lasts = np.append(np.flatnonzero(ends_run), len(columns) - 1)
    starts = np.append(0, lasts[:-1] + 1)
    sums = np.add.reduceat(scores.scores, starts)
    best = np.zeros(len(scores.evidence_isolated))
    np.maximum.at(best, unions[starts], sums)
    clear = sums >= FAINT_SHARE * best[unions[starts]]
    starts, lasts = starts[clear], lasts[clear]
    firsts = columns[starts]
    runs = zip(
        encoded.column_passage[firsts].tolist(),
        encoded.column_in_title[firsts].tolist(),
        encoded.column_char_start[firsts].tolist(),
        encoded.column_char_end[columns[lasts]].tolist(),
        sums[clear].tolist(),
        strict=True,
    )
    return zip(unions[starts].tolist(), runs, strict=True)


def _trimmed(text: str, char_start: int, char_end: int) -> tuple[CharRange, str]:
    """The range without white space at its edges, and what it covers; all of it where it is nothing else."""
    covered = text[char_start:char_end]
    visible = covered.strip()
    if not visible or len(visible) == len(covered):
        return CharRange(char_start, char_end), covered
    char_start += len(covered) - len(covered.lstrip())
    return CharRange(char_start, char_start + len(visible)), visible
