"""The fitted verdict: from the signals of an answer's words to its claims' support scores and the answer's risk.

Trees give each word a probability that it is unsupported; other trees judge each claim by its premise and its words. A
logistic regression on both, and on what is measured of the whole answer, gives the answer a risk. Another one scores
each claim by its words, trees and premise; the riskiest one and the answer share their risk.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from hashlib import sha256
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import pydantic
from pydantic import Field, TypeAdapter, field_validator, model_validator

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.option_declaration import BUNDLED_VERDICT_NAME, SHIPPED_VERDICTS, VERDICT_FILE, Strictness
from attribeam.attribution.verdict.claim_reader import NOTHING_READ, READER_FILES, ClaimReader, load_reader
from attribeam.attribution.verdict.claims import WordKinds
from attribeam.attribution.verdict.fitted_parts import (
    EACH,
    HIGHEST,
    LOWEST,
    OTHER_SIGNALS,
    SAME,
    SAME_OR_EACH,
    UNREAD,
    WORD_FILES,
    BoostedTrees,
    EachKind,
    LogisticRegression,
    ProbeForm,
    RegressionForm,
    StateProbe,
    TreesForm,
    WordTable,
    mixed,
    word_table,
)
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, is_attended
from attribeam.attribution.verdict.signals import AnswerRow, Signals, answer_signals
from attribeam.attribution.verdict.texts import RowKind
from attribeam.schemas import CharRange, ClaimKind, Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.files import STRICT, Form, Line, Name, Share, read_form, read_regular

SHARED_WORDS = "word_table"
"""The key of a verdict's file that names the shipped verdict whose table of words it shares."""
_BUNDLED = Path(__file__).parent.parent / "bundled"
BUNDLED_VERDICT = _BUNDLED / SHIPPED_VERDICTS[BUNDLED_VERDICT_NAME]
_VALUES_ANYWHERE, _MISSING_NUMBERS, _CONTRADICTED = map(
    PREMISE_NUMBERS.index, ("values_anywhere", "missing_numbers", "contradicted")
)
_LEAST_WITHOUT_NAME, _LEAST_WITHOUT_NUMBER = math.log(0.4 / 0.6), math.log(0.53 / 0.47)
_OF_ANSWER = 0.5
"""How much the regression of the answer counts for the risk of its riskiest claim, beside that of the claim."""
_Numbers = npt.NDArray[np.float64]


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=STRICT)
class VerdictThresholds:
    """Where verdicts change; each is from 0 to 1.

    ``lenient``, ``balanced`` and ``strict`` are the support score below which a claim is unsupported, by strictness;
    ``supported`` that from which it is supported. ``word`` is the probability from which a word of an unsupported claim
    is named as what lacks support; ``weak_word`` the same for a weak claim beside an unsupported one, with 1 none is.
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
    """What a risk threshold gave in cross-validation, as shares; false alarms are among clean answers."""

    answer_risk: Share
    precision: Share
    recall: Share
    false_alarms: Share


Points = Annotated[list[OperatingPoint], Field(min_length=1, max_length=1_000)]


_WHOLE_ANSWER = (
    "unseen_share", "unseen", "similarity", "similarity_in_sentences", "field_share", "field_mean", "field_conflicts",
    "time_conflicts",
)  # fmt: skip
"""What the regression of answers sees besides the words; more of it fits one data set and fails on others."""
_COUNTED = frozenset({"unseen", "field_conflicts", "time_conflicts"})
AnswersForm = Annotated[Annotated[RegressionForm, SAME] | Annotated[EachKind[RegressionForm], EACH], SAME_OR_EACH]


@dataclass(frozen=True, slots=True)
class AnswerRegression:
    """One regression for each kind of row; that of a verdict without weights by kind is the same for all."""

    of_kinds: Mapping[RowKind, LogisticRegression]

    def log_odds(self, signals: Signals, word_log_odds: _Numbers, claims: _Numbers) -> float:
        """The log odds that an answer, which has at least one judged word and one claim, has an unsupported claim.

        ``claims`` are the likelihood ratios of its claims.

        Raises:
            ModelLoadError: if the regression was fitted on other numbers.
        """
        return float(self.of_kinds[signals.kind].log_odds(*answer_numbers(signals, word_log_odds, claims))[0])

    @classmethod
    def from_json(cls, written: AnswersForm | Mapping[str, Any]) -> AnswerRegression:
        """What ``to_json`` wrote.

        Raises:
            ValueError: if it does not fit ``AnswersForm``.
        """
        form = TypeAdapter[AnswersForm](AnswersForm).validate_python(written)
        if isinstance(form, EachKind):
            return cls({kind: LogisticRegression.from_json(part) for kind, part in form.by_kind().items()})
        return cls(dict.fromkeys(RowKind, LogisticRegression.from_json(form)))

    def to_json(self) -> dict[str, object]:
        """One regression, or one by the name of each kind."""
        first, *others = self.of_kinds.values()
        if all(other is first for other in others):
            return first.to_json()
        return {kind.value: regression.to_json() for kind, regression in self.of_kinds.items()}


def answer_numbers(signals: Signals, log_odds: _Numbers, claims: _Numbers) -> tuple[tuple[str, ...], _Numbers]:
    """What the regression of answers sees: names, and one row for the answer, which has at least one judged word."""
    riskiest, ranked = np.sort(claims)[::-1], np.sort(log_odds)[::-1]
    count = float(np.log(len(claims)))
    chances = 1 / (1 + np.exp(-ranked))
    sentence, *of_answer = _whole_answer(signals.names)
    by_sentence = defaultdict[float, list[float]](list)
    for covered, odds in zip(signals.values[:, sentence].tolist(), log_odds.tolist(), strict=True):
        by_sentence[covered].append(odds)
    riskiest_three = [sorted(odds, reverse=True)[:3] for odds in by_sentence.values()]
    highest = sorted((three[0] for three in riskiest_three), reverse=True)
    threes = sorted((reduce(add, three) / len(three) for three in riskiest_three), reverse=True)
    numbers = {
        **{f"word_{index + 1}": _item(ranked, index) for index in (0, 2, 5, 9)},
        "mean_word": ranked.mean(),
        "expected_words": np.log1p(chances.sum()),
        "doubtful_words": np.log1p((chances > 0.1).sum()),
        "suspect_words": np.log1p((chances > 0.2).sum()),
        "doubtful_share": (chances > 0.1).mean(),
        **{f"sentence_{index + 1}": _item(highest, index) for index in range(3)},
        **{f"sentence_three_{index + 1}": _item(threes, index) for index in range(3)},
        "any_sentence": _any_of(highest),
        "any_sentence_three": _any_of(threes),
        **{f"claim_{index + 1}": _item(riskiest, index) for index in range(3)},
        "any_claim": float(np.log(np.exp(riskiest).sum())),
        "mean_claim": riskiest.mean(),
        "claims": count,
        "claim_1_of_many": count * riskiest[0],
    }
    for name, number in zip(_WHOLE_ANSWER, signals.values[0, of_answer], strict=True):
        numbers[f"answer_{name}"] = np.log(number + 0.05) if name in _COUNTED else number
    return tuple(numbers), np.array([*numbers.values()], dtype=np.float64)[None, :]


@lru_cache(maxsize=4)
def _whole_answer(names: tuple[str, ...]) -> list[int]:
    """The column of the sentence that a word stands in, and those of ``_WHOLE_ANSWER``."""
    return [names.index(name) for name in ("sentence_place", *(f"answer_{name}" for name in _WHOLE_ANSWER))]


def _item(ranked: Sequence[float] | _Numbers, index: int) -> float:
    """The number at that place, the last one if there are fewer: a short answer is judged by all that it has."""
    return float(ranked[min(index, len(ranked) - 1)])


def _any_of(log_odds: Sequence[float]) -> float:
    """The log of the expected number of events with these log odds, as of a Poisson process."""
    none = np.log1p(np.exp(np.array(log_odds))).sum()
    return float(np.log(none + 1e-3))


class VerdictForm(Form):
    """What the file of a verdict holds."""

    measured_on: Line
    thresholds: VerdictThresholds
    operating_points: Points
    short_operating_points: Points
    answers: AnswersForm
    claims: TreesForm
    claim_scores: RegressionForm
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
        for name, columns in (("words", self.signals), ("claims", self.claim_numbers)):
            highest = max(max(tree.columns) for tree in getattr(self, name).trees)
            if highest >= len(columns):
                raise ValueError(
                    f"{name}.trees should have columns below {len(columns)}, the number of what is measured, has one "
                    f"of {highest}"
                )
        for name in ("operating_points", "short_operating_points"):
            if any(point.answer_risk >= next_.answer_risk for point, next_ in pairwise(getattr(self, name))):
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

    ``words`` are float64 [judged words], ``claims`` float64 [claims]; those of the riskiest claim are the answer's.
    """

    words: _Numbers
    claims: _Numbers
    answer: float


