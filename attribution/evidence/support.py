"""Whether the passages support a span: two thresholds on its evidence mass, and the comparison of values."""

from __future__ import annotations

from attribution.settings import UnionSettings
from schemas import Support


def decide_support(evidence_mass: float, has_unmatched_values: bool, settings: UnionSettings) -> Support:
    """``supported`` from ``supported_threshold`` on, ``weak`` from ``weak_threshold`` on, else ``unsupported``.

    A span with a number, date or name that occurs in none of its evidence passages is ``unsupported``, however much
    attention its other words have on evidence.
    """
    if has_unmatched_values or evidence_mass < settings.weak_threshold:
        return Support.UNSUPPORTED
    return Support.WEAK if evidence_mass < settings.supported_threshold else Support.SUPPORTED
