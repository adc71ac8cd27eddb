"""Where the fields of a row stand: as a user says, or by their usual names.

Where a user says that question, passages and answer stand: JMESPath, and presets of three paths.

Which member of a row holds a field: by its usual names, what an application made before what it should have made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Generic, Protocol, TypeVar

from attribeam.logs.columns import MADE
from attribeam.logs.traces.spans import TraceOptions
from attribeam.logs.traces.values import Record, by_name, is_nothing, opened_text, shown_keys, words
from attribeam.schemas.errors import UsageError


class Path(Protocol):
    """A JMESPath expression that was checked."""

    def search(self, value: object) -> object:
        """What it finds, None for nothing."""


@dataclass(frozen=True, slots=True)
class PathSet:
    """The paths that a user gave, ready to search; None for what the shape of the records tells."""

    question: Path | None = None
    passages: Path | None = None
    answer: Path | None = None


@dataclass(frozen=True, slots=True)
class Preset:
    """Three paths under one name; None for what the shape tells."""

    question: str | None = None
    passages: str | None = None
    answer: str | None = None


PRESETS: Mapping[str, Preset] = {
    "root": Preset("input.question || input.query || input", "output.documents || output.contexts", "output.answer"),
    "langchain": Preset(
        "input.input || input.question || input.query",
        "observations[?type=='RETRIEVER'].output[] || output.context || output.source_documents",
        "output.answer || output.result || output.output",
    ),
    "langgraph": Preset(
        "input.messages", "observations[?type=='TOOL' || type=='RETRIEVER'].output[]", "output.messages"
    ),
    "llamaindex": Preset(
        "input.query_str || input.query || input",
        "observations[?type=='RETRIEVER'].output.nodes[] || output.source_nodes",
        "output.response || output",
    ),
    "metadata": Preset("input", "metadata.contexts || metadata.documents || metadata.passages", "output"),
}
"""Presets for records of free JSON; docs/importing_logs.md shows what each is for."""


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
        path: Path = _Searched(jmespath.compile(text))
    except JMESPathError as error:
        found = " ".join(str(error).split())
        raise UsageError(
            f'{flag} should be a JMESPath such as "output.answer" or "observations[?type==\'RETRIEVER\'].output[]", '
            f"was {text!r}: {found}"
        ) from error
    return path


@dataclass(frozen=True, slots=True)
class _Searched:
    """A path that finds nothing where a function in it does not take the value at hand."""

    compiled: Path

    def search(self, value: object) -> object:
        from jmespath.exceptions import JMESPathError

        try:
            return self.compiled.search(value)
        except JMESPathError:
            return None


_T = TypeVar("_T")
_HOLDERS = ("vars", "item", "sample", "test_case", "row", "record", "example", "fields", "run", "payload", "data")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a field in snake case, each group in the order in which they count.

    Attributes:
        field: what they are names of.
        made: what the application gave or was given.
        either: may be that, or what somebody wrote beside it.
        last: read only where the record has none of the others, such as what should have been answered.
        holders: members in which the fields of a row may stand one level deeper.
        may_be_null: a member that is null says nothing, so that another one counts; otherwise it is empty on purpose,
            and nothing of a later group stands in its place.
    """

    field: str
    made: tuple[str, ...]
    either: tuple[str, ...]
    last: tuple[str, ...] = ()
    holders: tuple[str, ...] = _HOLDERS
    may_be_null: bool = False


QUESTION = Names(
    "question",
    made=("question", "query", "user_input", "user_query", "user_question", "query_str", "question_text"),
    either=("input", "inputs", "user_message", "user_prompt", "input_text"),
    last=("request", "prompt", "messages", "instruction"),
    may_be_null=True,
)
PASSAGES = Names(
    "passages",
    made=MADE["passages"],
    either=words("passages contexts documents docs chunks ctxs nodes context passage document sources knowledge"),
    last=("reference_contexts", "expected_retrieved_context", "expected_context", "ground_truth_context"),
    holders=(*_HOLDERS, *words("outputs output response result inputs input metadata additional_metadata")),
)
PASSAGE_IDS = Names(
    "passage_ids",
    made=("retrieved_context_ids", "retrieved_document_ids", "retrieved_ids"),
    either=("passage_ids", "document_ids", "context_ids"),
)
ANSWER = Names(
    "answer",
    made=MADE["answer"],
    either=("answer", "output", "outputs", "result", "final_answer", "reply", "multi_responses", "responses"),
    last=words(
        "answers expected ideal ideal_answer ground_truth reference reference_answer expected_output "
        "expected_answer expected_response correct_answer gold_answer golden_answer reference_outputs "
        "ground_truths"
    ),
)


