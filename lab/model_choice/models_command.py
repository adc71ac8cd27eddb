"""Find out which model to name: check one."""

from __future__ import annotations

import argparse
from importlib import import_module

ACTIONS = {
    "check": ("load a model, try it and say whether it serves", "attribeam.lab.model_choice.check_command"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of ``attribeam models``, each with its options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (summary, module) in ACTIONS.items():
        action = import_module(module)
        one = actions.add_parser(name, help=summary, description=action.__doc__, allow_abbrev=False)
        action.add_arguments(one)


def run(arguments: argparse.Namespace) -> None:
    """Run one action.

    Raises:
        AttribeamError: as the action's module says.
    """
    import_module(ACTIONS[arguments.action][1]).run(arguments)
