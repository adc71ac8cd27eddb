"""Model workers without a model, for the tests of the service: they do what the rows' answers tell them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from typing import cast

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.methods.audit_row import AuditRow
from attribeam.pipeline.workers.model_messages import BlockDone, BlockFailed, ModelsFailed, ModelsReady
from attribeam.pipeline.workers.shared_block import SharedBlock, receive_block
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource
from attribeam.transforms.audit_settings import AuditSettings

FATAL, BROKEN, CROWDED = "kill", "raise", "kill together"
NO_SUCH_DEVICE, OTHER_DEVICE, DEADLY_DEVICE = "cuda:7", "cuda:8", "cuda:9"
FAULT = RowFault(Reason.OUT_OF_MEMORY, "the stand-in finds this in every row")
_EMPTY = ParsedAnswer((), (), (), (), (), ())


def row(number: int, answer: str = "fine") -> AuditRow:
    """A row that the stand-in heeds; its answer was not parsed."""
    record = QARecord(f"row-{number}", "question", (Passage(text="text"),), answer, RowSource("log", number))
    return AuditRow(record, _EMPTY, (), None)


def run_stand_in(connection: Connection, settings: AuditSettings, verbose: bool) -> None:  # noqa: ARG001
    """Takes the place of ``run_model_worker``."""
    device = settings.model.device
    if device == DEADLY_DEVICE:
        os.kill(os.getpid(), signal.SIGKILL)
    if device == NO_SUCH_DEVICE:
        connection.send(ModelsFailed("there is no such device"))
        return
    connection.send(
        ModelsReady({"model": "stand-in", "device": OTHER_DEVICE if device == OTHER_DEVICE else "cpu"}, None)
    )
    with suppress(EOFError):
        while True:
            job = connection.recv()
            with closing(receive_block(connection)) as block:
                connection.send(_run(job.number, block))


def _run(number: int, block: SharedBlock) -> BlockDone | BlockFailed:
    rows = cast(Sequence[AuditRow], block.read(0))
    answers = [one.record.answer for one in rows]
    if FATAL in answers or answers.count(CROWDED) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if BROKEN in answers:
        return BlockFailed(number, "ValueError: the stand-in was told to fail")
    return BlockDone(number, block.write([FAULT] * len(rows)), waited=0.5, wall=1.5, cpu=1.0)
