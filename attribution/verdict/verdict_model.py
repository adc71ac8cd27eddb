"""The fitted verdict: from the signals of an answer's words to its claims' support scores and the answer's risk.

Trees give each word a probability that it is unsupported. Logistic regressions on the words' log odds, and on what
is measured of the whole answer, give each claim its support score and the answer its risk.
"""

from __future__ import annotations

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
from attribeam.attribution.option_types import BUNDLED_VERDICT_NAME, SHIPPED_VERDICTS, VERDICT_FILE
from attribeam.attribution.verdict.answer_regression import AnswerRegression, AnswersForm
from attribeam.attribution.verdict.boosted_trees import BoostedTrees, TreesForm
from attribeam.attribution.verdict.claim_kinds import WordKinds
from attribeam.attribution.verdict.logistic_regression import OTHER_SIGNALS, LogisticRegression, RegressionForm
from attribeam.attribution.verdict.row_kind import RowKind
from attribeam.attribution.verdict.signals import Signals, answer_signals
from attribeam.attribution.verdict.state_probe import HIGHEST, LOWEST, UNREAD, ProbeForm, StateProbe
from attribeam.attribution.verdict.word_table import WORD_FILES, WordTable, word_table
from attribeam.schemas import CharRange, ClaimKind, Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.json_file import STRICT, Form, Line, Name, Share, read_form, read_regular

SHARED_WORDS = "word_table"
"""The key of a verdict's file that names the shipped verdict whose table of words it shares."""
_BUNDLED = Path(__file__).parent.parent / "bundled"
BUNDLED_VERDICT = _BUNDLED / SHIPPED_VERDICTS[BUNDLED_VERDICT_NAME]

_DIGEST_LETTERS = 16
_Numbers = npt.NDArray[np.float64]


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=STRICT)
class VerdictThresholds:
    """Where verdicts change; each is from 0 to 1.

    Attributes:
        answer_risk: the risk from which an answer is said to have an unsupported claim.
        unsupported: the support score below which a claim of such an answer is unsupported.
        supported: the support score from which a claim is supported.
        unmatched: the highest support score of a claim with a number, date or name that neither
            passages nor question have.
        unmatched_risk: the lowest risk of an answer with such a claim.
        literal: the lowest support score of a claim that stands literally in a passage.
        word: the probability from which a word of an unsupported claim is named as what lacks support.
        weak_word: the same for a weak claim of an answer that is said to have an unsupported one; with 1, none is.
    """

    answer_risk: Share
    unsupported: Share
    supported: Share
    unmatched: Share
    unmatched_risk: Share
    literal: Share
    word: Share
    weak_word: Share = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.unsupported > self.supported:
            raise ValueError(
                f"unsupported should be at most supported, were: {self.unsupported:g} and {self.supported:g}"
            )
        return self


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


class VerdictForm(Form):
    """What the file of a verdict holds."""

    measured_on: Line
    thresholds: VerdictThresholds
    operating_points: Annotated[list[OperatingPoint], Field(min_length=1, max_length=1_000)]
    answers: AnswersForm
    claims: RegressionForm
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
        if self.words.column_count > len(self.signals):
            raise ValueError(
                f"words.trees should have columns below {len(self.signals)}, the number of signals, has one of "
                f"{self.words.column_count - 1}"
            )
        if any(one.answer_risk >= next_.answer_risk for one, next_ in pairwise(self.operating_points)):
            raise ValueError("operating_points should ascend by answer_risk, do not")
        return self


