"""``attribution_config.json``: how a model directory asks to be used."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attribeam.attribution.models.local_revision import CONFIG_FILE
from attribeam.attribution.option_declaration import Options, declared
from attribeam.attribution.options import MethodOptions, ModelOptions, TrainedOptions
from attribeam.attribution.prompts.prompt_template import PromptTemplate
from attribeam.schemas.json_file import read_object

FILE_NAME = CONFIG_FILE


@dataclass(frozen=True, slots=True)
class AttributionConfig:
    """The defaults of one model.

    Attributes:
        trained: how the model was trained; users cannot change it.
        prompt_template: the model's own; None leaves the choice to ``prompts.template_choice``.
    """

    model: ModelOptions = field(default_factory=ModelOptions)
    method: MethodOptions = field(default_factory=MethodOptions)
    trained: TrainedOptions = field(default_factory=TrainedOptions)
    prompt_template: PromptTemplate | None = None

    @classmethod
    def from_file(cls, path: str | Path) -> AttributionConfig:
        """Read the defaults from a JSON object with the keys of ``config_keys``; null counts as a missing key.

        Raises:
            ValueError: if it is not a JSON object of these keys and types; the message names file, key and value.
        """
        values = read_object(Path(path))
        known = config_keys()
        if not values.keys() <= set(known):
            other = reprlib.repr(min(values.keys() - set(known)))
            raise ValueError(f"{path} should hold an object with the keys {known}, holds: {other}")
        template = values.get("prompt_template")
        try:
            return cls(
                model=ModelOptions(**_of(ModelOptions, values)),
                method=MethodOptions(**_of(MethodOptions, values)),
                trained=TrainedOptions(**_of(TrainedOptions, values)),
                prompt_template=None if template is None else _template(template),
            )
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def config_keys() -> list[str]:
    """The keys that ``attribution_config.json`` may hold."""
    return [
        *_directory_options(ModelOptions),
        *_directory_options(TrainedOptions),
        *_directory_options(MethodOptions),
        "prompt_template",
    ]


def _directory_options(options: type[Options]) -> list[str]:
    return [name for name, one in declared(options).items() if one.in_directory]


def _of(options: type[Options], values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: values[name] for name in _directory_options(options) if name in values}


def _template(value: object) -> PromptTemplate:
    if not isinstance(value, dict):
        raise ValueError(f"prompt_template should be an object, was: {type(value).__name__}")
    return PromptTemplate.from_fields(value, where="prompt_template")
