"""Fetch Apache Flink and Beam's job server for it into a cache, each file checked by its SHA-256.

    python deploy/flink/get_flink.py

Flink is PyPI's ``apache-flink-libraries``, which pip gets; the jars of the job server are Maven Central's, which Beam's
own client gets. Prints the folder, ``${XDG_CACHE_HOME:-~/.cache}/attribeam/flink``. Nothing is fetched twice.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

FLINK_VERSION = "1.19.3"
FLINK_SHA256 = "4a58e3a1fb7d83340bc96b6c080624c6d792d69fae5d294b96224775204a9c60"
JOB_SERVER_BEAM = "2.62.0"
"""The newest release of Beam whose job server was to be had whole, for a Flink that Beam 2.77 knows."""

_PINS = Path(__file__).with_name("job_server_jars.txt")
_MAIN_CLASS = "org.apache.beam.runners.flink.FlinkJobServerDriver"
_DOWNLOADS_AT_ONCE = 6


class FetchError(RuntimeError):
    """Something could not be had, or is not what it should be."""


@dataclass(frozen=True, slots=True)
class FlinkFiles:
    """What a cluster and a submission need, in one folder."""

    root: Path

    @property
    def flink(self) -> Path:
        """Flink's distribution: ``lib/`` with its jars."""
        return self.root / f"flink-{FLINK_VERSION}"

    @property
    def job_server(self) -> Path:
        """A jar whose manifest names its main class and the jars beside it in ``lib/``."""
        return self.root / f"job-server-{JOB_SERVER_BEAM}" / "job-server.jar"

    @property
    def flink_version(self) -> str:
        """As Beam's ``--flink_version`` has it."""
        return FLINK_VERSION.rpartition(".")[0]

    def missing(self) -> str | None:
        """What is not there yet; None if nothing is missing."""
        return next((str(path) for path in (self.flink, self.job_server) if not path.exists()), None)


def cached_files() -> FlinkFiles:
    """The files in this user's cache, fetched or not."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return FlinkFiles(Path(cache) / "attribeam" / "flink")


def get_flink() -> FlinkFiles:
    """Fetch what is missing.

    Raises:
        FetchError: if something cannot be had, or its digest is another.
    """
    files = cached_files()
    files.root.mkdir(parents=True, exist_ok=True)
    if not files.flink.exists():
        _get_distribution(files.flink)
    if not files.job_server.exists():
        _get_job_server(files.job_server)
    return files


def _get_distribution(folder: Path) -> None:
    print(f"get_flink: Apache Flink {FLINK_VERSION}, 230 MB", file=sys.stderr)
    parts = _emptied(folder.with_name(f"{folder.name}.part"))
    requirement = parts / "requirements.txt"
    requirement.write_text(f"apache-flink-libraries=={FLINK_VERSION} --hash=sha256:{FLINK_SHA256}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--require-hashes"]
    if subprocess.run([*pip, "--dest", str(parts), "--requirement", str(requirement)], check=False).returncode:
        raise FetchError(f"pip could not download apache-flink-libraries {FLINK_VERSION}, see above")
    (archive,) = parts.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(parts, filter="data")
    (unpacked,) = parts.glob("*/deps")
    unpacked.rename(folder)
    shutil.rmtree(parts)


def _get_job_server(jar: Path) -> None:
    pins = dict(_pins())
    print(f"get_flink: {len(pins)} jars of Beam {JOB_SERVER_BEAM}'s job server, 150 MB", file=sys.stderr)
    parts = _emptied(jar.parent.with_name(f"{jar.parent.name}.part"))
    with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
        names = list(pool.map(lambda pin: _get_jar(pin[0], pin[1], parts / "lib"), pins.items()))
    _write_launcher(parts / jar.name, names)
    if jar.parent.exists():
        shutil.rmtree(jar.parent)
    parts.rename(jar.parent)


def _pins() -> Iterator[tuple[str, str]]:
    """``group:artifact:version`` and the SHA-256 of its jar."""
    for line in _PINS.read_text().splitlines():
        if not line.startswith("#"):
            digest, coordinates = line.split()
            yield coordinates, digest


def _get_jar(coordinates: str, digest: str, folder: Path) -> str:
    """Fetch one jar; returns its file name."""
    from apache_beam.utils.subprocess_server import JavaJarServer

    logging.getLogger(JavaJarServer.__module__).setLevel(logging.ERROR)  # it warns of every download

    group, artifact, version = coordinates.split(":")
    try:
        jar = Path(JavaJarServer.local_jar(JavaJarServer.path_to_maven_jar(artifact, group, version), str(folder)))
    except (RuntimeError, OSError) as error:
        raise FetchError(f"{coordinates} could not be downloaded: {error}") from error
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != digest:
        raise FetchError(f"{coordinates} should have SHA-256 {digest}, has {found}; delete {jar} and try again")
    return jar.name


def _write_launcher(jar: Path, names: list[str]) -> None:
    """A jar without classes of its own, so that ``java -jar`` finds those in ``lib/``."""
    fields: Mapping[str, str] = {
        "Manifest-Version": "1.0",
        "Main-Class": _MAIN_CLASS,
        "Class-Path": " ".join(f"lib/{name}" for name in sorted(names)),
    }
    text = "".join(_folded(f"{name}: {value}") for name, value in fields.items())
    with zipfile.ZipFile(jar, "w") as packed:
        packed.writestr("META-INF/MANIFEST.MF", text)


def _folded(line: str, width: int = 70) -> str:
    """A line of a manifest, which may have at most 72 bytes; what follows begins with a space."""
    pieces = [line[:width]] + [f" {line[at : at + width - 1]}" for at in range(width, len(line), width - 1)]
    return "".join(f"{piece}\n" for piece in pieces)


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib").mkdir(parents=True)
    return folder


if __name__ == "__main__":
    try:
        print(get_flink().root)
    except FetchError as error:
        sys.exit(f"get_flink: {error}")
