"""The models of a suite, loaded when a cell needs them and kept as long as the next cells need the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from attribution.answers.answer_parser import AnswerParser
from evaluation.methods.answer_context import LoadedModels
from evaluation.methods.need import Need
from evaluation.model_loading import load_models
from evaluation.suite.cell import Cell
from evaluation.suite.plan import parser_of
from evaluation.suite.suite_options import SuiteOptions


@dataclass(frozen=True, slots=True)
class _Load:
    parser: str
    needs: frozenset[Need]
    all_layers: bool


class SuiteModels:
    """Loads what cells need."""

    def __init__(
        self,
        options: SuiteOptions,
        cells: Sequence[Cell],
        *,
        parsers: Mapping[str, AnswerParser],
        layer_count: int,
    ) -> None:
        """Look at all cells that are to come, so that cells in a row share their models.

        Args:
            options: the suite's.
            cells: those that will ask.
            parsers: all parsers by their names, loaded.
            layer_count: what is loaded for a cell that needs all layers.
        """
        self._options, self._parsers, self._layer_count = options, parsers, layer_count
        self._together = _needed_together(cells, options)
        self._loaded: tuple[_Load, LoadedModels] | None = None

    def of(self, cell: Cell) -> LoadedModels:
        """The models of a cell and of those that share them with it.

        Raises:
            EvaluationError: if one cannot be loaded.
        """
        load = self._together[_group(cell, self._options)]
        if self._loaded is None or self._loaded[0] != load:
            self._loaded = None
            self._loaded = (load, self._load(load))
        return self._loaded[1]

    def _load(self, load: _Load) -> LoadedModels:
        choice = self._options.choice
        if load.all_layers:
            choice = replace(choice, model=replace(choice.model, loaded_layers=self._layer_count))
        models = load_models(choice, load.needs - {Need.PARSER})
        return replace(models, parser=self._parsers[load.parser]) if Need.PARSER in load.needs else models


_Group = tuple[str, bool, bool, bool]


def _group(cell: Cell, options: SuiteOptions) -> _Group:
    of_the_model = bool(cell.needs & {Need.ATTENTION, Need.RESPONSE_ATTENTION, Need.HIDDEN_STATES})
    return parser_of(cell.data, options), cell.all_layers, Need.LANGUAGE_MODEL in cell.needs, of_the_model


def _needed_together(cells: Sequence[Cell], options: SuiteOptions) -> dict[_Group, _Load]:
    loads: dict[_Group, _Load] = {}
    for cell in cells:
        group = _group(cell, options)
        known = loads[group].needs if group in loads else frozenset[Need]()
        loads[group] = _Load(group[0], known | cell.needs, cell.all_layers)
    return loads
