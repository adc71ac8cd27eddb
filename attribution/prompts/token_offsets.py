"""From texts to tokens and back to characters: the one place where offsets are made; and windows of long rows.

A rendered prompt and its answer, together the page, are tokenised once as a whole. Every token is mapped to the code
points of the passage, title or answer that it stands for, without white space at both ends; one of white space alone
covers nothing, but still lies in its passage. A token that holds a part of a character covers that whole character. The
response begins at the first token that reaches beyond the prompt, so a token on the border is the answer's.

The template's special tokens are real, and all others are plain text. A tokenizer takes special tokens for real
everywhere in a text or nowhere. So it is told nowhere, and learns one more ordinary token for each special one, an
anchor, which no text of a log can hold. On the page the anchors stand where the template has special tokens, and
afterwards their ids are exchanged. Tokenizers split a text at both alike, so the result is that of the whole page.

A window is the template with a run of neighbouring passages, the question and the answer; no passage is in two of them,
and none is cut. The whole row has one column for every place on its page that a window has a token at. On that page,
texts, titles and the question are found by their numbers; what the template wrote between two of them is found by its
beginning behind the same text, and the rest of it by its end before the same text.

A passage's columns come from their own window; one outside the passages lies in several windows and counts as its
largest value there. So the windows' own top k suffice. A passage's mass is its window's, that outside the passages the
mean over the windows: passages' masses, divided by the number of windows, and it are shares of one whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Tokenizer

from attribeam.attribution.prompts import QUESTION, RenderedPrompt, TextKey
from attribeam.attribution.rows import EncodedRow, PassageWindow, TokenAttribution
from attribeam.schemas import Reason, RowFault

_ANCHOR_OPEN, _ANCHOR_CLOSE = "\ufdd0", "\ufdd1"
_REPLACEMENT = "\ufffd"
_Ints = npt.NDArray[np.int64]
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PageTokens:
    """The tokens of a prompt and its answer: ``ids`` int32 [tokens], ``offsets`` int64 [tokens, 2].

    Offsets are half-open code points of the page (prompt, then answer), as the tokenizer says; (0, 0) for a special
    token that it added.
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
        texts = [token.content for token in specials.values()]
        # those that the vocabulary itself holds and finds in plain text, as in Unigram models
        self._whole_words = tuple(
            text
            for text in texts
            if len(text) > 2 and tokenizer.token_to_id(text) in tokenizer.encode(text, add_special_tokens=False).ids
        )
        longest_first = sorted(texts, key=len, reverse=True)
        special = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._specials_in = lru_cache(4096)(lambda literal: [match.span() for match in special.finditer(literal)])
        self._anchors = {token.content: f"{_ANCHOR_OPEN}{id_}{_ANCHOR_CLOSE}" for id_, token in specials.items()}
        # Ordinary tokens, found before normalisation, that treat white space around them as the special ones do.
        for token in specials.values():
            anchor, sides = self._anchors[token.content], {"lstrip": token.lstrip, "rstrip": token.rstrip}
            tokenizer.add_tokens([AddedToken(anchor, **sides, normalized=False, special=False)])
        added = {token.content: id_ for id_, token in tokenizer.get_added_tokens_decoder().items()}
        self._special_ids = {added[self._anchors[token.content]]: id_ for id_, token in specials.items()}

    def tokenise(self, prompt: RenderedPrompt, answer: str) -> PageTokens:
        """The tokens of the prompt followed by the answer; both without lone surrogates."""
        text = prompt.text + answer
        specials: list[_Range] = []
        for start, end in prompt.literal_ranges():
            inside = self._specials_in(prompt.text[start:end])
            specials += [(start + first, start + last) for first, last in inside]
        if not specials:
            return self._encode(self._plain(text), add=self._add_special_tokens is not False)
        parts: list[str] = []
        positions: list[_Ints] = []
        last = 0
        for start, end in specials:
            anchor = self._anchors[text[start:end]]
            parts += [self._plain(text[last:start]), anchor]
            positions += [np.arange(last, start), np.full(len(anchor), start)]
            last = end
        parts.append(self._plain(text[last:]))
        positions.append(np.arange(last, len(text) + 1))
        add = specials[0][0] > 0 if self._add_special_tokens is None else self._add_special_tokens
        page = self._encode("".join(parts), add=add)
        ids, offsets = page.ids, np.concatenate(positions)[page.offsets]
        anchors = np.flatnonzero(np.isin(ids, list(self._special_ids)))
        ids[anchors] = [self._special_ids[id_] for id_ in ids[anchors].tolist()]
        offsets[anchors] = specials
        return PageTokens(ids, offsets)

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

    def _plain(self, text: str) -> str:
        """``text`` without anything that the tokenizer would take for a special token; its length stays."""
        text = text.replace(_ANCHOR_OPEN, _REPLACEMENT)
        for word in self._whole_words:
            text = text.replace(word, _REPLACEMENT + word[1:])
        return text


