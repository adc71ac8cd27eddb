"""Retrieved documents in the JSON of every common retriever, and what becomes of several retrievals in one trace."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from attribeam.logs.columns import words
from attribeam.logs.traces.values import at, first_of, is_nothing, nested, number_or_none, parsed, text_or_none

TEXT_KEYS = words(
    "content page_content pageContent text chunk passage snippet body chunk_text passage_text "
    "chunk_content paragraph_text contents document context excerpt"
)
SOURCE_KEYS = words(
    "retrieval_context retrieved_contexts retrieved_context retrieved_documents retrieved_docs "
    "retrieved_passages retrieved_chunks retrieved_nodes documents docs passages contexts "
    "source_documents source_nodes nodes chunks ctxs context"
)
"""Keys that hold documents also where no retriever is logged."""
LIST_KEYS = (*SOURCE_KEYS[:-1], *words("results matches hits context output outputs result data"))
_ID_KEYS = ("id", "passage_id", "doc_id", "document_id", "chunk_id", "id_", "node_id", "_id", "docid", "doc_uri")
_METADATA_ID_KEYS = (*_ID_KEYS, "source_id", "source", "url", "uri", "file_path", "file_name")
_SCORE_KEYS = ("score", "relevance_score", "similarity", "relevance")
_INNER_KEYS = ("document", "node", "doc", "kwargs", "payload", "_source", "text_resource")
_COLUMN_TEXTS = (*TEXT_KEYS, "documents", "texts", "passages", "chunks", "sentences")
_COLUMN_IDS = (*_ID_KEYS, "ids", "passage_ids", "doc_ids", "url", "urls", "source", "sources")
_COLUMN_TITLES = ("title", "titles")
_BESIDE_TEXT = frozenset({"metadata", "title", "type", "lc", *TEXT_KEYS, *_METADATA_ID_KEYS, *_SCORE_KEYS})
"""Members of an object that is nothing but a document: opening one that stands as JSON in a text loses nothing."""
_NO_IDS = frozenset(
    {"answer", "description", "error", "input", "message", "name", "output", "prompt", "query", "question", "reason"}
    | {"response", "result", "status", "summary", "title"}
)
"""Keys whose texts are no passages, so that an object with one of them is no table of texts by their ids."""
_PRINTED_DOCUMENT = re.compile(r"""page_content=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?: metadata=.*)?""", re.DOTALL)
"""A document of LangChain as ``str`` prints it."""
_DEEPEST = 8


class Document(NamedTuple):
    """A retrieved passage as a trace has it; ``text`` is None where only its id was logged."""

    text: str | None
    title: str | None = None
    passage_id: str | None = None
    score: float | None = None


Texts = Callable[[str], Document | None]
"""Gives the document with a text of an id, None where there is none."""


def no_texts(_: str) -> Document | None:
    """Texts that hold none."""
    return None


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
    return (own,) if own is not None and own.text else _by_ids(value)


def document_of(value: object) -> Document | None:
    """One document; None where ``value`` has neither its text nor its id.

    A text may hold a document that was printed, as JSON or by ``str``.
    """
    if isinstance(value, str):
        return _of_text(value)
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
    return tuple(_with_text(one, texts(one.passage_id or "")) for one in documents)


def _with_text(one: Document, known: Document | None) -> Document:
    if one.text is not None or known is None:
        return one
    return one._replace(text=known.text, title=one.title or known.title)


def _of_text(text: str) -> Document:
    value = parsed(text)
    if isinstance(value, dict) and value.keys() <= _BESIDE_TEXT and (found := document_of(value)) and found.text:
        return found
    printed = _PRINTED_DOCUMENT.fullmatch(text.strip())
    return Document(ast.literal_eval(printed[1]) if printed else text)


def _of_list(items: Sequence[object], depth: int) -> tuple[Document, ...] | None:
    """The documents of a list, an empty one for each null; None where an item is none, or all are null."""
    if items and all(isinstance(one, list) for one in items) and not any(map(_of_tuple, items)):
        found = [documents_of(one, depth + 1) for one in items]
        return None if any(some is None for some in found) else tuple(one for some in found for one in some or ())
    documents = [
        Document("") if is_nothing(one) else _of_tuple(one) if isinstance(one, list) else document_of(one)
        for one in items
    ]
    if items and all(map(is_nothing, items)):
        return None
    return None if any(one is None for one in documents) else tuple(one for one in documents if one is not None)


def _of_tuple(item: object) -> Document | None:
    """The document of a pair or triple of text or document, score, id, title or metadata; None where it is no such."""
    if not isinstance(item, list) or not 2 <= len(item) <= 4:
        return None
    texts = [one for one in item if isinstance(one, str)]
    objects = [one for one in item if isinstance(one, dict)]
    scores = [one for one in item if isinstance(one, int | float) and not isinstance(one, bool)]
    score = float(scores[0]) if scores else None
    if not texts and len(objects) == 1 and scores:
        return document_of({"document": objects[0], "score": score})
    if len(texts) == 1 and len(scores) + len(objects) == len(item) - 1:
        own = _of_text(texts[0])
        about = document_of({"text": own.text, "metadata": objects[0]}) if objects else own
        return own if about is None else about._replace(score=_either(score, about.score))
    if len(texts) == 2 and len(scores) == len(item) - 2 and " " in texts[1].strip() and " " not in texts[0].strip():
        return Document(texts[1], None, texts[0], score)
    if len(item) == 2 and len(texts) == 1 and isinstance(item[0], str) and _are_texts(item[1]):
        return Document("".join(item[1]), item[0])
    return None


def _of_columns(value: Mapping[str, object]) -> tuple[Document, ...] | None:
    """Columns of texts, ids and titles side by side, as Chroma and ``datasets`` give them, perhaps in one more list."""
    for key in _COLUMN_TEXTS:
        texts = _column(value.get(key))
        if texts and all(map(_are_texts, texts)):
            texts = ["".join(one) for one in texts if isinstance(one, list)]
        if texts and any(texts) and all(text is None or isinstance(text, str) for text in texts):
            size = len(texts)
            ids, titles = (_parallel(value, names, size) for names in (_COLUMN_IDS, _COLUMN_TITLES))
            if not any(titles):
                metadata = _column(value.get("metadatas")) or []
                titles = [at(one, "title") for one in metadata] if len(metadata) == size else titles
            rows = zip(texts, titles, ids, strict=True)
            has_ids = any(one is not None for one in ids)
            blank = None if has_ids else ""
            return tuple(
                Document(text if isinstance(text, str) else blank, text_or_none(title), text_or_none(own))
                for text, title, own in rows
            )
    return None


def _parallel(value: Mapping[str, object], names: Iterable[str], size: int) -> list[object]:
    """The first of these columns that has one value per text; nulls where there is none."""
    found = (_column(value.get(name)) for name in names)
    return next((one for one in found if one is not None and len(one) == size), [None] * size)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _column(value: object) -> list[object] | None:
    if not isinstance(value, list):
        return None
    return value[0] if len(value) == 1 and isinstance(value[0], list) else value


def _by_ids(value: Mapping[str, object]) -> tuple[Document, ...] | None:
    """An object of texts or documents by their ids; its texts have at least three words."""
    if not value or any(key.lower() in _NO_IDS or key in _BESIDE_TEXT or key in LIST_KEYS for key in value):
        return None
    found = []
    for key, one in value.items():
        document = document_of(one)
        if document is None or not document.text or (isinstance(one, str) and len(one.split()) < 3):
            return None
        found.append(document._replace(passage_id=key))
    return tuple(found)


def _either(one: float | None, other: float | None) -> float | None:
    return other if one is None else one
