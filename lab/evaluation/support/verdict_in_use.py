"""What judged the claims of an audit that is measured, in words."""

from __future__ import annotations

from collections.abc import Mapping


def verdict_in_use(provenance: Mapping[str, str]) -> str:
    """One line on the thresholds that decided, from the provenance of an attributor."""
    if "answer_risk_threshold" in provenance:
        risk = provenance["answer_risk_threshold"]
        return f"verdict in use: {provenance['verdict']}, an answer has an unsupported claim from risk {risk} on"
    if "supported_threshold" in provenance:
        supported, weak = provenance["supported_threshold"], provenance["weak_threshold"]
        return f"verdict in use: mass, supported from {supported} on, unsupported below {weak}"
    return "verdict in use: none, no thresholds are known for this model and method"
