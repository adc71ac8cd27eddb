"""Everything that decides what an audit computes; equal settings on equal input give equal records."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import ModelChoice, encodes
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.prompts.prompt_template import TEMPLATE_NAMES, TemplateText
from attribeam.logs.columns import PARQUET, LogOptions, TableVersion
from attribeam.logs.privacy import PrivacySettings
from attribeam.schemas import SpanKind
from attribeam.schemas.errors import UsageError


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