@dataclass(frozen=True, slots=True)
class VerdictModel:
    """The fitted verdict of one directory.

    Attributes:
        signal_names, claim_names: the columns that the trees of words and of claims were fitted on; those of claims
            give likelihood ratios.
        claim_scores: the regression of claims on ``SCORE_NUMBERS``.
        reader_directory: of what reads claims beside their premises; None where trees were fitted without.
        probe: what reads a decoder's hidden states, None where the verdict needs no decoder.
        operating_points, short_operating_points: what each of some risk thresholds gave in cross-validation on long and
            on short answers, ascending by threshold.
        digest: SHA-256 of the fitted file, of the table of words and of the reader.
    """

    signal_names: tuple[str, ...]
    words: BoostedTrees
    claims: BoostedTrees
    claim_names: tuple[str, ...]
    claim_scores: LogisticRegression
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
            claim_numbers(answer.signals, odds, answer.claims, answer.premises, answer.read)
            for answer, odds in zip(answers, words, strict=True)
        ]
        columns = [CLAIM_NUMBERS.index(name) for name in self.claim_names]
        ratios = _of_each(self.claims, [matrix[:, columns] for matrix in numbers])
        risks = [self.answers.log_odds(row.signals, *odds) for row, *odds in zip(answers, words, ratios, strict=True)]
        scores = [
            self.claim_scores.log_odds(SCORE_NUMBERS, score_numbers(*parts))
            for parts in zip(numbers, ratios, strict=True)
        ]
        claims = [claim_log_odds(*parts) for parts in zip(scores, risks, numbers, strict=True)]
        return [ScoredAnswer(*odds, float(odds[1].max())) for odds in zip(words, claims, strict=True)]

    def _word_log_odds(self, answers: Sequence[AnswerToScore]) -> list[_Numbers]:
        """The log odds that each judged word is unsupported, by the trees and by the probe where it read."""
        if any(answer.signals.names != self.signal_names for answer in answers):
            raise ModelLoadError(OTHER_SIGNALS)
        of_trees = _of_each(self.words, [answer.signals.values for answer in answers])
        clipped = [np.clip(odds, LOWEST, HIGHEST) for odds in of_trees]
        if self.probe is None:
            return clipped
        if any(answer.probed is None for answer in answers):
            raise RuntimeError("the verdict has a probe, but no decoder was asked to read the answer")
        shares = self.probe.shares
        return [
            odds
            if not row.probed
            else mixed(odds, np.array([row.probed[w] for w in row.signals.words]), share=shares[row.signals.kind])
            for row, odds in zip(answers, clipped, strict=True)
        ]

    @property
    def reader(self) -> ClaimReader | None:
        """What reads claims beside their premises; it is loaded, and torch with it, when it is first asked for.

        Raises:
            DataError: as ``load_reader``.
        """
        return None if self.reader_directory is None else load_reader(self.reader_directory)

    def provenance(self, strictness: Strictness, prior: float) -> dict[str, str]:
        """The model's digest, the thresholds in force, and what they gave in cross-validation.

        With a ``prior`` other than one half, risks of the cross-validation are moved by it. Of short answers nothing is
        said where they were not measured apart, as in calibration.
        """
        unsupported = self.thresholds.unsupported(strictness)
        level = 1 / (1 + math.exp(log_odds(prior) - log_odds(1 - unsupported)))
        fields = {
            "verdict_model": self.digest[:16],
            "verdict_strictness": strictness.value,
            "verdict_prior": f"{prior:g}",
            "answer_risk_threshold": f"{1 - unsupported:g}",
            "support_score_threshold": f"{self.thresholds.supported:g}",
            "verdict_measured_on": self.measured_on,
        }
        measured = {"verdict": self.operating_points}
        if self.short_operating_points != self.operating_points:
            measured["verdict_short"] = self.short_operating_points
        for prefix, points in measured.items():
            nearest = min(points, key=lambda point: abs(point.answer_risk - level))
            for name in ("precision", "recall", "false_alarms"):
                fields[f"{prefix}_{name}"] = f"{getattr(nearest, name):.3f}"
        return fields


