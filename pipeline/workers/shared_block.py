"""Objects in memory that processes share, as files without a name: the kernel frees them with their last holder.

Arrays are copied once into the file and once out of it; what is pickled is only what surrounds them. A file goes to
another process as a descriptor. Nothing is in /dev/shm, whose size is small in many containers, and nothing is left
when processes are killed.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection

import numpy as np


class SharedBlock:
    """A nameless file of objects, one behind the other; open in this process until ``close``."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Take over the ``descriptor`` of a block, or make an empty one."""
        self.descriptor = _nameless_file() if descriptor is None else descriptor

    @property
    def size(self) -> int:
        """Bytes; also the place where the next object will be written."""
        return os.fstat(self.descriptor).st_size

    def write(self, written: object) -> int:
        """Add an object behind the others; returns its place.

        Raises:
            OSError: if there is not enough memory.
        """
        place = self.size
        arrays: list[pickle.PickleBuffer] = []
        head = pickle.dumps(written, protocol=5, buffer_callback=arrays.append)
        parts: list[bytes | memoryview] = [head, *(one.raw() for one in arrays)]
        lengths = np.array([len(parts), *map(len, parts)], dtype="<i8")
        _write_at(self.descriptor, [lengths.tobytes(), *parts], place)
        return place

    def read(self, place: int) -> object:
        """The object at a place; its arrays are copies of its own, and can be written to."""
        with mmap.mmap(self.descriptor, self.size, access=mmap.ACCESS_READ) as area:
            count = int.from_bytes(area[place : place + 8], "little")
            lengths = np.frombuffer(area[place + 8 : place + 8 + 8 * count], dtype="<i8").tolist()
            borders = accumulate(lengths, initial=place + 8 + 8 * count)
            with memoryview(area) as view:
                head, *arrays = (bytearray(view[start:end]) for start, end in pairwise(borders))
        return pickle.loads(head, buffers=arrays)

    def send_through(self, connection: Connection) -> None:
        """Give the process at the other end a descriptor of its own, which it takes with ``receive_block``.

        Raises:
            OSError: if the other end is closed.
        """
        with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
            socket.send_fds(end, [b"\0"], [self.descriptor])

    def close(self) -> None:
        """Let go of the file; its memory is free once all processes have."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        with suppress(OSError):
            self.close()


def receive_block(connection: Connection) -> SharedBlock:
    """The block that the other end sent.

    Raises:
        EOFError, OSError: if the other end is closed.
    """
    with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
        _, descriptors, _, _ = socket.recv_fds(end, 1, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    if not descriptors:
        raise EOFError("the other end was closed before it sent a block")
    return SharedBlock(descriptors[0])


def _nameless_file() -> int:
    """A descriptor of an empty file in memory; where the system has no such files, of a temporary file without a name.

    Raises:
        OSError: if no file can be opened.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create("attribeam-block", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write_at(descriptor: int, parts: Sequence[bytes | memoryview], place: int) -> None:
    for part, (start, _) in zip(parts, pairwise(accumulate(map(len, parts), initial=place)), strict=True):
        written = 0
        while written < len(part):
            written += os.pwrite(descriptor, memoryview(part)[written:], start + written)
