"""Everything that decides what an audit computes, also as file metadata, as a hash and as JSON.

Equal settings on equal input give equal records.
"""

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
from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import ModelChoice, encodes
from attribeam.attribution.option_declaration import Options
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.prompts import TEMPLATE_NAMES, TemplateText
from attribeam.logs.columns import PARQUET, LogOptions, TableVersion
from attribeam.logs.privacy import PrivacySettings
from attribeam.schemas import SCHEMA_VERSION, SpanKind, dead_letter_schema, evidence_schema
from attribeam.schemas.errors import UsageError

_PACKAGES = (
    "apache-beam", "numpy", "phonenumbers", "py3langid", "pyarrow", "python-stdnum", "spacy", "tokenizers", "torch",
    "transformers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Settings of one audit; picklable, and hashed into every chunk's manifest.

    Attributes:
        columns: (field of the QA record, column of the log) pairs where the names differ.
        extra_columns: columns of the log that are carried through to the evidence.
        log_format: what kind of files the logs are, see ``attribeam.logs.reader``.
        tables: versions of the Delta and Iceberg tables that the logs belong to; found when the input is checked.
        span_kinds: which target spans are chosen, see ``attribeam.attribution.answers.target_spans``.
        parser: "bundled", an installed spaCy pipeline's name, or a directory.
        max_text_chars: the most code points of a row's texts together; a longer row is a dead letter.
        dead_letter_text: write the answer's text into dead letters.
        privacy: what of the texts is masked or left out in everything that is written.
        threads: CPU threads of one model; part of the settings because sums depend on it.
    """

    columns: tuple[tuple[str, str], ...] = ()
    extra_columns: tuple[str, ...] = ()
    log_format: str = PARQUET
    tables: tuple[TableVersion, ...] = ()
    span_kinds: tuple[SpanKind, ...] = DEFAULT_SPAN_KINDS
    parser: str = "bundled"
    model: ModelOptions = field(default_factory=ModelOptions)
    method: MethodOptions = field(default_factory=MethodOptions)
    max_text_chars: int = 1_000_000
    dead_letter_text: bool = False
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    threads: int = 1

    @property
    def log_options(self) -> LogOptions:
        """How the logs are read."""
        return LogOptions(self.columns, self.extra_columns, self.max_text_chars, self.log_format, self.tables)

    @property
    def encodes_rows(self) -> bool:
        """Whether the method reads the attention model's tokens."""
        return encodes(resolve_method(self.method).needs)

    @property
    def models(self) -> ModelChoice:
        """Which models the method may need, and how to load them."""
        return ModelChoice(parser=self.parser, model=self.model, method=self.method, threads=self.threads)


def with_template_text(settings: AuditSettings) -> AuditSettings:
    """``settings`` with the template's text instead of its path; unchanged if no file is named.

    Raises:
        UsageError: if the file cannot be read.
    """
    option = settings.model.prompt_template
    if not isinstance(option, str) or option in TEMPLATE_NAMES:
        return settings
    try:
        text = TemplateText.from_file(option)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return replace(settings, model=settings.model.replaced(prompt_template=text))


def plain_settings(settings: AuditSettings) -> dict[str, object]:
    """The settings as JSON values; infinity as the text "inf".

    The device is ``cuda`` whatever its number: records do not depend on that.
    """

    def plain_options(value: object) -> object:
        return value.given() if isinstance(value, Options) else asdict(cast(TemplateText, value))

    text = json.dumps({**asdict(settings), "privacy": settings.privacy.recorded()}, default=plain_options)
    named = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}
    plain: dict[str, Any] = json.loads(text, parse_constant=named.__getitem__)
    plain["model"]["device"] = plain["model"]["device"].partition(":")[0]
    return plain


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


def with_pinned_model(settings: AuditSettings, models: Mapping[str, str]) -> AuditSettings:
    """``settings`` with the commit that ``models`` (the provenance) names for a hub model."""
    revision = models.get("model_revision")
    if revision is None or revision.startswith("sha256:"):
        return settings
    return replace(settings, model=settings.model.replaced(revision=revision))