_WHITE_SPACE = np.array([chr(code).isspace() for code in range(0x3001)])


def encode_page(prompt: RenderedPrompt, answer: str, tokenizer: PageTokenizer) -> tuple[EncodedRow, PageTokens]:
    """One row as tokens with their characters, and the positions of the tokens on the page of prompt and answer.

    Raises ``RowFault`` INVALID_UTF8 if a text has lone surrogates; EMPTY_ANSWER if no token lies in the answer.
    """
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
        [*((*chars, *key) for key, chars in prompt.texts.items() if key != QUESTION), (0, 0, *QUESTION)], dtype=np.int64
    )  # the last row is for what lies in no passage
    index = np.searchsorted(table[:-1, 1], token_starts, side="right")
    inside = (index < len(table) - 1) & (table[index, 0] < token_ends)
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

    Both have ``len(text) + 1`` items. Raises ``RowFault`` INVALID_UTF8 if ``text`` has lone surrogates.
    """
    try:
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    except UnicodeEncodeError:
        message = "texts should be valid Unicode, one has a lone surrogate; clean the log where it is written"
        raise RowFault(Reason.INVALID_UTF8, message) from None
    visible = ~_WHITE_SPACE[np.minimum(codes, len(_WHITE_SPACE) - 1)] | (codes >= len(_WHITE_SPACE))
    positions = np.arange(len(text) + 1)
    nexts = np.append(np.where(visible, positions[:-1], len(text)), len(text))
    lasts = np.append(0, np.where(visible, positions[1:], 0))
    return np.minimum.accumulate(nexts[::-1])[::-1], np.maximum.accumulate(lasts)


def cut_into_windows(
    whole: EncodedPrompt, *, encode: Callable[[range], EncodedPrompt], passage_count: int, max_tokens: int
) -> EncodedRow:
    """The row of ``whole`` with windows of at most ``max_tokens`` tokens each.

    ``encode`` gives the page that shows only a run of the passages, numbered as in the whole row. Raises ``RowFault``
    TOO_MANY_TOKENS if a passage does not fit with question and answer, or the windows' answers differ.
    """
    if not passage_count:
        raise _too_long_fault(whole.row, "there is no passage", max_tokens)
    firsts, lasts = np.full(passage_count, whole.row.prompt_length), np.full(passage_count, -1)
    inside = np.flatnonzero(whole.row.column_passage >= 0)
    np.minimum.at(firsts, whole.row.column_passage[inside], inside)  # the first column of every passage, and its last
    np.maximum.at(lasts, whole.row.column_passage[inside], inside)
    room = max_tokens - len(whole.row.token_ids) + int(lasts.max() - firsts.min()) + 1
    windows: list[EncodedPrompt] = []
    first = 0
    while first < passage_count:
        lengths = np.maximum.accumulate(lasts[first:]) - np.minimum.accumulate(firsts[first:]) + 1
        end = first + max(1, int(np.searchsorted(lengths, room, side="right")))
        window = encode(range(first, end))
        while len(window.row.token_ids) > max_tokens and end > first + 1:
            end -= 1
            window = encode(range(first, end))
        if len(window.row.token_ids) > max_tokens:
            tokens = int((window.row.column_passage == first).sum())
            raise _too_long_fault(window.row, f"passage {first + 1} of {passage_count} has {tokens}", max_tokens)
        windows.append(window)
        first = end
    return _joined_row(whole.prompt, windows)


def _too_long_fault(row: EncodedRow, passage: str, max_tokens: int) -> RowFault:
    return RowFault(
        Reason.TOO_MANY_TOKENS,
        f"a passage with template, question and answer should have at most {max_tokens} tokens; {passage}, the answer "
        f"{len(row.token_ids) - row.prompt_length}, all together {len(row.token_ids)}. Log shorter texts, or choose a "
        "model with a longer context, or a higher --max-tokens if it was given",
    )


def _joined_row(prompt: RenderedPrompt, windows: Sequence[EncodedPrompt]) -> EncodedRow:
    """One row over the columns of all windows; the answer's tokens are those of any window."""
    rows = [window.row for window in windows]
    first, answers = rows[0], [row.token_ids[row.prompt_length :] for row in rows]
    chars = [(row.response_char_start, row.response_char_end) for row in rows]
    if len({np.concatenate([ids, *ranges]).tobytes() for ids, ranges in zip(answers, chars, strict=True)}) > 1:
        raise RowFault(
            Reason.TOO_MANY_TOKENS,
            "the answer of a row longer than the model's context should have the same tokens in every window, has "
            "others behind another passage; let the prompt template part passages and answer, as by a line break",
        )
    keys = np.concatenate([_column_keys(window, prompt) for window in windows])
    _, chosen, columns = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    own_columns = np.split(columns.reshape(-1).astype(np.int32), np.cumsum([row.prompt_length for row in rows])[:-1])
    names = ("token_ids", "column_passage", "column_in_title", "column_char_start", "column_char_end")
    parts = {name: [getattr(row, name)[: row.prompt_length] for row in rows] for name in names}
    joined = {name: np.concatenate(of_rows)[chosen] for name, of_rows in parts.items()}
    joined["token_ids"] = np.concatenate([joined["token_ids"], answers[0]])
    pairs = zip(rows, own_columns, strict=True)
    return replace(first, **joined, prompt_length=len(chosen), windows=tuple(PassageWindow(*pair) for pair in pairs))


