"""``attribeam evaluate``: compare methods on a labelled data set.

Options that do not apply to the measure are refused, so that none is silently ignored.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need, PassageScore
from attribeam.attribution.methods.models import load_models
from attribeam.attribution.option_types import positive_integer, whole_number
from attribeam.evaluation.comparison import MethodScore, run_methods, run_with_costs, score_methods
from attribeam.evaluation.datasets.loaders import (
    CITED_LOADERS,
    DATASETS,
    LOADERS,
    LOG,
    MARKS,
    Measure,
    measure_of,
    read_dataset,
)
from attribeam.evaluation.lab_methods import chosen_methods, lab_methods, needs_of
from attribeam.evaluation.measures.citation_command import CITING_METHODS, evaluate_citations, load_nli_model
from attribeam.evaluation.measures.citations import MOST_CITATIONS
from attribeam.evaluation.measures.faithfulness_command import (
    add_faithfulness_arguments,
    check_faithfulness_arguments,
    evaluate_faithfulness,
)
from attribeam.evaluation.model_arguments import (
    add_method_arguments,
    add_model_arguments,
    method_settings,
    model_choice,
)
from attribeam.evaluation.report import (
    RunDescription,
    comparison_table,
    data_digest,
    skip_remarks,
    write_comparison,
)
from attribeam.evaluation.suite.suite_options import add_suite_arguments
from attribeam.evaluation.support.judged_command import GROUPINGS, evaluate_support
from attribeam.logs.arguments import add_log_arguments, log_options
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import DataError, RunError, UsageError
from attribeam.schemas.labelled_answer import LabelledDataset

_METHODS = frozenset({Measure.PASSAGES, Measure.CITATIONS, Measure.FAITHFULNESS})
_MEASURES: Mapping[str, frozenset[Measure]] = {
    "cost": frozenset({Measure.PASSAGES}),
    "sweep_layers": frozenset({Measure.PASSAGES}),
    "by": frozenset({Measure.SUPPORT}),
    "nli_model": frozenset({Measure.CITATIONS}),
    "most_citations": frozenset({Measure.CITATIONS}),
    "passage_score": _METHODS,
    "hidden_layer": _METHODS,
    "language_model": _METHODS | {Measure.SUPPORT},
    "language_model_dtype": _METHODS | {Measure.SUPPORT},
    "language_model_quantization": _METHODS | {Measure.SUPPORT},
}
"""The measures that an option applies to; an option that is not listed applies to all."""

_DEFAULTS: Mapping[str, object] = {
    "cost": False,
    "sweep_layers": False,
    "most_citations": MOST_CITATIONS,
    "passage_score": PassageScore.SUM,
}
"""Defaults other than None."""

_OF_NEEDS = (
    ("language_model", Need.LANGUAGE_MODEL, "cci and --measure faithfulness"),
    ("language_model_dtype", Need.LANGUAGE_MODEL, "cci and --measure faithfulness"),
    ("language_model_quantization", Need.LANGUAGE_MODEL, "cci and --measure faithfulness"),
    ("hidden_layer", Need.HIDDEN_STATES, "the hss methods"),
)


def check_options(args: argparse.Namespace, measure: Measure) -> None:
    """Refuse options that belong to other measures or to the suite.

    Raises:
        UsageError: if there is one; the message names the measures that it belongs to.
    """
    for name, measures in _MEASURES.items():
        if measure not in measures and getattr(args, name) != _DEFAULTS.get(name):
            option, owners = "--" + name.replace("_", "-"), ", ".join(one for one in Measure if one in measures)
            raise UsageError(f"{option} applies to --measure {owners}, not to {measure}; leave it out")
    if args.sweep_layers and args.cost:
        raise UsageError("--cost measures methods one by one, --sweep-layers runs them together; leave one of them out")
    if args.chinese_parser is not None:
        raise UsageError("--chinese-parser is for --suite; name the parser of a single run with --parser")


def check_needed(args: argparse.Namespace, needs: frozenset[Need]) -> None:
    """Refuse options of models that no chosen method needs.

    Raises:
        UsageError: if there is one; the message names the methods that it is for.
    """
    for name, need, methods in _OF_NEEDS:
        if getattr(args, name) is not None and need not in needs:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is for {methods}, none of which was named with --method; leave it out")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam evaluate``."""
    parser.add_argument("--dataset", choices=DATASETS, help="which labelled data set (needed without --suite)")
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        metavar="PATH",
        help="the data set's file, or a directory of its files; a directory for ragtruth and --suite",
    )
    parser.add_argument(
        "--audit", type=Path, metavar="DIR", help="with --dataset marks: the audit on whose page the marks were made"
    )
    add_log_arguments(parser.add_argument)
    add_suite_arguments(parser)
    parser.add_argument(
        "--measure",
        choices=[*Measure],
        help="what to measure (default: the first measure that the data set has labels for)",
    )
    parser.add_argument(
        "--method",
        action="append",
        metavar="NAME|MODULE:CLASS",
        help=f"a method, {', '.join(lab_methods())}, or a class of your own, see docs/extending.md; may be "
        "repeated (default: all that work without --language-model); for --measure support also novelty, which leaves "
        "out the audit",
    )
    add_method_arguments(parser)
    add_model_arguments(parser)
    parser.add_argument("--nli-model", metavar="NAME", help="the model that judges citations: a hub id or a directory")
    parser.add_argument(
        "--most-citations",
        type=positive_integer,
        default=MOST_CITATIONS,
        help=f"how many citations per sentence are judged (default: {MOST_CITATIONS}, as in ALCE)",
    )
    add_faithfulness_arguments(parser)
    parser.add_argument(
        "--by", choices=GROUPINGS, help="which groups of judged answers get figures of their own (default: label-group)"
    )
    parser.add_argument(
        "--cost",
        action="store_true",
        help="measure time and memory of each method; methods then share no computations (passages only)",
    )
    parser.add_argument(
        "--sweep-layers",
        action="store_true",
        help="run attn-union, attn-union-dep, hss-union, hss-union-dep at every layer of the model (passages only)",
    )
    parser.add_argument("--limit", type=positive_integer, metavar="N", help="only the first N answers")
    parser.add_argument(
        "--bootstrap-draws", type=positive_integer, default=2000, help="number of resamples of the rows (default: 2000)"
    )
    parser.add_argument("--seed", type=whole_number, default=0, help="seed of resamples and random draws (default: 0)")
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="also write the figures to this file")


