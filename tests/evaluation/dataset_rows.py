"""Rows in the formats of the data sets, written for these tests, and files of them."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path

JsonRow = Mapping[str, object]


def quotesum_row(summary: str, *, row_id: str = "q_0", **fields: str) -> dict[str, object]:
    """A row with two sources unless ``fields`` say otherwise."""
    row: dict[str, object] = {"qid": "q", "unique_id": row_id, "question": "Who keeps the lamp?", "summary": summary}
    row |= {f"{name}{number}": "" for name in ("title", "source") for number in range(1, 9)}
    row |= {"title1": "Brigg Point", "source1": "Its lamp is kept by Ada Thorne since 1874."}
    row |= {"title2": "Skell Rock", "source2": "A bell buoy lies off the rock, tended by Jon Reed."}
    return row | fields


def veri_gran_row(summary: str, passages: Sequence[str]) -> dict[str, object]:
    return {"question": "what is on the rock", "summary": summary, "chunk": summary, "passages": list(passages)}


def lfqa_row(response: str, documents: Sequence[str], highlights: Sequence[tuple[str, int, str]]) -> dict[str, object]:
    """``highlights`` are (sentence of the response, document, text of the document)."""
    return {
        "unique_id": "a",
        "query": "What guards the coast?",
        "response": response,
        "documents": [{"documentFile": f"d{n}", "rawDocumentText": text} for n, text in enumerate(documents)],
        "set_of_highlights_in_context": [
            {
                "scuSentence": sentence,
                "scuSentCharIdx": response.index(sentence),
                "documentFile": f"d{document}",
                "docSpanOffsets": [[(start := documents[document].index(text)), start + len(text)]],
            }
            for sentence, document, text in highlights
        ],
    }


def write_rows(path: Path, rows: Sequence[JsonRow]) -> Path:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())
    return path
