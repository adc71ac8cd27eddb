"""Start one of Beam's SDK workers where there is no container: what Beam's own boot program does in its images.

A Flink TaskManager (``environment_type: PROCESS``) or a worker pool (``--container_executable``) calls it with
``--id`` and ``--provision_endpoint``. It asks the runner for the job's options and staged packages, installs the
packages beside the others, and becomes the worker. Its output goes to ``--folder``, and its process id, too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import grpc
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
)
from google.protobuf import json_format, text_format

_PACKAGES = (".whl", ".tar.gz", ".zip")


def main() -> None:
    """Prepare the environment of a worker and become it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    asked, _ = parser.parse_known_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    _write_output_to(asked.folder / f"{os.getpid()}.log")
    info = _provision_info(asked.provision_endpoint, asked.id)
    staged = [_installed(package, asked.folder / "packages") for package in _staged_packages(info, asked)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*map(str, staged), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "WORKER_ID": asked.id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(info.control_endpoint),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
        "SEMI_PERSISTENT_DIRECTORY": str(asked.folder),
    }
    command = [*_interpreter(), "-m", "apache_beam.runners.worker.sdk_worker_main"]
    os.execve(command[0], command, environment)


def _interpreter() -> list[str]:
    """This Python, with the flags that it was started with."""
    return [sys.executable, *takewhile(lambda argument: argument.startswith("-"), sys.orig_argv[1:])]


def _write_output_to(log: Path) -> None:
    """Nobody reads the pipes of a worker's parent, so that a worker that prints would stop when they are full."""
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def _provision_info(endpoint: str, worker: str) -> beam_provision_api_pb2.ProvisionInfo:
    with grpc.insecure_channel(endpoint) as channel:
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        return service.GetProvisionInfo(request, metadata=[("worker_id", worker)]).info


def _staged_packages(info: beam_provision_api_pb2.ProvisionInfo, asked: argparse.Namespace) -> Iterator[Path]:
    """Fetch the packages among the staged files, each under its digest."""
    with grpc.insecure_channel(info.artifact_endpoint.url or asked.provision_endpoint) as channel:
        service = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        wanted = beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=info.dependencies)
        for artifact in service.ResolveArtifacts(wanted, metadata=[("worker_id", asked.id)]).replacements:
            name = _staged_name(artifact)
            if name.endswith(_PACKAGES):
                request = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)
                parts = service.GetArtifact(request, metadata=[("worker_id", asked.id)])
                content = b"".join(part.data for part in parts)
                folder = asked.folder / "staged" / hashlib.sha256(content).hexdigest()
                folder.mkdir(parents=True, exist_ok=True)
                _write_whole(folder / name, content)
                yield folder / name


def _staged_name(artifact: beam_runner_api_pb2.ArtifactInformation) -> str:
    payload = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(artifact.role_payload)
    return Path(payload.staged_name).name


def _write_whole(file: Path, content: bytes) -> None:
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_bytes(content)
    part.rename(file)


def _installed(package: Path, packages: Path) -> Path:
    """The folder that a package is installed in; of workers that start together, the first to finish counts."""
    folder = packages / package.parent.name
    if not folder.exists():
        part = packages / f"{package.parent.name}.{os.getpid()}"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-input"]
        subprocess.run([*pip, "--target", str(part), str(package)], check=True)
        try:
            part.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


if __name__ == "__main__":
    main()
