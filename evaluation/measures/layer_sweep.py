"""Passage accuracy at many settings of one forward pass per answer: layer, k and tau, and layers of hidden states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.hidden_states import HiddenSimilarity, states_of_layers
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import MethodSettings, PassageScore
from attribeam.attribution.models.layer_choice import layer_types, layers_with_attention
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP, MethodOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.evaluation.comparison import FailedRow, MethodTally, run_methods
from attribeam.evaluation.measures.accuracy import span_credit
from attribeam.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.evaluation.methods.hidden_states import HiddenUnion
from attribeam.evaluation.methods.observed_attention import attribute_layers
from attribeam.evaluation.methods.registry import LabelledContext, LabMethod
from attribeam.evaluation.methods.unions import ScoredUnion, results_of_union
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


SWEPT = (ATTN_UNION, ATTN_UNION_DEP, "hss-union", "hss-union-dep")
"""The methods that read one layer."""


@dataclass(frozen=True, slots=True)
class AtLayer:
    """A method at one layer; layer 0 is the embeddings."""

    method: str
    layer: int

    def __str__(self) -> str:
        return f"{self.method}, layer {self.layer}"


def run_at_layers(
    answers: Iterable[LabelledAnswer], methods: Sequence[LabMethod], models: LoadedModels
) -> tuple[MethodTally, ...]:
    """The tallies of all methods: one at each layer for those of ``SWEPT``, one for each of the others.

    Raises:
        ValueError: as ``sweep_layers``.
    """
    swept = [one for one in methods if one.name in SWEPT]
    others = [one for one in methods if one.name not in SWEPT]
    kept = list(answers) if swept and others else answers
    return (
        *(sweep_layers(kept, swept, models).values() if swept else ()),
        *(run_methods(kept, others, models) if others else ()),
    )


def swept_layers(model: AttentionModel, method: LabMethod) -> Sequence[int]:
    """The layers of the model at which ``method`` can run: those with attention, or all and 0, the embeddings."""
    if isinstance(method, HiddenUnion):
        return range(model.layer_count + 1)
    return layers_with_attention(layer_types(model.network.config))


def sweep_layers(
    answers: Iterable[LabelledAnswer], methods: Sequence[LabMethod], models: LoadedModels
) -> dict[AtLayer, MethodTally]:
    """A tally for each method and layer; its name is "hss-union, layer 3".

    The model must be loaded completely (``ModelOptions.loaded_layers``). A row that it refuses counts as wrong.

    Raises:
        ValueError: if no model was loaded, or a method is none of ``SWEPT``.
    """
    model = models.attention
    if model is None:
        raise ValueError("a sweep needs an attention model, none was loaded")
    if not {one.name for one in methods} <= {*SWEPT}:
        raise ValueError(f"methods of a sweep should be some of {', '.join(SWEPT)}")
    points = [AtLayer(one.name, layer) for one in methods for layer in swept_layers(model, one)]
    tallies = {point: MethodTally(str(point)) for point in points}
    for labelled in answers:
        nothing = [SpanResult((0.0,) * len(labelled.record.passages))] * len(labelled.spans)
        try:
            found = dict(_results_by_point(LabelledContext(labelled, models), methods, model))
        except RowFault as fault:
            found = {}
            for tally in tallies.values():
                tally.failed.append(FailedRow(labelled.record.source.source_row, str(fault.reason), str(fault)))
        for point, tally in tallies.items():
            tally.count(labelled, found.get(point, nothing))
    return tallies


def _results_by_point(
    context: LabelledContext, methods: Sequence[LabMethod], model: AttentionModel
) -> Iterator[tuple[AtLayer, Sequence[SpanResult]]]:
    of_attention = [one for one in methods if isinstance(one, ScoredUnion)]
    of_states = [one for one in methods if isinstance(one, HiddenUnion)]
    if of_attention:
        yield from _by_attention(context, of_attention, model)
    if of_states:
        yield from _by_states(context, of_states, model)


def _by_attention(
    context: LabelledContext, methods: Sequence[ScoredUnion], model: AttentionModel
) -> Iterator[tuple[AtLayer, Sequence[SpanResult]]]:
    settings = [context.settings_in_force(one.settings.union_options(one.name)) for one in methods]
    of_layers = attribute_layers(
        model,
        context.encoded,
        len(context.record.passages),
        layers=swept_layers(model, methods[0]),
        top_k=max(one.top_k for one in settings),
    )
    for layer, tokens in of_layers.items():
        for method, options in zip(methods, settings, strict=True):
            own = first_columns(tokens, options.top_k)
            yield (
                AtLayer(method.name, layer),
                results_of_union(context, own, options, passage_score=method.settings.passage_score),
            )


def _by_states(
    context: LabelledContext, methods: Sequence[HiddenUnion], model: AttentionModel
) -> Iterator[tuple[AtLayer, Sequence[SpanResult]]]:
    layers = swept_layers(model, methods[0])
    parts = [window.row for window in context.encoded.windows] or [context.encoded]
    states = [states_of_layers(model.network, part.token_ids, layers=layers) for part in parts]
    for layer in layers:
        of_layer = [one[layer] for one in states]
        similarity = HiddenSimilarity(of_layer, encoded=context.encoded, passage_count=len(context.record.passages))
        for method in methods:
            yield AtLayer(method.name, layer), method.results_of(context, similarity)
