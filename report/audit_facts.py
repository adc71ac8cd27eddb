"""What the page says about how an audit was made: run, models, options, inputs, versions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from report.audit_directory import AuditDirectory
from schemas.run_manifest import RunManifest


@dataclass(frozen=True, slots=True)
class FactGroup:
    """Named facts under one heading."""

    heading: str
    facts: tuple[tuple[str, str], ...]


def audit_facts(audit: AuditDirectory) -> tuple[FactGroup, ...]:
    """All settings and provenance of the run manifest that are set."""
    manifest = audit.manifest
    return (
        FactGroup("Run", tuple(_run(manifest))),
        FactGroup("Models", tuple((_words(name), value) for name, value in manifest.models.items())),
        FactGroup("Options", tuple(_flat(manifest.options))),
        FactGroup("Inputs", tuple(_inputs(manifest))),
        FactGroup("Versions", tuple(manifest.versions.items())),
    )


def audit_title(audit: AuditDirectory) -> str:
    """The name of the audited file, or how many there are."""
    inputs = audit.manifest.inputs
    if len(inputs) == 1:
        return PurePath(inputs[0].path).name
    return f"{len(inputs):,} log files"


def model_line(audit: AuditDirectory) -> str:
    """Model, layer and method in a few words."""
    models = audit.manifest.models
    parts = (
        f"model {models.get('model', 'unknown')}",
        f"layer {models['layer']} of {models.get('layer_count', '?')}" if "layer" in models else "",
        models.get("method", ""),
        f"supported from {models['supported_threshold']}" if "supported_threshold" in models else "",
        f"unsupported below {models['weak_threshold']}" if "weak_threshold" in models else "",
    )
    return " · ".join(part for part in parts if part)


def audit_key(audit: AuditDirectory) -> str:
    """A name for this audit's content, the same for every report of it: 16 hexadecimal digits."""
    manifest = audit.manifest
    content = [manifest.configuration, *(one.sha256 for one in manifest.inputs)]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]


def _run(manifest: RunManifest) -> Iterator[tuple[str, str]]:
    yield "status", str(manifest.status)
    yield "started at", manifest.started_at
    yield "runner", manifest.runner
    yield "attribeam version", manifest.attribeam_version
    yield "schema version", manifest.schema_version
    yield "configuration", manifest.configuration
    if manifest.counts.tokens is not None:
        yield "tokens", f"{manifest.counts.tokens:,}"


def _inputs(manifest: RunManifest) -> Iterator[tuple[str, str]]:
    for one in manifest.inputs:
        yield one.path, f"{one.row_count:,} rows, {one.size_bytes:,} bytes, sha256 {one.sha256[:16]}…"


def _flat(options: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Options that are set, nested ones with the names of their groups."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{_words(name)}: ")
        elif value not in (None, [], ()):
            shown = ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)
            yield f"{prefix}{_words(name)}", shown


def _words(name: str) -> str:
    return name.replace("_", " ")
