"""Retrieved documents: in the JSON of every common retriever, and by their marks in a prompt that was logged whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from attribeam.logs.columns import words
from attribeam.logs.traces import (
    Record,
    at,
    first_of,
    is_nothing,
    is_null_text,
    nested,
    number_or_none,
    object_of,
    opened_text,
    parsed,
    text_or_none,
    unprinted,
)
from attribeam.logs.traces.messages import Asked, content_text, messages_of

TEXT_KEYS = words(
    "content page_content pageContent text chunk passage snippet body chunk_text passage_text "
    "chunk_content paragraph_text contents document context excerpt Content extractive_segments extractive_answers"
)
SOURCE_KEYS = words(
    "retrieval_context retrieved_contexts retrieved_context retrieved_documents retrieved_docs "
    "retrieved_passages retrieved_chunks retrieved_nodes documents docs passages contexts "
    "source_documents source_nodes nodes chunks ctxs retrieval_results retrievalResults context"
)
"""Keys that hold documents also where no retriever is logged."""
LIST_KEYS = (*SOURCE_KEYS[:-1], *words("results matches hits points objects context output outputs result data value"))
_ID_KEYS = ("id", "passage_id", "doc_id", "document_id", "chunk_id", "id_", "node_id", "_id", "docid", "doc_uri")
_METADATA_ID_KEYS = (*_ID_KEYS, "source_id", "source", "url", "uri", "file_path", "file_name")
_SCORE_KEYS = ("score", "relevance_score", "similarity", "relevance")
_INNER = words(
    "document segment node doc kwargs payload entity properties _source fields text_resource derivedStructData"
)
_MAY_BE_LABELS = frozenset(words("chunk passage document context"))
"""Keys of texts under which one word is rather the name of the passage."""
_COLUMN_TEXTS = (*TEXT_KEYS, "documents", "texts", "passages", "chunks", "sentences")
_COLUMN_IDS = (*_ID_KEYS, "ids", "passage_ids", "doc_ids", "url", "urls", "source", "sources")
_COLUMN_TITLES = ("title", "titles")
_BESIDE_TEXT = frozenset({"metadata", "title", "type", "lc", *TEXT_KEYS, *_METADATA_ID_KEYS, *_SCORE_KEYS})
"""Members of an object that is nothing but a document: opening one that stands as JSON in a text loses nothing."""
_ABOUT = _BESIDE_TEXT - {"type", "lc"}
_NO_IDS = words(
    "answer description error input message name output prompt query question reason response result status summary "
    "title"
)
"""Keys whose texts are no passages, so that an object with one of them is no table of texts by their ids."""
_PRINTED_DOCUMENT = re.compile(r"""page_content=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?: metadata=.*)?""", re.DOTALL)
"""A document of LangChain as ``str`` prints it."""
_NAMED = re.compile(
    r"[^\s@]+\.[a-z0-9]{2,5}|[a-z0-9]+://\S+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}", re.IGNORECASE
)
"""The name of a file, an address or a long id, but no text: a text ends with its full stop."""
_COUNTED = re.compile(r"[A-Za-z][A-Za-z_:/#-]*\d[\w:/#-]*", re.ASCII)
"""A short id, such as "doc-1"; alone it may be a text."""
_LIST_IN_PARQUET = frozenset(words("list element item array bag array_element"))
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

    A plain text is one document, or several that it numbers in their labels. A document may be a text or an object,
    and may have only an id.
    """
    value = _unwrapped(opened_text(parsed(value)))
    if isinstance(value, str):
        return _divided(value) or (None if is_null_text(value) else (Document(value),))
    if depth > _DEEPEST:
        return None
    if isinstance(value, list):
        return _of_list(value, depth)
    if not isinstance(value, dict):
        return None
    columns = _of_columns(value)
    if columns is not None:
        return columns
    for member in map(value.get, LIST_KEYS):
        is_opened = isinstance(member, list | dict) or (isinstance(member, str) and depth == 0)
        if is_opened and (documents := documents_of(member, depth + 1)) is not None:
            return documents
    document = document_of(value)
    return (document,) if document is not None and document.text else _by_ids(value)


def documents_retrieved(value: object) -> tuple[Document, ...] | None:
    """As ``documents_of``; where a retriever gave them under another name, those in its only list of objects."""
    found = documents_of(value)
    lists = [] if found else [*islice(_lists_of_objects(opened_text(parsed(value))), 2)]
    return documents_of(lists[0]) if len(lists) == 1 and not messages_of(lists[0]) else found


