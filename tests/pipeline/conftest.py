"""Models that audits of this folder share; none of them writes there."""

import pytest
from tests.pipeline.audit_fixtures import save_tiny_audit


@pytest.fixture(scope="session")
def settings(tmp_path_factory):
    return save_tiny_audit(tmp_path_factory.mktemp("models"))
