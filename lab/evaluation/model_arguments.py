"""The command line options of models and methods, and what they say."""

from __future__ import annotations

import argparse

from attribeam.attribution.methods.method import SCORE, MethodSettings
from attribeam.attribution.methods.models import ModelChoice
from attribeam.attribution.option_declaration import add_options
from attribeam.attribution.option_types import whole_number
from attribeam.attribution.options import (
    HEADS,
    LOADING,
    PARSER,
    READING,
    THREADS,
    UNION,
    AttributorOptions,
    Method,
    ModelOptions,
)


def add_method_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the union."""
    add_options(parser, MethodSettings, UNION, SCORE)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the models that are loaded."""
    add_options(parser, AttributorOptions, LOADING, READING, HEADS, PARSER, THREADS)
    parser.add_argument(
        "--hidden-layer", type=whole_number, help="layer of the hidden states, 0 the embeddings (default: floor(L/2))"
    )
    parser.add_argument(
        "--language-model",
        metavar="NAME",
        help="a causal language model for cci and log-probability drops: a hub id or a directory (default: --model)",
    )


def method_settings(args: argparse.Namespace) -> MethodSettings:
    """The methods' options; which methods run is not among them."""
    return MethodSettings.from_arguments(args, UNION, SCORE).replaced(seed=args.seed)


def model_choice(args: argparse.Namespace) -> ModelChoice:
    """The models to load."""
    return ModelChoice(
        parser=args.parser,
        model=ModelOptions.from_arguments(args, LOADING, READING, HEADS),
        method=method_settings(args).union_options(Method.ATTN_UNION_DEP),
        hidden_layer=args.hidden_layer,
        language=_language_options(args),
        threads=args.threads,
    )


def _language_options(args: argparse.Namespace) -> ModelOptions | None:
    """The options of ``--language-model``, loaded as the model is; a revision is the model's own."""
    if args.language_model is None:
        return None
    return ModelOptions.from_arguments(args, LOADING).replaced(model=args.language_model, revision=None)
