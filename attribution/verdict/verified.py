"""The verdict of a verifier.

What a verifier is: a model that says how far passages support the claims of an answer.

``attribeam.attribution.verifiers`` reads those of the hub. A verifier of another package is found by the entry-point
group ``attribeam.verifiers``, whose names are values of ``--verdict``; docs/extending.md shows one.

Gives evidence records the verdict of a verifier, and reads what ``attribeam calibrate`` fitted to one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from attribeam.attribution.option_declaration import VERIFIER_FILE
from attribeam.attribution.verdict.state_probe import HIGHEST, LOWEST
from attribeam.schemas import CharRange, QARecord, RowFault, SpanEvidence, Support
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.json_file import Form, Line, Name, Number, Share, read_form

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class ClaimToVerify:
    """A claim of an answer.

    Attributes:
        chars: its range in the answer, within which no other claim counts for it.
        text: it as a sentence of its own: with what it takes from elsewhere in its sentence.
        passages: indices of the passages, those with most evidence for it first; all of them.
    """

    chars: CharRange
    text: str
    passages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnswerToVerify:
    """An answer and its claims, in the order of their spans; there is at least one."""

    record: QARecord
    claims: tuple[ClaimToVerify, ...]


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """What a verifier says of an answer.

    Attributes:
        support: for each claim the probability that the passages support it, 0 to 1.
        doubtful: ranges of the answer that it holds for unsupported, ascending; empty where it judges whole claims.
    """

    support: tuple[float, ...]
    doubtful: tuple[CharRange, ...] = ()


class Verifier(Protocol):
    """A loaded verifier; ``device`` is where it runs."""

    @property
    def device(self) -> torch.device: ...

    def provenance(self) -> Mapping[str, str]:
        """What its numbers depend on, such as "verifier_revision": a commit or a digest of the model's files."""
        ...

    def verify(self, answers: Sequence[AnswerToVerify]) -> Sequence[VerifiedAnswer | RowFault]:
        """One outcome per answer, in order, computed in batches.

        A ``RowFault`` TOO_MANY_TOKENS leaves the answer to the bundled verdict; any other makes it a dead letter.
        """
        ...


UNCALIBRATED_RISK = 0.5
"""The risk from which an answer counts as one at risk where no threshold was fitted to the verifier."""
_Numbers = npt.NDArray[np.float64]


class Blend(Form):
    """A logistic regression on the log odds of two scores: the verifier's, and the bundled verdict's."""

    bias: Number = 0.0
    verifier: Number = 1.0
    bundled: Number = 0.0

    def of(self, verifier: _Numbers, bundled: _Numbers) -> _Numbers:
        """The probabilities that the two probabilities give together, [items]."""
        odds = self.bias + self.verifier * log_odds(verifier) + self.bundled * log_odds(bundled)
        shares: _Numbers = 1 / (1 + np.exp(-np.clip(odds, 2 * LOWEST, 2 * HIGHEST)))
        return shares


def log_odds(shares: _Numbers) -> _Numbers:
    """The log odds of probabilities, within the limits of a word's."""
    inside = np.clip(shares, 1e-9, 1 - 1e-9)
    odds: _Numbers = np.clip(np.log(inside) - np.log1p(-inside), LOWEST, HIGHEST)
    return odds


class VerifierForm(Form):
    """A calibrated verifier in a file.

    Attributes:
        verifier: as ``--verdict`` names it.
        identity: what its provenance said when it was calibrated.
        bundled: the digest of the bundled verdict whose scores are blended in; empty where none are.
        claims, answers: how support scores and risks are made.
        answer_risk, unsupported, supported: as ``VerdictThresholds`` has them.
    """

    verifier: Line
    identity: dict[Name, Line]
    bundled: Name = ""
    claims: Blend = Blend()
    answers: Blend = Blend()
    answer_risk: Share
    unsupported: Share
    supported: Share
    measured_on: Line

    @model_validator(mode="after")
    def _check(self) -> VerifierForm:
        if self.unsupported > self.supported:
            raise ValueError("unsupported should be at most supported")
        return self

    def check(self, provenance: Mapping[str, str]) -> None:
        """Check that verifier and bundled verdict are those of the calibration.

        Raises:
            ModelLoadError: if one is another.
        """
        expected = self.identity | ({"verdict_model": self.bundled} if self.bundled else {})
        for name, value in expected.items():
            if provenance.get(name) != value:
                raise ModelLoadError(
                    f"--verdict was calibrated for {self.verifier} with {name} {value}, there is {provenance.get(name)}"
                    "; calibrate it again with attribeam calibrate"
                )


