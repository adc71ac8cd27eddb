"""Retrain a bundled model: ``python -m lab.train parser|attributor|verdict [options]``, from a checkout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from attribeam.report.messages import Messages
from attribeam.schemas.errors import AttribeamError, ExitCode

RECIPES = ("parser", "attributor", "verdict")


def main(arguments: Sequence[str]) -> int:
    """Run the recipe that the first argument names with the others; returns the exit code."""
    if not arguments or arguments[0] not in RECIPES:
        Messages("lab.train").say(f"name a recipe: {', '.join(RECIPES)}; RECIPE --help lists its options")
        return ExitCode.BAD_USAGE
    try:
        import_module(f"lab.training.{arguments[0]}.recipe").main(arguments[1:])
    except AttribeamError as error:
        Messages(f"lab.train {arguments[0]}").say(str(error))
        return error.exit_code
    except OSError as error:
        Messages(f"lab.train {arguments[0]}").say(str(error))
        return ExitCode.FAILED
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
