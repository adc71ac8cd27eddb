"""Prints the tables of docs/options.md: ``python -m attribeam.pipeline.commands.option_docs [FILE]``.

With a file, writes them into it, between the marks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

from attribeam.attribution.methods.method import MethodSettings
from attribeam.attribution.option_declaration import Option, Options, declared
from attribeam.attribution.options import AttributorOptions, MethodOptions, ModelOptions, TrainedOptions
from attribeam.pipeline.command_line import COMMANDS
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.report.messages import print_lines

BEGIN = "<!-- generated: begin -->"
END = "<!-- generated: end -->"
COMMANDS_WITH_OPTIONS = ("audit", "evaluate", "models")
_SECTIONS: Mapping[str, tuple[type[Options], tuple[type[Options], ...]]] = {
    "Model": (ModelOptions, ()),
    "Method": (MethodOptions, ()),
    "Spans, parser, threads": (AttributorOptions, (ModelOptions, MethodOptions)),
    "Comparison of methods": (MethodSettings, (MethodOptions,)),
    "Running an audit": (RunOptions, ()),
    "Set by the model directory only": (TrainedOptions, ()),
}
"""Heading: the options of a class, without those of others."""
_HEADER = ("option", "what it does", "values", "default", "paper", "in `attribution_config.json`", "commands")


def option_tables() -> str:
    """All declared options as Markdown tables, one per section."""
    helps = {command: option_helps(command) for command in COMMANDS_WITH_OPTIONS}
    sections = [_section(heading, *classes, helps) for heading, classes in _SECTIONS.items()]
    return "\n\n".join([*sections, _further_options()])


def _further_options() -> str:
    """A table of the options of an audit that no other names, since they are declared where it reads its arguments."""
    declared_flags = {
        one.flag: one.help for classes in _SECTIONS.values() for one in declared(classes[0]).values() if one.flag
    }
    rows = [
        (f"`{action.option_strings[-1]}`", str(action.help).replace("%(default)s", str(action.default)))
        for action in _parser("audit")._actions
        if action.help not in (None, argparse.SUPPRESS)
        and "--help" not in action.option_strings
        and not str(action.help).startswith(declared_flags.get(action.option_strings[-1], "\0"))
    ]
    cells = [("option", "what it does"), ("---", "---"), *rows]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    return "\n".join(["### Further options of `attribeam audit`", "", *lines])


def option_helps(command: str) -> dict[str, str]:
    """The help of every option that a command has, by its flag."""
    return {flag: action.help or "" for action in _parser(command)._actions for flag in action.option_strings}


def _parser(command: str) -> argparse.ArgumentParser:
    module = import_module(next(one.module for one in COMMANDS if one.name == command))
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser


def with_tables(text: str) -> str:
    """``text`` with the tables between its marks.

    Raises:
        ValueError: if it lacks the marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page should have the lines {BEGIN} and {END}, lacks one")
    return f"{before}{BEGIN}\n\n{option_tables()}\n\n{END}{after}"


def _section(
    heading: str,
    options: type[Options],
    besides: tuple[type[Options], ...],
    helps: Mapping[str, Mapping[str, str]],
) -> str:
    left_out = {name for one in besides for name in one.model_fields}
    rows = [_cells(one, helps) for one in declared(options).values() if one.name not in left_out]
    lines = ["| " + " | ".join(cells) + " |" for cells in (_HEADER, ["---"] * len(_HEADER), *rows)]
    return "\n".join([f"### {heading}", "", *lines])


def _cells(one: Option, helps: Mapping[str, Mapping[str, str]]) -> list[str]:
    is_flag = isinstance(one.default, bool)
    taken = [command for command, by_flag in helps.items() if by_flag.get(one.flag, "").startswith(one.help)]
    cells = (
        f"`{one.name}`",
        one.help,
        one.expects or ("yes or no" if is_flag else "text"),
        ("yes" if one.default else "no") if is_flag else one.default_in_words,
        _paper(one),
        "yes" if one.in_directory else "",
        ", ".join(taken),
    )
    return [cell.replace("|", "\\|") for cell in cells]


def _paper(one: Option) -> str:
    return "an extension" if one.extends_paper else one.paper and f"Section {one.paper}"


def _main(arguments: list[str]) -> Iterator[str]:
    if not arguments:
        yield option_tables()
    for name in arguments:
        Path(name).write_text(with_tables(Path(name).read_text(encoding="utf-8")), encoding="utf-8")
        yield f"wrote {name}"


if __name__ == "__main__":
    print_lines(*_main(sys.argv[1:]))
