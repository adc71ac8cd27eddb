"""Where the bytes of a log come from: the files of a pattern, their content, and whether they are still the same.

A pattern's braces, wildcards, folders and links mean the same on every file system.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol

from pyarrow import ArrowException, fs

from attribeam.logs.lake_tables import TableFiles, files_of_tables
from attribeam.schemas.errors import UsageError
from attribeam.schemas.files import new_file, sync_folder

_BLOCK_BYTES = 1 << 20
_FILE_URI = "file:///"
_HERE = re.compile(r"^(\./+)+")
"""It says nothing: without it, "./a.parquet" and "a.parquet" are one place, so that either resumes an audit."""
_GCS_SECONDS = 60
"""How long Google's client tries again; its own default is a quarter of an hour."""
_WILD = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"
_MARK_OF_AUDIT = "_attribeam"
"""A file that every output directory of a local audit holds."""
_FOLDERS_OF_AUDIT = frozenset({"_chunks", "evidence", "dead_letters"})
"""Folders of every audit, which tell that of a distributed one."""
_OF_AUDIT = frozenset({"evidence", "dead_letters", "run_manifest.json", "metrics.json"})
"""What audits write there and might be taken for logs; all else in such a directory is its user's."""
_SIDE_FILES = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
"""What stands beside the files of a Hugging Face data set, and has no rows."""
_INNERMOST_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


class LogStorage(Protocol):
    """Where logs lie. Picklable, and holds no open connection, because every process makes its own.

    Every method raises ``OSError`` if the file system cannot be asked.
    """

    def find(self, pattern: str, *, suffix: str) -> list[str]:
        """The files of a pattern, sorted, each once; a folder means all files below it that end in ``suffix``, which
        may be several in braces.
        """

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """The file's bytes, seekable, and never decompressed whatever its name ends in."""

    def stamp(self, path: str, file: BinaryIO | None = None) -> str | None:
        """What changes when the file is replaced or written to, such as its size and time; None where there is none.

        With ``file``, that of the open file itself, wherever the path leads by now; None where its file system cannot
        tell, as object stores cannot. Cheap: no content is read. Stamps are comparable within one run of one program.
        """


@dataclass(frozen=True, slots=True)
class ArrowStorage:
    """Local disks, and ``s3://``, ``gs://`` and ``hdfs://`` with Arrow's own clients.

    Credentials, region and endpoint come from where those clients look: ``AWS_*`` variables and ``~/.aws``,
    ``GOOGLE_APPLICATION_CREDENTIALS``, ``HADOOP_HOME``.
    """

    def find(self, pattern: str, *, suffix: str) -> list[str]:
        if pattern.startswith(_FILE_URI):
            return [f"file://{path}" for path in self.find(local_path(pattern), suffix=suffix)]
        if "://" in pattern:
            return find_files(pattern, _RemoteFolders(), suffix=suffix)
        return [_HERE.sub("", path) for path in find_files(pattern, _LocalFolders(), suffix=suffix)]

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        if "://" in local_path(path):
            system, inner = _locate(path)
            with system.open_input_file(inner) as file:
                yield file
        else:
            no_wait = getattr(os, "O_NONBLOCK", 0)  # for a pipe that nobody writes to
            with open(local_path(path), "rb", opener=lambda name, flags: os.open(name, flags | no_wait)) as local:
                if not stat.S_ISREG(os.fstat(local.fileno()).st_mode):
                    raise OSError("it is no file but a pipe, a socket or a device; write what it gives to a file first")
                yield local

    def sizes(self, folder: str) -> dict[str, int]:
        """The files directly in a folder by name, with their sizes in bytes; none where there is no such folder."""
        system, inner = _locate(folder) if "://" in folder else (fs.LocalFileSystem(), folder)
        try:
            infos = system.get_file_info(fs.FileSelector(inner.rstrip("/") or "/", allow_not_found=True))
        except NotADirectoryError:
            return {}
        return {info.base_name: info.size for info in infos if info.is_file}

    def stamp(self, path: str, file: BinaryIO | None = None) -> str | None:
        if "://" not in local_path(path):
            known = local_status(path, file)
            if known is None:
                return None
            at = f"{known.st_dev}:{known.st_ino}"
            return f"{at}, {known.st_size} bytes of {known.st_mtime_ns}, {known.st_ctime_ns}"  # which nobody sets back
        info = _info(path) if file is None else None
        return f"{info.size} bytes of {info.mtime_ns}" if info is not None and info.is_file else None


