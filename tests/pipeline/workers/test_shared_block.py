"""Objects in memory that processes share: whole, of one's own, and gone with their last holder."""

from __future__ import annotations

import gc
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest

from attribeam.pipeline.workers.shared_block import SharedBlock, receive_block


def test_objects_come_out_as_they_went_in_with_arrays_of_their_own() -> None:
    block = SharedBlock()
    first = {"numbers": np.arange(5, dtype=np.int32), "empty": np.zeros((0, 3), np.float32), "text": "no array"}
    places = [block.write(first), block.write([np.ones((2, 2))])]
    found, second = (block.read(place) for place in places)
    block.close()
    assert isinstance(found, dict)
    assert found["text"] == "no array"
    assert found["numbers"].tolist() == [0, 1, 2, 3, 4]
    assert found["empty"].shape == (0, 3)
    found["numbers"][0] = 7  # torch warns of arrays that cannot be written to
    assert isinstance(second, list)
    assert second[0].tolist() == [[1, 1], [1, 1]]


def test_arrays_are_not_part_of_the_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled: list[int] = []
    dumps = SharedBlock.write.__globals__["pickle"].dumps

    def count(*args: object, **kwargs: object) -> bytes:
        head: bytes = dumps(*args, **kwargs)
        pickled.append(len(head))
        return head

    monkeypatch.setattr("attribeam.pipeline.workers.shared_block.pickle.dumps", count)
    block = SharedBlock()
    block.write(np.zeros(100_000, np.int32))
    assert pickled[0] < 1000
    assert block.size > 400_000
    block.close()


def test_a_block_goes_through_a_pipe_and_its_memory_is_free_when_both_have_closed_it() -> None:
    ours, theirs = Pipe()
    block = SharedBlock()
    block.write("hello")
    block.send_through(ours)
    received = receive_block(theirs)
    block.close()
    assert received.read(0) == "hello"
    place = received.write("an answer")
    assert received.read(place) == "an answer"
    before = _nameless_files()
    received.close()
    assert len(_nameless_files()) == len(before) - 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        received.read(0)


def test_a_block_that_is_forgotten_leaves_no_open_file() -> None:
    before = _nameless_files()
    SharedBlock()
    assert _nameless_files() == before


def test_a_closed_pipe_is_told() -> None:
    ours, theirs = Pipe()
    ours.close()
    with pytest.raises(EOFError):
        receive_block(theirs)


def _nameless_files() -> list[str]:
    """Open files of this process that have no name, or no more, without those that only garbage holds."""
    gc.collect()
    links = [str(path.readlink()) if path.is_symlink() else "" for path in Path("/proc/self/fd").iterdir()]
    return sorted(link for link in links if link.endswith("(deleted)"))
