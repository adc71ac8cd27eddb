"""Models that audits of this folder share; none of them writes there."""

from __future__ import annotations

import pytest
from tests.pipeline.audit_fixtures import save_tiny_audit

from attribeam.transforms.audit_settings import AuditSettings


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> AuditSettings:
    """Of an audit with a tiny model and a tiny parser."""
    return save_tiny_audit(tmp_path_factory.mktemp("models"))
