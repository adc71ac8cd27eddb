"""Thresholds of evidence mass that ``attribeam calibrate`` fitted for one model, as ``--verdict DIR`` reads them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Self, TypeVar

import pydantic
from pydantic import model_validator

from attribeam.attribution.option_declaration import BUNDLED_VERDICT_NAME, MASS_FILE, MASS_VERDICT
from attribeam.attribution.options import MethodOptions
from attribeam.schemas.errors import UsageError
from attribeam.schemas.json_file import STRICT, Line, Share, read_form

_Options = TypeVar("_Options", bound=MethodOptions)


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=STRICT)
class MassThresholds:
    """Two thresholds, and the model and method whose evidence mass they were fitted to.

    Attributes:
        model: as ``--model`` names it.
        layer: whose attention was taken; empty for methods without one.
        measured_on: on what, to follow "measured on".
    """

    supported_threshold: Share
    weak_threshold: Share
    model: Line
    method: Line
    layer: Line
    measured_on: Line

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.weak_threshold > self.supported_threshold:
            raise ValueError(
                "weak_threshold should be at most supported_threshold, were: "
                f"{self.weak_threshold:g} and {self.supported_threshold:g}"
            )
        return self

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"


def with_calibrated_mass(options: _Options, *, model: str) -> _Options:
    """The options, with the verdict "mass" where they give a threshold of evidence mass, or name a directory of some.

    Raises:
        UsageError: if the thresholds belong to another model or method, or the options set some of their own; if a
            threshold of mass goes with a fitted verdict, or strictness or prior with mass.
        DataError: if their file cannot be read, or does not hold what it should.
    """
    has_own = bool({"supported_threshold", "weak_threshold"} & options.model_fields_set)
    if options.verdict in (BUNDLED_VERDICT_NAME, MASS_VERDICT):
        if not has_own and options.verdict != MASS_VERDICT:
            return options
        if _asks_for_strictness(options):
            raise UsageError(
                "--strictness and --prior are for a fitted verdict, not for evidence mass; leave them out, or the "
                "thresholds of mass and --verdict mass"
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
    found = read_form(file, MassThresholds)
    if has_own or _asks_for_strictness(options):
        raise UsageError(
            f"--verdict {options.verdict} sets the thresholds of evidence mass; leave out --supported-threshold, "
            "--weak-threshold, --strictness and --prior, or the verdict"
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


def _asks_for_strictness(options: MethodOptions) -> bool:
    return options.strictness is not None or options.prior is not None
