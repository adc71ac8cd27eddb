"""The fitted verdict: from the signals of an answer's words to its claims' support scores and the answer's risk.

Trees give each word a probability that it is unsupported; other trees judge each claim by its premise and its words. A
logistic regression on both, and on what is measured of the whole answer, gives the answer its risk, and the riskiest
claim with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
import pydantic
from pydantic import Field, field_validator, model_validator

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.option_declaration import BUNDLED_VERDICT_NAME, SHIPPED_VERDICTS, VERDICT_FILE, Strictness
from attribeam.attribution.verdict.claim_reader import NOTHING_READ, READER_FILES, ClaimReader, load_reader
from attribeam.attribution.verdict.claims import WordKinds
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, is_attended
from attribeam.attribution.verdict.record_fields import RowKind
from attribeam.attribution.verdict.regressions import (
    OTHER_SIGNALS,
    AnswerRegression,
    AnswersForm,
    BoostedTrees,
    TreesForm,
)
from attribeam.attribution.verdict.signals import AnswerRow, Signals, answer_signals
from attribeam.attribution.verdict.state_probe import HIGHEST, LOWEST, UNREAD, ProbeForm, StateProbe
from attribeam.attribution.verdict.word_forms import WORD_FILES, WordTable, word_table
from attribeam.schemas import CharRange, ClaimKind, Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.json_file import STRICT, Form, Line, Name, Number, Share, read_form, read_regular

SHARED_WORDS = "word_table"
"""The key of a verdict's file that names the shipped verdict whose table of words it shares."""
_BUNDLED = Path(__file__).parent.parent / "bundled"
BUNDLED_VERDICT = _BUNDLED / SHIPPED_VERDICTS[BUNDLED_VERDICT_NAME]

_DIGEST_LETTERS = 16
_VALUES_ANYWHERE = PREMISE_NUMBERS.index("values_anywhere")
_MISSING_NUMBERS = PREMISE_NUMBERS.index("missing_numbers")
_LEAST_WITHOUT_NAME, _LEAST_WITHOUT_NUMBER = math.log(0.4 / 0.6), math.log(0.53 / 0.47)
_Numbers = npt.NDArray[np.float64]


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=STRICT)
class VerdictThresholds:
    """Where verdicts change; each is from 0 to 1.

    Attributes:
        lenient, balanced, strict: the support score below which a claim is unsupported, by strictness.
        supported: the support score from which a claim is supported.
        word: the probability from which a word of an unsupported claim is named as what lacks support.
        weak_word: the same for a weak claim beside an unsupported one; with 1, none is.
    """

    lenient: Share
    balanced: Share
    strict: Share
    supported: Share
    word: Share
    weak_word: Share = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        ascending = (self.lenient, self.balanced, self.strict, self.supported)
        if list(ascending) != sorted(ascending):
            raise ValueError(
                f"lenient, balanced, strict, supported should ascend, were: {', '.join(map(str, ascending))}"
            )
        return self

    def unsupported(self, strictness: Strictness) -> float:
        """The support score below which a claim is unsupported."""
        return float(getattr(self, strictness.value))


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=STRICT)
class OperatingPoint:
    """What a risk threshold gave in cross-validation, as shares.

    Attributes:
        precision: of the flagged answers those that do have an unsupported claim.
        recall: of the answers with an unsupported claim those that are flagged.
        false_alarms: of the answers that people found clean those that are flagged.
    """

    answer_risk: Share
    precision: Share
    recall: Share
    false_alarms: Share


Points = Annotated[list[OperatingPoint], Field(min_length=1, max_length=1_000)]


