"""The lines, sentences and lists of an answer that only name its sources: "Sources:", "See warranty.pdf, p. 7."."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from attribeam.attribution.answers.citation_pointers import SOURCE_WORDS, PassageNames, PointerKind, Pointers
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS

SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹"
DIGITS = str.maketrans(SUPERSCRIPT, "0123456789")
NOTHING = Pointers(PointerKind.VOID)
ALWAYS = (PointerKind.NUMBER, PointerKind.LABEL)
CERTAIN = PointerKind.SOURCE | PointerKind.VOID


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark from ``start`` to ``end`` of the answer, what it points to, and where it was seen: "list", "round"."""

    start: int
    end: int
    pointers: Pointers
    style: str = ""

    @property
    def kinds(self) -> PointerKind:
        """What kind of pointers they are."""
        return self.pointers.kinds

    @property
    def is_certain(self) -> bool:
        """Whether it says that it names a source, whatever stands around it."""
        return self.style in ("source", "list") or self.kinds in ALWAYS or bool(self.kinds & CERTAIN)


_MOST_CODE_POINTS = 300
_LABEL = (
    rf"(?:(?:primary|main|original|cited|information|data|my|the|all)\s+)?"
    rf"(?:{SOURCE_WORDS}|(?:retrieved|taken|adapted) from)(?:\(s\))?"
    r"(?: used| cited| documents?| files?)?"
)
_MUCH = r"(?:info(?:rmation)?|details?|reading|guidance)"
_MORE = (
    rf"(?:(?:to )?(?:learn|read|find out|see|view) more|more (?:{_MUCH}|here)|further {_MUCH}"
    rf"|(?:you can )?(?:find|see|get) (?:more|further|additional) {_MUCH}|full (?:text|document|article)"
    rf"|for (?:more|further|additional|full|complete) {_MUCH}"
    r"|mehr (?:dazu|erfahren|infos?|informationen)|weitere informationen|en savoir plus|m[áa]s informaci[óo]n"
    r"|saber m[áa]s|per saperne di pi[ùu]|scopri di pi[ùu]|saiba mais|lees meer|meer informatie"
    r"|see also|related(?: (?:links?|articles?|documents?))?)"
    r"(?:(?: about| on| regarding| zu)(?: \w+){1,6})?"
)
_LEADING = r"(?:see|visit|at|here|check(?: out)?|refer to|consult|go to|in|under)(?: here)?"
_SOURCE_SENTENCE = re.compile(
    rf"(?P<lead>(?<![^\s>*_(\[—–-])(?:{_LABEL}\s*[*_]{{0,3}}\s*[:：=]"
    rf"|{_MORE}[*_]{{0,3}}\s*(?:[:：→>-]|,?\s*(?:please )?{_LEADING}\s*:?))|(?<=[.!?\n*_] )see(?: also)?:?(?= ))"
    rf"[*_]{{0,3}}[ \t]*(?P<rest>[^\n]{{1,{_MOST_CODE_POINTS}}})",
    re.IGNORECASE,
)
_SENDS = re.compile(r"visit|go to|check", re.IGNORECASE)
"""What sends the reader to an address, which the answer then claims."""
_COUNT_OF_SOURCES = re.compile(r"\d+ (?:out )?of \d+")
_SENTENCE_STOP = re.compile(r"[.!?](?=\s+[A-Z\[(]|\s*$)")
_HEADING = re.compile(
    rf"^[ \t#>*_=📚🔗📄📖-]{{0,20}}+(?:\d+[.)][ \t]*)?(?:(?:{_LABEL}|bibliograph(?:y|ie)|bibliograf[íi]a|works cited"
    rf"|footnotes?|endnotes?|literatur(?:verzeichnis)?|quellenverzeichnis|einzelnachweise|{_MORE})"
    r"|(?P<weak>notes?|documents?|links?|anmerkungen))[ \t]*[*_:：]*[ \t]*[:：]?[*_]*[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_TABLE = re.compile(r"^[ \t]*\|.+\n(?:[ \t]*\|.*(?:\n|\Z)){2,}(?=\s*\Z)", re.MULTILINE)
_ABOUT_SOURCES = re.compile(
    rf"(?P<source>{_LABEL})|(?:cited )?(?:documents?|docs?|titles?|names?|files?|file ?names?|pages?|sections?|links?"
    r"|urls?|ids?|no\.?|nr\.?|#|number|index|scores?|relevance|type|authors?|year|date)?",
    re.IGNORECASE,
)
"""What heads a column of a table of sources."""
_RULE_LINE = re.compile(r"[ \t]*(?:[-*_=—][ \t]*){3,}$")
_ITEM = re.compile(
    r"[ \t]*(?:[-*+•‣▪–][ \t]+|(?P<number>\[\^?\w{1,12}\^?\]:?|【\d+】|\(?\d{1,3}[.):\]]"
    rf"|[{SUPERSCRIPT}]+|\d{{1,3}}(?=[ \t]+\S)|\^\d{{1,3}}:?)[ \t]*)(?P<rest>.*)$"
)
_MARKED_NUMBER = re.compile(rf"[\[【(^{SUPERSCRIPT}]")
_DEFINITION = re.compile(r"^[ \t]*\[\^?(?P<number>[\w.-]{1,30})\]:[ \t]+(?P<rest>[^\n]+)$", re.MULTILINE)
_CITED_WORK = re.compile(
    r"(?!.*\b(?:is|are|was|were|has|have|had|can|must|will|does|do)\b).*"
    r"\b(?:(?:1[5-9]|20)\d\d|(?:pp?|pages?|sections?|sec|chapters?|ch|vol|no)\b\.?\s?\d)",
    re.IGNORECASE,
)
"""A year, a page or the like, and no statement."""
_LINE = re.compile(r"^[^\n]*\S[^\n]*$", re.MULTILINE)
_TITLE_WORD = re.compile(r"[^\W\d_][\w'’&-]*")
_MOST_WORDS_OF_TITLE = 14
_MOST_FOOTNOTES = 50
_TRAILING = re.compile(
    r"(?:(?<=[.!?])[ \t]+|(?<=\S)[ \t]{1,3}[—–-]{1,2}[ \t]+|^[ \t]{0,8}[—–][ \t]*)(?P<inner>[^\n]{3,160})$",
    re.MULTILINE,
)
_ASIDE = re.compile(
    r"(?<=[^\s.!?])[ \t]{1,3}(?:[—–][ \t]+|[📄📎🔗📚→]\ufe0f?[ \t]*)(?P<inner>(?!at\b)[^\n—–📄📎🔗📚→]{3,160}?)"
    r"(?=[.!?](?:\s+[A-Z]|\s*$)|$)",
    re.MULTILINE,
)
LINKS = re.compile(
    r"!?\[([^\[\]\n]{0,200})\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:[ \t]+\"[^\"\n]*\")?\)|<(https?://[^\s<>]+)>"
)
_ADDRESS = re.compile(r"https?://\S+|\S+\.(?:pdf|docx?|html?|pptx?|xlsx?)\b")
_NUMBERED_ALONE = re.compile(r"\W*[^\W\d_]+\s*\d+\W*")
"""A label that numbers what stands below it: "Document 2:", "Option 3"."""
_FILLERS = FUNCTION_WORDS | {"here", "page", "link", "article", "guide", "full", "document", "documents"}
"""Words that only lead to a link."""
_PLAIN = PointerKind.FILE | PointerKind.ID | PointerKind.ADDRESS | PointerKind.LABEL | PointerKind.AUTHOR
"""What is a source in a line of its own, or behind a full stop, without a word that says so."""


class SourceLines:
    """What of an answer only names sources; ``text`` is the answer, as long, without its code.

    ``lists`` has what the entries of each list of sources point to, by number.
    """

    def __init__(self, answer: str, text: str, names: PassageNames) -> None:
        self.lists: list[dict[str, Pointers]] = []
        self._answer, self._text, self._names = answer, text, names

    def source_lists(self) -> Iterator[Mark]:
        """A heading such as "Sources:" with the list behind it, and definitions of footnotes."""
        for heading in _HEADING.finditer(self._text):
            listed, end = self._entries_behind(heading)
            if listed:
                yield self._list(heading.start(), end, listed)
        for match in _DEFINITION.finditer(self._text):
            pointers = self._entry(match["rest"])
            if pointers is None:
                yield Mark(match.start(), match.start("rest"), NOTHING)
            else:
                yield self._list(*match.span(), {match["number"]: pointers})

    def _list(self, start: int, end: int, listed: dict[str, Pointers]) -> Mark:
        """The mark of a list of sources, which is kept."""
        self.lists.append(listed)
        named = (index for pointers in listed.values() for index in pointers.named)
        return Mark(start, end, replace(NOTHING, named=tuple(dict.fromkeys(named))), "list")

    def tables(self) -> Iterator[Mark]:
        """A table at the end that only lists sources: its heads say so, or marks above it have the numbers of its rows.

        One of its rows at least must name a passage.
        """
        for match in _TABLE.finditer(self._text):
            lines = self._answer[match.start() : match.end()].splitlines()
            head, *rows = ([cell.strip(" \t*_`") for cell in line.strip(" \t|").split("|")] for line in lines)
            heads = [_ABOUT_SOURCES.fullmatch(cell) for cell in head]
            cells = {row[0].strip("[]^()."): map(self._entry, row) for row in rows}
            listed = {
                number: next((entry for entry in entries if entry and entry.named), NOTHING)
                for number, entries in cells.items()
            }
            is_cited = any(number and f"[{number}]" in self._text[: match.start()] for number in listed)
            names_passage = any(entry.named for entry in listed.values())
            if all(heads) and names_passage and (is_cited or any(column and column["source"] for column in heads)):
                yield self._list(*match.span(), listed)

    def footnotes(self) -> Iterator[Mark]:
        """The last lines of an answer, each with a number that marks a text above them: "[1] Handbook, 2024, p. 3"."""
        lines = [*_LINE.finditer(self._text)][-_MOST_FOOTNOTES:]
        items = (_ITEM.match(self._answer, *line.span()) for line in reversed(lines))
        numbered = [*takewhile(lambda item: item and _MARKED_NUMBER.match(item["number"] or ""), items)]
        for item in filter(None, reversed(numbered)):
            number, rest = item["number"].strip(" \t:"), item["rest"]
            entry = self._entry(rest)
            if entry is None and _CITED_WORK.match(rest):
                entry = Pointers(PointerKind.TITLE, self._named_at_start(rest))
            is_cited = self._text.find(number, 0, numbered[-1].start() if numbered[-1] else 0) >= 0
            if is_cited and entry is not None:
                yield self._list(*item.span(), {_plain_number(number): entry})

    def _entries_behind(self, heading: re.Match[str]) -> tuple[dict[str, Pointers], int]:
        """The entries of the list behind a heading, by number, and where it ends; none where there is no such list."""
        end, listed, is_strong = heading.end(), dict[str, Pointers](), heading["weak"] is None
        for line in _LINE.finditer(self._text, heading.end()):
            text = self._answer[line.start() : line.end()]
            if _RULE_LINE.fullmatch(text):
                continue
            item = _ITEM.match(text)
            number, rest = (item["number"] or "", item["rest"]) if item else ("", text)
            entry = self._entry(rest, is_item=item is not None and is_strong)
            if entry is None and number.startswith("[") and is_strong:
                entry = Pointers(PointerKind.TITLE, self._named_at_start(rest))
            if entry is None:
                break
            listed[_plain_number(number) or f"entry {line.start()}"] = entry
            end = line.end()
        return listed, end

    def _entry(self, text: str, *, is_item: bool = False) -> Pointers | None:
        """What an entry of a list of sources points to; None for a text that may say something.

        An item without any pointer is an entry if it is written like a title.
        """
        plain = without_links(text).strip(" \t*_`.")
        pointers = self._names.pointers(plain) if plain else None
        if pointers is not None:
            return pointers
        linked = [link_passages(link, self._names) for link in LINKS.finditer(text)]
        addresses = (self._names.pointers(address.group()) for address in _ADDRESS.finditer(plain))
        linked += [address.named if address else () for address in addresses]
        if linked:
            return Pointers(PointerKind.ADDRESS, next(filter(None, linked), ()) or self._named_at_start(plain))
        named = self._named_at_start(plain)
        if is_item and (named or _is_title(plain)) and len(plain.split()) <= 2 * _MOST_WORDS_OF_TITLE:
            return Pointers(PointerKind.TITLE, named)
        return None

    def _named_at_start(self, text: str) -> tuple[int, ...]:
        parts = re.split(r"\s+[—–-]\s+|[,:(|;]", text)
        first = self._names.pointers(parts[0].strip(" *_\"“”'")) if parts and parts[0].strip() else None
        return first.named if first else ()

    def source_sentences(self) -> Iterator[Mark]:
        """Sentences such as "Source: warranty.pdf" and "See also [the terms](...)."."""
        for match in _SOURCE_SENTENCE.finditer(self._text):
            rest = self._answer[match.start("rest") : match.end("rest")]
            ends = [*(stop.start() for stop in _SENTENCE_STOP.finditer(rest)), len(rest)]
            for end in sorted(set(ends), reverse=True):
                shown = without_links(rest[:end]).strip(" \t*_`.>)]")
                pointers = self._names.pointers(shown) if shown else None
                links = [*LINKS.finditer(rest[:end])]
                words = {word.lower() for word in _TITLE_WORD.findall(LINKS.sub(" ", rest[:end]))}
                if pointers is None and links and words <= _FILLERS:
                    named = [index for link in links for index in link_passages(link, self._names)]
                    pointers = Pointers(PointerKind.ADDRESS, tuple(dict.fromkeys(named)))
                if pointers is None and _is_title(shown) and not match["lead"].lower().startswith("see"):
                    pointers = Pointers(PointerKind.TITLE, self._named_at_start(shown))
                if _COUNT_OF_SOURCES.fullmatch(shown):
                    pointers = NOTHING
                if pointers is not None and (pointers.named or not _SENDS.search(match["lead"])):
                    stop = match.start("rest") + min(end + 1, len(rest))
                    yield Mark(match.start(), stop, pointers, "source")
                    break

    def lines(self) -> Iterator[Mark]:
        """Lines that are nothing but the name of a file, an address and the like."""
        for line in _LINE.finditer(self._text):
            text = self._answer[line.start() : line.end()]
            if len(text) > _MOST_CODE_POINTS or text.rstrip().endswith(":") or _NUMBERED_ALONE.fullmatch(text):
                continue
            item = _ITEM.match(text)
            is_entry = item is not None and re.match(r"[\[【]|\D", item["number"] or "1") is not None
            pointers = self._names.pointers(without_links(item["rest"] if item and is_entry else text))
            if pointers and (pointers.kinds & _PLAIN or (is_entry and pointers.kinds != PointerKind.NUMBER)):
                yield Mark(line.start(), line.end(), pointers, "line")

    def trailing(self) -> Iterator[Mark]:
        """Pointers behind a full stop at the end of a line, and at the end of a sentence behind a dash or the like."""
        for pattern, kinds in ((_ASIDE, _PLAIN | PointerKind.TITLE), (_TRAILING, _PLAIN)):
            for match in pattern.finditer(self._text):
                text = self._answer[match.start("inner") : match.end("inner")]
                pointers = self._names.pointers(without_links(text))
                if pointers is not None and (pointers.kinds & kinds or pointers.kinds == PointerKind.PLACE):
                    yield Mark(match.start(), match.end(), pointers, "aside" if pattern is _ASIDE else "line")


def _plain_number(number: str) -> str:
    return number.translate(DIGITS).strip("[]^().:【】")


def without_links(text: str) -> str:
    """The text with its links as their words and their addresses."""
    return LINKS.sub(
        lambda match: f"{match[1] or ''}, {match[2] or match[3]}" if match[2] or match[3] else match[1], text
    )


def _is_title(text: str) -> bool:
    """True for a few words, most of which have capital letters, as in a title; a sentence has not."""
    words = [word for word in _TITLE_WORD.findall(text) if word.lower() not in FUNCTION_WORDS]
    capitals = sum(word[0].isupper() for word in words)
    return (
        0 < len(words) <= _MOST_WORDS_OF_TITLE
        and words[0][0].isupper()
        and 3 * capitals > 2 * len(words)
        and not re.search(r"[.!?]\s+\w", text)
    )


def link_passages(link: re.Match[str], names: PassageNames) -> tuple[int, ...]:
    """The passages that a match of ``LINKS`` names by its address, else by its words."""
    for part in (link[2] or link[3], link[1] or ""):
        pointers = names.pointers(part)
        if pointers is not None and (pointers.named or pointers.numbers):
            return pointers.named or tuple(number - 1 for number in pointers.numbers if 1 <= number <= names.count)
    return ()
