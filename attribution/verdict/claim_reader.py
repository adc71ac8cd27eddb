"""Reads a claim beside its premise: each token of the claim is aligned with the premise's tokens, and compared.

Decomposable attention (Parikh et al. 2016, equations 1 to 7) on word pieces whose vectors were reduced from those of a
sentence encoder. Two convolutions tell each token of its neighbours. The tokens' comparisons are pooled to the log
likelihood ratio that the claim is unsupported, beside what words alone say.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, Premise
from attribeam.attribution.verdict.texts import AnswerWords, PassageSentences
from attribeam.schemas.errors import DataError
from attribeam.schemas.files import read_regular

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

READER_FILES = ("reader.safetensors", "reader_tokenizer.json")
NOTHING_READ = 0.0
"""What is said of a claim without premise."""
_SEPARATOR, _FULL_STOP = "[SEP]", "."
_MAIN_TOKENS, _TITLE_TOKENS, _SIDE_TOKENS, _OTHER_TOKENS, _ANSWER_TOKENS = 80, 16, 24, 40, 64
_SENTENCE_CHARS = 2_000
"""How much of a passage's sentence is tokenised, which holds more tokens than are read."""
_QUOTED, _IN_RUNS = 0.999, 0.7
_BEST, _RUN = map(PREMISE_NUMBERS.index, ("best", "run"))
_COSINE_COUNTS = 4.0
"""How much the cosine of two tokens counts in their alignment beside what was learned."""
_WORD_OR_MARK = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9\s]")
"""Into these BERT divides a text in ASCII before all else."""
_AT_ONCE = 32
"""How many claims are read at once."""
_FEWEST_ROWS = 4
"""A product of fewer rows sums in another order."""
_Sentence = tuple[list[int], Mapping[int, list[int]]]
"""Ids of tokens, and which of them each word of the answer has."""


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


_NOTHING = ReaderInput((), np.array([], dtype=np.int64), (), ())


def is_read(premise: Premise) -> bool:
    """Whether the claim has a premise, and is more than words that one sentence has in its order."""
    quoted = premise.numbers[_BEST] >= _QUOTED and premise.numbers[_RUN] > _IN_RUNS
    return premise.sentence is not None and not bool(quoted)


