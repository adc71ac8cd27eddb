"""Loading what the chosen methods need; if they need nothing, neither torch nor spaCy is imported."""

from __future__ import annotations

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import ModelChoice
from attribeam.attribution.methods.models import load_models as load


def load_models(choice: ModelChoice, needs: frozenset[Need]) -> LoadedModels:
    """The models that methods with these needs require.

    Raises:
        ModelLoadError: if one cannot be loaded; the message says which option to change.
    """
    return load(choice, needs) if needs else LoadedModels()
