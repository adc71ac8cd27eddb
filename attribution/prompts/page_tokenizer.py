"""Tokenising a prompt and its answer in one call, with the template's special tokens real and all others plain text.

A tokenizer takes special tokens for real everywhere in a text or nowhere. So it is told nowhere, and learns one more
ordinary token for each special one, an anchor, which no text of a log can hold. On the page the anchors stand where
the template has special tokens, and afterwards their ids are exchanged. Tokenizers split a text at such tokens as they
split it at special ones, so the result is that of the whole page, whatever is done to the start of a stretch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Tokenizer

from attribution.prompts.rendered_prompt import RenderedPrompt

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_REPLACEMENT = "\ufffd"
_Ints = npt.NDArray[np.int64]
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PageTokens:
    """The tokens of a prompt and its answer.

    Attributes:
        ids: int32 [tokens].
        offsets: int64 [tokens, 2], half-open code points of the page (prompt, then answer), as the tokenizer says;
            (0, 0) for a special token that it added.
    """

    ids: npt.NDArray[np.int32]
    offsets: _Ints


class PageTokenizer:
    """The backend of a fast tokenizer, which it takes over and changes; threads may share it."""

    def __init__(self, tokenizer: Tokenizer, *, add_special_tokens: bool | None = None) -> None:
        """``tokenizer`` comes without truncation and padding.

        ``add_special_tokens`` says whether it adds its own, such as BOS; None for unless the template has one in front.
        """
        specials = {id_: token for id_, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self._add_special_tokens = add_special_tokens
        self._whole_words = tuple(token.content for token in specials.values() if _is_one_piece(tokenizer, token))
        longest_first = sorted((token.content for token in specials.values()), key=len, reverse=True)
        special = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._specials_in = lru_cache(4096)(lambda literal: [match.span() for match in special.finditer(literal)])
        self._anchors = {token.content: f"{_OPEN}{id_}{_CLOSE}" for id_, token in specials.items()}
        tokenizer.add_tokens([_anchor(self._anchors[token.content], token) for token in specials.values()])
        added = {token.content: id_ for id_, token in tokenizer.get_added_tokens_decoder().items()}
        self._special_ids = {added[self._anchors[token.content]]: id_ for id_, token in specials.items()}

    def tokenise(self, prompt: RenderedPrompt, answer: str) -> PageTokens:
        """The tokens of the prompt with the answer behind it; both without lone surrogates."""
        text = prompt.text + answer
        found = list(self._template_specials(prompt))
        if not found:
            return self._encode(self._plain(text), add=self._add_special_tokens is not False)
        add = self._add_special_tokens if self._add_special_tokens is not None else found[0][0] > 0
        return self._encode_with_anchors(text, found, add=add)

    def _template_specials(self, prompt: RenderedPrompt) -> Iterator[_Range]:
        for start, end in prompt.literal_ranges():
            for match_start, match_end in self._specials_in(prompt.text[start:end]):
                yield start + match_start, start + match_end

    def _encode(self, text: str, *, add: bool) -> PageTokens:
        encoding = self._tokenizer.encode(text, add_special_tokens=add)
        offsets = np.fromiter(chain.from_iterable(encoding.offsets), dtype=np.int64).reshape(-1, 2)
        return PageTokens(np.array(encoding.ids, dtype=np.int32), offsets)

    def _encode_with_anchors(self, text: str, specials: list[_Range], *, add: bool) -> PageTokens:
        parts: list[str] = []
        places: list[_Ints] = []
        last = 0
        for start, end in specials:
            anchor = self._anchors[text[start:end]]
            parts += [self._plain(text[last:start]), anchor]
            places += [np.arange(last, start), np.full(len(anchor), start)]
            last = end
        parts.append(self._plain(text[last:]))
        places.append(np.arange(last, len(text) + 1))
        page = self._encode("".join(parts), add=add)
        return self._without_anchors(page.ids, np.concatenate(places)[page.offsets], specials)

    def _without_anchors(self, ids: npt.NDArray[np.int32], offsets: _Ints, specials: list[_Range]) -> PageTokens:
        """Exchange the anchors' ids for those of the special tokens at ``specials``, and give them their ranges."""
        anchors = np.flatnonzero(np.isin(ids, list(self._special_ids)))
        ids[anchors] = [self._special_ids[id_] for id_ in ids[anchors].tolist()]
        offsets[anchors] = specials
        return PageTokens(ids, offsets)

    def _plain(self, text: str) -> str:
        """``text`` without anything that the tokenizer would take for a special token; its length stays."""
        text = text.replace(_OPEN, _REPLACEMENT)
        for word in self._whole_words:
            text = text.replace(word, _REPLACEMENT + word[1:])
        return text


def _anchor(text: str, special: AddedToken) -> AddedToken:
    """An ordinary token that takes the white space around it as ``special`` does, and is found before normalisation."""
    return AddedToken(text, lstrip=special.lstrip, rstrip=special.rstrip, normalized=False, special=False)


def _is_one_piece(tokenizer: Tokenizer, special: AddedToken) -> bool:
    """True where the vocabulary itself holds the special token, and finds it in plain text (Unigram models do)."""
    if len(special.content) < 3:
        return False
    id_ = tokenizer.token_to_id(special.content)
    return id_ in tokenizer.encode(special.content, add_special_tokens=False).ids
