"""A method that ends its process on some answers, and waits on others, as rows do that a test wants to hold in flight.

It is copied to where workers of a cluster find it, so it imports nothing of the tests.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

from attribeam.attribution.evidence.union_results import SpanResult

FATAL_WORD = "kraken"
"""An answer with it ends the process."""
HELD_WORD = "doldrums"
"""An answer with it waits for a file ``wind`` in the folder ``HARBOUR``, and first leaves its process id there."""
HARBOUR = "ATTRIBEAM_TEST_HARBOUR"
_TICK_SECONDS = 0.2


class Deadly:
    """Finds nothing anywhere."""

    needs = frozenset[Any]()

    def __init__(self, options):
        pass

    def span_results(self, context):
        if FATAL_WORD in context.record.answer:
            os.kill(os.getpid(), signal.SIGKILL)
        if HELD_WORD in context.record.answer:
            _wait_for_wind(Path(os.environ[HARBOUR]))
        return [SpanResult((0.0,) * len(context.record.passages), ()) for _ in context.spans]


def _wait_for_wind(harbour):
    (harbour / f"{os.getpid()}.held").touch()
    while not (harbour / "wind").exists():
        time.sleep(_TICK_SECONDS)
