"""Clients of S3 are used again by later operations, but never by two at once."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import pytest
from apache_beam.io.aws import s3io
from apache_beam.io.aws.clients.s3 import boto3_client

from attribeam.transforms import beam_storage

OPTIONS, OTHER_OPTIONS = {"region": "eu-north-1"}, {"region": "eu-north-1"}


@dataclass
class Made:
    """A client by its number; an open file leaves its stream in it."""

    number: int
    stream: str | None = None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The options of every client that is made."""
    made: list[object] = []

    def make(options: object) -> Made:
        made.append(options)
        return Made(len(made))

    monkeypatch.setattr(beam_storage, "_make_client", make)
    monkeypatch.setattr(boto3_client, "Client", beam_storage._IdleClients().client)
    monkeypatch.setattr(s3io, "BOTO3_INSTALLED", True)
    return made


def test_whoever_loads_the_storage_reuses_clients() -> None:
    assert boto3_client.Client == beam_storage._idle_clients.client


def test_later_operations_use_the_client_of_the_first(made: list[object]) -> None:
    for _ in range(5):
        s3io.S3IO(options=OPTIONS).client.stream = "open"
    assert made == [OPTIONS]
    assert s3io.S3IO(options=OPTIONS).client == Made(1, stream=None)


def test_operations_at_the_same_time_have_clients_of_their_own(made: list[object]) -> None:
    at_once = [s3io.S3IO(options=OPTIONS) for _ in range(3)]
    assert [one.client.number for one in at_once] == [1, 2, 3]
    del at_once
    again = [s3io.S3IO(options=OPTIONS) for _ in range(3)]
    assert {one.client.number for one in again} == {1, 2, 3}
    assert len(made) == 3


def test_another_run_has_other_clients(made: list[object]) -> None:
    first = s3io.S3IO(options=OPTIONS)
    assert s3io.S3IO(options=OTHER_OPTIONS).client.number == 2
    del first
    assert s3io.S3IO(options=OTHER_OPTIONS).client.number == 2
    assert len(made) == 2


@pytest.mark.usefixtures("made")
def test_an_old_client_is_not_used_again_since_its_credentials_may_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert s3io.S3IO(options=OPTIONS).client.number == 1
    later = time.monotonic() + beam_storage._FRESH_SECONDS
    monkeypatch.setattr(beam_storage.time, "monotonic", lambda: later)
    assert [s3io.S3IO(options=OPTIONS).client.number for _ in range(2)] == [2, 2]


def test_a_run_in_another_thread_never_lends_its_clients(made: list[object]) -> None:
    class Interrupted(beam_storage._IdleClients):
        """Lets another run take and return a client when the first one has set its list of them."""

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name in ("_kept", "_idle") and interrupt:
                interrupt.pop()
                self.client(OTHER_OPTIONS)

    interrupt: list[bool] = []
    clients = Interrupted()
    interrupt.append(True)
    used = clients.client(OPTIONS)
    assert made[used.number - 1] is OPTIONS


@pytest.mark.usefixtures("made")
def test_a_forked_process_leaves_the_clients_to_its_parent() -> None:
    clients = beam_storage._idle_clients
    clients.client(OPTIONS)
    child = os.fork()
    if child == 0:
        os._exit(clients.client(OPTIONS).number)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert clients.client(OPTIONS).number == 1
    clients.forget()
