"""Running the unfinished cells one by one, with a progress bar over their answers.

A model is loaded when a cell needs it, and kept as long as the next cells need the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tqdm import tqdm

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import load_models
from attribeam.lab.evaluation.datasets.loaders import CITED_LOADERS, LOADERS
from attribeam.lab.evaluation.measures.citations import EntailmentModel, RememberedEntailment
from attribeam.lab.evaluation.suite.cell import Cell, CellStore, Kind
from attribeam.lab.evaluation.suite.data_files import DataFile, FoundData, Section
from attribeam.lab.evaluation.suite.measure_cell import CellInputs, measure_cell
from attribeam.lab.evaluation.suite.plan import Plan, parser_of
from attribeam.lab.evaluation.suite.suite_options import SuiteOptions
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import DataError, RunError
from attribeam.schemas.labelled_answer import LabelledAnswer, LabelledDataset


@dataclass(frozen=True, slots=True)
class _Load:
    parser: str
    needs: frozenset[Need]
    all_layers: bool


class SuiteModels:
    """Loads the models that cells need."""

    def __init__(
        self,
        options: SuiteOptions,
        cells: Sequence[Cell],
        *,
        parsers: Mapping[str, AnswerParser],
        layer_count: int,
    ) -> None:
        """Plan for all upcoming cells, so that adjacent cells share their models.

        Args:
            options: the options of the suite.
            cells: the cells that will ask for models.
            parsers: all loaded parsers by their names.
            layer_count: how many layers to load for a cell that needs all of them.
        """
        self._options, self._parsers, self._layer_count = options, parsers, layer_count
        self._together = _needed_together(cells, options)
        self._loaded: tuple[_Load, LoadedModels] | None = None

    def of(self, cell: Cell) -> LoadedModels:
        """The models of a cell, shared with the other cells of its group.

        Raises:
            RunError: if one cannot be loaded.
        """
        load = self._together[_group(cell, self._options)]
        if self._loaded is None or self._loaded[0] != load:
            self._loaded = None
            self._loaded = (load, self._load(load))
        return self._loaded[1]

    def _load(self, load: _Load) -> LoadedModels:
        choice = self._options.choice
        if load.all_layers:
            choice = replace(choice, model=choice.model.replaced(loaded_layers=self._layer_count))
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


@dataclass(frozen=True, slots=True)
class FinishedCell:
    """A cell and its result."""

    cell: Cell
    result: Mapping[str, Any]


def load_datasets(found: FoundData, options: SuiteOptions) -> dict[DataFile, LabelledDataset]:
    """All labelled data sets except RAGTruth, read and checked before anything runs.

    Raises:
        DataError: if a file is not in its format.
    """
    datasets = {}
    for data in found.files:
        if data.section is Section.SUPPORT:
            continue
        loaders = CITED_LOADERS if data.section is Section.CITATIONS else LOADERS
        dataset = loaders[data.loader_name](data.path)
        if not dataset.answers:
            raise DataError(f"data file {data.path} should have labelled answers, has none; remove it")
        datasets[data] = dataset if options.limit is None else dataset.first(options.limit)
    return datasets


def run_cells(
    plan: Plan,
    store: CellStore,
    options: SuiteOptions,
    datasets: Mapping[DataFile, LabelledDataset],
    *,
    parsers: Mapping[str, AnswerParser],
    layers: tuple[int, ...],
    entailment: EntailmentModel | None = None,
) -> tuple[FinishedCell, ...]:
    """The result of every cell: read if the cell is finished, else computed and stored before the next one starts.

    Raises:
        RunError: if a model cannot be loaded, or a result cannot be written.
    """
    finished = {cell.key: result for cell in plan.cells if (result := store.read(cell)) is not None}
    outstanding = [cell for cell in plan.cells if cell.key not in finished]
    print_lines(f"{len(plan.cells)} cells, {len(plan.cells) - len(outstanding)} of them already finished")
    runner = _Runner(plan, store, options, datasets, parsers, layers, entailment)
    computed = runner.run(outstanding) if outstanding else {}
    return tuple(FinishedCell(cell, (finished | computed)[cell.key]) for cell in plan.cells)


@dataclass(frozen=True)
class _Runner:
    plan: Plan
    store: CellStore
    options: SuiteOptions
    datasets: Mapping[DataFile, LabelledDataset]
    parsers: Mapping[str, AnswerParser]
    layers: tuple[int, ...]
    entailment: EntailmentModel | None

    def run(self, outstanding: Sequence[Cell]) -> dict[str, Mapping[str, Any]]:
        models = SuiteModels(self.options, outstanding, parsers=self.parsers, layer_count=max(self.layers))
        results: dict[str, Mapping[str, Any]] = {}
        answers = sum(self._answers(cell) for cell in outstanding)
        with tqdm(total=answers, desc="suite", unit="answer", disable=None) as bar:
            inputs = self._inputs(bar)
            for number, cell in enumerate(outstanding, start=1):
                bar.set_description(cell.title)
                started = time.perf_counter()
                result = measure_cell(cell, inputs, models.of(cell))
                self.store.write(cell, result)
                results[cell.key] = result
                tqdm.write(f"{number}/{len(outstanding)} {cell.title}: {time.perf_counter() - started:.0f} s")
        return results

    def _answers(self, cell: Cell) -> int:
        return len(self.datasets[cell.data].answers) if cell.data in self.datasets else 0

    def _inputs(self, bar: tqdm[Any]) -> CellInputs:
        def report_progress(answers: Iterable[LabelledAnswer]) -> Iterator[LabelledAnswer]:
            for answer in answers:
                yield answer
                bar.update()

        asked_once = None if self.entailment is None else RememberedEntailment(self.entailment)
        return CellInputs(self.options, self.datasets, self.layers, asked_once, self._targets, report_progress)

    def _targets(self, data: DataFile) -> Any:
        """The stored targets of a data set; their cell runs before the cells that use them."""
        cell = next(one for one in self.plan.cells if one.kind is Kind.TARGETS and one.data == data)
        stored = self.store.read(cell)
        if stored is None:
            raise RunError(f"the result of a cell disappeared while the suite ran: {cell.title}; run the suite again")
        return stored
