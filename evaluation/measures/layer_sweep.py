"""Passage accuracy at many settings of one forward pass per answer, and the choice among them.

Of many settings tried on few rows the best one is partly lucky. So the layer is chosen first, all at their most usual
setting. Of that layer's settings, one is only preferred to a more usual one if it is better by more than one standard
error. The choice itself is judged by cross-validation: made on four fifths of the rows and scored on the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import Job, run_halving
from attribeam.attribution.attention.capture import LayerCapture, observing
from attribeam.attribution.attention.hidden_states import HiddenSimilarity, states_of_layers
from attribeam.attribution.attention.reduction import CapturedRow, PendingRows, RowAttention, reduce_row
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import LoadedModels, MethodSettings, PassageScore, required
from attribeam.attribution.models import CONFIG_FILE
from attribeam.attribution.models.model_directory import ModelDirectory, layer_types, layers_with_attention
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP, MethodOptions, SoftmaxOver
from attribeam.attribution.prompts.token_offsets import merge_windows, windows_or_whole
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures import (
    FOLDS,
    Estimate,
    Interval,
    RowBootstrap,
    interval_cell,
    source_folds,
    text_table,
)
from attribeam.evaluation.measures.accuracy import MethodTally, run_methods, with_progress
from attribeam.evaluation.methods import EvaluationMethod, LabelledContext, audit_name, evaluation_methods
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

    The model must be loaded up to the highest layer (``ModelOptions.loaded_layers``), and all must have attention; it
    is a ``ValueError`` otherwise, or without a point.
    """
    union = required(models.attention, "attention model").union_settings(settings.union_options(method))
    at = {
        point: (point.layer, union.replaced(top_k=point.top_k, isolation_tau=point.isolation_tau)) for point in points
    }
    bare = (replace(answer, gold_evidence=()) for answer in answers)
    return _tally_points(bare, models, points, lambda context: _of_attention(context, at, settings.passage_score))


def _of_attention(
    context: LabelledContext, at: Mapping[_Point, tuple[int, MethodOptions]], rule: PassageScore
) -> _Results[_Point]:
    """What each point finds at its layer and under its options; all share one forward pass."""
    layers, top_k = {layer for layer, _ in at.values()}, max((options.top_k for _, options in at.values()), default=0)
    count = len(context.record.passages)
    of_layers = attribute_layers(context.model, context.encoded, count, layers=layers, top_k=top_k)
    for point, (layer, options) in at.items():
        tokens, kept = of_layers[layer], options.top_k
        first = replace(tokens, top_columns=tokens.top_columns[:, :kept], top_scores=tokens.top_scores[:, :kept])
        yield point, results_of_union(context, first, options, passage_score=rule)


SWEPT = (ATTN_UNION, ATTN_UNION_DEP, "hss-union", "hss-union-dep")
"""The methods that read one layer."""


def run_at_layers(
    answers: Iterable[LabelledAnswer], methods: Sequence[EvaluationMethod], models: LoadedModels
) -> tuple[MethodTally, ...]:
    """The tallies of all methods: one at each layer for those of ``SWEPT``, one for each of the others."""
    swept = [method for method in methods if method.name in SWEPT]
    others = [method for method in methods if method.name not in SWEPT]
    if not swept:
        return run_methods(answers, others, models)
    kept = list(answers) if others else answers
    return (*sweep_layers(kept, swept, models).values(), *(run_methods(kept, others, models) if others else ()))


def sweep_layers(
    answers: Iterable[LabelledAnswer], methods: Sequence[EvaluationMethod], models: LoadedModels
) -> dict[AtLayer, MethodTally]:
    """A tally for each method and layer; its name is "hss-union, layer 3".

    The model must be loaded completely (``ModelOptions.loaded_layers``). A row that it refuses counts as wrong. Raises
    ``ValueError`` if a method is none of ``SWEPT``, or hidden states cannot be taken from the model.
    """
    model = required(models.attention, "attention model")
    if not {method.name for method in methods} <= {*SWEPT}:
        raise ValueError(f"methods of a sweep should be some of {', '.join(SWEPT)}")
    attention_layers = layers_with_attention(layer_types(model.network.config))
    all_layers = range(model.layer_count + 1)  # 0 are the embeddings
    unions = [method for method in methods if isinstance(method, ScoredUnion)]
    merged = {union.name: model.union_settings(union.settings.union_options(union.name)) for union in unions}
    settings_of_points = {
        AtLayer(name, layer): (layer, settings) for name, settings in merged.items() for layer in attention_layers
    }
    of_states = [method for method in methods if isinstance(method, HiddenUnion)]

    def results(context: LabelledContext) -> _Results[AtLayer]:
        row, count = context.encoded, len(context.record.passages)
        for union in unions[:1]:
            yield from _of_attention(context, settings_of_points, union.settings.passage_score)
        if of_states:
            parts = windows_or_whole(row)
            states = [states_of_layers(model.network, part.token_ids, layers=all_layers) for part in parts]
            for layer in all_layers:
                similarity = HiddenSimilarity([state[layer] for state in states], encoded=row, passage_count=count)
                for method in of_states:
                    yield AtLayer(method.name, layer), method.results_of(context, similarity)

    layers_of = {method.name: all_layers if isinstance(method, HiddenUnion) else attention_layers for method in methods}
    points = [AtLayer(name, layer) for name, layers in layers_of.items() for layer in layers]
    return _tally_points(answers, models, points, results)


