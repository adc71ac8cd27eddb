"""Reads a claim beside its premise: each token of the claim is aligned with the premise's tokens, and compared.

Decomposable attention (Parikh et al. 2016, equations 1 to 7) on word pieces whose vectors were reduced from those of a
sentence encoder. Two convolutions tell each token of its neighbours. The tokens' comparisons are pooled to the log
likelihood ratio that the claim is unsupported, beside what words alone say.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, Premise
from attribeam.attribution.verdict.texts import PassageSentences
from attribeam.schemas.errors import DataError
from attribeam.schemas.files import read_regular

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

READER_FILES = ("reader.safetensors", "reader_tokenizer.json")
NOTHING_READ = 0.0
"""What is said of a claim without premise."""
_SEPARATOR = "[SEP]"
_MAIN_TOKENS, _TITLE_TOKENS, _SIDE_TOKENS, _OTHER_TOKENS, _ANSWER_TOKENS = 80, 16, 24, 40, 64
_SENTENCE_CHARS = 2_000
"""How much of a passage's sentence is tokenised, which holds more tokens than are read."""
_QUOTED, _IN_RUNS = 0.999, 0.7
_BEST, _RUN = map(PREMISE_NUMBERS.index, ("best", "run"))
_COSINE_COUNTS = 4.0
"""How much the cosine of two tokens counts in their alignment beside what was learned."""
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


def is_read(premise: Premise) -> bool:
    """Whether the claim has a premise, and is more than words that one sentence has in its order."""
    quoted = premise.numbers[_BEST] >= _QUOTED and premise.numbers[_RUN] > _IN_RUNS
    return premise.sentence is not None and not bool(quoted)


class ClaimReader:
    """The reader of one verdict's directory, in float32 on the CPU.

    ``weights`` are those of ``lab.training.verdict.reader``; matrices are [inputs, outputs].

    Raises:
        KeyError, ValueError: if something is missing.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor], tokenizer: Tokenizer) -> None:
        self._vectors = weights["vectors"]
        self._weights = {name: one.float() for name, one in weights.items() if name != "vectors"}
        self._scales = self._weights["scales"][:, None]
        self._convolutions = sum(name.startswith("convolutions.") for name in self._weights) // 2
        tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
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
            if is_read(premise)
            else ReaderInput((), np.array([], dtype=np.int64), (), ())
            for words, premise in claims
        ]

    def log_odds(self, inputs: Sequence[ReaderInput]) -> npt.NDArray[np.float64]:
        """float64 [claims]: the log likelihood ratio that each claim is unsupported; 0 for one that is not read.

        The claims of one answer are read together, so what is said of them does not depend on other answers.
        """
        import torch

        found = np.full(len(inputs), NOTHING_READ)
        places = [place for place, one in enumerate(inputs) if one.premise and len(one.own)]
        if places:
            with torch.inference_mode():
                found[places] = self._read([inputs[place] for place in places]).double().numpy()
        return found

    def _read(self, inputs: Sequence[ReaderInput]) -> torch.Tensor:
        """float32 [claims]: what is said of claims with own tokens and a premise."""
        import torch
        from torch.nn.functional import gelu

        texts = [*dict.fromkeys(ids for one in inputs for ids in (one.sentence, one.premise))]
        starts = dict(zip(texts, accumulate((len(ids) + 1 for ids in texts), initial=0), strict=False))
        units, states = self._encoded(texts)
        queries, keys = self._linear("query", states), self._linear("key", states)
        both = []
        for one in inputs:
            token = torch.from_numpy(one.own) + starts[one.sentence]
            premise = slice(starts[one.premise], starts[one.premise] + len(one.premise))
            cosines = units[token] @ units[premise].T
            scores = queries[token] @ keys[premise].T / math.sqrt(states.shape[1]) + _COSINE_COUNTS * cosines
            aligned = scores.softmax(1)
            here, other = states[token], aligned @ states[premise]
            known = set(one.premise)
            same = torch.tensor([one.sentence[place] in known for place in one.own.tolist()], dtype=torch.float32)
            numbers = torch.stack([cosines.amax(1), same, (aligned * cosines).sum(1)], 1)
            both.append(torch.cat([here, other, here * other, (here - other).abs(), numbers], 1))
        compared = gelu(self._linear("compare.1", gelu(self._linear("compare.0", torch.cat(both)))))
        gates = self._linear("gate", compared)
        pooled, start = [], 0
        for claim in both:
            own = slice(start, start := start + len(claim))
            tokens, shares = compared[own], gates[own].softmax(0)
            pooled.append(torch.cat([tokens.mean(0), (shares * tokens).sum(0), tokens.amax(0)]))
        return self._linear("out.1", gelu(self._linear("out.0", torch.stack(pooled))))[:, 0]

    def _encoded(self, texts: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, torch.Tensor]:
        """[tokens, vector] unit vectors and [tokens, size] states of texts, each with a row of zeros behind it."""
        import torch
        from torch.nn.functional import gelu, normalize, pad

        ids = torch.tensor([token for ids in texts for token in (*ids, 0)])
        inside = torch.ones(len(ids), 1)
        inside[[end - 1 for end in accumulate(len(ids) + 1 for ids in texts)]] = 0
        vectors = self._vectors[ids] * self._scales[ids]
        states = self._linear("projection", vectors) * inside
        for number in range(self._convolutions):
            around = pad(states, (0, 0, 1, 1))
            around = torch.cat([around[:-2], states, around[2:]], 1)
            states = states + gelu(self._linear(f"convolutions.{number}", around)) * inside
        return normalize(vectors, dim=1), states

    def _linear(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return self._weights[f"{name}.bias"] + states @ self._weights[f"{name}.weight"]

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
            # only tokens that share a character with a word: citation marks are no words
            starts_here, ends_here = zip(
                *((one.char_start - start, one.char_end - start) for one in parsed.words[first_word:end_word]),
                strict=True,
            )
            tokens = zip(*_read_tokens(answer[start:end], self._tokenizer), strict=True)
            kept = [
                (token, span)
                for token, span in tokens
                if bisect_left(starts_here, span[1]) > bisect_right(ends_here, span[0])
            ]
            known[start, end] = [token for token, _ in kept], [span for _, span in kept]
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
        for place in (*premise.window, *premise.others):
            text, is_other = sentences.all[place].text, place in premise.others
            if place < main and place not in titles and not is_other:
                found += _read_tokens(text[-_SENTENCE_CHARS:], self._tokenizer)[0][-_SIDE_TOKENS:]
                continue
            most = _MAIN_TOKENS if place == main else _TITLE_TOKENS if place in titles else _SIDE_TOKENS
            first = _read_tokens(text[:_SENTENCE_CHARS], self._tokenizer)[0]
            found += [self._separator, *first[:_OTHER_TOKENS]] if is_other else first[:most]
        return tuple(found)


@remembered
def _read_tokens(text: str, tokenizer: Tokenizer) -> _Tokens:
    found = tokenizer.encode(text, add_special_tokens=False)
    return found.ids, found.offsets


@lru_cache(maxsize=4)
def load_reader(directory: Path) -> ClaimReader:
    """The reader in a directory, read once.

    Raises:
        DataError: if its files cannot be read; the message names them.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load
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
