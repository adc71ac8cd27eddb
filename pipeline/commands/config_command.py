"""Check a configuration file of ``attribeam audit``, or print every option with its value and where it comes from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from attribeam import __version__
from attribeam.attribution.option_declaration import Option
from attribeam.pipeline.options.audit_options import audit_groups
from attribeam.pipeline.options.config_file import (
    BEAM_ARGUMENTS,
    LEFT_OPEN,
    OPTIONS,
    ConfigFile,
    check_together,
    read_config,
    toml_value,
)
from attribeam.report.messages import print_lines

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
    config = ConfigFile("") if arguments.file is None else read_config(arguments.file)
    check_together(config)
    print_lines(*(_checked_lines(config) if arguments.form == "check" else config_lines(config)))


def _checked_lines(config: ConfigFile) -> Iterator[str]:
    count = len(config.entries)
    yield f"{config.path}: {count} option{'s' * (count != 1)} can be used together"
    for name in LEFT_OPEN:
        if name not in config.entries:
            yield f"{config.path}: {name} is left to the command line"


def config_lines(config: ConfigFile) -> Iterator[str]:
    """Every option as TOML that ``--config`` reads; what nobody set and has no value of its own is a comment."""
    yield f"# Options of attribeam audit {__version__}, each with where its value comes from."
    for heading, options in {**audit_groups(), "what a Beam runner gets": [OPTIONS[BEAM_ARGUMENTS]]}.items():
        yield from ("", f"# {heading}")
        for one in options:
            yield _line(one, config)


def _line(one: Option, config: ConfigFile) -> str:
    name, entry = one.name, config.entries.get(one.name)
    if entry is not None:
        value, origin = toml_value(entry.shown).replace("${", "$${"), entry.origin
    elif one.default in (None, ""):
        name, value = f"# {name}", "..."
        origin = f"default: {one.default_in_words}" if one.default_in_words else "not set"
    else:
        value, origin = toml_value(one.default), "default"
    return f"{f'{name} = {value}':<{_WIDTH}}  # {origin}"
