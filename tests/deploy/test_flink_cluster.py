"""Audits on a real Flink cluster whose workers have attribeam's dependencies, but not attribeam: every job ships it."""

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deploy.flink.cluster import TASK_MANAGERS, FlinkCluster
from deploy.flink.get_flink import cached_files
from tests.deploy.deadly_method import FATAL_WORD, HARBOUR, HELD_WORD
from tests.logs.log_files import log_row, write_log
from tests.pipeline.audit_fixtures import mixed_rows, save_tiny_audit
from tests.pipeline.audit_process import read_manifest

from attribeam.schemas.run_manifest import ChunkManifest, RunStatus

ROOT = Path(__file__).parents[2]
ROWS = 24
ROWS_PER_CHUNK = 4
HELD = 9
FATAL = 17
SECONDS = 900
DEADLY = ("--method", "deadly_method:Deadly")

pytestmark = [
    pytest.mark.flink,
    pytest.mark.skipif(os.environ.get("ATTRIBEAM_FLINK") != "1", reason="ATTRIBEAM_FLINK=1 runs it, in six minutes"),
    pytest.mark.skipif(shutil.which("java") is None, reason="Flink needs Java, which is not on the path"),
    pytest.mark.skipif(
        cached_files().missing() is not None,
        reason=f"{cached_files().missing()} is not there; python deploy/flink/get_flink.py fetches it",
    ),
]


@dataclass(frozen=True, slots=True)
class Harbour:
    """A cluster, what audits on it are made of, and a folder where rows are held in flight."""

    cluster: FlinkCluster
    wheel: Path
    model: str
    parser: str
    folder: Path
    environment: Mapping[str, str]

    def command(self, log, output, *more):
        """A local audit; ``on_flink`` makes it one on the cluster."""
        audit = [sys.executable, "-m", "attribeam", "audit", "--input", log, "--output", str(output), "--quiet"]
        models = ["--model", self.model, "--parser", self.parser]
        return [*audit, *models, "--rows-per-chunk", str(ROWS_PER_CHUNK), "--workers", "1", *more]

    def on_flink(self, log, output, *more):
        return self.command(log, output, *self.cluster.runner_options(extra_packages=[str(self.wheel)]), *more)

    def start(self, command):
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, command):
        assert_done(self.start(command))

    def held_worker(self):
        return int(waited_for(lambda: next(self.folder.glob("*.held"), None)).stem)

    def let_go(self):
        (self.folder / "wind").touch()

    def hold(self):
        for file in [*self.folder.glob("*.held"), *self.folder.glob("wind")]:
            file.unlink()


@pytest.fixture(scope="module")
def harbour(tmp_path_factory):
    folder = tmp_path_factory.mktemp("harbour")
    modules = folder / "modules"
    modules.mkdir()
    shutil.copy(Path(__file__).with_name("deadly_method.py"), modules)
    settings = save_tiny_audit(folder)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(modules), str(ROOT / "src")]),
        "OMP_NUM_THREADS": "1",
        HARBOUR: str(folder),
    }
    with FlinkCluster(
        folder / "cluster",
        cached_files(),
        python=(sys.executable, "-S"),
        worker_environment={
            "PYTHONPATH": os.pathsep.join([str(modules), *dependencies()]),
            "OMP_NUM_THREADS": "1",
            HARBOUR: str(folder),
        },
    ) as cluster:
        yield Harbour(cluster, build_wheel(folder), settings.model.model, settings.parser, folder, environment)


def dependencies():
    """Where installed packages lie; without ``site``, links to a checkout in them do not count."""
    return [path for path in sys.path if path.endswith("site-packages")]


def build_wheel(folder):
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    copy = shutil.copytree(
        ROOT, folder / "source", symlinks=True, ignore=shutil.ignore_patterns(".git", ".venv", "build", ".*_cache")
    )
    subprocess.run([*pip, "--wheel-dir", str(folder / "wheel"), str(copy)], check=True)
    (wheel,) = (folder / "wheel").glob("*.whl")
    return wheel


@pytest.fixture(autouse=True)
def held_rows(harbour):
    """Rows are held again, and both TaskManagers are there."""
    harbour.hold()
    while len(harbour.cluster.task_managers) < TASK_MANAGERS:
        harbour.cluster.start_task_manager()
    harbour.cluster.wait_for_slots(TASK_MANAGERS)


def assert_done(audit):
    said, _ = audit.communicate(timeout=SECONDS)
    assert audit.returncode == 0, said


def waited_for(found):
    deadline = time.monotonic() + SECONDS
    while not (something := found()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)
    return something


def plain_log(folder, answers):
    rows = [log_row(number) for number in range(ROWS)]
    for number, answer in answers.items():
        rows[number]["answer"] = answer
    return write_log(folder / "log.parquet", rows)


