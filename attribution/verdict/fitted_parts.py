"""The fitted parts of a verdict, as its files keep them: regressions, boosted trees, a probe, a table of words.

The probe reads a decoder's hidden states of an answer's words after the passages, which tell more of support than
matching words does. Its log odds are averaged with those of the trees. How much they count may differ between the kinds
of rows: fields of records, say, the trees compare better than a decoder does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Discriminator, Field, Tag, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load

from attribeam.attribution.answers.atomic_facts import WordTokenAlignment
from attribeam.attribution.verdict.texts import RowKind, carries_content, stem
from attribeam.schemas import CharRange
from attribeam.schemas.errors import DataError, ModelLoadError
from attribeam.schemas.files import ALTERNATIVE, Form, Line, Name, Number, Share, read_form, read_regular

OTHER_SIGNALS = "the verdict's model was fitted on other signals than this version measures; train it"
_Numbers = npt.NDArray[np.float64]
_T = TypeVar("_T")


class EachKind(Form, Generic[_T]):
    """Something of a verdict's file that each kind has of its own."""

    questions: _T
    summaries: _T
    records: _T

    def by_kind(self) -> dict[RowKind, _T]:
        """Each kind's own."""
        return {kind: getattr(self, kind) for kind in RowKind}


def _alternative(written: object) -> str:
    has_kinds = isinstance(written, EachKind) or (isinstance(written, dict) and not written.keys().isdisjoint(RowKind))
    return (EACH if has_kinds else SAME).tag


SAME, EACH = Tag(f"{ALTERNATIVE}same"), Tag(f"{ALTERNATIVE}each")
SAME_OR_EACH = Discriminator(_alternative)
"""Tells one for all kinds from ``EachKind``, which have these tags."""


class _Input(Form):
    mean: Number
    scale: Annotated[Number, Field(ge=1e-9)]
    weight: Number


class RegressionForm(Form):
    """A regression in a file."""

    bias: Number
    inputs: Annotated[dict[Name, _Input], Field(min_length=1, max_length=2**16)]


