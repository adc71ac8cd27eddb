"""A method that ends its process, as native code does that crashes on one row."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

from attribeam.attribution.evidence.span_result import SpanResult

FATAL_WORD = "kraken"


class Deadly:
    """Finds nothing anywhere, and ends the process on an answer with the fatal word."""

    needs = frozenset[Any]()

    def __init__(self, options: object) -> None:
        pass

    def span_results(self, context: Any) -> Sequence[SpanResult]:
        if FATAL_WORD in context.record.answer:
            os.kill(os.getpid(), signal.SIGKILL)
        return [SpanResult((0.0,) * len(context.record.passages), ()) for _ in context.spans]
