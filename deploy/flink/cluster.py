"""A standalone Apache Flink cluster on this machine: one JobManager, two TaskManagers, SDK workers as their processes.

Everything lies in one folder and listens on free ports of localhost. ``with FlinkCluster(...)`` starts and stops it.
``main`` audits the example log on one, for run_example.sh.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from deploy.flink.get_flink import FetchError, FlinkFiles, get_flink

from attribeam.pipeline.audit_options import beam_arguments
from attribeam.schemas.run_manifest import RunManifest, RunStatus

TASK_MANAGERS = 2
RESTARTS = 4
"""How often Flink starts a job again before it gives up."""

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-XX:MaxDirectMemorySize=320m")
_OPENED = ("lang", "lang.reflect", "net", "nio", "text", "time", "util", "util.concurrent")
_PORTS = range(20_000, 30_000)
_PORT_TAKEN = ("Address already in use", "Could not start rest endpoint on any port", "java.net.BindException")
_STARTS = 3
_SHOWN_LINES = 20
_START_SECONDS = 300
_END_SECONDS = 20
_ANSWER_SECONDS = 30
_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5p %c{1} - %m%n
"""


class ClusterError(RuntimeError):
    """The cluster did not do what it should; the message names the log that says why."""


class _PortTakenError(ClusterError):
    """Another program listens on a port that Flink was to use."""


