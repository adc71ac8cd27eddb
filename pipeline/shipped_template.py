"""Settings that hold the text of the prompt template, for workers that do not have its file."""

from __future__ import annotations

from dataclasses import replace

from attribution.prompts.template_names import TEMPLATE_NAMES
from attribution.prompts.template_text import TemplateText
from pipeline.failures import UsageError
from transforms.audit_settings import AuditSettings


def with_template_text(settings: AuditSettings) -> AuditSettings:
    """``settings`` with the text of the template's file in the place of its path; as they are where none is named.

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
    return replace(settings, model=replace(settings.model, prompt_template=text))
