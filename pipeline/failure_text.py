"""One paragraph for the user from what was raised deep inside: what happened, to which rows, and the way out."""

from __future__ import annotations

import re

from attribution.models.model_directory import ModelLoadError
from pipeline.failures import GO_ON, is_disk_full
from transforms.audit_settings import AuditSettings
from transforms.row_range import RowRange

_WHILE_RUNNING = re.compile(r"\s*\[while running '[^']*'\]\s*$")
_LONGEST = 600


def explain_load_failure(error: BaseException, settings: AuditSettings) -> str:
    """Why the models cannot be loaded."""
    if isinstance(error, ModelLoadError):
        return f"the attributor cannot be loaded: {error}"
    model, parser = settings.model.model, settings.parser
    return f"the models cannot be loaded (--model {model!r}, --parser {parser!r}): {_last_line(error)}"


def explain_chunk_failure(error: BaseException, rows: RowRange) -> str:
    """Why rows could not be audited, by the kinds of failure that have a way out of their own."""
    where = f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}"
    reason = _last_line(error)
    if is_disk_full(error):
        return f"the disk is full: {where} could not be written. Free some space. {GO_ON}"
    if isinstance(error, MemoryError) or "MemoryError" in reason:
        return f"{where} do not fit into memory. Try fewer --workers or a smaller --token-budget. {GO_ON}"
    return (
        f"{where} could not be audited: {reason}. If the file is damaged or was changed meanwhile, replace it or leave "
        f"it out of --input; --verbose shows where it happened. {GO_ON}"
    )


def _last_line(error: BaseException) -> str:
    """What was raised at the bottom; Beam puts whole tracebacks into messages, and step names behind them."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = " ".join(_WHILE_RUNNING.sub("", lines[-1]).split()) if lines else type(error).__name__
    return text[:_LONGEST].rstrip(".")
