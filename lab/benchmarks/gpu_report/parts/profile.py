"""Part 7: where AttnUnion spends its time at the step that is farthest from the peak, and the stages of an audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from attribeam.attribution.options import ATTN_UNION_DEP, ModelOptions
from attribeam.lab.benchmarks.generated_rows import RowShape, benchmark_rows, made_up_pages, write_log
from attribeam.lab.benchmarks.gpu_report.journal import Finding, JournalState
from attribeam.lab.benchmarks.gpu_report.part import LeftOutError, Step
from attribeam.lab.benchmarks.gpu_report.parts.latency import TIMES, Weights
from attribeam.lab.benchmarks.gpu_report.report_plan import ReportPlan
from attribeam.lab.benchmarks.latency_measurement import LatencyMeasurement, LatencyRun, Mode
from attribeam.lab.benchmarks.latency_rows import LATENCY_SHAPES, latency_records
from attribeam.lab.benchmarks.operator_profile import HEADER, profile_operators

WHAT, KINDS, OPERATORS, STAGES = "What is profiled", "Kinds of operators", "Operators", "Stages of one audit process"
_WHAT_HEADER = ("model", "weights", "rows", "mode", "of peak", "ms", "operators run", "why this one")
_OPERATORS = 15
_MOST_STAGE_ROWS = 512


def steps(plan: ReportPlan, state: JournalState, folder: Path) -> list[Step]:
    """The operators of the slowest step, then the stages of an audit."""
    return [
        Step("operators of the slowest step", partial(_operators, plan, state)),
        Step("stages of an audit", partial(_stages, plan, folder)),
    ]


def slowest(plan: ReportPlan, state: JournalState) -> tuple[Weights, LatencyMeasurement | None, float]:
    """The weights and the measurement of AttnUnion that is farthest from the peak, and its share of the peak.

    Without any measurement, the first model of the plan.
    """
    found = []
    for values in state.values_of("latency", TIMES):
        one = LatencyMeasurement(**values["measured"])
        if one.method == "attn_union" and one.operations and not one.stopped:
            found.append((one.operations / one.seconds / values["peak"], one, Weights(**values["weights"])))
    if not found:
        return Weights(plan.names[0], plan.precision, "none"), None, 0.0
    share, one, weights = min(found, key=lambda item: item[0])
    return weights, one, share


def _operators(plan: ReportPlan, state: JournalState) -> Iterator[Finding]:
    weights, one, share = slowest(plan, state)
    shape = LATENCY_SHAPES[0] if one is None else next(shape for shape in LATENCY_SHAPES if shape.name == one.shape)
    mode = Mode.BATCHES if one is None else Mode(one.mode)
    model = plan.made(weights.name, precision=weights.precision, quantization=weights.quantization)
    method = LatencyRun("attn_union", mode, model, plan.latency_rows).load()
    records = latency_records(shape, plan.latency_rows if mode is Mode.BATCHES else 1)
    found = profile_operators(lambda: method.run(records), device=plan.device)
    why = "nothing was timed before" if one is None else "farthest from the peak"
    of_peak = "-" if one is None else f"{share:.0%}"
    yield Finding(
        WHAT,
        _WHAT_HEADER,
        (weights.name, weights.form, shape.name, mode, of_peak, f"{1000 * found.wall_seconds:.1f}",
         f"{found.busy_share:.0%} of the time", why),
        {"weights": asdict(weights), "shape": shape.name, "mode": mode, "share_of_peak": share,
         "wall_seconds": found.wall_seconds, "busy_share": found.busy_share},
    )  # fmt: skip
    for kind, part in found.shares().items():
        yield Finding(KINDS, ("kind", "share"), (kind, f"{part:.1%}"), {"kind": kind, "share": part})
    for line, operator in zip(found.lines(_OPERATORS), found.operators, strict=False):
        yield Finding(OPERATORS, HEADER, line, asdict(operator))


def _stages(plan: ReportPlan, folder: Path) -> Iterator[Finding]:
    if find_spec("spacy") is None or find_spec("apache_beam") is None:
        raise LeftOutError("the stages of an audit need spaCy and Apache Beam, which are not both installed")
    from attribeam.attribution.answers.answer_parser import AnswerParser
    from attribeam.lab.benchmarks.attribution_profile import STAGE_HEADER, profile
    from attribeam.transforms.audit_settings import AuditSettings

    settings = AuditSettings(model=ModelOptions(device=plan.device))
    rows, log = min(plan.audit_rows, _MOST_STAGE_ROWS), folder / "profiled.parquet"
    write_log(log, benchmark_rows(made_up_pages(seed=0), rows=rows, seed=0, shape=RowShape.QUOTESUM))
    model = plan.made(plan.smallest).attributor(method=ATTN_UNION_DEP)
    parser = AnswerParser.from_pretrained(settings.parser)
    clock = profile(log, rows=rows, settings=settings, parser=parser, model=model)
    for line in clock.lines():
        yield Finding(STAGES, STAGE_HEADER, line, dict(zip(STAGE_HEADER, line, strict=True)))
