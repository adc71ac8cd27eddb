"""Verdicts other than the fitted one, and what ``attribeam calibrate`` fitted to them: evidence mass and verifiers.

A verifier is a model that says how far passages support the claims of an answer. Those of the hub are read by
``attribution.language_models.verifiers``. One of another package is found by the entry-point group
``attribeam.verifiers``, whose names are values of ``--verdict``; docs/verifiers.md shows one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pydantic
from pydantic import model_validator

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.option_declaration import BUNDLED_VERDICT_NAME, MASS_FILE, MASS_VERDICT, VERIFIER_FILE
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.fitted_parts import HIGHEST, LOWEST, UNREAD
from attribeam.schemas import CharRange, QARecord, Reason, RowFault, SpanEvidence, Support
from attribeam.schemas.errors import ModelLoadError, UsageError
from attribeam.schemas.files import STRICT, Form, Line, Name, Number, Share, read_form

if TYPE_CHECKING:
    import torch


_Options = TypeVar("_Options", bound=MethodOptions)


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=STRICT)
class MassThresholds:
    """Two thresholds, and the model and method whose evidence mass they were fitted to.

    Attributes:
        model: as ``--model`` names it.
        layer: whose attention was taken; empty for methods without one.
        measured_on: on what, to follow "measured on".
    """

    supported_threshold: Share
    weak_threshold: Share
    model: Line
    method: Line
    layer: Line
    measured_on: Line

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.weak_threshold > self.supported_threshold:
            raise ValueError(
                "weak_threshold should be at most supported_threshold, were: "
                f"{self.weak_threshold:g} and {self.supported_threshold:g}"
            )
        return self

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"


def with_calibrated_mass(options: _Options, *, model: str) -> _Options:
    """The options, with the verdict "mass" where they give a threshold of evidence mass, or name a directory of some.

    Raises:
        UsageError: if the thresholds belong to another model or method, or the options set some of their own; if a
            threshold of mass goes with a fitted verdict, or strictness or prior with mass.
        DataError: if their file cannot be read, or does not hold what it should.
    """
    has_own = bool({"supported_threshold", "weak_threshold"} & options.model_fields_set)
    asks_for_strictness = options.strictness is not None or options.prior is not None
    if options.verdict in (BUNDLED_VERDICT_NAME, MASS_VERDICT):
        if not has_own and options.verdict != MASS_VERDICT:
            return options
        if asks_for_strictness:
            raise UsageError(
                "--strictness and --prior are for a fitted verdict, not for evidence mass; leave them out, or the "
                "thresholds of mass and --verdict mass"
            )
        return options.replaced(verdict=MASS_VERDICT)
    file = Path(options.verdict) / MASS_FILE
    if not file.is_file():
        if has_own:
            raise UsageError(
                f"--verdict {options.verdict} compares no evidence mass; leave out --supported-threshold and "
                "--weak-threshold, or the verdict"
            )
        return options
    mass = read_form(file, MassThresholds)
    if has_own or asks_for_strictness:
        raise UsageError(
            f"--verdict {options.verdict} sets the thresholds of evidence mass; leave out --supported-threshold, "
            "--weak-threshold, --strictness and --prior, or the verdict"
        )
    for name, value in (("model", model), ("method", options.method)):
        if value != getattr(mass, name):
            raise UsageError(
                f"--verdict {options.verdict} has thresholds of evidence mass for --{name} {getattr(mass, name)}, not "
                f"for {value}, whose masses are others; name that {name}, or run attribeam calibrate for this one"
            )
    return options.replaced(
        verdict=MASS_VERDICT,
        supported_threshold=mass.supported_threshold,
        weak_threshold=mass.weak_threshold,
    )


@dataclass(frozen=True, slots=True)
class ClaimToVerify:
    """A claim of an answer.

    Attributes:
        chars: its range in the answer, within which no other claim counts for it.
        text: it as a sentence of its own: with what it takes from elsewhere in its sentence.
        passages: indices of all passages, those with most evidence for it first.
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


Reading: TypeAlias = tuple[float, ...] | VerifiedAnswer
"""The probe's log odds of each word of an answer, or what a verifier says of its claims; ``UNREAD`` for an answer that
is too long for the model, even with one passage at a time."""


