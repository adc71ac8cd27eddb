"""Reads a claim beside its premise: each token of the claim is aligned with the premise's tokens, and compared.

Decomposable attention (Parikh et al. 2016, equations 1 to 7) in numpy, on word pieces whose vectors were reduced from a
sentence encoder. Two convolutions tell each token of its neighbours. The tokens' comparisons are pooled to the log
likelihood ratio that the claim is unsupported, beside what words alone say.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.verdict.passage_sentences import PassageSentences
from attribeam.attribution.verdict.premises import Premise
from attribeam.schemas.errors import DataError
from attribeam.schemas.json_file import read_regular

if TYPE_CHECKING:
    from tokenizers import Tokenizer

READER_FILES = ("reader.safetensors", "reader_tokenizer.json")
NOTHING_READ = 0.0
"""What is said of a claim without premise."""
_SEPARATOR = "[SEP]"
_MAIN_TOKENS, _TITLE_TOKENS, _SIDE_TOKENS, _OTHER_TOKENS, _ANSWER_TOKENS = 80, 16, 24, 40, 64
_SENTENCE_CHARS = 2_000
"""How much of a passage's sentence is tokenised, which holds more tokens than are read."""
_COSINE_COUNTS = 4.0
"""How much the cosine of two tokens counts in their alignment beside what was learned."""
_Floats = npt.NDArray[np.float32]
_Tokens = tuple[list[int], list[tuple[int, int]]]
"""Ids, and the characters of each token."""


@dataclass(frozen=True, slots=True)
class ReaderInput:
    """One claim beside its premise, as tokens: at most 64 of the answer and 224 of passages.

    Attributes:
        sentence: ids of the answer's sentence with the claim, or of the part around it.
        own: int64, the places in ``sentence`` of the claim's own tokens, ascending.
        words: for each of these the word of the answer that it belongs to.
        premise: ids of the premise and of two more sentences that attention or words proposed; empty without one.
    """

    sentence: tuple[int, ...]
    own: npt.NDArray[np.int64]
    words: tuple[int, ...]
    premise: tuple[int, ...]


