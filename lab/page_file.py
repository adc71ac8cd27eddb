"""Files of running text that training and benchmarks draw from: one page per line, with a title and its paragraphs."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PageText:
    """One page as its file holds it."""

    title: str
    paragraphs: list[str]


def read_page_file(path: Path) -> Iterator[PageText]:
    """The pages of a file of ``{"title": str, "paras": [str, ...]}`` lines, plain or ``.xz``, in their order.

    Raises:
        OSError: if the file cannot be read.
    """
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            page = json.loads(line)
            yield PageText(page["title"], page["paras"])
