"""Untrusted Jinja templates, rendered in a separate process with limits on time, memory and length.

Jinja's sandbox keeps a template from the machine's files, but not from an endless loop or a string of 40 GB. So each
process that renders has one child, ``template_process.py``, which is started when the first page is wanted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

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
