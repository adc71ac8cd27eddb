"""``attribution_config.json``: what a model directory says about its own use, and who overrides whom."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from attribeam.attribution.models.model_options import MethodOptions
from attribeam.attribution.prompts.prompt_template import PromptTemplate
from attribeam.attribution.settings import QueryPosition, SoftmaxOver, UnionSettings

FILE_NAME = "attribution_config.json"
_PAPER = UnionSettings()
_Value = TypeVar("_Value", int, float)
_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class AttributionConfig:
    """The defaults of one model; None leaves a value to the paper. Field by field the keys of the JSON file."""

    layer: int | None = None
    query_position: QueryPosition | None = None
    softmax_over: SoftmaxOver | None = None
    top_k: int | None = None
    isolation_tau: float | None = None
    own_token_weight: int | None = None
    sentence_weight: float | None = None
    evidence_window: float | None = None
    prompt_template: PromptTemplate | None = None
    supported_threshold: float | None = None
    weak_threshold: float | None = None
    dtype: str | None = None

    @classmethod
    def from_file(cls, path: str | Path) -> AttributionConfig:
        """The defaults in a file.

        Raises:
            ValueError: if it is no JSON object of these keys and types; the message names file, key and value.
        """
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} should be a readable JSON file: {error}") from error
        known = [field.name for field in fields(cls)]
        if not isinstance(values, dict) or not set(values) <= set(known):
            found = sorted(values) if isinstance(values, dict) else type(values).__name__
            raise ValueError(f"{path} should hold an object with the keys {known}, holds: {found}")
        return cls._from_values(values, where=str(path))

    @classmethod
    def _from_values(cls, values: Mapping[str, object], *, where: str) -> AttributionConfig:
        template = values.get("prompt_template")
        return cls(
            layer=_whole_number(values, "layer", where),
            query_position=_choice(values, "query_position", QueryPosition, where),
            softmax_over=_choice(values, "softmax_over", SoftmaxOver, where),
            top_k=_whole_number(values, "top_k", where),
            isolation_tau=_number(values, "isolation_tau", where),
            own_token_weight=_whole_number(values, "own_token_weight", where),
            sentence_weight=_number(values, "sentence_weight", where),
            evidence_window=_number(values, "evidence_window", where),
            prompt_template=None if template is None else _template(template, where),
            supported_threshold=_number(values, "supported_threshold", where),
            weak_threshold=_number(values, "weak_threshold", where),
            dtype=_string(values, "dtype", where),
        )


def merge_settings(method: MethodOptions, defaults: AttributionConfig) -> UnionSettings:
    """The settings in force: the user's where given, else the model directory's, else the paper's.

    A threshold that the user gives alone moves the other one with it where it would cross it.

    Raises:
        ValueError: if a value is out of its range.
    """
    supported = _first(method.supported_threshold, defaults.supported_threshold, _PAPER.supported_threshold)
    weak = _first(method.weak_threshold, defaults.weak_threshold, _PAPER.weak_threshold)
    if method.supported_threshold is None:
        supported = max(supported, weak)
    elif method.weak_threshold is None:
        weak = min(supported, weak)
    return UnionSettings(
        method=method.method,
        top_k=_first(method.top_k, defaults.top_k, _PAPER.top_k),
        isolation_tau=_first(method.isolation_tau, defaults.isolation_tau, _PAPER.isolation_tau),
        own_token_weight=_first(method.own_token_weight, defaults.own_token_weight, _PAPER.own_token_weight),
        sentence_weight=_first(method.sentence_weight, defaults.sentence_weight, _PAPER.sentence_weight),
        evidence_window=_first(method.evidence_window, defaults.evidence_window, _PAPER.evidence_window),
        supported_threshold=supported,
        weak_threshold=weak,
    )


def _first(users: _Value | None, directorys: _Value | None, papers: _Value) -> _Value:
    if users is not None:
        return users
    return papers if directorys is None else directorys


def _whole_number(values: Mapping[str, object], key: str, where: str) -> int | None:
    value = values.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{where}: {key!r} should be a whole number, was: {value!r}")


def _number(values: Mapping[str, object], key: str, where: str) -> float | None:
    value = values.get(key)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if value == "inf":
        return float("inf")
    raise ValueError(f"{where}: {key!r} should be a number, was: {value!r}")


def _string(values: Mapping[str, object], key: str, where: str) -> str | None:
    value = values.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{where}: {key!r} should be a string, was: {value!r}")


def _choice(values: Mapping[str, object], key: str, kind: type[_Choice], where: str) -> _Choice | None:
    value = _string(values, key, where)
    if value is not None and value not in [*kind]:
        raise ValueError(f"{where}: {key!r} should be one of {[*map(str, kind)]}, was: {value!r}")
    return None if value is None else kind(value)


def _template(value: object, where: str) -> PromptTemplate:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: 'prompt_template' should be an object, was: {type(value).__name__}")
    return PromptTemplate.from_fields(value, where=where)
