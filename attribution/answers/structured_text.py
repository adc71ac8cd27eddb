"""Tables and JSON in an answer: their cells and fields, and the labels that say what these are about.

A table is a run of lines with bars, tabs or, in a code fence that says so, commas; HTML tables have tags. JSON may be
cut off at its end, and may have single quotes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from attribeam.schemas import CharRange, ClaimKind


@dataclass(frozen=True, slots=True)
class StructuredText:
    """What is structured in an answer; all ranges ascend.

    Attributes:
        rows: the rows of tables.
        fields: the fields of JSON, each from its name to the next one.
        parts: labels, cells and values, disjoint, each in a row or field.
        kinds: what each part is: ``HEADING`` for a label, ``CLAIM``, or ``TABLE`` for what says too little to be
            judged, such as a check mark.
        labels: what each part is about: the label of its row and the head of its column, or the name of its field.
        signs: what is no text: the punctuation of JSON and of commas, calls of tools, and fields that say something of
            the answer itself or its sources, such as "confidence".
    """

    rows: tuple[CharRange, ...] = ()
    fields: tuple[CharRange, ...] = ()
    parts: tuple[CharRange, ...] = ()
    kinds: tuple[ClaimKind, ...] = ()
    labels: tuple[tuple[CharRange, ...], ...] = ()
    signs: tuple[CharRange, ...] = ()

    def part_at(self, place: int) -> int | None:
        """The index of the part that a code point lies in."""
        index = bisect_right(self.parts, place, key=lambda one: one.char_start) - 1
        return index if index >= 0 and place < self.parts[index].char_end else None


_Parts = list[tuple[CharRange, ClaimKind, tuple[CharRange, ...]]]

_LINE = re.compile(r"[^\n]+")
_RULE = re.compile(r"[ \t>]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+[ \t]*(?::?-{2,}:?[ \t]*)?\r?")
_CELL_BEFORE_BAR = re.compile(r"(?P<cell>(?:\\.|`[^`\n]*`|[^|\n\\])+)")
_CELL_BEFORE_TAB = re.compile(r"(?P<cell>[^\t\n]+)")
_CELL_BEFORE_COMMA = re.compile(r"(?P<cell>(?<=\")[^\"\n]*(?=\")|[^,\n\"]+)")
_COMMA = re.compile(r",(?=(?:[^\"\n]*\"[^\"\n]*\"){0,50}[^\"\n]*$)|\"", re.MULTILINE)
_CSV_FENCE = re.compile(
    r"^[ \t]*(?:```|~~~)csv[ \t]*\n(?P<rows>.*?)(?:^[ \t]*(?:```|~~~)|\Z)", re.MULTILINE | re.DOTALL
)
_HTML_ROW = re.compile(r"<tr\b[^<>]*>(?:(?!<tr\b).)*?(?:</tr>|</table>|\Z)", re.DOTALL | re.IGNORECASE)
_HTML_CELL = re.compile(r"<(?P<tag>t[dh])\b[^<>]*>(?P<cell>.*?)(?=</?t[dhr]\b|</table>|\Z)", re.DOTALL | re.IGNORECASE)
_SAYS_LITTLE = re.compile(r"\W*(?:true|false|yes|no|null|none|n/?a|x|not specified|unknown)?\W*", re.IGNORECASE)
_OF_THE_ANSWER = re.compile(
    r"(?:.*[_\s-])?(?:id|ids|uuid|key|page|pages|page_?numbers?|scores?|confidence|sources?|citations?|references?|urls?)"
    r"|\w+(?:Ids?|Key|Pages?|Scores?|Confidence|Sources?|Citations?|References?|Urls?)"
    r"|relevance|probability|cites?|cited|refs?|links?|uri|href|docs?|documents?|passages?|chunks?|files?|file_?names?"
    r"|context|index|indices|tokens|answerable|is_?answered|timestamp|created_?at|follow_?ups?|follow_?up_?questions"
    r"|thoughts?|reasoning|rationale|question|query",
    re.IGNORECASE,
)
_LINE_OF_THE_ANSWER = re.compile(
    r"^[ \t>*_-]*(?:(?:confidence|relevance)(?: (?:score|level|rating))?|(?:\w+ )?ID|(?:page|chunk)s?)[*_]*[ \t]*[:=]"
    r"[ \t*_]*[\w.%/-]{1,40}[ \t.*_]*$",
    re.MULTILINE | re.IGNORECASE,
)
_OF_TOOLS = frozenset(["arguments", "tool_input", "action_input", "tool_calls", "function_call", "tool_call"])
_MOST_WORDS_OF_LABEL = 6


@lru_cache(maxsize=64)
def structured_text(answer: str) -> StructuredText:
    """The tables and the JSON of an answer."""
    rows: list[CharRange] = []
    fields: list[CharRange] = []
    parts: _Parts = []
    signs: list[CharRange] = []
    for found in _all_json(answer):
        fields += found.fields
        parts += [] if found.is_call else found.parts
        signs += found.fields if found.is_call else found.signs
    for fence in _CSV_FENCE.finditer(answer):
        signs += [CharRange(*sign.span()) for sign in _COMMA.finditer(answer, *fence.span("rows"))]
    for table in _tables(answer):
        if table and not any(row.overlaps(other) for row, _ in table for other in (*fields, *rows)):
            rows += [row for row, _ in table]
            parts += _labelled(answer, [cells for _, cells in table], has_rule=_has_rule(answer, table))
    signs += [CharRange(*line.span()) for line in _LINE_OF_THE_ANSWER.finditer(answer)]
    parts.sort()
    return StructuredText(
        tuple(sorted(rows)),
        tuple(fields),
        tuple(chars for chars, _, _ in parts),
        tuple(kind for _, kind, _ in parts),
        tuple(labels for _, _, labels in parts),
        _disjoint(signs),
    )


def _disjoint(ranges: Sequence[CharRange]) -> tuple[CharRange, ...]:
    """Ascending, those that overlap as one."""
    joined: list[CharRange] = []
    for one in sorted(ranges):
        if joined and one.char_start < joined[-1].char_end:
            joined[-1] = CharRange(joined[-1].char_start, max(one.char_end, joined[-1].char_end))
        else:
            joined.append(one)
    return tuple(joined)


# Tables

_Row = tuple[CharRange, list[CharRange]]


def _tables(answer: str) -> Iterator[list[_Row]]:
    lines = [CharRange(*line.span()) for line in _LINE.finditer(answer)]
    for sign, cell in (("|", _CELL_BEFORE_BAR), ("\t", _CELL_BEFORE_TAB)) if "|" in answer or "\t" in answer else ():
        for run in _runs(answer, lines, sign):
            table = [(row, _cells(answer, row, cell)) for row in run if not _RULE.fullmatch(row.of(answer))]
            if sign == "|" or len({len(cells) for _, cells in table}) == 1:
                yield [row for row in table if row[1]]
    for fence in _CSV_FENCE.finditer(answer):
        inside = [row for row in lines if fence.start("rows") <= row.char_start < fence.end("rows")]
        yield [(row, _cells(answer, row, _CELL_BEFORE_COMMA)) for row in inside]
    html = [CharRange(*row.span()) for row in _HTML_ROW.finditer(answer)] if "<t" in answer.lower() else []
    if html:
        yield [
            (
                row,
                [
                    inner
                    for one in _HTML_CELL.finditer(answer, *_span(row))
                    if (inner := _trimmed(answer, one.span("cell")))
                ],
            )
            for row in html
        ]


def _span(chars: CharRange) -> tuple[int, int]:
    return chars.char_start, chars.char_end


def _runs(answer: str, lines: Sequence[CharRange], sign: str) -> Iterator[list[CharRange]]:
    """Successive lines with a sign: of bars where one begins with it or a rule stands below; else two at least."""
    run: list[CharRange] = []
    for line in (*lines, None):
        text = line.of(answer).strip(" \r") if line else ""
        follows = bool(run) and line is not None and answer.count("\n", run[-1].char_end, line.char_start) <= 1
        if run and not (follows and sign in text.strip("\t")):
            is_table = len(run) > 1 if sign == "\t" else any(_begins_table(one.of(answer)) for one in run)
            if is_table:
                yield run
            run = []
        if line is not None and sign in text.strip("\t"):
            run.append(line)


def _begins_table(line: str) -> bool:
    return line.lstrip(" \t>").startswith("|") or _RULE.fullmatch(line) is not None


def _has_rule(answer: str, table: Sequence[_Row]) -> bool:
    """Whether the first row has a rule below it, or cells of a heading in HTML."""
    first = table[0][0]
    following = answer[first.char_end + 1 : first.char_end + 400].split("\n", 1)[0]
    return _RULE.fullmatch(following) is not None or "<th" in first.of(answer).lower()


def _cells(answer: str, row: CharRange, pattern: re.Pattern[str]) -> list[CharRange]:
    found = (_trimmed(answer, cell.span("cell")) for cell in pattern.finditer(answer, *_span(row)))
    return [cell for cell in found if cell is not None]


def _trimmed(answer: str, span: tuple[int, int]) -> CharRange | None:
    text = answer[slice(*span)]
    start, end = span[0] + len(text) - len(text.lstrip()), span[1] - len(text) + len(text.rstrip())
    return CharRange(start, end) if start < end else None


def _labelled(answer: str, table: Sequence[Sequence[CharRange]], *, has_rule: bool) -> _Parts:
    """The cells: those of the first row are labels where it has a rule or is the only one without a digit.

    The first cell of every other row is its label, unless it is long or the only one.
    """
    digits = [any(map(str.isdigit, answer[cells[0].char_start : cells[-1].char_end])) for cells in table if cells]
    has_heads = len(table) > 1 and (has_rule or (not digits[0] and all(digits[1:])))
    found: _Parts = []
    for row, cells in enumerate(table):
        label = _label_of(answer, cells)
        for column, cell in enumerate(cells):
            if (has_heads and not row) or cell == label:
                found.append((cell, ClaimKind.HEADING, ()))
            else:
                heads = table[0][column : column + 1] if has_heads and len(table[0]) == len(cells) else ()
                found.append((cell, _kind(answer, cell), (*((label,) if label else ()), *heads)))
    return found


def _label_of(answer: str, cells: Sequence[CharRange]) -> CharRange | None:
    return cells[0] if len(cells) > 1 and len(cells[0].of(answer).split()) <= _MOST_WORDS_OF_LABEL else None


def _kind(answer: str, value: CharRange) -> ClaimKind:
    return ClaimKind.TABLE if _SAYS_LITTLE.fullmatch(value.of(answer)) else ClaimKind.CLAIM


# JSON

_JSON_START = re.compile(r"(?:^|(?<=[\s:=]))(?:\{(?=\s*[\"'][^\n]{0,80}?[\"']\s*:)|\[(?=\s*(?:\{\s*[\"']|\")))")
_JSON_TOKEN = re.compile(
    r"\s*(?:(?P<sign>[{}\[\],:])|(?P<quote>[\"'])(?P<text>(?:\\.|(?!(?P=quote)).)*)(?P<end>(?P=quote)|\Z)"
    r"|(?P<plain>-?\d[\d.eE+-]*|true|false|null|True|False|None))",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


def _all_json(answer: str) -> Iterator[_Json]:
    place = 0
    while (start := _JSON_START.search(answer, place) if "{" in answer or "[" in answer else None) is not None:
        found = _Json(answer, start.start())
        if found.is_json:
            yield found
        place = max(found.end, start.end())


class _Json:
    """What stands from a bracket to the one that closes it, or to the answer's end.

    Attributes:
        is_json: whether it is JSON; ``fields``, ``parts`` and ``signs`` hold only then, as in ``StructuredText``.
        is_call: whether it calls a tool.
        end: how far it was read.
    """

    def __init__(self, answer: str, start: int) -> None:
        self._answer = answer
        self.parts: _Parts = []
        self.signs: list[CharRange] = []
        self._begins: list[int] = []
        self._unread: list[int] = []
        self._name: tuple[CharRange, ...] = ()
        self.end = start
        self.is_call = False
        self.is_json = self._read()
        ends = dict(pairwise((*self._begins, self.end)))
        self.fields = [CharRange(*pair) for pair in ends.items()]
        self.signs += [CharRange(start, ends[start]) for start in self._unread]

    def _read(self) -> bool:
        """Read the tokens; ``path`` holds for each open bracket whether its values are text and have names."""
        path: list[tuple[bool, bool]] = []
        is_text, named = True, False
        while (token := _JSON_TOKEN.match(self._answer, self.end)) is not None:
            self.end = token.end()
            self.signs += [CharRange(*token.span(name)) for name in ("sign", "quote", "end") if token[name]]
            match token["sign"]:
                case "{" | "[" as sign:
                    path.append((is_text, sign == "{"))
                    named = False
                case "}" | "]":
                    path.pop()
                    named = False
                    if not path:
                        break
                case ",":
                    is_text, named = path[-1][0], False
                case None:
                    is_name = path[-1][1] and not named
                    if is_name:
                        is_text = path[-1][0] and not _OF_THE_ANSWER.fullmatch(token["text"] or "")
                        self.is_call |= token["text"] in _OF_TOOLS
                    self._add(token, is_name=is_name, is_text=is_text, begins=not named)
                    named = is_name
        is_complete = not path or not self._answer[self.end :].strip(" \t\r\n`")
        return bool(self._begins) and is_complete

    def _add(self, token: re.Match[str], *, is_name: bool, is_text: bool, begins: bool) -> None:
        start, end = token.span("text") if token["quote"] else token.span("plain")
        if begins:
            self._begins.append(token.start("quote") if token["quote"] else start)
            if not is_text:
                self._unread.append(self._begins[-1])
        inside = re.compile(r"_") if is_name else _ESCAPE
        self.signs += [CharRange(*sign.span()) for sign in inside.finditer(self._answer, start, end)]
        if is_text and start < end:
            chars = CharRange(start, end)
            kind = ClaimKind.HEADING if is_name else _kind(self._answer, chars)
            self.parts.append((chars, kind, () if is_name else self._name))
        if is_name:
            self._name = (CharRange(start, end),) if start < end else ()
