"""How well a model finds passages: the accuracy of each method with it on labelled rows, and whether that is enough.

The yardsticks are chance, and ``words``, which counts shared words and needs no model: a model that finds no more
passages than the one, or fewer than the other, does not serve.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.hidden_states import layer_modules
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP
from attribeam.lab.evaluation.comparison import REFERENCE_METHOD, MethodScore, MethodTally, run_methods, score_methods
from attribeam.lab.evaluation.lab_methods import LabMethod, lab_methods
from attribeam.lab.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.schemas.labelled_answer import LabelledAnswer

CANDIDATES = (ATTN_UNION_DEP, ATTN_UNION, "hss-union-dep", "hss-union", "hss-avg-dep", "hss-avg")
"""The methods that are tried with a model; of equally good ones the first is named."""
DEFAULT = CANDIDATES[0]
"""The audit's method where the user names none."""
DRAWS, SEED = 2000, 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A method with a model; ``hidden_layer`` is the layer whose states it compares, None for a method of attention."""

    score: MethodScore
    hidden_layer: int | None

    @property
    def options(self) -> str:
        """What asks an audit for it."""
        layer = "" if self.hidden_layer is None else f" --hidden-layer {self.hidden_layer}"
        return f"--method {self.score.method}{layer}"


class Serving(StrEnum):
    """Whether a model serves."""

    BY_DEFAULT = "with the audit's default method"
    BY_OTHER_METHOD = "with another method only"
    NOT = "not"


@dataclass(frozen=True, slots=True)
class Quality:
    """What was found on the labelled rows.

    Attributes:
        candidates: the methods that the model allows; the audit's default comes first.
        words: word overlap, which needs no model.
        chance: the accuracy of a passage drawn at random, in percent.
        layer: 1-based L*.
        default_behind: by how much the best candidate is better than the default, in percent; None if it is the best.
    """

    candidates: tuple[Candidate, ...]
    words: MethodScore
    chance: float
    layer: int
    default_behind: Interval | None

    @property
    def default(self) -> Candidate:
        """The audit's method where the user names none."""
        return self.candidates[0]

    @property
    def best(self) -> Candidate:
        """The method that finds the most passages, of equally good ones the first."""
        return max(self.candidates, key=lambda one: one.score.passage_accuracy)

    @property
    def serving(self) -> Serving:
        """Whether the best method beats chance and is no worse than word overlap, and the default no worse than it.

        A method beats chance if the 95% interval of its accuracy lies above it, and is worse than another if that of
        their difference, over the same rows, lies below 0.
        """
        to_words = self.best.score.difference_interval
        if not self.beats_chance or (to_words is not None and to_words.high < 0):
            return Serving.NOT
        return Serving.BY_DEFAULT if self._is_default_good else Serving.BY_OTHER_METHOD

    @property
    def beats_chance(self) -> bool:
        """Whether the best method finds more passages than random draws, beyond what the rows leave open."""
        return self.best.score.interval.low > self.chance

    @property
    def _is_default_good(self) -> bool:
        return self.default_behind is None or self.default_behind.low <= 0


def measure_quality(answers: Iterable[LabelledAnswer], model: AttentionModel, parser: AnswerParser) -> Quality:
    """Run every candidate on the answers, of which there is at least one.

    The hidden states are those of the paper's layer, floor(L/2), or of the layer below L* where that is lower: no layer
    is loaded for them.
    """
    hidden_layer = min(model.layer_count // 2, model.layer - 1)
    models = LoadedModels(parser=parser, attention=model, hidden_layer=hidden_layer)
    known = [*answers]
    tallies = run_methods(known, _methods(model), models)
    scores = score_methods(tallies, draws=DRAWS, seed=SEED)
    return quality_of_tallies(tallies, scores, chance=chance(known), layer=model.layer, hidden_layer=hidden_layer)


def chance(answers: Sequence[LabelledAnswer]) -> float:
    """The share of spans, in percent, whose passage a random draw finds, all passages of a row being equally likely."""
    shares = [len(gold) / len(answer.record.passages) for answer in answers for gold in answer.gold_passages]
    return 100 * sum(shares) / len(shares)


def _methods(model: AttentionModel) -> list[LabMethod]:
    available = lab_methods()
    wanted = [available[name] for name in (*CANDIDATES, REFERENCE_METHOD)]
    return [one for one in wanted if _shows_states(model) or Need.HIDDEN_STATES not in one.needs]


def _shows_states(model: AttentionModel) -> bool:
    """Whether the layers' outputs can be taken."""
    try:
        layer_modules(model.network)
    except ValueError:
        return False
    return True


def quality_of_tallies(
    tallies: Sequence[MethodTally],
    scores: Sequence[MethodScore],
    *,
    chance: float,
    layer: int,
    hidden_layer: int,
) -> Quality:
    """What the tallies of the candidates and of word overlap, and their ``scores``, say of the model."""
    by_name = {tally.name: tally for tally in tallies}
    candidates = tuple(
        Candidate(score, hidden_layer if score.method.startswith("hss") else None)
        for score in scores
        if score.method != REFERENCE_METHOD
    )
    words = next(score for score in scores if score.method == REFERENCE_METHOD)
    best = max(candidates, key=lambda one: one.score.passage_accuracy).score.method
    behind = None if best == DEFAULT else difference(by_name[best], by_name[DEFAULT])
    return Quality(candidates, words, chance, layer, behind)


def difference(one: MethodTally, other: MethodTally) -> Interval:
    """The interval over rows of how much better ``one`` is than ``other``, in percent."""
    credits = [own - others for own, others in zip(one.credits, other.credits, strict=True)]
    return RowBootstrap(one.spans, draws=DRAWS, seed=SEED).interval(credits)
