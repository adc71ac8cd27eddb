"""Thresholds of evidence mass that ``attribeam calibrate`` fitted for one model, as ``--verdict DIR`` reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from attribeam.attribution.option_types import BUNDLED_VERDICT_NAME, MASS_FILE, MASS_VERDICT
from attribeam.attribution.options import MethodOptions
from attribeam.schemas.errors import ModelLoadError, UsageError

_Options = TypeVar("_Options", bound=MethodOptions)


@dataclass(frozen=True, slots=True)
class MassThresholds:
    """Two thresholds, and the model and method whose evidence mass they were fitted to.

    Attributes:
        model: as ``--model`` names it.
        layer: whose attention was taken; empty for methods without one.
        measured_on: on what, to follow "measured on".
    """

    supported_threshold: float
    weak_threshold: float
    model: str
    method: str
    layer: str
    measured_on: str

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"


def with_calibrated_mass(options: _Options, *, model: str) -> _Options:
    """The options, with the verdict "mass" where they give a threshold of evidence mass, or name a directory of some.

    Raises:
        UsageError: if the thresholds belong to another model or method, or the options set some of their own; if a
            threshold of mass goes with a fitted verdict, or a false-alarm rate with mass.
        ModelLoadError: if their file cannot be read.
    """
    has_own = bool({"supported_threshold", "weak_threshold"} & options.model_fields_set)
    if options.verdict in (BUNDLED_VERDICT_NAME, MASS_VERDICT):
        if not has_own and options.verdict != MASS_VERDICT:
            return options
        if options.false_alarm_rate is not None:
            raise UsageError(
                "--false-alarm-rate is for a fitted verdict, not for evidence mass; leave it out, or --verdict mass, "
                "--supported-threshold and --weak-threshold"
            )
        return options.replaced(verdict=MASS_VERDICT)
    file = Path(options.verdict) / MASS_FILE
    if not file.is_file():
        if has_own:
            raise UsageError(
                f"--verdict {options.verdict} compares no evidence mass; leave out --supported-threshold and "
                "--weak-threshold, or the verdict"
            )
        return options
    found = _read(file)
    if has_own or options.false_alarm_rate is not None:
        raise UsageError(
            f"--verdict {options.verdict} sets the thresholds of evidence mass; leave out --supported-threshold, "
            "--weak-threshold and --false-alarm-rate, or the verdict"
        )
    asked = {"model": model, "method": options.method}
    for name, value in asked.items():
        if value != getattr(found, name):
            raise UsageError(
                f"--verdict {options.verdict} has thresholds of evidence mass for --{name} {getattr(found, name)}, not "
                f"for {value}, whose masses are others; name that {name}, or run attribeam calibrate for this one"
            )
    return options.replaced(
        verdict=MASS_VERDICT,
        supported_threshold=found.supported_threshold,
        weak_threshold=found.weak_threshold,
    )


def _read(file: Path) -> MassThresholds:
    try:
        found: Mapping[str, object] = json.loads(file.read_text(encoding="utf-8"))
        thresholds = MassThresholds(**found)  # type: ignore[arg-type]
        if not 0 <= thresholds.weak_threshold <= thresholds.supported_threshold <= 1:
            raise ValueError("thresholds should satisfy 0 <= weak <= supported <= 1")
    except (OSError, TypeError, ValueError) as error:
        raise ModelLoadError(f"the thresholds {file} cannot be read: {error}; run attribeam calibrate again") from error
    return thresholds
