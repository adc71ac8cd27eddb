"""Loading what the chosen methods need, with the errors of an evaluation."""

from __future__ import annotations

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import ModelChoice
from attribeam.attribution.methods.models import load_models as load
from attribeam.lab.evaluation.evaluation_error import EvaluationError


def load_models(choice: ModelChoice, needs: frozenset[Need]) -> LoadedModels:
    """The models for methods of these needs.

    Raises:
        EvaluationError: if one cannot be loaded; the message says which option to change.
    """
    if not needs:
        return LoadedModels()
    from attribeam.attribution.models.model_errors import ModelLoadError

    try:
        return load(choice, needs)
    except ModelLoadError as error:
        raise EvaluationError(str(error)) from error