class ClaimReader:
    """The reader of one verdict's directory, in float32 on the CPU.

    ``weights`` are those of ``lab.training.verdict.reader``; matrices are [inputs, outputs].

    Raises:
        KeyError, ValueError: if something is missing, or the tokenizer divides a text into other words than BERT's.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor], tokenizer: Tokenizer) -> None:
        from tokenizers.pre_tokenizers import BertPreTokenizer

        self._vectors = weights["vectors"]
        self._weights = {name: tensor.float() for name, tensor in weights.items() if name != "vectors"}
        self._scales = self._weights["scales"][:, None]
        self._scale = self._weights["query.bias"].numel() ** -0.5
        self._convolutions = sum(name.startswith("convolutions.") for name in self._weights) // 2
        tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
        if not isinstance(tokenizer.pre_tokenizer, BertPreTokenizer):
            raise ValueError("the tokenizer should divide a text into words as BERT's does")
        self._tokenizer = tokenizer
        self._separator, self._full_stop = (_id_of(token, tokenizer) for token in (_SEPARATOR, _FULL_STOP))

    def inputs(
        self,
        answer: AnswerWords,
        claims: Sequence[tuple[Sequence[int], Premise]],
        sentences: PassageSentences,
    ) -> list[ReaderInput]:
        """The inputs for the claims of an answer: the words of each, ascending, at least one, and its premise."""
        known: dict[tuple[int, int], _Sentence] = {}
        return [
            ReaderInput(*self._claim(answer, (*premise.label, *words), known), self._premise(premise, sentences))
            if is_read(premise)
            else _NOTHING
            for words, premise in claims
        ]

    def log_odds(self, inputs: Sequence[ReaderInput]) -> npt.NDArray[np.float64]:
        """float64 [claims]: the log likelihood ratio that each claim is unsupported; 0 for one that is not read.

        What is said of a claim does not depend on the others.
        """
        import torch

        odds = np.full(len(inputs), NOTHING_READ)
        indices = [index for index, claim in enumerate(inputs) if claim.premise and len(claim.own)]
        with torch.inference_mode():
            for start in range(0, len(indices), _AT_ONCE):
                some = indices[start : start + _AT_ONCE]
                odds[some] = self._read([inputs[index] for index in some])
        return odds

    def _read(self, inputs: Sequence[ReaderInput]) -> npt.NDArray[np.float32]:
        """float32 [claims]: what is said of claims with own tokens and a premise."""
        import torch
        from torch.nn.functional import gelu

        texts = [*dict.fromkeys(claim.sentence for claim in inputs)]
        sentences = len(texts)
        texts += dict.fromkeys(claim.premise for claim in inputs)
        starts = [*accumulate((len(ids) + 1 for ids in texts), initial=1)]
        units, states = self._encoded(texts)
        sentence_starts = dict(zip(texts[:sentences], starts, strict=False))
        premise_starts = dict(zip(texts[sentences:], starts[sentences:], strict=False))
        tokens = torch.from_numpy(np.concatenate([claim.own + sentence_starts[claim.sentence] for claim in inputs]))
        here, units_here, first = states.index_select(0, tokens), units.index_select(0, tokens), starts[sentences]
        queries, keys = self._linear("query", here), self._linear("key", states[first:])
        counts = [len(claim.own) for claim in inputs]
        others, best, alike, same = [], [], [], list[bool]()
        for claim, query, unit in zip(
            inputs, queries.split_with_sizes(counts), units_here.split_with_sizes(counts), strict=True
        ):
            start, known = premise_starts[claim.premise], set(claim.premise)
            end = start + len(claim.premise)
            cosines = unit @ units[start:end].T
            scores = torch.addmm(
                cosines, query, keys[start - first : end - first].T, beta=_COSINE_COUNTS, alpha=self._scale
            )
            aligned = scores.softmax(1)
            others.append(aligned @ states[start:end])
            best.append(cosines.amax(1))
            alike.append((aligned * cosines).sum(1))
            same += [claim.sentence[token] in known for token in claim.own.tolist()]
        other = torch.cat(others)
        numbers = torch.stack([torch.cat(best), torch.tensor(same, dtype=torch.float32), torch.cat(alike)], 1)
        both = torch.cat([here, other, here * other, (here - other).abs(), numbers], 1)
        compared = gelu(self._linear("compare.1", gelu(self._linear("compare.0", both))))
        pooled = torch.from_numpy(_pooled(compared.numpy(), self._column("gate", compared).numpy(), counts))
        odds: npt.NDArray[np.float32] = self._column("out.1", gelu(self._linear("out.0", pooled))).numpy()[:, 0]
        return odds

    def _encoded(self, texts: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, torch.Tensor]:
        """[tokens, vector] unit vectors and [tokens, size] states of texts, each between two rows of zeros."""
        import torch
        from torch.nn.functional import gelu, normalize, pad

        ids, inverse = np.unique([-1, *chain.from_iterable((*ids, -1) for ids in texts)], return_inverse=True)
        distinct, rows = torch.from_numpy(ids[1:]), torch.from_numpy(inverse)
        between = torch.from_numpy(np.flatnonzero(inverse == 0))
        vectors = self._vectors[distinct] * self._scales[distinct]
        of_distinct = pad(self._linear("projection", vectors), (0, 0, 1, 0))
        states = of_distinct.index_select(0, rows)
        for number in range(self._convolutions):
            weights, bias = (self._weights[f"convolutions.{number}.{part}"] for part in ("weight", "bias"))
            left, middle, right = weights.chunk(3)
            if number:
                around = torch.addmm(bias, states[:-2], left).addmm_(states[1:-1], middle).addmm_(states[2:], right)
            else:  # the products of distinct tokens are few
                around = _product(of_distinct, left).index_select(0, rows[:-2]).add_(bias)
                around += _product(of_distinct, middle).index_select(0, rows[1:-1])
                around += _product(of_distinct, right).index_select(0, rows[2:])
            states[1:-1] += gelu(around)
            states[between] = 0
        return pad(normalize(vectors, dim=1), (0, 0, 1, 0)).index_select(0, rows), states

    def _linear(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return _product(states, self._weights[f"{name}.weight"]).add_(self._weights[f"{name}.bias"])

    def _column(self, name: str, states: torch.Tensor) -> torch.Tensor:
        """[rows, 1]: as ``_linear`` for weights of one column, whose product sums in another order for other rows."""
        return self._weights[f"{name}.bias"] + (states * self._weights[f"{name}.weight"][:, 0]).sum(1, keepdim=True)

    def _claim(
        self, answer: AnswerWords, words: Sequence[int], known: dict[tuple[int, int], _Sentence]
    ) -> tuple[tuple[int, ...], npt.NDArray[np.int64], tuple[int, ...]]:
        """The sentences of the claim, where they are long the part around it, its own tokens, and their words."""
        starts = answer.parsed.sentence_starts
        last = bisect_right(starts, words[-1])
        first_word = starts[bisect_right(starts, words[0]) - 1]
        end_word = starts[last] if last < len(starts) else len(answer)
        if (first_word, end_word) not in known:
            known[first_word, end_word] = self._sentence(answer, range(first_word, end_word))
        ids, tokens_of = known[first_word, end_word]
        of_tokens = {token: word for word in words for token in tokens_of[word]}
        tokens, begin = sorted(of_tokens), 0
        if len(ids) > _ANSWER_TOKENS and tokens:
            middle = max(0, (tokens[0] + tokens[-1]) // 2 - _ANSWER_TOKENS // 2)
            begin = min(tokens[0], middle) if tokens[-1] - tokens[0] < _ANSWER_TOKENS else tokens[0]
            tokens = tokens[: bisect_left(tokens, begin + _ANSWER_TOKENS)]
        positions = np.array(tokens, dtype=np.int64) - begin
        return tuple(ids[begin : begin + _ANSWER_TOKENS]), positions, tuple([of_tokens[token] for token in tokens])

    def _sentence(self, answer: AnswerWords, words: range) -> _Sentence:
        """Only tokens that share a character with a word that may state something: citation marks are no words.

        A sentence without a mark at its end is read with a full stop.
        """
        chars = answer.ranges
        start, end = chars[words[0]].char_start, chars[words[-1]].char_end
        encoding = self._tokenizer.encode(answer.text[start:end], add_special_tokens=False)
        ids, tokens_of = list[int](), defaultdict[int, list[int]](list)
        first = words.start
        for token, (begin, stop) in zip(encoding.ids, encoding.offsets, strict=True):
            while first < words.stop and chars[first].char_end <= start + begin:
                first += 1
            end_word = first
            while end_word < words.stop and chars[end_word].char_start < start + stop:
                end_word += 1
            if any(answer.states[first:end_word]):
                for word in range(first, end_word):
                    tokens_of[word].append(len(ids))
                ids.append(token)
        if answer.is_word[words[-1]] and answer.states[words[-1]]:
            tokens_of[words[-1]].append(len(ids))
            ids.append(self._full_stop)
        return ids, tokens_of

    def _premise(self, premise: Premise, sentences: PassageSentences) -> tuple[int, ...]:
        ids: list[int] = []
        main = premise.sentence
        if main is None:
            return ()
        titles = sentences.titles_of(main)
        for index in (*premise.window, *premise.others):
            text, is_other = sentences.all[index].text, index in premise.others
            if index < main and index not in titles and not is_other:
                ids += _ids_of(text[-_SENTENCE_CHARS:], self._tokenizer)[-_SIDE_TOKENS:]
                continue
            most = _MAIN_TOKENS if index == main else _TITLE_TOKENS if index in titles else _SIDE_TOKENS
            first = _ids_of(text[:_SENTENCE_CHARS], self._tokenizer)
            ids += [self._separator, *first[:_OTHER_TOKENS]] if is_other else first[:most]
        return tuple(ids)


def _product(states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The product, of which no row depends on how many there are: fewer than four would sum in another order."""
    from torch.nn.functional import pad

    count = len(states)
    if count < _FEWEST_ROWS:
        states = pad(states, (0, 0, 0, _FEWEST_ROWS - count))
    return (states @ weights)[:count]


