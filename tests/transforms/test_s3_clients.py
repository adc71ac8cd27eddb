"""Clients of S3 are used again by later operations, but never by two at once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from apache_beam.io.aws import s3io
from apache_beam.io.aws.clients.s3 import boto3_client

from attribeam.transforms import beam_storage, s3_clients

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

    monkeypatch.setattr(s3_clients, "_make_client", make)
    monkeypatch.setattr(boto3_client, "Client", s3_clients._IdleClients().client)
    monkeypatch.setattr(s3io, "BOTO3_INSTALLED", True)
    return made


def test_whoever_loads_the_storage_reuses_clients() -> None:
    assert beam_storage.reuse_s3_clients is s3_clients.reuse_s3_clients
    assert boto3_client.Client == s3_clients._idle_clients.client


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
