"""``attribeam evaluate``: compare methods on a labelled data set.

Options that do not apply to the measure are refused, so that none is silently ignored.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from attribeam.attribution.methods.method import SCORE, MethodSettings, PassageScore
from attribeam.attribution.option_declaration import add_options, positive_integer, whole_number
from attribeam.attribution.options import (
    COMPARED,
    HIDDEN,
    LANGUAGE,
    LAYER,
    LOADING,
    MASS,
    PARSER,
    READING,
    SUPPORT,
    THREADS,
    UNION,
    AttributorOptions,
)
from attribeam.evaluation.datasets.loaders import DATASETS, MARKS, AnswerChoice, Measure, SpanChoice, measure_of
from attribeam.evaluation.measures.citations import MOST_CITATIONS
from attribeam.evaluation.methods.registry import lab_methods
from attribeam.evaluation.report import Figures, write_json
from attribeam.evaluation.runs import evaluate_citations, evaluate_faithfulness, evaluate_passages
from attribeam.evaluation.support_runs import GROUPINGS, evaluate_support
from attribeam.logs.reader import add_log_arguments
from attribeam.report.messages import print_lines
from attribeam.schemas.errors import RunError, UsageError

RUNS: Mapping[Measure, Callable[[argparse.Namespace], Figures]] = {
    Measure.PASSAGES: evaluate_passages,
    Measure.CITATIONS: evaluate_citations,
    Measure.SUPPORT: evaluate_support,
    Measure.FAITHFULNESS: evaluate_faithfulness,
}
_METHODS = frozenset({Measure.PASSAGES, Measure.CITATIONS, Measure.FAITHFULNESS})
_MEASURES: Mapping[str, tuple[frozenset[Measure], object]] = {
    "cost": (frozenset({Measure.PASSAGES}), False),
    "sweep_layers": (frozenset({Measure.PASSAGES}), False),
    "by": (frozenset({Measure.SUPPORT}), None),
    "nli_model": (frozenset({Measure.CITATIONS}), None),
    "most_citations": (frozenset({Measure.CITATIONS}), MOST_CITATIONS),
    "spans": (frozenset({Measure.FAITHFULNESS}), SpanChoice.LABELLED),
    "answers": (frozenset({Measure.FAITHFULNESS}), AnswerChoice.DATA),
    "passage_score": (_METHODS, PassageScore.SUM),
    "hidden_layer": (_METHODS, None),
}
"""The measures that an option applies to, and its default; an option that is not listed applies to all."""


def check_options(args: argparse.Namespace, measure: Measure) -> None:
    """Refuse options that belong to other measures, to the suite, or to each other.

    Raises:
        UsageError: if there is one; the message names what it belongs to.
    """
    for name, (measures, default) in _MEASURES.items():
        if measure not in measures and getattr(args, name) != default:
            option, owners = "--" + name.replace("_", "-"), ", ".join(one for one in Measure if one in measures)
            raise UsageError(f"{option} applies to --measure {owners}, not to {measure}; leave it out")
    if args.sweep_layers and args.cost:
        raise UsageError("--cost measures methods one by one, --sweep-layers runs them together; leave one of them out")
    if args.chinese_parser is not None:
        raise UsageError("--chinese-parser is for --suite; name the parser of a single run with --parser")
    check_targets(args)


def check_targets(args: argparse.Namespace) -> None:
    """Refuse labelled spans of generated answers.

    Raises:
        UsageError: if they are asked for.
    """
    if args.answers is AnswerChoice.GENERATED and args.spans is SpanChoice.LABELLED:
        raise UsageError("labels belong to the data's own answers; add --spans cti to --answers generated")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam evaluate``."""
    add = parser.add_argument
    add("--dataset", choices=DATASETS, help="which labelled data set (needed without --suite)")
    add(
        "--data", required=True, type=Path, metavar="PATH",
        help="the data set's file, or a directory of its files; a directory for ragtruth and --suite",
    )  # fmt: skip
    add("--audit", type=Path, metavar="DIR", help="with --dataset marks: the audit on whose page the marks were made")
    add_log_arguments(add)
    add(
        "--suite", choices=("paper",),
        help="run all that --data DIR allows and write the tables to --output DIR, without --dataset",
    )  # fmt: skip
    add(
        "--chinese-parser", metavar="NAME",
        help="for the suite: a spaCy pipeline, or a directory with one, that parses Chinese",
    )  # fmt: skip
    add(
        "--measure", choices=[*Measure],
        help="what to measure (default: the first measure that the data set has labels for)",
    )  # fmt: skip
    add(
        "--method", action="append", metavar="NAME|MODULE:CLASS",
        help=f"a method, {', '.join(lab_methods())}, or a class of your own, see docs/extending.md; may be "
        "repeated (default: all that work without --language-model); for --measure support also novelty and "
        "flag-all, which leave out the audit",
    )  # fmt: skip
    add_options(parser, MethodSettings, UNION, SUPPORT, MASS, SCORE)
    add_options(parser, AttributorOptions, LOADING, READING, LAYER, PARSER, HIDDEN, LANGUAGE, COMPARED, THREADS)
    add("--nli-model", metavar="NAME", help="the model that judges citations: a hub id or a directory")
    add(
        "--most-citations", type=positive_integer, default=MOST_CITATIONS,
        help=f"how many citations per sentence are judged (default: {MOST_CITATIONS}, as in ALCE)",
    )  # fmt: skip
    add(
        "--spans", type=SpanChoice, choices=list(SpanChoice), default=SpanChoice.LABELLED,
        help="for faithfulness: use the labelled spans or the answer's context-sensitive tokens (default: labelled)",
    )  # fmt: skip
    add(
        "--answers", type=AnswerChoice, choices=list(AnswerChoice), default=AnswerChoice.DATA,
        help="for faithfulness: use the data's answers or, with --spans cti, the language model's own (default: data)",
    )  # fmt: skip
    add(
        "--by", choices=GROUPINGS, help="which groups of judged answers get figures of their own (default: label-group)"
    )
    add(
        "--cost", action="store_true",
        help="measure time and memory of each method; methods then share no computations (passages only)",
    )  # fmt: skip
    add(
        "--sweep-layers", action="store_true",
        help="run attn-union, attn-union-dep, hss-union, hss-union-dep at every layer of the model (passages only)",
    )  # fmt: skip
    add("--limit", type=positive_integer, metavar="N", help="only the first N answers")
    add(
        "--bootstrap-draws", type=positive_integer, default=2000, help="number of resamples of the rows (default: 2000)"
    )
    add("--seed", type=whole_number, default=0, help="seed of resamples and random draws (default: 0)")
    add("--output", type=Path, metavar="FILE.json", help="also write the figures to this file")


