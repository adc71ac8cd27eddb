"""The picture of its curves that every training recipe writes."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from attribeam.schemas.errors import UsageError

EXTRA_MODULE = "matplotlib"


def check_drawing_is_installed() -> None:
    """Refuse to begin a training whose curves could not be drawn at its end.

    Raises:
        UsageError: if matplotlib is missing.
    """
    if find_spec(EXTRA_MODULE) is None:
        raise UsageError(f"training needs {EXTRA_MODULE}, which is not installed: pip install 'attribeam[training]'")


def draw_loss_curve(steps: Sequence[int], series: dict[str, list[float]], path: Path | str) -> None:
    """Save a PNG with one panel per named series, drawn over ``steps``.

    Every series has one value per step. A missing parent folder is created, and an existing picture is replaced.

    Raises:
        ValueError: if there is no series, or if the length of a series differs from that of ``steps``.
    """
    if not series:
        raise ValueError("expected at least one series to draw, found none")
    for name, values in series.items():
        if len(values) != len(steps):
            raise ValueError(f"expected {len(steps)} values (one per step) for {name!r}, found {len(values)}")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 2.4 * len(series)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(series), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (name, values) in zip(panels, series.items(), strict=True):
        panel.plot(list(steps), values, linewidth=1.2)
        panel.set_ylabel(name)
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("step")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, format="png")
