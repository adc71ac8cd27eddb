"""The bundled models, loaded once for the tests of the verdict."""

import pytest

from attribeam.attribution.attributor import Attributor


@pytest.fixture(scope="session")
def attributor() -> Attributor:
    """With the options that it has by itself."""
    return Attributor.from_pretrained("bundled")
