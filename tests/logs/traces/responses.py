"""The small story as providers and frameworks answer it, written after their own references; see responses.jsonl."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.logs.traces.exports import QUESTION

TURNS = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "What is it?"},
    {"role": "user", "content": QUESTION},
]
_LINES = [json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()]
RECORDS: Mapping[str, tuple[dict[str, Any], ...]] = {
    name: tuple(one["record"] for one in _LINES if one["preset"] == name)
    for name in dict.fromkeys(one["preset"] for one in _LINES)
}
"""Records of each provider by the name of its preset."""


def logged(preset: str, number: int = 0) -> dict[str, Any]:
    """A copy of a provider's record."""
    return copy.deepcopy(RECORDS[preset][number])


openai, anthropic, gemini, bedrock = (partial(logged, name) for name in [*RECORDS][:4])
azure, cohere, llamaindex = (partial(logged, name) for name in ("azure-on-your-data", "cohere", "llamaindex-response"))
trulens, haystack_replies = partial(logged, "trulens"), partial(logged, "haystack", 1)
