"""From texts to tokens and back to characters: the one place where offsets are made.

A rendered prompt and its answer, together the page, are tokenised once as a whole. Every token is mapped to the code
points of the passage, title or answer that it stands for. A byte-level tokenizer may put a blank in front of a word
into the word's token, split a character over several tokens, and merge the prompt's last blank with the answer's first
word:

- ranges are clipped to their passage, title or answer and leave out white space at both ends;
- a token of white space alone covers nothing (its start is its end) but still lies in its passage;
- every token that holds a part of a character covers that whole character;
- the response begins at the first token that reaches beyond the prompt, so a token on the border is the answer's.

The template's special tokens are real, and all others are plain text. A tokenizer takes special tokens for real
everywhere in a text or nowhere. So it is told nowhere, and learns one more ordinary token for each special one, an
anchor, which no text of a log can hold. On the page the anchors stand where the template has special tokens, and
afterwards their ids are exchanged. Tokenizers split a text at such tokens as they split it at special ones, so the
result is that of the whole page, whatever is done to the start of a stretch.
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

from attribeam.attribution.prompts.prompt_template import RenderedPrompt
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import Reason, RowFault

_ANCHOR_OPEN, _ANCHOR_CLOSE = "\ufdd0", "\ufdd1"
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


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A rendered prompt with the tokens of its page, answer included."""

    prompt: RenderedPrompt
    row: EncodedRow
    page: PageTokens


class PageTokenizer:
    """Owns and changes the backend of a fast tokenizer; threads may share it."""

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
        self._anchors = {token.content: f"{_ANCHOR_OPEN}{id_}{_ANCHOR_CLOSE}" for id_, token in specials.items()}
        tokenizer.add_tokens([_anchor_token(self._anchors[token.content], token) for token in specials.values()])
        added = {token.content: id_ for id_, token in tokenizer.get_added_tokens_decoder().items()}
        self._special_ids = {added[self._anchors[token.content]]: id_ for id_, token in specials.items()}

    def tokenise(self, prompt: RenderedPrompt, answer: str) -> PageTokens:
        """The tokens of the prompt followed by the answer; both without lone surrogates."""
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
        try:
            encoding = self._tokenizer.encode(text, add_special_tokens=add)
            ids = np.array(encoding.ids, dtype=np.int32)
        except MemoryError:
            raise
        except Exception as error:  # as a tokenizer raises for a word where its vocabulary has none for unknown ones
            message = f"the tokenizer should take any text, but raised {type(error).__name__}; try another --model"
            raise RowFault(Reason.INVALID_VALUE, message) from error
        offsets = np.fromiter(chain.from_iterable(encoding.offsets), dtype=np.int64).reshape(-1, 2)
        return PageTokens(ids, offsets)

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
        text = text.replace(_ANCHOR_OPEN, _REPLACEMENT)
        for word in self._whole_words:
            text = text.replace(word, _REPLACEMENT + word[1:])
        return text


def _anchor_token(text: str, special: AddedToken) -> AddedToken:
    """An ordinary token that treats surrounding white space as ``special`` does, and is found before normalisation."""
    return AddedToken(text, lstrip=special.lstrip, rstrip=special.rstrip, normalized=False, special=False)


def _is_one_piece(tokenizer: Tokenizer, special: AddedToken) -> bool:
    """True if the vocabulary itself holds the special token and finds it in plain text, as in Unigram models."""
    if len(special.content) < 3:
        return False
    id_ = tokenizer.token_to_id(special.content)
    return id_ in tokenizer.encode(special.content, add_special_tokens=False).ids


_WHITE_SPACE = np.array([chr(code).isspace() for code in range(0x3001)])


def encode_row(prompt: RenderedPrompt, answer: str, tokenizer: PageTokenizer) -> EncodedRow:
    """One row as tokens with their characters.

    Raises:
        RowFault: INVALID_UTF8 if a text has lone surrogates; EMPTY_ANSWER if no token lies in the answer.
    """
    return encode_page(prompt, answer, tokenizer)[0]


