"""The points of the paper's three sensitivity figures, from one forward pass an answer."""

from __future__ import annotations

import math
from collections.abc import Iterable

from evaluation.datasets.labelled_answer import LabelledAnswer
from evaluation.measures.sensitivity import SensitivityFigure, default_point, one_at_a_time, sweep
from evaluation.methods.answer_context import LoadedModels
from evaluation.suite.suite_options import SuiteOptions

TOP_KS = (1, 2, 3, 4, 5, 6, 8, 10)
ISOLATION_TAUS = (0, 1, 2, 3, 4, 5, math.inf)
MOST_LAYERS = 12


def sensitivity_figures(
    answers: Iterable[LabelledAnswer], models: LoadedModels, options: SuiteOptions, *, layers: tuple[int, ...]
) -> dict[str, list[dict[str, object]]]:
    """Plain data: for ``layer``, ``top_k`` and ``isolation_tau`` the points, with everything else at the default."""
    if models.attention is None:
        raise RuntimeError("a sweep should have an attention model, has none")
    default = default_point(models.attention, options.settings)
    lines = one_at_a_time(
        default,
        layers=swept_layers(layers, default.layer),
        top_ks=sorted({*TOP_KS, default.top_k}),
        isolation_taus=sorted({*ISOLATION_TAUS, default.isolation_tau}),
    )
    points = list(dict.fromkeys(point for line in lines.values() for point in line))
    figures = sweep(answers, models, points, settings=options.settings, draws=options.draws, seed=options.seed)
    by_point = {figure.point: figure for figure in figures}
    return {
        varied: [_plain(by_point[point], varied, is_default=point == default) for point in line]
        for varied, line in lines.items()
    }


def swept_layers(layers: tuple[int, ...], default: int) -> tuple[int, ...]:
    """All layers, or of many about twelve at equal distances, and the default one."""
    step = math.ceil(len(layers) / MOST_LAYERS)
    return tuple(sorted({*layers[step - 1 :: step], layers[0], default}))


def _plain(figure: SensitivityFigure, varied: str, *, is_default: bool) -> dict[str, object]:
    value = getattr(figure.point, varied)
    return {
        "value": "inf" if value == math.inf else f"{value:g}",
        "is_default": is_default,
        "passage_accuracy": figure.passage_accuracy,
        "interval": {"low": figure.interval.low, "high": figure.interval.high},
        "failed_rows": figure.failed_rows,
    }
