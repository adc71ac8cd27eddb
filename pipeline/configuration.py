"""What decides the records of an audit, as file metadata, as a hash, and as plain JSON."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version

import pyarrow as pa

from pipeline.chunk_attempt import OutputSchemas
from pipeline.version import ATTRIBEAM_VERSION
from schemas import SCHEMA_VERSION, dead_letter_schema, evidence_schema
from transforms.audit_settings import AuditSettings

_PACKAGES = ("apache-beam", "numpy", "pyarrow", "spacy", "tokenizers", "torch", "transformers")


def plain_settings(settings: AuditSettings) -> dict[str, object]:
    """The settings as JSON values; infinity as the text "inf"."""
    plain: dict[str, object] = json.loads(json.dumps(asdict(settings)), parse_constant=_constant)
    return plain


def output_metadata(settings: AuditSettings, models: Mapping[str, str]) -> dict[str, str]:
    """Provenance for the metadata of every Parquet file; holds nothing that changes from run to run."""
    return {
        "attribeam.version": ATTRIBEAM_VERSION,
        "attribeam.settings": _compact(plain_settings(settings)),
        **{f"attribeam.{name}": value for name, value in sorted(models.items())},
    }


def output_schemas(
    settings: AuditSettings, models: Mapping[str, str], extra_fields: Sequence[pa.Field]
) -> OutputSchemas:
    """The schemas of evidence and dead letters, with the provenance as metadata."""
    metadata = output_metadata(settings, models)
    return OutputSchemas(
        evidence=evidence_schema(extra_fields=extra_fields, metadata=metadata),
        dead_letters=dead_letter_schema(metadata),
    )


def configuration_hash(settings: AuditSettings, models: Mapping[str, str], extra_fields: Sequence[pa.Field]) -> str:
    """SHA-256 of everything besides the input that may change a record: settings, models, versions, machine type."""
    everything = {
        "metadata": output_metadata(settings, models),
        "extra_fields": [(field.name, str(field.type)) for field in extra_fields],
        "schema_version": SCHEMA_VERSION,
        "machine": platform.machine(),
    }
    return hashlib.sha256(_compact(everything).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter, for the run manifest."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _compact(value: Mapping[str, object]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _constant(name: str) -> str:
    return {"Infinity": "inf", "-Infinity": "-inf"}.get(name, "nan")
