"""What a union of token-wise attributions says: its pieces of passage text and the scores of the passages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from attribeam.attribution.evidence.readable_pieces import FAINT_SHARE, Run, readable_runs, text_of
from attribeam.attribution.evidence.union import UnionScores, WindowedScores
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import CharRange, EvidencePiece, Passage, TokenEvidence


@dataclass(frozen=True, slots=True)
class UnionEvidence:
    """The evidence of one union, shared by all spans whose tokens have the same atomic facts.

    ``scores`` are those of the passages, all zero without evidence, whatever the context says. ``evidence_passages``
    are the passages with evidence tokens, ascending. ``tokens`` is None unless asked for.
    """

    passages: Sequence[Passage]
    runs: list[Run]
    scores: tuple[float, ...]
    evidence_passages: tuple[int, ...]
    evidence_isolated: bool
    tokens: tuple[TokenEvidence, ...] | None
    _pieces: dict[int | None, list[UnscaledPiece]] = field(default_factory=dict)

    def pieces(self, leading: int | None) -> list[UnscaledPiece]:
        """The pieces of a span whose best passage is ``leading``."""
        if leading not in self._pieces:
            self._pieces[leading] = _pieces(self.runs, self.passages, leading)
        return self._pieces[leading]


def union_evidence(
    scores: WindowedScores, *, encoded: EncodedRow, passages: Sequence[Passage], with_tokens: bool = False
) -> list[UnionEvidence]:
    """The evidence of each union; the evidence tokens themselves are there only ``with_tokens``."""
    having = _passages_with_evidence(scores.evidence, encoded, len(passages))
    found = zip(
        _runs_of_unions(scores.evidence, encoded),
        scores.passage_scores.tolist(),
        having,
        scores.evidence.evidence_isolated,
        evidence_tokens(scores.evidence, encoded=encoded) if with_tokens else [None] * len(having),
        strict=True,
    )
    return [
        UnionEvidence(passages, runs, tuple(sums) if own else (0.0,) * len(sums), own, isolated, tokens)
        for runs, sums, own, isolated, tokens in found
    ]


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
    scores: UnionScores, *, encoded: EncodedRow, passages: Sequence[Passage]
) -> list[list[UnscaledPiece]]:
    """For each union its evidence as pieces of passage text, by falling score, then passage, title, place.

    ``readable_pieces`` says what becomes a piece. A piece has no white space at its edges unless it is nothing else.
    """
    return [_pieces(runs, passages, None) for runs in _runs_of_unions(scores, encoded)]


def _pieces(runs: Sequence[Run], passages: Sequence[Passage], leading: int | None) -> list[UnscaledPiece]:
    return sorted((_piece(run, passages) for run in readable_runs(runs, passages, leading=leading)), key=_rank)


def _runs_of_unions(scores: UnionScores, encoded: EncodedRow) -> list[list[Run]]:
    runs: list[list[Run]] = [[] for _ in scores.evidence_isolated]
    for union, run in _column_runs(scores, encoded):
        runs[union].append(run)
    return runs


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
