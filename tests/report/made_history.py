"""Folders of audits that never ran: their manifests and metrics alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from attribeam.schemas.run_manifest import AuditCounts, DeadLetterCount, InputFile, RunManifest, RunStatus

FIRST_NIGHT = datetime(2026, 9, 1, 2, tzinfo=UTC)
ERROR = 0.002


def made_night(
    root: Path,
    night: int,
    *,
    unsupported: int = 60,
    status: RunStatus = RunStatus.DONE,
    errors: Mapping[str, float] | None = None,
    groups: Mapping[str, Sequence[tuple[str | None, int, int]]] | None = None,
    failed_gate: bool = False,
    configuration: str = "same",
    name: str | None = None,
    path: str = "log.parquet",
    answered_at: str | None = None,
) -> Path:
    """An audit of 1,000 claims, ``night`` nights after the first one; groups are (value, supported, unsupported)."""
    started = FIRST_NIGHT + timedelta(days=night)
    folder = root / (f"{started:%Y-%m-%d}" if name is None else name)
    (folder / "evidence").mkdir(parents=True)
    (folder / "_attribeam").touch()
    (folder / "evidence" / "00000-log-r0000000000.parquet").write_bytes(b"evidence")
    (folder / "report.html").write_text("page", encoding="utf-8")
    claims = {"supported": 1000 - unsupported, "weak": 0, "unsupported": unsupported}
    letters = (DeadLetterCount("validate", "empty_answer", 2),)
    counts = AuditCounts(
        rows=200, audited=198, dead_letters=letters, spans=claims, claims=claims, answers={"answer": 198}
    )
    manifest = RunManifest(
        status=status,
        attribeam_version="0.1.0",
        runner="local",
        started_at=started.isoformat(),
        seconds=20.0,
        load_seconds=4.0,
        rows_per_second=2.5,
        configuration=configuration,
        inputs=(InputFile(path, 1000, 200, ""),),
        options={},
        models={},
        versions={},
        counts=counts,
    )
    (folder / "run_manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    metrics = _metrics(manifest, errors, groups, failed_gate) | {"answered_at": answered_at}
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    return folder


def _metrics(
    manifest: RunManifest,
    errors: Mapping[str, float] | None,
    groups: Mapping[str, Sequence[tuple[str | None, int, int]]] | None,
    failed_gate: bool,
) -> dict[str, object]:
    gate = {"metric": "weak_share", "operator": ">", "limit": 0.01, "value": 0.05, "failed": failed_gate}
    return {
        "started_at": manifest.started_at,
        "metrics": {"mean_answer_risk": 0.25, "answers_at_risk": None},
        "standard_errors": {"unsupported_share": ERROR} if errors is None else dict(errors),
        "groups": {
            column: [
                {"value": value, "supported": supported, "weak": 0, "unsupported": unsupported}
                for value, supported, unsupported in values
            ]
            for column, values in (groups or {}).items()
        },
        "quality_gates": [gate],
    }


def made_history(root: Path, unsupported: Sequence[int]) -> Path:
    """A folder of audits, one a night, with so many unsupported claims of 1,000."""
    for night, number in enumerate(unsupported):
        made_night(root, night, unsupported=number)
    return root