class WritableStorage(ArrowStorage):
    """An ``ArrowStorage`` whose local folders are written to as well. Its methods raise ``OSError`` where they fail."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return Path(path).exists()

    def make_folders(self, paths: Sequence[str]) -> None:
        """Make folders that are not there yet; object stores need none."""
        for path in paths:
            Path(path).mkdir(parents=True, exist_ok=True)

    def put_file(self, path: str, local: Path) -> None:
        """Move a local file, whose content is on the disk, to a path that nothing else writes to."""
        try:
            local.replace(path)
            sync_folder(Path(path).parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            with local.open("rb") as source, new_file(Path(path)) as target:
                shutil.copyfileobj(source, target)

    def put_text(self, path: str, text: str) -> None:
        """Replace a small file by a new one that was written beside it, so that readers see one of the two whole."""
        self.make_folders([path.rpartition("/")[0]])
        with new_file(Path(path)) as file:
            file.write(text.encode())

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files that are there."""
        for path in paths:
            Path(path).unlink()


def local_path(path: str) -> str:
    """A ``file://`` URI as a path, anything else as it is."""
    return path.removeprefix("file://") if path.startswith(_FILE_URI) else path


def local_status(path: str, file: BinaryIO | None) -> os.stat_result | None:
    """That of a local file, of the open ``file`` where there is one; None where the path leads to none."""
    try:
        return Path(local_path(path)).stat() if file is None else os.fstat(file.fileno())
    except (FileNotFoundError, NotADirectoryError):
        return None


def fingerprint_file(storage: LogStorage, path: str) -> tuple[int, str]:
    """As ``fingerprint``, for the file at a path."""
    with storage.open(path) as file:
        return fingerprint(file)


def fingerprint(file: BinaryIO) -> tuple[int, str]:
    """Size in bytes and SHA-256 of a file's content, so that a rewritten file is never taken for the old one."""
    digest, size = hashlib.sha256(), 0
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
        size += len(block)
    return size, digest.hexdigest()


def match_files(
    patterns: Sequence[str], suffix: str, storage: LogStorage, *, option: str
) -> tuple[list[str], list[str]]:
    """The files of all patterns as ``find_logs`` has them, and its notes.

    Raises ``UsageError`` as ``find_logs`` does, and if rows of a file are deleted.
    """
    matches = find_logs(patterns, suffix, storage, option=option)
    for table in matches.tables:
        if table.deletes_rows:
            raise UsageError(
                f"{option} leads to the table {table.root!r}, in whose files rows are deleted, which only `attribeam "
                "audit` leaves out; rewrite its files (OPTIMIZE, REORG or rewrite_data_files)"
            )
    return matches.paths, matches.notes


def find_logs(
    patterns: Sequence[str], suffix: str, storage: LogStorage, *, option: str, version: int | None = None
) -> TableFiles:
    """The files of all patterns, sorted, each once, and the tables that they belong to, of which ``version`` is read.

    There is a note if several paths lead to one file, if files of a folder are passed over for their names, and one for
    each table. Raises ``UsageError`` if a pattern matches nothing, its file system cannot be asked, a path is no text,
    or a table cannot be read.
    """
    files, others = set[str](), set[str]()
    for pattern in patterns:
        if not pattern.strip():
            raise UsageError(f"{option} should name files or a folder of them, was empty; is a variable unset?")
        try:
            paths = storage.find(pattern, suffix=suffix)
            others.update(storage.find(pattern, suffix="") if suffix else ())
        except (OSError, ArrowException) as error:
            raise UsageError(f"{option} {pattern!r} cannot be looked up: {' '.join(str(error).split())}") from error
        if not paths:
            raise UsageError(
                f"{option} should name existing files, nothing matches {pattern!r}; a folder means the *{suffix} files "
                'below it; files whose names begin with "." or "_", and what audits wrote, are passed over'
            )
        files.update(paths)
    for path in sorted(files):
        check_is_unicode(path, option)
    paths, notes = _each_once(files, option)
    try:
        of_tables = files_of_tables(paths, storage, option=option, version=version)
    except (OSError, ArrowException) as error:
        raise UsageError(f"{option}: its folders cannot be looked up: {' '.join(str(error).split())}") from error
    if (others := others - files) and not of_tables.tables:  # which have files of their own
        names = ", ".join(map(repr, sorted(others)[:5])) + ", ..." * (len(others) > 5)
        said = f"files below {option} passed over for how their names end, {len(others)} in all: {names}; name them, or"
        notes.append(f"{said} a pattern such as {min(others).rpartition('/')[0] + '/*'!r}, to read them")
    return replace(of_tables, notes=[*notes, *of_tables.notes])