def run(args: argparse.Namespace) -> None:
    """Run the evaluation.

    Raises:
        UsageError: if the options contradict each other.
        DataError, ModelLoadError, RunError: if it cannot be run as asked; the message says why and the way out.
    """
    if args.suite is not None:
        from attribeam.evaluation.suite.command import evaluate_suite

        evaluate_suite(args)
        return
    if args.dataset is None:
        raise UsageError(f"name a data set with --dataset, one of {', '.join(DATASETS)}, or run all with --suite")
    _check_output(args.output)
    if (args.audit is None) is (args.dataset == MARKS):
        raise UsageError(
            f"--audit DIR belongs to --dataset {MARKS}, which needs it: it finds the marked answers' texts"
        )
    measure = _measure(args)
    check_options(args, measure)
    check_faithfulness_arguments(args, asked_for=measure is Measure.FAITHFULNESS)
    match measure:
        case Measure.PASSAGES:
            _evaluate_passages(args)
        case Measure.CITATIONS:
            _evaluate_citations(args)
        case Measure.SUPPORT:
            evaluate_support(args)
        case Measure.FAITHFULNESS:
            _evaluate_faithfulness(args)


def _evaluate_passages(args: argparse.Namespace) -> None:
    settings = method_settings(args)
    available = lab_methods(settings)
    methods = chosen_methods(
        available, args.method, with_language_model=args.language_model is not None, settings=settings
    )
    check_needed(args, needs_of(methods))
    dataset = _load_dataset(args, LOADERS)
    choice = model_choice(args)
    run = run_with_costs if args.cost else run_methods
    if args.sweep_layers:
        from attribeam.evaluation.measures import layer_sweep  # torch is not needed otherwise

        choice, run = layer_sweep.with_all_layers(choice), layer_sweep.run_at_layers
    models = load_models(choice, needs_of(methods))
    bar = tqdm(dataset.answers, desc="evaluate", unit="answer", disable=None)
    tallies = run(bar, methods, models)
    scores = score_methods(tallies, draws=args.bootstrap_draws, seed=args.seed)
    description = _describe(args, dataset, models)
    print_lines(*comparison_table(scores, description).split("\n"))
    if args.output is not None:
        _write(args.output, scores, description)