def manifests(output):
    return [ChunkManifest.from_json(path.read_text()) for path in sorted((output / "_chunks").glob("*.json"))]


def committed_rows(output, kind):
    """The rows of the files that manifests name, in the order of the input; of "evidence" or "dead_letters"."""
    files = [getattr(manifest, kind).path for manifest in manifests(output)]
    rows = [row for file in files for row in pq.read_table(output / file).to_pylist()]
    return sorted(rows, key=lambda row: (row["source_row"], row.get("span_index", 0)))


def assert_reconciled(output, *, dead_letters):
    """Every row of a plain log is there once: audited, or with this reason in the dead letters."""
    manifest = read_manifest(output)
    assert (manifest.status, manifest.counts.rows, manifest.counts.is_reconciled) == (RunStatus.DONE, ROWS, True)
    letters = [(row["source_row"], row["reason"]) for row in committed_rows(output, "dead_letters")]
    assert letters == sorted(dead_letters.items())
    spans = [(row["source_row"], row["span_index"]) for row in committed_rows(output, "evidence")]
    assert len(set(spans)) == len(spans)
    assert {row for row, _ in spans} == set(range(ROWS)) - set(dead_letters)


def differences(one, other, path=""):
    """Where two values differ; numbers may by 1e-5."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif isinstance(one, float) and isinstance(other, float):
        if not math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-5):
            yield f"{path}: {one} {other}"
    elif one != other:
        yield f"{path}: {one!r} {other!r}"


def test_workers_without_the_package_give_the_evidence_of_a_local_run(harbour, tmp_path):
    without = {**os.environ, "PYTHONPATH": os.pathsep.join(dependencies())}
    imported = subprocess.run(
        [sys.executable, "-S", "-c", "import attribeam"], env=without, capture_output=True, text=True
    )
    assert "No module named 'attribeam'" in imported.stderr, "the workers should get the package from the job alone"
    log = write_log(tmp_path / "log.parquet", mixed_rows(ROWS))
    local, flink = tmp_path / "local", tmp_path / "flink"
    harbour.run(harbour.command(log, local))
    harbour.run(harbour.on_flink(log, flink))
    for kind in ("evidence", "dead_letters"):
        ours, theirs = committed_rows(local, kind), committed_rows(flink, kind)
        assert ours
        assert list(differences(ours, theirs)) == []
    assert harbour.cluster.jobs()[-1]["state"] == "FINISHED"


def test_a_job_outlives_a_taskmanager_that_is_killed_with_rows_in_flight(harbour, tmp_path):
    log = plain_log(tmp_path, {HELD: f"It lay in the {HELD_WORD}."})
    audit = harbour.start(harbour.on_flink(log, tmp_path / "out", *DEADLY))
    parent = parent_of(harbour.held_worker())
    (killed,) = [process for process in harbour.cluster.task_managers if process.pid == parent]
    killed.kill()
    killed.wait()
    harbour.cluster.task_managers.remove(killed)
    harbour.cluster.start_task_manager()
    harbour.let_go()
    assert_done(audit)
    assert_reconciled(tmp_path / "out", dead_letters={})


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_row_that_kills_its_worker_becomes_a_dead_letter(harbour, tmp_path):
    log = plain_log(tmp_path, {FATAL: f"A {FATAL_WORD} lit it."})
    harbour.run(harbour.on_flink(log, tmp_path / "out", *DEADLY))
    assert_reconciled(tmp_path / "out", dead_letters={FATAL: "worker_died"})
    (letter,) = committed_rows(tmp_path / "out", "dead_letters")
    assert "signal SIGKILL" in letter["message"]


def test_a_job_that_was_cancelled_and_is_submitted_again_does_what_is_missing(harbour, tmp_path):
    log, output = plain_log(tmp_path, {HELD: f"It lay in the {HELD_WORD}."}), tmp_path / "out"
    audit = harbour.start(harbour.on_flink(log, output, *DEADLY))
    harbour.held_worker()
    before = waited_for(lambda: manifests(output))
    harbour.cluster.cancel(harbour.cluster.jobs()[-1]["jid"])
    said, _ = audit.communicate(timeout=SECONDS)
    assert audit.returncode == 1, said
    assert "cancelled" in said
    assert read_manifest(output).status is RunStatus.FAILED
    harbour.let_go()
    harbour.run(harbour.on_flink(log, output, *DEADLY))
    assert_reconciled(output, dead_letters={})
    kept = {manifest.chunk: manifest.evidence.path for manifest in manifests(output)}
    assert {manifest.chunk: manifest.evidence.path for manifest in before}.items() <= kept.items()
