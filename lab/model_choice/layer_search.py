"""Searches the layers of a model for those that find passages: by attention with k and tau, and by hidden states."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import MethodSettings
from attribeam.attribution.models.attribution_config import FILE_NAME
from attribeam.attribution.models.model_directory import ModelDirectory
from attribeam.attribution.options import ATTN_UNION_DEP
from attribeam.lab.evaluation.comparison import MethodTally
from attribeam.lab.evaluation.lab_methods import lab_methods
from attribeam.lab.evaluation.measures.layer_sweep import AtLayer, sweep_layers, swept_layers
from attribeam.lab.evaluation.measures.sensitivity import SensitivityPoint, default_point, tally_points
from attribeam.lab.model_choice.setting_search import Choice, choose
from attribeam.schemas.labelled_answer import LabelledAnswer

TOP_KS = (1, 2, 3, 4, 6, 8)
ISOLATION_TAUS = (1.0, 2.0, 4.0, math.inf)
STATE_METHODS = ("hss-union-dep", "hss-union")
_OF_THE_LAYER = ("softmax_over", "supported_threshold", "weak_threshold")
"""Settings that were trained or chosen for another layer's attention."""


@dataclass(frozen=True, slots=True)
class LayerSearch:
    """What was found.

    Attributes:
        attention: the layer, k and tau of ``attn-union-dep``.
        states: the method and layer of the hidden states; None if they cannot be taken from the model.
        by_layer: accuracy in percent of attention with the usual k and tau, of its best k and tau, and of the hidden
            states by their first method, for each layer; None where a layer has none.
    """

    attention: Choice[SensitivityPoint]
    states: Choice[AtLayer] | None
    by_layer: Mapping[int, tuple[float | None, float | None, float | None]]

    @property
    def prefers_states(self) -> bool:
        """Whether the hidden states find more passages, both being cross-validated."""
        return self.states is not None and self.states.cross_validated.mean > self.attention.cross_validated.mean


_Progress = Callable[[Sequence[LabelledAnswer], str], Iterable[LabelledAnswer]]


def search_layers(
    answers: Sequence[LabelledAnswer], model: AttentionModel, parser: AnswerParser, progress: _Progress
) -> LayerSearch:
    """Try all layers on the answers; the model must be loaded completely (``ModelOptions.loaded_layers``).

    ``progress`` is given the answers and what is done with them, and yields them.

    Raises:
        ValueError: if there are too few different questions for a choice.
    """
    models = LoadedModels(parser=parser, attention=model)
    credits = _attention_credits(progress(answers, "layers by attention"), models, model)
    spans = [len(answer.spans) for answer in answers]
    sources = [answer.record.question for answer in answers]
    attention = choose(credits, layer_of=lambda point: point.layer, spans=spans, sources=sources)
    states = _state_tallies(progress(answers, "layers by hidden states"), models, model)
    of_states = {at: tally.credits for at, tally in states.items()}
    # Hidden states of most layers find about as much, and the best of them is lucky: none is preferred for its layer.
    return LayerSearch(
        attention,
        choose(of_states, layer_of=lambda _: None, spans=spans, sources=sources) if states else None,
        _by_layer(credits, states, sum(spans)),
    )


def _attention_credits(
    answers: Iterable[LabelledAnswer], models: LoadedModels, model: AttentionModel
) -> Mapping[SensitivityPoint, Sequence[float]]:
    """The credits per row of every point, from the usual one to those that differ most from it."""
    settings = MethodSettings()
    usual = default_point(model, settings)
    layers = swept_layers(model, lab_methods(settings)[ATTN_UNION_DEP])
    top_ks, taus = {*TOP_KS, usual.top_k}, {*ISOLATION_TAUS, usual.isolation_tau}
    points = [SensitivityPoint(*one) for one in product(layers, top_ks, taus)]
    points.sort(key=lambda one: _distance(one, usual))
    return tally_points(answers, models, points, settings=settings, method=ATTN_UNION_DEP).credits


def _distance(point: SensitivityPoint, usual: SensitivityPoint) -> tuple[float, ...]:
    """How unusual a point is: first by its layer, of two equally far ones the lower, then by k and tau."""
    tau = min(point.isolation_tau, 1e9)
    return (
        abs(point.layer - usual.layer),
        point.layer,
        abs(point.top_k - usual.top_k),
        abs(tau - min(usual.isolation_tau, 1e9)),
    )


def _state_tallies(
    answers: Iterable[LabelledAnswer], models: LoadedModels, model: AttentionModel
) -> Mapping[AtLayer, MethodTally]:
    """The tallies of the methods of hidden states, from the paper's layer on; none if they cannot be taken."""
    available = lab_methods()
    try:
        found = sweep_layers(answers, [available[name] for name in STATE_METHODS], models)
    except ValueError:
        return {}
    usual = model.layer_count // 2
    order = sorted(found, key=lambda at: (abs(at.layer - usual), at.layer, STATE_METHODS.index(at.method)))
    return {at: found[at] for at in order}


def _by_layer(
    credits: Mapping[SensitivityPoint, Sequence[float]], states: Mapping[AtLayer, MethodTally], spans: int
) -> Mapping[int, tuple[float | None, float | None, float | None]]:
    usual = next(iter(credits))
    accuracy = {point: 100 * sum(values) / spans for point, values in credits.items()}
    as_usual = {
        one.layer: value
        for one, value in accuracy.items()
        if (one.top_k, one.isolation_tau) == (usual.top_k, usual.isolation_tau)
    }
    best = {layer: max(value for one, value in accuracy.items() if one.layer == layer) for layer in as_usual}
    of_states = {
        at.layer: 100 * sum(one.credits) / spans for at, one in states.items() if at.method == STATE_METHODS[0]
    }
    layers = sorted({*as_usual, *of_states})
    return {layer: (as_usual.get(layer), best.get(layer), of_states.get(layer)) for layer in layers}


def found_settings(directory: ModelDirectory, choice: Choice[SensitivityPoint]) -> dict[str, Any]:
    """The keys of an ``attribution_config.json`` with the choice: the model's own, where it has some, and these.

    What was trained or chosen for the attention of another layer is left out.
    """
    own = directory.options.attribution_config or Path(directory.location) / FILE_NAME
    path = Path(own)
    values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if choice.setting != choice.usual:
        values = {name: value for name, value in values.items() if name not in _OF_THE_LAYER}
    tau = choice.setting.isolation_tau
    found = {"layer": choice.setting.layer, "top_k": choice.setting.top_k, "isolation_tau": _json_number(tau)}
    return values | found


def _json_number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
