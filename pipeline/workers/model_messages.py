"""The messages between worker processes, the driver's model service, and model workers.

A block's rows and outcomes are no part of them: they lie in a ``SharedBlock``, whose descriptor follows ``RunBlock``.
This module imports no model library, because the driver loads no models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attribeam.attribution.options import MethodOptions

TRIES = 3
"""How often model workers may end on a block before its rows are tried apart: once, and twice again."""


@dataclass(frozen=True, slots=True)
class RunBlock:
    """From a worker, and on to a model worker: run the rows at the beginning of the block that follows.

    ``number`` counts the worker's blocks. After model workers have ended on it ``tries`` times, it hears ``BlockDied``.
    """

    number: int
    tries: int = TRIES


@dataclass(frozen=True, slots=True)
class TurnWanted:
    """From a worker: it has something to compute."""


@dataclass(frozen=True, slots=True)
class TurnOver:
    """From a worker that has its turn: it waits for a model worker, or for the driver."""


@dataclass(frozen=True, slots=True)
class Turn:
    """To a worker: compute until ``TurnOver``."""


@dataclass(frozen=True, slots=True)
class ModelsReady:
    """From a model worker, once, and on to every worker: ``models`` are the models' provenance.

    ``settings`` are the method's options merged with the model's; None without an attention model.
    """

    models: Mapping[str, str]
    settings: MethodOptions | None


@dataclass(frozen=True, slots=True)
class ModelsFailed:
    """To every worker: blocks cannot be run any more; one paragraph for the user says why.

    ``is_usage`` if the models cannot be loaded as asked.
    """

    explanation: str
    is_usage: bool = False


@dataclass(frozen=True, slots=True)
class BlockDone:
    """From a model worker, and on to the worker: the outcomes lie at ``place`` of the block.

    The model worker had waited for ``waited`` seconds before it took the block, then needed ``wall`` seconds, and
    ``cpu`` seconds of processor time.
    """

    number: int
    place: int
    waited: float
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class BlockFailed:
    """From a model worker, and on to the worker: the models raised an error, ``ValueError: ...``."""

    number: int
    error: str


@dataclass(frozen=True, slots=True)
class ModelWorkerDied:
    """To a worker: a model worker ended on this block, ``signal SIGKILL``; the block is run again."""

    number: int
    how: str


@dataclass(frozen=True, slots=True)
class BlockDied:
    """To a worker: model workers ended on this block as often as they may; ``how`` tells of the last one."""

    number: int
    how: str
