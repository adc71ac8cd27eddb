"""Passage accuracy at many settings of one forward pass per answer: layer, k and tau, and layers of hidden states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import Job, run_halving
from attribeam.attribution.attention.capture import observing
from attribeam.attribution.attention.hidden_states import HiddenSimilarity, states_of_layers
from attribeam.attribution.attention.reduction import CapturedRow, PendingRows, RowAttention, reduce_row
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import LoadedModels, MethodSettings, required
from attribeam.attribution.models.model_directory import layer_types, layers_with_attention
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP, SoftmaxOver
from attribeam.attribution.prompts.passage_windows import merge_windows, windows_or_whole
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures.accuracy import MethodTally, nothing_found, run_methods
from attribeam.evaluation.methods.hidden_states import HiddenUnion
from attribeam.evaluation.methods.registry import LabelledContext, LabMethod
from attribeam.evaluation.methods.unions import ScoredUnion, results_of_union
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
        found: Mapping[_Point, Sequence[SpanResult]] = {}
        try:
            found = dict(results(LabelledContext(labelled, models)))
        except RowFault as fault:
            for tally in tallies.values():
                tally.count_refused(labelled, fault)
        for point, tally in tallies.items():
            tally.count(labelled, found.get(point) or nothing_found(labelled))
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
        ValueError: if a method is none of ``SWEPT``, or hidden states cannot be taken from the model.
    """
    model = required(models.attention, "attention model")
    if not {one.name for one in methods} <= {*SWEPT}:
        raise ValueError(f"methods of a sweep should be some of {', '.join(SWEPT)}")
    of_attention = [one for one in methods if isinstance(one, ScoredUnion)]
    of_states = [one for one in methods if isinstance(one, HiddenUnion)]

    def results(context: LabelledContext) -> _Results[AtLayer]:
        if of_attention:
            yield from _by_attention(context, of_attention, model)
        if of_states:
            yield from _by_states(context, of_states, model)

    points = [AtLayer(one.name, layer) for one in methods for layer in swept_layers(model, one)]
    return _tally_points(answers, models, points, results)


def _by_attention(context: LabelledContext, methods: Sequence[ScoredUnion], model: AttentionModel) -> _Results[AtLayer]:
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


def _by_states(context: LabelledContext, methods: Sequence[HiddenUnion], model: AttentionModel) -> _Results[AtLayer]:
    layers = swept_layers(model, methods[0])
    parts = windows_or_whole(context.encoded)
    states = [states_of_layers(model.network, part.token_ids, layers=layers) for part in parts]
    for layer in layers:
        of_layer = [one[layer] for one in states]
        similarity = HiddenSimilarity(of_layer, encoded=context.encoded, passage_count=len(context.record.passages))
        for method in methods:
            yield AtLayer(method.name, layer), method.results_of(context, similarity)


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
    _check_layers(model, layers)
    wanted = _LayersPass(model, layers, top_k)
    jobs = [(part, passage_count) for part in windows_or_whole(row)]
    found: dict[int, _ByLayer] = {}
    for batch in model.batches([part for part, _ in jobs]):
        outcomes = run_halving([jobs[index] for index in batch], wanted.run)
        for index, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, RowFault):
                raise outcome
            found[index] = outcome
    parts = [found[index] for index in range(len(jobs))]
    if not row.windows:
        return parts[0]
    return {layer: merge_windows(row, [part[layer] for part in parts], top_k=top_k) for layer in layers}


class _LayersPass:
    """Forward passes that capture several layers; the last of these layers ends the pass."""

    def __init__(self, model: AttentionModel, layers: Collection[int], top_k: int) -> None:
        self._layout, self._top_k = model.layout, top_k
        self._captures = {
            layer: replace(model.capture, layer=layer, softmax_over=SoftmaxOver.VISIBLE)
            if layer != model.layer
            else model.capture
            for layer in sorted(layers)
        }

    def run(self, jobs: Sequence[Job]) -> list[_ByLayer | RowFault]:
        """The attributions of each row by layer, one outcome per row; no row may have windows."""
        last = max(self._captures)
        requests = {layer: capture.requests(jobs) for layer, capture in self._captures.items()}
        taken: dict[int, list[CapturedRow]] = {layer: [] for layer in self._captures}

        def observe(index: int, attention: RowAttention) -> None:
            layer = index + 1
            if layer in taken and layer != last:
                request = requests[layer][len(taken[layer])]
                taken[layer].append(reduce_row(attention, request, top_k=self._top_k))

        with observing(observe):
            taken[last] = self._captures[last].take(jobs, layout=self._layout, top_k=self._top_k).captured
        pending = {layer: PendingRows(rows) for layer, rows in taken.items()}
        return [_by_layer(pending, place) for place in range(len(jobs))]


def _by_layer(rows: Mapping[int, PendingRows], place: int) -> _ByLayer | RowFault:
    """A row's attributions by layer, or the first layer's fault."""
    outcomes = {layer: pending.outcome(place) for layer, pending in rows.items()}
    fault = next((one for one in outcomes.values() if isinstance(one, RowFault)), None)
    return fault or {layer: one for layer, one in outcomes.items() if not isinstance(one, RowFault)}


def _check_layers(model: AttentionModel, layers: Collection[int]) -> None:
    loaded = int(model.network.config.get_text_config().num_hidden_layers)
    if not layers or min(layers) < 1 or max(layers) > loaded:
        raise ValueError(
            f"layers should be one or more numbers from 1 to {loaded}, the loaded layers, were: {sorted(layers)}"
        )
    missing = sorted(set(layers) - set(layers_with_attention(layer_types(model.network.config))))
    if missing:
        raise ValueError(f"layers should have attention, but these have none: {missing}")
