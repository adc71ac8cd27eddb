"""Train a bundled model anew, or fit the weights of a model's attention heads: ``attribeam train parser ...``."""

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec

RECIPES = {
    "parser": "attribeam.lab.training.parser.recipe",
    "attributor": "attribeam.lab.training.attributor.recipe",
    "head-weights": "attribeam.lab.training.head_weights.recipe",
}
EXTRA_MODULE = "matplotlib"
_DRAW_LOSS_CURVES = ("parser", "attributor")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The recipe's name; everything after it is the recipe's own."""
    parser.usage = f"%(prog)s {{{','.join(RECIPES)}}} [options]"
    parser.epilog = "attribeam train RECIPE --help lists a recipe's options."
    parser.add_argument("recipe", choices=RECIPES, metavar="RECIPE", help=f"one of: {', '.join(RECIPES)}")
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Hand over to the recipe; 0 done, 1 where what training needs is not installed or a file cannot be read."""
    if arguments.recipe in _DRAW_LOSS_CURVES and find_spec(EXTRA_MODULE) is None:
        return _failed("training needs matplotlib, which is not installed: pip install 'attribeam[training]'")
    try:
        import_module(RECIPES[arguments.recipe]).main(arguments.options)
    except OSError as error:
        return _failed(f"{arguments.recipe}: {error}")
    return 0


def _failed(message: str) -> int:
    print(f"attribeam train: {message}", file=sys.stderr)
    return 1