@dataclass(frozen=True, slots=True)
class LogisticRegression:
    """A logistic regression on standardised numbers.

    Attributes:
        mean, scale, weights: one item per name of a number.
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
    def from_json(cls, written: RegressionForm | Mapping[str, Any]) -> LogisticRegression:
        """The regression that ``to_json`` wrote.

        Raises:
            ValueError: if it does not fit ``RegressionForm``.
        """
        form = RegressionForm.model_validate(written)
        numbers = [(column.mean, column.scale, column.weight) for column in form.inputs.values()]
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


_MOST_TREES, _MOST_NODES, _DEEPEST = 2_000, 10_000, 32
_Index = Annotated[int, Field(ge=0, lt=_MOST_NODES)]
_OfNodes = Field(min_length=1, max_length=_MOST_NODES)


class _Tree(Form):
    """One tree; its nodes count from 0, a node stands before its children, and 0 as left node marks a leaf."""

    columns: Annotated[list[_Index], _OfNodes]
    thresholds: Annotated[list[Number], _OfNodes]
    left: Annotated[list[_Index], _OfNodes]
    right: Annotated[list[_Index], _OfNodes]
    values: Annotated[list[Number], _OfNodes]

    @model_validator(mode="after")
    def _check(self) -> Self:
        lengths = {name: len(getattr(self, name)) for name in type(self).model_fields}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"all parts should have one item per node, have: {lengths}")
        for node, pair in enumerate(zip(self.left, self.right, strict=True)):
            if pair != (0, 0) and not all(node < child < len(self.left) for child in pair):
                last = len(self.left) - 1
                raise ValueError(f"the children of node {node} should be from {node + 1} to {last}, were: {pair}")
        return self

    @property
    def depth(self) -> int:
        """The largest number of steps from the root to a leaf."""
        steps = [0] * len(self.left)
        for node, children in enumerate(zip(self.left, self.right, strict=True)):
            for child in filter(None, children):
                steps[child] = max(steps[child], steps[node] + 1)
        return max(steps)


class TreesForm(Form):
    """Trees in a file."""

    bias: Number
    depth: Annotated[int, Field(ge=0, le=_DEEPEST)]
    trees: Annotated[list[_Tree], Field(min_length=1, max_length=_MOST_TREES)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        deepest = max(tree.depth for tree in self.trees)
        if self.depth != deepest:
            raise ValueError(f"depth should be that of the deepest tree, {deepest}, was: {self.depth}")
        return self


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Trees whose leaves add up to log odds.

    The nodes of all trees stand one after the other. A row goes left at a node where its number in column ``columns``
    is at most ``thresholds``; a leaf is its own left and right node.

    Attributes:
        bias: log odds before the first tree.
        roots: index of each tree's first node, (trees,).
        columns, thresholds, values: one item per node; ``values`` are 0 but at leaves.
        children: the right and the left node of each node, one pair after the other.
    """

    bias: float
    roots: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    thresholds: npt.NDArray[np.float32]
    children: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    depth: int

    def log_odds(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The log odds of each row of ``rows``, (rows, columns)."""
        nodes = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        numbers, starts = rows.ravel(), rows.shape[1] * np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            goes_left = numbers.take(self.columns.take(nodes) + starts) <= self.thresholds.take(nodes)
            nodes = self.children.take(2 * nodes + goes_left)
        odds: npt.NDArray[np.float64] = self.bias + self.values.take(nodes).sum(axis=1)
        return odds

    @classmethod
    def from_json(cls, written: TreesForm | Mapping[str, Any]) -> BoostedTrees:
        """The trees that ``trees_json`` gives.

        Raises:
            ValueError: if they do not fit ``TreesForm``.
        """
        form = TreesForm.model_validate(written)
        sizes = [len(tree.left) for tree in form.trees]
        first = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
        columns, thresholds, left, right, values = (
            np.concatenate([getattr(tree, name) for tree in form.trees])
            for name in ("columns", "thresholds", "left", "right", "values")
        )
        children = first[:, None] + np.stack((right, left), axis=1)
        children = np.where(left[:, None] == 0, np.arange(len(first))[:, None], children).ravel()
        values = values.astype(np.float32).astype(np.float64)
        return cls(form.bias, np.unique(first), columns, thresholds.astype(np.float32), children, values, form.depth)


LOWEST, HIGHEST = -7.0, 7.0
"""The limits of a word's log odds."""
ProbeShares = Mapping[RowKind, float]
"""How much a probe counts beside the trees, from 0 to 1, for each kind of row."""

UNREAD: tuple[float, ...] = ()
"""The log odds of the words of an answer that the decoder could not read; the trees judge it alone."""


@dataclass(frozen=True, slots=True)
class AnswerStates:
    """Hidden states, float32 [tokens, size], of an answer's tokens that cover a character, and their characters."""

    char_start: npt.NDArray[np.int32]
    char_end: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]

    def of_words(self, words: Sequence[CharRange]) -> npt.NDArray[np.float32]:
        """The mean over the tokens of each word, float32 (words, size); of a word without any, the state before it."""
        tokens = WordTokenAlignment(words=(), token_char_start=self.char_start, token_char_end=self.char_end)
        means = np.empty((len(words), self.values.shape[1]), dtype=np.float32)
        for word, (first, end) in enumerate(zip(*tokens.tokens_of_ranges(words), strict=True)):
            means[word] = self.values[min(first, max(end - 1, 0)) : max(end, 1)].mean(axis=0)
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
    """A fitted probe: a regression on the numbers of a state.

    Attributes:
        layer: after which the states are taken, 1-based; 0 means the embeddings.
        decoder: what the decoder's provenance says of its weights and its prompt.
        note: what the decoder is and how it is got, for errors; may be empty.
    """

    layer: int
    shares: ProbeShares
    decoder: Mapping[str, str]
    regression: LogisticRegression
    note: str = ""

    @property
    def decoder_hint(self) -> str:
        """How an error about its decoder ends: with the note, if there is one."""
        return f"; the verdict was fitted to {self.note}" if self.note else ""

    def check(self, provenance: Mapping[str, str]) -> None:
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

    @classmethod
    def from_json(cls, written: ProbeForm | Mapping[str, Any]) -> StateProbe:
        """The probe that ``to_json`` wrote.

        Raises:
            ValueError: if it does not fit ``ProbeForm``.
        """
        form = ProbeForm.model_validate(written)
        shares = form.share.by_kind() if isinstance(form.share, EachKind) else same_share(form.share)
        return cls(form.layer, shares, form.decoder, LogisticRegression.from_json(form.states), form.note)

    def to_json(self) -> dict[str, object]:
        """As ``verdict.json`` has it: with one share if all kinds have the same, else with one for each."""
        shares = {kind.value: share for kind, share in self.shares.items()}
        first, *others = shares.values()
        return {
            "layer": self.layer,
            "share": shares if any(other != first for other in others) else first,
            "decoder": dict(self.decoder),
            **({"note": self.note} if self.note else {}),
            "states": self.regression.to_json(),
        }