class VerdictForm(Form):
    """What the file of a verdict holds."""

    measured_on: Line
    thresholds: VerdictThresholds
    operating_points: Points
    short_operating_points: Points
    answers: AnswersForm
    claims: TreesForm
    claim_fall: Annotated[Number, Field(gt=0)]
    claim_numbers: Annotated[list[Name], Field(min_length=1, max_length=1_000)]
    signals: Annotated[list[Name], Field(min_length=1, max_length=1_000)]
    words: TreesForm
    probe: ProbeForm | None = None
    word_table: Name | None = None

    @field_validator("word_table")
    @classmethod
    def _check_table(cls, name: str | None) -> str | None:
        if name is not None and name not in SHIPPED_VERDICTS:
            raise ValueError(f"should name one of {', '.join(SHIPPED_VERDICTS)}")
        return name

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, trees, columns in (
            ("words.trees", self.words, self.signals), ("claims.trees", self.claims, self.claim_numbers),
        ):  # fmt: skip
            if trees.column_count > len(columns):
                raise ValueError(
                    f"{name} should have columns below {len(columns)}, the number of what is measured, has one of "
                    f"{trees.column_count - 1}"
                )
        for name in ("operating_points", "short_operating_points"):
            if any(one.answer_risk >= next_.answer_risk for one, next_ in pairwise(getattr(self, name))):
                raise ValueError(f"{name} should ascend by answer_risk, do not")
        return self


@dataclass(frozen=True, slots=True)
class AnswerToScore:
    """An answer for the fitted model.

    Attributes:
        signals: of the judged words.
        claims: the words of each claim, by place in the answer.
        premises: float32 [PREMISE_NUMBERS] of each claim.
        read: what the verdict's reader says of each claim; None if it has none.
        probed: what the verdict's probe says of all words of the answer; ``UNREAD`` if the decoder could not read it,
            and the trees count alone; None if no decoder was asked.
    """

    signals: Signals
    claims: Sequence[Sequence[int]]
    premises: Sequence[npt.NDArray[np.float32]]
    read: npt.NDArray[np.float64] | None = None
    probed: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """What the verdict says of one answer: log odds, for an even prior, that something is unsupported.

    Attributes:
        words: float64 [judged words].
        claims: float64 [claims]; that of the riskiest claim is the answer's.
        answer: of the answer.
    """

    words: _Numbers
    claims: _Numbers
    answer: float