@dataclass(eq=False)
class FlinkCluster:
    """A cluster with as many slots as TaskManagers, so that a job of parallelism 2 uses both.

    Attributes:
        folder: for logs, configuration, staged files and workers' output; made if it is not there.
        files: what ``get_flink`` fetched.
        python: the interpreter of the SDK workers, with its flags; needs attribeam's dependencies, and attribeam itself
            unless jobs ship it.
        worker_environment: variables of the SDK workers besides those of this process.
    """

    folder: Path
    files: FlinkFiles
    python: Sequence[str] = (sys.executable,)
    worker_environment: Mapping[str, str] = field(default_factory=dict)
    task_managers: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)
    _job_manager: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _port: int = field(default=0, init=False)
    _started: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all processes and wait until the TaskManagers have offered their slots.

        Another program may take a port between our choice and Flink's start. The JobManager then ends, and a start with
        other ports follows.

        Raises:
            ClusterError: if they do not, or no start found its ports free.
        """
        for start in range(1, _STARTS + 1):
            try:
                self._start_once()
                return
            except _PortTakenError:
                if start == _STARTS:
                    raise
                self.stop()

    def _start_once(self) -> None:
        self._port = self._write_configuration()
        self._job_manager = self._start_process(_JOB_MANAGER, "job_manager.log")
        for _ in range(TASK_MANAGERS):
            self.start_task_manager()
        self.wait_for_slots(TASK_MANAGERS)

    def start_task_manager(self) -> None:
        """Start one more TaskManager, as a supervisor does when one has died."""
        self._started += 1
        self.task_managers.append(self._start_process(_TASK_MANAGER, f"task_manager_{self._started}.log"))

    def wait_for_slots(self, count: int) -> None:
        """Wait until the JobManager knows ``count`` slots.

        Raises:
            ClusterError: if it takes too long, or a process ends.
        """
        deadline = time.monotonic() + _START_SECONDS
        while self._slots() < count:
            if self._job_manager is None or self._job_manager.poll() is not None:
                raise self._job_manager_ended()
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"Flink has not {count} slots after {_START_SECONDS} s; see the logs in {self.folder}"
                )
            time.sleep(0.5)

    def stop(self) -> None:
        """End all processes, also those of the SDK workers; may be called twice."""
        processes = [*self.task_managers, *filter(None, [self._job_manager])]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for worker in self.sdk_workers():
            os.kill(worker, signal.SIGKILL)
        self.task_managers.clear()
        self._job_manager = None

    @property
    def address(self) -> str:
        """What ``--flink_master`` takes, and a browser shows."""
        return f"localhost:{self._port}"

    def runner_options(self, **more: object) -> list[str]:
        """The options of an audit that submits to this cluster, with ``more`` of Beam's."""
        table = {
            "flink_master": self.address,
            "flink_version": self.files.flink_version,
            "flink_job_server_jar": str(self.files.job_server),
            "job_server_jvm_properties": [*_JVM[:2], "-Xmx512m"],
            "artifacts_dir": str(self.folder / "artifacts"),
            "parallelism": TASK_MANAGERS,
            "environment_type": "PROCESS",
            "environment_config": {"command": str(self.folder / "boot")},
            **more,
        }
        return ["--runner", "FlinkRunner", *beam_arguments(table)]

    def get(self, path: str) -> Any:
        """An answer of Flink's REST interface.

        Raises:
            OSError: if there is none.
        """
        with urllib.request.urlopen(f"http://{self.address}/{path}", timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, with "jid", "state" and the numbers of their "tasks", oldest first."""
        jobs: list[dict[str, Any]] = self.get("jobs/overview")["jobs"]
        return sorted(jobs, key=lambda job: job["start-time"])

    def cancel(self, job: str) -> None:
        """Ask Flink to end a job."""
        request = urllib.request.Request(f"http://{self.address}/jobs/{job}?mode=cancel", method="PATCH")
        urllib.request.urlopen(request, timeout=_ANSWER_SECONDS).close()

    def sdk_workers(self) -> list[int]:
        """Process ids of the SDK workers that run."""
        return [int(log.stem) for log in self.worker_logs() if self._is_worker(int(log.stem))]

    def worker_logs(self) -> list[Path]:
        """What SDK workers have printed, one file each."""
        return sorted((self.folder / "workers").glob("*.log"))

    def _is_worker(self, pid: int) -> bool:
        """Whether a process is still the worker that wrote its log, not another of the same number."""
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"ATTRIBEAM_WORKERS={self.folder / 'workers'}".encode() in environment

    def _job_manager_ended(self) -> ClusterError:
        """The error for a JobManager that is not there, with the last lines of its log."""
        log = self.folder / "job_manager.log"
        said = log.read_text(errors="replace") if log.exists() else ""
        kind = _PortTakenError if any(words in said for words in _PORT_TAKEN) else ClusterError
        return kind("\n".join([f"Flink's JobManager ended; {log} says why:", *said.splitlines()[-_SHOWN_LINES:]]))

    def _slots(self) -> int:
        try:
            return int(self.get("overview")["slots-total"])
        except (OSError, http.client.HTTPException, ValueError, KeyError):  # another program may answer at this port
            return 0

    def _start_process(self, main_class: str, log: str) -> subprocess.Popen[bytes]:
        """A JVM in a session of its own, so that Ctrl-C in a terminal reaches only us, who stop it in order."""
        jars = os.pathsep.join(str(jar) for jar in sorted((self.files.flink / "lib").glob("*.jar")))
        opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED]
        logging = f"-Dlog4j.configurationFile={(self.folder / 'conf' / 'log4j.properties').as_uri()}"
        command = ["java", *_JVM, *opened, logging, "-cp", jars, main_class, "--configDir", str(self.folder / "conf")]
        with (self.folder / log).open("wb") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _write_configuration(self) -> int:
        """Write what Flink and the SDK workers read; returns the port of the REST interface."""
        for name in ("conf", "tmp", "artifacts", "workers"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        rest, rpc = _free_ports(2)
        configuration = _configuration(rest=rest, rpc=rpc, temporary=self.folder / "tmp")
        (self.folder / "conf" / "config.yaml").write_text(yaml.safe_dump(configuration))
        (self.folder / "conf" / "log4j.properties").write_text(_LOGGING)
        self._write_boot()
        return rest

    def _write_boot(self) -> None:
        workers = self.folder / "workers"
        variables = {**self.worker_environment, "ATTRIBEAM_WORKERS": str(workers)}
        program = [*self.python, str(Path(__file__).with_name("worker_boot.py")), "--folder", str(workers)]
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        boot = self.folder / "boot"
        boot.write_text("\n".join(["#!/bin/sh", *lines, f'exec {shlex.join(program)} "$@"', ""]))
        boot.chmod(0o755)


def _configuration(*, rest: int, rpc: int, temporary: Path) -> dict[str, object]:
    """Flink's ``config.yaml``.

    A dead TaskManager is noticed when two heartbeats in a row cannot be delivered; the timeout is long, because a busy
    machine is slow, not dead. There is one slot for each TaskManager.
    """
    return {
        "jobmanager": {"rpc": {"address": "localhost", "port": rpc}, "bind-host": "localhost"},
        "rest": {"address": "localhost", "bind-address": "localhost", "port": rest},
        "taskmanager": {
            "host": "localhost",
            "bind-host": "localhost",
            "numberOfTaskSlots": 1,
            "cpu": {"cores": 1},
            "network": {"sort-shuffle": {"min-buffers": 64}},
            "memory": {
                "task": {"heap": {"size": "384m"}, "off-heap": {"size": "0m"}},
                "framework": {"heap": {"size": "128m"}, "off-heap": {"size": "128m"}},
                "managed": {"size": "128m"},
                "network": {"min": "128m", "max": "128m"},
                "jvm-metaspace": {"size": "256m"},
                "jvm-overhead": {"min": "192m", "max": "192m"},
            },
        },
        "io": {"tmp": {"dirs": str(temporary)}},
        "cluster": {"registration": {"error-delay": 500}},
        "heartbeat": {"interval": 2000, "timeout": 120_000, "rpc-failure-threshold": 2},
        "pekko": {"ask": {"timeout": "60 s"}},
        "restart-strategy": {"type": "fixed-delay", "fixed-delay": {"attempts": RESTARTS, "delay": "1 s"}},
    }


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that the kernel gives to outgoing connections."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as one:
            try:
                one.bind(("localhost", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise ClusterError(f"of the ports {_PORTS.start} to {_PORTS.stop - 1} of localhost, fewer than {count} are free")


_EXAMPLE_LOG = Path(__file__).parents[2] / "examples" / "qa_logs.parquet"


def main() -> int:
    """Audit the example log on a cluster that lives as long as the audit; 0 if it is done and reconciles."""
    parser = argparse.ArgumentParser(prog="run_example.sh", description="Audit the example log on Flink.")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="where the audit goes")
    output = parser.parse_args().output.absolute()
    if shutil.which("java") is None:
        return _failed("Flink needs Java 11 or 17 on the path; install one (for example openjdk-17-jre-headless)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="attribeam-flink-"))
    try:
        with FlinkCluster(folder, get_flink(), worker_environment={"OMP_NUM_THREADS": "1"}) as cluster:
            _tell(f"Flink runs at http://{cluster.address}, its logs are in {folder}")
            code = _audit(cluster, output)
    except (ClusterError, FetchError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        return _failed("interrupted; Flink was stopped", code=130)
    if code != 0 or not _reconciles(output):
        return _failed(f"the audit failed; Flink's logs are in {folder}", code=code or 1)
    shutil.rmtree(folder)
    _tell(f"done: evidence, dead letters and run_manifest.json are in {output}")
    return 0


def _audit(cluster: FlinkCluster, output: Path) -> int:
    audit = [sys.executable, "-m", "attribeam", "audit", "--input", str(_EXAMPLE_LOG), "--output", str(output)]
    runner = [*cluster.runner_options(), "--rows-per-chunk", "20"]
    return subprocess.run([*audit, *runner], check=False).returncode


def _reconciles(output: Path) -> bool:
    """Whether the manifest says that every row of the example log is audited or a dead letter."""
    manifest = RunManifest.from_json((output / "run_manifest.json").read_text())
    counts = manifest.counts
    _tell(f"{counts.rows} rows: {counts.audited} audited, {counts.dead_lettered} dead letters")
    return manifest.status is RunStatus.DONE and counts.is_reconciled


def _failed(message: str, *, code: int = 1) -> int:
    _tell(message)
    return code


def _tell(message: str) -> None:
    print(f"run_example: {message}", file=sys.stderr)
