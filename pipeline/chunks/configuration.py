"""Everything that decides the records of an audit, as file metadata, as a hash, as JSON, and for remote workers."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any, cast

import pyarrow as pa

from attribeam import __version__
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.option_declaration import Options
from attribeam.attribution.prompts.prompt_template import TemplateText
from attribeam.logs.privacy import PrivacySettings
from attribeam.schemas import SCHEMA_VERSION, dead_letter_schema, evidence_schema
from attribeam.transforms.audit_settings import AuditSettings

_PACKAGES = (
    "apache-beam", "numpy", "phonenumbers", "py3langid", "pyarrow", "python-stdnum", "spacy", "tokenizers", "torch",
    "transformers",
)  # fmt: skip


def plain_settings(settings: AuditSettings) -> dict[str, object]:
    """The settings as JSON values; infinity as the text "inf".

    The device is ``cuda`` whatever its number: records do not depend on that.
    """
    text = json.dumps({**asdict(settings), "privacy": settings.privacy.recorded()}, default=_plain_options)
    plain: dict[str, Any] = json.loads(text, parse_constant=_json_constant)
    plain["model"]["device"] = plain["model"]["device"].partition(":")[0]
    return plain


def _plain_options(value: object) -> object:
    if isinstance(value, Options):
        return value.given()
    return asdict(cast(TemplateText, value))


def output_metadata(settings: AuditSettings, models: Mapping[str, str]) -> dict[str, str]:
    """Provenance for the metadata of every Parquet file, without anything that changes between runs."""
    return {
        "attribeam.version": __version__,
        "attribeam.settings": _compact_json(plain_settings(settings)),
        **{f"attribeam.{name}": value for name, value in sorted(models.items())},
    }


@dataclass(frozen=True, slots=True)
class OutputSchemas:
    """The Arrow schemas of the two outputs, with the provenance in their metadata, and what of the texts is hidden."""

    evidence: pa.Schema
    dead_letters: pa.Schema
    privacy: PrivacySettings = field(default_factory=PrivacySettings)


def output_schemas(
    settings: AuditSettings, models: Mapping[str, str], extra_fields: Sequence[pa.Field]
) -> OutputSchemas:
    """The schemas of evidence and dead letters, with the provenance as metadata."""
    metadata = output_metadata(settings, models)
    has_mass = resolve_method(settings.method).gives_mass
    return OutputSchemas(
        evidence=evidence_schema(extra_fields=extra_fields, metadata=metadata, has_mass=has_mass),
        dead_letters=dead_letter_schema(metadata),
        privacy=settings.privacy,
    )


def configuration_hash(settings: AuditSettings, models: Mapping[str, str], extra_fields: Sequence[pa.Field]) -> str:
    """SHA-256 of everything besides the input that may change a record: settings, models, versions, type of machine."""
    everything = {
        "metadata": output_metadata(settings, models),
        "extra_fields": [(field.name, str(field.type)) for field in extra_fields],
        "schema_version": SCHEMA_VERSION,
        "machine": platform.machine(),
    }
    return hashlib.sha256(_compact_json(everything).encode()).hexdigest()


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter, for the run manifest."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _compact_json(value: Mapping[str, object]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _json_constant(name: str) -> str:
    return {"Infinity": "inf", "-Infinity": "-inf"}.get(name, "nan")


def with_pinned_model(settings: AuditSettings, models: Mapping[str, str]) -> AuditSettings:
    """``settings`` with the commit that ``models`` (the provenance) names for a hub model."""
    revision = models.get("model_revision")
    if revision is None or revision.startswith("sha256:"):
        return settings
    return replace(settings, model=settings.model.replaced(revision=revision))