@dataclass(frozen=True, slots=True)
class VerdictModel:
    """The fitted verdict of one directory.

    Attributes:
        signal_names: the columns that the trees of words were fitted on.
        words: trees on the signals of a word.
        claims: trees on the numbers of a claim, which give its likelihood ratio.
        claim_names: the columns that they were fitted on.
        claim_fall: by how much the log odds of a claim fall below the answer's per unit of likelihood ratio that
            another claim is ahead.
        table: what is known of words beforehand.
        reader_directory: where that lies which reads claims beside their premises; None where the trees of claims were
            fitted without.
        probe: what reads a decoder's hidden states, None where the verdict needs no decoder.
        operating_points, short_operating_points: what each of some risk thresholds gave in cross-validation on long and
            on short answers, ascending by threshold.
        measured_on: on what, to follow "measured on".
        digest: SHA-256 of the fitted file, of the table of words and of the reader.
    """

    signal_names: tuple[str, ...]
    words: BoostedTrees
    claims: BoostedTrees
    claim_names: tuple[str, ...]
    claim_fall: float
    answers: AnswerRegression
    thresholds: VerdictThresholds
    table: WordTable
    reader_directory: Path | None
    probe: StateProbe | None
    operating_points: tuple[OperatingPoint, ...]
    short_operating_points: tuple[OperatingPoint, ...]
    measured_on: str
    digest: str

    def scored(self, answers: Sequence[AnswerToScore]) -> list[ScoredAnswer]:
        """What is said of answers that each have at least one claim.

        An answer's risk is that of its riskiest claim. So a support score means the same in short and in long answers.

        Raises:
            ModelLoadError: if the model was fitted on other numbers.
            RuntimeError: if it has a probe, and an answer's ``probed`` is None.
        """
        if not set(self.claim_names) <= set(CLAIM_NUMBERS):
            raise ModelLoadError(OTHER_SIGNALS)
        words = self._word_log_odds(answers)
        numbers = [
            claim_numbers(one.signals, odds, one.claims, one.premises, one.read)
            for one, odds in zip(answers, words, strict=True)
        ]
        columns = [CLAIM_NUMBERS.index(name) for name in self.claim_names]
        ratios = _of_each(self.claims, [one[:, columns] for one in numbers])
        risks = [self.answers.log_odds(one.signals, *odds) for one, *odds in zip(answers, words, ratios, strict=True)]
        claims = [claim_log_odds(*one, fall=self.claim_fall) for one in zip(ratios, risks, numbers, strict=True)]
        return [ScoredAnswer(*one, float(one[1].max())) for one in zip(words, claims, strict=True)]

    @property
    def reader(self) -> ClaimReader | None:
        """What reads claims beside their premises; it is loaded, and torch with it, when it is first asked for.

        Raises:
            DataError: as ``load_reader``.
        """
        return None if self.reader_directory is None else load_reader(self.reader_directory)

    def _word_log_odds(self, answers: Sequence[AnswerToScore]) -> list[_Numbers]:
        """The log odds that each judged word is unsupported, by the trees and by the probe where it read."""
        if any(one.signals.names != self.signal_names for one in answers):
            raise ModelLoadError(OTHER_SIGNALS)
        found = [
            np.clip(odds, LOWEST, HIGHEST) for odds in _of_each(self.words, [one.signals.values for one in answers])
        ]
        if self.probe is None:
            return found
        if any(one.probed is None for one in answers):
            raise RuntimeError("the verdict has a probe, but no decoder was asked to read the answer")
        return [
            self.probe.mixed(odds, np.array([one.probed[word] for word in one.signals.words]), one.signals.kind)
            if one.probed
            else odds
            for one, odds in zip(answers, found, strict=True)
        ]

    def provenance(self, strictness: Strictness, prior: float) -> dict[str, str]:
        """The model's digest, the thresholds in force, and what they gave in cross-validation.

        With a ``prior`` other than one half, risks of the cross-validation are moved by it. Of short answers nothing is
        said where they were not measured apart, as in calibration.
        """
        unsupported = self.thresholds.unsupported(strictness)
        level = 1 / (1 + math.exp(log_odds(prior) - log_odds(1 - unsupported)))
        found = {
            "verdict_model": self.digest[:_DIGEST_LETTERS],
            "verdict_strictness": strictness.value,
            "verdict_prior": f"{prior:g}",
            "answer_risk_threshold": f"{1 - unsupported:g}",
            "support_score_threshold": f"{self.thresholds.supported:g}",
            "verdict_measured_on": self.measured_on,
        }
        measured = [("verdict", self.operating_points)]
        if self.short_operating_points != self.operating_points:
            measured.append(("verdict_short", self.short_operating_points))
        for prefix, points in measured:
            nearest = min(points, key=lambda one: abs(one.answer_risk - level))
            found |= {
                f"{prefix}_{name}": f"{getattr(nearest, name):.3f}" for name in ("precision", "recall", "false_alarms")
            }
        return found


def verdict_directory(verdict: str) -> Path:
    """Where the verdict of this name is, or of this directory, which may be missing."""
    folder = SHIPPED_VERDICTS.get(verdict)
    return Path(verdict) if folder is None else _BUNDLED / folder


@lru_cache(maxsize=4)
def load_verdict_model(directory: Path = BUNDLED_VERDICT) -> VerdictModel:
    """Read the model of a directory once, and try it.

    Raises:
        DataError: if a file is missing, or does not hold what it should; the message names file and field.
        ModelLoadError: if it was fitted on other signals.
    """
    file = directory / VERDICT_FILE
    form = read_form(file, VerdictForm)
    words = directory if form.word_table is None else verdict_directory(form.word_table)
    has_reader = CLAIM_NUMBERS[-1] in form.claim_numbers
    files = (file, *(words / name for name in (*WORD_FILES, *(READER_FILES if has_reader else ()))))
    model = VerdictModel(
        signal_names=tuple(form.signals),
        words=BoostedTrees.from_json(form.words),
        claims=BoostedTrees.from_json(form.claims),
        claim_names=tuple(form.claim_numbers),
        claim_fall=form.claim_fall,
        answers=AnswerRegression.from_json(form.answers),
        thresholds=form.thresholds,
        table=word_table(words),
        reader_directory=words if has_reader else None,
        probe=None if form.probe is None else StateProbe.from_json(form.probe),
        operating_points=tuple(form.operating_points),
        short_operating_points=tuple(form.short_operating_points),
        measured_on=form.measured_on,
        digest=sha256(b"".join(map(read_regular, files))).hexdigest(),
    )
    try:
        _try(model)
    except ModelLoadError as error:
        raise ModelLoadError(f"{file}: {error}") from error
    return model


