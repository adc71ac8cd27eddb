"""What a suite writes: tables and pictures.

The page with the tables of a suite: passage accuracy first, then all other measures.

The pictures of a suite: the paper's three sensitivity figures, and augmentation compared with its alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attribeam.evaluation.markdown_table import markdown_table
from attribeam.evaluation.measures.accuracy import HighlightScore
from attribeam.evaluation.measures.bootstrap import Interval
from attribeam.evaluation.report import interval_cell
from attribeam.evaluation.suite.plan import UNION_OR_AVERAGE, Section, is_strict
from attribeam.evaluation.suite.suite_results import (
    TO_AVERAGE,
    Citations,
    DatasetAccuracy,
    Drops,
    Latency,
    SuiteResults,
    SupportGroups,
)
from attribeam.schemas.errors import RunError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_LIBRARY = "matplotlib"
_ACCURACY = "passage accuracy in %"


@dataclass(frozen=True, slots=True)
class SuiteFigure:
    """One picture: whether it has data, how it is drawn, and its height in inches."""

    caption: str
    has_data: Callable[[SuiteResults], bool]
    draw: Callable[[Any, SuiteResults], None]
    height: float = 3.4


def check_drawing() -> None:
    """Fail before hours of work if pictures cannot be drawn.

    Raises:
        RunError: if matplotlib is not installed.
    """
    if find_spec(_LIBRARY) is None:
        raise RunError(
            "--suite draws pictures with matplotlib, which is not installed: pip install 'attribeam[evaluation]'"
        )


def draw_figures(results: SuiteResults, directory: Path) -> tuple[Path, ...]:
    """Write every picture that has data, replacing existing files."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    written = []
    for name, one in FIGURES.items():
        if one.has_data(results):
            figure = Figure(figsize=(6.4, one.height), layout="constrained")
            FigureCanvasAgg(figure)
            one.draw(figure.subplots(), results)
            figure.savefig(directory / name, dpi=100, format="png", metadata={"Software": None})
            written.append(directory / name)
    return tuple(written)


def _sensitivity_figure(varied: str, label: str) -> SuiteFigure:
    def has_data(results: SuiteResults) -> bool:
        return any(line.varied == varied for line in results.sensitivity)

    def draw(axes: Axes, results: SuiteResults) -> None:
        for line in (one for one in results.sensitivity if one.varied == varied):
            places = [*range(len(line.points))]
            values = [point["passage_accuracy"] for point in line.points]
            (drawn,) = axes.plot(places, values, marker="o", label=line.dataset)
            lows, highs = ([point["interval"][end] for point in line.points] for end in ("low", "high"))
            axes.fill_between(places, lows, highs, color=drawn.get_color(), alpha=0.12, linewidth=0)
            axes.set_xticks(places, [_tick(point) for point in line.points])
        axes.set_xlabel(f"{label} (default in brackets)")
        axes.set_ylabel(_ACCURACY)
        _finish(axes, grid="y")

    return SuiteFigure(f"Accuracy of attn-union-dep against {label}", has_data, draw)


def _tick(point: Mapping[str, Any]) -> str:
    text = "∞" if point["value"] == "inf" else str(point["value"])
    return f"[{text}]" if point["is_default"] else text


def _finish(axes: Axes, *, grid: Literal["x", "y"]) -> None:
    axes.grid(axis=grid, alpha=0.3)
    axes.figure.legend(loc="outside upper center", ncols=4, fontsize="small", frameon=False)


def _english(results: SuiteResults) -> list[DatasetAccuracy]:
    return [one for one in results.accuracy if one.section == Section.PASSAGES]


def _shown(results: SuiteResults) -> list[str]:
    """The methods in the picture; all data sets run the same ones."""
    return [*_english(results)[0].alternatives] if _english(results) else []


