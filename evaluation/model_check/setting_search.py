"""The search for a model's layer and settings: by attention with k and tau, and by hidden states; and its report.

Of many settings tried on few rows the best one is partly lucky. So the layer is chosen first, all of them at their most
usual setting, one for each, which leaves few to be lucky. Of the settings of that layer one is only preferred to a more
usual one if it is better by more than one standard error. The choice itself is judged by cross-validation: made on four
fifths of the rows and scored on the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.method import LoadedModels, MethodSettings
from attribeam.attribution.models.model_directory import ModelDirectory
from attribeam.attribution.models.model_files import CONFIG_FILE
from attribeam.attribution.options import ATTN_UNION_DEP
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures.accuracy import MethodTally
from attribeam.evaluation.measures.bootstrap import FOLDS, Interval, RowBootstrap, source_folds
from attribeam.evaluation.measures.layer_sweep import (
    AtLayer,
    SensitivityPoint,
    default_point,
    sweep,
    sweep_layers,
    swept_layers,
)
from attribeam.evaluation.methods.registry import audit_name, lab_methods
from attribeam.evaluation.report import interval_cell, text_table

ROUNDS = 10
LEAST_SOURCES = 10
_ROUNDING = 1e-9
_Setting = TypeVar("_Setting", bound=Hashable)
_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Spread:
    """An accuracy in percent by cross-validation: the mean of all rounds, the least and the most of one."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Choice(Generic[_Setting]):
    """The chosen setting.

    Attributes:
        setting: the choice on all rows.
        accuracy: of the choice on the rows that it was made on, in percent; partly luck.
        cross_validated: of choices on rows that they were not made on.
        usual, usual_accuracy: the setting that needs no choice, and its accuracy on all rows in percent.
        gain: the interval over rows of how much better than the usual setting the cross-validated choices are, in
            percent; it says more than the spread of the rounds, which share their rows.
        level: the settings that are behind the best of all by no more than a standard error, in the order given: what
            the rows cannot tell apart. The choice itself need not be one of them.
    """

    setting: _Setting
    accuracy: float
    cross_validated: Spread
    usual: _Setting
    usual_accuracy: float
    gain: Interval
    level: tuple[_Setting, ...]

    @property
    def is_gain(self) -> bool:
        """Whether the choices are better than the usual setting, beyond what the rows leave open."""
        return self.gain.low > 0


def choose(
    credits: Mapping[_Setting, Sequence[float]],
    *,
    layer_of: Callable[[_Setting], Hashable],
    spans: Sequence[int],
    sources: Sequence[Hashable],
    seed: int = 0,
) -> Choice[_Setting]:
    """The best setting of the best layer, and how good such choices are.

    Args:
        credits: for each setting the sum of its spans' credits per row, the more usual settings first; a layer is
            judged by its first one. Of equally good settings or layers an earlier one is chosen.
        layer_of: the layer that a setting belongs to.
        spans: the number of spans per row.
        sources: what each row is from; rows of one source are never on both sides of a fold.
        seed: of the folds.

    Raises:
        ValueError: if there is no setting, or there are fewer than ``LEAST_SOURCES`` sources.
    """
    count = len(set(sources))
    if not credits or count < LEAST_SOURCES:
        raise ValueError(
            f"a choice should have settings and {LEAST_SOURCES} sources of rows or more, had {len(credits)} and {count}"
        )
    settings, table = [*credits], np.array([*credits.values()], dtype=np.float64)
    sizes = np.array(spans, dtype=np.float64)
    layers = _layer_masks([layer_of(setting) for setting in settings])
    best = _best(table, layers, sizes)
    rounds = _cross_validated(table, layers, sizes, sources, seed)
    accuracies = [_percent(one, sizes) for one in rounds]
    ahead = np.mean(rounds, axis=0) - table[0]
    usual, *_ = settings
    return Choice(
        setting=settings[best],
        accuracy=_percent(table[best], sizes),
        cross_validated=Spread(float(np.mean(accuracies)), min(accuracies), max(accuracies)),
        usual=usual,
        usual_accuracy=_percent(table[0], sizes),
        gain=RowBootstrap(spans, seed=seed).interval(ahead.tolist()),
        level=tuple(settings[index] for index in np.flatnonzero(_level(table, sizes))),
    )


def _cross_validated(
    table: _Numbers, layers: Sequence[_Flags], sizes: _Numbers, sources: Sequence[Hashable], seed: int
) -> list[_Numbers]:
    """What the choices of each round scored, float64 [rows]."""
    rounds = []
    for round_number in range(ROUNDS):
        folds = source_folds(sources, seed=seed + round_number)
        scored = np.zeros(len(sizes))
        for fold in np.unique(folds):
            best = _best(table[:, folds != fold], layers, sizes[folds != fold])
            scored[folds == fold] = table[best, folds == fold]
        rounds.append(scored)
    return rounds


def _layer_masks(layers: Sequence[Hashable]) -> list[_Flags]:
    """For each layer which settings are its own, bool [settings]; the layers in the order of their first setting."""
    return [np.array([one == layer for one in layers]) for layer in dict.fromkeys(layers)]


def _best(table: _Numbers, layers: Sequence[_Flags], sizes: _Numbers) -> int:
    """Of the layer that is best at its first setting, the first setting that is level with the layer's best one."""
    totals = table.sum(1)
    layer = max(layers, key=lambda mask: totals[np.argmax(mask)])
    own = np.flatnonzero(layer)
    return int(own[np.argmax(_level(table[own], sizes))])