@lru_cache(maxsize=4)
def calibrated_verifier(verdict: str) -> VerifierForm | None:
    """What ``attribeam calibrate`` wrote into the directory of this name; None for a verifier itself.

    Raises:
        DataError: if the file does not hold what it should.
    """
    file = Path(verdict).expanduser() / VERIFIER_FILE
    return read_form(file, VerifierForm) if file.is_file() else None


def calibration_texts(verdict: str) -> dict[str, str]:
    """For provenance: the risk from which answers are flagged, and the digest of what was fitted, if it was.

    Raises:
        DataError: as ``calibrated_verifier``.
    """
    fitted = calibrated_verifier(verdict)
    if fitted is None:
        return {"answer_risk_threshold": f"{UNCALIBRATED_RISK:g}"}
    digest = sha256(fitted.model_dump_json().encode()).hexdigest()
    return {
        "answer_risk_threshold": f"{fitted.answer_risk:g}",
        "verdict_calibration": digest[:16],
        "verdict_measured_on": fitted.measured_on,
    }


def answer_to_verify(record: QARecord, judged: Sequence[SpanEvidence]) -> AnswerToVerify | None:
    """The answer with the claims that the bundled verdict scored, in the order of their spans; None without any."""
    claims = tuple(
        ClaimToVerify(
            chars=one.chars,
            text=" ".join(chars.of(record.answer) for chars in one.atomic_fact),
            passages=tuple(sorted(range(len(record.passages)), key=lambda place: -one.passage_scores[place])),
        )
        for one in judged
        if _is_scored_claim(one)
    )
    return AnswerToVerify(record, claims) if claims else None


def verified_records(
    judged: Sequence[SpanEvidence], said: VerifiedAnswer, fitted: VerifierForm | None
) -> tuple[SpanEvidence, ...]:
    """The records with what the verifier says of their claims instead of the bundled verdict's scores and risk.

    Without ``fitted``, scores are the verifier's own and support is NOT_CALIBRATED. The risk of an answer is what its
    least supported claim leaves open. Spans that are no claims stay as they are, but for the answer's risk.
    """
    claims = [one for one in judged if _is_scored_claim(one)]
    own, bundled = np.array(said.support), np.array([one.support_score for one in claims], dtype=np.float64)
    risk, bundled_risk = 1 - own.min(), np.array([judged[0].answer_risk], dtype=np.float64)
    if fitted is not None:
        own = fitted.claims.of(own, bundled)
        risk = float(fitted.answers.of(np.array([risk]), bundled_risk)[0])
    scores = {one.span_index: float(score) for one, score in zip(claims, own, strict=True)}
    return tuple(_verified(one, scores, float(risk), said, fitted) for one in judged)


def _verified(
    found: SpanEvidence, scores: Mapping[int, float], risk: float, said: VerifiedAnswer, fitted: VerifierForm | None
) -> SpanEvidence:
    score = None if found.claim_index is None else scores.get(found.claim_index)
    if score is None:
        return replace(found, answer_risk=risk)
    support = Support.NOT_CALIBRATED if fitted is None else _support(score, fitted)
    doubtful = tuple(_within(one, found.chars) for one in said.doubtful if one.overlaps(found.chars))
    words = (doubtful or found.unsupported_words) if support is Support.UNSUPPORTED else ()
    return replace(
        found,
        support=support,
        support_score=score,
        answer_risk=risk,
        unsupported_words=words,
        reason=None,
        expected=None,
        how=None,
    )


def _support(score: float, fitted: VerifierForm) -> Support:
    if score < fitted.unsupported:
        return Support.UNSUPPORTED
    return Support.WEAK if score < fitted.supported else Support.SUPPORTED


def _within(one: CharRange, chars: CharRange) -> CharRange:
    return CharRange(max(one.char_start, chars.char_start), min(one.char_end, chars.char_end))


def _is_scored_claim(one: SpanEvidence) -> bool:
    return one.claim_index == one.span_index and one.support_score is not None