class ClaimReader:
    """The reader of one verdict's directory.

    ``weights`` are those of ``lab.training.verdict.reader``; matrices are [inputs, outputs].

    Raises:
        KeyError, ValueError: if something is missing.
    """

    def __init__(self, weights: Mapping[str, npt.NDArray[Any]], tokenizer: Tokenizer) -> None:
        self._vectors = weights["vectors"]
        self._weights = {name: one.astype(np.float32) for name, one in weights.items() if name != "vectors"}
        self._scales = self._weights["scales"][:, None]
        self._convolutions = sum(name.startswith("convolutions.") for name in self._weights) // 2
        self._tokenizer = tokenizer
        separator = tokenizer.token_to_id(_SEPARATOR)
        if separator is None:
            raise ValueError(f"the tokenizer should have a token {_SEPARATOR}, has none")
        self._separator: int = separator

    def inputs(
        self,
        answer: str,
        parsed: ParsedAnswer,
        claims: Sequence[tuple[Sequence[int], Premise]],
        sentences: PassageSentences,
    ) -> list[ReaderInput]:
        """The inputs for the claims of an answer: the words of each, ascending, at least one, and its premise."""
        known: dict[tuple[int, int], _Tokens] = {}
        return [
            ReaderInput(*self._claim(answer, parsed, words, known), self._premise(premise, sentences))
            for words, premise in claims
        ]

    def log_odds(self, inputs: Sequence[ReaderInput]) -> npt.NDArray[np.float64]:
        """float64 [claims]: the log likelihood ratio that each claim is unsupported; 0 for one without premise."""
        known: dict[tuple[int, ...], tuple[_Floats, _Floats]] = {}

        def read(ids: tuple[int, ...]) -> tuple[_Floats, _Floats]:
            return known[ids] if ids in known else known.setdefault(ids, self._encoded(np.array(ids)))

        return np.array(
            [
                self._compared(one, *read(one.sentence), *read(one.premise))
                if one.premise and len(one.own)
                else NOTHING_READ
                for one in inputs
            ]
        )

    def _encoded(self, ids: npt.NDArray[np.int64]) -> tuple[_Floats, _Floats]:
        """float32 [tokens, vector]: unit vectors of tokens, and [tokens, size]: their states."""
        vectors = self._vectors[ids] * self._scales[ids]
        states = self._linear("projection", vectors)
        for number in range(self._convolutions):
            around = np.pad(states, ((1, 1), (0, 0)))
            around = np.concatenate([around[:-2], states, around[2:]], axis=1)
            states = states + _gelu(self._linear(f"convolutions.{number}", around))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), states

    def _compared(
        self, claim: ReaderInput, sentence: _Floats, states: _Floats, premise: _Floats, premise_states: _Floats
    ) -> float:
        """The log likelihood ratio of one claim, from the vectors and states of its sentence and of its premise."""
        own = states[claim.own]
        cosines = sentence[claim.own] @ premise.T
        scores = self._linear("query", own) @ self._linear("key", premise_states).T
        aligned = _softmax(scores / math.sqrt(own.shape[1]) + _COSINE_COUNTS * cosines, axis=1)
        other = aligned @ premise_states
        ids = np.array(claim.sentence)[claim.own]
        numbers = np.stack(
            [cosines.max(axis=1), np.isin(ids, claim.premise), (aligned * cosines).sum(axis=1)], axis=1
        ).astype(np.float32)
        both = np.concatenate([own, other, own * other, np.abs(own - other), numbers], axis=1)
        compared = _gelu(self._linear("compare.1", _gelu(self._linear("compare.0", both))))
        gates = _softmax(self._linear("gate", compared), axis=0)
        pooled = np.concatenate([compared.mean(axis=0), (gates * compared).sum(axis=0), compared.max(axis=0)])
        return float(self._linear("out.1", _gelu(self._linear("out.0", pooled)))[0])

    def _linear(self, name: str, states: _Floats) -> _Floats:
        found: _Floats = states @ self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return found

    def _claim(
        self, answer: str, parsed: ParsedAnswer, words: Sequence[int], known: dict[tuple[int, int], _Tokens]
    ) -> tuple[tuple[int, ...], npt.NDArray[np.int64], tuple[int, ...]]:
        """The sentences of the claim, where they are long the part around it, its own tokens, and their words."""
        starts = parsed.sentence_starts
        last = bisect_right(starts, words[-1])
        first_word = starts[bisect_right(starts, words[0]) - 1]
        end_word = starts[last] if last < len(starts) else len(parsed.words)
        start, end = parsed.words[first_word].char_start, parsed.words[end_word - 1].char_end
        word_of = np.full(end - start + 1, -1)
        for word in words:
            word_of[parsed.words[word].char_start - start : parsed.words[word].char_end - start] = word
        if (start, end) not in known:
            known[start, end] = _read_tokens(answer[start:end], self._tokenizer)
        ids, offsets = known[start, end]
        of_tokens = np.array([word_of[one:two].max(initial=-1) for one, two in offsets], dtype=np.int64)
        own = np.flatnonzero(of_tokens >= 0)
        begin = 0
        if len(ids) > _ANSWER_TOKENS and len(own):
            middle = max(0, (own[0] + own[-1]) // 2 - _ANSWER_TOKENS // 2)
            begin = int(min(own[0], middle) if own[-1] - own[0] < _ANSWER_TOKENS else own[0])
        own = own[(own >= begin) & (own < begin + _ANSWER_TOKENS)]
        return tuple(ids[begin : begin + _ANSWER_TOKENS]), own - begin, tuple(of_tokens[own].tolist())

    def _premise(self, premise: Premise, sentences: PassageSentences) -> tuple[int, ...]:
        found: list[int] = []
        main = premise.sentence
        if main is None:
            return ()
        titles = sentences.titles_of(main)
        for place in premise.window:
            text = sentences.all[place].text
            if place < main and place not in titles:
                found += _read_tokens(text[-_SENTENCE_CHARS:], self._tokenizer)[0][-_SIDE_TOKENS:]
            else:
                most = _MAIN_TOKENS if place == main else _TITLE_TOKENS if place in titles else _SIDE_TOKENS
                found += self._first(text, most)
        for place in premise.others:
            found += [self._separator, *self._first(sentences.all[place].text, _OTHER_TOKENS)]
        return tuple(found)

    def _first(self, text: str, count: int) -> list[int]:
        return _read_tokens(text[:_SENTENCE_CHARS], self._tokenizer)[0][:count]


@remembered
def _read_tokens(text: str, tokenizer: Tokenizer) -> _Tokens:
    found = tokenizer.encode(text, add_special_tokens=False)
    return found.ids, found.offsets


def _softmax(scores: _Floats, *, axis: int) -> _Floats:
    raised = np.exp(scores - scores.max(axis=axis, keepdims=True))
    found: _Floats = raised / raised.sum(axis=axis, keepdims=True)
    return found


_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def _gelu(states: _Floats) -> _Floats:
    """The exact GELU, by the rational approximation 7.1.26 of Abramowitz and Stegun to the error function."""
    scaled = np.abs(states) * np.float32(math.sqrt(0.5))
    part = 1 / (1 + np.float32(0.3275911) * scaled)
    series = np.zeros_like(part)
    for coefficient in _ERF:
        series = (series + np.float32(coefficient)) * part
    erf = np.copysign(1 - series * np.exp(-scaled * scaled), states)
    found: _Floats = states * (1 + erf) / 2
    return found


@lru_cache(maxsize=4)
def load_reader(directory: Path) -> ClaimReader:
    """The reader in a directory, read once.

    Raises:
        DataError: if its files cannot be read; the message names them.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load
    from tokenizers import Tokenizer

    weights, tokenizer = (directory / name for name in READER_FILES)
    try:
        return ClaimReader(load(read_regular(weights)), Tokenizer.from_str(read_regular(tokenizer).decode()))
    except (SafetensorError, KeyError, ValueError, OverflowError) as error:
        raise DataError(f"{weights} and {tokenizer.name} should be a reader of claims: {error}") from error
    except Exception as error:  # tokenizers raises this type itself
        if type(error) is not Exception:
            raise
        raise DataError(f"{tokenizer} should be a tokenizer: {error}") from error