@dataclass(frozen=True, slots=True)
class AnswerToRead:
    """An answer, and its records by the bundled verdict where that judges first."""

    record: QARecord
    parsed: ParsedAnswer
    judged: tuple[SpanEvidence, ...] | None


class VerdictReader(Protocol):
    """The loaded model of a verdict; ``device`` is where it runs."""

    @property
    def device(self) -> torch.device: ...

    def provenance(self) -> Mapping[str, str]:
        """What its readings depend on."""
        ...

    def read(self, answers: Sequence[AnswerToRead]) -> Sequence[Reading | RowFault | None]:
        """One outcome per answer, in order; None where there is nothing to read, a ``RowFault`` for a refused one."""
        ...


@dataclass(frozen=True, slots=True)
class VerifierReader:
    """Reads with a verifier the claims that the bundled verdict scored; an answer without one is not read."""

    verifier: Verifier

    @property
    def device(self) -> torch.device:
        return self.verifier.device

    def provenance(self) -> Mapping[str, str]:
        return self.verifier.provenance()

    def read(self, answers: Sequence[AnswerToRead]) -> Sequence[Reading | RowFault | None]:
        asked = [answer_to_verify(answer.record, answer.judged or ()) for answer in answers]
        said = iter(self.verifier.verify([answer for answer in asked if answer is not None]))
        return [None if answer is None else or_unread(next(said)) for answer in asked]


def or_unread(reading: Reading | RowFault) -> Reading | RowFault:
    """What was read of an answer; ``UNREAD`` for one that is too long."""
    return UNREAD if isinstance(reading, RowFault) and reading.reason is Reason.TOO_MANY_TOKENS else reading


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

    def support(self, score: float) -> Support:
        """What a support score says."""
        if score < self.unsupported:
            return Support.UNSUPPORTED
        return Support.WEAK if score < self.supported else Support.SUPPORTED

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
            chars=span.chars,
            text=" ".join(chars.of(record.answer) for chars in span.atomic_fact),
            passages=tuple(sorted(range(len(record.passages)), key=lambda index: -span.passage_scores[index])),
        )
        for span in judged
        if _is_scored_claim(span)
    )
    return AnswerToVerify(record, claims) if claims else None


def verified_records(
    judged: Sequence[SpanEvidence], said: VerifiedAnswer, fitted: VerifierForm | None
) -> tuple[SpanEvidence, ...]:
    """The records with what the verifier says of their claims instead of the bundled verdict's scores and risk.

    Without ``fitted``, scores are the verifier's own and support is NOT_CALIBRATED. The risk of an answer is what its
    least supported claim leaves open. Spans that are no claims stay as they are, but for the answer's risk.
    """
    claims = [claim for claim in judged if _is_scored_claim(claim)]
    supports, bundled = np.array(said.support), np.array([claim.support_score for claim in claims], dtype=np.float64)
    risk, bundled_risk = 1 - supports.min(), np.array([judged[0].answer_risk], dtype=np.float64)
    if fitted is not None:
        supports = fitted.claims.of(supports, bundled)
        risk = float(fitted.answers.of(np.array([risk]), bundled_risk)[0])
    scores = {claim.span_index: float(score) for claim, score in zip(claims, supports, strict=True)}
    records = []
    for span in judged:
        score = None if span.claim_index is None else scores.get(span.claim_index)
        record = replace(span, answer_risk=float(risk))
        if score is not None:
            support = Support.NOT_CALIBRATED if fitted is None else fitted.support(score)
            doubtful = tuple(
                CharRange(max(chars.char_start, span.chars.char_start), min(chars.char_end, span.chars.char_end))
                for chars in said.doubtful
                if chars.overlaps(span.chars)
            )
            words = (doubtful or span.unsupported_words) if support is Support.UNSUPPORTED else ()
            record = replace(record, support=support, support_score=score, unsupported_words=words)
            record = replace(record, reason=None, expected=None, how=None)
        records.append(record)
    return tuple(records)


def _is_scored_claim(span: SpanEvidence) -> bool:
    return span.claim_index == span.span_index and span.support_score is not None
