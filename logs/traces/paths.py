"""How a trace becomes a row, as a user says: options, and JMESPaths to question, passages and answer, or presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from attribeam.schemas.errors import UsageError


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How a trace becomes a row; picklable.

    Attributes:
        question_path: JMESPath to the question, so for the other two.
        history: how many earlier messages of a conversation stand in front of the question.
        retrievals: which retrievals of a trace count: "all", "first" or "last".
        tool_outputs: take what tools returned as passages, too.
        passages_table: table with the texts of passages of which a trace has only the ids.
        preset: whose responses a log holds, see ``attribeam.logs.traces.providers``; None asks each record.
    """

    question_path: str | None = None
    passages_path: str | None = None
    answer_path: str | None = None
    history: int = 0
    retrievals: str = "all"
    tool_outputs: bool = False
    passages_table: str | None = None
    preset: str | None = None


Path = Callable[[object], object]
"""A JMESPath that was checked: gives what it finds in a value, None for nothing."""


class PathSet(NamedTuple):
    """The paths that a user gave, ready to search; None for what the shape of the records tells."""

    question: Path | None = None
    passages: Path | None = None
    answer: Path | None = None


PRESETS: Mapping[str, tuple[str, str, str]] = {
    "root": ("input.question || input.query || input", "output.documents || output.contexts", "output.answer"),
    "langchain": (
        "input.input || input.question || input.query",
        "observations[?type=='RETRIEVER'].output[] || output.context || output.source_documents",
        "output.answer || output.result || output.output",
    ),
    "langgraph": ("input.messages", "observations[?type=='TOOL' || type=='RETRIEVER'].output[]", "output.messages"),
    "llamaindex": (
        "input.query_str || input.query || input",
        "observations[?type=='RETRIEVER'].output.nodes[] || output.source_nodes",
        "output.response || output",
    ),
    "metadata": ("input", "metadata.contexts || metadata.documents || metadata.passages", "output"),
}
"""Paths to question, passages and answer in records of free JSON; docs/importing_logs.md shows what each is for."""


def path_set(options: TraceOptions) -> PathSet:
    """The paths of the options, checked.

    Raises:
        UsageError: if a path is no JMESPath, or the library is not installed.
    """
    given = {
        "--question-path": options.question_path,
        "--passages-path": options.passages_path,
        "--answer-path": options.answer_path,
    }
    return PathSet(*(None if text is None else compiled_path(flag, text) for flag, text in given.items()))


@cache
def compiled_path(flag: str, text: str) -> Path:
    """A JMESPath that ``flag`` gave.

    Raises:
        UsageError: if it is none, or the library is not installed.
    """
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError as error:
        raise UsageError(f"{flag} needs the extra 'traces': pip install 'attribeam[traces]'") from error
    try:
        compiled = jmespath.compile(text)
    except JMESPathError as error:
        found = " ".join(str(error).split())
        raise UsageError(
            f'{flag} should be a JMESPath such as "output.answer" or "observations[?type==\'RETRIEVER\'].output[]", '
            f"was {text!r}: {found}"
        ) from error

    def search(value: object) -> object:
        try:
            found: object = compiled.search(value)
        except JMESPathError:  # a function in it does not take the value at hand
            return None
        return found

    return search
