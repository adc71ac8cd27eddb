"""A probe on a decoder's hidden states: how likely is each word of an answer unsupported?

The states of an answer's words, read after the passages, tell more of that than matching words does. A logistic
regression reads them at one layer, and its log odds are averaged with those of the verdict's trees. How much they count
may differ between the kinds of rows: fields of records, say, the trees compare better than a decoder does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from attribeam.attribution.answers.atomic_facts import WordTokenAlignment
from attribeam.attribution.verdict.record_fields import EACH, SAME, SAME_OR_EACH, EachKind, RowKind
from attribeam.attribution.verdict.regressions import LogisticRegression, RegressionForm
from attribeam.schemas import CharRange
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.json_file import Form, Line, Name, Share

LOWEST, HIGHEST = -7.0, 7.0
"""The limits of a word's log odds."""
_Numbers = npt.NDArray[np.float64]
_Identity = Mapping[str, str]
ProbeShares = Mapping[RowKind, float]
"""How much a probe counts beside the trees, from 0 to 1, for each kind of row."""

UNREAD: tuple[float, ...] = ()
"""The log odds of the words of an answer that the decoder could not read; the trees judge it alone."""


@dataclass(frozen=True, slots=True)
class AnswerStates:
    """The hidden states of an answer's tokens that cover a character.

    Attributes:
        char_start, char_end: int32 [tokens], the characters of each.
        values: float32 [tokens, size].
    """

    char_start: npt.NDArray[np.int32]
    char_end: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]

    def of_words(self, words: Sequence[CharRange]) -> npt.NDArray[np.float32]:
        """The mean over the tokens of each word, float32 (words, size); of a word without any, the state before it."""
        tokens = WordTokenAlignment(words=(), token_char_start=self.char_start, token_char_end=self.char_end)
        means = np.empty((len(words), self.values.shape[1]), dtype=np.float32)
        for place, (first, end) in enumerate(zip(*tokens.tokens_of_ranges(words), strict=True)):
            means[place] = self.values[min(first, max(end - 1, 0)) : max(end, 1)].mean(axis=0)
        return means


class ProbeForm(Form):
    """A probe in a file."""

    layer: Annotated[int, Field(ge=0, le=1_000)]
    share: Annotated[Annotated[Share, SAME] | Annotated[EachKind[Share], EACH], SAME_OR_EACH]
    decoder: Annotated[dict[Name, Line], Field(min_length=1, max_length=10)]
    states: RegressionForm
    note: Line = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if tuple(self.states.inputs) != state_names(len(self.states.inputs)):
            raise ValueError("the inputs of states should be state_0, state_1 and so on, are not")
        return self


@dataclass(frozen=True, slots=True)
class StateProbe:
    """A fitted probe.

    Attributes:
        layer: after which the states are taken, 1-based; 0 means the embeddings.
        shares: how much its log odds count beside those of the trees, from 0 to 1, for each kind of row.
        decoder: what the decoder's provenance says of its weights and its prompt.
        regression: on the numbers of a state.
        note: what the decoder is and how it is got, for errors; may be empty.
    """

    layer: int
    shares: ProbeShares
    decoder: _Identity
    regression: LogisticRegression
    note: str = ""

    @property
    def decoder_hint(self) -> str:
        """How an error about its decoder ends: with the note, if there is one."""
        return f"; the verdict was fitted to {self.note}" if self.note else ""

    def check(self, provenance: _Identity) -> None:
        """Check that a language model is the one that the probe was fitted to.

        Raises:
            ModelLoadError: if its weights or its prompt are others.
        """
        for name, fitted in self.decoder.items():
            if provenance.get(name) != fitted:
                raise ModelLoadError(
                    f"--verdict was fitted to a decoder whose {name} is {fitted}, --language-model "
                    f"{provenance.get('language_model')} has {provenance.get(name)}; name the model of the fit, "
                    "stored in float32 or bfloat16, or fit a verdict to this one, see docs/models.md"
                )

    def word_log_odds(self, windows: Sequence[AnswerStates], words: Sequence[CharRange]) -> tuple[float, ...]:
        """The log odds that each of the answer's words is unsupported, from its states in each window of its row.

        A word takes the lowest of any window: what supports it stands in one of them, and is missing in the others.

        Raises:
            ModelLoadError: if the states are of another size than those fitted on.
        """
        odds = [probed_odds(self.regression, states.of_words(words)) for states in windows]
        return tuple(np.minimum.reduce(odds).tolist())

    def mixed(self, odds: _Numbers, probed: _Numbers, kind: RowKind) -> _Numbers:
        """The trees' log odds of some words of a row of this kind, with the probe's."""
        return mixed(odds, probed, share=self.shares[kind])

    @classmethod
    def from_json(cls, found: ProbeForm | Mapping[str, Any]) -> StateProbe:
        """The probe that ``to_json`` wrote.

        Raises:
            ValueError: if it does not fit ``ProbeForm``.
        """
        form = ProbeForm.model_validate(found)
        shares = form.share.by_kind() if isinstance(form.share, EachKind) else same_share(form.share)
        return cls(form.layer, shares, form.decoder, LogisticRegression.from_json(form.states), form.note)

    def to_json(self) -> dict[str, object]:
        """As ``verdict.json`` has it: with one share if all kinds have the same, else with one for each."""
        shares = {kind.value: share for kind, share in self.shares.items()}
        first, *others = shares.values()
        return {
            "layer": self.layer,
            "share": shares if any(one != first for one in others) else first,
            "decoder": dict(self.decoder),
            **({"note": self.note} if self.note else {}),
            "states": self.regression.to_json(),
        }


def decoder_identity(provenance: _Identity) -> dict[str, str]:
    """What of a language model's provenance a probe depends on."""
    return {name: provenance[name] for name in ("language_model_weights", "language_model_prompt_template")}


def same_share(share: float) -> dict[RowKind, float]:
    """The same share for each kind of row."""
    return dict.fromkeys(RowKind, share)


def probed_odds(regression: LogisticRegression, states: npt.NDArray[np.floating[Any]]) -> _Numbers:
    """The probe's log odds of words with these states, within the limits.

    Raises:
        ModelLoadError: if the states are of another size than those fitted on.
    """
    odds = regression.log_odds(state_names(states.shape[1]), states.astype(np.float64))
    return np.clip(odds, LOWEST, HIGHEST)


def mixed(odds: _Numbers, probed: _Numbers, *, share: float) -> _Numbers:
    """The mean of the trees' log odds and the probe's, which has this ``share``."""
    return (1 - share) * odds + share * probed


def state_names(size: int) -> tuple[str, ...]:
    """The names of a state's numbers."""
    return tuple(f"state_{number}" for number in range(size))
