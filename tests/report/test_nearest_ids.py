"""Ids that look like one that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.audit_directory import AuditDirectory
from report.nearest_ids import nearest_ids
from tests.report.made_audit import made_audit

IDS = ["trace-8f3a-001", "trace-8f3a-002", "trace-77c0-001", "0451"]


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditDirectory:
    """Four ids, and that of the dead letter."""
    return AuditDirectory.open(made_audit(tmp_path_factory.mktemp("ids"), record_ids=IDS).root)


@pytest.mark.parametrize(
    ("wanted", "nearest"),
    [
        ("trace-8f3a-0O1", "trace-8f3a-001"),
        ("race-77c0-001", "trace-77c0-001"),
        ("451", "0451"),
        ("ferry-bed", "ferry-bad"),
    ],
)
def test_one_slip_finds_the_id_that_was_meant(audit: AuditDirectory, wanted: str, nearest: str) -> None:
    assert nearest_ids(audit, wanted)[0] == nearest


def test_an_id_unlike_any_gets_some_that_there_are(audit: AuditDirectory) -> None:
    assert nearest_ids(audit, "Z", count=2) == ["ferry-bad", "trace-8f3a-001"]


def test_no_id_is_named_twice(tmp_path: Path) -> None:
    audit = AuditDirectory.open(made_audit(tmp_path, record_ids=["ferry", "ferry", "ferry"]).root)
    assert nearest_ids(audit, "ferrx") == ["ferry", "ferry-bad"]
