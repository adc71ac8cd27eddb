"""Where the characters of a window's page stand on the page of the whole row.

Texts, titles and the question are found by their numbers. What the template wrote between two of them is found by its
beginning behind the same text, and the rest of it by its end before the same text.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attribution.prompts.rendered_prompt import RenderedPrompt

_Ints = npt.NDArray[np.int64]
_Key = tuple[int, bool]
_Range = tuple[int, int]
_QUESTION: _Key = (-1, False)
_END: _Key = (-2, False)


def places_on_whole_page(window: RenderedPrompt, whole: RenderedPrompt) -> _Ints:
    """int64 [code points of the window's prompt]: the place of each on the whole prompt, never falling.

    A code point of the template that the whole page does not have gets the place of the one before it, or -1.
    """
    targets = _texts(whole)
    behind, ahead = _literals_around(targets)
    places = np.empty(len(window.text), dtype=np.int64)
    last_key, last_end = _END, 0
    for key, (start, end) in _texts(window).items():
        literal = window.text[last_end:start]
        places[last_end:start] = _literal_places(literal, whole.text, behind[last_key], ahead[key])
        places[start:end] = np.arange(*targets[key])
        last_key, last_end = key, end
    return np.maximum.accumulate(places)


def _texts(prompt: RenderedPrompt) -> dict[_Key, _Range]:
    """The range of every text, title and question, in their order on the page, and the empty one at its end."""
    found = {(region.passage_index, region.in_title): (region.char_start, region.char_end) for region in prompt.regions}
    if prompt.question_char_start < prompt.question_char_end:
        found[_QUESTION] = (prompt.question_char_start, prompt.question_char_end)
    ordered = dict(sorted(found.items(), key=lambda item: item[1]))
    return {**ordered, _END: (len(prompt.text), len(prompt.text))}


def _literals_around(texts: dict[_Key, _Range]) -> tuple[dict[_Key, _Range], dict[_Key, _Range]]:
    """What the template wrote behind each text (behind ``_END``: at the beginning), and what before each."""
    behind, ahead = {}, {}
    last_key, last_end = _END, 0
    for key, (start, end) in texts.items():
        behind[last_key] = ahead[key] = (last_end, start)
        last_key, last_end = key, end
    return behind, ahead


def _literal_places(literal: str, whole: str, behind: _Range, ahead: _Range) -> _Ints:
    """The places of ``literal``, which stands behind one text and before another one."""
    begun = _common_length(literal, whole[slice(*behind)])
    free = max(ahead[0], behind[0] + begun) if behind == ahead else ahead[0]
    ended = _common_length(literal[begun:][::-1], whole[free : ahead[1]][::-1])
    unmatched = np.full(len(literal) - begun - ended, behind[0] + begun - 1)
    return np.concatenate([np.arange(behind[0], behind[0] + begun), unmatched, np.arange(ahead[1] - ended, ahead[1])])


def _common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (mine, its) in pairs if mine != its), min(len(one), len(other)))
