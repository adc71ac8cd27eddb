"""Model workers without a model, for the tests of the service: they do what the rows tell them."""

import os
import pickle
import signal

from attribeam.pipeline.model_workers import BlockReply, serve_requests
from attribeam.pipeline.worker_process import ModelsLoaded, WorkerFailed

FATAL, BROKEN = "kill", "raise"
NO_SUCH_DEVICE, OTHER_DEVICE, DEADLY_DEVICE = "cuda:7", "cuda:8", "cuda:9"


def serve_as_told(connection, settings, asked):
    """Takes the place of ``_serve_blocks``; the outcomes of rows are the rows."""
    device = settings.model.device
    if device == DEADLY_DEVICE:
        os.kill(os.getpid(), signal.SIGKILL)
    if device == NO_SUCH_DEVICE:
        connection.send(WorkerFailed("there is no such device", is_usage=True))
        return
    models = ModelsLoaded({"device": OTHER_DEVICE if device == OTHER_DEVICE else "cpu"})
    serve_requests(connection, asked, models, _run)


def _run(block):
    rows = pickle.loads(block)
    if FATAL in rows:
        os.kill(os.getpid(), signal.SIGKILL)
    outcomes = "ValueError: the stand-in was told to fail" if BROKEN in rows else rows
    return pickle.dumps(BlockReply(outcomes, wall=1.5, cpu=1.0))
