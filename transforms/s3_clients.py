"""Clients of S3 that Beam's file system uses again; by itself it makes a new one for every operation.

A new client takes a tenth of a second of computing and a new connection, and often a request for credentials: several
times what the operation takes.
"""

from __future__ import annotations

import copy
import weakref
from typing import Any

from apache_beam.io.aws.clients.s3 import boto3_client

_make_client: Any = boto3_client.Client


class _IdleClients:
    """Clients that nobody uses, all made with the same options."""

    def __init__(self) -> None:
        self._options: object = None
        self._idle: list[Any] = []

    def client(self, options: object) -> Any:
        """A client for one operation; it is idle again when it is no longer referred to.

        No two operations share one at the same time, because it also holds the stream of an open file. Options are told
        apart by their identity: every run has its own, so it also looks for credentials and servers anew.
        """
        if options is not self._options:
            self._options, self._idle = options, []
        idle = self._idle
        try:
            unused = idle.pop()
        except IndexError:
            unused = _make_client(options=options)
        used = copy.copy(unused)
        weakref.finalize(used, idle.append, unused)
        return used


def reuse_s3_clients() -> None:
    """Let Beam's file system take its clients from those of this process that are idle. May be called twice."""
    boto3_client.Client = _idle_clients.client


_idle_clients = _IdleClients()
