"""The parts of an answer that a parser should not see, such as markdown and HTML, and the breaks between its blocks.

Inline code is shielded: nothing in it counts as a mark. Fenced code gives one block per line; a fence around text, a
table or JSON is markup. What a model thinks before it answers, its calls of tools, and struck-out text are no answer
and not seen.

A table is a run of lines with bars, tabs or, in a code fence that says so, commas; HTML tables have tags. JSON may be
cut off at its end, and may have single quotes.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

from attribeam.attribution.answers.plain_text import INVISIBLE, remembered
from attribeam.schemas import CharRange, ClaimKind

_VISIBLE = re.compile(r"\S")
_HTML_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]*(?:\s[^<>]*)?/?>")
_HTML_TAG_OR_COMMENT = re.compile(_HTML_TAG.pattern + r"|<!--.*?-->", re.DOTALL)
_HTML_ENTITY = re.compile(r"&(?:[a-z]{2,6}|#\d{1,6}|#x[0-9a-fA-F]{1,6});")
_LINK_END = re.compile(r"\]\([^()\s]*\)")
_LINK_START = re.compile(r"!?\[(?=[^\[\]\n]*\]\([^()\s]*\))")
_RULE_ROW = re.compile(r"[ \t>]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+[ \t]*(?::?-{2,}:?[ \t]*)?\r?")
_TABLE_RULE = re.compile(rf"^{_RULE_ROW.pattern}$", re.MULTILINE)
_MARKS = re.compile(
    r"^[ \t]*(?:[-*+•‣▪][ \t]+(?:\[[ xX]\][ \t]+)?|#{1,6}[ \t]+|>+[ \t]*|(?:[-*_][ \t]*){3,}$|={3,}[ \t]*$"
    r"|(?:```|~~~)\w*[ \t]*$)+|[*`]+|~~|__+|\|",
    re.MULTILINE,
)
_LIST_NUMBER = re.compile(r"^[ \t]*(\d{1,2}[.)]|[a-z]\))[ \t]+(?=\S)", re.MULTILINE)
_INLINE_NUMBER = re.compile(r"(?<=[.!?:;])[ \t]+(\d{1,2})[.)][ \t]+(?=[^\W\d_])")
_UNSEEN_AROUND_WORD = re.compile(rf"\x1b\[[\d;]*[A-Za-z]|(?<!\S)[{INVISIBLE}]+|[{INVISIBLE}]+(?!\S)")
_CIRCLED = "①-⑳❶-❿➀-➓"
_COUNTERS = (
    re.compile(r"(?<!\S)\((?P<number>\d{1,2})\)(?=\s+[^\W\d_])"),
    re.compile(r"(?<!\S)(?P<number>\d{1,2})\)(?=\s+[^\W\d_])"),
    re.compile(
        r"^[ \t]*#?(?P<number>\d{1,2})(?:\.\)|[:/\]]|[ \t]+[–—-]|(?:(?<=#.)|(?<=#..))[.)]?)(?=[ \t]+[^\W\d_])",
        re.MULTILINE,
    ),
    re.compile(rf"(?<!\S)(?P<number>\d(?=\ufe0f?\u20e3)|[{_CIRCLED}])\ufe0f?\u20e3?"),
)
"""Marks that number items, also within a line, where those of one kind count from 1."""
_BLOCK_BREAK = re.compile(
    r"\n(?=[ \t]*(?:\r?\n|[-*+•‣▪][ \t]|#{1,6}[ \t]|>|```|~~~"  # before a mark
    r"|(?:\*\*|__)?(?:\d{1,2}\.?[.)]|[a-z]\))[ \t]"
    rf"|\(\d{{1,2}}\)[ \t]|\d\ufe0f?\u20e3|[{_CIRCLED}]"
    r"|[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]\ufe0f?[ \t]))"
    r"|\n(?=[^\n|]*\|)|(?<=\|)[ \t\r]*\n"  # around a table's row
    r"|\n(?=[ \t]*(?:\*\*|__)?[^\W\d_][^\n:.!?*]{0,40}(?:\*\*|__)?:(?:\*\*|__)?[ \t]+\S)"  # before "Monday: closed"
    r"|\n(?=[ \t]*\\item\b)|</(?!(?:a|abbr|b|cite|code|em|i|q|s|small|span|strong|su[bp]|u)>)\w+>(?=\s*<\w)"
    r"|(?<=[.!?:;…。！？：；])[ \t\r]*\n"  # after the end of a sentence
    r"|(?<=\n)\n"
    r"|^[ \t]*#{1,6}[ \t][^\n]*\n"  # after a heading
    r"|^[ \t]*(?:(?:[-*+•‣▪]|\d{1,2}[.)])[ \t]+)?(?:[^\w\s*_#|>-]{1,4}[ \t]*)?"
    r"(?:\*\*|__)[^*\n]{1,80}(?:\*\*|__):?[ \t]*\n"  # after a line in bold alone
    r"|</?(?:p|div|br|hr|li|ul|ol|h[1-6]|table|tr|pre|blockquote|script|style)(?:\s[^<>]*)?/?>"
    r"|(?:(?<=^No[.!])|(?<=^Yes[.!]))[ \t]+(?=[^\W\d_])",
    re.MULTILINE,
)


_ESCAPED_BREAK = re.compile(
    r"(?:(?<=[.!?:;…\"])(?<!(?<!\w)[A-Za-z]:)|(?<=\\n)|(?<=[^\s\\])(?=(?:\\r)?\\n(?:\\n|[^a-z])))(?:\\r)?\\n"
    r"|\\(?=\")|\\u[0-9a-fA-F]{4}"
)


def _unescaped(answer: str) -> str:
    """A text that was escaped once too often, with line breaks for its "\\n" and blanks for backslashes, as long."""
    if "\\" not in answer or "\n" in answer.strip():
        return answer
    return _ESCAPED_BREAK.sub(lambda found: ("\n" if found[0][-1] == "n" else " ").rjust(len(found[0])), answer)


@remembered
def hide_markup(answer: str, marks: tuple[CharRange, ...]) -> str:
    """The answer with its ``marks``, markdown, HTML and what is no answer turned to blanks; the rest keeps its place.

    Nothing in inline code is a mark. Numbers at the start of a line are marks if at least two lines start with one; a
    lone number is a mark if it is 1, stands beside another mark as in "2. **Mix**", or follows a line that ends with
    punctuation. In a text with such marks, numbers between two sentences of a line are marks, too. So are "(1)", "①"
    and the like where they count from 1.
    """
    code = inline_code(answer)
    text = hide_ranges(_unescaped(shield_code(answer, code)), marks)
    for unseen in (structured_text(answer).signs, non_answer_ranges(answer)):
        text = hide_ranges(text, unseen)
    if "\\" in text or "$" in text:
        text = _MATH.sub(lambda math: _LATEX_SIGN.sub(_blank, math.group()), text)
    text = _UNSEEN_AROUND_WORD.sub(_blank, _hide_html(_TABLE_RULE.sub(_blank, text)))
    for pattern in (_HTML_ENTITY, _LINK_START, _LINK_END, _MARKS):
        text = pattern.sub(_blank, text)
    numbers = list(_LIST_NUMBER.finditer(text))
    begins_item = any(
        number[1] in ("1.", "1)", "a)")
        or answer[number.start() : number.end()] != number.group()
        or answer[: number.start()].rstrip()[-1:] in tuple(".!?:;")
        for number in numbers
    )
    if len(numbers) > 1 or begins_item:
        text = _INLINE_NUMBER.sub(_blank, _LIST_NUMBER.sub(_blank, text))
    for counter in _COUNTERS:
        counts = [
            int(unicodedata.numeric(found[-1]) if len(found) == 1 else int(found)) for found in counter.findall(text)
        ]
        if 2 in counts and all(number in (1, before + 1) for before, number in pairwise((0, *counts))):
            text = counter.sub(_blank, text)
    kept = [chars for chars in code if chars.of(text).strip()]
    return replace_ranges(text, kept, [chars.of(answer) for chars in kept])


_GAP, _WIDE_GAP = re.compile(r"(?<=\S) +(?=\S)"), re.compile(r"(?<=\S) {2,}(?=\S)")
_EMPHASIS = " *_`~"


def without_gaps(answer: str, hidden: str) -> tuple[str, str, Sequence[int]]:
    """An answer and the same with ``hidden`` markup, both without the gaps that emphasis and blanks in a row leave.

    "**30** days" becomes "30 days", and "**33**%" "33%". Third is where each code point that is left stands in the
    answer. Line breaks, what leads a line, other markup, and gaps between digits stay.
    """
    removed = bytearray(len(answer))
    has_emphasis = not set(_EMPHASIS[1:]).isdisjoint(answer)
    for gap in (_GAP if has_emphasis else _WIDE_GAP).finditer(hidden):
        start, end = gap.span()
        written = answer[start:end]
        is_between_digits = hidden[start - 1].isdigit() and hidden[end].isdigit()
        if not is_between_digits and not written.strip(_EMPHASIS):
            removed[start:end] = b"\1" * (end - start)
            if " " in written:
                removed[start + written.index(" ")] = 0
    if not any(removed):
        return answer, hidden, range(len(answer))
    kept = [index for index, is_removed in enumerate(removed) if not is_removed]
    return "".join(answer[index] for index in kept), "".join(hidden[index] for index in kept), kept


def hide_ranges(text: str, ranges: Sequence[CharRange]) -> str:
    """The text with the code points of ascending ranges turned to blanks; white space stays."""
    return replace_ranges(text, ranges, [_VISIBLE.sub(" ", chars.of(text)) for chars in ranges])


def _hide_html(text: str) -> str:
    """Tags and comments blanked. After the last ``-->`` it looks for no comment; that search would be slow to fail."""
    end = text.rfind("-->") + len("-->") if "-->" in text else 0
    return _HTML_TAG_OR_COMMENT.sub(_blank, text[:end]) + _HTML_TAG.sub(_blank, text[end:])


@remembered
def block_ranges(answer: str) -> tuple[CharRange, ...]:
    """Paragraphs, list items, headings, table rows and lines of fenced code, ascending, without empty ones.

    A sentence never crosses a block's end; a line break inside a sentence does not end a block.
    """
    text = _unescaped(shield_code(answer, inline_code(answer)))
    ends = {match.end() for match in _BLOCK_BREAK.finditer(text)}
    for fence in fenced_code(answer):
        ends.update(index + 1 for index in range(fence.char_start, fence.char_end) if answer[index] == "\n")
    structure = structured_text(answer)
    for chars in (*structure.rows, *structure.fields):
        ends.update((chars.char_start, chars.char_end))
    breaks = sorted({0, len(answer), *ends})
    return tuple(
        CharRange(start, end) for start, end in pairwise(breaks) if start < end and not text[start:end].isspace()
    )


def _blank(match: re.Match[str]) -> str:
    return _VISIBLE.sub(" ", match.group())


_THOUGHT = (
    r"think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratch_?pad|analysis|inner_monologue|tool_?calls?|tool_?use"
    r"|tool_?(?:response|result|output)s?|function_?calls?|function_?results?|invoke|search_query"
)
_NON_ANSWER = re.compile(
    rf"<(?P<tag>{_THOUGHT})\b[^<>]*>.*?(?:</(?P=tag)>|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z)|\[TOOL_CALLS\][^\n]*"
    rf"|<details\b(?:[^<>]*\btype=[\"']?(?:{_THOUGHT})\b[^<>]*>|[^<>]*>\s*<summary>\s*(?:thinking|thought|reasoning)\b)"
    r".*?(?:</details>|\Z)"
    r"|(?:<\|start\|>\w*)?<\|channel\|>(?!final)\w+[^<]*<\|message\|>.*?(?:<\|(?:end|call|return)\|>|(?=<\|start)|\Z)"
    r"|<｜tool▁calls▁begin｜>.*?(?:<｜tool▁calls▁end｜>|\Z)|<\|(?:im_start|start_header_id)\|>\w+"
    r"|<(?:start|end)_of_turn>(?:model\b)?|\[/?INST\]|(?:<\|start\|>assistant)?(?:<\|channel\|>final)?<\|[a-z_]{3,20}\|>"
    r"|(?<!~)~~(?=[^\s~])[^~\n]{1,300}(?<=\S)~~(?!~)|<(?P<struck>del|s|strike)\b[^<>]*>[^<>]{1,300}</(?P=struck)>"
    r"|^(?:Thought|Action|Action Input|Observation):(?=.*^(?:Action|Final Answer):).*?(?=^Final Answer:|\Z)",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_THOUGHT_END = re.compile(rf".*?</(?:{_THOUGHT})>", re.DOTALL | re.IGNORECASE)


@lru_cache(maxsize=64)
def non_answer_ranges(answer: str) -> tuple[CharRange, ...]:
    """What a model thinks before it answers, calls of tools, tokens of its chat format, struck-out text, ascending.

    What is never closed runs to the end, and what was never opened begins with the answer.
    """
    if not any(sign in answer for sign in ("<", "[", "~~", "Action:", "Thought:")):
        return ()
    opened = _THOUGHT_END.match(answer)
    first = _NON_ANSWER.search(answer)
    start = opened.end() if opened and not (first and first.start() < opened.end() and first["tag"]) else 0
    ranges = [CharRange(*match.span()) for match in _NON_ANSWER.finditer(answer, start) if match.end() > match.start()]
    return (CharRange(0, start), *ranges) if start else tuple(ranges)


_MATH = re.compile(
    r"\\\(.+?\\\)|\\\[.+?\\\]|\$\$.+?\$\$|\\begin\{(?P<name>(?:equation|align|gather|multline|displaymath|math|cases|array|\w?matrix)\*?)\}.*?\\end\{(?P=name)\}"
    r"|(?<![\\$\w])\$(?=[^\s$])(?:[^$\s]{1,60}|[^$\n]*?[\\^_=+<>][^$\n]*?)(?<=[^\s\\])\$(?![\w$])"
    r"|\\[a-zA-Z]{2,20}\*?(?:\{(?:[^{}\n]|\{[^{}\n]*\}){0,200}\})+|\\item\b",
    re.DOTALL,
)
_LATEX_SIGN = re.compile(
    r"(?<=\d)~|\\(?:text\w*|math(?:rm|bf|it|sf)|boxed|fbox|mbox|emph|operatorname|(?:sub)*section\*?)\s*(?=\{)|\\(?=[%$&#_])"
    r"|\\(?:begin|end)\{\w+\*?\}(?:\{[^{}]*\})?|\\(?:item|left|right|quad|qquad|displaystyle)\b|\\[,;:! ()\[\]\\]"
    r"|[{}$]"
)
_FORMULA = re.compile(r"[\\^_=+<>~*/|&]|(?<![\w'’])(?![aAI])[^\W\d_](?![\w'’])")


def formula_ranges(answer: str) -> tuple[CharRange, ...]:
    """LaTeX that is more than words and numbers, ascending: what has operators, commands or variables."""
    math = _MATH.finditer(answer) if "\\" in answer or "$" in answer else ()
    return tuple(CharRange(*match.span()) for match in math if _FORMULA.search(_LATEX_SIGN.sub(" ", match.group())))


_INLINE_CODE = re.compile(r"(?<!`)(`{1,2})(?!`)(?P<code>[^`\n]{1,120})(?<!`)\1(?!`)")
_FENCE = re.compile(
    r"^[ \t]*(```|~~~)[ \t]*(?P<name>[\w+-]*).*?\n(?P<inside>.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_NAME_OF_TEXT = re.compile(
    r"markdown|md|te?xt|plain|plaintext|json[lc5]?|csv|tsv|x?html?|xml|ya?ml|latex|tex|math|answer|output|response|quote"
    r"|table|none",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"^[^\n]*?[A-Z][\w'’-]*,?(?: [\w$€£%'’.,()-]+){3,}[.!?][\"'”’*)]*[ \t]*$", re.MULTILINE)


def inline_code(answer: str) -> tuple[CharRange, ...]:
    """Text between single or double backticks on one line, ascending, without blanks at its edges."""
    fences = fenced_code(answer)
    ranges = (chars for match in _INLINE_CODE.finditer(answer) for chars in _trimmed(match, "code"))
    return tuple(chars for chars in ranges if range_overlapping(chars, fences) is None)


def _trimmed(match: re.Match[str], group: str) -> tuple[CharRange, ...]:
    """The range of a group without white space at its edges; none for an empty one."""
    text = match[group]
    start, end = match.end(group) - len(text.lstrip()), match.start(group) + len(text.rstrip())
    return (CharRange(start, end),) if start < end else ()


def range_overlapping(chars: CharRange, ranges: Sequence[CharRange]) -> CharRange | None:
    """The first of ascending, disjoint ranges that shares a code point with ``chars``, or None."""
    index = bisect_right(ranges, chars.char_start, key=lambda other: other.char_end)
    return ranges[index] if index < len(ranges) and ranges[index].overlaps(chars) else None


def merged_ranges(ranges: Iterable[CharRange], text: str = "") -> tuple[CharRange, ...]:
    """Ascending ranges, those that overlap as one; so are those of a ``text`` with only white space between them."""
    merged: list[tuple[int, int]] = []
    for chars in ranges:
        first, last = merged[-1] if merged else (0, 0)
        if merged and (chars.char_start < last or (text and not text[last : chars.char_start].strip())):
            merged[-1] = first, max(last, chars.char_end)
        else:
            merged.append((chars.char_start, chars.char_end))
    return tuple([CharRange(*bounds) for bounds in merged])


def fenced_code(answer: str) -> tuple[CharRange, ...]:
    """The code blocks between fences, fences included; one that is never closed runs to the end.

    A fence around text, a table or JSON is none, by its name or by what stands in it.
    """
    fences = []
    for match in _FENCE.finditer(answer) if "```" in answer or "~~~" in answer else ():
        fence, structure = CharRange(*match.span()), structured_text(answer)
        is_structured = any(map(fence.overlaps, (*structure.rows, *structure.fields)))
        is_text = _NAME_OF_TEXT.fullmatch(match["name"]) if match["name"] else _SENTENCE.search(match["inside"])
        if not (is_text or (is_structured and not match["name"])):
            fences.append(fence)
    return tuple(fences)


def shield_code(answer: str, code: Sequence[CharRange]) -> str:
    """The answer with every code point of its inline code turned to "x", so that nothing in it looks like a mark."""
    return replace_ranges(answer, code, ["x" * (chars.char_end - chars.char_start) for chars in code])


def replace_ranges(text: str, ranges: Sequence[CharRange], parts: Sequence[str]) -> str:
    """The text with other parts in place of ascending ranges."""
    pieces, last = [], 0
    for chars, part in zip(ranges, parts, strict=True):
        pieces += [text[last : chars.char_start], part]
        last = chars.char_end
    return "".join((*pieces, text[last:]))


@dataclass(frozen=True, slots=True)
class StructuredText:
    """What is structured in an answer; all ranges ascend.

    ``rows`` are those of tables, ``fields`` those of JSON, each from its name to the next one. In them lie the
    disjoint ``parts``: labels (``HEADING``), cells and values (``CLAIM``, or ``TABLE`` for what says too little to be
    judged, such as a check mark). ``labels`` say what each part is about: the label of its row and the head of its
    column, or the name of its field. ``signs`` are no text: the punctuation of JSON and of commas, calls of tools, and
    fields that say something of the answer itself or its sources, such as "confidence".
    """

    rows: tuple[CharRange, ...] = ()
    fields: tuple[CharRange, ...] = ()
    parts: tuple[CharRange, ...] = ()
    kinds: tuple[ClaimKind, ...] = ()
    labels: tuple[tuple[CharRange, ...], ...] = ()
    signs: tuple[CharRange, ...] = ()

    def part_at(self, position: int) -> int | None:
        """The index of the part that a code point lies in."""
        index = bisect_right(self.parts, position, key=lambda part: part.char_start) - 1
        return index if index >= 0 and position < self.parts[index].char_end else None


_Parts = list[tuple[CharRange, ClaimKind, tuple[CharRange, ...]]]

_LINE = re.compile(r"[^\n]+")
_CELL_BEFORE_BAR = re.compile(r"(?:^[ \t]*(?:>[ \t]*)+)?+(?P<cell>(?:\\.|`[^`\n]*`|[^|\n\\])+)", re.MULTILINE)
_CELL_BEFORE_TAB = re.compile(r"(?P<cell>[^\t\n]+)")
_CELL_BEFORE_COMMA = re.compile(r"(?P<cell>(?<=\")[^\"\n]*(?=\")|[^,\n\"]+)")
_COMMA = re.compile(r",(?=(?:[^\"\n]*\"[^\"\n]*\"){0,50}[^\"\n]*$)|\"", re.MULTILINE)
_CSV_FENCE = re.compile(
    r"^[ \t]*(?:```|~~~)csv[ \t]*\n(?P<rows>.*?)(?:^[ \t]*(?:```|~~~)|\Z)", re.MULTILINE | re.DOTALL
)
_HTML_ROW = re.compile(r"<tr\b[^<>]*>(?:(?!<tr\b).)*?(?:</tr>|</table>|\Z)", re.DOTALL | re.IGNORECASE)
_HTML_TABLE = re.compile(r"<table\b", re.IGNORECASE)
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
    r"[ \t*_]*[\w.%/-]{1,40}[ \t.*_]*$"
    r"|[(\[][*_]*(?:confidence|relevance|certainty)(?: (?:score|level|rating))?[ \t]*[:=]"
    r"[ \t*_]*[\w.%/-]{1,20}[*_]*[)\]]"
    r"|<(?P<tag>confidence|relevance|score|certainty)>[^<>\n]{1,40}</(?P=tag)>",
    re.MULTILINE | re.IGNORECASE,
)
_OF_TOOLS = frozenset(["arguments", "tool_input", "action_input", "tool_calls", "function_call", "tool_call"])
_MOST_WORDS_OF_LABEL = 6


@remembered
def structured_text(answer: str) -> StructuredText:
    """The tables and the JSON of an answer."""
    rows, fields, signs = list[CharRange](), list[CharRange](), list[CharRange]()
    parts: _Parts = []
    position = 0
    while start := _JSON_START.search(answer, position) if "{" in answer or "[" in answer else None:
        json = _Json(answer, start.start())
        position = max(json.end, start.end())
        if json.is_json:
            fields += json.fields
            parts += [] if json.is_call else json.parts
            signs += json.fields if json.is_call else json.signs
    for fence in _CSV_FENCE.finditer(answer):
        signs += [CharRange(*sign.span()) for sign in _COMMA.finditer(answer, *fence.span("rows"))]
    taken = bytearray(len(answer))
    for chars in fields:
        taken[chars.char_start : chars.char_end] = b"\1" * (chars.char_end - chars.char_start)
    for table in _tables(answer):
        if table and not any(any(taken[row.char_start : row.char_end]) for row, _ in table):
            rows += [row for row, _ in table]
            parts += _labelled(answer, table)
            for row, _ in table:
                taken[row.char_start : row.char_end] = b"\1" * (row.char_end - row.char_start)
    signs += [CharRange(*line.span()) for line in _LINE_OF_THE_ANSWER.finditer(answer)]
    ranges, kinds, labels = zip(*sorted(parts), strict=True) if parts else ((), (), ())
    return StructuredText(tuple(sorted(rows)), tuple(fields), ranges, kinds, labels, merged_ranges(sorted(signs)))


_Row = tuple[CharRange, list[CharRange]]


def _tables(answer: str) -> Iterator[list[_Row]]:
    """The rows of each table with their cells."""
    lines = [CharRange(*line.span()) for line in _LINE.finditer(answer)]
    for sign, cell in (("|", _CELL_BEFORE_BAR), ("\t", _CELL_BEFORE_TAB)) if "|" in answer or "\t" in answer else ():
        for run in _runs(answer, lines, sign):
            table = [(row, _cells(answer, row, cell)) for row in run if not _RULE_ROW.fullmatch(row.of(answer))]
            if sign == "|" or len({len(cells) for _, cells in table}) == 1:
                yield [row for row in table if row[1]]
    for fence in _CSV_FENCE.finditer(answer):
        inside = [row for row in lines if fence.start("rows") <= row.char_start < fence.end("rows")]
        yield [(row, _cells(answer, row, _CELL_BEFORE_COMMA)) for row in inside]
    html = [CharRange(*row.span()) for row in _HTML_ROW.finditer(answer)] if "<t" in answer.lower() else []
    begins = [table.start() for table in _HTML_TABLE.finditer(answer)] if html else []
    for _, rows in groupby(html, lambda row: bisect_right(begins, row.char_start)):
        yield [(row, _cells(answer, row, _HTML_CELL)) for row in rows]


def _runs(answer: str, lines: Sequence[CharRange], sign: str) -> Iterator[list[CharRange]]:
    """Successive lines with a sign: of bars where one begins with it or a rule stands below; else two at least."""
    run: list[CharRange] = []
    for line in (*lines, None):
        has_sign = line is not None and sign in line.of(answer).strip(" \r").strip("\t")
        follows = bool(run) and line is not None and answer.count("\n", run[-1].char_end, line.char_start) <= 1
        if run and not (follows and has_sign):
            rows = [row.of(answer) for row in run]
            has_bars = any(row.lstrip(" \t>").startswith("|") or _RULE_ROW.fullmatch(row) for row in rows)
            if len(run) > 1 if sign == "\t" else has_bars:
                yield run
            run = []
        if line is not None and has_sign:
            run.append(line)


def _cells(answer: str, row: CharRange, pattern: re.Pattern[str]) -> list[CharRange]:
    """The cells of a row without white space at their edges, and without empty ones."""
    found = pattern.finditer(answer, row.char_start, row.char_end)
    return [chars for cell in found for chars in _trimmed(cell, "cell")]


def _labelled(answer: str, table: Sequence[_Row]) -> _Parts:
    """The cells: those of the first row are labels where it has a rule or is the only one without a digit.

    The first cell of every other row is its label, unless it is long or the only one.
    """
    first, heads = table[0]
    following = answer[first.char_end + 1 : first.char_end + 400].split("\n", 1)[0]
    tags = first.of(answer).lower()
    has_rule = _RULE_ROW.fullmatch(following) is not None or tags.count("<th") > tags.count("<td")
    digits = [any(map(str.isdigit, answer[row[0].char_start : row[-1].char_end])) for _, row in table if row]
    has_heads = len(table) > 1 and (has_rule or (not digits[0] and all(digits[1:])))
    parts: _Parts = []
    for index, (_, cells) in enumerate(table):
        is_labelled = len(cells) > 1 and len(cells[0].of(answer).split()) <= _MOST_WORDS_OF_LABEL
        for column, cell in enumerate(cells):
            if (has_heads and not index) or (is_labelled and cell == cells[0]):
                parts.append((cell, ClaimKind.HEADING, ()))
            else:
                above = heads[column : column + 1] if has_heads and len(heads) == len(cells) else ()
                parts.append((cell, _kind(answer, cell), (*cells[:is_labelled], *above)))
    return parts


def _kind(answer: str, value: CharRange) -> ClaimKind:
    return ClaimKind.TABLE if _SAYS_LITTLE.fullmatch(value.of(answer)) else ClaimKind.CLAIM


_JSON_START = re.compile(r"(?:^|(?<=[\s:=]))(?:\{(?=\s*[\"'][^\n]{0,80}?[\"']\s*:)|\[(?=\s*(?:\{\s*[\"']|\")))")
_JSON_TOKEN = re.compile(
    r"\s*(?:(?P<sign>[{}\[\],:])|(?P<quote>[\"'])(?P<text>(?:\\.|(?!(?P=quote)).)*)(?P<end>(?P=quote)|\Z)"
    r"|(?P<plain>-?\d[\d.eE+-]*|true|false|null|True|False|None))",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


class _Json:
    """What stands from a bracket to ``end``, the one that closes it, or the answer's end; a call of a tool, perhaps.

    Only if ``is_json`` do ``fields``, ``parts`` and ``signs`` hold, as in ``StructuredText``.
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