@dataclass(frozen=True, slots=True)
class Choice(Generic[_T]):
    """What was read for a field.

    Attributes:
        name: where it stands; "" where the record has no member for it.
        raw: what stands there.
        value: what was read of it; None where it says nothing.
        others: the other members that could have been meant, and say something else.
        is_last: it is one of ``Names.last``, so that it may be another thing than the field.
    """

    name: str = ""
    raw: object = None
    value: _T | None = None
    others: tuple[str, ...] = ()
    is_last: bool = False


def chosen(whole: Record, names: Names, read: Callable[[str, object], _T | None]) -> Choice[_T]:
    """The member that counts: the first that says something, group by group, at the top or else in a holder.

    ``read`` gives what the member of a name says, None where it says nothing.
    """
    first: Choice[_T] = Choice()
    for place, record in _places(whole, names.holders):
        found = _chosen(place, record, names, read)
        if found.value is not None and not found.is_last:
            return found
        if not first.name or (first.value is None and found.value is not None and not _is_meant(first, names)):
            first = found
    return first


def member(whole: Record, names: tuple[str, ...]) -> tuple[str, object]:
    """Name and value of the first of these members that is there, ("", None) where none is."""
    own = by_name(whole)
    there = (own[name] for name in names if name in own)
    return next(((name, whole[name]) for name in there if not is_nothing(whole[name])), ("", None))


def looked_for(whole: Record, names: Names) -> str:
    """The names that a field is looked for under, and those that a record has."""
    usual = ", ".join((*names.made, *names.either, *names.last))
    return f"none of {usual}; the row has {shown_keys(whole) or 'no members'}"


def choice_note(choice: Choice[_T], names: Names) -> str | None:
    """What to tell of a choice; None where nothing else could be meant."""
    if choice.value is None or not (choice.others or (choice.is_last and not names.may_be_null)):
        return None
    why = f"not from {' or '.join(choice.others)}" if choice.others else "since no more usual field is there"
    return f"{names.field} read from {choice.name}, {why}; --{names.field}-path names another"


def _places(whole: Record, holders: tuple[str, ...]) -> Iterator[tuple[str, Record]]:
    yield "", whole
    own = by_name(whole)
    for holder in (own[name] for name in holders if name in own):
        value = opened_text(whole[holder])
        if isinstance(value, dict):
            yield f"{holder}.", value


def _chosen(place: str, record: Record, names: Names, read: Callable[[str, object], _T | None]) -> Choice[_T]:
    own = by_name(record)
    unsaid: Choice[_T] = Choice()
    for group in (names.made, names.either, names.last):
        there = [own[name] for name in group if name in own]
        said = [(name, value) for name in there if (value := read(name, record[name])) is not None]
        if said:
            (name, value), *_ = said
            others = () if group is names.last else _others(record, own, names, name, value, read)
            others = tuple(place + one for one in others)
            return Choice(place + name, record[name], value, others, group is names.last)
        for name in there:
            unsaid = unsaid if unsaid.name else Choice(place + name, record[name])
            if _is_meant(Choice(name, record[name]), names):
                others = tuple(place + one for one in _others(record, own, names, name, None, read))
                return Choice(place + name, record[name], others=others)
    return unsaid


def _others(
    record: Record,
    own: dict[str, str],
    names: Names,
    name: str,
    value: _T | None,
    read: Callable[[str, object], _T | None],
) -> tuple[str, ...]:
    could = (own[one] for one in (*names.made, *names.either) if one in own)
    return tuple(one for one in could if one != name and read(one, record[one]) not in (None, value))


def _is_meant(unsaid: Choice[_T], names: Names) -> bool:
    """Whether a member that says nothing is empty on purpose."""
    return not names.may_be_null and _is_empty(unsaid.raw)


def _is_empty(value: object) -> bool:
    return is_nothing(value) or value == [] or (isinstance(value, str) and not value.strip())
