"""From texts to tokens and back to characters: the one place where offsets are made.

A rendered row is tokenised once as a whole, and every token is mapped to the code points of the passage, title or
answer that it stands for. A byte-level tokenizer may put a blank in front of a word into the word's token, split a
character over several tokens, and merge the prompt's last blank with the answer's first word:

- ranges are clipped to their passage, title or answer and leave out white space at both ends;
- a token of white space alone covers nothing (its start is its end) but still lies in its passage;
- every token that holds a part of a character covers that whole character;
- the response begins at the first token that reaches beyond the prompt, so a token on the border is the answer's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attribution.prompts.page_tokenizer import PageTokenizer, PageTokens
from attribution.prompts.rendered_prompt import RenderedPrompt
from attribution.token_attribution import EncodedRow
from schemas import Reason, RowFault

_Ints = npt.NDArray[np.int64]

_WHITE_SPACE = np.array([chr(code).isspace() for code in range(0x3001)])


def encode_row(prompt: RenderedPrompt, answer: str, tokenizer: PageTokenizer) -> EncodedRow:
    """One row as tokens with their characters.

    Raises:
        RowFault: INVALID_UTF8 if a text has lone surrogates; EMPTY_ANSWER if no token lies in the answer.
    """
    return encode_page(prompt, answer, tokenizer)[0]


def encode_page(prompt: RenderedPrompt, answer: str, tokenizer: PageTokenizer) -> tuple[EncodedRow, PageTokens]:
    """As ``encode_row``, with the tokens as they lie on the page of prompt and answer."""
    text = prompt.text + answer
    blank = _blank_characters(text)
    page = tokenizer.tokenise(prompt, answer)
    offsets = page.offsets
    beyond = offsets[:, 1] > len(prompt.text)
    if not beyond.any():
        raise RowFault(Reason.EMPTY_ANSWER, "the answer should have at least one token, has none", column="answer")
    prompt_length = int(beyond.argmax())
    starts, ends = _trim(offsets[:, 0], offsets[:, 1], blank)
    columns = _columns(offsets[:prompt_length], starts[:prompt_length], ends[:prompt_length], prompt, blank)
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


def _columns(
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
    """Ranges without the white space at their ends; one of white space alone becomes empty, at its end."""
    next_visible, last_visible_end = blank
    trimmed_starts = np.minimum(next_visible[starts], ends)
    return trimmed_starts, np.maximum(np.minimum(last_visible_end[ends], ends), trimmed_starts)


_BlankRuns = tuple[_Ints, _Ints]


def _blank_characters(text: str) -> _BlankRuns:
    """For every place in ``text`` the next visible character's place, and the end of the last one before it.

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