def _each_once(files: set[str], option: str) -> tuple[list[str], list[str]]:
    """One path per file: the one that is no link, if there is one, else the first."""

    def is_linked(path: str) -> bool:
        here = Path(local_path(path))
        return "://" not in local_path(path) and here.resolve() != here.absolute()

    paths: dict[object, str] = {}
    notes: list[str] = []
    for path in sorted(files, key=lambda path: (is_linked(path), path)):
        here = local_path(path)
        first = paths.setdefault(here if "://" in here else _local_entry("", here), path)
        if first != path:
            notes.append(f"{path!r} is the same file as {first!r}")
    if notes:
        notes = [f"{len(notes)} paths of {option} lead to files that others name, too, each is read once: {notes[0]}"]
    return sorted(paths.values()), notes


def check_is_unicode(path: str, option: str) -> None:
    """Raise ``UsageError`` for a path that records cannot hold: bytes that are no UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        encoding = sys.getfilesystemencoding()
        raise UsageError(f"{option} names {path!a}, which is no text in this system's {encoding}; rename it") from error


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


def find_files(pattern: str, folders: Folders, *, suffix: str) -> list[str]:
    """The files of a pattern, sorted, each once; links to folders are followed.

    ``*`` and ``?`` stay within a name, ``**`` stands for any number of folders, and ``{20,21}`` for either text. A
    folder that matches means all files below it that end in ``suffix``, in either case, which may have braces, too. A
    file or folder of exactly the pattern's own text is found besides. Files whose names begin with "." or "_" are
    passed over, and so are such folders unless the pattern spells that character out. What audits wrote into their
    output directories, and ``_SIDE_FILES``, are passed over, too, where a folder or ``**`` stands for them.

    Raises:
        FileNotFoundError: if a folder that matches is named like a log, and holds other things alone.
    """
    either_case = "".join(f"[{char.lower()}{char.upper()}]" if char.isalpha() else char for char in suffix)
    below = [[_ANY_DEPTH, name] for name in expand_braces(f"*{either_case}")]
    entries, paths = cache(folders.entries), set[str]()
    for text in {pattern, *expand_braces(pattern)}:
        exact = folders.entry(text)
        if exact is not None:  # with what is below it: an object store may have a file and a folder
            folder = text if text.endswith("/") else f"{text}/"
            if exact.is_folder or not _is_hidden(text.rpartition("/")[2]):
                paths.add(folder if exact.is_folder else text)
            for parts in below:
                paths.update(_matches(folder, parts, entries, (exact.identity,)))
        fixed, parts = _split(text)
        top = folders.entry(fixed or ".") if _WILD.search(text) else None
        if top is not None:
            paths.update(_matches(fixed, parts, entries, (top.identity,)))
            for inner in below:
                paths.update(_matches(fixed, [*filter(None, parts), *inner], entries, (top.identity,), any_depth=True))
    files = sorted(path for path in paths if not path.endswith("/"))
    logs = [f"{name}/" for _, name in below] if suffix else []
    for folder in paths.difference(files):
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
    texts = [text for choice in match[1].split(",") for text in expand_braces(f"{before}{choice}{after}")]
    return list(dict.fromkeys(texts))


def _split(pattern: str) -> tuple[str, list[str]]:
    """The folder that a pattern names without wildcards, "" or with a slash at its end, and the names below it."""
    parts: list[str] = []
    for part in pattern.split("/"):
        own_depth = _ANY_DEPTH in part and part != _ANY_DEPTH  # **.parquet means **/*.parquet
        parts += [_ANY_DEPTH, part.replace(_ANY_DEPTH, "*")] if own_depth else [part]
    wild = next((index for index, part in enumerate(parts) if _WILD.search(part)), len(parts) - 1)
    return "".join(f"{part}/" for part in parts[:wild]), parts[wild:]


def _matches(
    folder: str,
    parts: list[str],
    entries: Callable[[str], list[Entry]],
    above: tuple[str, ...],
    *,
    any_depth: bool = False,
) -> Iterator[str]:
    """The files and, with a slash, the folders below ``folder`` that match ``parts``; ``above`` leads to it.

    A link that leads back to one of these is not followed by ``**``, which would never end. ``any_depth`` says that
    ``**`` stood before ``parts``.
    """
    while parts[:2] == [_ANY_DEPTH, _ANY_DEPTH]:
        parts = parts[1:]
    part, below = parts[0], parts[1:]
    any_depth = any_depth or part == _ANY_DEPTH
    inside = entries(folder)
    if any_depth and _WILD.search(part):
        is_marked = any(entry.name == _MARK_OF_AUDIT and not entry.is_folder for entry in inside)
        if is_marked or {entry.name for entry in inside if entry.is_folder} >= _FOLDERS_OF_AUDIT:
            inside = [entry for entry in inside if entry.name not in _OF_AUDIT]
        inside = [entry for entry in inside if entry.name not in _SIDE_FILES]
    if part == _ANY_DEPTH:
        yield from _matches(folder, below or ["*"], entries, above, any_depth=True)
    for entry in inside:
        path, within, is_hidden = f"{folder}{entry.name}", (*above, entry.identity), _is_hidden(entry.name)
        if part == _ANY_DEPTH:
            if entry.is_folder and not is_hidden and entry.identity not in above:
                yield from _matches(f"{path}/", parts, entries, within, any_depth=True)
        elif fnmatchcase(entry.name, part) and (part[:1] == entry.name[:1] or not is_hidden):
            if below and entry.is_folder:
                yield from _matches(f"{path}/", below, entries, within, any_depth=any_depth)
            elif not below and not is_hidden:
                yield f"{path}/" if entry.is_folder else path


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


class _LocalFolders:
    """The search on this machine; a link that leads nowhere is a file, which then cannot be opened by its name.

    Pipes, sockets and devices count only by their exact path: to open one that nobody writes to waits for ever.
    """

    def entries(self, folder: str) -> list[Entry]:
        try:
            with os.scandir(folder or ".") as inside:
                return [found for entry in inside if (found := _local_entry(entry.name, entry.path, special=False))]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def entry(self, path: str) -> Entry | None:
        return _local_entry(path, path) if os.path.lexists(path) else None


def _local_entry(name: str, path: str, *, special: bool = True) -> Entry | None:
    """What a path leads to; None where that is neither a file nor a folder, unless ``special`` ones count."""
    try:
        status = Path(path).stat()
    except OSError:
        return Entry(name, is_folder=False, identity=path)
    is_folder, is_file = stat.S_ISDIR(status.st_mode), stat.S_ISREG(status.st_mode)
    return Entry(name, is_folder, f"{status.st_dev}:{status.st_ino}") if special or is_folder or is_file else None


class _RemoteFolders:
    def entries(self, folder: str) -> list[Entry]:
        if folder.endswith("//"):
            raise OSError(f"{folder!r} has an empty name, which Arrow's client cannot read; rename such keys")
        system, inner = _locate(folder)
        inner = inner.rstrip("/") or "/"
        inside = []
        for info in system.get_file_info(fs.FileSelector(inner, allow_not_found=True)):
            name = "" if info.path.rstrip("/") == inner else info.base_name
            inside.append(Entry(name, info.type == fs.FileType.Directory, identity=f"{folder}{name}"))
        return inside

    def entry(self, path: str) -> Entry | None:
        info = _info(path)
        is_there = info.type != fs.FileType.NotFound
        return Entry(info.base_name, info.type == fs.FileType.Directory, identity=path) if is_there else None


def _info(path: str) -> fs.FileInfo:
    system, inner = _locate(path)
    return system.get_file_info(inner.rstrip("/") or "/")


def _locate(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI and the path inside it, which is taken as it is written: nothing in it is decoded."""
    scheme, _, rest = path.partition("://")
    authority, _, inner = rest.partition("/")
    options = f"?retry_limit_seconds={_GCS_SECONDS}" if scheme in ("gs", "gcs") else ""
    system, root = _file_system(f"{scheme}://{authority}/{options}")
    return system, f"{root.rstrip('/')}/{inner}"


@lru_cache(maxsize=64)
def _file_system(root: str) -> tuple[fs.FileSystem, str]:
    """The client, made once per process, and the path that it knows ``root`` by."""
    try:
        system, inner = fs.FileSystem.from_uri(root)
    except ValueError as error:
        raise OSError(f"{root!r} should begin with s3://, gs://, hdfs:// or file://: {error}") from error
    return system, inner
