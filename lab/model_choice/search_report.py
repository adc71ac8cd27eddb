"""What ``attribeam models check --sweep-layers`` prints about the layers."""

from __future__ import annotations

from collections.abc import Iterator

from attribeam.attribution.options import ATTN_UNION_DEP
from attribeam.lab.evaluation.measures.layer_sweep import AtLayer
from attribeam.lab.evaluation.measures.sensitivity import SensitivityPoint
from attribeam.lab.evaluation.measures.source_folds import FOLDS
from attribeam.lab.evaluation.report import interval_cell, text_table
from attribeam.lab.model_choice.layer_search import ISOLATION_TAUS, STATE_METHODS, TOP_KS, LayerSearch
from attribeam.lab.model_choice.setting_search import ROUNDS, Choice

_MOST_NAMED = 3
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
    """The choice, how good such choices are on other rows, and how much they vary."""
    validated = choice.cross_validated
    yield f"{name:<11}{_words(choice.setting)}: {choice.accuracy:.1f} % on the rows that it was chosen on,"
    yield (
        f"{'':<11}{validated.mean:.1f} % by cross-validation ({validated.low:.1f} to {validated.high:.1f} in {ROUNDS} "
        f"rounds of {FOLDS} folds)"
    )
    yield f"{'':<11}usual: {_words(choice.usual)}: {choice.usual_accuracy:.1f} %; gain of the choice {_gain(choice)}"
    folds = sum(choice.chosen.values())
    named = [f"{_words(one)} ({count})" for one, count in [*choice.chosen.items()][:_MOST_NAMED]]
    more = f" and {len(choice.chosen) - _MOST_NAMED} others" if len(choice.chosen) > _MOST_NAMED else ""
    yield f"{'':<11}chosen in {folds} folds: {'; '.join(named)}{more}"
    layers = sorted({one.layer for one in choice.level})
    yield (
        f"{'':<11}level with the best of all: {len(choice.level)} settings, of layer{'s' * (len(layers) > 1)} "
        f"{', '.join(map(str, layers))}"
    )


def _gain(choice: Choice[SensitivityPoint] | Choice[AtLayer]) -> str:
    certain = "" if choice.is_gain else ", which is not certain"
    ahead = choice.cross_validated.mean - choice.usual_accuracy
    return f"{ahead:+.1f} (95% interval {interval_cell(choice.gain, sign='+')}){certain}"


def _advice(found: LayerSearch) -> str:
    if found.states is None or not found.prefers_states:
        return f"best       attention: {_words(found.attention.setting)}"
    at = found.states.setting
    return (
        f"best       hidden states find more than attention: --method {at.method} --hidden-layer {at.layer}; the file "
        "below is for attention"
    )


def _words(setting: SensitivityPoint | AtLayer) -> str:
    if isinstance(setting, AtLayer):
        return f"{setting.method}, layer {setting.layer}"
    return f"layer {setting.layer}, k {setting.top_k}, tau {setting.isolation_tau:g}"


def _cell(value: float | None, level: bool) -> str:
    return "" if value is None else f"{value:.1f} {_MARK if level else ' '}"
