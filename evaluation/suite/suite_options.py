"""The options of a suite."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from attribeam.attribution.methods.method import MethodSettings
from attribeam.attribution.methods.models import ModelChoice
from attribeam.evaluation.lab_methods import lab_methods
from attribeam.evaluation.measures.faithfulness_targets import AnswerChoice, SpanChoice
from attribeam.evaluation.model_arguments import method_settings, model_choice
from attribeam.schemas.errors import UsageError

SUITES = ("paper",)


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """The options of a suite; only ``methods`` run, or all methods if it is None.

    If ``choice.language`` is None, ``choice.model`` also serves as the causal language model, provided that it is one.
    """

    choice: ModelChoice
    settings: MethodSettings
    methods: frozenset[str] | None
    nli_model: str | None
    chinese_parser: str | None
    spans: SpanChoice
    answers: AnswerChoice
    most_citations: int
    limit: int | None
    draws: int
    seed: int


def add_suite_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--suite`` and the options that only a suite has."""
    parser.add_argument(
        "--suite",
        choices=SUITES,
        help="run all tables that --data DIR allows and write them to --output DIR, without --dataset",
    )
    parser.add_argument(
        "--chinese-parser",
        metavar="NAME",
        help="for the suite: a spaCy pipeline, or a directory with one, that parses Chinese",
    )


def suite_options(args: argparse.Namespace) -> SuiteOptions:
    """The options that the command line gives.

    Raises:
        UsageError: if an option is missing, or does not apply to a suite.
    """
    for name in ("dataset", "measure"):
        if getattr(args, name) is not None:
            raise UsageError(f"--suite runs all data sets and measures; leave --{name} out")
    unknown = sorted(set(args.method or ()) - set(lab_methods()))
    if unknown:
        raise UsageError(f"--suite compares its own methods, {', '.join(lab_methods())}; leave out: {unknown}")
    if args.cost:
        raise UsageError("--suite always measures costs; leave --cost out")
    if args.output is None:
        raise UsageError("--suite needs a directory for its tables; name one with --output")
    return SuiteOptions(
        choice=model_choice(args),
        settings=method_settings(args),
        methods=None if args.method is None else frozenset(args.method),
        nli_model=args.nli_model,
        chinese_parser=args.chinese_parser,
        spans=args.spans,
        answers=args.answers,
        most_citations=args.most_citations,
        limit=args.limit,
        draws=args.bootstrap_draws,
        seed=args.seed,
    )
