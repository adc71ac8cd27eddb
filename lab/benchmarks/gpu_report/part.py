"""A part of the report: a module whose function ``steps`` gives what to measure, in order, most telling first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec

from attribeam.lab.benchmarks.gpu_report.journal import Finding


class LeftOutError(Exception):
    """A step cannot be run here, because something that it needs is not there; the message says what."""


def need_nf4() -> None:
    """Leave the step out where weights cannot be kept in NF4.

    Raises:
        LeftOutError: if bitsandbytes is not installed.
    """
    if find_spec("bitsandbytes") is None:
        raise LeftOutError("NF4 needs bitsandbytes, which is not installed")


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement, which is on disk when it has ended.

    ``run`` may raise ``LeftOutError``; any other exception fails the step, and the part goes on with the next one.
    """

    name: str
    run: Callable[[], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part as the driver knows it.

    Attributes:
        name, title: in the journal, and on the page.
        module: what the part's process imports; its ``steps(plan, state, folder)`` gives the steps, where ``folder`` is
            for files that are not kept.
        share: of the time, as a weight among the parts that remain.
    """

    name: str
    title: str
    module: str
    share: float


_PARTS = "attribeam.lab.benchmarks.gpu_report.parts"

PARTS = (
    Part("tests", "Tests that need a GPU", f"{_PARTS}.device_tests", 14),
    Part("exactness", "Exactness against eager attention", f"{_PARTS}.exactness", 14),
    Part("latency", "Latency and throughput", f"{_PARTS}.latency", 34),
    Part("memory", "Memory by length of the row", f"{_PARTS}.memory", 10),
    Part("audit", "Idle share of a whole audit", f"{_PARTS}.audit", 15),
    Part("halving", "Running out of memory", f"{_PARTS}.halving", 5),
    Part("profile", "Profile of the slowest step", f"{_PARTS}.profile", 8),
    Part("sizes", "Sizes of models, for attribeam models suggest", f"{_PARTS}.sizes", 8),
)
"""Most telling first."""