def encode_page(prompt: RenderedPrompt, answer: str, tokenizer: PageTokenizer) -> tuple[EncodedRow, PageTokens]:
    """As ``encode_row``, with the positions of the tokens on the page of prompt and answer."""
    text = prompt.text + answer
    blank = _blank_characters(text)
    page = tokenizer.tokenise(prompt, answer)
    offsets = page.offsets
    beyond = offsets[:, 1] > len(prompt.text)
    if not beyond.any():
        raise RowFault(Reason.EMPTY_ANSWER, "the answer should have at least one token, has none", column="answer")
    prompt_length = int(beyond.argmax())
    starts, ends = _trim(offsets[:, 0], offsets[:, 1], blank)
    columns = _column_places(offsets[:prompt_length], starts[:prompt_length], ends[:prompt_length], prompt, blank)
    response = _clip(starts[prompt_length:], ends[prompt_length:], len(prompt.text), len(text), blank)
    row = EncodedRow(
        token_ids=page.ids,
        prompt_length=prompt_length,
        column_passage=columns[0].astype(np.int32),
        column_in_title=columns[1],
        column_char_start=columns[2].astype(np.int32),
        column_char_end=columns[3].astype(np.int32),
        response_char_start=response[0].astype(np.int32),
        response_char_end=response[1].astype(np.int32),
    )
    return row, page


def _column_places(
    offsets: _Ints, starts: _Ints, ends: _Ints, prompt: RenderedPrompt, blank: _BlankRuns
) -> tuple[_Ints, npt.NDArray[np.bool_], _Ints, _Ints]:
    """Passage (-1 outside), in title, char_start and char_end of each prompt token.

    ``offsets`` [tokens, 2] as the tokenizer gave them, ``starts`` and ``ends`` [tokens] without white space.
    """
    covered = starts < ends
    token_starts = np.where(covered, starts, offsets[:, 0])
    token_ends = np.where(covered, ends, offsets[:, 1])
    token_starts = np.where(token_starts < token_ends, token_starts, token_ends - 1)  # trimmed by the tokenizer
    table = np.array(
        [(region.char_start, region.char_end, region.passage_index, region.in_title) for region in prompt.regions],
        dtype=np.int64,
    ).reshape(-1, 4)
    table = np.vstack([table, [np.iinfo(np.int64).max, np.iinfo(np.int64).max, -1, 0]])
    index = np.searchsorted(table[:, 1], token_starts, side="right")
    inside = table[index, 0] < token_ends
    table = np.vstack([table[:-1], [0, 0, -1, 0]])
    index = np.where(inside, index, len(table) - 1)
    region_starts, region_ends = table[index, 0], table[index, 1]
    char_starts, char_ends = _clip(starts, ends, region_starts, region_ends, blank)
    return table[index, 2], table[index, 3].astype(bool), char_starts, char_ends


def _clip(starts: _Ints, ends: _Ints, low: _Ints | int, high: _Ints | int, blank: _BlankRuns) -> tuple[_Ints, _Ints]:
    """Ranges within ``[low, high)``, counted from ``low``, without white space at the ends; empty ones [x, x)."""
    clipped_starts = np.clip(starts, low, high)
    clipped_ends = np.maximum(np.clip(ends, low, high), clipped_starts)
    trimmed_starts, trimmed_ends = _trim(clipped_starts, clipped_ends, blank)
    return trimmed_starts - low, trimmed_ends - low


def _trim(starts: _Ints, ends: _Ints, blank: _BlankRuns) -> tuple[_Ints, _Ints]:
    """Ranges without the white space at their ends; a range of only white space becomes empty, at its end."""
    next_visible, last_visible_end = blank
    trimmed_starts = np.minimum(next_visible[starts], ends)
    return trimmed_starts, np.maximum(np.minimum(last_visible_end[ends], ends), trimmed_starts)


_BlankRuns = tuple[_Ints, _Ints]


def _blank_characters(text: str) -> _BlankRuns:
    """For each position in ``text``, the next visible character's position and the end of the last one before it.

    Both have ``len(text) + 1`` items.

    Raises:
        RowFault: INVALID_UTF8 if ``text`` has lone surrogates.
    """
    try:
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    except UnicodeEncodeError:
        message = "texts should be valid Unicode, one has a lone surrogate; clean the log where it is written"
        raise RowFault(Reason.INVALID_UTF8, message) from None
    visible = ~_WHITE_SPACE[np.minimum(codes, len(_WHITE_SPACE) - 1)] | (codes >= len(_WHITE_SPACE))
    places = np.arange(len(text) + 1)
    nexts = np.append(np.where(visible, places[:-1], len(text)), len(text))
    lasts = np.append(0, np.where(visible, places[1:], 0))
    return np.minimum.accumulate(nexts[::-1])[::-1], np.maximum.accumulate(lasts)
