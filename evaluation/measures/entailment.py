"""Whether a premise entails a statement, whoever says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Claim = tuple[str, str]
"""A premise and a statement."""


class EntailmentModel(Protocol):
    """A natural language inference model."""

    @property
    def identity(self) -> str:
        """Name and revision: what decides its verdicts."""
        ...

    def entails(self, claims: Sequence[Claim]) -> list[bool]:
        """For each claim whether its premise entails its statement, in the order of ``claims``."""
        ...


class RememberedEntailment:
    """An entailment model that is asked each claim once: methods that cite the same passages share the verdicts."""

    def __init__(self, model: EntailmentModel) -> None:
        self._model = model
        self._verdicts: dict[Claim, bool] = {}

    @property
    def identity(self) -> str:
        """That of the model."""
        return self._model.identity

    def entails(self, claims: Sequence[Claim]) -> list[bool]:
        """The verdicts, new ones in one call of the model.

        Raises:
            RuntimeError: if the model gives another number of verdicts than it was asked claims.
        """
        new = [claim for claim in dict.fromkeys(claims) if claim not in self._verdicts]
        verdicts = self._model.entails(new) if new else []
        if len(verdicts) != len(new):
            raise RuntimeError(f"an entailment model should give {len(new)} verdicts, gave {len(verdicts)}")
        self._verdicts.update(zip(new, verdicts, strict=True))
        return [self._verdicts[claim] for claim in claims]
