"""What came of the rows of a block, which the model may still be working on in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

from attribution.token_attribution import TokenAttribution
from schemas import RowFault
from transforms.stage_clock import stage, thread_stage

Outcome: TypeAlias = TokenAttribution | RowFault

_MODEL_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribeam-model")
"""One for all stages of a process, however many of its threads ask at once; it starts with the first block."""


class BlockOutcomes:
    """One outcome a row, in order: at hand, or on their way."""

    def __init__(self, found: Sequence[Outcome] | Future[list[Outcome]]) -> None:
        self._found = found

    @property
    def on_their_way(self) -> bool:
        """Whether they were left to the model's thread; it may be done by now."""
        return isinstance(self._found, Future)

    def wait(self) -> tuple[Outcome, ...]:
        """The outcomes, as soon as they are there.

        Raises:
            Exception: whatever the model raised.
        """
        return tuple(self._found.result() if isinstance(self._found, Future) else self._found)

    def __reduce__(self) -> tuple[type[BlockOutcomes], tuple[tuple[Outcome, ...]]]:
        """Another process gets them when they are there."""
        return BlockOutcomes, (self.wait(),)


def outcomes_of(attribute: Callable[[], list[Outcome]], *, ahead: bool) -> BlockOutcomes:
    """Run the model now, or ``ahead`` of whoever wants its outcomes: in a thread, one block after the other.

    Its time counts as stage "attribute" either way.
    """
    if ahead:
        return BlockOutcomes(_MODEL_THREAD.submit(_in_thread, attribute))
    with stage("attribute"):
        return BlockOutcomes(attribute())


def _in_thread(attribute: Callable[[], list[Outcome]]) -> list[Outcome]:
    with thread_stage("attribute"):
        return attribute()
