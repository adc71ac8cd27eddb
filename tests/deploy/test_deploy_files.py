"""The files of deploy/: scripts parse, YAML is valid and fits together, and what was never run says so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from attribeam.pipeline.options.runner_options import read_runner_options

DEPLOY = Path(__file__).parents[2] / "deploy"
SCRIPTS = ("flink/run_example.sh", "dataflow/run.sh")
NEVER_RUN = ("images/Dockerfile", "dataflow/run.sh", "kubernetes/flink.yaml", "kubernetes/runner_options.yaml")


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / "flink.yaml").read_text()))


def deployment(part: str) -> dict[str, Any]:
    (found,) = [one for one in manifests() if one["kind"] == "Deployment" and one["metadata"]["name"].endswith(part)]
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_executable_parses_and_stops_at_the_first_error(script: str) -> None:
    path = DEPLOY / script
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert "set -euo pipefail" in path.read_text().splitlines()


@pytest.mark.parametrize("name", NEVER_RUN)
def test_what_was_never_run_says_so_in_its_first_comment(name: str) -> None:
    lines = (DEPLOY / name).read_text().splitlines()
    comment = lines[1] if lines[0].startswith("#!") else lines[0]
    assert re.match(r"# (Not (built|run|applied)|Options .* not run)", comment), comment


def test_every_selector_finds_the_pods_of_its_template() -> None:
    for one in manifests():
        if one["kind"] == "Deployment":
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"] == labels
    service = next(one for one in manifests() if one["kind"] == "Service")
    assert service["spec"]["selector"] == deployment("jobmanager")["spec"]["template"]["metadata"]["labels"]


def test_every_mounted_volume_is_declared_and_every_claim_made() -> None:
    claims = {one["metadata"]["name"] for one in manifests() if one["kind"] == "PersistentVolumeClaim"}
    maps = {one["metadata"]["name"] for one in manifests() if one["kind"] == "ConfigMap"}
    for part in ("jobmanager", "taskmanager"):
        pod = deployment(part)["spec"]["template"]["spec"]
        mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        assert {
            one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"] if "persistentVolumeClaim" in one
        } <= claims
        assert {one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one} <= maps


def test_the_options_fit_the_cluster_of_the_manifest() -> None:
    options = yaml.safe_load((DEPLOY / "kubernetes" / "runner_options.yaml").read_text())
    assert read_runner_options(str(DEPLOY / "kubernetes" / "runner_options.yaml"))
    (config,) = [one for one in manifests() if one["kind"] == "ConfigMap"]
    flink = yaml.safe_load(config["data"]["config.yaml"])
    workers = deployment("taskmanager")["spec"]
    assert options["parallelism"] == workers["replicas"] * flink["taskmanager"]["numberOfTaskSlots"]
    assert options["flink_master"] == f"{flink['rest']['address']}:{flink['rest']['port']}"
    images = {container["image"] for container in workers["template"]["spec"]["containers"]}
    assert any(image.startswith(f"flink:{options['flink_version']}") for image in images)
    pool = next(one for one in workers["template"]["spec"]["containers"] if one["name"] == "worker-pool")
    assert options["environment_config"] == f"localhost:{pool['ports'][0]['containerPort']}"


def test_every_jar_of_the_job_server_is_pinned_once() -> None:
    lines = (DEPLOY / "flink" / "job_server_jars.txt").read_text().splitlines()
    pins = [line.split() for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest, _ in pins)
    coordinates = [one for _, one in pins]
    assert all(re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", one) for one in coordinates)
    assert len({one.rpartition(":")[0] for one in coordinates}) == len(coordinates) > 100
    assert "org.apache.beam:beam-runners-flink-1.19:2.62.0" in coordinates
