"""A worker's side of the model workers: it stands where the models stand in a worker that has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TypeAlias, cast

from attribeam.attribution.flat_rows import FlatAttributions, FlatRows
from attribeam.attribution.methods.audit_row import AuditRow, Outcome
from attribeam.attribution.methods.models import ModelStage
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.prompts.passage_windows import merge_parts, parts_of
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.pipeline.failures import ModelWorkersError, describe_model_worker_death
from attribeam.pipeline.workers.fatal_rows import FatalRowSearch
from attribeam.pipeline.workers.model_messages import (
    TRIES,
    BlockDied,
    BlockDone,
    BlockFailed,
    ModelsFailed,
    ModelsReady,
    ModelWorkerDied,
    RunBlock,
    Turn,
    TurnOver,
    TurnWanted,
)
from attribeam.pipeline.workers.shared_block import SharedBlock
from attribeam.schemas.errors import RunError, UsageError
from attribeam.transforms.elements import BlockOutcomes
from attribeam.transforms.stage_metrics import add_stage_seconds

_Reply: TypeAlias = BlockDone | BlockFailed | BlockDied

BLOCKS_AHEAD = 2
"""The most blocks that one worker has with the model workers: one to wait for, and the next one."""


class FatalRowsError(Exception):
    """Rows that end a model worker on their own, by their row in the log, and how it ended: "signal SIGKILL"."""

    def __init__(self, rows: Mapping[int, str]) -> None:
        super().__init__(f"rows {sorted(rows)} end a model worker")
        self.rows = dict(rows)


class RemoteModels:
    """The models of the model workers, as a ``BlockModel``; one thread of the worker uses it at a time.

    The worker computes only while it has its ``turn``. It lets others have it while it waits for a block.

    Attributes:
        tell: tells the user of a problem that does not stop the audit.
    """

    def __init__(self, connection: Connection, stage: ModelStage, tell: Callable[[str], None]) -> None:
        self._connection = connection
        self._stage = stage
        self.tell = tell
        self._blocks: dict[int, _Block] = {}
        self._number = 0
        self._has_turn = False
        self._error: Exception | None = None
        self._settings: MethodOptions | None = None

    @property
    def settings(self) -> MethodOptions | None:
        """See ``BlockModel``."""
        return self._settings

    def wait_for_models(self) -> Mapping[str, str]:
        """The models' provenance, once a model worker has loaded them.

        Raises:
            UsageError: if they cannot be loaded as asked.
            ModelWorkersError: if they cannot be loaded this time.
        """
        message = self._receive()
        if not isinstance(message, ModelsReady):
            raise RuntimeError(f"the models should be told of first, was: {type(message).__name__}")
        self._settings = message.settings
        return message.models

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Compute in the block as soon as other workers allow it; blocks that nobody waits for are dropped with it."""
        self._take_turn()
        try:
            yield
        finally:
            self._blocks.clear()
            self._end_turn()

    def take_error(self) -> Exception | None:
        """What a stage raised last because of model workers; Beam makes text of what its stages raise."""
        error, self._error = self._error, None
        return error

    def start(self, rows: Sequence[AuditRow]) -> BlockOutcomes:
        """See ``BlockModel``; waits for an earlier block first if enough of them are on their way."""
        while sum(one.reply is None for one in self._blocks.values()) >= BLOCKS_AHEAD:
            self._wait_for(next(number for number, one in self._blocks.items() if one.reply is None))
        return BlockOutcomes(_PendingBlock(self, self._send(rows, TRIES)))

    def outcomes_of(self, number: int) -> list[Outcome]:
        """The outcomes of a block that was started, once they are there.

        Raises:
            FatalRowsError: if rows end their model worker.
            ModelWorkersError: if no row is to blame for that, or model workers cannot go on.
            RuntimeError: if a model raised an error.
        """
        reply = self._wait_for(number)
        block = self._blocks.pop(number)
        if isinstance(reply, BlockDied):
            self._error = self._isolate(block.rows, reply.how)
            raise self._error
        if isinstance(reply, BlockFailed):
            raise RuntimeError(reply.error)
        add_stage_seconds("attribute", reply.wall, reply.cpu)
        return self._read(block, reply.place)

    def _isolate(self, rows: Sequence[AuditRow], how: str) -> FatalRowsError | ModelWorkersError:
        """Find the rows that end a model worker; what to raise because of them."""
        where = [row.record.source for row in rows]

        def blame(place: int, how: str) -> str:
            source = where[place]
            return describe_model_worker_death(how, f"at row {source.source_row} of {source.source_file!r}")

        search = FatalRowSearch(run=lambda start, end: self._try(rows[start:end]), blame=blame)
        try:
            search.search(0, len(rows), how)
        except RunError as error:
            return ModelWorkersError(str(error))
        if search.fatal:
            return FatalRowsError({where[place].source_row: how for place, how in search.fatal.items()})
        return ModelWorkersError(
            f"{describe_model_worker_death(how, _where(rows))} None of the rows does so on its own: try fewer "
            "--rows-per-chunk."
        )

    def _try(self, rows: Sequence[AuditRow]) -> str | None:
        """How a model worker ended on the rows; None if it did not."""
        number = self._send(rows, 1)
        reply = self._wait_for(number)
        del self._blocks[number]
        return reply.how if isinstance(reply, BlockDied) else None

    def _send(self, rows: Sequence[AuditRow], tries: int) -> int:
        """Send what the models read: tokens for the attention of whole blocks, else whole rows."""
        self._number += 1
        block = self._blocks[self._number] = _Block(rows, SharedBlock())
        block.shared.write(FlatRows.of(*parts_of(*_encoded(rows))) if self._is_flat else rows)
        with self._told_of_the_end():
            self._connection.send(RunBlock(self._number, tries))
            block.shared.send_through(self._connection)
        return self._number

    def _read(self, block: _Block, place: int) -> list[Outcome]:
        """One outcome per row; windows are merged."""
        found = block.shared.read(place)
        block.shared.close()
        if self._settings is None or not self._is_flat:
            return cast("list[Outcome]", found)
        rows, _ = _encoded(block.rows)
        return [*merge_parts(rows, cast(FlatAttributions, found).outcomes(), top_k=self._settings.top_k)]

    @property
    def _is_flat(self) -> bool:
        return self._stage is ModelStage.ATTENTION

    def _wait_for(self, number: int) -> _Reply:
        """The reply about a block; other workers may compute until it is there."""
        block = self._blocks[number]
        while block.reply is None and self._connection.poll():
            self._handle(self._receive())
        if block.reply is None:
            self._end_turn()
            while block.reply is None:
                self._handle(self._receive())
            self._take_turn()
        return block.reply

    def _take_turn(self) -> None:
        with self._told_of_the_end():
            self._connection.send(TurnWanted())
        while not self._has_turn:
            self._handle(self._receive())

    def _end_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            with suppress(OSError):  # a driver that has gone shows when something is received
                self._connection.send(TurnOver())

    def _handle(self, message: object) -> None:
        if isinstance(message, Turn):
            self._has_turn = True
        elif isinstance(message, BlockDone | BlockFailed | BlockDied):
            if message.number in self._blocks:
                self._blocks[message.number].reply = message
        elif isinstance(message, ModelWorkerDied) and message.number in self._blocks:
            rows = self._blocks[message.number].rows
            self.tell(f"a model worker ended by {message.how} {_where(rows)}; trying them again")

    def _receive(self) -> object:
        with self._told_of_the_end():
            message: object = self._connection.recv()
        if isinstance(message, ModelsFailed):
            self._error = (UsageError if message.is_usage else ModelWorkersError)(message.explanation)
            raise self._error
        return message

    @contextmanager
    def _told_of_the_end(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            self._error = ModelWorkersError("the driver no longer runs its model workers; --verbose shows why")
            raise self._error from error


@dataclass(frozen=True, slots=True)
class _PendingBlock:
    models: RemoteModels
    number: int

    def result(self) -> list[Outcome]:
        return self.models.outcomes_of(self.number)


@dataclass(slots=True)
class _Block:
    """Rows that are with the model workers, or were, and what was heard of them."""

    rows: Sequence[AuditRow]
    shared: SharedBlock
    reply: _Reply | None = None


def _encoded(rows: Sequence[AuditRow]) -> tuple[list[EncodedRow], list[int]]:
    """The rows' tokens, and their numbers of passages.

    Raises:
        RuntimeError: if a row is not encoded; rows would be lost.
    """
    encoded = [row.encoded for row in rows if row.encoded is not None]
    if len(encoded) != len(rows):
        raise RuntimeError(f"all {len(rows)} rows of a block should be encoded, {len(encoded)} are")
    return encoded, [len(row.record.passages) for row in rows]


def _where(rows: Sequence[AuditRow]) -> str:
    first, last = rows[0].record.source, rows[-1].record.source
    return f"at rows {first.source_row} to {last.source_row + 1} of {first.source_file!r}"