def _column_keys(window: EncodedPrompt, whole: RenderedPrompt) -> _Ints:
    """int64 [prompt_length, 3]: first and last place of each token on the whole page, and its number among its equals.

    Ascending. Equal keys of two windows are one column. A special token that the tokenizer added has place -1.
    """
    positions = np.append(places_on_whole_page(window.prompt, whole), -1)
    starts, ends = window.page.offsets[: window.row.prompt_length].T
    firsts = np.where(ends > 0, positions[np.minimum(starts, ends - 1)], -1)
    firsts = np.maximum.accumulate(firsts)
    lasts = np.maximum.accumulate(np.maximum(positions[ends - 1], firsts))
    numbers = np.arange(len(firsts))
    begins = np.append(True, (firsts[1:] != firsts[:-1]) | (lasts[1:] != lasts[:-1]))
    return np.stack([firsts, lasts, numbers - np.maximum.accumulate(np.where(begins, numbers, 0))], axis=1)


_END: TextKey = (-2, False)


def places_on_whole_page(window: RenderedPrompt, whole: RenderedPrompt) -> _Ints:
    """int64 [code points of the window's prompt]: the place of each on the whole prompt, never falling.

    A code point of the template that the whole page does not have gets the place of the one before it, or -1.
    """
    targets = _with_end(whole)
    behind, ahead = {}, {}  # what the template wrote on the whole page behind each text, and what before it
    last_key, last_end = _END, 0
    for key, (start, end) in targets.items():
        behind[last_key] = ahead[key] = (last_end, start)
        last_key, last_end = key, end
    positions = np.empty(len(window.text), dtype=np.int64)
    last_key, last_end = _END, 0
    for key, (start, end) in _with_end(window).items():
        literal = window.text[last_end:start]
        positions[last_end:start] = _literal_places(literal, whole.text, behind[last_key], ahead[key])
        positions[start:end] = np.arange(*targets[key])
        last_key, last_end = key, end
    return np.maximum.accumulate(positions)


