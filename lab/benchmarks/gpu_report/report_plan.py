"""What a report measures: the models, and sizes that fit the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attribeam.lab.benchmarks.benchmark_model import BenchmarkModel


@dataclass(frozen=True, slots=True)
class ReportPlan:
    """The sizes of a report; a report that is continued must have the same ones.

    Attributes:
        device: "cuda", "cuda:1" or "cpu".
        model: a hub id or a directory; None measures random models of ``shapes``.
        shapes: names of random models, the one that matters most first.
        precision: of the tables of speed and memory.
        exact_precisions: of the comparison with eager attention.
        latency_rows: rows of each shape in the table of latencies.
        memory_tokens: lengths of the rows in the table of memory.
        audit_rows, rows_per_chunk, audit_workers: the audits whose idle share is measured.
        halving_rows, halving_tokens: the batch that does not fit.
        suggested_sizes: names of random models whose figures ``attribeam models suggest`` reads.
    """

    device: str
    model: str | None
    shapes: tuple[str, ...]
    precision: str
    exact_precisions: tuple[str, ...]
    latency_rows: int
    memory_tokens: tuple[int, ...]
    audit_rows: int
    rows_per_chunk: int
    audit_workers: tuple[int, ...]
    halving_rows: int
    halving_tokens: int
    suggested_sizes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The models to measure."""
        return self.shapes if self.model is None else (self.model,)

    @property
    def smallest(self) -> str:
        """The model that is fastest, and so the hardest to feed."""
        return self.names[-1]

    def made(self, name: str, *, precision: str | None = None, quantization: str = "none") -> BenchmarkModel:
        """One of ``names`` as a model to make."""
        from attribeam.lab.benchmarks.benchmark_model import NamedModel  # the driver of a report needs no torch
        from attribeam.lab.benchmarks.random_model import RandomModel

        precision = precision or self.precision
        if self.model is not None:
            return NamedModel(self.model, self.device, precision, quantization)
        return RandomModel(name, self.device, precision, quantization, peaked=True)

    def as_values(self) -> dict[str, Any]:
        """The plan as JSON has it."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> ReportPlan:
        """The plan that ``as_values`` gave."""
        kept: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
        return cls(**kept)


def plan_for(device: str, *, model: str | None, cores: int) -> ReportPlan:
    """The plan for a GPU, or for a CPU: the same with sizes that only show that everything works."""
    if device == "cpu":
        return ReportPlan(
            device=device,
            model=model,
            shapes=("tiny",),
            precision="float32",
            exact_precisions=("float32", "bfloat16", "float16"),
            latency_rows=2,
            memory_tokens=(1024,),
            audit_rows=16,
            rows_per_chunk=8,
            audit_workers=(1,),
            halving_rows=8,
            halving_tokens=2000,
            suggested_sizes=("tiny",),
        )
    return ReportPlan(
        device=device,
        model=model,
        shapes=("qwen2-7b", "qwen2-0.5b"),
        precision="bfloat16",
        exact_precisions=("float32", "bfloat16", "float16"),
        latency_rows=64,
        memory_tokens=(1024, 4096, 16_384, 32_768),
        audit_rows=3000,
        rows_per_chunk=100,
        audit_workers=tuple(dict.fromkeys(max(1, cores // part) for part in (1, 2, 4))),
        halving_rows=16,
        halving_tokens=2000,
        suggested_sizes=("qwen2-7b", "qwen2-0.5b", "qwen2-1.5b"),
    )
