"""The process that renders untrusted Jinja templates: one request per line of input, one page per line of output.

It is run as a script and imports nothing of ours, so that it starts fast. The kernel ends it when a page takes more
processor time than the request allows, and refuses it more memory. Lines are JSON in ASCII.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

ENVIRONMENT = ImmutableSandboxedEnvironment(
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    extensions=["jinja2.ext.loopcontrols"],
)
_FAILURES = (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
_MEMORY_IN_USE = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """One passage as a template sees it; ``title`` is empty if there is none, ``index`` counts from 1."""

    title: str
    text: str
    index: int


def answer(request: dict[str, Any]) -> dict[str, str]:
    """The ``page`` of one request, or the ``fault`` that prevented it."""
    try:
        page = _chat_page(request) if "chat" in request else _prompt_page(request)
    except MemoryError:
        return {"fault": f"it takes more than {request['memory'] >> 20} MB of memory for one page"}
    except _FAILURES as error:
        if "chat" in request:
            return {"fault": str(error)}
        return {"fault": f"it should render every row, fails with {type(error).__name__}", "detail": _detail(error)}
    if len(page) > request["length"]:
        return {"fault": f"it makes a page of more than {request['length']:,} code points, far more than its texts"}
    return {"page": page}


def _prompt_page(request: dict[str, Any]) -> str:
    *pairs, question = request["texts"]
    numbered = enumerate(zip(pairs[::2], pairs[1::2], strict=True), request["first_index"] + 1)
    passages = [ShownPassage(title, text, index) for index, (title, text) in numbered]
    with _limits(request):
        return _compiled(request["source"]).render(passages=passages, question=question)


def _chat_page(request: dict[str, Any]) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    with _limits(request):
        rendered: Any = render_jinja_template(  # annotated as text, but gives a list of pages and one of token masks
            conversations=[[{"role": "user", "content": request["message"]}]],
            chat_template=request["chat"],
            add_generation_prompt=True,
            enable_thinking=False,
            **request["special_tokens"],
        )
    return str(rendered[0][0])


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    return ENVIRONMENT.from_string(source)


def _detail(error: Exception) -> str:
    """What an undefined name is called; it may be a text of the row."""
    return f": {error.message}" if isinstance(error, jinja2.UndefinedError) else ""


@contextmanager
def _limits(request: dict[str, Any]) -> Iterator[None]:
    """Limit the block's processor time, beyond which the process ends, and the memory that it may add."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if _MEMORY_IN_USE.is_file():
        in_use = int(_MEMORY_IN_USE.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + request["memory"], hard))
    signal.setitimer(signal.ITIMER_PROF, request["seconds"])
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
