"""Prompt templates in Jinja, rendered in Jinja's sandbox, as transformers renders a chat template.

The user's file is rendered with one mark for each text, and the texts take the places of their marks. So where they
stand is known by construction, whatever they contain. Then the file is rendered with the texts themselves: only where
both are equal has the template shown the texts as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.nodes import Getattr, Name
from jinja2.sandbox import ImmutableSandboxedEnvironment

from attribeam.attribution.prompts import QUESTION, PromptPart, RenderedPrompt
from attribeam.schemas import Passage, Reason, RowFault

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_ENVIRONMENT = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, extensions=["jinja2.ext.loopcontrols"]
)
_FAILURES = (
    jinja2.TemplateError,
    SyntaxError,  # of the Python that a template becomes, such as a keyword twice
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
)
_TOO_LARGE = "it asks for more memory than there is"


class RenderError(ValueError):
    """A template fails; the message never holds a text that it was to show, ``detail`` may."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """One passage as a template sees it; ``title`` is empty if there is none, ``index`` counts from 1."""

    title: str
    text: str
    index: int


def render_prompt(source: str, *, texts: Sequence[str], first_index: int) -> str:
    """What a template makes of ``passages`` and ``question``; the first passage has ``first_index`` (from 0) in its
    row.

    ``texts`` are title and text of each passage, the question last. Raises ``RenderError`` if the template fails; the
    message names the kind of error.
    """
    *pairs, question = texts
    numbered = enumerate(zip(pairs[::2], pairs[1::2], strict=True), first_index + 1)
    passages = [ShownPassage(title, text, index) for index, (title, text) in numbered]
    try:
        return _compiled(source).render(passages=passages, question=question)
    except _FAILURES as error:
        detail = f": {error.message}" if isinstance(error, jinja2.UndefinedError) else ""
        raise RenderError(f"it should render every row, fails with {type(error).__name__}", detail) from error


def render_chat(tokenizer: PreTrainedTokenizerFast, preamble: str, message: str) -> str:
    """A user's message as the chat template renders it behind ``preamble``, with the start of the assistant's turn.

    Raises ``ValueError`` if the template fails.
    """
    from transformers.utils.chat_template_utils import render_jinja_template

    special_tokens: dict[str, Any] = tokenizer.special_tokens_map
    try:
        rendered: Any = render_jinja_template(  # annotated as text, but gives a list of texts and one of token masks
            conversations=[[{"role": "user", "content": message}]],
            chat_template=preamble + tokenizer.get_chat_template(),
            add_generation_prompt=True,
            enable_thinking=False,
            **special_tokens,
        )
    except (*_FAILURES, MemoryError) as error:
        fault = _TOO_LARGE if isinstance(error, MemoryError) else error
        raise ValueError(f"its chat template fails: {fault}; use --prompt-template plain") from error
    return str(rendered[0][0])


_compiled = lru_cache(maxsize=8)(_ENVIRONMENT.from_string)
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_PROBE = Passage(text=f'  A "probe" & <b>É</b> {{{{ x }}}}\r\n{"word " * 4000}\n ', title=" The Title\t")
_REQUEST = "show every passage's text and the question once each and as they are, and titles at most once"


@dataclass(frozen=True)
class JinjaTemplate:
    """A template that gets ``passages``, each with ``title``, ``text`` and ``index``, and the ``question``.

    It runs in Jinja's sandbox, without the newline at the end of its file. The answer follows directly. ``where``
    begins the messages. Raises ``ValueError`` if it is not a Jinja template, or does not show the texts of a sample row
    unchanged.
    """

    source: str
    where: str = field(default="the prompt template", compare=False)

    def __post_init__(self) -> None:
        try:
            self._check()
        except ValueError as error:
            detail = error.detail if isinstance(error, RenderError) else ""
            raise ValueError(f"{self.where}: {error}{detail}") from error
        except MemoryError:
            raise ValueError(f"{self.where}: {_TOO_LARGE}, for a sample row; make it smaller") from None

    def _check(self) -> None:
        if _OPEN in self.source or _CLOSE in self.source:
            raise ValueError("it should hold no U+FDD0 and no U+FDD1, which stand for texts")
        try:
            parsed = _ENVIRONMENT.parse(self.source)
        except jinja2.TemplateSyntaxError as error:
            raise ValueError(f"line {error.lineno}: {error.message}") from error
        except RecursionError as error:
            raise ValueError("it should nest less deeply") from error
        counters = {"index", "index0", "revindex", "revindex0"}
        for node in parsed.find_all(Getattr):
            if isinstance(node.node, Name) and node.node.name == "loop" and node.attr in counters:
                raise ValueError(
                    f"line {node.lineno}: loop.{node.attr} should be passage.index: a window shows some passages only"
                )
        for passages in ([_PROBE, Passage("Untitled.")], [Passage("Untitled.")], [_PROBE]):
            self._checked_render(_PROBE.text[:40], passages, first_index=3)

    @property
    def digest(self) -> str:
        """The first 16 hex digits of a SHA-256 over the template: equal digests render equal prompts."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]

    def render(self, *, question: str, passages: Sequence[Passage], first_index: int = 0) -> RenderedPrompt:
        """As ``PromptTemplate.render``.

        Raises ``RowFault`` TEMPLATE_FAILED if the template does not show this row's texts as they are; the message says
        which template and what kind of error, and holds no text.
        """
        try:
            return self._checked_render(question, passages, first_index)
        except ValueError as error:
            raise RowFault(Reason.TEMPLATE_FAILED, f"{self.where}: {error}") from error

    def _checked_render(self, question: str, passages: Sequence[Passage], first_index: int) -> RenderedPrompt:
        texts = [text for passage in passages for text in (passage.title or "", passage.text)] + [question]
        marks = [f"{_OPEN}{number}{_CLOSE}" if text else "" for number, text in enumerate(texts)]
        marked = render_prompt(self.source, texts=marks, first_index=first_index)
        prompt = _put_texts(marked, texts, first_index)
        if render_prompt(self.source, texts=texts, first_index=first_index) != prompt.text:
            raise ValueError(f"it should {_REQUEST}, but depends on a text or changes it; leave filters out")
        return prompt


def _put_texts(marked: str, texts: Sequence[str], first_index: int) -> RenderedPrompt:
    """The page with each mark replaced by the text of its number."""
    pieces = _MARK.split(marked)
    literals, numbers = pieces[::2], [int(number) for number in pieces[1::2]]
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"it should {_REQUEST}, but repeats one")
    titles = range(0, len(texts) - 1, 2)
    missing = {number for number, text in enumerate(texts) if text}.difference(titles, numbers)
    if missing or any(number >= len(texts) for number in numbers) or not {_OPEN, _CLOSE}.isdisjoint("".join(literals)):
        raise ValueError(f"it should {_REQUEST}, but leaves one out or changes it")
    parts: list[PromptPart] = [(literals[0], None)]
    for number, literal in zip(numbers, literals[1:], strict=True):
        key = QUESTION if number == len(texts) - 1 else (first_index + number // 2, number % 2 == 0)
        parts += [(texts[number], key), (literal, None)]
    return RenderedPrompt.of_parts(parts)
