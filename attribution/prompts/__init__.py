"""The prompt: how passages, question and answer become one text, and where each of them stands in it.

A template is chosen by its name (``--prompt-template``) or is a file, which may have been read already. Rendering it
gives the prompt's text with the places of the passages' texts, their titles and the question.

A chat template shows passages and question as the user's message. The tokenizer renders one conversation with a mark
for that message and with the start of the assistant's turn, where the answer follows. What stands before and after the
mark is the same for every row, so the chat template is used once, when the model is loaded, and never meets a text of
the log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, TypeAlias

from pydantic_core import from_json

from attribeam.schemas import Passage
from attribeam.schemas.files import read_regular

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from attribeam.attribution.prompts.jinja_template import JinjaTemplate

CHAT = "chat"
PLAIN = "plain"
PAPER = "paper"
TEMPLATE_NAMES = (CHAT, PLAIN, PAPER)


@dataclass(frozen=True, slots=True)
class TemplateText:
    """What a template file holds, and its name without its folder; the suffix says which kind it is."""

    name: str
    text: str

    @classmethod
    def from_file(cls, path: str | Path) -> TemplateText:
        """The file's text, not checked; ``ValueError`` if it cannot be read."""
        try:
            return cls(Path(path).name, read_regular(Path(path)).decode())
        except ValueError as error:
            raise ValueError(f"prompt template {path} should be a readable text file: {error}") from error


TextKey: TypeAlias = tuple[int, bool]
"""Which text of a row it is: the passage's index, and whether it is its title."""
QUESTION: TextKey = (-1, False)
PromptPart: TypeAlias = tuple[str, TextKey | None]
"""A text of the row with its key, or what the template wrote itself."""


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A rendered prompt without the answer; ``texts`` are the half-open code points of titles, texts and question.

    They are in the order of the page, disjoint and not empty. A key's passage counts in the whole row, also where the
    prompt shows only some of its passages.
    """

    text: str
    texts: Mapping[TextKey, tuple[int, int]]

    @classmethod
    def of_parts(cls, parts: Sequence[PromptPart]) -> RenderedPrompt:
        """The page on which the parts stand one after the other."""
        ends = list(accumulate(len(text) for text, _ in parts))
        texts = {key: (end - len(text), end) for (text, key), end in zip(parts, ends, strict=True) if key and text}
        return cls("".join(text for text, _ in parts), texts)

    def literal_ranges(self) -> Iterator[tuple[int, int]]:
        """The ranges that the template itself wrote, ascending; no two of them touch."""
        last = 0
        for start, end in [*self.texts.values(), (len(self.text), len(self.text))]:
            if last < start:
                yield last, start
            last = end


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """Preamble, passages and question, in this order; the answer follows the question's format directly.

    The ``preamble`` is plain text: braces in it mean nothing. ``titled_passage``, for a passage with a title, has
    {title} and {text} once each, ``passage`` has {text} once, both {index} (from 1) at will. ``question`` has
    {question} once. Literal braces in these formats are doubled. Raises ``ValueError`` if a format lacks a field,
    repeats one, or names another.
    """

    preamble: str = ""
    titled_passage: str = "{title}\n{text}\n\n"
    passage: str = "{text}\n\n"
    question: str = "Question: {question}\nAnswer: "

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, str):
                raise ValueError(f"prompt template: {name!r} should be a string, was: {type(value).__name__}")
        _check_format("titled_passage", self.titled_passage, needed=("title", "text"), allowed=("index",))
        _check_format("passage", self.passage, needed=("text",), allowed=("index",))
        _check_format("question", self.question, needed=("question",), allowed=())

    @classmethod
    def from_fields(cls, values: Mapping[str, str], *, where: str) -> PromptTemplate:
        """The template of a JSON object; missing fields keep their defaults.

        Raises ``ValueError`` if it is no object, has other fields, or a bad format; the message begins with ``where``.
        """
        known = [field.name for field in fields(cls)]
        if not isinstance(values, Mapping) or not set(values) <= set(known):
            given = sorted(values) if isinstance(values, Mapping) else type(values).__name__
            raise ValueError(f"{where}: a prompt template should have the fields {known}, has: {given}")
        try:
            return cls(**values)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error

    @property
    def digest(self) -> str:
        """The first 16 hex digits of a SHA-256 over the template: equal digests render equal prompts."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    def render(self, *, question: str, passages: Sequence[Passage], first_index: int = 0) -> RenderedPrompt:
        """The prompt's text, up to where the answer begins. Texts are data: braces in them mean nothing.

        ``first_index`` is the place of ``passages[0]`` in the row, if they are not all of the row's passages.
        """
        parts: list[PromptPart] = [(self.preamble, None)]
        for index, passage in enumerate(passages, first_index):
            title = (passage.title or "", (index, True))
            values = {"text": (passage.text, (index, False)), "title": title, "index": (str(index + 1), None)}
            parts += _filled(self.titled_passage if passage.title else self.passage, values)
        parts += _filled(self.question, {"question": (question, QUESTION)})
        return RenderedPrompt.of_parts(parts)


def _filled(text: str, values: Mapping[str, PromptPart]) -> Iterator[PromptPart]:
    """What stands in a format, with its fields filled in."""
    for literal, name in _parse_format(text):
        yield literal, None
        if name is not None:
            yield values[name]