def _lists_of_objects(value: object) -> Iterator[object]:
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        yield value
    for member in value.values() if isinstance(value, dict) else ():
        yield from _lists_of_objects(member)


def _unwrapped(value: object) -> object:
    """A list that stands with the names that Parquet gives it, such as ``{"list": [{"element": ...}]}``, as a list."""
    if isinstance(value, dict) and len(value) == 1 and value.keys() <= _LIST_IN_PARQUET:
        (inner,) = value.values()
        return _unwrapped(inner) if isinstance(inner, list) else inner
    if isinstance(value, list) and all(isinstance(item, dict) and item.keys() <= _LIST_IN_PARQUET for item in value):
        return [_unwrapped(item) for item in value]
    return value


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
    for key in _INNER:
        inner = value.get(key)
        if isinstance(inner, dict):
            document = document_of(inner)
            if document is not None:
                beside = (text for name in TEXT_KEYS if isinstance(text := value.get(name), str))
                text = next(beside, None) if document.text is None else document.text
                passage_id = document.passage_id or text_or_none(first_of(value, _ID_KEYS))
                score = _score({"score": document.score}, value)
                return document._replace(text=text, passage_id=passage_id, score=score)
    metadata = object_of(first_of(value, ("metadata", "meta")))
    named = ((key, side.get(key)) for side in (value, metadata) for key in TEXT_KEYS)
    texts = ((key, content if isinstance(content, str) else content_text(content) or None) for key, content in named)
    said = sorted(((key, text) for key, text in texts if text is not None), key=_is_label)
    text = said[0][1] if said else None
    ids = first_of(value, _ID_KEYS), first_of(metadata, _METADATA_ID_KEYS), first_of(value, _METADATA_ID_KEYS)
    passage_id = next(filter(None, map(text_or_none, ids if text is not None else ids[:2])), None)
    title = text_or_none(value.get("title")) or text_or_none(metadata.get("title"))
    return None if text is None and passage_id is None else Document(text, title, passage_id, _score(value, metadata))


def _is_label(named: tuple[str, str]) -> bool:
    key, text = named
    return key in _MAY_BE_LABELS and text.isascii() and len(text.split()) < 2


def _score(*sides: Record) -> float | None:
    """The number that the first of these objects has for a score."""
    numbers = (number_or_none(first_of(side, _SCORE_KEYS)) for side in sides)
    return next((number for number in numbers if number is not None), None)


def once_each(documents: Iterable[Document]) -> tuple[Document, ...]:
    """The documents in order, each once: the same id and text, or only the id where one of the two has no text."""
    kept: dict[tuple[str | None, str | None], Document] = {}
    documents = [*documents]
    with_text = {document.passage_id for document in documents if document.passage_id and document.text is not None}
    for document in documents:
        if document.text is not None or document.passage_id not in with_text:
            kept.setdefault((document.passage_id, document.text), document)
    return tuple(kept.values())


