"""A model's own chat template, as a prompt template: passages and question are the user's message.

The tokenizer renders one conversation with a mark for the user's message and with the start of the assistant's turn,
where the answer follows. What stands before and after the mark is the same for every row, so the chat template is used
once, when the model is loaded, and never meets a text of the log.
"""

from __future__ import annotations

from dataclasses import replace

import jinja2
from transformers import PreTrainedTokenizerFast

from attribution.prompts.prompt_template import PromptTemplate

USER_MESSAGE = PromptTemplate(question="Question: {question}")
_MARK = "\ufdd0\ufdd1\ufdd0"
_PROBE = 'Two words,\n"quoted" & <b>marked</b> {{ é }}.'
_DAY = {
    "%Y": "2024", "%y": "24", "%m": "07", "%B": "July", "%b": "Jul", "%d": "26", "%-d": "26", "%e": "26",
    "%A": "Friday", "%a": "Fri", "%H": "00", "%I": "12", "%p": "AM", "%M": "00", "%S": "00",
}  # fmt: skip
_CLOCK = (
    "{% macro strftime_now(format) %}{{ format"
    + "".join(f" | replace('{code}', '{value}')" for code, value in _DAY.items())
    + " }}{% endmacro %}\n"
)
"""In front of a template: what it calls for the time gives one day. The line end goes with the block before it."""


def chat_prompt_template(
    tokenizer: PreTrainedTokenizerFast, *, message: PromptTemplate = USER_MESSAGE
) -> PromptTemplate:
    """The prompt that the tokenizer's chat template makes of ``message``, up to where the assistant answers.

    A template that writes the day gets 26 July 2024, so that runs can be repeated; one that can think is told not to.

    Raises:
        ValueError: if there is no chat template, if it fails, or does not show the user's message once, as it is.
    """
    if not tokenizer.chat_template:
        raise ValueError("its tokenizer should have a chat template, has none; use --prompt-template plain")
    before, mark, after = _render(tokenizer, _MARK).partition(_MARK)
    if not mark or _render(tokenizer, _PROBE) != before + _PROBE + after:
        raise ValueError(
            "its chat template should show the user's message once and as it is, but leaves it out, repeats or changes "
            "it; use --prompt-template plain"
        )
    return replace(message, preamble=before + message.preamble, question=message.question + _doubled_braces(after))


def _render(tokenizer: PreTrainedTokenizerFast, text: str) -> str:
    try:
        rendered = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            chat_template=_CLOCK + tokenizer.get_chat_template(),
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
    except (jinja2.TemplateError, ValueError, TypeError, LookupError) as error:
        raise ValueError(f"its chat template fails: {error}; use --prompt-template plain") from error
    return str(rendered)


def _doubled_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