def run(args: argparse.Namespace) -> None:
    """Run the evaluation.

    Raises:
        UsageError: if the options contradict each other.
        DataError, ModelLoadError, RunError: if it cannot be run as asked; the message says why and the way out.
    """
    if args.suite is not None:
        from attribeam.evaluation.paper_suite import evaluate_suite

        check_targets(args)
        evaluate_suite(args, RUNS)
        return
    if args.dataset is None:
        raise UsageError(f"name a data set with --dataset, one of {', '.join(DATASETS)}, or run all with --suite")
    if args.output is not None and (args.output.is_dir() or not args.output.parent.is_dir()):
        raise UsageError(f"--output should be a file in an existing directory, was: {args.output}")
    if (args.audit is None) is (args.dataset == MARKS):
        raise UsageError(
            f"--audit DIR belongs to --dataset {MARKS}, which needs it: it finds the marked answers' texts"
        )
    args.measure = measure_of(args.dataset, args.measure)
    check_options(args, args.measure)
    figures = RUNS[args.measure](args)
    print_lines(*figures.text.split("\n"))
    if args.output is not None:
        try:
            write_json(args.output, figures.report)
        except OSError as error:
            raise RunError(f"--output {args.output} could not be written: {error}") from error
        print_lines(f"written to {args.output}")
