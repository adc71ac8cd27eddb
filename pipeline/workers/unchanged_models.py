"""Tells from files alone whether the models of an earlier run are unchanged.

This module imports no model library, so an audit with nothing left to do ends quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attribeam.attribution.answers.answer_parser import (
    BUNDLED_PARSER,
    pipeline_folder,
    pipeline_identity,
    pipeline_meta,
)
from attribeam.attribution.models.local_revision import local_revision, weight_names
from attribeam.attribution.option_types import BUNDLED_MODEL_NAME
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts.prompt_template import TEMPLATE_NAMES
from attribeam.pipeline.workers.import_server import has_gpu
from attribeam.transforms.audit_settings import AuditSettings

BUNDLED_ATTRIBUTOR = BUNDLED_PARSER.with_name("attributor")


def are_unchanged(settings: AuditSettings, models: Mapping[str, str]) -> bool:
    """Whether loading the models of ``settings`` would certainly give the provenance ``models`` again.

    False means "load them to find out": for a hub model without a fixed commit, methods or options with files or code
    of their own, and machines with a GPU.
    """
    try:
        return (
            _is_told_by_files(settings, models)
            and _parser_identity(settings.parser) == models["parser"]
            and _model_revision(settings.model, models) == models["model_revision"]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_told_by_files(settings: AuditSettings, models: Mapping[str, str]) -> bool:
    """Whether the files of model and parser decide the whole provenance."""
    model, method = settings.model, settings.method
    return (
        models["device"] == "cpu"
        and (model.device == "cpu" or not has_gpu())
        and not model.trust_remote_code
        and model.attribution_config is None
        and model.loaded_layers is None
        and (model.prompt_template is None or model.prompt_template in TEMPLATE_NAMES)
        and ":" not in method.method
        and not any(name.startswith(("language_model", "verifier")) for name in models)
    )


def _parser_identity(parser: str) -> str:
    folder = pipeline_folder(parser)
    return pipeline_identity(folder, pipeline_meta(folder))


def _model_revision(model: ModelOptions, models: Mapping[str, str]) -> str | None:
    folder = BUNDLED_ATTRIBUTOR if model.model == BUNDLED_MODEL_NAME else Path(model.model).expanduser()
    if not folder.is_dir():
        return model.revision
    layer = int(models["layer"])
    return local_revision(folder, weight_names(folder, layer=layer), layer=layer)
