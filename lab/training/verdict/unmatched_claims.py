"""What an unmatched value means for its claim and its answer: shares of what people marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.verdict_model import unmatched_claims
from attribeam.lab.training.verdict.cross_validation import Scored
from attribeam.lab.training.verdict.verdict_rows import VerdictRow

_LEAST, _MOST = 0.01, 0.99


@dataclass(frozen=True, slots=True)
class UnmatchedShares:
    """Among claims with an unmatched value the share that people left unmarked, and among their answers that marked."""

    support_score: float
    answer_risk: float


def unmatched_shares(rows: Sequence[VerdictRow]) -> UnmatchedShares:
    """The shares in judged answers; without any such claim nothing is known, and nothing follows."""
    claims = [row.marked_claims[unmatched_claims(row.signals, row.claims)] for row in rows]
    answers = [row.is_marked for row, found in zip(rows, claims, strict=True) if len(found)]
    if not answers:
        return UnmatchedShares(1.0, 0.0)
    support, risk = 1 - float(np.concatenate(claims).mean()), float(np.mean(answers))
    return UnmatchedShares(round(float(np.clip(support, _LEAST, _MOST)), 4), round(min(risk, _MOST), 4))


def with_unmatched(rows: Sequence[VerdictRow], scores: Sequence[Scored], shares: UnmatchedShares) -> list[Scored]:
    """The scores with those limits: no such claim scores more than that share, no such answer risks less."""
    found = []
    for row, one in zip(rows, scores, strict=True):
        unmatched = unmatched_claims(row.signals, row.claims)
        if not unmatched.any() or shares.answer_risk <= 0:
            found.append(one)
            continue
        claims: npt.NDArray[np.float64] = np.where(
            unmatched, np.maximum(one.claims, _log_odds(1 - shares.support_score)), one.claims
        )
        found.append(replace(one, claims=claims, answer=max(one.answer, _log_odds(shares.answer_risk))))
    return found


def _log_odds(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))
