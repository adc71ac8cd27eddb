"""Posts JSON to a webhook: in bounded time, again where that may help, and never with its URL in a message."""

from __future__ import annotations

import json
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPException, HTTPMessage
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from attribeam import __version__

ATTEMPTS = 3
TIMEOUT_SECONDS = 10.0
_PAUSES = (1.0, 5.0)
_TRY_AGAIN = (408, 425, 429, *range(500, 600))
_WANTED = "should be the http:// or https:// address of a webhook, such as https://chat.example.com/hooks/KEY"


class NoticeFormat(StrEnum):
    """What is posted: a text that Slack and its like show, or everything."""

    SLACK = "slack"
    JSON = "json"


@dataclass(frozen=True, slots=True, repr=False)
class WebhookUrl:
    """The address of a webhook. Whoever has it can post, so its text shows only the host; ``secret`` is all of it."""

    secret: str

    def __str__(self) -> str:
        parts = urlsplit(self.secret)
        return f"{parts.scheme}://{parts.netloc}/***"

    def __repr__(self) -> str:
        return f"WebhookUrl({str(self)!r})"


def webhook_url(text: str) -> WebhookUrl:
    """Parse the argument of ``--notify``; no message repeats it.

    Raises:
        argparse.ArgumentTypeError: if it is no address over HTTP, or holds a name and password.
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ArgumentTypeError(f"{_WANTED}; its host or port cannot be read") from error
    if "@" in parts.netloc:
        raise ArgumentTypeError(f"{_WANTED}, without a name and password before the host")
    if parts.scheme not in ("http", "https"):
        raise ArgumentTypeError(f"{_WANTED}; its scheme is {parts.scheme[:20]!r}")
    if not host or not text.isascii() or not text.isprintable() or " " in text:
        raise ArgumentTypeError(f"{_WANTED}; it lacks a host, or has spaces or characters that are not ASCII")
    return WebhookUrl(text)


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would send the notice, and perhaps texts of answers, where nobody asked it to go."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """See ``HTTPRedirectHandler``: None makes the answer an error."""


def post_json(
    url: WebhookUrl,
    content: Mapping[str, object],
    *,
    timeout: float = TIMEOUT_SECONDS,
    pause: Callable[[float], None] = time.sleep,
) -> str | None:
    """Post ``content``; returns why it could not be delivered, without the URL, or None if it was.

    Tries up to three times, with pauses of 1 and 5 seconds, where another attempt may succeed: the host cannot be
    reached, has not answered within ``timeout`` seconds, or answers 408, 425, 429 or 5xx.
    """
    body = json.dumps(content, ensure_ascii=True, allow_nan=False).encode()
    reason: str | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(_PAUSES[attempt - 1])
        again, reason = _post_in_time(url, body, timeout)
        if not again:
            return reason
    return f"{reason}, tried {ATTEMPTS} times"


def _post_in_time(url: WebhookUrl, body: bytes, timeout: float) -> tuple[bool, str | None]:
    """As ``_post_once``, but given up after ``timeout``: a socket's own is for each byte, and for no look-up of a name.

    The thread of an attempt that was given up ends with the process at the latest.
    """
    ends = SimpleQueue[tuple[bool, str | None]]()
    Thread(target=lambda: ends.put(_post_once(url, body, timeout)), daemon=True).start()
    try:
        return ends.get(timeout=timeout)
    except Empty:
        return True, _late(timeout)


def _late(timeout: float) -> str:
    return f"it did not answer within {timeout:g} seconds"


def _post_once(url: WebhookUrl, body: bytes, timeout: float) -> tuple[bool, str | None]:
    """Whether another attempt may help, and why it failed."""
    headers = {"Content-Type": "application/json", "User-Agent": f"attribeam/{__version__}"}
    try:
        with build_opener(_NoRedirects).open(Request(url.secret, body, headers), timeout=timeout):
            return False, None
    except HTTPError as error:
        error.close()
        return error.code in _TRY_AGAIN, f"it answered {error.code}"
    except (OSError, HTTPException, UnicodeError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return True, _late(timeout)
        said = getattr(reason, "strerror", None) or type(reason).__name__
        return True, f"it could not be reached ({said})"
