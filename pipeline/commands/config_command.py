"""Check a configuration file of ``attribeam audit``, or print every option with its value and where it comes from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import groupby

from attribeam import __version__
from attribeam.pipeline.options.audit_options import add_audit_arguments
from attribeam.pipeline.options.config_file import (
    BEAM_ARGUMENTS,
    ConfigEntry,
    ConfigFile,
    check_together,
    read_config,
    toml_value,
)
from attribeam.pipeline.options.option_table import TableOption, option_table
from attribeam.report.messages import print_lines

_LEFT_OPEN = ("input", "output")
_WIDTH = 44


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two forms of ``attribeam config``."""
    forms = parser.add_subparsers(dest="form", required=True, metavar="check|print")
    check = forms.add_parser("check", help="check names, types, values and variables, and how the options go together")
    check.add_argument("file", metavar="FILE", help="a TOML file for attribeam audit --config")
    shown = forms.add_parser("print", help="print every option, its value and where it comes from, as TOML")
    shown.add_argument("file", metavar="FILE", nargs="?", help="a TOML file (default: none, which prints the defaults)")


def run(arguments: argparse.Namespace) -> None:
    """Check the file, or print it with the defaults.

    Raises:
        UsageError: if something is wrong in it.
    """
    parser = argparse.ArgumentParser("attribeam audit", allow_abbrev=False)
    add_audit_arguments(parser)
    config = ConfigFile("") if arguments.file is None else read_config(parser, arguments.file)
    check_together(parser, config)
    print_lines(*(_checked_lines(config) if arguments.form == "check" else config_lines(option_table(parser), config)))


def _checked_lines(config: ConfigFile) -> Iterator[str]:
    count = len(config.entries)
    yield f"{config.path}: {count} option{'s' * (count != 1)} can be used together"
    for name in _LEFT_OPEN:
        if name not in config.entries:
            yield f"{config.path}: {name} is left to the command line"


def config_lines(table: Mapping[str, TableOption], config: ConfigFile) -> Iterator[str]:
    """Every option as TOML that ``--config`` reads; what nobody set and has no value of its own is a comment."""
    yield f"# Options of attribeam audit {__version__}, each with where its value comes from."
    for group, options in groupby(table.values(), key=lambda one: one.group):
        yield from ("", f"# {group}")
        for one in options:
            entry = config.entries.get(one.name)
            yield _default_line(one) if entry is None else _entry_line(one.name, entry, config)
    yield from ("", "# what a Beam runner gets")
    entry = config.entries.get(BEAM_ARGUMENTS)
    yield _line(BEAM_ARGUMENTS, "[]", "default") if entry is None else _entry_line(BEAM_ARGUMENTS, entry, config)


def _entry_line(name: str, entry: ConfigEntry, config: ConfigFile) -> str:
    place = config.path if entry.line is None else f"{config.path}, line {entry.line}"
    origin = place if entry.written == entry.shown else f"{place}, with variables of the environment"
    return _line(name, _escaped(entry.shown), origin)


def _default_line(one: TableOption) -> str:
    words = one.default_in_words
    default = one.action.default
    if default is None:
        return _line(f"# {one.name}", "...", f"default: {words}" if words else "not set")
    return _line(one.name, _escaped(_plain(default)), "default")


def _line(name: str, value: str, origin: str) -> str:
    return f"{f'{name} = {value}':<{_WIDTH}}  # {origin}"


def _plain(default: object) -> object:
    """A default as a file would say it."""
    if isinstance(default, list | tuple):
        return [str(one) for one in default]
    return default if isinstance(default, bool | int | float) else str(default)


def _escaped(value: object) -> str:
    """TOML in which nothing is taken for a variable."""
    return toml_value(value).replace("${", "$${")
