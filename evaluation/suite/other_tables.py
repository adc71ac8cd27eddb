"""The tables of faithfulness, citations, latency, sensitivity and support labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.measures.bootstrap import Interval
from evaluation.suite.markdown import NOTHING, markdown_table, section, with_interval
from evaluation.suite.suite_results import Citations, Drops, Latency, SuiteResults, SupportGroups

_VARIED = {"layer": "layer", "top_k": "k", "isolation_tau": "tau"}


def other_sections(results: SuiteResults) -> Iterator[str]:
    """Those that have figures."""
    if results.faithfulness:
        yield section("Faithfulness", _faithfulness_text(results), *map(_drops, results.faithfulness))
    if results.citations:
        yield section("Sentence level", _CITATION_TEXT, *map(_citations, results.citations))
    if results.latency:
        yield section("Latency", _latency_text(results), _latency(results.latency))
    if results.sensitivity:
        yield section("Sensitivity to layer, k and tau", _SENSITIVITY_TEXT, *_sensitivity(results))
    if results.support:
        yield section("Support labels", _SUPPORT_TEXT, *map(_support, results.support))


_CITATION_TEXT = (
    "Citation recall, precision and F1 a sentence by ALCE's definition, in %; `self-citation` are the answers' own."
)
_SENSITIVITY_TEXT = (
    "Accuracy of `attn-union-dep` in % against one of the three, the others at the model's default, which is in bold."
)
_SUPPORT_TEXT = (
    "Spans that an audit calls unsupported against those that people marked: F1 of characters and of answers in %, and "
    "AUROC of the flag."
)


def _faithfulness_text(results: SuiteResults) -> str:
    return (
        f"Mean log-probability drop a span in nats, with 95% intervals over answers: {results.spans} spans, answers: "
        f"{results.answers}. `random` is the mean of {results.random_draws} draws, `oracle` the largest drop."
    )


def _drops(drops: Drops) -> str:
    rows = [
        [
            f"`{one.method}`",
            with_interval(one.log_probability_drop, one.interval, digits=2),
            str(one.spans_without_passage),
        ]
        for one in drops.scores
    ]
    first = drops.scores[0]
    header = (f"{drops.dataset} ({first.spans} spans, {first.rows} answers)", "drop", "spans without a passage")
    skipped = [f"- {count} rows skipped ({reason})." for reason, count in sorted(drops.skipped_rows.items())]
    return "\n\n".join([markdown_table(header, rows), *(["\n".join(skipped)] if skipped else [])])


def _citations(citations: Citations) -> str:
    first = citations.rows[0]
    header = (
        f"{citations.dataset} ({first.sentences} sentences, {first.answers} answers)",
        "recall",
        "precision",
        "F1",
    )
    rows = [
        [
            f"`{row.method}`",
            with_interval(row.score.recall, row.score.recall_interval),
            with_interval(row.score.precision, row.score.precision_interval),
            with_interval(row.score.f1, row.score.f1_interval),
        ]
        for row in citations.rows
    ]
    return markdown_table(header, rows)


def _latency_text(results: SuiteResults) -> str:
    machines = "; ".join(results.machines)
    return (
        f"Milliseconds a span and the largest memory in MiB, the loaded models included, measured in this run on: "
        f"{machines}. Every method computes all that it needs, and shares nothing with the others."
    )


def _latency(costs: Sequence[Latency]) -> str:
    datasets, methods = dict.fromkeys(one.dataset for one in costs), dict.fromkeys(one.method for one in costs)
    by_place = {(one.method, one.dataset): one for one in costs}
    header = ["method", *(cell for dataset in datasets for cell in (f"{dataset}: ms a span", "MiB"))]
    rows = [
        [f"`{method}`", *(cell for dataset in datasets for cell in _cost_cells(by_place.get((method, dataset))))]
        for method in methods
    ]
    return markdown_table(header, rows)


def _cost_cells(cost: Latency | None) -> tuple[str, str]:
    if cost is None:
        return NOTHING, NOTHING
    return f"{cost.ms_per_span:.1f}", NOTHING if cost.peak_memory_mib is None else f"{cost.peak_memory_mib:.0f}"


def _sensitivity(results: SuiteResults) -> Iterator[str]:
    """One table a hyper-parameter: a row a value, a column a data set."""
    for varied, name in _VARIED.items():
        lines = [one for one in results.sensitivity if one.varied == varied]
        if lines:
            rows = [
                [_bold(points[0]["value"], points[0]), *(_bold(_point(point), point) for point in points)]
                for points in zip(*(line.points for line in lines), strict=True)
            ]
            yield markdown_table([name, *(line.dataset for line in lines)], rows)


def _point(point: Mapping[str, Any]) -> str:
    return with_interval(point["passage_accuracy"], Interval(**point["interval"]))


def _bold(text: str, point: Mapping[str, Any]) -> str:
    return f"**{text}**" if point["is_default"] else text


def _support(support: SupportGroups) -> str:
    rows = [
        [group["group"], level["level"], *_f1_cells(level), _auroc(group["answer_flag"]), _auroc(group["span_flag"])]
        for group in support.groups
        for level in group["levels"]
    ]
    header = (f"`{support.method}`", "called", "characters F1", "answers F1", "AUROC answers", "AUROC spans")
    return markdown_table(header, rows)


def _f1_cells(level: Mapping[str, Any]) -> tuple[str, ...]:
    figures = (level["characters"], level["answers"])
    return tuple(with_interval(one["f1"], Interval(**one["f1_interval"])) for one in figures)


def _auroc(value: Mapping[str, Any] | None) -> str:
    return NOTHING if value is None else f"{value['value']:.3f}"
