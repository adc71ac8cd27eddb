"""The figures at the top of the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.made_audit import made_audit

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audit_summary import top_figures


@pytest.mark.parametrize(("speed", "note"), [(2.5, "2.5 rows/s after 4 s of loading"), (0.0, "nothing was left to do")])
def test_run_that_found_all_rows_finished_tells_no_speed(tmp_path: Path, speed: float, note: str) -> None:
    audit = AuditDirectory.open(made_audit(tmp_path).root)
    audit = replace(audit, manifest=replace(audit.manifest, rows_per_second=speed))
    (duration,) = (figure for figure in top_figures(audit, None) if figure.name == "duration")
    assert (duration.value, duration.note) == ("20 s", note)