def _with_end(prompt: RenderedPrompt) -> dict[TextKey, _Range]:
    """The range of every text, and the empty one at the end of the page."""
    return {**prompt.texts, _END: (len(prompt.text), len(prompt.text))}


def _literal_places(literal: str, whole: str, behind: _Range, ahead: _Range) -> _Ints:
    """The places of ``literal``, which stands behind one text and before another one."""
    begun = _common_length(literal, whole[slice(*behind)])
    free = max(ahead[0], behind[0] + begun) if behind == ahead else ahead[0]
    ended = _common_length(literal[begun:][::-1], whole[free : ahead[1]][::-1])
    unmatched = np.full(len(literal) - begun - ended, behind[0] + begun - 1)
    return np.concatenate([np.arange(behind[0], behind[0] + begun), unmatched, np.arange(ahead[1] - ended, ahead[1])])


def _common_length(text: str, other: str) -> int:
    pairs = enumerate(zip(text, other, strict=False))
    return next((index for index, (mine, its) in pairs if mine != its), min(len(text), len(other)))


RowOutcome: TypeAlias = TokenAttribution | RowFault
_AttributeRows: TypeAlias = Callable[[Sequence[EncodedRow], Sequence[int]], Sequence[RowOutcome]]


def attribute_with_windows(
    rows: Sequence[EncodedRow], passage_counts: Sequence[int], *, top_k: int, attribute: _AttributeRows
) -> list[RowOutcome]:
    """One outcome per row, with or without windows; ``attribute`` gives one per row without windows.

    The first fault of a window becomes its row's fault. Raises ``ValueError`` if there is not one passage count per
    row, or not one outcome per window.
    """
    parts = [(part, count) for row, count in zip(rows, passage_counts, strict=True) for part in windows_or_whole(row)]
    outcomes = attribute([part for part, _ in parts], [count for _, count in parts])
    if len(outcomes) != len(parts):
        raise ValueError(f"there should be one outcome for each of {len(parts)} parts of rows, are {len(outcomes)}")
    remaining = iter(outcomes)
    joined: list[RowOutcome] = []
    for row in rows:
        of_windows = list(islice(remaining, len(windows_or_whole(row))))
        attributions = [outcome for outcome in of_windows if isinstance(outcome, TokenAttribution)]
        if row.windows and len(attributions) == len(of_windows):
            joined.append(merge_windows(row, attributions, top_k=top_k))
        else:
            joined.append(next((outcome for outcome in of_windows if isinstance(outcome, RowFault)), of_windows[0]))
    return joined


def windows_or_whole(row: EncodedRow) -> list[EncodedRow]:
    """What of a row runs through the model: its windows, or the row itself if it has none."""
    return [window.row for window in row.windows] or [row]


def merge_windows(row: EncodedRow, parts: Sequence[TokenAttribution], *, top_k: int) -> TokenAttribution:
    """The attribution of a row from those of its windows, each one the ``top_k`` largest of its own columns.

    Of each column the largest score counts, and ties go to the lower column.
    """
    merged = [window.columns[part.top_columns] for window, part in zip(row.windows, parts, strict=True)]
    columns, scores = np.concatenate(merged, axis=1), np.concatenate([part.top_scores for part in parts], axis=1)
    order = np.lexsort((columns, -scores))
    columns = np.take_along_axis(columns, order, axis=1)
    by_column = np.argsort(columns, axis=1, kind="stable")
    ascending = np.take_along_axis(columns, by_column, axis=1)
    repeated = np.zeros(columns.shape, dtype=bool)
    np.put_along_axis(repeated, by_column[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    kept = np.argsort(repeated, axis=1, kind="stable")[:, : min(top_k, row.prompt_length)]
    return TokenAttribution(
        np.take_along_axis(columns, kept, axis=1),
        np.take_along_axis(scores, np.take_along_axis(order, kept, axis=1), axis=1),
        passage_mass=np.sum([part.passage_mass for part in parts], axis=0),
        sink_mass=np.mean([part.sink_mass for part in parts], axis=0),
    )
