import pytest

from attribution.evidence.support import decide_support
from attribution.settings import UnionSettings
from schemas import Support

SETTINGS = UnionSettings(supported_threshold=0.5, weak_threshold=0.25)


@pytest.mark.parametrize(
    ("mass", "support"),
    [
        (1.0, Support.SUPPORTED),
        (0.5, Support.SUPPORTED),
        (0.49, Support.WEAK),
        (0.25, Support.WEAK),
        (0.24, Support.UNSUPPORTED),
        (0.0, Support.UNSUPPORTED),
    ],
)
def test_support_falls_at_its_two_thresholds(mass: float, support: Support) -> None:
    assert decide_support(mass, False, SETTINGS) is support


@pytest.mark.parametrize("mass", [0.0, 0.3, 1.0])
def test_span_with_an_unmatched_value_is_unsupported(mass: float) -> None:
    assert decide_support(mass, True, SETTINGS) is Support.UNSUPPORTED
