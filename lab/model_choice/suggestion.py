"""Which measured models fit a machine, a number of rows and a deadline, and what would make the others fit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attribeam.attribution.models.weight_loading import format_size
from attribeam.lab.model_choice.measured_models import MeasuredModel, Measurements, longest, seconds_per_row

PARALLEL_COST = 1.2
"""How much more a row costs with several workers than with one: measured with two, see lab/benchmarks/RESULTS.md."""
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Models of one measured size: what they are, and some to name with ``--model``."""

    words: str
    examples: tuple[str, ...]


SIZE_CLASSES = {
    "bundled": SizeClass("the package's own encoder, English", ("bundled",)),
    "minilm": SizeClass(
        "encoders of 22M parameters, context 512", ("sentence-transformers/all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5")
    ),
    "qwen2-0.5b": SizeClass("decoders of about 0.5B parameters", ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-0.6B")),
    "qwen2-1.5b": SizeClass(
        "decoders of about 1.5B parameters", ("Qwen/Qwen2.5-1.5B-Instruct", "HuggingFaceTB/SmolLM2-1.7B-Instruct")
    ),
    "qwen2-7b": SizeClass(
        "decoders of about 7B parameters", ("Qwen/Qwen2.5-7B-Instruct", "mistralai/Mistral-7B-Instruct-v0.3")
    ),
}
"""From small to large. Sizes of ``measured_models.json`` that are not listed are not suggested."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes of memory, cores, and bytes of a GPU's memory, None without one."""

    memory: int
    cores: int
    gpu_memory: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """How many rows of how many tokens each are to be audited in how many hours."""

    rows: int
    hours: float
    row_tokens: float

    @property
    def rows_per_second(self) -> float:
        """What meets the deadline."""
        return self.rows / (self.hours * _HOUR)


@dataclass(frozen=True, slots=True)
class Fit:
    """One measured model on the machine.

    Attributes:
        memory: bytes of one worker, or of the GPU's memory.
        rows_per_second: of one core with one worker, or of the GPU.
        workers: processes that fit into memory and have a core each; on a GPU the cores that feed it; 0 if none fits.
        hours: how long the job takes with them; None without a worker.
        problem: why it does not fit; empty if it does.
        ways_out: what would make it fit, each alone.
        longest_measured: tokens of the longest measured row.
    """

    model: MeasuredModel
    memory: int
    rows_per_second: float
    workers: int
    hours: float | None
    problem: str
    ways_out: tuple[str, ...]
    longest_measured: int

    @property
    def fits(self) -> bool:
        """Whether memory suffices and the deadline is met."""
        return not self.problem


def fits(measured: Measurements, machine: Machine, job: Job) -> tuple[Fit, ...]:
    """Every model that was measured, from small to large; those of a GPU last."""
    order = [*SIZE_CLASSES]
    known = [one for one in measured.models if one.size in SIZE_CLASSES]
    known.sort(key=lambda one: (one.device != "cpu", order.index(one.size), one.quantization, one.dtype, one.method))
    besides = 0.0 if measured.other_stages is None else seconds_per_row(measured.other_stages.figures, job.row_tokens)
    return tuple(_fit_of(one, besides, machine, job) for one in known)


def _fit_of(model: MeasuredModel, besides: float, machine: Machine, job: Job) -> Fit:
    seconds = seconds_per_row(model.figures, job.row_tokens)
    return (_on_cpu if model.device == "cpu" else _on_gpu)(model, seconds, besides, machine, job)


def _on_cpu(model: MeasuredModel, seconds: float, besides: float, machine: Machine, job: Job) -> Fit:
    of_one = seconds + besides
    workers = min(machine.cores, machine.memory // model.peak_bytes)
    hours = job.rows * of_one * _slowdown(workers) / workers / _HOUR if workers else None
    needed = workers_needed(of_one, job)
    enough = f"{_counted(needed, 'core')} and {format_size(needed * model.peak_bytes)} of memory"
    ways: tuple[str, ...] = ()
    if hours is None:
        problem = f"a worker needs {format_size(model.peak_bytes)}, there are {format_size(machine.memory)}"
        ways = (enough,)
    elif hours > job.hours:
        held_back = f", since memory holds {workers} of {machine.cores} workers" if workers < machine.cores else ""
        problem = f"takes {hours:,.1f} h{held_back}"
        ways = (enough, *_ways_in_time(hours, job))
    else:
        problem = ""
    return Fit(model, model.peak_bytes, 1 / of_one, workers, hours, problem, ways, longest(model.figures))


def workers_needed(seconds: float, job: Job) -> int:
    """How many workers, each with a core, meet the deadline if a row takes ``seconds`` of one core."""
    alone = seconds * job.rows_per_second
    return 1 if alone <= 1 else max(2, math.ceil(alone * PARALLEL_COST))


def _slowdown(workers: int) -> float:
    return 1.0 if workers == 1 else PARALLEL_COST


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _ways_in_time(hours: float, job: Job) -> tuple[str, ...]:
    return f"a deadline of {math.ceil(hours * 10) / 10:,.1f} h", f"{math.floor(job.rows * job.hours / hours):,} rows"


def _on_gpu(model: MeasuredModel, seconds: float, besides: float, machine: Machine, job: Job) -> Fit:
    """The cores parse and make evidence while the GPU runs the model; the slower of the two decides."""
    of_cores = besides * _slowdown(machine.cores) / machine.cores
    needed = format_size(model.peak_bytes)
    hours: float | None = None
    ways: tuple[str, ...] = (f"a GPU with {needed} free (--gpu-memory)",)
    if machine.gpu_memory is None:
        problem = "needs a GPU"
    elif model.peak_bytes > machine.gpu_memory:
        problem = f"needs {needed} of GPU memory, there are {format_size(machine.gpu_memory)}"
    else:
        hours = job.rows * max(seconds, of_cores) / _HOUR
        problem = "" if hours <= job.hours else f"takes {hours:,.1f} h"
        more = "more cores, since these cannot feed the GPU" if of_cores > seconds else "more GPUs"
        ways = (more, *_ways_in_time(hours, job)) if problem else ()
    workers = 0 if hours is None else machine.cores
    return Fit(model, model.peak_bytes, 1 / seconds, workers, hours, problem, ways, longest(model.figures))