def _try(model: VerdictModel) -> None:
    """Judge one word of each kind of row, which shows whether the model was fitted on what this version measures."""
    record = QARecord("", "", (Passage(text="Rain fell."),), "Rain.", RowSource("", 0))
    parsed = ParsedAnswer((CharRange(0, 4),), (0,), ("root",), ("NOUN",), ("",), (0,))
    (signals,) = answer_signals([AnswerRow.of(record, parsed, WordKinds((ClaimKind.CLAIM,), ()))], model.table)
    for kind in RowKind:
        own = replace(signals, kind=kind)
        premise = np.zeros(len(PREMISE_NUMBERS), dtype=np.float32)
        model.scored([AnswerToScore(own, [own.words], [premise], probed=UNREAD)])


def _of_each(trees: BoostedTrees, numbers: Sequence[npt.NDArray[np.float32]]) -> list[_Numbers]:
    """The log odds of the rows of some matrices, all of them at once."""
    if not numbers:
        return []
    return np.split(trees.log_odds(np.concatenate(numbers)), np.cumsum([len(one) for one in numbers[:-1]]))


CLAIM_NUMBERS = (*PREMISE_NUMBERS, "highest_word", "highest_three_words", "mean_word", "attended_claims", "read")
"""What the trees of claims see: the claim beside its premise, the log odds of its words, whether evidence tells
anything in this answer (the share of its claims with evidence where their words are, among those whose words passages
have), and what the reader says; a verdict may have been fitted without the last."""


def claim_numbers(
    signals: Signals,
    word_log_odds: _Numbers,
    claims: Sequence[Sequence[int]],
    premises: Sequence[npt.NDArray[np.float32]],
    read: npt.NDArray[np.float64] | None,
) -> npt.NDArray[np.float32]:
    """float32 [claims, CLAIM_NUMBERS]; a claim is given by its words of the answer."""
    places = {word: place for place, word in enumerate(signals.words)}
    attended = [one for one in map(is_attended, premises) if one is not None]
    share = sum(attended) / len(attended) if attended else -1.0
    rows = []
    of_reader = [NOTHING_READ] * len(claims) if read is None else read.tolist()
    for words, premise, said in zip(claims, premises, of_reader, strict=True):
        own = [places[word] for word in words if word in places]
        ranked = np.sort(word_log_odds[own])[::-1] if own else np.array([LOWEST])
        rows.append([*premise, ranked[0], ranked[:3].mean(), ranked.mean(), share, said])
    return np.array(rows, dtype=np.float32).reshape(len(rows), len(CLAIM_NUMBERS))


def claim_log_odds(ratios: _Numbers, risk: float, numbers: npt.NDArray[np.float32], *, fall: float) -> _Numbers:
    """float64 [claims]: the log odds that each claim of an answer is unsupported; the largest are the answer's.

    Every claim lies below the riskiest by the difference of their likelihood ``ratios``, times ``fall``. One with a
    value that no passage has is never more likely supported than 0.6; where a number or date is missing, than 0.47.

    Args:
        ratios: log likelihood ratios of the claims.
        risk: the log odds of the answer.
        numbers: float32 [claims, PREMISE_NUMBERS and perhaps more].
    """
    least = np.where(numbers[:, _MISSING_NUMBERS] > 0, _LEAST_WITHOUT_NUMBER, _LEAST_WITHOUT_NAME)
    least = np.where(numbers[:, _VALUES_ANYWHERE] > 0, least, -np.inf)
    found: _Numbers = np.maximum(risk - fall * (ratios.max() - ratios), least)
    return found


def log_odds(probability: float) -> float:
    """The log odds of a probability, which is kept from 0 and 1 by a millionth."""
    kept = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(kept / (1 - kept))
