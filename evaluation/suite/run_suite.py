"""Running the cells one by one, with a progress bar over their answers.

A model is loaded when a cell needs it, and kept as long as the next cells need the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tqdm import tqdm

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import load_models
from attribeam.evaluation.datasets.loaders import CITED_LOADERS, LOADERS
from attribeam.evaluation.measures.citations import EntailmentModel, RememberedEntailment
from attribeam.evaluation.suite.measure_cell import CellInputs, measure_cell
from attribeam.evaluation.suite.plan import Cell, DataFile, FinishedCell, FoundData, Kind, Section, parser_of
from attribeam.evaluation.suite.suite_options import SuiteOptions
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import LabelledAnswer, LabelledDataset


@dataclass(frozen=True, slots=True)
class _Load:
    parser: str
    needs: frozenset[Need]
    all_layers: bool


class SuiteModels:
    """Loads the models that cells need; adjacent cells share them.

    ``parsers`` are all loaded parsers by their names, ``layer_count`` is how many layers to load for a cell that needs
    all of them.
    """

    def __init__(
        self, options: SuiteOptions, cells: Sequence[Cell], *, parsers: Mapping[str, AnswerParser], layer_count: int
    ) -> None:
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
    cells: Sequence[Cell],
    options: SuiteOptions,
    datasets: Mapping[DataFile, LabelledDataset],
    *,
    parsers: Mapping[str, AnswerParser],
    layers: tuple[int, ...],
    entailment: EntailmentModel | None = None,
) -> list[FinishedCell]:
    """The result of every cell.

    Raises:
        RunError: if a model cannot be loaded.
    """
    models = SuiteModels(options, cells, parsers=parsers, layer_count=max(layers))
    answers = sum(len(datasets[cell.data].answers) for cell in cells if cell.data in datasets)
    finished: list[FinishedCell] = []
    with tqdm(total=answers, desc="suite", unit="answer", disable=None) as bar:

        def report_progress(answers: Iterable[LabelledAnswer]) -> Iterator[LabelledAnswer]:
            for answer in answers:
                yield answer
                bar.update()

        asked_once = None if entailment is None else RememberedEntailment(entailment)
        inputs = CellInputs(options, datasets, layers, asked_once, {}, report_progress)
        for number, cell in enumerate(cells, start=1):
            bar.set_description(cell.title)
            started = time.perf_counter()
            finished.append(FinishedCell(cell, measure_cell(cell, inputs, models.of(cell))))
            if cell.kind is Kind.TARGETS:
                inputs.targets[cell.data] = finished[-1].result["targets"]
            tqdm.write(f"{number}/{len(cells)} {cell.title}: {time.perf_counter() - started:.0f} s")
    return finished
