"""The command line options of models and methods, and what they say."""

from __future__ import annotations

import argparse
from dataclasses import replace

from attribeam.attribution.method_arguments import add_union_arguments
from attribeam.attribution.methods.method import MethodSettings, PassageScore
from attribeam.attribution.methods.models import ModelChoice
from attribeam.attribution.models.model_arguments import (
    add_loading_arguments,
    add_reading_arguments,
    loading_options,
    reading_options,
)
from attribeam.attribution.models.model_options import ModelOptions
from attribeam.attribution.option_types import positive_integer, whole_number
from attribeam.attribution.settings import Method as UnionMethod


def add_method_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the union."""
    add_union_arguments(parser)
    parser.add_argument(
        "--passage-score",
        type=PassageScore,
        choices=list(PassageScore),
        default=PassageScore.SUM,
        help="how the scores of a passage's tokens become its own, in the union methods (default: sum)",
    )


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the models that are loaded."""
    add_loading_arguments(parser)
    add_reading_arguments(parser)
    parser.add_argument(
        "--parser", default="bundled", help="bundled, a spaCy pipeline or a directory (default: bundled)"
    )
    parser.add_argument(
        "--hidden-layer", type=whole_number, help="layer of the hidden states, 0 the embeddings (default: floor(L/2))"
    )
    parser.add_argument(
        "--head-weights", metavar="FILE.json", help="learned weights of the attention heads (default: all equal)"
    )
    parser.add_argument(
        "--language-model",
        metavar="NAME",
        help="a causal language model for cci and log-probability drops: a hub id or a directory (default: --model)",
    )
    parser.add_argument("--threads", type=positive_integer, help="CPU threads of torch")


def method_settings(args: argparse.Namespace) -> MethodSettings:
    """The methods' options."""
    return MethodSettings(
        top_k=args.top_k,
        isolation_tau=args.isolation_tau,
        own_token_weight=args.own_token_weight,
        sentence_weight=args.sentence_weight,
        evidence_window=args.evidence_window,
        passage_score=args.passage_score,
        seed=args.seed,
    )


def model_choice(args: argparse.Namespace) -> ModelChoice:
    """The models to load."""
    return ModelChoice(
        parser=args.parser,
        model=ModelOptions(**loading_options(args), **reading_options(args), head_weights=args.head_weights),
        method=method_settings(args).union_options(UnionMethod.ATTN_UNION_DEP),
        hidden_layer=args.hidden_layer,
        language=_language_options(args),
        threads=args.threads,
    )


def _language_options(args: argparse.Namespace) -> ModelOptions | None:
    """The options of ``--language-model``, loaded as the model is; a revision is the model's own."""
    if args.language_model is None:
        return None
    return replace(ModelOptions(**loading_options(args)), model=args.language_model, revision=None)
