"""The passages and the question within a prompt that was logged whole, by the marks that usual templates set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from attribeam.logs.traces.documents import Document
from attribeam.logs.traces.messages import Asked


class PromptParts(NamedTuple):
    """What a prompt holds; ``question`` is None where it stands under no mark."""

    passages: tuple[Document, ...]
    question: str | None

    def asked(self, known: Asked | None) -> Asked | None:
        """The question of the prompt where ``known`` is none, or is the prompt."""
        if self.question is None or (known is not None and prompt_parts(known.question) is None):
            return known
        return Asked(self.question)


FROM_PROMPT = "passages read from the prompt, since no other place has any; --passages-path names another"


def _tag(names: str) -> re.Pattern[str]:
    return re.compile(rf"<({names})(?:[ \t][^<>\n]{{0,500}})?>", re.IGNORECASE)


_BLOCK = _tag(
    "contexts?|documents|docs|sources|passages|search_results|retrieved_contexts?|retrieved_documents|knowledge"
)
_ITEM = _tag("document|doc|source|passage|search_result|result|chunk|item")
_ITEM_TEXT = _tag("document_content|page_content|content|text")
_ASKED = _tag("question|query|user_question|user_query")

_HEADING = re.compile(
    r"[ \t]*+(?:#{1,6}[ \t]*+)?(?:\*\*)?(?:"
    r"(?P<passages>(?:(?:relevant|retrieved|reference|supporting|provided)[ \t]+)?"
    r"(?:contexts?|documents|passages|sources|excerpts|search results|context information|knowledge base|background))"
    r"|(?P<question>(?:user(?:'s)?[ \t]+)?(?:question|query))"
    r"|(?:user|human|assistant|(?:helpful |final |your )?answer|response|instructions?|(?:chat |conversation )?history)"
    r")(?:\*\*)?[ \t]*:[ \t]*(?:\*\*)?(?P<rest>.*)",
    re.IGNORECASE,
)
_REQUEST = re.compile(r"\buse the following\b", re.IGNORECASE)
_DASHES = re.compile(r"-{8,}[ \t]*")
_RULE = re.compile(r"[ \t]*+(?:-{3,}|={3,}|\*{3,})[ \t]*")
_LABEL = re.compile(
    r"[ \t]*+(?:\[\d{1,3}\]:?|\d{1,3}[.)]|\[?(?:document|doc|source|passage|chunk|context)[ \t]*#?\d{1,3}\]?[ \t]*:?)"
    r"(?:[ \t]+|$)",
    re.IGNORECASE,
)
_MEMBER = re.compile(r"[a-z_]+: .*")
"""A line of the metadata that LlamaIndex sets above a text, with an empty line between them."""


def prompt_parts(prompt: str) -> PromptParts | None:
    """The passages of a prompt and its question; None where no part of it is marked as passages.

    Passages stand in tags such as ``<context>``, between rules of dashes, under a heading such as "Context:", or
    behind "Use the following ...". Within such a part they are told apart by tags, by numbers or labels, by rules, or
    else by empty lines.
    """
    lines = prompt.split("\n")
    block = tagged = next(_tagged(prompt, _BLOCK), None)
    if block is None:
        block = "\n".join(f"<doc>{one}</doc>" for one in _tagged(prompt, _ITEM)) or None
    if block is None:
        block = _ruled(lines) or _under(lines, "passages") or _requested(lines)
    passages = [] if block is None else _split(block)
    if not passages:
        return None
    asked = next(_tagged(prompt, _ASKED), None) or _first_paragraph(_under(lines, "question") or "")
    behind = "" if tagged is None else prompt.partition(tagged)[2].partition(">")[2]
    return PromptParts(tuple(map(Document, passages)), asked.strip() or behind.strip() or None)


def _tagged(text: str, tag: re.Pattern[str]) -> Iterator[str]:
    """What stands in tags of these names, the outer ones of one name."""
    lower, at, unclosed = text.lower(), 0, set[str]()
    while opened := tag.search(text, at):
        name = opened[1].lower()
        end = -1 if name in unclosed else lower.find(f"</{name}>", opened.end())
        if end < 0:
            unclosed.add(name)
            at = opened.end()
        else:
            yield text[opened.end() : end]
            at = end


def _ruled(lines: Sequence[str]) -> str | None:
    """What stands between two lines of dashes, or behind the only one."""
    rules = [number for number, line in enumerate(lines) if _DASHES.fullmatch(line)]
    return "\n".join(lines[rules[0] + 1 : rules[1] if len(rules) > 1 else None]) if rules else None


def _under(lines: Sequence[str], kind: str) -> str | None:
    """What stands under the first heading of a kind, up to the next heading."""
    for number, line in enumerate(lines):
        heading = _HEADING.fullmatch(line)
        if heading is not None and heading[kind]:
            below = takewhile(lambda one: _HEADING.fullmatch(one) is None, lines[number + 1 :])
            return "\n".join([heading["rest"], *below])
    return None


def _requested(lines: Sequence[str]) -> str | None:
    """What stands behind the paragraph that says to use it, up to the next heading, if there is one."""
    start = next((number for number, line in enumerate(lines) if _REQUEST.search(line)), None)
    if start is None:
        return None
    gap = next((number for number in range(start, len(lines)) if not lines[number].strip()), len(lines))
    end = next((number for number in range(gap, len(lines)) if _HEADING.fullmatch(lines[number])), None)
    return None if end is None else "\n".join(lines[gap:end])


def _first_paragraph(text: str) -> str:
    return text.strip().split("\n\n", 1)[0]


def _split(block: str) -> list[str]:
    items = [*_tagged(block, _ITEM)]
    if items:
        return _stripped([next(_tagged(one, _ITEM_TEXT), one) for one in items])
    lines = block.strip().split("\n")
    if _LABEL.match(lines[0]):
        labels = [_LABEL.match(one) for one in lines]
        bare = [one[0 if label is None else label.end() :] for one, label in zip(lines, labels, strict=True)]
        return _stripped(_parts(bare, [label is not None for label in labels]))
    rules = [_RULE.fullmatch(one) is not None for one in lines]
    by_rules = _stripped(_parts(["" if ruled else one for one, ruled in zip(lines, rules, strict=True)], rules))
    if len(by_rules) > 1:
        return by_rules
    parts = _stripped(_parts(lines, [not one.strip() for one in lines]))
    heads = [False, *(all(map(_MEMBER.fullmatch, one.split("\n"))) for one in parts)]
    return _stripped(_parts(parts, [not above for above in heads[:-1]]))


def _parts(lines: Sequence[str], begins: Sequence[bool]) -> list[str]:
    """The lines in parts, of which each begins where ``begins`` says so."""
    parts: list[list[str]] = [[]]
    for line, is_first in zip(lines, begins, strict=True):
        if is_first:
            parts.append([])
        parts[-1].append(line)
    return ["\n".join(part) for part in parts]


def _stripped(parts: Sequence[str]) -> list[str]:
    return [one.strip() for one in parts if one.strip()]
