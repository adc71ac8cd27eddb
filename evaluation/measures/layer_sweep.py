"""Passage accuracy at many settings of one forward pass per answer: layer, k and tau, and layers of hidden states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import Job, run_halving
from attribeam.attribution.attention.capture import LayerCapture, observing
from attribeam.attribution.attention.hidden_states import HiddenSimilarity, states_of_layers
from attribeam.attribution.attention.reduction import CapturedRow, PendingRows, RowAttention, reduce_row
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import LoadedModels, MethodSettings, required
from attribeam.attribution.models.layer_choice import layer_types, layers_with_attention
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP, SoftmaxOver
from attribeam.attribution.prompts.passage_windows import merge_windows, windows_or_whole
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures.accuracy import MethodTally, run_methods
from attribeam.evaluation.methods import LabelledContext, LabMethod
from attribeam.evaluation.methods.unions import HiddenUnion, ScoredUnion, results_of_union
from attribeam.schemas import RowFault

_Point = TypeVar("_Point", bound=Hashable)
_Results = Iterator[tuple[_Point, Sequence[SpanResult]]]


@dataclass(frozen=True, slots=True)
class SensitivityPoint:
    """One setting: the 1-based layer L*, the number of columns kept per token, and tau, which may be infinite."""

    layer: int
    top_k: int
    isolation_tau: float

    def __str__(self) -> str:
        return f"layer {self.layer}, k {self.top_k}, tau {self.isolation_tau:g}"


@dataclass(frozen=True, slots=True)
class AtLayer:
    """A method at one layer; layer 0 is the embeddings."""

    method: str
    layer: int

    def __str__(self) -> str:
        return f"{self.method}, layer {self.layer}"


def _tally_points(
    answers: Iterable[LabelledAnswer],
    models: LoadedModels,
    points: Sequence[_Point],
    results: Callable[[LabelledContext], _Results[_Point]],
) -> dict[_Point, MethodTally]:
    """A tally for each point, with the point's name; a row that the model refuses counts as wrong at each of them."""
    tallies = {point: MethodTally(str(point)) for point in points}
    for labelled in answers:
        outcomes: Mapping[_Point, Sequence[SpanResult] | RowFault]
        try:
            outcomes = dict(results(LabelledContext(labelled, models)))
        except RowFault as fault:
            outcomes = dict.fromkeys(points, fault)
        for point, tally in tallies.items():
            tally.count(labelled, outcomes[point])
    return tallies


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
) -> dict[SensitivityPoint, MethodTally]:
    """What ``method`` scores at each of ``points``, in their order; highlights are not compared.

    Everything except layer, k and tau is as in ``settings``. The model must be loaded up to the highest layer
    (``ModelOptions.loaded_layers``).

    Raises:
        ValueError: if there is no point, or if a layer was not loaded or has no attention.
    """
    model = required(models.attention, "attention model")
    union = model.union_settings(settings.union_options(method))
    layers, top_k = {point.layer for point in points}, max((point.top_k for point in points), default=0)

    def results(context: LabelledContext) -> _Results[SensitivityPoint]:
        count = len(context.record.passages)
        of_layers = attribute_layers(context.model, context.encoded, count, layers=layers, top_k=top_k)
        for point in points:
            tokens = first_columns(of_layers[point.layer], point.top_k)
            at_point = union.replaced(top_k=point.top_k, isolation_tau=point.isolation_tau)
            yield point, results_of_union(context, tokens, at_point, passage_score=settings.passage_score)

    return _tally_points((replace(one, gold_evidence=()) for one in answers), models, points, results)


def first_columns(tokens: TokenAttribution, top_k: int) -> TokenAttribution:
    """The attributions to the ``top_k`` largest columns of those that were taken."""
    return replace(tokens, top_columns=tokens.top_columns[:, :top_k], top_scores=tokens.top_scores[:, :top_k])


SWEPT = (ATTN_UNION, ATTN_UNION_DEP, "hss-union", "hss-union-dep")
"""The methods that read one layer."""


