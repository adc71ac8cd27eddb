"""``--config FILE``: options of an audit from a TOML file, checked one by one, with variables of the environment.

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
from difflib import get_close_matches
from pathlib import Path

from attribeam.pipeline.options.audit_options import read_run_options, read_settings
from attribeam.pipeline.options.option_table import (
    TableOption,
    add_opposites,
    given_options,
    option_table,
    read_option,
)
from attribeam.report.messages import ConsoleKind, console_kind
from attribeam.schemas.errors import UsageError

BEAM_ARGUMENTS = "beam_arguments"
"""What the Beam runner gets: no option of its own on the command line, where it is whatever attribeam does not know."""

_TOO_DEEP = "its values are nested too deeply; no option takes more than a list or a table of texts"
_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One option in a file.

    Attributes:
        value: what the command gets.
        shown: the same as TOML has it, variables expanded.
        written: as in the file.
        line: 1-based; None if it cannot be told.
    """

    value: object
    shown: object
    written: object
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that was read and checked: its entries by option."""

    path: str
    entries: Mapping[str, ConfigEntry] = field(default_factory=dict)


def parse_with_config(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line whose ``--config`` may name a file; the command line beats the file.

    What no option takes is in ``beam_arguments``.

    Raises:
        UsageError: if the file cannot be read, or an entry is wrong.
        SystemExit: as for ``parse_args``.
    """
    add_opposites(parser)
    arguments, unknown = parser.parse_known_args(argv)
    arguments.beam_arguments = unknown
    if arguments.config is not None:
        given = given_options(parser, argv)
        for name, entry in read_config(parser, arguments.config).entries.items():
            if name not in given and not (name == BEAM_ARGUMENTS and unknown):
                setattr(arguments, name, entry.value)
    return arguments


def asked_console(argv: Sequence[str]) -> ConsoleKind:
    """How to speak of mistakes, before anything is parsed: as the command line says, else as the file does."""
    if console_kind(argv) is ConsoleKind.JSON or any(one.partition("=")[0] == "--console" for one in argv):
        return console_kind(argv)
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", nargs="?")
    path = finder.parse_known_args(argv)[0].config
    with suppress(OSError, ValueError):
        if path is not None and _read_toml(path)[0].get("console") == ConsoleKind.JSON:
            return ConsoleKind.JSON
    return ConsoleKind.TEXT


