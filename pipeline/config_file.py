"""``attribeam config``: check or print a TOML file of an audit's options, with variables of the environment.

A key is an option's name: ``rows_per_chunk``, or as on the command line, ``rows-per-chunk``.
"""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribeam import __version__
from attribeam.attribution.option_declaration import TEXT, Option, declared
from attribeam.pipeline.audit_options import (
    AuditOptions,
    audit_groups,
    read_run_options,
    read_settings,
    setting_of_model,
)
from attribeam.report.messages import CONSOLE_FLAG, ConsoleKind, console_kind, print_lines
from attribeam.schemas.errors import UsageError, did_you_mean

BEAM_ARGUMENTS = "beam_arguments"
LEFT_OPEN: Mapping[str, object] = {"input": ("left-open",), "output": "left-open"}
"""What a command line usually adds, and what stands for it where a file is checked alone."""
OPTIONS: Mapping[str, Option] = {
    **{option.name: option for group in audit_groups().values() for option in group},
    BEAM_ARGUMENTS: declared(AuditOptions)[BEAM_ARGUMENTS],
}
"""What a file may hold: the options of the command line, and what a Beam runner gets."""

_TOO_DEEP = "its values are nested too deeply; no option takes more than a list or a table"
_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One option in a file: what the command gets, the same as TOML has it with variables expanded, and its origin.

    The origin is file and line, if it can be told, and whether the environment had a part in it.
    """

    value: object
    shown: object
    origin: str


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that was read and checked: its entries by option."""

    path: str
    entries: Mapping[str, ConfigEntry] = field(default_factory=dict)

    def options(self, **given: Any) -> AuditOptions:
        """The file's options, with the ``given`` ones in their place; a Beam runner gets the arguments of both.

        Raises ``UsageError`` if they do not fit together.
        """
        try:
            options = AuditOptions().replaced(**{name: entry.value for name, entry in self.entries.items()})
            if BEAM_ARGUMENTS in given:
                given[BEAM_ARGUMENTS] = (*options.beam_arguments, *given[BEAM_ARGUMENTS])
            return options.replaced(**given)
        except ValueError as error:
            raise UsageError(str(error)) from error


def read_options(arguments: argparse.Namespace) -> AuditOptions:
    """The options of a parsed command line, and of the file that its ``--config`` may name; the command line beats it.

    Raises ``UsageError`` if the file cannot be read, an entry is wrong, or options do not fit together.
    """
    config = ConfigFile("") if arguments.config is None else read_config(arguments.config)
    return config.options(
        **{name: getattr(arguments, name) for name in OPTIONS if getattr(arguments, name) is not None}
    )


