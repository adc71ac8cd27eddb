"""``--prompt-template``: which prompt a model gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from transformers import PreTrainedTokenizerFast

from attribution.prompts.chat_template import chat_prompt_template
from attribution.prompts.jinja_template import JinjaTemplate
from attribution.prompts.prompt_template import PAPER_TEMPLATE, PLAIN_TEMPLATE, PromptTemplate
from attribution.prompts.rendered_prompt import RenderedPrompt
from attribution.prompts.template_names import CHAT, PAPER, PLAIN
from attribution.prompts.template_text import TemplateText
from schemas import Passage

_NAMED = {PLAIN: PLAIN_TEMPLATE, PAPER: PAPER_TEMPLATE}
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
    option: str | TemplateText | None, *, default: PromptTemplate | None, tokenizer: PreTrainedTokenizerFast
) -> ChosenTemplate:
    """The user's template: a name, a Jinja file (by its suffix), a JSON file, or what one holds; else the model's own.

    A model without either gets its chat template where its tokenizer has one, and the plain template where not.

    Raises:
        ValueError: if the file cannot be read or holds no valid template, or the chat template cannot be used.
    """
    if option is None and default is not None:
        return ChosenTemplate("model", default)
    if option is None:
        option = CHAT if tokenizer.chat_template else PLAIN
    if isinstance(option, TemplateText):
        return ChosenTemplate(option.name, _from_text(option))
    if option == CHAT:
        return ChosenTemplate(CHAT, chat_prompt_template(tokenizer), add_special_tokens=False)
    if option in _NAMED:
        return ChosenTemplate(option, _NAMED[option])
    return ChosenTemplate(Path(option).name, _from_file(option))


def _from_file(path: str) -> Template:
    return JinjaTemplate.from_file(path) if _is_jinja(path) else PromptTemplate.from_file(path)


def _from_text(shipped: TemplateText) -> Template:
    where = f"prompt template {shipped.name}"
    if _is_jinja(shipped.name):
        return JinjaTemplate.from_text(shipped.text, where=where)
    return PromptTemplate.from_text(shipped.text, where=where)


def _is_jinja(name: str) -> bool:
    return name.lower().endswith(_JINJA_SUFFIXES)
