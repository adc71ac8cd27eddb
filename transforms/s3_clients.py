"""Clients of S3 that Beam's file system uses again; by itself it makes a new one for every operation.

A new client takes a tenth of a second of computing and a new connection, and often a request for credentials: several
times what the operation takes.
"""

from __future__ import annotations

import copy
import os
import time
import weakref
from typing import Any

from apache_beam.io.aws.clients.s3 import boto3_client

_make_client: Any = boto3_client.Client


_FRESH_SECONDS = 300.0
"""How long a client is used; a later one reads the credentials file again, where tokens with an end are renewed."""


class _IdleClients:
    """Clients that nobody uses, all made with the same options."""

    def __init__(self) -> None:
        self._kept: tuple[object, list[tuple[float, Any]]] = (None, [])

    def client(self, options: object) -> Any:
        """A client for one operation; it is idle again when it is no longer referred to.

        No two operations share one at the same time, because it also holds the stream of an open file. Options are told
        apart by their identity: every run has its own, so it also looks for credentials and servers anew.
        """
        kept = self._kept  # read once: another thread may replace it
        if options is not kept[0]:
            kept = self._kept = (options, [])
        idle = kept[1]
        made, unused = _fresh(idle) or (time.monotonic(), _make_client(options=options))
        used = copy.copy(unused)
        weakref.finalize(used, idle.append, (made, unused))
        return used

    def forget(self) -> None:
        """Leave the clients to the parent of a forked process: the two must not read from the same connections."""
        self._kept = (None, [])


def _fresh(idle: list[tuple[float, Any]]) -> tuple[float, Any] | None:
    """An idle client that is not too old, with the time when it was made; older ones are dropped."""
    while True:
        try:
            made, unused = idle.pop()
        except IndexError:
            return None
        if time.monotonic() - made < _FRESH_SECONDS:
            return made, unused


def reuse_s3_clients() -> None:
    """Let Beam's file system take its clients from those of this process that are idle. May be called twice."""
    boto3_client.Client = _idle_clients.client


_idle_clients = _IdleClients()
os.register_at_fork(after_in_child=_idle_clients.forget)
