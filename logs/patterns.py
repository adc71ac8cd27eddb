"""Which files a pattern names: braces, wildcards, folders and links, the same on every file system."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Protocol

_WILD = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"
_MARK_OF_AUDIT = "_attribeam"
"""A file that every output directory of a local audit holds."""
_FOLDERS_OF_AUDIT = frozenset({"_chunks", "evidence", "dead_letters"})
"""Folders of every audit, which tell that of a distributed one."""
_OF_AUDIT = frozenset({"evidence", "dead_letters", "run_manifest.json", "metrics.json"})
"""What audits write there and might be taken for logs; all else in such a directory is its user's."""
_INNERMOST_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder; a link is what it leads to, and ``identity`` tells folders apart whatever their path."""

    name: str
    is_folder: bool
    identity: str


class Folders(Protocol):
    """What a search asks of a file system; a path is as its user writes it."""

    def entries(self, folder: str) -> list[Entry]:
        """What is in a folder; empty where there is no such folder."""

    def entry(self, path: str) -> Entry | None:
        """The file or folder of exactly this path, None where there is none."""


_Entries = Callable[[str], list[Entry]]


def find_files(pattern: str, folders: Folders, *, suffix: str) -> list[str]:
    """The files of a pattern, sorted, each once; links to folders are followed.

    ``*`` and ``?`` stay within a name, ``**`` stands for any number of folders, and ``{20,21}`` for either text. A
    folder that matches means all files below it that end in ``suffix``, in either case, which may have braces, too. A
    file or folder of exactly the pattern's own text is found besides. Files whose names begin with "." or "_" are
    passed over, and so are such folders unless the pattern spells that character out. What audits wrote into their
    output directories is passed over, too, where a folder or ``**`` stands for it.

    Raises:
        FileNotFoundError: if a folder that matches is named like a log, and holds other things alone.
    """
    entries, found = cache(folders.entries), set[str]()
    for one in {pattern, *expand_braces(pattern)}:
        found.update(_exact_files(one, folders, entries, suffix))
        fixed, parts = _split(one)
        top = folders.entry(fixed or ".") if _WILD.search(one) else None
        if top is not None:
            found.update(_matches(fixed, parts, entries, (top.identity,)))
            for below in _below(suffix):
                found.update(_matches(fixed, [*filter(None, parts), *below], entries, (top.identity,), any_depth=True))
    files = sorted(path for path in found if not path.endswith("/"))
    logs = [f"{name}/" for _, name in _below(suffix)] if suffix else []
    for folder in found.difference(files):
        is_log = any(fnmatchcase(folder, log) for log in logs) and bool(entries(folder))
        if is_log and not any(path.startswith(folder) for path in files):
            raise FileNotFoundError(f"{folder!r} holds no *{suffix}; if it is not being written, remove or rename it")
    return files


def expand_braces(pattern: str) -> list[str]:
    """``a{b,c}d`` as ``abd`` and ``acd``; braces without a comma stay, as in a shell."""
    match = _INNERMOST_BRACES.search(pattern)
    if match is None:
        return [pattern]
    before, after = pattern[: match.start()], pattern[match.end() :]
    texts = [text for one in match[1].split(",") for text in expand_braces(f"{before}{one}{after}")]
    return list(dict.fromkeys(texts))


def _exact_files(pattern: str, folders: Folders, entries: _Entries, suffix: str) -> Iterator[str]:
    """The file or folder of this path, and what is below it: an object store may have a file and a folder."""
    exact = folders.entry(pattern)
    if exact is None:
        return
    if exact.is_folder:
        yield _as_folder(pattern)
    elif not _is_hidden(pattern.rpartition("/")[2]):
        yield pattern
    for below in _below(suffix):
        yield from _matches(_as_folder(pattern), below, entries, (exact.identity,))


def _below(suffix: str) -> list[list[str]]:
    """The parts of patterns that mean all files below a folder."""
    either_case = "".join(f"[{one.lower()}{one.upper()}]" if one.isalpha() else one for one in suffix)
    return [[_ANY_DEPTH, name] for name in expand_braces(f"*{either_case}")]


def _split(pattern: str) -> tuple[str, list[str]]:
    """The folder that a pattern names without wildcards, "" or with a slash at its end, and the names below it."""
    parts = [part for text in pattern.split("/") for part in _with_own_depth(text)]
    wild = next((index for index, part in enumerate(parts) if _WILD.search(part)), len(parts) - 1)
    return "".join(f"{part}/" for part in parts[:wild]), parts[wild:]


def _with_own_depth(part: str) -> list[str]:
    """``**.parquet`` means ``**/*.parquet``."""
    return [_ANY_DEPTH, part.replace(_ANY_DEPTH, "*")] if _ANY_DEPTH in part and part != _ANY_DEPTH else [part]


def _matches(
    folder: str, parts: list[str], entries: _Entries, above: tuple[str, ...], *, any_depth: bool = False
) -> Iterator[str]:
    """The files and, with a slash, the folders below ``folder`` that match ``parts``; ``above`` leads to it.

    A link that leads back to one of these is not followed by ``**``, which would never end. ``any_depth`` says that
    ``**`` stood before ``parts``.
    """
    while parts[:2] == [_ANY_DEPTH, _ANY_DEPTH]:
        parts = parts[1:]
    part, below = parts[0], parts[1:]
    any_depth = any_depth or part == _ANY_DEPTH
    found = entries(folder)
    if any_depth and _WILD.search(part):
        found = _but_of_audit(found)
    if part == _ANY_DEPTH:
        yield from _matches(folder, below or ["*"], entries, above, any_depth=True)
    for entry in found:
        path = f"{folder}{entry.name}"
        if part == _ANY_DEPTH:
            if entry.is_folder and not _is_hidden(entry.name) and entry.identity not in above:
                yield from _matches(f"{path}/", parts, entries, (*above, entry.identity), any_depth=True)
        elif _is_match(entry.name, part):
            if below and entry.is_folder:
                inside = (*above, entry.identity)
                yield from _matches(f"{path}/", below, entries, inside, any_depth=any_depth)
            elif not below and not _is_hidden(entry.name):
                yield f"{path}/" if entry.is_folder else path


def _but_of_audit(found: list[Entry]) -> list[Entry]:
    """What is in a folder, but not what an audit wrote if it is its output directory."""
    is_marked = any(entry.name == _MARK_OF_AUDIT and not entry.is_folder for entry in found)
    if not is_marked and not {entry.name for entry in found if entry.is_folder} >= _FOLDERS_OF_AUDIT:
        return found
    return [entry for entry in found if entry.name not in _OF_AUDIT]


def _is_match(name: str, part: str) -> bool:
    return fnmatchcase(name, part) and (part[:1] == name[:1] or not _is_hidden(name))


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _as_folder(path: str) -> str:
    return path if path.endswith("/") else f"{path}/"