def _level(table: _Numbers, sizes: _Numbers) -> _Flags:
    """Which settings are behind the best one by no more than a standard error of the difference, bool [settings].

    The standard error is that of a mean per span whose rows are drawn independently. One row more is just that, which
    rounding must not turn into more.
    """
    top = table[int(np.argmax(table.sum(1)))]
    behind = top - table
    rows = behind.shape[1]
    spread = behind - behind.sum(1, keepdims=True) / sizes.sum() * sizes
    errors = np.sqrt((spread**2).sum(1) * rows / max(rows - 1, 1))
    level: _Flags = behind.sum(1) <= errors * (1 + _ROUNDING)
    return level


def _percent(credits: _Numbers, sizes: _Numbers) -> float:
    return 100 * float(credits.sum() / sizes.sum())


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


def search_layers(answers: Sequence[LabelledAnswer], model: AttentionModel, parser: AnswerParser) -> LayerSearch:
    """Try all layers on the answers; the model must be loaded completely (``ModelOptions.loaded_layers``).

    Raises:
        ValueError: if there are too few different questions for a choice.
    """
    models = LoadedModels(parser=parser, attention=model)
    credits = _attention_credits(shown(answers, "layers by attention"), models, model)
    spans = [len(answer.spans) for answer in answers]
    sources = [answer.record.question for answer in answers]
    attention = choose(credits, layer_of=lambda point: point.layer, spans=spans, sources=sources)
    states = _state_tallies(shown(answers, "layers by hidden states"), models, model)
    of_states = {at: tally.credits for at, tally in states.items()}
    # Hidden states of most layers find about as much, and the best of them is lucky: none is preferred for its layer.
    return LayerSearch(
        attention,
        choose(of_states, layer_of=lambda _: None, spans=spans, sources=sources) if states else None,
        _by_layer(credits, states, sum(spans)),
    )


def shown(answers: Sequence[LabelledAnswer], what: str) -> Iterable[LabelledAnswer]:
    """The answers, with a progress bar on a terminal."""
    return cast("Iterable[LabelledAnswer]", tqdm(answers, desc=what, unit="row", disable=None))


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
    tallies = sweep(answers, models, points, settings=settings)
    return {point: tally.credits for point, tally in tallies.items()}


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
    own = directory.options.attribution_config or Path(directory.location) / CONFIG_FILE
    path = Path(own)
    values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if choice.setting != choice.usual:
        values = {name: value for name, value in values.items() if name not in _OF_THE_LAYER}
    tau = choice.setting.isolation_tau
    found = {
        "layer": choice.setting.layer,
        "top_k": choice.setting.top_k,
        "isolation_tau": "inf" if math.isinf(tau) else tau,
    }
    return values | found


_MARK = "*"


def search_lines(found: LayerSearch, rows: int) -> Iterator[str]:
    """A table of the layers, the choices with what cross-validation says of them, and which to use."""
    usual = found.attention.usual
    yield ""
    yield f"sweep      passages found in percent on {rows} rows; layer 0 is the embeddings"
    yield ""
    header = (
        "layer",
        f"{ATTN_UNION_DEP}, k {usual.top_k}, tau {usual.isolation_tau:g}",
        f"best of {len(TOP_KS)} k and {len(ISOLATION_TAUS)} tau",
        f"{STATE_METHODS[0]}, its states",
    )
    level = _level_by_layer(found)
    rows_of_table = [
        (str(layer), *map(_cell, cells, marks))
        for (layer, cells), marks in zip(found.by_layer.items(), level, strict=True)
    ]
    yield from text_table(header, rows_of_table).split("\n")
    yield f"{_MARK} level with the best of all, as far as these rows tell: behind by no more than a standard error"
    yield ""
    yield from _choice_lines("attention", found.attention)
    if found.states is not None:
        yield from _choice_lines("states", found.states)
    yield ""
    yield _advice(found)


def _level_by_layer(found: LayerSearch) -> Iterator[tuple[bool, bool, bool]]:
    """For each layer and column of the table, whether the rows cannot tell it from the best."""
    usual, of_attention = found.attention.usual, {*found.attention.level}
    of_states = {*found.states.level} if found.states is not None else set()
    some = {point.layer for point in of_attention}
    for layer in found.by_layer:
        as_usual = SensitivityPoint(layer, usual.top_k, usual.isolation_tau)
        yield as_usual in of_attention, layer in some, AtLayer(STATE_METHODS[0], layer) in of_states


def _choice_lines(name: str, choice: Choice[SensitivityPoint] | Choice[AtLayer]) -> Iterator[str]:
    """The choice, and how good such choices are on other rows."""
    validated = choice.cross_validated
    yield f"{name:<11}{choice.setting}: {choice.accuracy:.1f} % on the rows that it was chosen on,"
    yield (
        f"{'':<11}{validated.mean:.1f} % by cross-validation ({validated.low:.1f} to {validated.high:.1f} in {ROUNDS} "
        f"rounds of {FOLDS} folds)"
    )
    yield f"{'':<11}usual: {choice.usual}: {choice.usual_accuracy:.1f} %; gain of the choice {_gain(choice)}"


def _gain(choice: Choice[SensitivityPoint] | Choice[AtLayer]) -> str:
    certain = "" if choice.is_gain else ", which is not certain"
    ahead = choice.cross_validated.mean - choice.usual_accuracy
    return f"{ahead:+.1f} (95% interval {interval_cell(choice.gain, sign='+')}){certain}"


def _advice(found: LayerSearch) -> str:
    if found.states is None or not found.prefers_states:
        return f"best       attention: {found.attention.setting}"
    at = found.states.setting
    return (
        f"best       hidden states find more than attention: --method {audit_name(at.method)} --hidden-layer "
        f"{at.layer}; the file below is for attention"
    )


def _cell(value: float | None, level: bool) -> str:
    return "" if value is None else f"{value:.1f} {_MARK if level else ' '}"
