"""A DAG for Airflow 3 (tried with 3.3): audits yesterday's logs and renews the history."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime, timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

HOME = "/opt/rag-audit"
FINAL = (2, 3)
"""Exit codes that another attempt would not change: bad usage or no logs, and a failed quality gate."""


def attribeam(*arguments: str, day: str) -> None:
    """Run one command beside ``audit.toml``; a failed attempt goes on from its finished chunks when it is retried."""
    done = subprocess.run(["attribeam", *arguments], cwd=HOME, env={**os.environ, "AUDIT_DAY": day}, check=False)
    if done.returncode in FINAL:
        raise AirflowFailException(f"attribeam {arguments[0]} ended with exit code {done.returncode}")
    done.check_returncode()


@dag(schedule="30 2 * * *", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def rag_audit() -> None:
    """The night before is the day of the logs.

    The history is renewed even if a gate failed. It is a teardown, so that the run still counts as failed then.
    """

    @task(retries=2, retry_delay=timedelta(minutes=10))
    def audit(day: str) -> None:
        attribeam("audit", "--config", "audit.toml", "--console", "json", day=day)

    @task
    def history(day: str) -> None:
        attribeam("history", "audits", "--output", "audits/history.html", day=day)

    day = "{{ macros.ds_add(ds, -1) }}"
    audit(day) >> history(day).as_teardown()


rag_audit()