@lru_cache(maxsize=64)
def _parse_format(text: str) -> tuple[tuple[str, str | None], ...]:
    """(literal text, name of the field behind it or None) pairs."""
    pairs = []
    for literal, name, specification, conversion in Formatter().parse(text):
        if specification or conversion:
            raise ValueError(f"fields should be bare, like {{text}}, but {name!r} has a format or a conversion")
        pairs.append((literal, name))
    return tuple(pairs)


def _check_format(label: str, text: str, *, needed: Sequence[str], allowed: Sequence[str]) -> None:
    try:
        names = [name for _, name in _parse_format(text) if name is not None]
    except ValueError as error:
        raise ValueError(f"prompt template: {label!r}: {error}; double literal braces") from error
    if not (all(names.count(name) == 1 for name in needed) and set(names) <= {*needed, *allowed}):
        optional = f" and at will {_braced(allowed)}" if allowed else ""
        raise ValueError(
            f"prompt template: {label!r} should have the fields {_braced(needed)} once each{optional}, "
            f"has: {_braced(names) or 'none'}"
        )


def _braced(names: Sequence[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


PLAIN_TEMPLATE = PromptTemplate()
"""Title and text of each passage, the question, and "Answer: "."""

PAPER_TEMPLATE = PromptTemplate(question="{question}\n")
"""The paper's d + q + r (Section 3.1): documents first, then the question, then the response, and no labels.

The paper prints no prompt; it names these parts and their order, and refers to earlier work for the wording.
"""


_NAMED_TEMPLATES = {PLAIN: PLAIN_TEMPLATE, PAPER: PAPER_TEMPLATE}
_JINJA_SUFFIXES = (".jinja", ".jinja2", ".j2")


@dataclass(frozen=True, slots=True)
class ChosenTemplate:
    """A template under the name by which it was chosen: "model" for the model directory's own, or the file's name.

    ``add_special_tokens``: whether the tokenizer adds BOS and the like; None for unless the template has one in front.
    """

    name: str
    template: PromptTemplate | JinjaTemplate
    add_special_tokens: bool | None = None


def choose_template(
    option: str | TemplateText | None, *, default: PromptTemplate | None, tokenizer: PreTrainedTokenizerFast | None
) -> ChosenTemplate:
    """The user's template: a name, a Jinja file (by its suffix), a JSON file, or what one holds; else the model's own.

    Without either, a model gets the chat template of its tokenizer if there is one, else the plain template. Raises
    ``ValueError`` if the file cannot be read or holds no valid template, or the chat template cannot be used.
    """
    if option is None and default is not None:
        return ChosenTemplate("model", default)
    if option is None:
        option = CHAT if tokenizer is not None and tokenizer.chat_template else PLAIN
    if option == CHAT:
        return ChosenTemplate(CHAT, chat_prompt_template(tokenizer), add_special_tokens=False)
    if isinstance(option, str) and option in _NAMED_TEMPLATES:
        return ChosenTemplate(option, _NAMED_TEMPLATES[option])
    file = option if isinstance(option, TemplateText) else TemplateText.from_file(option)
    where = f"prompt template {file.name if file is option else option}"
    if file.name.lower().endswith(_JINJA_SUFFIXES):
        from attribeam.attribution.prompts.jinja_template import JinjaTemplate  # it builds on this module

        return ChosenTemplate(file.name, JinjaTemplate(file.text, where))
    try:
        values = from_json(file.text)
    except ValueError as error:
        raise ValueError(f"{where} should be a readable JSON file: {error}") from error
    return ChosenTemplate(file.name, PromptTemplate.from_fields(values, where=where))


USER_MESSAGE = PromptTemplate(question="Question: {question}")
_MESSAGE_MARK = "\ufdd0\ufdd1\ufdd0"
_PROBE = 'Two words,\n"quoted" & <b>marked</b> {{ é }}.'
_DAY_CODES = {
    "%Y": "2024", "%y": "24", "%m": "07", "%B": "July", "%b": "Jul", "%d": "26", "%-d": "26", "%e": "26",
    "%A": "Friday", "%a": "Fri", "%H": "00", "%I": "12", "%p": "AM", "%M": "00", "%S": "00",
}  # fmt: skip
_CLOCK = (
    "{% macro strftime_now(format) %}{{ format"
    + "".join(f" | replace('{code}', '{value}')" for code, value in _DAY_CODES.items())
    + " }}{% endmacro %}\n"
)
"""In front of a template: what it calls for the time gives one day. The line end goes with the block before it."""


def chat_prompt_template(
    tokenizer: PreTrainedTokenizerFast | None, *, message: PromptTemplate = USER_MESSAGE
) -> PromptTemplate:
    """The prompt that the tokenizer's chat template makes of ``message``, up to where the assistant answers.

    A template that writes the date gets 26 July 2024, so that runs are repeatable; thinking is switched off. Raises
    ``ValueError`` if there is no chat template, or it fails or does not show the user's message once and unchanged.
    """
    if tokenizer is None or not tokenizer.chat_template:
        raise ValueError("its tokenizer should have a chat template, has none; use --prompt-template plain")
    from attribeam.attribution.prompts.jinja_template import render_chat  # it builds on this module

    before, mark, after = render_chat(tokenizer, _CLOCK, _MESSAGE_MARK).partition(_MESSAGE_MARK)
    if not mark or render_chat(tokenizer, _CLOCK, _PROBE) != before + _PROBE + after:
        raise ValueError(
            "its chat template should show the user's message once and as it is, but leaves it out, repeats or changes "
            "it; use --prompt-template plain"
        )
    question_end = after.replace("{", "{{").replace("}", "}}")
    return replace(message, preamble=before + message.preamble, question=message.question + question_end)
