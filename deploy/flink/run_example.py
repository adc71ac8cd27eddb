"""Audit the example log on a Flink cluster that lives as long as the audit; called by run_example.sh."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from deploy.flink.cluster import ClusterError, FlinkCluster  # noqa: E402
from deploy.flink.get_flink import FetchError, get_flink  # noqa: E402

from attribeam.schemas.run_manifest import RunManifest, RunStatus  # noqa: E402

_LOG = ROOT / "examples" / "qa_logs.parquet"


def main() -> int:
    """Run it; 0 if the audit is done and reconciles."""
    parser = argparse.ArgumentParser(description=__doc__, prog="run_example.sh")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="where the audit goes")
    output = parser.parse_args().output.absolute()
    if shutil.which("java") is None:
        return _failed("Flink needs Java 11 or 17 on the path; install one (for example openjdk-17-jre-headless)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="attribeam-flink-"))
    try:
        with FlinkCluster(folder, get_flink(), worker_environment={"OMP_NUM_THREADS": "1"}) as cluster:
            _say(f"Flink runs at http://{cluster.address}, its logs are in {folder}")
            code = _audit(cluster, output)
    except (ClusterError, FetchError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        return _failed("interrupted; Flink was stopped", code=130)
    if code != 0 or not _reconciles(output):
        return _failed(f"the audit failed; Flink's logs are in {folder}", code=code or 1)
    shutil.rmtree(folder)
    _say(f"done: evidence, dead letters and run_manifest.json are in {output}")
    return 0


def _audit(cluster: FlinkCluster, output: Path) -> int:
    audit = [sys.executable, "-m", "attribeam", "audit", "--input", str(_LOG), "--output", str(output)]
    runner = [*cluster.runner_options(), "--rows-per-chunk", "20"]
    return subprocess.run([*audit, *runner], check=False).returncode


def _reconciles(output: Path) -> bool:
    """Whether the manifest says that every row of the example log is audited or a dead letter."""
    manifest = RunManifest.from_json((output / "run_manifest.json").read_text())
    counts = manifest.counts
    _say(f"{counts.rows} rows: {counts.audited} audited, {counts.dead_lettered} dead letters")
    return manifest.status is RunStatus.DONE and counts.is_reconciled


def _failed(message: str, *, code: int = 1) -> int:
    _say(message)
    return code


def _say(message: str) -> None:
    print(f"run_example: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
