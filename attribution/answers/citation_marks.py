"""Where an answer cites: marks behind or before its statements, lists of sources, and which passages they name.

A mark stands in brackets, a tag or a superscript, or in a line or sentence of its own ("Source: warranty.pdf, p. 7"),
and says nothing but where a statement comes from. In round brackets and braces, where answers also put what they claim
("(up to 12 bar)", "(2019)"), it must end a statement or name its source plainly, and no passage may have it as text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from unicodedata import numeric

from attribeam.attribution.answers.citation_pointers import LEAD, SOURCE_WORDS, PassageNames, PointerKind, Pointers
from attribeam.attribution.answers.citation_sources import (
    ALWAYS,
    CERTAIN,
    DIGITS,
    LINKS,
    NOTHING,
    SUPERSCRIPT,
    Mark,
    SourceLines,
    link_passages,
    without_links,
)
from attribeam.attribution.answers.markup import fenced_code, inline_code, shield_code
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS
from attribeam.schemas import CharRange, Passage


@dataclass(frozen=True, slots=True)
class CitationMark:
    """One mark, and the passages of the row that it names, counted from 0.

    One that ``closes`` is a line, sentence or list of sources, which stands for all before it that has no other mark.
    """

    chars: CharRange
    passages: tuple[int, ...] = ()
    closes: bool = False


_BETWEEN_MARKS = re.compile(r"[ \t]*(?:[,;&–-]|and\b|und\b)[ \t]*")
_CLOSING = ("source", "list", "line")
_TAGGED = CERTAIN | PointerKind.LABEL | PointerKind.PLACE
_URL_IN_LINK = r"\((?P<url>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:[ \t]+\"[^\"\n]*\")?\)"
_SQUARE = re.compile(
    rf"!?\[(?P<inner>\\?\[[^\[\]\n]{{1,200}}\](?:\([^()\s]{{0,300}}\))?|[^\[\]\n]{{1,200}})\](?:{_URL_IN_LINK}|\[(?P<reference>(?!\^?[\d{SUPERSCRIPT}])[^\[\]\n]{{1,60}})\])?"
    r"|\\\[(?P<escaped>[^\[\]\\\n]{1,60})\\\]|［(?P<wide>[^［］\n]{1,100})］|〔(?P<shell>[^〔〕\n]{1,100})〕|⟦(?P<double>[^⟦⟧\n]{1,100})⟧"
)
_ROUND = re.compile(r"[(（](?P<inner>(?:[^()（）\n]|\((?:[^()\n]|\([^()\n]{0,100}\)){0,300}\)){1,300})[)）]")
_WIDE = re.compile(r"【(?P<inner>[^【】\n]{1,120})】|〖(?P<other>[^〖〗\n]{1,100})〗")
_QUOTES = re.compile(r"[「‹«](?P<inner>[^「」‹›«»\n]{1,40})[」›»]")
_BRACES = re.compile(r"\{\{(?P<inner>[^{}\n]{1,100})\}\}|\{(?P<single>[^{}\n]{1,60})\}")
_ANGLES = re.compile(r"<{1,2}\|?(?P<inner>[^\s<>|/](?:[^<>|\n]{0,100}[^\s<>|])?)\|?>{1,2}")
_TAG = re.compile(
    r"<(?P<tag>sup|cite|cit|citations?|refs?|references?|sources?|src|doc|document|passage|chunk|footnote|fn|small|em|i|a|span)\b(?P<with>[^<>]*)>"
    r"(?P<inner>(?:[^<]|<(?!/(?P=tag)\b)[^<>]*>){1,300}?)</(?P=tag)>",
    re.IGNORECASE,
)
_CITING_TAG = re.compile(
    r"<(?P<tag>cite|cit|citation|ref|reference|source|doc|document)\b(?P<with>[^<>]*?)/?>", re.IGNORECASE
)
_POINTING = re.compile(
    r"\b(?P<name>index|indices|doc_?index|ids?|docs?|doc_?ids?|sources?|refs?|n|name|number|document_?index)\s*=\s*"
    r"[\"']?(?P<value>[\w][\w ,.:/#-]*)",
    re.IGNORECASE,
)
_ANY_TAG = re.compile(r"<[^<>]*>")
_COHERE = re.compile(r"<(?P<closing>/?)co:?\s*(?P<inner>\d[\d,\s]*)>")
_TOKENS = re.compile(
    r"(?::contentReference\[oaicite:|(?P<hashes>##))(?P<counted>\d+)(?(hashes)\$\$|\](?:\{index=\d+\})?)"
    r"|\ue200?(?:file)?cite(?P<turns>(?:\ue202?turn\d+[a-z]+\d+(?:L\d+-L?\d+)?)+)\ue201?"
    r"|(?<!\w)(?:file)?cite(?P<plain>(?:turn\d+[a-z]+\d+)+)"
)
_TURNED = re.compile(r"turn\d+[a-z]+?(\d+)(?=turn|L\d|\ue202|\ue201|$)")
_LATEX = re.compile(
    r"~?\\(?:(?:text|paren|foot|auto)?cite[a-z]*|footnotemark|textsuperscript|footref)\*?(?:\[[^\]\n]*\]){0,2}"
    r"\{?\[?(?P<inner>[^{}\n]{1,120}?)\]?\}|\$\^\{?\[?(?P<power>[\d, ]{1,12})\]?\}?\$"
)
_RAISED = re.compile(
    rf"(?<=[\w)%])[ \t]?[①-⑳❶-❿]+(?=\s*(?:[.,;!?。，]|$))"
    rf"|[⁽⁺]?[{SUPERSCRIPT}]+(?:[ \t,⁻˒’‚ʼ‐⸴ᐟ·–-]{{1,2}}[{SUPERSCRIPT}]+)*⁾?(?![\w^])"
    r"|\^\[?(?P<caret>\d{1,2}(?:,\s?\d{1,2})*)\]?\^?(?!\w)"
    r"|\^\{(?P<braced>\[?\d{1,2}(?:,\s?\d{1,2})*\]?)\}(?!\w)"
)
_DAGGERS = re.compile(r"(?<=[\w.,;!?)])\s?[†‡]+\d{0,2}(?=\s|[.,;!?]|$)|(?<=[\w.,;!?)])\[[a-z]\](?![\w(])")
_HASH = re.compile(
    r"(?<=[\w.!?)%°])[ \t]+(?:\\?[#*@→↗]|ref\.?\s)\s?(?P<inner>\d{1,3}(?:,\s?[#*]?\d{1,3})*)(?=\s*(?:[.,;!?]|\n|$))"
)
_RAISED_UNIT = re.compile(
    r"(?:(?<![^\W\d_])(?!(?:as|be|by|do|go|he|is|it|me|no|of|on|so|to|up|us|we)$)[^\W\d_]{1,2}|[\d)\]}|µ]|(?<![^\W\d_])(?:km|cm|mm|dm|nm|hm|ft|yd|mi|in|sec|s|inch(?:es)?|foot|feet|yards?|miles?"
    r"|met(?:er|re)s?|(?:centi|kilo|milli)met(?:er|re)s?|seconds?|chi|log|sin|cos|tan|sigma|lambda|theta|pi|eta|rho"
    r"|square|cubic))$",
    re.IGNORECASE,
)
_YEAR_BEFORE = re.compile(r"(?<!\d)(?:19|20)\d\d$")

_ENDS = re.compile(r"[\s\"”’»*_)]*(?:[.!?;:,。！？；，、]|$|[\[【{<(†‡]|[¹²³])|[ \t*_]*\n")
_SENTENCE_ENDS = re.compile(r"[\s\"”’»*_)\]】]*(?:[.!?;。！？；]|$|[\[【{(†‡]|[¹²³])|[ \t*_]*\n|\s+[A-Z]")
_WORD_BEFORE = re.compile(r"([^\W_]+(?:['’-][^\W_]+)*)[\s\"”’»*_]*$")
_MATHS_BEFORE = re.compile(
    r"(?:(?P<word>\b(?:interval|range|ranges|array|list|vector|matrix|tuple|points?|coordinates?|scale|domain|set|index"
    r"|values?))|[∈=∪]|\w\(|(?<![\w/])(?<!\d )(?-i:[b-z]))\s*$",
    re.IGNORECASE,
)
"""What a set of numbers, or an index, stands behind; but a unit ("30 g", "km/h") is no variable."""
_EQUALS_BEFORE = re.compile(r"\b(?:is|are|was|were|equals?|returns?|contains?|gives?)\s*$", re.IGNORECASE)
_NUMBER_WORDS_BEFORE = re.compile(
    r"(?:\d|%|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty"
    r"|sixty|ninety|hundred|version|step|option|level|grade|type|phase|class|windows|number|no\.?|ios|python|chapter"
    r"|ranked?|rated|voted|named|became|remained|finished|issue|order|ticket|case|bug|room|suite|unit|apt|apartment"
    r"|gate|track|episode|lane|platform|hit|top|is|are|was|were|be|been|stays?|at|the|a|an|to|in|on|of|for|by|as|its"
    r"|our|their|his|her|my|your|this|that|form|team|player|bus|line|route|model|equals?|answer|question|item|rule))\s*$",
    re.IGNORECASE,
)
_OFFERED_BEFORE = re.compile(
    r"\b(?:visit|website|web ?page|site|online|portal|page|contact|email|e-mail|homepage|url|address|link|app|at|file"
    r"|files|form|forms|brochure|template|attachment|download|named|called|attached|document|spreadsheet|folder|script"
    r"|open|run|edit|upload|fill in|fill out|complete|save|delete|import|export)\b[^.!?\n]{0,30}$",
    re.IGNORECASE,
)
_WEAK_LABEL = re.compile(r"\W*(?:notes?|texts?|files?|records?|links?|articles?|results?|nodes?|web)\b", re.IGNORECASE)
_ID_LABEL = re.compile(r"\W*(?:ids?|kb)\b", re.IGNORECASE)
_OTHER_PLACE = re.compile(r"\W*(?:chapter (?:7|9|11|12|13|15)|line \d+)\W*", re.IGNORECASE)
"""A bankruptcy, or where a bus goes."""
_LIKE_AN_ID = re.compile(r"\W*(?:[A-Za-z][\w.:-]*?[-_:.]?0\d+\b|\w+_[\w-]*\d|@\w)")
_LIKE_AN_ID_TWICE = re.compile(r"\W*[A-Za-z]+[-_:.]?\d{3,}\W*")
_STARTS_WITH_LETTER = re.compile(r"\W*[^\W\d_]|[0-9a-f]{6,}|\d+[-_:]\w+", re.IGNORECASE)
_CITE_WORD = re.compile(rf"\W*(?:{SOURCE_WORDS})\W*", re.IGNORECASE)
_LINK_WORD = re.compile(rf"\W*(?:{SOURCE_WORDS}|link|pdf|docs?|🔗|📄|↗)\W*", re.IGNORECASE)
_SEVERAL_AUTHORS = re.compile(r"\bet al\b|&| and | und |\bu\. a\.|\bpp?\. ?\d|\d: ?\d")
_FORMULA = re.compile(r"(?:[A-Z][a-z]?\d*){1,8}(?:\d?[+-])?|[a-z]\d|v\d[\d.]*|\d[A-Z]|[A-Z]\d[a-z]?")

_DECIMAL_OR_RANGE = re.compile(r"\.|^\W\d+\s*[-–]\s*\d+\W$")
_FOOTNOTE = re.compile(r"\^[\w.-]{1,40}\^?")
_FILE_BEHIND = re.compile(
    r"[ \t]*(?P<inner>[\w-]+\.(?:pdf|docx?|html?|md|txt|pptx?|xlsx?))(?=[\s.,;]|$)", re.IGNORECASE
)


_BEFORE = rf"[ \t]*(?:(?:{LEAD.pattern}|(?:{SOURCE_WORDS})\.?)[\s:]*)?$"
_AROUND = tuple(
    (re.compile(opening, re.IGNORECASE), closing)
    for opening, closing in (
        (rf"\^?[(（]{_BEFORE}", r"[ \t]*[)）]"),
        (rf"\[{_BEFORE}", r"[ \t]*\]"),
        (rf"(?:\\\w+)?\{{{_BEFORE}", r"[ \t]*\}"),
        (r"\\\w+$", r""),
        (rf"<(?P<name>\w+)\b[^<>]*>{_BEFORE}", r"\s*</NAME>"),
        (r"(?P<name>[*_])$", r"[NAME]|(?<=[NAME])"),
        (r"[~^→↗↪📄📎🔗📚]\ufe0f?[ \t]*$", r""),
        (r"(?<=\s)[—–-][ \t]*$", r"(?=\s*(?:[.!?;,\n]|$|[A-Z]))"),
        (r"$", r"[ \t]*[↩⤴]\ufe0e?"),
    )
)
"""What may stand around a mark and belongs to it: what ends before it, and behind that what begins after it."""
_MOST_AROUND = 60


def citation_marks(answer: str, passages: Sequence[Passage] = ()) -> tuple[CitationMark, ...]:
    """The marks of an answer, ascending and disjoint.

    Numbers count from 1, or from 0 in an answer that cites a 0; where the answer lists its sources by number, its own
    list says what a number means. They are ids of passages where all of them are, or where one is larger than the count
    of passages; then those that are no ids still count. Nothing in code is a mark, and an answer that would be nothing
    but marks has none apart from those that say "source": it may be what was asked for.
    """
    return _Marks(answer, PassageNames(passages)).marks()


class _Marks:
    def __init__(self, answer: str, names: PassageNames) -> None:
        self._answer = answer
        self._names = names
        code = sorted((*inline_code(answer), *fenced_code(answer)))
        shielded = shield_code(answer, code) if code else answer
        kept = ("\n" if was == "\n" else now for was, now in zip(answer, shielded, strict=True))
        self._text = "".join(kept) if code else answer
        self._sources = SourceLines(answer, self._text, names)

    def marks(self) -> tuple[CitationMark, ...]:
        found = [
            *self._sources.source_lists(), *self._sources.tables(), *self._sources.footnotes(),
            *self._sources.source_sentences(), *self._tokens(), *self._tags(), *self._raised(), *self._brackets(),
            *self._sources.lines(), *self._sources.trailing(),
        ]  # fmt: skip
        marks: list[Mark] = []  # ascending; of those that overlap the first, the longer of two that begin together
        for mark in sorted(found, key=lambda mark: (mark.start, -mark.end)):
            if not marks or mark.start >= marks[-1].end:
                marks.append(mark)
        visible = list(self._answer)
        for mark in marks:
            visible[mark.start : mark.end] = " " * (mark.end - mark.start)
        if not any(map(str.isalnum, visible)):
            marks = [mark for mark in marks if mark.is_certain]
        runs: list[list[Mark]] = []  # marks that follow each other, perhaps with a comma or the like between them
        for mark in marks:
            joined = _BETWEEN_MARKS.fullmatch(self._answer, runs[-1][-1].end, mark.start) if runs else None
            if joined:
                runs[-1][-1] = replace(runs[-1][-1], end=joined.end())
            if joined or (runs and mark.start == runs[-1][-1].end):
                runs[-1].append(mark)
            else:
                runs.append([mark])
        own = {key: value for entries in self._sources.lists for key, value in entries.items()}
        from_zero = any(0 in mark.pointers.numbers for mark in marks)
        plain = [mark.pointers.numbers for mark in marks if PointerKind.TOKEN not in mark.kinds]
        by_id = self._names.are_ids([number for numbers in plain for number in numbers])
        return tuple(
            CitationMark(
                CharRange(mark.start, mark.end),
                self._passages(mark.pointers, own, from_zero=from_zero, by_id=by_id),
                mark.style in _CLOSING,
            )
            for run in runs
            for mark in self._with_surroundings(run)
        )

    def _with_surroundings(self, run: list[Mark]) -> list[Mark]:
        """Marks that follow each other, with the brackets around them and what leads to them: "(see also [2])"."""
        start, end = run[0].start, run[-1].end
        while True:
            before = self._text[max(0, start - _MOST_AROUND) : start]
            for opening, closing in _AROUND:
                if opened := opening.search(before):
                    behind = closing.replace("NAME", opened.groupdict().get("name", ""))
                    if closed := re.compile(behind).match(self._text, end):
                        start, end = start - (len(before) - opened.start()), closed.end()
                        break
            else:
                run[0] = replace(run[0], start=start)
                run[-1] = replace(run[-1], end=end)
                return run

    def _passages(
        self, pointers: Pointers, own: dict[str, Pointers], *, from_zero: bool, by_id: bool
    ) -> tuple[int, ...]:
        numbered: list[int] = []
        for number in pointers.numbers:
            listed = own.get(str(number), NOTHING).named
            numbered += listed or [number if from_zero else number - 1]
        ids = tuple(index for number in pointers.numbers for index in self._names.with_id(number))
        named = () if not by_id and pointers.named == ids else pointers.named
        indices = named or (*pointers.from_zero, *numbered)
        return tuple(dict.fromkeys(index for index in indices if 0 <= index < self._names.count))

    # Brackets

    def _brackets(self) -> list[Mark]:
        if not any(mark in self._text for mark in "[(【{<［〔⟦（〖「‹«"):
            return []
        candidates = [
            *self._candidates(_SQUARE, "square", self._is_square_mark),
            *self._candidates(_WIDE, "wide", lambda *_: True),
            *self._candidates(_QUOTES, "quotes", lambda mark, _: mark.kinds in ALWAYS and self._ends(mark)),
            *self._candidates(_BRACES, "braces", self._is_braces_mark),
            *self._candidates(_ANGLES, "angles", self._is_angles_mark),
            *self._candidates(_ROUND, "round", self._is_round_mark),
        ]
        shapes = Counter(_shape(self._answer[mark.start : mark.end]) for mark in candidates if mark.style == "perhaps")
        marks = []
        for mark in candidates:
            if mark.style == "perhaps" and shapes[_shape(self._answer[mark.start : mark.end])] < 2:
                continue
            behind = _FILE_BEHIND.match(self._text, mark.end) if mark.style in ("square", "wide") else None
            file = self._names.pointers(behind["inner"]) if behind else None  # "[1] warranty.pdf"
            if behind and file:
                pointers = replace(mark.pointers, named=file.named or mark.pointers.named)
                mark = replace(mark, end=behind.end(), pointers=pointers)
            marks.append(mark)
        return marks

    def _candidates(
        self, pattern: re.Pattern[str], style: str, is_mark: Callable[[Mark, str], bool | None]
    ) -> Iterator[Mark]:
        """Those of a kind of bracket that are marks; ``is_mark`` gives None for one that must have a twin."""
        position = 0
        while (match := pattern.search(self._text, position)) is not None:
            groups = match.groupdict()
            inner = next((text for name, text in groups.items() if name not in ("url", "reference") and text), "")
            start = match.start() + match.group().index(inner)
            inner = self._answer[start : start + len(inner)]
            pointers = self._pointers_of_bracket(match, inner)
            second = self._names.pointers(groups.get("reference") or "")  # [doc1][doc3]; else the label of a link
            end = match.end() if second is None else match.start("reference") - 1
            mark = None if pointers is None else Mark(match.start(), end, pointers, style)
            verdict = False if mark is None else is_mark(mark, inner)
            if mark is not None and verdict is not False:
                yield mark if verdict else replace(mark, style="perhaps")
                position = end
            else:
                position = match.start() + 1

    def _pointers_of_bracket(self, match: re.Match[str], inner: str) -> Pointers | None:
        groups = match.groupdict()
        url, text = groups.get("url"), inner if match.re is _ROUND else inner.strip("[]\\")
        pointers = self._names.pointers(without_links(text.translate(DIGITS)))
        if pointers is None and match.re is _SQUARE and _FOOTNOTE.fullmatch(text):
            pointers = self._names.pointers(text[1:]) or NOTHING
        if url is None:
            links = [link for link in LINKS.finditer(text) if link[0][0] != "!"]
            if links and not LINKS.sub("", text).strip(" ,;|"):
                linked = dict.fromkeys(index for link in links for index in link_passages(link, self._names))
                return Pointers(PointerKind.ADDRESS | PointerKind.SOURCE, tuple(linked))
            if match.re is _BRACES and match["inner"] and _CITE_WORD.fullmatch(text):
                return NOTHING
            number = re.match(r"\d{1,3}", text) if match.re is _WIDE else None
            return Pointers(PointerKind.NUMBER, numbers=(int(number[0]),)) if number and pointers is None else pointers
        if match.group().startswith("!"):
            return None
        address = self._names.pointers(url)
        if pointers is None and _LINK_WORD.fullmatch(text):
            pointers = Pointers(PointerKind.ADDRESS)
        if pointers is None:
            return None
        named = (address.named if address else ()) or pointers.named
        return replace(pointers, kinds=pointers.kinds | PointerKind.ADDRESS, named=named)

    def _is_square_mark(self, mark: Mark, inner: str) -> bool | None:
        before, plain = self._text[: mark.start], inner.strip("[] ").translate(DIGITS)
        kinds = mark.kinds
        if PointerKind.ADDRESS in kinds and self._answer[mark.start : mark.end].endswith(")"):
            without_address = kinds & ~PointerKind.ADDRESS
            return without_address != PointerKind.TITLE or (self._ends(mark) and not _is_function_word(before))
        if kinds == PointerKind.NUMBER:
            numbers = re.findall(r"\d+", plain)
            maths = _MATHS_BEFORE.search(before[-20:])
            is_behind_word = maths and maths["word"] and before[-1:] == " " and len(numbers) == 1 and self._ends(mark)
            if (maths and not is_behind_word) or (len(numbers) > 1 and _EQUALS_BEFORE.search(before[-20:])):
                return False
            is_year = any(re.fullmatch(r"1[5-9]\d\d|20\d\d", number) for number in numbers)
            return not is_year and (len(max(numbers, key=len)) <= 3 or bool(mark.pointers.named) or self._ends(mark))
        if kinds == PointerKind.TITLE:
            behind = self._text[mark.end : mark.end + 2].strip()
            return not (behind[:1].islower() or behind[:1].isdigit()) or not before.strip()
        if kinds == PointerKind.TOKEN and not mark.pointers.named:
            if "`" in inner or not _STARTS_WITH_LETTER.match(plain):
                return False
            if _FORMULA.fullmatch(plain) and not (mark.pointers.numbers and self._ends(mark) and len(plain) < 4):
                return False
            return not self._names.has_in_text(plain) or bool(mark.pointers.numbers)
        return True

    def _is_braces_mark(self, mark: Mark, _inner: str) -> bool:
        if self._text.startswith("{{", mark.start):
            return True
        if mark.kinds == PointerKind.NUMBER:
            is_maths = _MATHS_BEFORE.search(self._text[max(0, mark.start - 20) : mark.start]) is not None
            return not is_maths and self._are_known(mark.pointers.numbers) and self._ends(mark)
        return mark.kinds != PointerKind.TITLE and (mark.kinds != PointerKind.TOKEN or bool(mark.pointers.numbers))

    def _is_angles_mark(self, mark: Mark, inner: str) -> bool:
        if mark.kinds == PointerKind.ADDRESS:
            return self._is_address_mark(mark, inner)
        if PointerKind.TOKEN in mark.kinds:
            return bool(mark.pointers.numbers or mark.pointers.named)
        return mark.kinds != PointerKind.NUMBER or self._are_known(mark.pointers.numbers)

    def _is_round_mark(self, mark: Mark, inner: str) -> bool | None:
        kinds, named = mark.kinds, mark.pointers.named
        if self._text[: mark.start].endswith("]"):
            return False
        if kinds & CERTAIN:
            return True
        before = self._text[max(0, mark.start - 60) : mark.start]
        if kinds == PointerKind.NUMBER:
            if not _ENDS.match(self._text, mark.end) or _NUMBER_WORDS_BEFORE.search(before) or not before.strip():
                return False
            written = self._answer[mark.start : mark.end]
            is_id = bool(named) and not self._names.has_in_text(inner)
            return is_id or (self._are_known(mark.pointers.numbers) and not _DECIMAL_OR_RANGE.search(written))
        if PointerKind.LABEL in kinds:
            if _WEAK_LABEL.match(inner) and not named:
                is_known = self._are_known(mark.pointers.numbers) and not self._names.has_in_text(inner)
                return is_known and self._ends(mark)
            return bool(named) or not _ID_LABEL.match(inner) or self._ends(mark)
        if PointerKind.ID in kinds:
            return not _OFFERED_BEFORE.search(before) or (self._ends(mark) and not self._names.has_in_text(inner))
        if self._names.has_in_text(inner):
            return None if kinds == PointerKind.TITLE and self._ends(mark) and not _is_function_word(before) else False
        if kinds == PointerKind.TITLE:
            return self._ends(mark) and not _is_function_word(before)
        if PointerKind.ADDRESS in kinds:
            return self._is_address_mark(mark, inner)
        if PointerKind.FILE in kinds:
            return not _OFFERED_BEFORE.search(before)
        if PointerKind.PLACE in kinds:
            return not _OTHER_PLACE.fullmatch(inner) or bool(named)
        if PointerKind.AUTHOR in kinds:
            has_years = len(re.findall(r"(?:19|20)\d\d|n\.d\.", inner)) > 1
            is_certain = named or has_years or _SEVERAL_AUTHORS.search(inner)
            return False if not self._ends(mark) else True if is_certain else None
        if named:
            return True
        if not self._ends(mark) or PointerKind.TOKEN not in kinds or _OFFERED_BEFORE.search(before):
            return False
        if _LIKE_AN_ID.match(inner):
            return True
        return None if _LIKE_AN_ID_TWICE.fullmatch(inner) or re.search(r" (?:19|20)\d\d", inner) else False

    def _is_address_mark(self, mark: Mark, inner: str) -> bool:
        before = self._text[max(0, mark.start - 60) : mark.start]
        return bool(mark.pointers.named) or not (_OFFERED_BEFORE.search(before) or self._names.has_in_text(inner))

    def _are_known(self, numbers: Sequence[int]) -> bool:
        """Whether numbers may be those of passages; without passages small ones may."""
        return bool(numbers) and all(0 <= number <= (self._names.count or 20) for number in numbers)

    def _ends(self, mark: Mark) -> bool:
        """Whether a statement, or a part of one, ends behind the mark, or has ended right before it."""
        if _ENDS.match(self._text, mark.end):
            return True
        before = self._text[max(0, mark.start - 10) : mark.start].rstrip(' \t*_"”»)]')
        return before[-1:] in tuple(".!?。！？") and _SENTENCE_ENDS.match(self._text, mark.end) is not None

    # Superscripts, tags and tokens

    def _raised(self) -> Iterator[Mark]:
        is_plain = self._text.isascii()
        for match in () if is_plain and "^" not in self._text else _RAISED.finditer(self._text):
            if not self._is_power(match.start()) or "," in match.group():
                digits = (match["caret"] or match["braced"] or match.group()).translate(DIGITS).replace("⁻", "-")
                digits = re.sub(r"[①-⑳❶-❿]", lambda digit: f"{numeric(digit[0]):.0f},", digits)
                pointers = self._names.pointers(re.sub(r"[^\d,-]+", ",", digits).strip(","))
                yield Mark(match.start(), match.end(), pointers or NOTHING)
        for match in () if is_plain and "[" not in self._text else _DAGGERS.finditer(self._text):
            yield Mark(match.start(), match.end(), NOTHING)
        for match in _HASH.finditer(self._text):
            numbers = tuple(map(int, re.findall(r"\d+", match["inner"])))
            before = self._text[max(0, match.start() - 20) : match.start()]
            if self._are_known(numbers) and not _NUMBER_WORDS_BEFORE.search(before):
                yield Mark(match.start(), match.end(), Pointers(PointerKind.NUMBER, numbers=numbers))

    def _is_power(self, position: int) -> bool:
        """True for the exponent of a unit, a number or a variable: "m²", "10⁶", "x^2"; not behind a year."""
        before = self._text[max(0, position - 16) : position]
        if not before or before[-1].isspace():
            return False
        return _YEAR_BEFORE.search(before) is None and _RAISED_UNIT.search(before) is not None

    def _tags(self) -> Iterator[Mark]:
        if "<" not in self._text and "\\" not in self._text and "$" not in self._text:
            return
        for match in _TAG.finditer(self._text):
            inner = _ANY_TAG.sub(" ", without_links(self._answer[match.start("inner") : match.end("inner")])).strip()
            pointers = self._names.pointers(inner.strip("[]() "))
            tag = match["tag"].lower()
            if pointers and tag in ("em", "i", "small", "span", "a"):
                is_mark = bool(pointers.kinds & _TAGGED) or (tag == "a" and PointerKind.NUMBER in pointers.kinds)
            else:
                is_mark = tag != "sup" or not self._is_power(match.start()) or "," in inner
            if pointers and is_mark:
                yield Mark(match.start(), match.end(), pointers)
        for match in _CITING_TAG.finditer(self._text):
            if pointing := _POINTING.search(match["with"]):
                yield self._of_attributes(match, pointing["name"].lower(), pointing["value"])
        for match in _COHERE.finditer(self._text):
            numbers = tuple(map(int, re.findall(r"\d+", match["inner"]))) if match["closing"] else ()
            yield Mark(match.start(), match.end(), Pointers(PointerKind.NUMBER, from_zero=numbers))
        for match in _LATEX.finditer(self._text):
            pointers = self._names.pointers(match["inner"] or match["power"])
            if not (match["power"] and self._is_power(match.start())):
                yield Mark(match.start(), match.end(), pointers or NOTHING)

    def _of_attributes(self, match: re.Match[str], name: str, value: str) -> Mark:
        """What a tag's attribute points to; it is a mark of the text that it encloses, so it counts where that ends."""
        closing = self._text.find(f"</{match['tag']}>", match.end(), match.end() + 2000)
        end = match.end() if closing < 0 else closing + len(match["tag"]) + 3
        pointers = self._names.pointers(value) or NOTHING
        if name.endswith("index") or name == "indices":
            numbers = map(int, re.findall(r"(?:^|,)\s*(\d+)", value))
            pointers = Pointers(PointerKind.NUMBER, from_zero=tuple(numbers))
        return Mark(closing if closing > match.end() else match.start(), end, pointers)

    def _tokens(self) -> Iterator[Mark]:
        if "cite" not in self._text and "$$" not in self._text:
            return
        for match in _TOKENS.finditer(self._text):
            numbers = [match["counted"]] if match["counted"] else _TURNED.findall(match["turns"] or match["plain"])
            yield Mark(match.start(), match.end(), Pointers(PointerKind.LABEL, from_zero=tuple(map(int, numbers))))


def _shape(text: str) -> str:
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_]+", "a", text))


def _is_function_word(before: str) -> bool:
    match = _WORD_BEFORE.search(before[-40:])
    return match is not None and match[1].lower() in FUNCTION_WORDS
