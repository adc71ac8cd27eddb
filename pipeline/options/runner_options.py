"""Options of a Beam runner: from the command line as they are, from a file as a table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from attribeam.schemas.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from attribeam.pipeline.options.audit_options import RunOptions


def beam_arguments(table: Mapping[str, object]) -> Iterator[str]:
    """The command line of a table such as ``{"parallelism": 4, "environment_config": {"command": "/boot"}}``.

    A list gives an option several times, a table is written as JSON, true and false turn a switch on and off.
    """
    for key, value in table.items():
        name = key.replace("-", "_")
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bool):
                yield from [f"--{name}"] * item
            else:
                yield f"--{name}={json.dumps(item) if isinstance(item, Mapping) else item}"


def beam_options(options: RunOptions) -> PipelineOptions:
    """Beam's own options, which its file systems get, too: they are asked before there is a pipeline.

    Beam drops an option that it does not know without a word, so a note names it; the runner's Java half may have it.

    Raises:
        UsageError: if Beam has no such runner, or an option does not take its value.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners import create_runner

    parsers: list[argparse.ArgumentParser] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    parsers[0].error = _refuse  # type: ignore[method-assign]
    known = [flag for action in parsers[0]._actions for flag in action.option_strings]
    for argument in parsers[0].parse_known_args(options.beam_arguments)[1]:
        if argument.startswith("--"):
            hint = did_you_mean(flag := argument.partition("=")[0], known)
            options.messages.say(f"Beam's Python half has no option {flag}{'; ' * bool(hint)}{hint}")
    found = PipelineOptions([f"--runner={options.runner}", *options.beam_arguments])
    try:
        create_runner(options.runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise UsageError(f"--runner {options.runner!r} is none of Beam's: {error}") from error
    FileSystems.set_options(found)
    return found


def _refuse(message: str) -> NoReturn:
    raise UsageError(f"Beam does not take this option as it is: {message}")