def run_at_layers(
    answers: Iterable[LabelledAnswer], methods: Sequence[LabMethod], models: LoadedModels
) -> tuple[MethodTally, ...]:
    """The tallies of all methods: one at each layer for those of ``SWEPT``, one for each of the others.

    Raises:
        ValueError: as ``sweep_layers``.
    """
    swept = [method for method in methods if method.name in SWEPT]
    others = [method for method in methods if method.name not in SWEPT]
    if not swept:
        return run_methods(answers, others, models)
    kept = list(answers) if others else answers
    return (*sweep_layers(kept, swept, models).values(), *(run_methods(kept, others, models) if others else ()))


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
        ValueError: if a method is none of ``SWEPT``, or hidden states cannot be taken from the model.
    """
    model = required(models.attention, "attention model")
    if not {one.name for one in methods} <= {*SWEPT}:
        raise ValueError(f"methods of a sweep should be some of {', '.join(SWEPT)}")
    attention_layers = layers_with_attention(layer_types(model.network.config))
    unions = [method for method in methods if isinstance(method, ScoredUnion)]
    of_states = [method for method in methods if isinstance(method, HiddenUnion)]

    def results(context: LabelledContext) -> _Results[AtLayer]:
        row, count = context.encoded, len(context.record.passages)
        if unions:
            options = [context.settings_in_force(union.settings.union_options(union.name)) for union in unions]
            top_k = max(one.top_k for one in options)
            for layer, tokens in attribute_layers(model, row, count, layers=attention_layers, top_k=top_k).items():
                for union, own in zip(unions, options, strict=True):
                    kept, rule = first_columns(tokens, own.top_k), union.settings.passage_score
                    yield AtLayer(union.name, layer), results_of_union(context, kept, own, passage_score=rule)
        if of_states:
            layers = range(model.layer_count + 1)
            states = [states_of_layers(model.network, part.token_ids, layers=layers) for part in windows_or_whole(row)]
            for layer in layers:
                similarity = HiddenSimilarity([one[layer] for one in states], encoded=row, passage_count=count)
                for method in of_states:
                    yield AtLayer(method.name, layer), method.results_of(context, similarity)

    points = [AtLayer(method.name, layer) for method in methods for layer in swept_layers(model, method)]
    return _tally_points(answers, models, points, results)


_ByLayer = Mapping[int, TokenAttribution]


def attribute_layers(
    model: AttentionModel, row: EncodedRow, passage_count: int, *, layers: Collection[int], top_k: int
) -> Mapping[int, TokenAttribution]:
    """The attributions of each of the 1-based ``layers``, as ``AttentionModel.attribute`` gives them for L*.

    The pass ends at the last of these layers. The windows of a long row are batched by the model's token budget, and a
    batch that does not fit into memory is halved. A softmax over the prompt applies only to the layer that it
    was trained for, L*; other layers take a softmax over all tokens that a token sees.

    Raises:
        RowFault: OUT_OF_MEMORY or NON_FINITE_ATTENTION.
        ValueError: if one of the layers was not loaded or has no attention, or if ``layers`` is empty.
    """
    loaded = int(model.network.config.get_text_config().num_hidden_layers)
    if not layers or min(layers) < 1 or max(layers) > loaded:
        raise ValueError(
            f"layers should be one or more numbers from 1 to {loaded}, the loaded layers, were: {sorted(layers)}"
        )
    if missing := sorted(set(layers) - set(layers_with_attention(layer_types(model.network.config)))):
        raise ValueError(f"layers should have attention, but these have none: {missing}")
    captures = {
        layer: model.capture
        if layer == model.layer
        else replace(model.capture, layer=layer, softmax_over=SoftmaxOver.VISIBLE)
        for layer in sorted(layers)
    }
    jobs = [(part, passage_count) for part in windows_or_whole(row)]
    parts: dict[int, _ByLayer] = {}
    for batch in model.batches([part for part, _ in jobs]):
        outcomes = run_halving(
            [jobs[index] for index in batch], lambda some: _captured_layers(model, captures, some, top_k=top_k)
        )
        for index, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, RowFault):
                raise outcome
            parts[index] = outcome
    if not row.windows:
        return parts[0]
    return {
        layer: merge_windows(row, [parts[index][layer] for index in range(len(jobs))], top_k=top_k) for layer in layers
    }


def _captured_layers(
    model: AttentionModel, captures: Mapping[int, LayerCapture], jobs: Sequence[Job], *, top_k: int
) -> list[_ByLayer | RowFault]:
    """One pass that ends at the last layer; each row's attributions by layer, or its first layer's fault."""
    last = max(captures)
    requests = {layer: capture.requests(jobs) for layer, capture in captures.items()}
    taken: dict[int, list[CapturedRow]] = {layer: [] for layer in captures}

    def observe(index: int, attention: RowAttention) -> None:
        layer = index + 1
        if layer in taken and layer != last:
            taken[layer].append(reduce_row(attention, requests[layer][len(taken[layer])], top_k=top_k))

    with observing(observe):
        taken[last] = captures[last].take(jobs, layout=model.layout, top_k=top_k).captured
    pending = {layer: PendingRows(rows) for layer, rows in taken.items()}
    found: list[_ByLayer | RowFault] = []
    for index in range(len(jobs)):
        outcomes = {layer: rows.outcome(index) for layer, rows in pending.items()}
        fault = next((outcome for outcome in outcomes.values() if isinstance(outcome, RowFault)), None)
        found.append(fault or {layer: one for layer, one in outcomes.items() if not isinstance(one, RowFault)})
    return found
