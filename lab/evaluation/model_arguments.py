"""The command line options of models and methods, and the settings that they give."""

from __future__ import annotations

import argparse

from attribeam.attribution.methods.method import SCORE, MethodSettings
from attribeam.attribution.methods.models import ModelChoice
from attribeam.attribution.option_declaration import add_options
from attribeam.attribution.options import (
    ATTN_UNION_DEP,
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
    ModelOptions,
)
from attribeam.attribution.verdict.mass_thresholds import with_calibrated_mass


def add_method_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of union and verdict."""
    add_options(parser, MethodSettings, UNION, SUPPORT, MASS, SCORE)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for loading models."""
    add_options(parser, AttributorOptions, LOADING, READING, LAYER, PARSER, HIDDEN, LANGUAGE, COMPARED, THREADS)


def method_settings(args: argparse.Namespace) -> MethodSettings:
    """The options of the methods, except which of them run.

    Raises:
        UsageError: if the verdict is for another model.
    """
    groups = (UNION, SUPPORT, MASS, SCORE, HIDDEN, LANGUAGE, COMPARED)
    settings = MethodSettings.from_arguments(args, *groups).replaced(seed=args.seed)
    return with_calibrated_mass(settings, model=args.model)


def model_choice(args: argparse.Namespace) -> ModelChoice:
    """The models to load."""
    return ModelChoice.of(
        parser=args.parser,
        model=ModelOptions.from_arguments(args, LOADING, READING, LAYER),
        method=method_settings(args).union_options(ATTN_UNION_DEP),
        threads=args.threads,
    )
