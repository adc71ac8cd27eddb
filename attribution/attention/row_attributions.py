"""The attributions of rows, batch by batch: what fails on memory is halved, what is not finite is tried alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from attribution.attention.out_of_memory import run_halving
from attribution.attention.row_capture import RowCapture
from attribution.attention.row_layout import RowLayout
from attribution.attention.row_requests import Job
from attribution.attention.transfers import RowsOnTheirWay
from attribution.token_attribution import TokenAttribution
from schemas import Reason, RowFault

_RowOnItsWay = tuple[RowsOnTheirWay, int]
"""The rows of a pass, and the place of one of them."""
_Pass = Callable[[Sequence[Job]], list[_RowOnItsWay]]


def attribute_jobs(
    capture: RowCapture, jobs: Sequence[Job], batches: Iterable[Sequence[int]], *, layout: RowLayout, top_k: int
) -> list[TokenAttribution | RowFault]:
    """One outcome a job, in their order; ``batches`` hold the index of every job once.

    All passes are launched before anything is waited for.
    """
    run = partial(_run, capture, layout, top_k)
    launched: dict[int, _RowOnItsWay | RowFault] = {}
    for batch in batches:
        found = run_halving([jobs[index] for index in batch], run)
        launched.update(zip(batch, found, strict=True))
    return [_outcome(job, launched[index], run) for index, job in enumerate(jobs)]


def _run(capture: RowCapture, layout: RowLayout, top_k: int, jobs: Sequence[Job]) -> list[_RowOnItsWay]:
    """One forward pass; its rows are on their way to the host."""
    found = RowsOnTheirWay(capture.take(jobs, layout=layout, top_k=top_k).captured)
    return [(found, place) for place in range(len(jobs))]


def _outcome(job: Job, launched: _RowOnItsWay | RowFault, run: _Pass) -> TokenAttribution | RowFault:
    """What came of a row; one that is not finite is tried alone, as a neighbour's NaN may have reached it."""
    outcome = _arrived(launched)
    if isinstance(outcome, RowFault) and outcome.reason is Reason.NON_FINITE_ATTENTION:
        return _arrived(run_halving([job], run)[0])
    return outcome


def _arrived(launched: _RowOnItsWay | RowFault) -> TokenAttribution | RowFault:
    if isinstance(launched, RowFault):
        return launched
    found, place = launched
    return found.outcome(place)
