"""Retrieved documents in the JSON of every common retriever, and what becomes of several retrievals in one trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from attribeam.logs.traces.json_shapes import at, first_of, nested, number_or_none, parsed, text_or_none
from attribeam.logs.traces.span import Document

TEXT_KEYS = ("content", "page_content", "pageContent", "text", "chunk", "passage", "snippet", "body", "chunk_text")
LIST_KEYS = (
    "documents",
    "docs",
    "passages",
    "contexts",
    "retrieved_contexts",
    "retrieved_documents",
    "source_documents",
    "source_nodes",
    "nodes",
    "chunks",
    "results",
    "matches",
    "hits",
    "context",
    "output",
    "outputs",
    "result",
    "data",
)
SOURCE_KEYS = (*LIST_KEYS[:10], "context")
"""Keys that hold documents also where no retriever is logged."""
_ID_KEYS = ("id", "passage_id", "doc_id", "document_id", "chunk_id", "id_", "node_id", "_id")
_METADATA_ID_KEYS = (*_ID_KEYS, "doc_uri", "source_id", "source", "url", "uri", "file_path", "file_name")
_SCORE_KEYS = ("score", "relevance_score", "similarity", "relevance")
_INNER_KEYS = ("document", "node", "doc", "kwargs", "payload", "_source")
_DEEPEST = 8


class Texts(Protocol):
    """Documents with texts by their ids."""

    def get(self, passage_id: str, /) -> Document | None:
        """The document of an id, None where there is none."""


class _NoTexts:
    """Knows no document."""

    def get(self, _: str, /) -> Document | None:
        return None


NO_TEXTS = _NoTexts()


def documents_of(value: object, depth: int = 0) -> tuple[Document, ...] | None:
    """The documents in what a retriever gave; None where there are none to be found.

    A plain text is one document. A document may be a text or an object, and may have only an id.
    """
    value = parsed(value)
    if isinstance(value, str):
        return (Document(value),) if value.strip() else None
    if depth > _DEEPEST:
        return None
    if isinstance(value, list):
        return _of_list(value, depth)
    if not isinstance(value, dict):
        return None
    columns = _of_columns(value)
    if columns is not None:
        return columns
    for key in LIST_KEYS:
        one = value.get(key)
        if isinstance(one, list | dict) or (isinstance(one, str) and depth == 0):
            found = documents_of(one, depth + 1)
            if found is not None:
                return found
    own = document_of(value)
    return (own,) if own is not None and own.text else None


def document_of(value: object) -> Document | None:
    """One document; None where ``value`` has neither its text nor its id."""
    if isinstance(value, str):
        return Document(value)
    if not isinstance(value, dict):
        return None
    if any("." in key for key in value):
        value = nested(value)
    for key in _INNER_KEYS:
        inner = value.get(key)
        if isinstance(inner, dict):
            found = document_of(inner)
            if found is not None:
                own_id = text_or_none(first_of(value, _ID_KEYS))
                score = number_or_none(first_of(value, _SCORE_KEYS))
                return found._replace(passage_id=found.passage_id or own_id, score=_either(found.score, score))
    text = next((one for key in TEXT_KEYS if isinstance(one := value.get(key), str)), None)
    metadata = parsed(value.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    if text is None:
        text = next((one for key in TEXT_KEYS if isinstance(one := metadata.get(key), str)), None)
    passage_id = text_or_none(first_of(value, _ID_KEYS)) or text_or_none(first_of(metadata, _METADATA_ID_KEYS))
    title = text_or_none(value.get("title")) or text_or_none(metadata.get("title"))
    if text is None and passage_id is None:
        return None
    scores = first_of(value, _SCORE_KEYS), first_of(metadata, _SCORE_KEYS)
    return Document(text, title, passage_id, _either(*map(number_or_none, scores)))


def once_each(documents: Iterable[Document]) -> tuple[Document, ...]:
    """The documents in order, each once: the same id and text, or only the id where one of the two has no text."""
    kept: dict[tuple[str | None, str | None], Document] = {}
    with_text = set[str]()
    for one in documents:
        if one.text is None and one.passage_id in with_text:
            continue
        if one.text is not None and one.passage_id:
            with_text.add(one.passage_id)
            kept.pop((one.passage_id, None), None)
        kept.setdefault((one.passage_id, one.text), one)
    return tuple(kept.values())


def among(others: Sequence[Document]) -> Callable[[Iterable[Document]], bool]:
    """Tells whether at least one document is among ``others``: by its text, or by its id where one has no text."""
    texts = {one.text for one in others if one.text}
    ids = {one.passage_id for one in others if one.passage_id}
    textless = {one.passage_id for one in others if one.passage_id and not one.text}
    return lambda documents: any(
        one.text in texts or one.passage_id in (textless if one.text else ids) for one in documents
    )


def with_texts(documents: Iterable[Document], texts: Texts) -> tuple[Document, ...]:
    """The documents with the text and title that ``texts`` has under the id of one that has no text."""
    return tuple(_with_text(one, texts.get(one.passage_id or "")) for one in documents)


def _with_text(one: Document, known: Document | None) -> Document:
    if one.text is not None or known is None:
        return one
    return one._replace(text=known.text, title=one.title or known.title)


def _of_list(items: Sequence[object], depth: int) -> tuple[Document, ...] | None:
    if len(items) == 1 and isinstance(items[0], list):
        return documents_of(items[0], depth + 1)
    found = [document_of(_unpaired(one)) for one in items]
    if any(one is None for one in found):
        return None
    return tuple(one for one in found if one is not None) if items else ()


def _unpaired(item: object) -> object:
    """The document of a (document, score) pair."""
    if isinstance(item, list) and len(item) == 2 and isinstance(item[1], int | float) and isinstance(item[0], dict):
        return {"document": item[0], "score": item[1]}
    return item


def _of_columns(value: Mapping[str, object]) -> tuple[Document, ...] | None:
    """Columns of ids and texts side by side, as Chroma gives them, perhaps once more in a list."""
    ids, texts = _column(value.get("ids")), _column(value.get("documents"))
    if ids is None or texts is None or len(ids) != len(texts):
        return None
    if not all(text is None or isinstance(text, str) for text in texts):
        return None
    metadata = _column(value.get("metadatas")) or [None] * len(ids)
    titles = [text_or_none(at(one, "title")) for one in metadata] if len(metadata) == len(ids) else [None] * len(ids)
    rows = zip(ids, texts, titles, strict=True)
    return tuple(
        Document(text if isinstance(text, str) else None, title, text_or_none(one)) for one, text, title in rows
    )


def _column(value: object) -> list[object] | None:
    if not isinstance(value, list):
        return None
    return value[0] if len(value) == 1 and isinstance(value[0], list) else value


def _either(one: float | None, other: float | None) -> float | None:
    return other if one is None else one