@dataclass(frozen=True, slots=True)
class VerdictModel:
    """The fitted verdict of one directory.

    Attributes:
        signal_names: the columns that the trees were fitted on.
        table: what is known of words beforehand.
        probe: what reads a decoder's hidden states, None where the verdict needs no decoder.
        operating_points: what each of some risk thresholds gave in cross-validation, ascending by threshold.
        measured_on: on what, to follow "measured on".
        digest: SHA-256 of the fitted file and of the table of words.
    """

    signal_names: tuple[str, ...]
    words: BoostedTrees
    claims: LogisticRegression
    answers: AnswerRegression
    thresholds: VerdictThresholds
    table: WordTable
    probe: StateProbe | None
    operating_points: tuple[OperatingPoint, ...]
    measured_on: str
    digest: str

    def word_log_odds(self, signals: Signals, probed: Sequence[float] | None = None) -> _Numbers:
        """The log odds that each judged word is unsupported; ``probed`` are the probe's, of all words of the answer.

        If the decoder could not read the answer, they are ``UNREAD``, and the trees' count alone.

        Raises:
            ModelLoadError: if the model was fitted on other signals.
            RuntimeError: if it has a probe, and ``probed`` is None.
        """
        if signals.names != self.signal_names:
            raise ModelLoadError(OTHER_SIGNALS)
        odds = np.clip(self.words.log_odds(signals.values), LOWEST, HIGHEST)
        if self.probe is None:
            return odds
        if probed is None:
            raise RuntimeError("the verdict has a probe, but no decoder was asked to read the answer")
        if not probed:
            return odds
        return self.probe.mixed(odds, np.array([probed[word] for word in signals.words]), signals.kind)

    def risk_of_false_alarms(self, share: float) -> float:
        """The lowest risk threshold with at most this share of false alarms; 1, which flags nothing, if none has."""
        return min((one.answer_risk for one in self.operating_points if one.false_alarms <= share), default=1.0)

    def provenance(self, risk_threshold: float) -> dict[str, str]:
        """The model's digest, the threshold in force, and what the nearest operating point gave."""
        nearest = min(self.operating_points, key=lambda one: abs(one.answer_risk - risk_threshold))
        return {
            "verdict_model": self.digest[:_DIGEST_LETTERS],
            "answer_risk_threshold": f"{risk_threshold:g}",
            "verdict_precision": f"{nearest.precision:.3f}",
            "verdict_recall": f"{nearest.recall:.3f}",
            "verdict_false_alarms": f"{nearest.false_alarms:.3f}",
            "verdict_measured_on": self.measured_on,
        }


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
    model = VerdictModel(
        signal_names=tuple(form.signals),
        words=BoostedTrees.from_json(form.words),
        claims=LogisticRegression.from_json(form.claims),
        answers=AnswerRegression.from_json(form.answers),
        thresholds=form.thresholds,
        table=word_table(words),
        probe=None if form.probe is None else StateProbe.from_json(form.probe),
        operating_points=tuple(form.operating_points),
        measured_on=form.measured_on,
        digest=sha256(
            b"".join(read_regular(one) for one in (file, *(words / name for name in WORD_FILES)))
        ).hexdigest(),
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
    signals = answer_signals(record, parsed, WordKinds((ClaimKind.CLAIM,), ()), model.table)
    for kind in RowKind:
        own = replace(signals, kind=kind)
        odds = model.word_log_odds(own, UNREAD)
        model.claims.log_odds(*claim_numbers(own, odds, [own.words], model.answers.log_odds(own, odds)))


def unmatched_claims(signals: Signals, claim_words: Sequence[Sequence[int]]) -> npt.NDArray[np.bool_]:
    """For each claim whether a number, date or name in it is in neither passages nor question."""
    column = signals.values[:, signals.names.index("word_unmatched_value")]
    unmatched = {word for word, one in zip(signals.words, column, strict=True) if one}
    return np.array([not unmatched.isdisjoint(words) for words in claim_words], dtype=bool)


def claim_numbers(
    signals: Signals, log_odds: _Numbers, claim_words: Sequence[Sequence[int]], answer_log_odds: float
) -> tuple[tuple[str, ...], _Numbers]:
    """What the regression of claims sees: names, and one row per claim; a claim is given by its words of the answer."""
    places = {word: place for place, word in enumerate(signals.words)}
    sentence = signals.values[:, signals.names.index("sentence_place")]
    highest = {one: log_odds[sentence == one].max() for one in np.unique(sentence)}
    rows = []
    for words in claim_words:
        own = [places[word] for word in words if word in places]
        ranked = np.sort(log_odds[own])[::-1] if own else np.array([LOWEST])
        around = max((highest[sentence[place]] for place in own), default=LOWEST)
        rows.append(
            [ranked[0], ranked[:3].mean(), ranked.mean(), np.log1p(len(own)), around, answer_log_odds]
        )  # fmt: skip
    names = ("highest_word", "highest_three_words", "mean_word", "words", "highest_word_of_sentence", "answer_risk")
    return names, np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
