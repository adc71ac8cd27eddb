"""Accuracy as layer, k and tau vary, from one forward pass per answer for any number of settings (appendix)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.observed_attention import attribute_layers
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.attention_methods import results_of_union
from attribeam.attribution.methods.method import MethodSettings, PassageScore
from attribeam.attribution.options import ATTN_UNION_DEP, MethodOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.evaluation.lab_methods import LabelledContext
from attribeam.evaluation.measures.accuracy import span_credit
from attribeam.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.schemas import RowFault
from attribeam.schemas.labelled_answer import LabelledAnswer


@dataclass(frozen=True, slots=True)
class SensitivityPoint:
    """One setting: the 1-based layer L*, the number of columns kept per token, and tau, which may be infinite."""

    layer: int
    top_k: int
    isolation_tau: float


@dataclass(frozen=True, slots=True)
class SensitivityFigure:
    """Passage accuracy at one setting, in percent, with its interval over rows.

    ``isolated_spans`` counts spans with only isolated evidence. ``failed_rows`` counts rows that the model refused, all
    of whose spans count as wrong.
    """

    point: SensitivityPoint
    passage_accuracy: float
    interval: Interval
    spans: int
    rows: int
    failed_rows: int
    isolated_spans: int


@dataclass(slots=True)
class PointTally:
    """What each point scored, answer by answer; the lists have one item per row."""

    credits: dict[SensitivityPoint, list[float]]
    spans: list[int] = field(default_factory=list)
    isolated: Counter[SensitivityPoint] = field(default_factory=Counter)
    failed: int = 0


def default_point(model: AttentionModel, settings: MethodSettings) -> SensitivityPoint:
    """The setting that the model is evaluated with by default."""
    union = model.union_settings(settings.union_options(ATTN_UNION_DEP))
    return SensitivityPoint(model.layer, union.top_k, union.isolation_tau)


def sweep(
    answers: Iterable[LabelledAnswer],
    models: LoadedModels,
    points: Sequence[SensitivityPoint],
    *,
    settings: MethodSettings,
    method: str = ATTN_UNION_DEP,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[SensitivityFigure, ...]:
    """The figures of ``method`` at each of ``points``, in their order.

    Everything except layer, k and tau is as in ``settings``. The model must be loaded up to the highest layer
    (``ModelOptions.loaded_layers``).

    Raises:
        ValueError: if there is no answer or no point, or if a layer was not loaded or has no attention.
    """
    tally = tally_points(answers, models, points, settings=settings, method=method)
    bootstrap = RowBootstrap(tally.spans, draws=draws, seed=seed)
    return tuple(_figure(point, tally, bootstrap) for point in points)


def tally_points(
    answers: Iterable[LabelledAnswer],
    models: LoadedModels,
    points: Sequence[SensitivityPoint],
    *,
    settings: MethodSettings,
    method: str = ATTN_UNION_DEP,
) -> PointTally:
    """What ``method`` scored at each of ``points`` on each answer, as ``sweep``.

    Raises:
        ValueError: if a layer was not loaded or has no attention.
    """
    union = attention_of(models).union_settings(settings.union_options(method))
    tally = PointTally({point: [] for point in points})
    for labelled in answers:
        _count(labelled, models, union, tally, settings.passage_score)
    return tally


def _count(
    labelled: LabelledAnswer, models: LoadedModels, union: MethodOptions, tally: PointTally, passage_score: PassageScore
) -> None:
    """Add one answer at every point."""
    context = LabelledContext(labelled, models)
    tally.spans.append(len(labelled.spans))
    try:
        of_layers = attribute_layers(
            context.model,
            context.encoded,
            len(labelled.record.passages),
            layers={point.layer for point in tally.credits},
            top_k=max(point.top_k for point in tally.credits),
        )
    except RowFault:
        tally.failed += 1
        for credits in tally.credits.values():
            credits.append(0.0)
        return
    for point, credits in tally.credits.items():
        tokens = first_columns(of_layers[point.layer], point.top_k)
        at_point = union.replaced(top_k=point.top_k, isolation_tau=point.isolation_tau)
        found = results_of_union(context, tokens, at_point, passage_score=passage_score)
        pairs = zip(found, labelled.gold_passages, strict=True)
        credits.append(sum(span_credit(one.passage_scores, gold) for one, gold in pairs))
        tally.isolated[point] += sum(one.isolated for one in found)


def first_columns(tokens: TokenAttribution, top_k: int) -> TokenAttribution:
    """The attributions to the ``top_k`` largest columns of those that were taken."""
    return replace(tokens, top_columns=tokens.top_columns[:, :top_k], top_scores=tokens.top_scores[:, :top_k])


def _figure(point: SensitivityPoint, tally: PointTally, bootstrap: RowBootstrap) -> SensitivityFigure:
    credits = tally.credits[point]
    return SensitivityFigure(
        point=point,
        passage_accuracy=100 * sum(credits) / sum(tally.spans),
        interval=bootstrap.interval(credits),
        spans=sum(tally.spans),
        rows=len(tally.spans),
        failed_rows=tally.failed,
        isolated_spans=tally.isolated[point],
    )


def attention_of(models: LoadedModels) -> AttentionModel:
    if models.attention is None:
        raise ValueError("a sweep needs an attention model, none was loaded")
    return models.attention