def _evaluate_citations(args: argparse.Namespace) -> None:
    entailment = load_nli_model(args)
    settings = method_settings(args)
    available = lab_methods(settings)
    if args.method is None:
        available = {name: available[name] for name in CITING_METHODS}
    methods = chosen_methods(
        available, args.method, with_language_model=args.language_model is not None, settings=settings
    )
    check_needed(args, needs_of(methods))
    dataset = _load_dataset(args, CITED_LOADERS)
    models = load_models(model_choice(args), needs_of(methods))
    provenance = _describe(args, dataset, models).provenance
    evaluate_citations(args, dataset, methods, models, entailment, provenance=provenance)


def _evaluate_faithfulness(args: argparse.Namespace) -> None:
    settings = method_settings(args)
    methods = chosen_methods(lab_methods(settings), args.method, with_language_model=True, settings=settings)
    needs = needs_of(methods) | {Need.LANGUAGE_MODEL}
    check_needed(args, needs)
    dataset = _load_dataset(args, LOADERS)
    models = load_models(model_choice(args), needs)
    provenance = _describe(args, dataset, models).provenance
    evaluate_faithfulness(args, dataset, methods, models, provenance=provenance)


def _measure(args: argparse.Namespace) -> Measure:
    try:
        return measure_of(args.dataset, args.measure)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _check_output(output: Path | None) -> None:
    """Refuse an output that could not be written after hours of work."""
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise UsageError(f"--output should be a file in an existing directory, was: {output}")


def _load_dataset(
    args: argparse.Namespace, loaders: Mapping[str, Callable[[Path], LabelledDataset]]
) -> LabelledDataset:
    dataset = read_dataset(loaders, args.dataset, args.data, log_options(args))
    if not dataset.answers:
        reasons = ", ".join(skip_remarks(dataset.skipped)) or "the file has no rows"
        hint = "; if its labels are of another kind, name it with --measure" if args.dataset == LOG else ""
        raise DataError(f"data file {args.data} should have labelled answers, has none: {reasons}{hint}")
    return dataset if args.limit is None else dataset.first(args.limit)


def _describe(args: argparse.Namespace, dataset: LabelledDataset, models: LoadedModels) -> RunDescription:
    provenance = {"python_version": platform.python_version(), "numpy_version": np.__version__}
    if models.parser is not None:
        provenance["parser"] = models.parser.identity
    if models.language is not None:
        provenance |= models.language.provenance()
    if models.attention is not None:
        hidden = models.attention.layer_count // 2 if models.hidden_layer is None else models.hidden_layer
        provenance |= models.attention.provenance()
        provenance |= {"hidden_layer": str(hidden), "passage_score": str(args.passage_score)}
    return RunDescription(
        dataset=args.dataset,
        data_file=args.data.name,
        data_sha256=data_digest(args.data, args.dataset),
        skipped_rows=dataset.skipped,
        single_passage_spans=sum(len(one.spans) for one in dataset.answers if len(one.record.passages) == 1),
        bootstrap_draws=args.bootstrap_draws,
        bootstrap_seed=args.seed,
        limit=args.limit,
        provenance=provenance,
        strict_isolation=args.strict_isolation,
    )


def _write(output: Path, scores: Sequence[MethodScore], description: RunDescription) -> None:
    try:
        write_comparison(output, scores, description)
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error
    print_lines(f"written to {output}")
