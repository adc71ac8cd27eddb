"""Writes the table of docs/options.md between its marks: ``python -m lab.option_docs FILE``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from attribeam.attribution.methods.method import MethodSettings
from attribeam.attribution.option_declaration import Option, declared
from attribeam.attribution.options import AttributorOptions, TrainedOptions
from attribeam.pipeline.audit_options import AuditOptions
from attribeam.pipeline.command_line import COMMANDS

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
_COMMANDS = ("audit", "evaluate", "models")


def option_table() -> str:
    """All options that a user can set, as a Markdown table."""
    kinds = (AuditOptions, MethodSettings, TrainedOptions)
    every = {name: option for options in kinds for name, option in declared(options).items()}
    helps = {command: _helps(command) for command in _COMMANDS}
    rows = [("option", "what it does", "values", "default", "paper", "where"), ("---",) * 6]
    for name, option in every.items():
        commands = [command for command in _COMMANDS if helps[command].get(name, "").startswith(option.help)]
        if where := ", ".join([*commands, *_further(option)]):
            paper = "an extension" if option.extends_paper else option.paper and f"Section {option.paper}"
            rows.append((f"`{name}`", option.help, option.expects, option.default_in_words, paper, where))
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _further(option: Option) -> Iterator[str]:
    if option.name in AttributorOptions.model_fields:
        yield "`Attributor`"
    if option.in_directory:
        yield "`attribution_config.json`"


def _helps(command: str) -> dict[str, str]:
    parser = argparse.ArgumentParser(add_help=False)
    import_module(next(entry.module for entry in COMMANDS if entry.name == command)).add_arguments(parser)
    return {action.dest: action.help or "" for action in parser._actions}


def with_table(text: str) -> str:
    """``text`` with the table between its marks.

    Raises:
        ValueError: if it lacks the marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page should have the lines {BEGIN} and {END}, lacks one")
    return f"{before}{BEGIN}\n\n{option_table()}\n\n{END}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
