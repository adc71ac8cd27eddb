"""``--prompt-template``: which prompt a model gets; its own chat template is one choice.

A chat template shows passages and question as the user's message. The tokenizer renders one conversation with a mark
for that message and with the start of the assistant's turn, where the answer follows. What stands before and after the
mark is the same for every row, so the chat template is used once, when the model is loaded, and never meets a text of
the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attribeam.attribution.prompts.jinja_template import JinjaTemplate, render_chat
from attribeam.attribution.prompts.prompt_template import (
    CHAT,
    PAPER,
    PAPER_TEMPLATE,
    PLAIN,
    PLAIN_TEMPLATE,
    PromptTemplate,
    RenderedPrompt,
    TemplateText,
)
from attribeam.schemas import Passage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_NAMED_TEMPLATES = {PLAIN: PLAIN_TEMPLATE, PAPER: PAPER_TEMPLATE}
_JINJA_SUFFIXES = (".jinja", ".jinja2", ".j2")


class Template(Protocol):
    """What renders prompts."""

    @property
    def digest(self) -> str:
        """Equal digests render equal prompts."""

    def render(self, *, question: str, passages: Sequence[Passage], first_index: int = 0) -> RenderedPrompt:
        """The prompt, up to where the answer begins."""


@dataclass(frozen=True, slots=True)
class ChosenTemplate:
    """A template under the name by which it was chosen.

    Attributes:
        name: "chat", "plain", "paper", "model" for the model directory's own, or the file's name.
        add_special_tokens: whether the tokenizer adds BOS and the like; None for unless the template has one in front.
    """

    name: str
    template: Template
    add_special_tokens: bool | None = None


def choose_template(
    option: str | TemplateText | None, *, default: PromptTemplate | None, tokenizer: PreTrainedTokenizerFast | None
) -> ChosenTemplate:
    """The user's template: a name, a Jinja file (by its suffix), a JSON file, or what one holds; else the model's own.

    Without either, a model gets the chat template of its tokenizer if there is one, else the plain template.

    Raises:
        ValueError: if the file cannot be read or holds no valid template, or the chat template cannot be used.
    """
    if option is None and default is not None:
        return ChosenTemplate("model", default)
    if option is None:
        option = CHAT if tokenizer is not None and tokenizer.chat_template else PLAIN
    if isinstance(option, TemplateText):
        return ChosenTemplate(option.name, _template_from_text(option))
    if option == CHAT:
        return ChosenTemplate(CHAT, chat_prompt_template(tokenizer), add_special_tokens=False)
    if option in _NAMED_TEMPLATES:
        return ChosenTemplate(option, _NAMED_TEMPLATES[option])
    return ChosenTemplate(Path(option).name, _template_from_file(option))


def _template_from_file(path: str) -> Template:
    return JinjaTemplate.from_file(path) if _is_jinja(path) else PromptTemplate.from_file(path)


def _template_from_text(shipped: TemplateText) -> Template:
    where = f"prompt template {shipped.name}"
    if _is_jinja(shipped.name):
        return JinjaTemplate.from_text(shipped.text, where=where)
    return PromptTemplate.from_text(shipped.text, where=where)


def _is_jinja(name: str) -> bool:
    return name.lower().endswith(_JINJA_SUFFIXES)


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

    A template that writes the date gets 26 July 2024, so that runs are repeatable; thinking is switched off.

    Raises:
        ValueError: if there is no chat template, or it fails or does not show the user's message once and unchanged.
    """
    if tokenizer is None or not tokenizer.chat_template:
        raise ValueError("its tokenizer should have a chat template, has none; use --prompt-template plain")
    before, mark, after = _render_chat(tokenizer, _MESSAGE_MARK).partition(_MESSAGE_MARK)
    if not mark or _render_chat(tokenizer, _PROBE) != before + _PROBE + after:
        raise ValueError(
            "its chat template should show the user's message once and as it is, but leaves it out, repeats or changes "
            "it; use --prompt-template plain"
        )
    return replace(message, preamble=before + message.preamble, question=message.question + _doubled_braces(after))


def _render_chat(tokenizer: PreTrainedTokenizerFast, text: str) -> str:
    source = _CLOCK + tokenizer.get_chat_template()
    try:
        return render_chat(source, message=text, special_tokens=tokenizer.special_tokens_map)
    except ValueError as error:
        raise ValueError(f"its chat template fails: {error}; use --prompt-template plain") from error


def _doubled_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
