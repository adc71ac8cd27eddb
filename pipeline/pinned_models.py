"""Settings that name the very commit that was loaded, for workers that load the model later and elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from transforms.audit_settings import AuditSettings


def with_pinned_model(settings: AuditSettings, models: Mapping[str, str]) -> AuditSettings:
    """``settings`` with the commit that ``models``, the provenance, names for a hub model; a local one has none."""
    revision = models["model_revision"]
    if revision.startswith("sha256:"):
        return settings
    return replace(settings, model=replace(settings.model, revision=revision))