def decoder_identity(provenance: Mapping[str, str]) -> dict[str, str]:
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


WORD_FILES = ("word_table.json", "word_vectors.safetensors")
EVERY_WORD_COUNTS = 0.5
"""What every stem counts in a share of words besides its rarity."""


class TableForm(Form):
    """Words and stems in a file: those with vectors in the order of the vectors, stems by their document frequency."""

    documents: Annotated[int, Field(ge=1, le=10**12)]
    words: str
    frequencies: dict[Annotated[str, Field(pattern="^[0-9]{1,13}$")], str]

    @model_validator(mode="after")
    def _check(self) -> Self:
        most = max(map(int, self.frequencies), default=0)
        if most > self.documents:
            raise ValueError(f"frequencies should be at most {self.documents}, the number of documents, has {most}")
        return self


class WordTable:
    """Document frequencies of stems, and unit vectors of words, from the files of a directory.

    Attributes:
        vectors: float32, (words, dimensions), rows of length 1.

    Raises:
        DataError: if a file is missing, or does not hold what it should.
    """

    def __init__(self, directory: Path) -> None:
        stems_file, vectors_file = (directory / name for name in WORD_FILES)
        form = read_form(stems_file, TableForm)
        words = form.words.split()
        try:
            vectors = load(read_regular(vectors_file))["vectors"]
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{vectors_file} should be a safetensors file with the tensor 'vectors': {error}"
            ) from error
        if vectors.dtype != np.int8 or vectors.ndim != 2 or len(vectors) != len(words):
            raise DataError(
                f"{vectors_file} should have int8 vectors of {len(words)} words, has {vectors.dtype} of the shape "
                f"{vectors.shape}; copy it again, together with {stems_file.name}"
            )
        scaled = vectors.astype(np.float32)
        self.vectors = scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-6)
        self._rows = {word: row for row, word in enumerate(words) if carries_content(word)}
        counts = sorted((int(count), stem(word)) for count, stems in form.frequencies.items() for word in stems.split())
        self._rarities = {word: math.log((form.documents + 1) / (count + 1)) for count, word in counts}
        self._rarest = math.log((form.documents + 1) / 2)

    def rarity(self, word_stem: str) -> float:
        """The inverse document frequency of a stem: ln((documents + 1) / (documents with it + 1))."""
        return self._rarities.get(word_stem, self._rarest)

    def weight(self, word_stem: str) -> float:
        """What a stem counts in a share of words: its rarity plus one half."""
        return self._rarities.get(word_stem, self._rarest) + EVERY_WORD_COUNTS

    def rows(self, words: Iterable[str]) -> npt.NDArray[np.int64]:
        """int64 [words]: the row of each word in lower case, -1 if it has no vector or carries no content."""
        return np.array([*map(self._rows.get, words, repeat(-1))], dtype=np.int64)


@lru_cache(maxsize=4)
def word_table(directory: Path) -> WordTable:
    """The table of a directory, read once."""
    return WordTable(directory)
