"""A logistic regression with a named weight per number: what the verdict's regressions and its probe are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.json_file import Form, Name, Number

OTHER_SIGNALS = "the verdict's model was fitted on other signals than this version measures; train it"
_Numbers = npt.NDArray[np.float64]
_MOST_INPUTS = 2**16


class _Input(Form):
    mean: Number
    scale: Annotated[Number, Field(ge=1e-9)]
    weight: Number


class RegressionForm(Form):
    """A regression in a file."""

    bias: Number
    inputs: Annotated[dict[Name, _Input], Field(min_length=1, max_length=_MOST_INPUTS)]


@dataclass(frozen=True, slots=True)
class LogisticRegression:
    """A logistic regression on standardised numbers.

    Attributes:
        names: of the numbers.
        mean, scale, weights: one item per number.
        bias: log odds where every number is its mean.
    """

    names: tuple[str, ...]
    mean: _Numbers
    scale: _Numbers
    weights: _Numbers
    bias: float

    def log_odds(self, names: tuple[str, ...], numbers: _Numbers) -> _Numbers:
        """The log odds of each row of ``numbers``, (rows, names).

        Raises:
            ModelLoadError: if the regression was fitted on other numbers.
        """
        if names != self.names:
            raise ModelLoadError(OTHER_SIGNALS)
        odds: _Numbers = self.bias + ((numbers - self.mean) / self.scale) @ self.weights
        return odds

    @classmethod
    def from_json(cls, found: RegressionForm | Mapping[str, Any]) -> LogisticRegression:
        """The regression that ``to_json`` wrote.

        Raises:
            ValueError: if it does not fit ``RegressionForm``.
        """
        form = RegressionForm.model_validate(found)
        numbers = [(one.mean, one.scale, one.weight) for one in form.inputs.values()]
        mean, scale, weights = np.array(numbers).T
        return cls(tuple(form.inputs), mean, scale, weights, form.bias)

    def to_json(self) -> dict[str, object]:
        """One object per number, by name."""
        numbers = zip(self.names, self.mean, self.scale, self.weights, strict=True)
        return {
            "bias": self.bias,
            "inputs": {
                name: {"mean": float(mean), "scale": float(scale), "weight": float(weight)}
                for name, mean, scale, weight in numbers
            },
        }
