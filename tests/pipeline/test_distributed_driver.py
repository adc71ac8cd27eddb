"""``attribeam audit --runner`` on Beam's portable job service, with workers in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.logs.log_files import write_log
from tests.pipeline.audit_fixtures import mixed_rows, run_locally, save_tiny_audit, with_token_budget
from tests.pipeline.audit_process import read_manifest
from tests.pipeline.distributed_audit import ROWS_PER_CHUNK

from attribeam.attribution.prompts.jinja_template import JinjaTemplate
from attribeam.schemas.run_manifest import RunStatus

ROOT = Path(__file__).parents[2]
ROWS = 24
SECONDS_TO_START = 60
SECONDS_TO_RUN = 240


@pytest.fixture
def job_service(tmp_path):
    """The endpoint of a job service on a free port; it and all workers that it started end by SIGKILL."""
    port_file = tmp_path / "port"
    module = "apache_beam.runners.portability.local_job_service_main"
    with (tmp_path / "service.log").open("w") as log:
        places = ["--port_file", str(port_file), "--staging_dir", str(tmp_path / "staging")]
        own = {"cwd": ROOT, "env": environment(), "stdout": log, "stderr": subprocess.STDOUT}
        service = subprocess.Popen([sys.executable, "-m", module, *places], start_new_session=True, **own)
    try:
        yield f"localhost:{wait_for_port(service, port_file)}"
    finally:
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()


def wait_for_port(service, port_file):
    deadline = time.monotonic() + SECONDS_TO_START
    while not port_file.exists():
        log = port_file.with_name("service.log").read_text
        assert service.poll() is None, f"the job service ended: {log()}"
        assert time.monotonic() < deadline, f"the job service did not start: {log()}"
        time.sleep(0.1)
    return int(port_file.read_text())


def environment():
    """Workers import the packages from the checkout, and use one thread each."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def sorted_rows(folder, pattern):
    rows = [row for file in sorted(folder.glob(pattern)) for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: (row["source_row"], row.get("span_index", 0)))


def portable_audit(file, settings, output, job_service):
    """The command line; every start of a worker process adds a line to the file ``workers``.

    It removes the template's file as well, if there is one, as on a machine that never had it.
    """
    template = settings.model.prompt_template
    given = ["--prompt-template", str(template)] if template else []
    removal = f"rm -f {template} && " if template else ""
    worker = f"{sys.executable} -m apache_beam.runners.worker.sdk_worker_main"
    return [
        *(sys.executable, "-m", "attribeam", "audit", "--input", file, "--output", str(output)),
        *("--model", settings.model.model, "--parser", settings.parser, *given),
        *("--rows-per-chunk", str(ROWS_PER_CHUNK), "--runner", "PortableRunner", "--job_endpoint", job_service),
        *("--environment_type", "beam:env:harness_subprocess_python:v1"),
        *("--environment_config", f"echo started >> {output.parent / 'workers'} && {removal}exec {worker}"),
    ]


def test_separate_worker_processes_give_the_records_of_a_local_run(tmp_path, job_service):
    settings = with_token_budget(save_tiny_audit(tmp_path), 1)  # each row alone: batches cannot round differently
    template = tmp_path / "mine.jinja"
    text = "{% for p in passages %}[{{ p.index }}] {{ p.text }}\n{% endfor %}Q: {{ question }}\nA: "
    template.write_text(text)
    settings = replace(settings, model=settings.model.replaced(prompt_template=str(template)))
    file = write_log(tmp_path / "log.parquet", mixed_rows(ROWS), row_group_size=7)
    local, portable = tmp_path / "local", tmp_path / "portable"
    run_locally(file, settings, local)
    command, own = portable_audit(file, settings, portable, job_service), {"cwd": ROOT, "env": environment()}
    submitted = subprocess.run(command, timeout=SECONDS_TO_RUN, capture_output=True, text=True, check=False, **own)
    assert submitted.returncode == 0, submitted.stderr + (tmp_path / "service.log").read_text()
    assert (tmp_path / "workers").exists(), "the stages should run in worker processes"
    assert not template.exists(), "the workers should not have had the template's file"
    for folder in ("evidence", "dead_letters"):
        assert sorted_rows(local, f"{folder}*.parquet") == sorted_rows(portable, f"{folder}/*.parquet")
    manifest = read_manifest(portable)
    assert json.loads((portable / "metrics.json").read_text())["metrics"]["rows"] == ROWS
    assert f"attribeam_rows {ROWS}" in (portable / "metrics.prom").read_text().splitlines()
    assert manifest.models["prompt_template"] == JinjaTemplate(text).digest
    assert (manifest.models["prompt_template_name"], text in str(manifest)) == ("mine.jinja", False)
    assert (manifest.status, manifest.counts.rows, manifest.counts.is_reconciled) == (RunStatus.DONE, ROWS, True)