def read_config(parser: argparse.ArgumentParser, path: str, environment: Mapping[str, str] = os.environ) -> ConfigFile:
    """Read and check a file by the options of ``parser``.

    Raises:
        UsageError: if it cannot be read, or something is wrong in it; the message names every mistake with its line,
            and the way out.
    """
    try:
        content, text = _read_toml(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--config {path!r} should be a TOML file that can be read: {reason}") from error
    reader = _Reader(parser, option_table(parser), environment)
    entries: dict[str, ConfigEntry] = {}
    mistakes = []
    for key, written in content.items():
        line = _line_of(key, text)
        try:
            name = reader.name_of(key)
            if name in entries:
                raise ValueError(f"it is there twice, as {name} and {name.replace('_', '-')}; keep one of them")
            entries[name] = reader.entry(name, written, line)
        except (ValueError, RecursionError) as error:
            place = path if line is None else f"{path}, line {line}"
            mistakes.append(f"{place}: {key}: {_TOO_DEEP if isinstance(error, RecursionError) else error}")
    if mistakes:
        raise UsageError(*mistakes)
    return ConfigFile(path, entries)


def check_together(parser: argparse.ArgumentParser, config: ConfigFile) -> None:
    """Refuse options that contradict each other; input and output may be left to the command line.

    Raises:
        UsageError: if some do; the message names the file.
    """
    audit = parser.parse_args(["--input", "left-open", "--output", "left-open"])
    audit.beam_arguments = ()
    for name, entry in config.entries.items():
        setattr(audit, name, entry.value)
    try:
        read_settings(audit)
        read_run_options(audit)
    except (ValueError, UsageError) as error:
        raise UsageError(f"{config.path}: {error}") from error


def _read_toml(path: str) -> tuple[dict[str, object], str]:
    """What a file holds, and its text.

    Raises:
        OSError, ValueError: if it cannot be read, or holds no TOML. A pipe could be read only once, so it is refused.
    """
    if Path(path).exists() and not Path(path).is_file():
        raise ValueError("it is a folder, a pipe or a device")
    text = Path(path).read_bytes().decode("utf-8-sig")  # editors of Windows begin a file with a mark
    try:
        return tomllib.loads(text), text
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _line_of(key: str, text: str) -> int | None:
    """The line of a key at the top, if one line alone looks like it."""
    pattern = rf"""^[ \t]*(?:\[[ \t]*)?["']?{re.escape(key)}["']?[ \t]*[.=\]]"""
    found = [one.start() for one in re.finditer(pattern, text, flags=re.MULTILINE)]
    return text.count("\n", 0, found[0]) + 1 if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class _Reader:
    parser: argparse.ArgumentParser
    table: Mapping[str, TableOption]
    environment: Mapping[str, str]

    def name_of(self, key: str) -> str:
        """The option that a key names.

        Raises:
            ValueError: if there is none; the message names near ones.
        """
        name = key.replace("-", "_")
        if name in self.table or name == BEAM_ARGUMENTS:
            return name
        if name == "config":
            raise ValueError("a file cannot name another one; leave it out")
        names = [*self.table, BEAM_ARGUMENTS]
        near = get_close_matches(name, names, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "attribeam config print lists all options"
        raise ValueError(f"there is no such option; {hint}")

    def entry(self, name: str, written: object, line: int | None) -> ConfigEntry:
        """The entry of an option.

        Raises:
            ValueError: if the value is not what the option wants, or a variable is not set.
        """
        shown = self._expanded(written)
        if name == BEAM_ARGUMENTS:
            return ConfigEntry(_texts(shown, "a list of texts, or one text"), shown, written, line)
        one = self.table[name]
        return ConfigEntry(self._value(one, shown), shown, written, line)

    def _expanded(self, value: object) -> object:
        if isinstance(value, str):
            return expand_variables(value, self.environment)
        if isinstance(value, list):
            return [self._expanded(one) for one in value]
        if isinstance(value, dict):
            return {name: self._expanded(one) for name, one in value.items()}
        return value

    def _value(self, one: TableOption, shown: object) -> object:
        if one.is_switch:
            on = {"true": True, "false": False}.get(shown) if isinstance(shown, str) else shown
            if not isinstance(on, bool):
                raise ValueError(f"should be {one.wanted}, was: {toml_value(shown)}")
            return read_option(self.parser, one, ()) if on else one.action.default
        tokens = [*_tokens(one, shown)]
        return read_option(self.parser, one, tokens) if tokens else one.action.default


def _tokens(one: TableOption, shown: object) -> Iterator[str]:
    """The arguments on a command line that say the same."""
    if one.takes_table and isinstance(shown, dict):
        texts = _texts([*shown.values()], one.wanted)
        yield _joined([f"{name}={text}" for name, text in zip(shown, texts, strict=True)], shown)
    elif one.takes_several:
        yield from _texts(shown, one.wanted)
    elif one.takes_list:
        yield _joined(_texts(shown, one.wanted), shown)
    elif isinstance(shown, str):
        yield shown
    elif one.takes_numbers:
        yield toml_value(shown)  # its type says what is wanted
    else:
        raise ValueError(f"should be {one.wanted}, was: {toml_value(shown)}")


def _joined(parts: Sequence[str], shown: object) -> str:
    if not isinstance(shown, str) and any("," in part for part in parts):
        raise ValueError(f"its parts should have no comma, was: {toml_value(shown)}")
    return ",".join(parts)


def _texts(shown: object, wanted: str) -> list[str]:
    texts = [shown] if isinstance(shown, str) else shown
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise ValueError(f"should be {wanted}, was: {toml_value(shown)}")
    return texts


def expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """``text`` with ``${NAME}`` and ``${NAME:-default}`` replaced; ``$${`` stands for ``${``.

    The default also stands for a variable that is set to nothing, as in a shell.

    Raises:
        ValueError: if a variable is not set, or something after ``${`` is no variable.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        if found[0] == "$${":
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
        return '"' + "".join(map(_toml_char, value)) + '"'
    if isinstance(value, Mapping):
        pairs = (f"{toml_value(name)} = {toml_value(one)}" for name, one in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    return str(value)


def _toml_char(char: str) -> str:
    if char in ('"', "\\"):
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"
