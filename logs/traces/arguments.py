"""The options of ``attribeam import`` that say how traces become rows."""

from __future__ import annotations

import argparse

from attribeam.logs.traces.paths import PRESETS, Preset, TraceOptions
from attribeam.logs.traces.providers import PROVIDERS

EVERY_MESSAGE = 2**31
_PATHS = ("question_path", "passages_path", "answer_path", "preset")
_NAMES = (*_PATHS, "history", "retrievals", "tool_outputs", "passages_table", "guess")


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options; what is not given is None."""
    add = parser.add_argument_group("logs of trace stores").add_argument
    for name in ("question", "passages", "answer"):
        add(f"--{name}-path", metavar="JMESPATH", help=f"path to the {name}, such as {_EXAMPLES[name]}")
    add("--preset", choices=[*PRESETS, *PROVIDERS], help="paths under one name; see docs/importing_logs.md")
    add(
        "--history",
        type=_message_count,
        metavar="N",
        help='put the last N messages of a conversation, or "all", before its last question (default: 0)',
    )
    add("--retrievals", choices=["all", "first", "last"], help="which retrievals of a trace count (default: all)")
    add("--tool-outputs", action="store_true", default=None, help="take what tools returned as passages, too")
    add("--passages-table", metavar="FILE", help="table of passage_id and text, for traces that have only ids")
    add("--guess", action="store_true", default=None, help="look at the first records, print what is where, and stop")


_EXAMPLES = {
    "question": "input.question",
    "passages": "observations[?type=='RETRIEVER'].output[]",
    "answer": "output.answer",
}


def trace_options(arguments: argparse.Namespace) -> TraceOptions:
    """The options; a path that is given goes before that of the preset."""
    preset = PRESETS.get(arguments.preset, Preset())
    default = TraceOptions()
    return TraceOptions(
        question_path=arguments.question_path or preset.question,
        passages_path=arguments.passages_path or preset.passages,
        answer_path=arguments.answer_path or preset.answer,
        history=default.history if arguments.history is None else arguments.history,
        retrievals=arguments.retrievals or default.retrievals,
        tool_outputs=bool(arguments.tool_outputs),
        passages_table=arguments.passages_table,
        preset=arguments.preset if arguments.preset in PROVIDERS else None,
    )


def given_trace_options(arguments: argparse.Namespace) -> list[str]:
    """The flags that were given, for a format that has no use for them."""
    return [f"--{name.replace('_', '-')}" for name in _NAMES if getattr(arguments, name) is not None]


def _message_count(text: str) -> int:
    if text == "all":
        return EVERY_MESSAGE
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'should be a number of messages or "all", was: {text!r}')
    return int(text)
