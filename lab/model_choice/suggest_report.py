"""What ``attribeam models suggest`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from attribeam.attribution.models.weight_loading import format_size
from attribeam.lab.evaluation.report import text_table
from attribeam.lab.model_choice.measured_models import Measurements
from attribeam.lab.model_choice.suggestion import PARALLEL_COST, SIZE_CLASSES, Fit, Job, Machine

_HEADER = ("size", "precision", "method", "on", "memory of one", "rows/s of one", "at once", "hours", "fits")
_LOAD = re.compile(r"(?<=load )[\d.]+(?= at the start)")
"""As ``machine_description`` has it."""


def suggestion_lines(
    fits: Sequence[Fit], measured: Measurements, machine: Machine, job: Job, source: str
) -> Iterator[str]:
    """The question, a table with one line per measured model, what the others lack, names, and limits."""
    gpu = "no GPU" if machine.gpu_memory is None else f"a GPU with {format_size(machine.gpu_memory)}"
    yield f"{job.rows:,} rows of {job.row_tokens:,.0f} tokens ({source})"
    yield f"in {job.hours:g} h: {job.rows_per_second:,.1f} rows/s"
    yield f"on {machine.cores} cores with {format_size(machine.memory)}, {gpu}"
    yield ""
    yield from text_table(_HEADER, [_cells(one) for one in fits]).split("\n")
    yield ""
    yield from _lacking(fits)
    yield from _names(fits)
    yield ""
    yield from _limits(fits, measured, job)


def suggestion_values(fits: Sequence[Fit]) -> list[dict[str, object]]:
    """The same as plain data, one object per measured model."""
    return [
        {
            "size": one.model.size,
            "examples": list(SIZE_CLASSES[one.model.size].examples),
            "dtype": one.model.dtype,
            "quantization": one.model.quantization,
            "method": one.model.method,
            "device": one.model.device,
            "memory_bytes": one.memory,
            "rows_per_second_of_one": one.rows_per_second,
            "workers": one.workers,
            "hours": one.hours,
            "fits": one.fits,
            "problem": one.problem or None,
            "would_fit_with": list(one.ways_out),
            "longest_measured_row_tokens": one.longest_measured,
            "machine": one.model.machine,
            "command": one.model.command,
        }
        for one in fits
    ]


def _cells(one: Fit) -> tuple[str, ...]:
    model = one.model
    return (
        model.size,
        model.precision,
        model.method,
        "GPU" if model.device == "cuda" else "CPU",
        format_size(one.memory),
        f"{one.rows_per_second:.3g}",
        str(one.workers),
        "" if one.hours is None else f"{one.hours:,.1f}",
        "yes" if one.fits else "no",
    )


def _lacking(fits: Sequence[Fit]) -> Iterator[str]:
    for one in fits:
        if not one.fits:
            ways = ", or ".join(one.ways_out)
            yield f"{one.model.size}, {one.model.precision}, {one.model.method}: {one.problem}; would fit with {ways}"
    if any(not one.fits for one in fits):
        yield ""


def _names(fits: Sequence[Fit]) -> Iterator[str]:
    sizes = dict.fromkeys(one.model.size for one in fits if one.fits)
    if not sizes:
        yield "No measured model fits. Shorter rows, a later deadline, more cores or a GPU would help."
        return
    yield "What fits, and models of that size to name with --model:"
    for size in sizes:
        yield f"  {size}: {SIZE_CLASSES[size].words}; {', '.join(SIZE_CLASSES[size].examples)}"
    yield "A larger model does not find more by being larger: attribeam models check --model NAME shows what one finds."


def _limits(fits: Sequence[Fit], measured: Measurements, job: Job) -> Iterator[str]:
    beyond = [one for one in fits if job.row_tokens > one.longest_measured]
    if beyond:
        least = min(one.longest_measured for one in beyond)
        yield (
            f"Rows of {job.row_tokens:,.0f} tokens are longer than those measured (from {least:,} tokens on some "
            "models): such rows take longer than shown here."
        )
    if not any(one.model.device == "cuda" for one in fits):
        yield "No GPU was measured yet, so none is listed."
    if any(one.model.device == "cpu" and one.model.precision != "float32" for one in fits):
        yield (
            "On a CPU, bfloat16 takes a processor with AVX512-BF16 or AMX, and int8 one with VNNI or AMX (grep -oE "
            "'avx512_bf16|amx_bf16|avx512_vnni|avx_vnni|amx_int8' /proc/cpuinfo); others are slower in them. Some with "
            "AVX512-BF16 are slower, too; --dtype auto tries it before it chooses bfloat16."
        )
    yield "Measured on:"
    yield from (f"  {one}" for one in _machines(one.machine for one in measured.models if one.size in SIZE_CLASSES))
    yield (
        "Another processor is faster or slower: attribeam models check measures it. With several workers a row costs "
        f"{PARALLEL_COST:g} times as much as with one."
    )


def _machines(descriptions: Iterable[str]) -> Iterator[str]:
    """Each machine once, with the range of the loads at which it measured."""
    loads: dict[str, list[float]] = {}
    for one in descriptions:
        loads.setdefault(_LOAD.sub("{}", one), []).extend(map(float, _LOAD.findall(one)))
    for machine, found in loads.items():
        ends = dict.fromkeys((min(found), max(found))) if found else ()
        yield machine.replace("{}", " to ".join(f"{one:g}" for one in ends))