_ByLayer = Mapping[int, TokenAttribution]


def attribute_layers(
    model: AttentionModel, row: EncodedRow, passage_count: int, *, layers: Collection[int], top_k: int
) -> Mapping[int, TokenAttribution]:
    """The attributions of each of the 1-based ``layers``, as ``AttentionModel.attribute`` gives them for L*.

    The pass ends at the last of them. A batch that does not fit into memory is halved. A softmax over the prompt
    applies only to L*, which it was trained for; other layers take one over all tokens that a token sees. Raises
    ``RowFault`` OUT_OF_MEMORY or NON_FINITE_ATTENTION; ``ValueError`` if one of the layers was not loaded or has no
    attention, or if ``layers`` is empty.
    """
    loaded = int(model.network.config.get_text_config().num_hidden_layers)
    if not layers or min(layers) < 1 or max(layers) > loaded:
        raise ValueError(
            f"layers should be one or more numbers from 1 to {loaded}, the loaded layers, were: {sorted(layers)}"
        )
    if missing := sorted(set(layers) - set(layers_with_attention(layer_types(model.network.config)))):
        raise ValueError(f"layers should have attention, but these have none: {missing}")
    loaded_captures = {model.layer: model.capture}
    captures = {
        layer: loaded_captures.get(layer) or replace(model.capture, layer=layer, softmax_over=SoftmaxOver.VISIBLE)
        for layer in sorted(layers)
    }
    jobs = [(part, passage_count) for part in windows_or_whole(row)]
    parts: dict[int, _ByLayer] = {}
    for batch in model.batches([part for part, _ in jobs]):
        outcomes = run_halving(
            [jobs[index] for index in batch],
            lambda batch_jobs: _captured_layers(model, captures, batch_jobs, top_k=top_k),
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
    requests = {layer: iter(capture.requests(jobs)) for layer, capture in captures.items() if layer != last}
    taken: dict[int, list[CapturedRow]] = {layer: [] for layer in captures}

    def observe(index: int, attention: RowAttention) -> None:
        if (layer := index + 1) in requests:
            taken[layer].append(reduce_row(attention, next(requests[layer]), top_k=top_k))

    with observing(observe):
        taken[last] = captures[last].take(jobs, layout=model.layout, top_k=top_k).captured
    pending = {layer: PendingRows(rows) for layer, rows in taken.items()}
    results: list[_ByLayer | RowFault] = []
    for index in range(len(jobs)):
        outcomes = {layer: rows.outcome(index) for layer, rows in pending.items()}
        fault = next((outcome for outcome in outcomes.values() if isinstance(outcome, RowFault)), None)
        results.append(fault or {layer: row for layer, row in outcomes.items() if not isinstance(row, RowFault)})
    return results


ROUNDS = 10
LEAST_SOURCES = 10
_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Choice(Generic[_Point]):
    """The chosen setting, and the usual one, which needs no choice; accuracies are in percent.

    Attributes:
        accuracy: of the choice on the rows that it was made on; partly luck.
        cross_validated: of choices on rows that they were not made on, the mean of all rounds, and the interval from
            the least of one to the most.
        gain: the interval over rows of how much better than the usual setting the cross-validated choices are; it says
            more than the spread of the rounds, which share their rows.
        level: the settings that are behind the best of all by no more than a standard error, in the order given. The
            choice itself need not be one of them.
    """

    setting: _Point
    accuracy: float
    cross_validated: Estimate
    usual: _Point
    usual_accuracy: float
    gain: Interval
    level: tuple[_Point, ...]


def choose(
    credits: Mapping[_Point, Sequence[float]],
    *,
    layer_of: Callable[[_Point], Hashable],
    spans: Sequence[int],
    sources: Sequence[Hashable],
    seed: int = 0,
) -> Choice[_Point]:
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
    sizes, owners = np.array(spans, dtype=np.float64), [layer_of(setting) for setting in settings]
    layers = [np.array([owner == layer for owner in owners]) for layer in dict.fromkeys(owners)]
    rounds = []  # what the choices of each round scored, float64 [rows]
    for number in range(ROUNDS):
        folds = source_folds(sources, seed=seed + number)
        scored = np.zeros(len(sizes))
        for fold in np.unique(folds):
            inside = folds == fold
            scored[inside] = table[_best(table[:, ~inside], layers, sizes[~inside]), inside]
        rounds.append(scored)
    best, accuracies = _best(table, layers, sizes), [_percent(scored, sizes) for scored in rounds]
    return Choice(
        setting=settings[best],
        accuracy=_percent(table[best], sizes),
        cross_validated=Estimate(float(np.mean(accuracies)), Interval(min(accuracies), max(accuracies))),
        usual=settings[0],
        usual_accuracy=_percent(table[0], sizes),
        gain=RowBootstrap(spans, seed=seed).interval((np.mean(rounds, axis=0) - table[0]).tolist()),
        level=tuple(settings[index] for index in np.flatnonzero(_level(table, sizes))),
    )


def _best(table: _Numbers, layers: Sequence[_Flags], sizes: _Numbers) -> int:
    """Of the layer that is best at its first setting, the first setting that is level with the layer's best one."""
    totals = table.sum(1)
    own = np.flatnonzero(max(layers, key=lambda mask: totals[np.argmax(mask)]))
    return int(own[np.argmax(_level(table[own], sizes))])


def _level(table: _Numbers, sizes: _Numbers) -> _Flags:
    """Which settings are behind the best one by no more than a standard error of the difference, bool [settings].

    The standard error is that of a mean per span whose rows are drawn independently. One row more is just that, which
    rounding must not turn into more.
    """
    behind = table[int(np.argmax(table.sum(1)))] - table
    rows = behind.shape[1]
    spread = behind - behind.sum(1, keepdims=True) / sizes.sum() * sizes
    errors = np.sqrt((spread**2).sum(1) * rows / max(rows - 1, 1))
    level: _Flags = behind.sum(1) <= errors * (1 + 1e-9)
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
    """The choices by attention, and by hidden states, None if they cannot be taken from the model.

    ``by_layer`` are the accuracies in percent of attention with the usual k and tau, of its best k and tau, and of the
    hidden states by their first method; None where a layer has none.
    """

    attention: Choice[SensitivityPoint]
    states: Choice[AtLayer] | None
    by_layer: Mapping[int, tuple[float | None, float | None, float | None]]


def search_layers(answers: Sequence[LabelledAnswer], model: AttentionModel, parser: AnswerParser) -> LayerSearch:
    """Try all layers on the answers, which must have ``LEAST_SOURCES`` different questions.

    The model must be loaded completely (``ModelOptions.loaded_layers``).
    """
    models, settings, available = LoadedModels(parser=parser, attention=model), MethodSettings(), evaluation_methods()
    spans = [len(answer.spans) for answer in answers]
    sources = [answer.record.question for answer in answers]
    usual = default_point(model, settings)
    layers = layers_with_attention(layer_types(model.network.config))
    top_ks, taus = {*TOP_KS, usual.top_k}, {*ISOLATION_TAUS, usual.isolation_tau}
    points = [SensitivityPoint(*point) for point in product(layers, top_ks, taus)]
    points.sort(key=lambda point: _distance(point, usual))
    tallies = sweep(with_progress(answers, "layers by attention", "row"), models, points, settings=settings)
    credits = {point: tally.credits for point, tally in tallies.items()}
    attention = choose(credits, layer_of=lambda point: point.layer, spans=spans, sources=sources)
    methods, middle = [available[name] for name in STATE_METHODS], model.layer_count // 2  # the paper's layer
    try:
        swept = sweep_layers(with_progress(answers, "layers by hidden states", "row"), methods, models)
    except ValueError:  # they cannot be taken from the model
        swept = {}
    order = sorted(swept, key=lambda at: (abs(at.layer - middle), at.layer, STATE_METHODS.index(at.method)))
    of_states = {at: swept[at].credits for at in order}
    # Hidden states of most layers find about as much, and the best of them is lucky: none is preferred for its layer.
    states = choose(of_states, layer_of=lambda _: None, spans=spans, sources=sources) if of_states else None
    total = sum(spans)
    accuracy = {point: 100 * sum(own) / total for point, own in credits.items()}
    as_usual = {layer: accuracy[replace(usual, layer=layer)] for layer in layers}
    best = {layer: max(own for point, own in accuracy.items() if point.layer == layer) for layer in layers}
    by_states = {at.layer: 100 * sum(own) / total for at, own in of_states.items() if at.method == STATE_METHODS[0]}
    numbers = sorted({*as_usual, *by_states})
    by_layer = {layer: (as_usual.get(layer), best.get(layer), by_states.get(layer)) for layer in numbers}
    return LayerSearch(attention, states, by_layer)


def _distance(point: SensitivityPoint, usual: SensitivityPoint) -> tuple[float, ...]:
    """How unusual a point is: first by its layer, of two equally far ones the lower, then by k and tau."""
    taus = min(point.isolation_tau, 1e9) - min(usual.isolation_tau, 1e9)
    return abs(point.layer - usual.layer), point.layer, abs(point.top_k - usual.top_k), abs(taus)


def found_settings(directory: ModelDirectory, choice: Choice[SensitivityPoint]) -> dict[str, Any]:
    """The keys of an ``attribution_config.json``: the model's own, but for those of another layer, and the choice."""
    path = Path(directory.options.attribution_config or Path(directory.location) / CONFIG_FILE)
    values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if choice.setting != choice.usual:
        values = {name: value for name, value in values.items() if name not in _OF_THE_LAYER}
    chosen = asdict(choice.setting)
    return values | chosen | ({"isolation_tau": "inf"} if math.isinf(choice.setting.isolation_tau) else {})


def search_lines(search: LayerSearch, rows: int) -> Iterator[str]:
    """A table of the layers, the choices with what cross-validation says of them, and which to use."""
    attention, states = search.attention, search.states
    usual, level = attention.usual, {*attention.level}
    level_states = {*states.level} if states is not None else set()
    usually = f"{ATTN_UNION_DEP}, k {usual.top_k}, tau {usual.isolation_tau:g}"
    best = f"best of {len(TOP_KS)} k and {len(ISOLATION_TAUS)} tau"
    lines = []
    for layer, accuracies in search.by_layer.items():
        is_level = (
            replace(usual, layer=layer) in level,
            layer in {point.layer for point in level},
            AtLayer(STATE_METHODS[0], layer) in level_states,
        )
        pairs = zip(accuracies, is_level, strict=True)
        lines.append((str(layer), *("" if acc is None else f"{acc:.1f} {'*' if mark else ' '}" for acc, mark in pairs)))
    yield from ("", f"sweep      passages found in percent on {rows} rows; layer 0 is the embeddings", "")
    yield from text_table(("layer", usually, best, f"{STATE_METHODS[0]}, its states"), lines).split("\n")
    yield from ("* level with the best of all, as far as these rows tell: behind by no more than a standard error", "")
    yield from _choice_lines("attention", attention)
    yield from () if states is None else _choice_lines("states", states)
    yield ""
    if states is None or states.cross_validated.value <= attention.cross_validated.value:
        yield f"best       attention: {attention.setting}"
    else:
        asked = f"--method {audit_name(states.setting.method)} --hidden-layer {states.setting.layer}"
        yield f"best       hidden states find more than attention: {asked}; the file below is for attention"


def _choice_lines(name: str, choice: Choice[SensitivityPoint] | Choice[AtLayer]) -> Iterator[str]:
    validated, spread = choice.cross_validated.value, interval_cell(choice.cross_validated.interval)
    ahead, interval = validated - choice.usual_accuracy, interval_cell(choice.gain, sign="+")
    gain = f"{ahead:+.1f} (95% interval {interval}){'' if choice.gain.low > 0 else ', which is not certain'}"
    yield f"{name:<11}{choice.setting}: {choice.accuracy:.1f} % on the rows that it was chosen on,"
    yield f"{'':<11}{validated:.1f} % by cross-validation ({spread} in {ROUNDS} rounds of {FOLDS} folds)"
    yield f"{'':<11}usual: {choice.usual}: {choice.usual_accuracy:.1f} %; gain of the choice {gain}"
