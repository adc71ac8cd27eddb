"""Running the cells that are not finished, one by one, with a progress bar over their answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from attribution.answers.answer_parser import AnswerParser
from evaluation.datasets.dataset_file import DatasetError
from evaluation.datasets.labelled_answer import LabelledAnswer, LabelledDataset
from evaluation.datasets.loaders import CITED_LOADERS, LOADERS
from evaluation.evaluation_error import EvaluationError
from evaluation.measures.entailment import EntailmentModel, RememberedEntailment
from evaluation.suite.cell import Cell, Kind
from evaluation.suite.cell_store import CellStore
from evaluation.suite.data_files import DataFile, FoundData, Section
from evaluation.suite.measure_cell import Bench, measure_cell
from evaluation.suite.plan import Plan
from evaluation.suite.suite_models import SuiteModels
from evaluation.suite.suite_options import SuiteOptions


@dataclass(frozen=True, slots=True)
class FinishedCell:
    """A cell and its result; ``fresh`` where it was computed in this run."""

    cell: Cell
    result: Mapping[str, Any]
    fresh: bool


def load_datasets(found: FoundData, options: SuiteOptions) -> dict[DataFile, LabelledDataset]:
    """All labelled data sets, read and checked before anything runs; RAGTruth apart.

    Raises:
        DatasetError: if a file is not in its format.
    """
    datasets = {}
    for data in found.files:
        if data.section is Section.SUPPORT:
            continue
        loaders = CITED_LOADERS if data.section is Section.CITATIONS else LOADERS
        dataset = loaders[data.kind](data.path)
        if not dataset.answers:
            raise DatasetError(f"data file {data.path} should have labelled answers, has none; take it away")
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
    """Every cell's result: read where it is finished, else computed and kept before the next one starts.

    Raises:
        EvaluationError: if a model cannot be loaded, or a result cannot be written.
    """
    finished = {cell.key: result for cell in plan.cells if (result := store.read(cell)) is not None}
    outstanding = [cell for cell in plan.cells if cell.key not in finished]
    print(f"{len(plan.cells)} cells, {len(plan.cells) - len(outstanding)} of them finished before")
    runner = _Runner(plan, store, options, datasets, parsers, layers, entailment)
    fresh = runner.run(outstanding) if outstanding else {}
    return tuple(FinishedCell(cell, (finished | fresh)[cell.key], cell.key in fresh) for cell in plan.cells)


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
            bench = self._bench(bar)
            for number, cell in enumerate(outstanding, start=1):
                bar.set_description(cell.title)
                started = time.perf_counter()
                result = measure_cell(cell, bench, models.of(cell))
                self.store.write(cell, result)
                results[cell.key] = result
                tqdm.write(f"{number}/{len(outstanding)} {cell.title}: {time.perf_counter() - started:.0f} s")
        return results

    def _answers(self, cell: Cell) -> int:
        return len(self.datasets[cell.data].answers) if cell.data in self.datasets else 0

    def _bench(self, bar: tqdm[Any]) -> Bench:
        def watch(answers: Iterable[LabelledAnswer]) -> Iterator[LabelledAnswer]:
            for answer in answers:
                yield answer
                bar.update()

        asked_once = None if self.entailment is None else RememberedEntailment(self.entailment)
        return Bench(self.options, self.datasets, self.layers, asked_once, self._targets, watch)

    def _targets(self, data: DataFile) -> Any:
        """The spans of a data set; their cell runs before those that ask for them."""
        cell = next(one for one in self.plan.cells if one.kind is Kind.TARGETS and one.data == data)
        stored = self.store.read(cell)
        if stored is None:
            raise EvaluationError(f"the result of a cell has gone while the suite ran: {cell.title}; run it again")
        return stored
