"""``--runner-options FILE.yaml``: options of a Beam runner, checked by name and type before anything is submitted.

Beam itself drops an option that it does not know, with a line in its log at most.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from apache_beam.options.pipeline_options import PipelineOptions

from attribeam.schemas.errors import UsageError

_OF_ATTRIBEAM = {"runner": "--runner"}
_FLINK_JOB_SERVER_OPTIONS = (
    "allow_non_restored_state auto_balance_write_files_sharding_enabled disable_metrics execution_mode_for_batch "
    "execution_retry_delay faster_copy file_input_split_max_size_m_b files_to_stage flink_conf_dir "
    "job_check_interval_in_secs max_bundle_size max_bundle_time_mills number_of_execution_retries object_reuse "
    "operator_chaining re_iterable_group_by_key_result savepoint_path"
)
_JOB_SERVER_OPTIONS = frozenset(_FLINK_JOB_SERVER_OPTIONS.split())
"""Options that only the Java half of a runner knows; Beam asks its job server for them when it submits."""


def read_runner_options(path: str) -> list[str]:
    """Read and check a file; returns the arguments for Beam's ``PipelineOptions``.

    A key is the name of one of Beam's options, with ``_`` or ``-``. A list gives an option several times, and a mapping
    is written as JSON, which is what ``environment_config`` takes.

    Raises:
        UsageError: if the file cannot be read, or something is wrong in it; the message names every mistake with the
            way out.
    """
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except RecursionError as error:
        raise UsageError(
            f"--runner-options {path!r} should be a YAML file; its values are nested too deeply"
        ) from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--runner-options {path!r} should be a YAML file that can be read: {reason}") from error
    if content is None:
        return []
    if not isinstance(content, _Entries):
        kind = type(content).__name__
        raise UsageError(f"--runner-options {path!r} should hold lines such as 'parallelism: 2', was: {kind}")
    options = _beam_options()
    arguments: list[str] = []
    mistakes = [f"{path}: {key}: it is there twice, keep one of them" for key in content.twice]
    for key, value in content.items():
        try:
            arguments += _option_of(str(key), options).arguments(value)
        except ValueError as error:
            mistakes.append(f"{path}: {key}: {error}")
    if mistakes:
        raise UsageError(*mistakes)
    return arguments


class _Entries(dict[Any, Any]):
    """A mapping of the file, and the keys that are there more than once, of which YAML keeps the last."""

    twice: tuple[object, ...] = ()


class _Loader(yaml.SafeLoader):
    """Reads plain values only, and notes repeated keys."""


def _entries(loader: _Loader, node: yaml.MappingNode) -> _Entries:
    entries = _Entries(loader.construct_mapping(node, deep=True))
    keys = [loader.construct_object(key) for key, _ in node.value]
    entries.twice = tuple(key for key in entries if keys.count(key) > 1)
    return entries


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _entries)


@dataclass(frozen=True, slots=True)
class _BeamOption:
    """One of Beam's options; ``action`` is None for those that only a job server knows."""

    flag: str
    action: argparse.Action | None

    def arguments(self, value: object) -> list[str]:
        """The command line for a value from the file.

        Raises:
            ValueError: if the option does not take it.
        """
        if value is None:
            raise ValueError("it has no value; give it one, or leave the line out")
        if self.action is not None and self.action.nargs == 0:
            return self._switch(value)
        if isinstance(value, list):
            if not self._may_repeat:
                raise ValueError(f"it takes one value, was: {value!r}")
            return [f"{self.flag}={self._text(one)}" for one in value]
        if self.action is None and isinstance(value, bool):
            return [self.flag] if value else []
        return [f"{self.flag}={self._text(value)}"]

    @property
    def _may_repeat(self) -> bool:
        """Whether the option gathers its values, as Beam's own kinds of action do, too."""
        return self.action is None or type(self.action) is not argparse._StoreAction

    def _switch(self, value: object) -> list[str]:
        if not isinstance(value, bool):
            raise ValueError(f"should be true or false, was: {value!r}")
        return [self.flag] if value else []

    def _text(self, value: object) -> str:
        text = json.dumps(value) if isinstance(value, bool | Mapping) else str(value)
        if self.action is None:
            return text
        try:
            read: Any = self.action.type(text) if callable(self.action.type) else text
        except (ValueError, TypeError, argparse.ArgumentTypeError) as error:
            kind = getattr(self.action.type, "__name__", "value of another kind")
            raise ValueError(f"should be {_KINDS.get(kind, kind)}, was: {value!r}") from error
        if self.action.choices is not None and read not in self.action.choices:
            raise ValueError(f"should be one of {', '.join(map(str, self.action.choices))}, was: {value!r}")
        return text


_KINDS = {"int": "a whole number", "float": "a number"}


def _option_of(key: str, options: Mapping[str, _BeamOption]) -> _BeamOption:
    """The option that a key names.

    Raises:
        ValueError: if there is none; the message names near ones.
    """
    name = key.replace("-", "_")
    if name in _OF_ATTRIBEAM:
        raise ValueError(f"it is given as {_OF_ATTRIBEAM[name]} on the command line, not here")
    if name not in options:
        near = get_close_matches(name, options, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "Beam's documentation of pipeline options lists them"
        raise ValueError(f"Beam has no such option; {hint}")
    return options[name]


def _beam_options() -> dict[str, _BeamOption]:
    """All options by name, with ``_`` for ``-``."""
    parsers: list[argparse.ArgumentParser] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    from_java = {name: _BeamOption(f"--{name}", None) for name in _JOB_SERVER_OPTIONS}
    return from_java | {name: _BeamOption(flag, action) for name, flag, action in _flags(parsers[0]._actions)}


def _flags(actions: Sequence[argparse.Action]) -> Iterator[tuple[str, str, argparse.Action]]:
    for action in actions:
        for flag in action.option_strings:
            if flag.startswith("--") and flag != "--help":
                yield flag.removeprefix("--").replace("-", "_"), flag, action
