"""Part 5: how long the device waits for rows in a whole audit, by the number of workers that feed it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from attribeam.lab.benchmarks.generated_rows import RowShape, benchmark_rows, made_up_pages, write_log
from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import LeftOutError, Step
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan
from attribeam.lab.benchmarks.model_workers import HEADER, FedAudit
from attribeam.lab.benchmarks.random_model import RandomModel

TABLE = "Idle share"
_HEADER = ("model", "rows", *HEADER)
_NEEDED = {"apache_beam": "Apache Beam", "spacy": "spaCy"}


def steps(plan: ReportPlan, _: JournalState, folder: Path) -> list[Step]:
    """One step per number of workers; the model is the fastest one, which is the hardest to feed."""
    return [
        Step(f"{plan.smallest}, {workers} workers", partial(_measure, plan, folder, workers))
        for workers in plan.audit_workers
    ]


def _measure(plan: ReportPlan, folder: Path, workers: int) -> Iterator[Finding]:
    missing = [words for name, words in _NEEDED.items() if find_spec(name) is None]
    if missing:
        raise LeftOutError(f"an audit needs {' and '.join(missing)}, not installed here")
    audit = FedAudit(
        log=_log(plan, folder),
        model=plan.model or str(_saved_model(plan, folder)),
        workers=workers,
        rows_per_chunk=plan.rows_per_chunk,
        device=plan.device,
        more=("--dtype", plan.precision),
    )
    found = audit.measure(folder / f"audit-{workers}")
    values = {"model": plan.smallest, "rows": plan.audit_rows, **asdict(found)}
    yield Finding(TABLE, _HEADER, (plan.smallest, f"{plan.audit_rows:,}", *found.cells()), values)


def _log(plan: ReportPlan, folder: Path) -> Path:
    path = folder / "qa_logs.parquet"
    if not path.exists():
        partial_path = path.with_suffix(".partial")
        rows = benchmark_rows(made_up_pages(seed=0), rows=plan.audit_rows, seed=0, shape=RowShape.QUOTESUM)
        write_log(partial_path, rows)
        partial_path.replace(path)
    return path


def _saved_model(plan: ReportPlan, folder: Path) -> Path:
    path = folder / "model"
    if not path.exists():  # made on the CPU: this process takes no memory of the device
        RandomModel(plan.smallest, "cpu", plan.precision).save(folder / "model.partial").replace(path)
    return path