def _draw_alternatives(axes: Axes, results: SuiteResults) -> None:
    """Bars with intervals, one per method and data set, the first method on top."""
    names, datasets = _shown(results), _english(results)
    width = 0.8 / len(datasets)
    for number, dataset in enumerate(datasets):
        scores = [(place, score) for place, name in enumerate(names) if (score := dataset.score(name)) is not None]
        values = [score.passage_accuracy for _, score in scores]
        below = [value - score.interval.low for value, (_, score) in zip(values, scores, strict=True)]
        above = [score.interval.high - value for value, (_, score) in zip(values, scores, strict=True)]
        places = [place + (number - (len(datasets) - 1) / 2) * width for place, _ in scores]
        axes.barh(places, values, width, xerr=[below, above], label=dataset.dataset, error_kw={"linewidth": 0.8})
    axes.set_yticks([*range(len(names))], names, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel(_ACCURACY)
    _finish(axes, grid="x")


FIGURES: Mapping[str, SuiteFigure] = {
    "sensitivity_layer.png": _sensitivity_figure("layer", "the layer"),
    "sensitivity_top_k.png": _sensitivity_figure("top_k", "k"),
    "sensitivity_isolation_tau.png": _sensitivity_figure("isolation_tau", "tau"),
    "alternatives.png": SuiteFigure(
        "Accuracy with dependency augmentation and its alternatives",
        lambda results: bool(_shown(results)),
        _draw_alternatives,
        height=4.6,
    ),
}
"""All pictures by file name."""


NOTHING = "–"
"""Stands for a missing figure."""


def with_interval(value: float, interval: Interval, *, digits: int = 1, sign: str = "") -> str:
    """A figure and its interval in parentheses; set ``sign`` to "+" to show a plus sign."""
    return f"{value:{sign}.{digits}f} ({interval_cell(interval, digits=digits, sign=sign)})"


def section(title: str, *parts: str) -> str:
    """A second-level heading and its parts without the empty ones."""
    return "\n\n".join([f"## {title}", *(part for part in parts if part)])


def accuracy_sections(results: SuiteResults) -> Iterator[str]:
    """Main accuracy, union against average, alternatives to augmentation, highlights and Chinese."""
    english = [one for one in results.accuracy if one.section == Section.PASSAGES]
    chinese = [one for one in results.accuracy if one.section == Section.CHINESE]
    if english:
        yield section("Passage accuracy", _MAIN_TEXT, _main_table(english), _remarks(english))
        yield _union_section(english)
        yield _alternatives_section(english)
        yield from _highlight_sections(english)
    if chinese:
        yield section("An additional language: Chinese", _MAIN_TEXT, _main_table(chinese), _remarks(chinese))


_MAIN_TEXT = (
    "Percentage of spans whose best passage is right, with 95% bootstrap intervals over answers, and the paired "
    "difference to `words`, which needs no model."
)
_UNION_TEXT = (
    "Hidden states compared token by token and united, or averaged (Section 4.2.3). The difference is relative to the "
    "average."
)
_DEP_TEXT = (
    "Other ways to give a span its context (Section 4.2.1 and last appendix), all with the paper's weights. The "
    "difference is relative to `{}`."
)


def _union_section(datasets: Sequence[DatasetAccuracy]) -> str:
    methods = [method for method in UNION_OR_AVERAGE if any(one.score(method) for one in datasets)]
    table = _compared(datasets, methods, dict(TO_AVERAGE)) if methods else ""
    return section("Union against average", _UNION_TEXT, table) if table else ""


def _alternatives_section(datasets: Sequence[DatasetAccuracy]) -> str:
    methods, augmented = datasets[0].alternatives, datasets[0].augmented
    table = _compared(datasets, methods, dict.fromkeys(methods, augmented)) if methods else ""
    return section("Alternatives to dependency augmentation", _DEP_TEXT.format(augmented), table) if table else ""


def _main_table(datasets: Sequence[DatasetAccuracy]) -> str:
    header = ["method", *(cell for one in datasets for cell in (_column(one), "vs words"))]
    methods = list(dict.fromkeys(score.method for one in datasets for score in one.scores))
    return markdown_table(
        header, [[f"`{method}`", *(cell for one in datasets for cell in _cells(one, method))] for method in methods]
    )


def _column(dataset: DatasetAccuracy) -> str:
    return f"{dataset.dataset} ({dataset.spans} spans, {dataset.answers} answers)"


def _cells(dataset: DatasetAccuracy, method: str) -> tuple[str, str]:
    score = dataset.score(method)
    if score is None:
        return NOTHING, NOTHING
    difference = NOTHING
    if score.difference_to_words is not None and score.difference_interval is not None:
        difference = with_interval(score.difference_to_words, score.difference_interval, sign="+")
    return with_interval(score.passage_accuracy, score.interval), difference


def _compared(datasets: Sequence[DatasetAccuracy], methods: Sequence[str], references: Mapping[str, str]) -> str:
    """Accuracy, and the paired difference to the reference method if there is one."""
    header = ["method", *(cell for one in datasets for cell in (one.dataset, "difference"))]
    rows = [
        [
            f"`{method}`",
            *(cell for one in datasets for cell in _compared_cells(one, method, references.get(method, ""))),
        ]
        for method in methods
    ]
    return markdown_table(header, rows)


def _compared_cells(dataset: DatasetAccuracy, method: str, reference: str) -> tuple[str, str]:
    score, difference = dataset.score(method), dataset.difference(method, reference)
    return (
        NOTHING if score is None else with_interval(score.passage_accuracy, score.interval),
        NOTHING if difference is None else with_interval(difference.value, difference.interval, sign="+"),
    )


def _remarks(datasets: Sequence[DatasetAccuracy]) -> str:
    return "\n".join(f"- {remark}" for one in datasets for remark in _remarks_of(one))


def _remarks_of(dataset: DatasetAccuracy) -> Iterator[str]:
    for reason, count in sorted(dataset.skipped_rows.items()):
        yield f"{dataset.dataset}: {count} rows skipped ({reason})."
    if dataset.single_passage_spans:
        yield f"{dataset.dataset}: {dataset.single_passage_spans} spans have only one passage to choose from."
    for score in dataset.scores:
        if score.spans_without_evidence:
            yield f"{dataset.dataset}, `{score.method}`: nothing found for {score.spans_without_evidence} spans."
        if score.isolated_spans:
            what = f"{score.isolated_spans} spans have only isolated evidence; "
            what += "it is dropped" if is_strict(score.method) else "it decides them"
            yield f"{dataset.dataset}, `{score.method}`: {what}."
        if score.failed_rows:
            reasons = ", ".join(sorted({row.reason for row in score.failed_rows}))
            yield f"{dataset.dataset}, `{score.method}`: {len(score.failed_rows)} answers count as wrong ({reasons})."


def _highlight_sections(datasets: Sequence[DatasetAccuracy]) -> Iterator[str]:
    for one in datasets:
        rows = [
            [f"`{score.method}`", *_overlap_cells(score.highlights), *_overlap_cells(score.sentences)]
            for score in one.scores
            if score.highlights is not None and score.sentences is not None and score.highlights.recall > 0
        ]
        if rows:
            yield section(f"Highlights, {one.dataset}", _HIGHLIGHT_TEXT, markdown_table(_HIGHLIGHT_HEADER, rows))


_HIGHLIGHT_TEXT = (
    "The evidence in the best passage, and the passage sentences that it points to, compared with the characters that "
    "people marked; all in %."
)
_HIGHLIGHT_HEADER = (
    "method", "evidence: recall", "precision", "F1", "sentences: recall", "precision", "F1",
)  # fmt: skip


def _overlap_cells(score: HighlightScore | None) -> tuple[str, str, str]:
    if score is None:
        return NOTHING, NOTHING, NOTHING
    return f"{score.recall:.1f}", f"{score.precision:.1f}", with_interval(score.f1, score.f1_interval)


_VARIED = {"layer": "layer", "top_k": "k", "isolation_tau": "tau"}


def other_sections(results: SuiteResults) -> Iterator[str]:
    """The sections that have figures: all measures but accuracy."""
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
    "Citation recall, precision and F1 by ALCE's definition, in %; `self-citation` is the answers' own citations."
)
_SENSITIVITY_TEXT = (
    "Accuracy of `attn-union-dep` in % as one of the three varies and the others stay at the model's default. The "
    "default is in bold."
)
_SUPPORT_TEXT = (
    "Spans that an audit calls unsupported, compared with those that people marked: F1 of characters and of answers in "
    "%, and AUROC of the flag."
)