def verdict_directory(verdict: str) -> Path:
    """Where the verdict of this name is, or of this directory, which may be missing."""
    folder = SHIPPED_VERDICTS.get(verdict)
    return Path(verdict) if folder is None else _BUNDLED / folder


@lru_cache(maxsize=4)
def load_verdict_model(directory: Path = BUNDLED_VERDICT) -> VerdictModel:
    """Read the model of a directory once, and try it on one word of each kind of row.

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
        claim_scores=LogisticRegression.from_json(form.claim_scores),
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
    record = QARecord("", "", (Passage(text="Rain fell."),), "Rain.", RowSource("", 0))
    parsed = ParsedAnswer((CharRange(0, 4),), (0,), ("root",), ("NOUN",), ("",), (0,))
    (signals,) = answer_signals([AnswerRow.of(record, parsed, WordKinds((ClaimKind.CLAIM,), ()))], model.table)
    premise = np.zeros(len(PREMISE_NUMBERS), dtype=np.float32)
    try:
        for kind in RowKind:
            of_kind = replace(signals, kind=kind)
            model.scored([AnswerToScore(of_kind, [of_kind.words], [premise], probed=UNREAD)])
    except ModelLoadError as error:
        raise ModelLoadError(f"{file}: {error}") from error
    return model


def _of_each(trees: BoostedTrees, numbers: Sequence[npt.NDArray[np.float32]]) -> list[_Numbers]:
    """The log odds of the rows of some matrices, all of them at once."""
    if not numbers:
        return []
    return np.split(trees.log_odds(np.concatenate(numbers)), np.cumsum([len(rows) for rows in numbers[:-1]]))


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
    index_of = {word: index for index, word in enumerate(signals.words)}
    attended = [agrees for agrees in map(is_attended, premises) if agrees is not None]
    share = sum(attended) / len(attended) if attended else -1.0
    numbers = np.empty((len(claims), len(CLAIM_NUMBERS)), dtype=np.float32)
    of_reader = [NOTHING_READ] * len(claims) if read is None else read.tolist()
    for row, words, premise, said in zip(numbers, claims, premises, of_reader, strict=True):
        indices = [index_of[word] for word in words if word in index_of]
        ranked = np.sort(word_log_odds[indices])[::-1] if indices else np.array([LOWEST])
        row[: len(premise)] = premise
        row[len(premise) :] = ranked[0], ranked[:3].mean(), ranked.mean(), share, said
    return numbers


_OF_ALL = ("highest_word", "mean_word", "read", "ratio")
_OF_FEW = (
    *_OF_ALL, "highest_three_words", "carried", "window", "anywhere", "soft", "soft_least", "values", "values_window",
    "values_anywhere", "contradicted",
)  # fmt: skip
SCORE_NUMBERS = (*_OF_ALL, *(f"{name}_of_few" for name in _OF_FEW), "few")
"""What the regression of claims sees: what the words, the reader and the trees of claims (``ratio``) say, and this and
more times ``few``, which falls with the number of claims: a single claim is judged by all of it, and one of many by
little else than the first ones."""


def score_numbers(numbers: npt.NDArray[np.float32], ratios: _Numbers) -> _Numbers:
    """float64 [claims, SCORE_NUMBERS].

    Args:
        numbers: float32 [claims, CLAIM_NUMBERS].
        ratios: log likelihood ratios of the claims, by the trees.
    """
    few = 3 / (2 + len(ratios))
    columns = {**dict(zip(CLAIM_NUMBERS, numbers.T.astype(np.float64), strict=True)), "ratio": ratios}
    of_all, of_few = ([columns[name] for name in names] for names in (_OF_ALL, _OF_FEW))
    return np.column_stack([*of_all, *(column * few for column in of_few), np.full(len(ratios), few)])


def claim_log_odds(scores: _Numbers, risk: float, numbers: npt.NDArray[np.float32]) -> _Numbers:
    """float64 [claims]: the log odds that each claim of an answer is unsupported; the largest are the answer's.

    Those of the riskiest claim are the mean of its score and of the answer's log odds, and no other claim has more. One
    with a value that no passage has is never more likely supported than 0.6; where a number or date is missing, or a
    sentence says something else instead, than 0.47.

    Args:
        scores: log odds of the claims, by their regression.
        risk: the log odds of the answer, by its regression.
        numbers: float32 [claims, PREMISE_NUMBERS and perhaps more].
    """
    riskiest = _OF_ANSWER * risk + (1 - _OF_ANSWER) * scores.max()
    least = np.where(numbers[:, _MISSING_NUMBERS] > 0, _LEAST_WITHOUT_NUMBER, _LEAST_WITHOUT_NAME)
    least = np.where(numbers[:, _VALUES_ANYWHERE] > 0, least, -np.inf)
    least = np.where(numbers[:, _CONTRADICTED] > 0, _LEAST_WITHOUT_NUMBER, least)
    odds: _Numbers = np.maximum(np.where(scores < scores.max(), np.minimum(scores, riskiest), riskiest), least)
    return odds


def log_odds(probability: float) -> float:
    """The log odds of a probability, which is kept from 0 and 1 by a millionth."""
    kept = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(kept / (1 - kept))
