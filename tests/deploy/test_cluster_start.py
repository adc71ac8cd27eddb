"""How a Flink cluster's start meets ports that are taken and a JobManager that ends; a script stands in for Java."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import pytest
from deploy.flink.cluster import TASK_MANAGERS, ClusterError, FlinkCluster
from deploy.flink.get_flink import FlinkFiles

TAKEN = "java.net.BindException: Could not start rest endpoint on any port in port range"
JAVA = """\
#!{python}
import json, pathlib, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
import yaml

class Overview(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({{"slots-total": {slots}}}).encode())

if not any(word.endswith("StandaloneSessionClusterEntrypoint") for word in sys.argv):
    time.sleep(600)
starts = pathlib.Path({starts!r})
with starts.open("a") as file:
    file.write("started\\n")
if len(starts.read_text().splitlines()) <= {failures}:
    sys.exit("first line of the log\\n" + {words!r})
configuration = yaml.safe_load((pathlib.Path(sys.argv[-1]) / "config.yaml").read_text())
HTTPServer(("localhost", configuration["rest"]["port"]), Overview).serve_forever()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> FlinkCluster:
    return FlinkCluster(tmp_path / "cluster", FlinkFiles(tmp_path / "flink"))


def put_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, failures: int, words: str) -> Path:
    """Put a Java on the path whose JobManager ends so many times with these words; returns a file with its starts."""
    starts = tmp_path / "starts"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        JAVA.format(python=sys.executable, slots=TASK_MANAGERS, starts=str(starts), failures=failures, words=words)
    )
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(java.parent), prepend=":")
    return starts


def test_a_taken_port_leads_to_another_start(
    cluster: FlinkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = put_java(tmp_path, monkeypatch, failures=2, words=TAKEN)
    with cluster:
        assert len(cluster.task_managers) == TASK_MANAGERS
    assert len(starts.read_text().splitlines()) == 3


def test_ports_that_stay_taken_are_an_error(
    cluster: FlinkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = put_java(tmp_path, monkeypatch, failures=99, words=TAKEN)
    with pytest.raises(ClusterError, match="BindException"), cluster:
        pass
    assert len(starts.read_text().splitlines()) == 3
    assert cluster.task_managers == []


def test_a_jobmanager_that_ends_for_another_reason_is_not_started_again(
    cluster: FlinkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = put_java(tmp_path, monkeypatch, failures=99, words="java.lang.OutOfMemoryError: Metaspace")
    with pytest.raises(ClusterError, match=r"job_manager\.log says why:\nfirst line of the log\n.*Metaspace"), cluster:
        pass
    assert len(starts.read_text().splitlines()) == 1


def test_a_port_that_another_program_listens_on_is_not_chosen(
    cluster: FlinkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("deploy.flink.cluster._PORTS", range(port, port + 1))
        with pytest.raises(ClusterError, match="fewer than 2 are free"):
            cluster.start()


def test_a_program_of_another_protocol_at_the_port_offers_no_slots(cluster: FlinkCluster) -> None:
    def greet(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(b"+OK ready\r\n")

    with socket.create_server(("localhost", 0)) as server:
        thread = threading.Thread(target=greet, args=(server,))
        thread.start()
        cluster._port = server.getsockname()[1]
        assert cluster._slots() == 0
        thread.join()
