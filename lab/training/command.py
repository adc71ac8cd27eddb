"""Retrain a bundled model: ``attribeam train parser ...``."""

import argparse
from importlib import import_module

from attribeam.schemas.errors import RunError

RECIPES = {
    "parser": "attribeam.lab.training.parser.recipe",
    "attributor": "attribeam.lab.training.attributor.recipe",
    "verdict": "attribeam.lab.training.verdict.recipe",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name of the recipe; everything after it is passed on to the recipe."""
    parser.usage = f"%(prog)s {{{','.join(RECIPES)}}} [options]"
    parser.epilog = "attribeam train RECIPE --help lists a recipe's options."
    parser.add_argument("recipe", choices=RECIPES, metavar="RECIPE", help=f"one of: {', '.join(RECIPES)}")
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> None:
    """Run the recipe.

    Raises:
        UsageError: if what training needs is not installed.
        RunError: if a file cannot be read or written.
    """
    try:
        import_module(RECIPES[arguments.recipe]).main(arguments.options)
    except OSError as error:
        raise RunError(f"{arguments.recipe}: {error}") from error
