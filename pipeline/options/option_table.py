"""Every option of a command as its parser has it: what a configuration file may hold, and never a second list."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OWN_FLAGS = ("--config", "--help")
_DEFAULT = re.compile(r"\(default: (.*)\)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TableOption:
    """One option: ``name`` is its key in a file, ``group`` the heading of its help, ``action`` argparse's own."""

    name: str
    group: str
    action: argparse.Action

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return self.action.option_strings[0]

    @property
    def is_switch(self) -> bool:
        """True if it is on or off, and takes no argument."""
        return self.action.nargs == 0

    @property
    def takes_several(self) -> bool:
        """True if it may be given several times, or takes several arguments."""
        return self.action.nargs in ("+", "*") or isinstance(self.action, argparse._AppendAction)

    @property
    def takes_list(self) -> bool:
        """True if its one argument is a list with commas, such as ``a,b`` or ``a=1,b=2``."""
        return isinstance(self.action.metavar, str) and self.action.metavar.endswith(",...")

    @property
    def takes_table(self) -> bool:
        """True if the parts of that list are pairs."""
        return self.takes_list and "=" in str(self.action.metavar)

    @property
    def takes_numbers(self) -> bool:
        """True if a type reads its argument, so that a number may stand for its text."""
        return self.action.type not in (None, str, Path) and not self.takes_list and not self.takes_several

    @property
    def wanted(self) -> str:
        """What a file should hold, in words."""
        if self.is_switch:
            return "true or false"
        if self.takes_table:
            return "a table of texts, or one text with commas"
        if self.takes_list or self.takes_several:
            return "a list of texts, or one text"
        if self.action.choices is not None:
            return f"one of {', '.join(map(repr, map(str, self.action.choices)))}"
        return "a number or a text" if self.takes_numbers else "a text"

    @property
    def default_in_words(self) -> str:
        """What is in force if nobody sets it; empty if help does not say."""
        found = _DEFAULT.search(self.action.help or "")
        return found[1] if found and "%(" not in found[1] else ""


def option_table(parser: argparse.ArgumentParser) -> dict[str, TableOption]:
    """The options of a parser by name, in the order of its help, without hidden ones, ``--help`` and ``--config``."""
    groups = ((group.title or "", action) for group in parser._action_groups for action in group._group_actions)
    return {
        action.dest: TableOption(action.dest, title, action)
        for title, action in groups
        if action.option_strings
        and action.help is not argparse.SUPPRESS
        and not set(OWN_FLAGS) & set(action.option_strings)
    }


def add_opposites(parser: argparse.ArgumentParser) -> None:
    """Add the hidden opposite of each switch, with which a command line turns off what a file turned on.

    ``--no-verify`` for ``--verify``, and ``--report`` for ``--no-report``.
    """
    taken = set(parser._option_string_actions)
    for one in [*option_table(parser).values()]:
        turned = ("--no-", "--") if one.flag.startswith("--no-") else ("--", "--no-")
        flag, off = one.flag.replace(*turned, 1), one.action.default
        if one.is_switch and flag not in taken:
            hidden = argparse.SUPPRESS
            parser.add_argument(flag, dest=one.name, action="store_const", const=off, default=off, help=hidden)


@contextmanager
def _without_defaults(parser: argparse.ArgumentParser) -> Iterator[None]:
    """In the block, what is not given is missing from what is parsed, and a mistake raises ``ArgumentError``."""
    defaults, exits = {action: action.default for action in parser._actions}, parser.exit_on_error
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    parser.exit_on_error = False
    try:
        yield
    finally:
        parser.exit_on_error = exits
        for action, default in defaults.items():
            action.default = default


def given_options(parser: argparse.ArgumentParser, argv: Sequence[str]) -> Mapping[str, object]:
    """The options that a command line names, by name; others are missing. The parser has accepted it before."""
    with _without_defaults(parser):
        return vars(parser.parse_known_args(argv)[0])


def read_option(parser: argparse.ArgumentParser, one: TableOption, tokens: Iterable[str]) -> object:
    """What the parser makes of one option's arguments; of a switch, which has none, that it is on.

    Raises:
        ValueError: if it refuses one; the message says what is wanted.
    """
    argv = [f"{one.flag}={token}" for token in tokens]
    if one.is_switch or (one.takes_several and type(one.action) is argparse._StoreAction):
        argv = [one.flag, *tokens]
    with _without_defaults(parser):
        try:
            return getattr(parser.parse_args(argv), one.name)
        except argparse.ArgumentError as error:
            raise ValueError(error.message) from error
