"""Compare two dependency parsers by what the methods gain from each, and by their speed.

``python -m attribeam.lab.evaluation.parser_comparison --dataset quotesum --data dev.jsonl --other-parser
en_core_web_sm`` runs every named method with both parsers over the same answers. It prints both accuracies, the paired
difference with its interval, and the time that each parser takes for the answers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import load_models
from attribeam.attribution.option_types import positive_integer, whole_number
from attribeam.lab.evaluation.comparison import MethodTally, count_answer
from attribeam.lab.evaluation.datasets.loaders import LOADERS, read_dataset
from attribeam.lab.evaluation.lab_methods import LabelledContext, LabMethod, chosen_methods, lab_methods, needs_of
from attribeam.lab.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.lab.evaluation.model_arguments import (
    add_method_arguments,
    add_model_arguments,
    method_settings,
    model_choice,
)
from attribeam.lab.evaluation.report import interval_cell, text_table
from attribeam.logs.columns import LogOptions
from attribeam.report.messages import CommandParser, Messages, print_lines
from attribeam.schemas.errors import AttribeamError, DataError, ExitCode, UsageError
from attribeam.schemas.labelled_answer import LabelledAnswer

METHODS = ("attn-union", "attn-union-dep", "words-dep", "words-sent")
"""The two methods whose difference is the gain of dependency augmentation, and two that need no model."""

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class ParserDifference:
    """One method with two parsers: accuracies in percent, and second minus first with its interval over rows."""

    method: str
    first: float
    second: float
    difference: float
    interval: Interval


def compare_parsers(
    answers: Iterable[LabelledAnswer],
    methods: Sequence[LabMethod],
    models: LoadedModels,
    other: AnswerParser,
    *,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[ParserDifference, ...]:
    """The figures of every method with the parser of ``models`` and with ``other``, over the same resamples of rows.

    The model runs once per answer.

    Raises:
        ValueError: if there is no answer.
    """
    with_first, with_second = ([MethodTally(method.name) for method in methods] for _ in range(2))
    needs = needs_of(methods)
    for labelled in answers:
        context = LabelledContext(labelled, models, needs)
        count_answer(context, methods, with_first)
        count_answer(context.reparsed(other), methods, with_second)
    bootstrap = RowBootstrap(with_first[0].spans, draws=draws, seed=seed)
    return tuple(_difference(*pair, bootstrap) for pair in zip(with_first, with_second, strict=True))


def _difference(first: MethodTally, second: MethodTally, bootstrap: RowBootstrap) -> ParserDifference:
    spans = sum(first.spans)
    gained = [after - before for before, after in zip(first.credits, second.credits, strict=True)]
    return ParserDifference(
        method=first.name,
        first=100 * sum(first.credits) / spans,
        second=100 * sum(second.credits) / spans,
        difference=100 * sum(gained) / spans,
        interval=bootstrap.interval(gained),
    )


def processor_seconds(parsers: Sequence[AnswerParser], texts: Sequence[str]) -> list[float]:
    """The processor time that each parser takes for all texts: its best of three rounds, in which they take turns."""
    rounds = [[_seconds(parser, texts) for parser in parsers] for _ in range(_ROUNDS)]
    return [min(of_parser) for of_parser in zip(*rounds, strict=True)]


def _seconds(parser: AnswerParser, texts: Sequence[str]) -> float:
    start = time.process_time()
    for _ in parser.parse_many(texts):
        pass
    return time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    try:
        _run(_parse_arguments(arguments))
    except AttribeamError as error:
        Messages("attribeam.lab.evaluation.parser_comparison").say(str(error))
        return error.exit_code
    return ExitCode.DONE


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m attribeam.lab.evaluation.parser_comparison", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--dataset", required=True, choices=LOADERS, help="which labelled data set")
    parser.add_argument("--data", required=True, type=Path, metavar="PATH", help="the data set's file")
    parser.add_argument(
        "--other-parser", required=True, metavar="NAME", help="a spaCy pipeline or a directory, compared with --parser"
    )
    parser.add_argument(
        "--method", action="append", metavar="NAME", help=f"may be repeated (default: {', '.join(METHODS)})"
    )
    add_method_arguments(parser)
    add_model_arguments(parser)
    parser.add_argument("--limit", type=positive_integer, metavar="N", help="only the first N answers")
    parser.add_argument(
        "--bootstrap-draws", type=positive_integer, default=2000, help="number of resamples of the rows (default: 2000)"
    )
    parser.add_argument("--seed", type=whole_number, default=0, help="seed of the resamples (default: 0)")
    return parser.parse_args(arguments)


def _run(args: argparse.Namespace) -> None:
    settings = method_settings(args)
    methods = chosen_methods(
        lab_methods(settings), args.method or METHODS, with_language_model=False, settings=settings
    )
    unparsed = [one.name for one in methods if Need.PARSER not in one.needs]
    if unparsed:
        raise UsageError(f"methods should read a parse, these do not: {', '.join(unparsed)}; leave them out")
    dataset = read_dataset(LOADERS, args.dataset, args.data, LogOptions())
    answers = (dataset if args.limit is None else dataset.first(args.limit)).answers
    if not answers:
        raise DataError(f"data file {args.data} should have labelled answers, has none")
    models = load_models(model_choice(args), needs_of(methods))
    other = load_models(replace(model_choice(args), parser=args.other_parser), frozenset({Need.PARSER})).parser
    if models.parser is None or other is None:
        raise RuntimeError("two parsers should be loaded, one was not")
    found = compare_parsers(answers, methods, models, other, draws=args.bootstrap_draws, seed=args.seed)
    parsers, texts = (models.parser, other), [one.record.answer for one in answers]
    print_lines(
        f"{args.dataset} ({args.data.name}): {sum(len(one.spans) for one in answers)} spans of {len(answers)} answers"
    )
    print_lines(*comparison_of_parsers(found).split("\n"))
    times = processor_seconds(parsers, texts)
    print_lines(*speed_of_parsers([one.identity for one in parsers], texts, times).split("\n"))


def comparison_of_parsers(found: Sequence[ParserDifference]) -> str:
    """A table with one line per method."""
    header = ("method", "first %", "second %", "difference", "95% interval")
    lines = [
        (
            one.method,
            f"{one.first:.1f}",
            f"{one.second:.1f}",
            f"{one.difference:+.1f}",
            interval_cell(one.interval, sign="+"),
        )
        for one in found
    ]
    return text_table(header, lines)


def speed_of_parsers(names: Sequence[str], texts: Sequence[str], seconds: Sequence[float]) -> str:
    """A table with the processor time of each parser, and how many times as long as the first one it takes."""
    characters = sum(map(len, texts))
    lines = [
        (name, f"{taken:.2f}", f"{characters / taken:,.0f}", f"{taken / seconds[0]:.2f}")
        for name, taken in zip(names, seconds, strict=True)
    ]
    return text_table(("parser", "processor s", "characters/s", "times the first"), lines)


if __name__ == "__main__":
    sys.exit(main())
