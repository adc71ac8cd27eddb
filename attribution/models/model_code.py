"""Code that a model's repository brings along: refused unless it is asked for, and another repository's always."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from transformers import CONFIG_MAPPING

from attribution.models.model_errors import ModelLoadError
from attribution.models.model_options import ModelOptions

_FILES = ("config.json", "tokenizer_config.json")


def code_references(folder: Path) -> list[str]:
    """What model and tokenizer name as their own classes, such as "modeling_own.OwnModel", sorted."""
    return sorted({name for file in _FILES for name in _references(_json_object(folder / file).get("auto_map"))})


def check_code(options: ModelOptions, folder: Path) -> None:
    """Refuse a model that needs code of its repository unasked, or code of which nobody knows the revision.

    Raises:
        ModelLoadError: in both cases; the message says the way out.
    """
    config = _json_object(folder / "config.json")
    if not options.trust_remote_code:
        if config.get("auto_map") and config.get("model_type") not in CONFIG_MAPPING:
            raise untrusted_code(options, folder)
        return
    elsewhere = sorted({name.partition("--")[0] for name in code_references(folder) if "--" in name})
    if elsewhere:
        raise ModelLoadError(
            f"model {options.model!r} should bring its code along, names code of {', '.join(elsewhere)}, whose "
            "revision nothing pins; put model and .py files into one directory, leave the names before '--' out of "
            f"auto_map in its {' and '.join(_FILES)}, and name it with --model"
        )


def untrusted_code(options: ModelOptions, folder: Path) -> ModelLoadError:
    """The error of a model whose code was not asked for."""
    return ModelLoadError(
        f"model {options.model!r} needs code of its own repository, not run unasked; read the .py files in "
        f"{folder}, then allow it with --trust-remote-code"
    )


def _json_object(path: Path) -> dict[str, object]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _references(value: object) -> Iterator[str]:
    """The strings in an ``auto_map``, whose values are names or lists of names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _references(one)
