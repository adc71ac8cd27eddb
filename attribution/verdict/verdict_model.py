"""The fitted verdict: from the signals of an answer's words to its claims' support scores and the answer's risk.

Trees give each word a probability that it is unsupported. Logistic regressions on the words' log odds, and on what
is measured of the whole answer, give each claim its support score and the answer its risk.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attribeam.attribution.option_types import BUNDLED_VERDICT_NAME, SHIPPED_VERDICTS, VERDICT_FILE
from attribeam.attribution.verdict.answer_regression import AnswerRegression
from attribeam.attribution.verdict.boosted_trees import BoostedTrees
from attribeam.attribution.verdict.logistic_regression import OTHER_SIGNALS, LogisticRegression
from attribeam.attribution.verdict.signals import Signals
from attribeam.attribution.verdict.state_probe import HIGHEST, LOWEST, StateProbe
from attribeam.attribution.verdict.word_table import WORD_FILES, WordTable, word_table
from attribeam.schemas.errors import ModelLoadError

SHARED_WORDS = "word_table"
"""The key of a verdict's file that names the shipped verdict whose table of words it shares."""
_BUNDLED = Path(__file__).parent.parent / "bundled"
BUNDLED_VERDICT = _BUNDLED / SHIPPED_VERDICTS[BUNDLED_VERDICT_NAME]

_DIGEST_LETTERS = 16
_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VerdictThresholds:
    """Where verdicts change.

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

    answer_risk: float
    unsupported: float
    supported: float
    unmatched: float
    unmatched_risk: float
    literal: float
    word: float
    weak_word: float = 1.0


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What a risk threshold gave in cross-validation, as shares.

    Attributes:
        precision: of the flagged answers those that do have an unsupported claim.
        recall: of the answers with an unsupported claim those that are flagged.
        false_alarms: of the answers that people found clean those that are flagged.
    """

    answer_risk: float
    precision: float
    recall: float
    false_alarms: float


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
    """Read the model of a directory once.

    Raises:
        ModelLoadError: if a file is missing or damaged.
    """
    file = directory / VERDICT_FILE
    try:
        text = file.read_bytes()
        found = json.loads(text)
        words = verdict_directory(found[SHARED_WORDS]) if SHARED_WORDS in found else directory
        return VerdictModel(
            signal_names=tuple(found["signals"]),
            words=BoostedTrees.from_json(found["words"]),
            claims=LogisticRegression.from_json(found["claims"]),
            answers=AnswerRegression.from_json(found["answers"]),
            thresholds=VerdictThresholds(**found["thresholds"]),
            table=word_table(words),
            probe=StateProbe.from_json(found["probe"]) if "probe" in found else None,
            operating_points=tuple(OperatingPoint(**one) for one in found["operating_points"]),
            measured_on=found["measured_on"],
            digest=sha256(text + b"".join((words / name).read_bytes() for name in WORD_FILES)).hexdigest(),
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ModelLoadError(f"the verdict's model {file} cannot be read: {error}") from error


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
