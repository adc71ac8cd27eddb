"""The pictures of a suite: the paper's three sensitivity figures, and augmentation compared with its alternatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attribeam.lab.evaluation.suite.data_files import Section
from attribeam.lab.evaluation.suite.suite_results import DatasetAccuracy, SuiteResults
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


def _sensitivity(varied: str, label: str) -> SuiteFigure:
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
    "sensitivity_layer.png": _sensitivity("layer", "the layer"),
    "sensitivity_top_k.png": _sensitivity("top_k", "k"),
    "sensitivity_isolation_tau.png": _sensitivity("isolation_tau", "tau"),
    "alternatives.png": SuiteFigure(
        "Accuracy with dependency augmentation and its alternatives",
        lambda results: bool(_shown(results)),
        _draw_alternatives,
        height=4.6,
    ),
}
"""All pictures by file name."""
