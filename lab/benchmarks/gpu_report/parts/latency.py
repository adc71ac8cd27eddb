"""Part 3: AttnUnion against the two-stage routine and the device's peak, in full precision and in NF4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path

from attribeam.lab.benchmarks.attribution_latency import HEADER, METHOD_NAMES, cells, speedups
from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import LeftOutError, Step, need_nf4
from attribeam.lab.benchmarks.gpu_report.parts.loaded import OneLoaded
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan
from attribeam.lab.benchmarks.latency_measurement import LatencyMeasurement, LatencyRun, Mode, measured_peak

TIMES, RATIOS, NF4_TIMES, PEAK = "Times", "AttnUnion against two stages", "NF4 against full precision", "Peak"
_TIMES_HEADER = ("model", "weights", *HEADER)
_RATIO_HEADER = ("model", "weights", "rows", "mode", "compared with", "times as fast")
_NF4_HEADER = ("model", "rows", "mode", "times as long in NF4")
_MAIN = (
    ("attn_union", Mode.BATCHES),
    ("attn_union", Mode.SINGLE),
    ("two_stage", Mode.BATCHES),
    ("two_stage", Mode.SINGLE),
)
_MORE = (
    ("two_stage_headless", Mode.BATCHES),
    ("two_stage_headless", Mode.SINGLE),
    ("attn_union_dep", Mode.BATCHES),
)


@dataclass(frozen=True, slots=True)
class Weights:
    """A model and the form of its weights."""

    name: str
    precision: str
    quantization: str

    @property
    def form(self) -> str:
        """The form in a table."""
        return self.precision if self.quantization == "none" else self.quantization


def steps(plan: ReportPlan, state: JournalState, _: Path) -> list[Step]:
    """The peak, then the four main lines of each model and form of weights, then the others."""
    latencies = _Latencies(plan, state)
    weights = [Weights(name, plan.precision, form) for form in ("none", "nf4") for name in plan.names]
    runs = [(one, *line) for lines in (_MAIN, _MORE) for one in weights for line in lines]
    return [
        Step(f"peak in {plan.precision}", latencies.peak_line),
        *(
            Step(
                f"{one.name} {one.form}: {METHOD_NAMES[method]}, {mode}", partial(latencies.measure, one, method, mode)
            )
            for one, method, mode in runs
        ),
    ]


@dataclass
class _Latencies:
    """The measurements, and those of earlier steps, with which they are compared."""

    plan: ReportPlan
    state: JournalState
    loaded: OneLoaded = field(default_factory=OneLoaded)
    found: dict[Weights, list[LatencyMeasurement]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for values in self.state.values_of("latency", TIMES):
            self.found.setdefault(Weights(**values["weights"]), []).append(LatencyMeasurement(**values["measured"]))

    @cached_property
    def peak(self) -> float:
        """Operations per second of a large matrix product in the precision of the model."""
        return measured_peak(self.plan.device, self.plan.precision)

    def peak_line(self) -> list[Finding]:
        """The line that says the peak."""
        line = (self.plan.precision, f"{self.peak / 1e12:.3f}")
        return [Finding(PEAK, ("precision", "TFLOP/s of a matrix product"), line, {"operations_per_second": self.peak})]

    def measure(self, weights: Weights, method: str, mode: Mode) -> Iterator[Finding]:
        """Time one method on the rows of all shapes, and compare it with what was timed before."""
        _check_installed(weights, method)
        model = self.plan.made(weights.name, precision=weights.precision, quantization=weights.quantization)
        run = LatencyRun(method, mode, model, self.plan.latency_rows)
        measured = run.measure(self.loaded.get((weights, method), run.load))
        self.found.setdefault(weights, []).extend(measured)
        for one in measured:
            values = {"weights": asdict(weights), "measured": asdict(one), "peak": self.peak}
            yield Finding(TIMES, _TIMES_HEADER, (weights.name, weights.form, *cells(one, self.peak)), values)
        if method in ("two_stage", "two_stage_headless"):
            yield from self._ratios(weights, method, mode)
        if method == "attn_union" and weights.quantization != "none":
            yield from self._nf4_ratios(weights, measured)

    def _ratios(self, weights: Weights, method: str, mode: Mode) -> Iterator[Finding]:
        for one in speedups(self.found[weights]):
            if (one.other, one.mode) == (method, mode):
                line = (weights.name, weights.form, one.shape, one.mode, METHOD_NAMES[method], f"{one.factor:.2f}")
                values = {"model": weights.name, "weights": weights.form, **asdict(one)}
                yield Finding(RATIOS, _RATIO_HEADER, line, values)

    def _nf4_ratios(self, weights: Weights, measured: Sequence[LatencyMeasurement]) -> Iterator[Finding]:
        full = {_key(one): one.seconds for one in self.found.get(Weights(weights.name, weights.precision, "none"), [])}
        for one in measured:
            if _key(one) in full:
                factor = one.seconds / full[_key(one)]
                line = (weights.name, one.shape, one.mode, f"{factor:.2f}")
                values = {"model": weights.name, "shape": one.shape, "mode": one.mode, "factor": factor}
                yield Finding(NF4_TIMES, _NF4_HEADER, line, values)


def _key(one: LatencyMeasurement) -> tuple[str, str, str]:
    return one.method, one.mode, one.shape


def _check_installed(weights: Weights, method: str) -> None:
    if weights.quantization != "none":
        need_nf4()
    if method == "attn_union_dep" and find_spec("spacy") is None:
        raise LeftOutError("dependency augmentation needs spaCy, which is not installed")