def asked_console(argv: Sequence[str]) -> ConsoleKind:
    """How to speak of mistakes, before anything is parsed: as the command line says, else as the file does."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", nargs="?")
    path = finder.parse_known_args(argv)[0].config
    if path is not None and not any(argument.partition("=")[0] == CONSOLE_FLAG for argument in argv):
        with suppress(OSError, ValueError):
            return ConsoleKind(str(_read_toml(path)[0].get("console")))
    return console_kind(argv)


def read_config(path: str, environment: Mapping[str, str] = os.environ) -> ConfigFile:
    """Read and check a file.

    Raises ``UsageError`` if it cannot be read, or something is wrong in it; the message names every mistake with its
    line, and the way out.
    """
    try:
        content, text = _read_toml(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--config {path!r} should be a TOML file that can be read: {reason}") from error
    entries: dict[str, ConfigEntry] = {}
    mistakes = []
    for key, written in content.items():
        location = path + _line_of(key, text)
        try:
            name = _option_name(key)
            if name in entries:
                raise ValueError(f"it is there twice, as {name} and {name.replace('_', '-')}; keep one of them")
            shown = _expanded(written, environment)
            origin = location if shown == written else f"{location}, with variables of the environment"
            entries[name] = ConfigEntry(_value(OPTIONS[name], shown), shown, origin)
        except (ValueError, argparse.ArgumentTypeError, UsageError, RecursionError) as error:
            mistakes.append(f"{location}: {key}: {_TOO_DEEP if isinstance(error, RecursionError) else error}")
    if mistakes:
        raise UsageError(*mistakes)
    return ConfigFile(path, entries)


def _read_toml(path: str) -> tuple[dict[str, object], str]:
    """What a file holds, and its text; ``OSError`` or ``ValueError`` if it cannot be read, or holds no TOML."""
    if Path(path).exists() and not Path(path).is_file():
        raise ValueError("it is a folder, a pipe or a device")  # a pipe could be read only once
    text = Path(path).read_bytes().decode("utf-8-sig")  # editors of Windows begin a file with a mark
    try:
        return tomllib.loads(text), text
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _line_of(key: str, text: str) -> str:
    """The line of a key at the top in words, if one line alone looks like it."""
    pattern = rf"""^[ \t]*(?:\[[ \t]*)?["']?{re.escape(key)}["']?[ \t]*[.=\]]"""
    lines = [text.count("\n", 0, match.start()) + 1 for match in re.finditer(pattern, text, flags=re.MULTILINE)]
    return f", line {lines[0]}" if len(lines) == 1 else ""


def _option_name(key: str) -> str:
    """The option that a key names; ``ValueError`` if there is none, with near ones."""
    name = key.replace("-", "_")
    if name in OPTIONS:
        return name
    if name == "config":
        raise ValueError("a file cannot name another one; leave it out")
    meant = setting_of_model(name)
    hint = meant or did_you_mean(name, OPTIONS, otherwise="attribeam config print lists all options")
    raise ValueError(f"there is no such option; {hint}")


def _expanded(value: object, environment: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return expand_variables(value, environment)
    if isinstance(value, list):
        return [_expanded(item, environment) for item in value]
    return {name: _expanded(item, environment) for name, item in value.items()} if isinstance(value, dict) else value


def _value(option: Option, shown: object) -> object:
    """The value of an option: what its text means, that of a list or table as the command line has it, or a number."""
    wanted, listed = option.expects, str(option.metavar).endswith(",...")
    if option.name == BEAM_ARGUMENTS and isinstance(shown, dict):
        return shown
    if isinstance(shown, str) and not option.several:
        return option.read(shown)
    if option.several or listed:
        wanted = "a list of texts, or one text"
        texts = [shown] if isinstance(shown, str) else shown
        if "=" in str(option.metavar):
            wanted = "a table of texts, or one text with commas"
            if isinstance(shown, dict) and all(isinstance(text, str) for text in shown.values()):
                texts = [f"{name}={text}" for name, text in shown.items()]
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            if option.several:
                return tuple(map(option.read, texts))
            if any("," in text for text in texts):
                raise ValueError(f"its parts should have no comma, was: {toml_value(shown)}")
            return option.read(",".join(texts))
    elif option.expects != TEXT:
        return option.read(toml_value(shown))
    raise ValueError(f"should be {wanted}, was: {toml_value(shown)}")


def expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """``text`` with ``${NAME}`` and ``${NAME:-default}`` replaced; ``$${`` stands for ``${``.

    The default also stands for a variable that is set to nothing, as in a shell. Raises ``ValueError`` if a variable is
    not set, or something after ``${`` is no variable.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        if match[0] == "$${":
            return "${"
        if name is None:
            raise ValueError("after ${ there should be NAME} or NAME:-default}; write $${ for ${ itself")
        if default is not None:
            return environment.get(name) or default
        if name not in environment:
            raise ValueError(f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
        return environment[name]

    return _VARIABLE.sub(value, text)


def toml_value(value: object) -> str:
    """A value of a file as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", r"\\").replace('"', r"\"")
        return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped) + '"'
    if isinstance(value, Mapping):
        pairs = (f"{toml_value(name)} = {toml_value(item)}" for name, item in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    return str(value)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two forms of ``attribeam config``."""
    forms = parser.add_subparsers(dest="form", required=True, metavar="check|print")
    check = forms.add_parser("check", help="check names, types, values and variables, and how the options go together")
    check.add_argument("file", metavar="FILE", help="a TOML file for attribeam audit --config")
    shown = forms.add_parser("print", help="print every option, its value and where it comes from, as TOML")
    shown.add_argument("file", metavar="FILE", nargs="?", help="a TOML file (default: none, which prints the defaults)")


def run(arguments: argparse.Namespace) -> None:
    """Check the file, or print it with the defaults; input and output may be left to the command line.

    Raises ``UsageError`` if something is wrong in it, or options contradict each other; the message names the file.
    """
    config = ConfigFile("") if arguments.file is None else read_config(arguments.file)
    open_options = {name: value for name, value in LEFT_OPEN.items() if name not in config.entries}
    try:
        options = config.options(**open_options)
        read_settings(options)
        read_run_options(options)
    except UsageError as error:
        raise UsageError(f"{config.path}: {error}") from error
    if arguments.form == "print":
        print_lines(*_config_lines(config))
        return
    count = len(config.entries)
    left = [f"{config.path}: {name} is left to the command line" for name in open_options]
    print_lines(f"{config.path}: {count} option{'s' * (count != 1)} can be used together", *left)


def _config_lines(config: ConfigFile) -> Iterator[str]:
    """Every option as TOML that ``--config`` reads; what nobody set and has no value of its own is a comment."""
    yield f"# Options of attribeam audit {__version__}, each with where its value comes from."
    for heading, options in {**audit_groups(), "what a Beam runner gets": [OPTIONS[BEAM_ARGUMENTS]]}.items():
        yield from ("", f"# {heading}")
        for option in options:
            name, entry = option.name, config.entries.get(option.name)
            if entry is not None:
                value, origin = toml_value(entry.shown).replace("${", "$${"), entry.origin
            elif option.default in (None, ""):
                name, value = f"# {name}", "..."
                origin = f"default: {option.default_in_words}" if option.default_in_words else "not set"
            else:
                value, origin = toml_value(option.default), "default"
            yield f"{f'{name} = {value}':<44}  # {origin}"