def _pooled(
    tokens: npt.NDArray[np.float32], gates: npt.NDArray[np.float32], counts: Sequence[int]
) -> npt.NDArray[np.float32]:
    """float32 [claims, 3 x size]: the mean of each claim's tokens, their mean by gates, and their maximum."""
    starts = [0, *accumulate(counts[:-1])]
    shares = np.exp(gates - np.repeat(np.maximum.reduceat(gates, starts), counts, axis=0))
    sums, weighted, total = (np.add.reduceat(part, starts) for part in (tokens, shares * tokens, shares))
    of_each = [
        sums / np.array(counts, dtype=np.float32)[:, None],
        weighted / total,
        np.maximum.reduceat(tokens, starts),
    ]
    return np.concatenate(of_each, axis=1)


def _id_of(token: str, tokenizer: Tokenizer) -> int:
    token_id = tokenizer.token_to_id(token)
    if token_id is None:
        raise ValueError(f"the tokenizer should have a token {token}, has none")
    return token_id


@remembered
def _ids_of(text: str, tokenizer: Tokenizer) -> list[int]:
    """The ids of a text's tokens; most words were met before."""
    if not (text.isascii() and text.isprintable()):
        return tokenizer.encode(text, add_special_tokens=False).ids
    return [*chain.from_iterable(map(_ids_of_word, _WORD_OR_MARK.findall(text), repeat(tokenizer)))]


@lru_cache(maxsize=16_384)
def _ids_of_word(word: str, tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode(word, add_special_tokens=False).ids


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
