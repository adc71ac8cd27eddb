"""The plugin of pytest: one attributor for all tests of a process. Loads nothing until a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor


@pytest.fixture(scope="session")
def attribeam_attributor() -> Attributor:
    """The attributor that ``assert_supported`` uses by default; a fixture of this name in a conftest.py replaces it."""
    from attribeam.testing import bundled_attributor

    return bundled_attributor()
