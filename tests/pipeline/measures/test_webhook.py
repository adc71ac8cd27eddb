"""Posting to a webhook: what is sent, what is tried again, and that its address is told to nobody."""

from __future__ import annotations

import json
import threading
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from attribeam.pipeline.measures.webhook import WebhookUrl, post_json, webhook_url


class _Chat(HTTPServer):
    """Answers requests with the statuses of its list, and keeps their paths and bodies."""

    statuses: Sequence[int] = ()

    def __init__(self, statuses: Sequence[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.statuses, self.paths, self.bodies = statuses, list[str](), list[bytes]()


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Keep what is posted; whoever follows a redirect gets by GET, and an error."""
        chat = self.server
        assert isinstance(chat, _Chat)
        chat.paths.append(self.path)
        chat.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(chat.statuses[len(chat.paths) - 1])
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def chat(*statuses: int) -> Iterator[tuple[_Chat, WebhookUrl]]:
    """A server on this machine, and its address with a secret."""
    server = _Chat(statuses)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, webhook_url(f"http://127.0.0.1:{server.server_port}/hooks/SECRET")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_json_reaches_the_webhook_once() -> None:
    with chat(200) as (server, url):
        assert post_json(url, {"text": "ü < 1"}, pause=pytest.fail) is None
    assert server.paths == ["/hooks/SECRET"]
    assert json.loads(server.bodies[0]) == {"text": "ü < 1"}


def test_a_server_in_trouble_is_tried_again() -> None:
    pauses: list[float] = []
    with chat(503, 429, 204) as (server, url):
        assert post_json(url, {"text": ""}, pause=pauses.append) is None
    assert (len(server.paths), pauses) == (3, [1.0, 5.0])


def test_three_attempts_are_enough() -> None:
    with chat(500, 500, 502, 200) as (server, url):
        assert post_json(url, {}, pause=lambda _: None) == "it answered 502, tried 3 times"
    assert len(server.paths) == 3


@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_refusal_is_final(status: int) -> None:
    with chat(status) as (server, url):
        assert post_json(url, {}, pause=pytest.fail) == f"it answered {status}"
    assert len(server.paths) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with chat(status, 200) as (server, url):
        assert post_json(url, {}, pause=pytest.fail) == f"it answered {status}"
    assert server.paths == ["/hooks/SECRET"]


def test_a_host_that_nobody_answers_on_is_told_without_the_address() -> None:
    with chat() as (_, url):
        pass
    pauses: list[float] = []
    reason = post_json(url, {}, pause=pauses.append)
    assert reason == "it could not be reached (Connection refused), tried 3 times"
    assert len(pauses) == 2


def test_a_server_that_never_answers_is_given_up() -> None:
    with HTTPServer(("127.0.0.1", 0), _Answer) as silent:
        url = webhook_url(f"http://127.0.0.1:{silent.server_port}/SECRET")
        reason = post_json(url, {}, timeout=0.02, pause=lambda _: None)
    assert reason == "it did not answer within 0.02 seconds, tried 3 times"


class _Dripping(StreamRequestHandler):
    """Begins an answer and goes on byte by byte, so that no single read lasts long, until it is told to stop."""

    stop = threading.Event()

    def handle(self) -> None:
        """Send at most 500 bytes."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        with suppress(OSError):
            for _ in range(500):
                if self.stop.wait(0.004):
                    return
                self.wfile.write(b"a")


def test_a_server_whose_answer_never_ends_is_given_up() -> None:
    _Dripping.stop.clear()
    with ThreadingTCPServer(("127.0.0.1", 0), _Dripping) as dripping:
        thread = threading.Thread(target=dripping.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = webhook_url(f"http://127.0.0.1:{dripping.server_address[1]}/SECRET")
        reason = post_json(url, {}, timeout=0.1, pause=lambda _: None)
        _Dripping.stop.set()
        dripping.shutdown()
        thread.join()
    assert reason == "it did not answer within 0.1 seconds, tried 3 times"


def test_a_webhook_shows_its_host_only() -> None:
    url = webhook_url("https://chat.example.com:8443/hooks/SECRET?token=SECRET#SECRET")
    assert str(url) == f"{url}" == "https://chat.example.com:8443/***"
    assert repr(url) == "WebhookUrl('https://chat.example.com:8443/***')"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp://chat.example.com/SECRET", "its scheme is 'ftp'"),
        ("file:///etc/SECRET", "its scheme is 'file'"),
        ("chat.example.com/SECRET", "its scheme is ''"),
        ("https:///SECRET", "it lacks a host"),
        ("https://user:SECRET@chat.example.com/", "without a name and password"),
        ("https://chat.example.com:SECRET/", "its host or port cannot be read"),
        ("https://[::1/SECRET", "its host or port cannot be read"),
        ("https://chat.example.com/SEC RET", "has spaces"),
        ("https://chat.example.com/SECRET\n", "has spaces"),
    ],
)
def test_what_is_no_address_of_a_webhook_is_refused_without_repeating_it(text: str, said: str) -> None:
    with pytest.raises(ArgumentTypeError) as refused:
        webhook_url(text)
    assert said in str(refused.value)
    assert "SECRET" not in str(refused.value)
