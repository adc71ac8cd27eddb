"""Passage accuracy of the union methods at every layer of a model: by its attention, and by its hidden states.

An answer takes two forward passes, one for the attention of all layers and one for their hidden states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.hidden_states import HiddenSimilarity, states_of_layers
from attribeam.attribution.attention.layer_choice import layer_types, layers_with_attention
from attribeam.attribution.attention.observed_attention import attribute_layers
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.attention_methods import AttentionUnion, results_of_union
from attribeam.attribution.methods.hidden_state_methods import HiddenUnion
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP
from attribeam.evaluation.comparison import FailedRow, MethodTally, run_methods
from attribeam.evaluation.lab_methods import LabelledContext, LabMethod
from attribeam.evaluation.measures.sensitivity import first_columns
from attribeam.schemas import RowFault
from attribeam.schemas.labelled_answer import LabelledAnswer

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
    of_attention = [one for one in methods if isinstance(one, AttentionUnion)]
    of_states = [one for one in methods if isinstance(one, HiddenUnion)]
    if of_attention:
        yield from _by_attention(context, of_attention, model)
    if of_states:
        yield from _by_states(context, of_states, model)


def _by_attention(
    context: LabelledContext, methods: Sequence[AttentionUnion], model: AttentionModel
) -> Iterator[tuple[AtLayer, Sequence[SpanResult]]]:
    settings = [context.settings_in_force(one.settings.union_options(one.union)) for one in methods]
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