def are_ids(value: object) -> bool:
    """Whether a value is a list of ids of passages, with none of their texts."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return False
    patterns = (_NAMED, _COUNTED) if len(value) > 1 else (_NAMED,)
    return bool(value) and all(any(pattern.fullmatch(item) for pattern in patterns) for item in value)


def among(others: Sequence[Document]) -> Callable[[Iterable[Document]], bool]:
    """Tells whether at least one document is among ``others``: by its text, or by its id where one has no text."""
    texts = {other.text for other in others if other.text}
    ids = {other.passage_id for other in others if other.passage_id}
    textless = {other.passage_id for other in others if other.passage_id and not other.text}
    return lambda documents: any(
        document.text in texts or document.passage_id in (textless if document.text else ids) for document in documents
    )


def with_texts(documents: Iterable[Document], texts: Texts) -> tuple[Document, ...]:
    """The documents with the text and title that ``texts`` has under the id of one that has no text."""
    known = ((doc, texts(doc.passage_id or "") if doc.text is None else None) for doc in documents)
    return tuple(doc._replace(text=its.text, title=doc.title or its.title) if its else doc for doc, its in known)


def _of_text(text: str) -> Document:
    value = parsed(text)
    if text.startswith("Document(") and isinstance(listed := opened_text(f"[{text}]"), list):
        value = listed[0]
    if isinstance(value, dict) and value.keys() <= _BESIDE_TEXT and (document := document_of(value)) and document.text:
        return document
    return Document(unprinted(text, _PRINTED_DOCUMENT))


def _of_list(items: Sequence[object], depth: int) -> tuple[Document, ...] | None:
    """The documents of a list, an empty one for each without text; None where an item is none, or none has a text."""
    if items and all(isinstance(item, list) for item in items) and not any(map(_of_tuple, items)):
        lists = [documents_of(item, depth + 1) for item in items]
        return None if None in lists else tuple(document for documents in lists for document in documents or ())
    if are_ids(items):
        return tuple(Document(None, None, str(item)) for item in items)
    documents = [Document("") if is_nothing(item) else _of_tuple(item) or document_of(item) for item in items]
    if any(document.text for document in documents if document):
        documents = [doc or _without_text(item) for doc, item in zip(documents, items, strict=True)]
    is_empty = bool(items) and all(document is None or document.text == "" for document in documents)
    return None if is_empty or None in documents else tuple(filter(None, documents))


def _without_text(item: object) -> Document | None:
    """The empty document of an object with members of documents, but without their text; None where it has none."""
    is_document = isinstance(item, dict) and not _ABOUT.isdisjoint(item)
    return Document("", text_or_none(at(item, "title"))) if is_document else None


def _of_tuple(item: object) -> Document | None:
    """The document of a pair or triple of text or document, score, id, title or metadata; None where it is no such."""
    if not isinstance(item, list) or not 2 <= len(item) <= 4:
        return None
    texts = [part for part in item if isinstance(part, str)]
    objects = [part for part in item if isinstance(part, dict)]
    scores = [part for part in item if isinstance(part, int | float) and not isinstance(part, bool)]
    score = float(scores[0]) if scores else None
    if not texts and len(objects) == 1 and scores:
        return document_of({"document": objects[0], "score": score})
    if len(texts) == 1 and len(scores) + len(objects) == len(item) - 1:
        document = _of_text(texts[0])
        about = document_of({"text": document.text, "metadata": objects[0]}) if objects else document
        return document if about is None else about._replace(score=about.score if score is None else score)
    if len(texts) == 2 and len(scores) == len(item) - 2 and " " in texts[1].strip() and " " not in texts[0].strip():
        return Document(texts[1], None, texts[0], score)
    if len(item) == 2 and len(texts) == 1 and isinstance(item[0], str) and _are_texts(item[1]):
        return Document("".join(item[1]), item[0])
    return None


def _of_columns(value: Mapping[str, object]) -> tuple[Document, ...] | None:
    """Columns of texts, ids and titles side by side, as Chroma and ``datasets`` give them, perhaps in one more list."""

    def parallel(names: Iterable[str], size: int) -> list[object]:
        """The first of these columns that has one value per text; nulls where there is none."""
        columns = (_column(value.get(name)) for name in names)
        return next((column for column in columns if column is not None and len(column) == size), [None] * size)

    for key in _COLUMN_TEXTS:
        texts = _column(value.get(key))
        if texts and all(map(_are_texts, texts)):
            texts = ["".join(parts) for parts in texts if isinstance(parts, list)]
        are_texts = texts and any(texts) and all(text is None or isinstance(text, str) for text in texts)
        if texts and are_texts and not are_ids(texts):
            ids, titles = parallel(_COLUMN_IDS, len(texts)), parallel(_COLUMN_TITLES, len(texts))
            metadata = _column(value.get("metadatas")) or []
            if not any(titles) and len(metadata) == len(texts):
                titles = [at(item, "title") for item in metadata]
            blank = None if any(passage_id is not None for passage_id in ids) else ""
            return tuple(
                Document(text if isinstance(text, str) else blank, text_or_none(title), text_or_none(passage_id))
                for text, title, passage_id in zip(texts, titles, ids, strict=True)
            )
    return None


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _column(value: object) -> list[object] | None:
    if not isinstance(value, list):
        return None
    return value[0] if len(value) == 1 and isinstance(value[0], list) else value


def _by_ids(value: Mapping[str, object]) -> tuple[Document, ...] | None:
    """An object of texts or documents by their ids; its texts have at least three words."""
    if not value or any(key.lower() in _NO_IDS or key in _BESIDE_TEXT or key in LIST_KEYS for key in value):
        return None
    documents = []
    for key, entry in value.items():
        document = document_of(entry)
        if document is None or not document.text or (isinstance(entry, str) and len(entry.split()) < 3):
            return None
        documents.append(document._replace(passage_id=key))
    return tuple(documents)


class PromptParts(NamedTuple):
    """What a prompt holds; ``question`` is None where it stands under no mark."""

    passages: tuple[Document, ...]
    question: str | None

    def asked(self, known: Asked | None) -> Asked | None:
        """The question of the prompt where ``known`` is none, or is the prompt."""
        is_other = known is not None and prompt_parts(known.question) is None
        return known if self.question is None or is_other else Asked(self.question)


FROM_PROMPT = "passages read from the prompt, since no other place has any; --passages-path names another"


def _tag(names: str) -> re.Pattern[str]:
    return re.compile(rf"<({names})(?:[ \t][^<>\n]{{0,500}})?>", re.IGNORECASE)


_BLOCK = _tag(
    "contexts?|documents|docs|sources|passages|search_results|retrieved_contexts?|retrieved_documents|knowledge"
)
_ITEM = _tag("document|doc|source|passage|search_result|result|chunk|item")
_ITEM_TEXT = _tag("document_content|page_content|content|text")
_ATTRIBUTE = re.compile(r"""([\w-]{1,30})\s*=\s*["']([^"'<>]{1,300})["']""")
_BESIDE_ITEM_TEXT = re.compile(r"<(title|name|id|doc_id|source|url)>\s*([^<>]{1,300}?)\s*</\1>", re.IGNORECASE)
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ASKED = _tag("question|query|user_question|user_query")

_HEADING = re.compile(
    r"[ \t]*+(?P<level>#{1,6}[ \t]*+)?(?P<bold>\*\*)?(?:"
    r"(?P<passages>(?:[^:\n]{0,200}\bfollowing[ \t]+)?(?:(?:relevant|retrieved|reference|supporting|provided)[ \t]+)?"
    r"(?:contexts?|documents|passages?|sources|excerpts|search results|context information|knowledge base|background))"
    r"|(?P<question>(?:user(?:'s)?[ \t]+)?(?:question|query)|q)|(?P<answer>(?:helpful |final |your )?answer)"
    r"|(?:user|human|assistant|response|instructions?|(?:chat |conversation )?history)"
    r")(?:(?:\*\*)?[ \t]*:[ \t]*(?:\*\*)?(?P<rest>.*)|(?(level)(?:\*\*)?|(?(bold)\*\*|(?!)))[ \t]*)",
    re.IGNORECASE,
)
"""A line that says what follows: with a colon, in Markdown, or in bold; only with a colon something follows in it."""
_TO_BE_ANSWERED = re.compile(r"\s*(?:(?:\*\*)?(?:a|answer)[ \t]*:\s*(?:\*\*)?)?\s*", re.IGNORECASE)
"""What stands behind the question of a prompt."""
_REQUEST = re.compile(r"\buse the following\b", re.IGNORECASE)
_DASHES = re.compile(r"-{8,}[ \t]*")
_RULE = re.compile(r"[ \t]*+(?:-{3,}|={3,}|\*{3,})[ \t]*")
_LABEL = re.compile(
    r"[ \t]*+(?:\[\d{1,3}\]:?|\d{1,3}[.)]"
    r"|(?:#{1,6}[ \t]+|\*\*)?(?P<word>(?P<open>\[)?(?:document|doc|source|passage|chunk|context)[ \t]*#?\d{1,3})"
    r"(?:(?(open)[ \t]*[:,|–-][ \t]*(?P<inner>[^\[\]\n]{1,200})\]:?"
    r"|[ \t]+[–-][ \t]+(?P<line>[^:*\n]{1,200}):?(?:\*\*)?[ \t]*$)"
    r"|\]?(?:[ \t]*\((?P<title>[^()\n]{1,200})\)\]?[ \t]*:?|[ \t]*:|\]|[ \t]*$|(?=\*\*)))"
    r"(?:\*\*:?)?)(?:[ \t]+|$)",
    re.IGNORECASE,
)
"""What begins a part: "[1]", "1.", "## Document 1:", and with its title "Source 1 (a.pdf):", "[Document 1: a.pdf]"."""
_LABEL_END = re.compile(r"\n[ \t]*\[(?:end[ \t]|/)[a-z \t]+\d{1,3}\][ \t]*\Z", re.IGNORECASE)
_LABEL_IN_LINE = re.compile(r"(?<=[.!?)\"”])[ \t]+(?=\[(\d{1,3})\]:?[ \t]+(?:[^\s\[\]]+[ \t]+){4})")
"""Between sentences of a line, before a part of five words or more."""
_DIGITS = re.compile(r"\d+")
_GAP = re.compile(r"\n[ \t]*(?=\n)")
_WORD = re.compile(r"\w")
_CLOSING = re.compile(r"\A(?:\s*(?:</[^<>\n]*>|-{8,}))+")
_OPENING = re.compile(r"<[^<>\n]*>\s*\Z")
_MOST_WISHED = 100
_FEW_WORDS = 5
_TOLD = re.compile(
    r"(?:-{3,}\s+)?(?:[-*•]+[ \t]*|\d{1,2}[.)][ \t]*)?(?:please|if|when|do not|don['’]t|never|always|only|use|using"
    r"|based on|given|answer|respond|reply|return|output|cite|keep|be|make sure|ensure|remember|note|important|your?"
    r"|write|provide|give|say)\b|(?:-{3,}\s+)?(?:#{1,6} [^:\n]{1,40}|[^\W\d][^:\n]{0,40}:(?:\*\*)?[ \t]*)\n",
    re.IGNORECASE,
)
"""How a paragraph begins that tells the model what to do: with that, or with a heading."""
_OF_ANSWERING = re.compile(
    r"\b(?:(?:your|the final) answers?\b"
    r"|(?:use|using|from|on|in|if|only|outside|beyond) (?:only )?the (?:\w+ )?context\b"
    r"|when answering(?:[,.:]| (?:the|this|a) (?:question|user|query))|respond to the query"
    r"|answer (?:questions|(?:the|this|my|all) (?:user|questions?|query|following))"
    r"|(?:answer|respond|reply) (?:only|briefly|shortly|concisely|politely|based|using|from|in (?!person|writing))"
    r"|(?:do not|don['’]t) know(?: the answer)?[,.;\"]|be (?:brief|concise)\b"
    r"|cite (?:(?:your|the|all|each) )*(?:sources?|passages?|documents?|references?|\[)|cite[.:,]"
    r"|prior knowledge|make (?:things|anything|facts) up|you are an? [^.\n]{0,60}\b(?:assistant|bot)\b"
    r"|(?:return|output|respond with|answer with) (?:(?:only|valid|an?) )*(?:json|markdown)\b"
    r"|(?:provided|retrieved) (?:documents|sources|passages|text|excerpts)"
    r"|(?:documents|sources|passages|text|information) above)",
    re.IGNORECASE,
)
_BARE_QUESTION = re.compile(
    r"(?:(?:(?:who|whose|what|when|where|which|why|how)(?: \w+){0,3}? )?"
    r"(?:is|are|was|were|does|do|did|can|could|should|will)"
    r"|who|how (?:many|much|long|often|far|old))(?:[ \t]+[^\s.!:;]+){2,}"
    r"|(?:please[ \t]+)?(?:(?:tell|give|show)[ \t]+me|explain|summari[sz]e|describe)\b[^\n]{1,200}",
    re.IGNORECASE,
)
"""A question without its mark."""
_MEMBER = re.compile(r"[a-z_]+: .*")
"""A line of the metadata that LlamaIndex sets above a text, with an empty line between them."""


def prompt_parts(prompt: str) -> PromptParts | None:
    """The passages of a prompt and its question; None where no part of it is marked as passages.

    Passages stand in tags such as ``<context>``, between rules of dashes, under a heading such as "Context:", or
    behind "Use the following ...", or are labelled ("Source 1:"). Within such a part they are told apart by tags, by
    numbers or labels, by headings of their own, by rules, or else by empty lines. Where no tag or rule ends them, they
    end above paragraphs that tell the model how to answer, or ask. A question without a mark stands behind or above.
    """
    lines = prompt.split("\n")
    rules = [number for number, line in enumerate(lines) if _DASHES.fullmatch(line)]
    ruled = lines[rules[0] + 1 : rules[1] if len(rules) > 1 else None] if rules else []
    closed = next(filter(str.strip, _tagged(prompt, _BLOCK)), None) or _from_first_to_last(prompt, _ITEM)
    closed = closed or ("\n".join(ruled) if len(rules) > 1 else "")
    block = closed or "\n".join(ruled) or _under_passages(lines) or _requested(lines)
    block = block or _under_passages(lines, with_colon=False) or _under_labels(lines) or ""
    before, _, behind = prompt.partition(block) if block else (prompt, "", "")
    below = _under_question(f"{before}{behind}".split("\n")).strip()
    asked = (next(_tagged(prompt, _ASKED), None) or below.split("\n\n", 1)[0]).strip()
    if not closed:
        block, last = _above_wishes(block, asks=not asked)
        asked = asked or last
    elif not asked:
        asked = _above_wishes(f"\n\n{_CLOSING.sub('', behind, count=1)}", asks=False)[0].strip()
    listed = opened_text(block.strip())
    passages = documents_of(listed) if listed and not isinstance(listed, str) else None
    passages = passages or _split(block)
    if not passages:
        return None
    return PromptParts(passages, asked if _WORD.search(asked) else _asked_above(before) or None)


def _from_first_to_last(text: str, tag: re.Pattern[str]) -> str:
    """What stands in tags of these names, with the tags and what is between them; "" where there are none."""
    items = [*_elements(text, tag)]
    ends = [opened.end() + len(f"{inner}</{opened[1]}>") for opened, inner in items[-1:]]
    return text[items[0][0].start() : ends[0]] if items else ""


def _above_wishes(block: str, *, asks: bool) -> tuple[str, str]:
    """The block above those of its last paragraphs that tell the model what to do, and their last line that asks."""
    asked, end = "", len(block)
    for gap in reversed([*_GAP.finditer(block)]):
        last = block[gap.end() : end].strip()
        above, _, line = last.rpartition("\n")
        if asks and not asked and _is_question(line, bare=not above) and not _label(line):
            asked, last = line.strip(), above
            end = block.rindex(line, 0, end)
        if _WORD.search(last) and not _is_wish(last):
            break
        end = gap.start()
    return block[:end], asked


def _is_wish(paragraph: str) -> bool:
    """Whether a paragraph speaks to the model of its answer, or is a heading with nothing below it."""
    is_heading = paragraph.endswith(":") and "\n" not in paragraph
    return is_heading or (_is_told(paragraph) and not _is_question(paragraph))


def _is_told(text: str) -> bool:
    few = len(text.split()) <= _MOST_WISHED
    return few and _TOLD.match(text) is not None and _OF_ANSWERING.search(text) is not None


def _is_question(paragraph: str, *, bare: bool = True) -> bool:
    """Whether a paragraph asks, perhaps with what it tells the model behind that; ``bare`` also without a mark."""
    _, mark, behind = re.sub("[？؟]", "?", paragraph).rpartition("?")
    is_asked = bool(mark) and (not behind.strip("\"'”»)* ") or _is_told(behind.strip()))
    return is_asked or (bare and _BARE_QUESTION.fullmatch(paragraph) is not None)


def _asked_above(before: str) -> str:
    """The last paragraph above the passages that asks, without the heading or tag that they begin with."""
    lines = _OPENING.sub("", before).rstrip().split("\n")
    told = "\n".join(line for line in lines if not (_HEADING.fullmatch(line) or line.rstrip().endswith(":")))
    return next((part for part in map(str.strip, reversed(_GAP.split(told))) if _is_question(part)), "")


def _tagged(text: str, tag: re.Pattern[str]) -> Iterator[str]:
    """What stands in tags of these names, the outer ones of one name."""
    return (inner for _, inner in _elements(text, tag))


def _elements(text: str, tag: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """The opening tags, and what stands behind each up to the closing one."""
    lower, at, unclosed = text.translate(_LOWER), 0, set[str]()
    while opened := tag.search(text, at):
        name = opened[1].lower()
        end = -1 if name in unclosed else lower.find(f"</{name}>", opened.end())
        if end < 0:
            unclosed.add(name)
            at = opened.end()
        else:
            yield opened, text[opened.end() : end]
            at = end


def _label(line: str) -> str | None:
    """The label of a part with 0 for its number."""
    label = _LABEL.match(line)
    return _DIGITS.sub("0", (label["word"] or label.group()).strip()) if label else None


def _counted(lines: Sequence[str], label: str | None) -> list[int]:
    """The lines with this label up to the first whose number is not larger than the one before."""
    labelled = [number for number, line in enumerate(lines) if label and _label(line) == label]
    counts = pairwise(_number(lines[number]) for number in labelled)
    return labelled[: next((at for at, (before, count) in enumerate(counts, 1) if count <= before), None)]


def _number(line: str) -> int:
    return int(_DIGITS.findall(line)[0])


def _headings(lines: Sequence[str]) -> dict[int, re.Match[str]]:
    matches = ((number, _HEADING.fullmatch(line)) for number, line in enumerate(lines))
    return {number: match for number, match in matches if match is not None}


def _under_passages(lines: Sequence[str], *, with_colon: bool = True) -> str | None:
    """What stands under the first heading of passages, or behind examples under the same heading of the last ones."""
    headings = _headings(lines)
    named = {number: heading["passages"] for number, heading in headings.items() if heading["passages"]}
    named = {number: name for number, name in named.items() if (_style(headings[number]) is None) is with_colon}
    if not named:
        return None
    start = min(named)
    asked = [number for number in headings if number > start and headings[number]["question"] not in (None, *"qQ")]
    if asked:
        start = max((at for at, name in named.items() if at > asked[0] and name == named[start]), default=start)
    below = [headings[start]["rest"] or "", *lines[start + 1 :]]
    label = _label(next(filter(str.strip, below), ""))
    numbered = _counted(below, label) if label and label[0] != "0" else []
    first = max(numbered, default=0) + 1
    end = _end(below, first, _style(headings[start]))
    return "\n".join(below[: _next_heading(below, first, end, (headings[start]["level"] or "").strip())])


def _next_heading(lines: Sequence[str], start: int, end: int, level: str) -> int:
    """The next heading of a ``level`` behind an empty line, else ``end``; the passages may begin with such headings."""
    is_one = re.compile(rf"[ \t]*{level or '(?!)'}[ \t]+\S.*").fullmatch
    if is_one(next(filter(str.strip, lines), "")):
        return end
    found = (at for at in range(start, end) if is_one(lines[at]) and not lines[at - 1].strip())
    return next((at for at in found if not ((known := _HEADING.fullmatch(lines[at])) and known["passages"])), end)


def _style(heading: re.Match[str]) -> str | None:
    """How a heading without a colon is written; None for one with a colon."""
    return None if heading["rest"] is not None else (heading["level"] or "**").strip()


def _end(lines: Sequence[str], start: int, style: str | None) -> int:
    """Where passages that begin before line ``start`` end: before the question of the prompt, its answer or the like.

    Other questions and answers are those of the passages. A heading without a colon counts in the style of the one
    above the passages, or if it asks.
    """
    asked = answered = None
    end = len(lines)
    for number, heading in _headings(lines).items():
        if number < start or heading["passages"] or (_style(heading) not in (None, style) and not heading["question"]):
            continue
        if heading["question"]:
            behind = "\n".join(islice(filter(str.strip, islice(lines, number + 1, None)), 2))
            asked = number if heading["question"].lower() != "q" or _TO_BE_ANSWERED.fullmatch(behind) else asked
        elif heading["answer"]:
            answered = number if answered is None else answered
        else:
            end = number
            break
    return next((number for number in (asked, answered) if number is not None), end)


def _under_question(lines: Sequence[str]) -> str:
    """What stands under the last heading of a question, up to the next heading; "" where there is none."""
    headings = _headings(lines)
    start = max((number for number, heading in headings.items() if heading["question"]), default=None)
    if start is None:
        return ""
    ends = {*headings, *(at for at, line in enumerate(lines) if _TO_BE_ANSWERED.fullmatch(line.strip() or "-"))}
    end = min((number for number in ends if number > start), default=len(lines))
    return "\n".join([headings[start]["rest"] or "", *lines[start + 1 : end]])


def _under_labels(lines: Sequence[str]) -> str | None:
    """What stands behind the first label with a word, up to the next heading, if such labels count from 1."""
    first = next((line for line in lines if (label := _LABEL.match(line)) and label["word"]), "")
    numbered = _counted(lines, _label(first))
    counts = [_number(lines[at]) for at in numbered]
    if len(counts) < 2 or counts != [*range(1, len(counts) + 1)]:
        return None
    return "\n".join(lines[lines.index(first) : _end(lines, numbered[-1] + 1, None)])


def _requested(lines: Sequence[str]) -> str | None:
    """What stands behind the paragraph that says to use it, up to the next heading, if there is one."""
    request = next((number for number, line in enumerate(lines) if _REQUEST.search(line)), len(lines))
    gap = next((number for number in range(request, len(lines)) if not lines[number].strip()), len(lines))
    heading = _HEADING.fullmatch(next(filter(str.strip, lines[gap:]), ""))
    end = _end(lines, gap, None)
    is_none = end == len(lines) or (heading is not None and heading["passages"])
    return None if is_none else "\n".join(lines[gap:end])


def _of_element(opened: re.Match[str], inner: str) -> Document:
    """The document in a tag, with the title and id of its attributes, or of tags beside that of its text."""
    text = next(_tagged(inner, _ITEM_TEXT), None)
    about = {name.lower(): value for name, value in _ATTRIBUTE.findall(opened.group())}
    if text is not None:
        about |= {name.lower(): value for name, value in _BESIDE_ITEM_TEXT.findall(inner.replace(text, "", 1))}
    title, own = first_of(about, ("title", "name")), first_of(about, ("id", "doc_id", "source", "url", "href"))
    return Document((inner if text is None else text).strip(), text_or_none(title), text_or_none(own))


def _split(block: str) -> tuple[Document, ...]:
    if items := tuple(_of_element(*element) for element in _elements(block, _ITEM)):
        return tuple(item for item in items if item.text)
    lines = _own_lines(block)
    first = _label(lines[0])  # a passage may have a numbered list itself
    return _by_labels(lines, first) if first else tuple(map(_of_text, _split_lines(lines)))


def _own_lines(text: str) -> list[str]:
    """The lines of a text, and lines of their own for "[1]", "[2]" and so on where these count up within the first."""
    lines = text.strip().split("\n")
    numbers = [1, *map(int, _LABEL_IN_LINE.findall(lines[0]))]
    counts = len(lines) == 1 and lines[0].startswith("[1]") and numbers == [*range(1, len(numbers) + 1)]
    return _LABEL_IN_LINE.sub("\n", lines[0]).split("\n") if counts else lines


def _split_lines(lines: Sequence[str]) -> list[str]:
    headings = {at: found for at, found in _headings(lines).items() if found["passages"] and found["rest"] is not None}
    if headings:
        shown = [headings[at]["rest"] if at in headings else line for at, line in enumerate(lines)]
        return _parts(shown, [at in headings for at in range(len(lines))])
    by_rules = _printed_parts(lines) or _ruled_parts(lines)
    return by_rules if len(by_rules) > 1 else _below_members(_parts(lines, [not line.strip() for line in lines]))


def _ruled_parts(lines: Sequence[str]) -> list[str]:
    rules = [_RULE.fullmatch(line) is not None for line in lines]
    shown = ["" if ruled else line for line, ruled in zip(lines, rules, strict=True)]
    return _below_members(_parts(shown, rules))


def _below_members(parts: Sequence[str]) -> list[str]:
    """The parts, each with the one above it that is nothing but members."""
    heads = [False, *(all(map(_MEMBER.fullmatch, part.split("\n"))) for part in parts)]
    return _parts(parts, [not above for above in heads[:-1]])


def _by_labels(lines: Sequence[str], first: str) -> tuple[Document, ...]:
    """The parts that begin with labels like the first one, without these, and with the titles in them."""
    labels = {at: found for at, line in enumerate(lines) if _label(line) == first and (found := _LABEL.match(line))}
    documents = []
    for (start, label), end in zip(labels.items(), [*labels, len(lines)][1:], strict=True):
        text = "\n".join([lines[start][label.end() :], *lines[start + 1 : end]]).strip()
        text, title = _LABEL_END.sub("", text), label["title"] or label["inner"] or label["line"]
        documents.append(Document(text, title) if text else Document(label["line"]))
    return tuple(document for document in documents if document.text)


def _divided(text: str) -> tuple[Document, ...]:
    """The documents that the marks in a text tell apart; none where nothing does."""
    block, items = _nothing_but(text, _BLOCK), _nothing_but(text, _ITEM)
    if len(block) == 1 or len(items) > 1:
        return _split(block[0] if block else text)
    lines = text.strip().split("\n")
    parts = _printed_parts(lines) or _ruled_parts(lines)
    are_long = len(parts) > 1 and all(len(part.split()) >= _FEW_WORDS for part in parts)
    return _labelled(text) or (tuple(map(_of_text, parts)) if are_long else ())


def _nothing_but(text: str, tag: re.Pattern[str]) -> list[str]:
    """What stands in the tags of these names that a text is nothing but; none where it is something else, too."""
    items = [*_elements(text, tag)]
    ends = [0, *(opened.end() + len(f"{inner}</{opened[1]}>") for opened, inner in items)]
    starts = [*(opened.start() for opened, _ in items), len(text)]
    is_more = any(text[end:start].strip() for end, start in zip(ends, starts, strict=True))
    return [] if is_more else [inner for _, inner in items]


def _printed_parts(lines: Sequence[str]) -> list[str]:
    """The documents of LangChain that ``str`` printed, one behind the other; none where the lines are others."""
    begins = [line.startswith(("page_content='", 'page_content="')) for line in lines]
    return _parts(lines, begins) if begins[0] else []


def _labelled(text: str) -> tuple[Document, ...]:
    """The parts of a text that "[1]" and "[2]", "Document 1:" and the like tell apart; none where nothing does.

    The labels have to count from 0 or 1, and "1." may be a step or the like.
    """
    lines = _own_lines(text)
    first = _label(lines[0])
    if first is None or first[0] == "0":
        return ()
    numbers = [_number(line) for line in lines if _label(line) == first]
    counts = len(numbers) > 1 and numbers == [*range(numbers[0], numbers[0] + len(numbers))]
    return _by_labels(lines, first) if counts and numbers[0] < 2 else ()


def _parts(lines: Sequence[str], begins: Iterable[object]) -> list[str]:
    """The lines in parts, of which each begins where ``begins`` says so; no empty ones."""
    parts: list[list[str]] = [[]]
    for line, is_first in zip(lines, begins, strict=True):
        if is_first:
            parts.append([])
        parts[-1].append(line)
    return [text for part in parts if (text := "\n".join(part).strip())]