def _faithfulness_text(results: SuiteResults) -> str:
    return (
        f"Mean log-probability drop per span in nats, with 95% intervals over answers: {results.spans} spans, answers: "
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
        f"Milliseconds per span and peak memory in MiB, including the loaded models, measured in this run on: "
        f"{machines}. Every method computes everything it needs itself and shares nothing with the others."
    )


def _latency(costs: Sequence[Latency]) -> str:
    datasets, methods = dict.fromkeys(one.dataset for one in costs), dict.fromkeys(one.method for one in costs)
    by_place = {(one.method, one.dataset): one for one in costs}
    header = ["method", *(cell for dataset in datasets for cell in (f"{dataset}: ms per span", "MiB"))]
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
    """One table per hyper-parameter, with one row per value and one column per data set."""
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


_PROVENANCE = ("model", "model_type", "layer_choice", "hidden_layer", "top_k", "isolation_tau", "own_token_weight",
               "sentence_weight", "evidence_window", "word_weight", "passage_score", "parser", "language_model",
               "device", "dtype", "torch_version", "transformers_version")  # fmt: skip


def suite_page(results: SuiteResults) -> str:
    """Markdown with all tables that have figures, the pictures, and what is left out; ends with a newline."""
    parts = [
        f"# The paper's suite: {results.model}",
        _settings(results),
        *accuracy_sections(results),
        *other_sections(results),
        _pictures(results),
        _left_out(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _settings(results: SuiteResults) -> str:
    known = [
        f"{name.replace('_', ' ')} {results.provenance[name]}" for name in _PROVENANCE if name in results.provenance
    ]
    limit = [] if results.limit is None else [f"only the first {results.limit} answers of each data set"]
    drawn = f"{results.bootstrap_draws} resamples of answers, seed {results.bootstrap_seed}"
    return "; ".join([*known, *limit, drawn]) + "."


def _pictures(results: SuiteResults) -> str:
    shown = [(file, figure.caption) for file, figure in FIGURES.items() if figure.has_data(results)]
    return section("Figures", *(f"![{caption}]({file})" for file, caption in shown)) if shown else ""


def _left_out(results: SuiteResults) -> str:
    rows = [[one.what, one.reason, f"`{one.remedy}`"] for one in results.left_out]
    lacking = (
        "Not found below DATA: " + ", ".join(f"`{one}`" for one in results.missing) + "." if results.missing else ""
    )
    command = (
        "Nothing is filled in from elsewhere. Add what is named, and the same command resumes where this run ended; "
        "finished cells are kept:\n\n"
        f"```\nattribeam evaluate --suite paper --model {results.model} --data DATA --output OUTPUT\n```"
    )
    return section("Left out", markdown_table(("what", "why", "fill it with"), rows), lacking, command)
