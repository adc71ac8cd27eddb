"""Load a model and try it: memory, speed, a worked example, and how many passages each method finds with it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from attribeam.attribution.models.model_files import CONFIG_FILE
from attribeam.attribution.option_declaration import add_options
from attribeam.attribution.options import LAYER, LOADING, READING, THREADS, AttributorOptions, ModelOptions
from attribeam.logs.reader import add_log_arguments, log_options
from attribeam.schemas.errors import ModelLoadError, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam models check``."""
    parser.add_argument("action", choices=("check",), help="load a model, try it and say whether it serves")
    add_options(parser, AttributorOptions, LOADING, READING, LAYER, THREADS)
    rows = parser.add_argument_group("labelled rows")
    rows.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="a labelled log of your own, as evaluate --dataset log reads it (default: 40 English rows of the package)",
    )
    add_log_arguments(rows.add_argument)
    sweep = parser.add_argument_group("layers")
    sweep.add_argument(
        "--sweep-layers",
        action="store_true",
        help="try every layer of the model on the labelled rows, with several k and tau, and write the choice",
    )
    sweep.add_argument(
        "--output",
        type=Path,
        metavar="FILE.json",
        help=f"where --sweep-layers writes it (default: {CONFIG_FILE} in this folder)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print what the model is, what it needs, what it does with an example, and which method serves.

    Raises:
        ModelLoadError: if it cannot be used; the message says why, and the way out.
        UsageError: if there is no such layer, the labelled rows cannot be used, or the choice cannot be written.
        RunError: if it could not be written after all.
    """
    from attribeam.evaluation.model_check import model_trial  # torch is not needed otherwise

    output = _output(arguments)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    options = ModelOptions.from_arguments(arguments, LOADING, READING, LAYER)
    answers = model_trial.labelled_answers(arguments.data, log_options(arguments))
    if output is not None:
        model_trial.check_sources(answers)
    try:
        model_trial.check_layer(options)
        model_trial.try_model(options, answers, threads=arguments.threads, output=output)
    except ModelLoadError as error:
        raise ModelLoadError(f"this model cannot serve: {error}") from error


def _output(arguments: argparse.Namespace) -> Path | None:
    """Where the choice of a sweep is written; None without a sweep."""
    given: Path | None = arguments.output
    if not arguments.sweep_layers:
        if given is not None:
            raise UsageError("--output says where --sweep-layers writes its choice; add --sweep-layers or leave it out")
        return None
    path = Path(CONFIG_FILE) if given is None else given
    if path.exists() or not path.parent.is_dir():
        raise UsageError(
            f"--output should be a new file in an existing directory, was: {path}; name another with --output"
        )
    return path
