"""``attribeam evaluate --suite paper``: all tables and figures that the available data and models allow."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.layer_choice import layer_types, layers_with_attention
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.evaluation.measures.citations import EntailmentModel
from attribeam.evaluation.measures.faithfulness_targets import check_targets
from attribeam.evaluation.report import write_json
from attribeam.evaluation.suite.plan import DataFile, FoundData, Section, find_data, plan_suite
from attribeam.evaluation.suite.run_suite import load_datasets, run_cells
from attribeam.evaluation.suite.suite_options import SuiteOptions, suite_options
from attribeam.evaluation.suite.suite_results import SuiteResults, gather_results
from attribeam.evaluation.suite.tables import check_drawing, draw_figures, suite_page
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.labelled_answer import LabelledDataset
from attribeam.schemas.written_files import file_sha256


def evaluate_suite(args: argparse.Namespace) -> None:
    """Run all cells, and write ``tables.md``, ``results.json`` and the pictures to ``--output``.

    Raises:
        RunError: if the suite cannot be run as asked.
        DataError: if a data set is not in its format.
    """
    options = suite_options(args)
    check_drawing()
    found = find_data(args.data)
    datasets = load_datasets(found, options)
    _print_found(found, datasets)
    entailment = _entailment(options, found)
    run_suite(found, datasets, options, args.output, entailment=entailment)


def run_suite(
    found: FoundData,
    datasets: Mapping[DataFile, LabelledDataset],
    options: SuiteOptions,
    output: Path,
    *,
    entailment: EntailmentModel | None = None,
) -> SuiteResults:
    """Like ``evaluate_suite``, with data that is already loaded and any NLI model."""
    try:
        check_targets(spans=options.spans, source=options.answers)
    except ValueError as error:
        raise UsageError(str(error)) from error
    directory = read_model_directory(options.choice.model)
    parsers = _parsers(options)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"--output of a suite should be a directory, could not be created: {error}") from error
    plan = plan_suite(found, options, directory, has_nli_model=entailment is not None)
    layers = tuple(layers_with_attention(layer_types(directory.config)))
    cells = run_cells(plan.cells, options, datasets, parsers=parsers, layers=layers, entailment=entailment)
    digests = {data: {path.name: file_sha256(path) for path in data.files} for data in found.files}
    results = gather_results(cells, found, plan.left_out, options, datasets, digests)
    write_suite(results, output)
    return results


def write_suite(results: SuiteResults, output: Path) -> None:
    """Write tables, pictures and JSON, replacing existing files.

    Raises:
        RunError: if one cannot be written.
    """
    try:
        pictures = draw_figures(results, output)
        (output / "tables.md").write_text(suite_page(results), encoding="utf-8")
        write_json(output / "results.json", asdict(results))
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error
    names = ", ".join(["tables.md", "results.json", *(path.name for path in pictures)])
    print_lines(f"written to {output}: {names}")


def _parsers(options: SuiteOptions) -> dict[str, AnswerParser]:
    """The parsers by their names, loaded once for all cells."""
    named = {options.choice.parser: "--parser"}
    if options.chinese_parser is not None:
        named.setdefault(options.chinese_parser, "--chinese-parser")
    return {name: _parser(name, option) for name, option in named.items()}


def _parser(name: str, option: str) -> AnswerParser:
    try:
        return AnswerParser.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise RunError(f"{option} {name!r} could not be loaded: {error}") from error


def _print_found(found: FoundData, datasets: Mapping[DataFile, LabelledDataset]) -> None:
    for data in found.files:
        count = f": {len(datasets[data].answers)} answers" if data in datasets else ""
        print_lines(f"found {data.name} ({data.loader_name}){count}")
    for place in found.missing:
        print_lines(f"not found: {place}")


def _entailment(options: SuiteOptions, found: FoundData) -> EntailmentModel | None:
    """The model that ``--nli-model`` names, if there are citations to judge."""
    if options.nli_model is None or not found.of_section(Section.CITATIONS):
        return None
    from attribeam.attribution.models.weight_loading import choose_device
    from attribeam.evaluation.measures.nli_model import NliModel

    return NliModel.from_pretrained(options.nli_model, device=choose_device(options.choice.model.device))
