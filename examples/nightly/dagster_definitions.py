"""Definitions for Dagster (tried with 1.13): an audit a day as a partitioned asset, its gates as an asset check."""

# No "from __future__ import annotations" here: Dagster reads the type of the context when it loads the file.
import json
import os
import subprocess

import dagster as dg

HOME = "/opt/rag-audit"
DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01")
GATES = dg.AssetCheckSpec("quality_gates", asset="rag_audit")
GATE_FAILED, BAD_USAGE = 3, 2


@dg.asset(partitions_def=DAYS, check_specs=[GATES], retry_policy=dg.RetryPolicy(max_retries=2, delay=600))
def rag_audit(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Audits the logs of one day; a failed attempt goes on from its finished chunks when it is retried."""
    done = subprocess.run(
        ["attribeam", "audit", "--config", "audit.toml", "--console", "json"],
        cwd=HOME,
        env={**os.environ, "AUDIT_DAY": context.partition_key},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in (0, GATE_FAILED):
        raise dg.Failure(
            f"attribeam audit ended with exit code {done.returncode}, see its messages",
            allow_retries=done.returncode != BAD_USAGE,
        )
    result = json.loads(done.stdout)
    figures = {name: value for name, value in result["metrics"].items() if value is not None}
    gates = dg.AssetCheckResult(
        check_name=GATES.name, passed=done.returncode == 0, metadata={"gates": result["quality_gates"]}
    )
    return dg.MaterializeResult(metadata=figures, check_results=[gates])


nightly = dg.define_asset_job("nightly_audit", selection=[rag_audit], partitions_def=DAYS)
definitions = dg.Definitions(
    assets=[rag_audit],
    jobs=[nightly],
    schedules=[dg.build_schedule_from_partitioned_job(nightly, hour_of_day=2, minute_of_hour=30)],
)
