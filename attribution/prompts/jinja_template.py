"""Prompt templates in Jinja, which run in a sandbox of their own.

Untrusted Jinja templates, rendered in a separate process with limits on time, memory and length.

Jinja's sandbox keeps a template from the machine's files, but not from an endless loop or a string of 40 GB. So each
process that renders has one child, ``template_process.py``, which is started when the first page is wanted.

A prompt template in the user's Jinja file.

The file is rendered with one mark for each text, and the texts take the places of their marks. So where they stand is
known by construction, whatever they contain. Then the file is rendered with the texts themselves: only where both
pages are equal has the template shown the texts as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import jinja2
from jinja2.nodes import Getattr, Name

from attribeam.attribution.prompts.prompt_template import PromptPage, RenderedPrompt, TemplateText, TextRegion
from attribeam.attribution.prompts.template_process import ENVIRONMENT
from attribeam.schemas import Passage, Reason, RowFault

SECONDS = 10.0
"""Processor time for one page."""
MEMORY_BYTES = 2 << 30
"""Memory that rendering one page may take, besides the child process itself."""
ADDED_CHARS = 1_000_000
"""Code points that a page may have besides its texts."""


class PageError(ValueError):
    """A template fails or exceeds a limit; the message never holds a text that it was to show, ``detail`` may."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


def render_prompt(source: str, *, texts: Sequence[str], first_index: int) -> str:
    """The page of a template that gets ``passages`` and ``question``.

    Args:
        source: the template.
        texts: title and text of each passage, the question last.
        first_index: 0-based index of the first passage in its row.

    Raises:
        PageError: if the template fails or exceeds a limit; the message says which.
    """
    return _ask({"source": source, "texts": list(texts), "first_index": first_index}, length=sum(map(len, texts)))


def render_chat(source: str, *, message: str, special_tokens: Mapping[str, object]) -> str:
    """A user's message as a tokenizer's chat template renders it, with the start of the assistant's turn.

    Raises:
        PageError: as ``render_prompt``.
    """
    chat = {"chat": source, "message": message, "special_tokens": dict(special_tokens)}
    return _ask(chat, length=len(message))


def _ask(request: Mapping[str, object], *, length: int) -> str:
    limits = {"seconds": SECONDS, "memory": MEMORY_BYTES, "length": length + ADDED_CHARS}
    child = _children.setdefault(os.getpid(), _Child())
    answer = child.ask(json.dumps({**request, **limits}))
    if answer is None:
        raise PageError(f"it takes more than {SECONDS:g} s of processor time for one page; look for a loop in it")
    answered: dict[str, str] = json.loads(answer)
    if "fault" in answered:
        raise PageError(answered["fault"], answered.get("detail", ""))
    return answered["page"]


class _Child:
    """The rendering process; it starts with the first request, and again after a request that ended it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: str) -> str | None:
        """The answer to one request, or None if the request ended the process."""
        with self._lock:
            self._process = self._process or self._start()
            answer = _exchange(self._process, request)
            if not answer:
                _end(self._process)
                self._process = None
            return answer or None

    def _start(self) -> subprocess.Popen[str]:
        script = Path(__file__).with_name("template_process.py")
        paths = os.pathsep.join(path for path in sys.path if path)
        process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="ascii",
            env={**os.environ, "PYTHONPATH": paths},
        )
        weakref.finalize(self, _end, process)
        return process


_children: dict[int, _Child] = {}
"""By the id of the parent process: a process forked from it gets its own child."""


def _exchange(process: subprocess.Popen[str], request: str) -> str:
    """The reply to one line; empty if the process ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        return ""
    return process.stdout.readline()


def _end(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except BrokenPipeError:
            continue
    process.wait()


_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_PROBE = Passage(text=f'  A "probe" & <b>É</b> {{{{ x }}}}\r\n{"word " * 4000}\n ', title=" The Title\t")
_REQUEST = "show every passage's text and the question once each and as they are, and titles at most once"


@dataclass(frozen=True)
class JinjaTemplate:
    """A template that gets ``passages``, each with ``title``, ``text`` and ``index``, and the ``question``.

    It runs in Jinja's sandbox within the limits of ``template_sandbox``, without the newline at the end of its file.
    The answer follows directly. ``where`` begins the messages.

    Raises:
        ValueError: if it is not a Jinja template, or does not show the texts of a sample row unchanged.
    """

    source: str
    where: str = field(default="the prompt template", compare=False)

    def __post_init__(self) -> None:
        counters = {"index", "index0", "revindex", "revindex0"}
        for node in _parsed(self.source).find_all(Getattr):
            if isinstance(node.node, Name) and node.node.name == "loop" and node.attr in counters:
                raise ValueError(
                    f"line {node.lineno}: loop.{node.attr} should be passage.index: a window shows some passages only"
                )
        for passages in ([_PROBE, Passage("Untitled.")], [Passage("Untitled.")], [_PROBE]):
            try:
                self._checked_render(_PROBE.text[:40], passages, first_index=3)
            except PageError as error:
                raise ValueError(f"{error}{error.detail}") from error

    @classmethod
    def from_file(cls, path: str | Path) -> JinjaTemplate:
        """The template in a file.

        Raises:
            ValueError: if the file cannot be read, or holds no valid template; the message names it.
        """
        return cls.from_text(TemplateText.from_file(path).text, where=f"prompt template {path}")

    @classmethod
    def from_text(cls, text: str, *, where: str) -> JinjaTemplate:
        """The template that a file holds.

        Raises:
            ValueError: if it is no valid template; the message begins with ``where``.
        """
        try:
            return cls(text, where)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error

    @property
    def digest(self) -> str:
        """The first 16 hex digits of a SHA-256 over the template: equal digests render equal prompts."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]

    def render(self, *, question: str, passages: Sequence[Passage], first_index: int = 0) -> RenderedPrompt:
        """As ``PromptTemplate.render``.

        Raises:
            RowFault: TEMPLATE_FAILED if the template does not show this row's texts as they are; the message says which
                template and what kind of error, and holds no text.
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


def _parsed(source: str) -> jinja2.nodes.Template:
    if _OPEN in source or _CLOSE in source:
        raise ValueError("it should hold no U+FDD0 and no U+FDD1, which stand for texts")
    try:
        return ENVIRONMENT.parse(source)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.message}") from error
    except RecursionError as error:
        raise ValueError("it should nest less deeply") from error


def _put_texts(marked: str, texts: Sequence[str], first_index: int) -> RenderedPrompt:
    """The page with each mark replaced by the text of its number."""
    page = PromptPage()
    pieces = _MARK.split(marked)
    page.write(pieces[0])
    ranges: dict[int, tuple[int, int]] = {}
    for number, literal in zip(map(int, pieces[1::2]), pieces[2::2], strict=True):
        if number in ranges:
            raise ValueError(f"it should {_REQUEST}, but repeats one")
        ranges[number] = page.write(texts[number])
        page.write(literal)
    _check_all_shown(ranges, texts, "".join(pieces[::2]))
    question = ranges.pop(len(texts) - 1, (0, 0))
    regions = [TextRegion(first_index + number // 2, number % 2 == 0, *ranges[number]) for number in ranges]
    return RenderedPrompt(page.text, tuple(regions), *question)


def _check_all_shown(ranges: Mapping[int, tuple[int, int]], texts: Sequence[str], literal: str) -> None:
    titles = set(range(0, len(texts) - 1, 2))
    missing = {number for number, text in enumerate(texts) if text} - titles - set(ranges)
    if missing or _OPEN in literal or _CLOSE in literal:
        raise ValueError(f"it should {_REQUEST}, but leaves one out or changes it")
