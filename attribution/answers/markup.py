"""The parts of an answer that a parser should not see, such as markdown and HTML, and the breaks between its blocks.

Inline code is shielded: nothing in it counts as a mark. Fenced code gives one block per line; a fence around text, a
table or JSON is markup. What a model thinks before it answers, and its calls of tools, are no answer and not seen.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from attribeam.attribution.answers.structured_text import structured_text
from attribeam.schemas import CharRange

_HTML_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]*(?:\s[^<>]*)?/?>")
_HTML_TAG_OR_COMMENT = re.compile(_HTML_TAG.pattern + r"|<!--.*?-->", re.DOTALL)
_HTML_ENTITY = re.compile(
    r"&(?:amp|lt|gt|quot|apos|nbsp|ndash|mdash|hellip|[lr][sd]quo|middot|bull|deg|times|euro|#\d{1,6}|#x[0-9a-fA-F]{1,6});"
)
_LINK_END = re.compile(r"\]\([^()\s]*\)")
_LINK_START = re.compile(r"!?\[(?=[^\[\]\n]*\]\([^()\s]*\))")
_TABLE_RULE = re.compile(r"^[ \t]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+[ \t]*(?::?-{2,}:?[ \t]*)?$", re.MULTILINE)
_MARKS = re.compile(
    r"^[ \t]*(?:[-*+•‣▪][ \t]+(?:\[[ xX]\][ \t]+)?|#{1,6}[ \t]+|>+[ \t]*|(?:[-*_][ \t]*){3,}$|={3,}[ \t]*$"
    r"|(?:```|~~~)\w*[ \t]*$)+|[*`]+|~~|__+|\|",
    re.MULTILINE,
)
_LIST_NUMBER = re.compile(r"^[ \t]*(\d{1,2}[.)]|[a-z]\))[ \t]+(?=\S)", re.MULTILINE)
_INLINE_NUMBER = re.compile(r"(?<=[.!?:;])[ \t]+(\d{1,2})[.)][ \t]+(?=[^\W\d_])")
_BLOCK_BREAK = re.compile(
    r"\n(?=[ \t]*(?:\r?\n|[-*+•‣▪][ \t]|#{1,6}[ \t]|>|```|~~~|(?:\*\*|__)?\d{1,2}[.)][ \t]))"  # before a block's mark
    r"|\n(?=[^\n|]*\|)|(?<=\|)[ \t\r]*\n"  # around a table's row
    r"|\n(?=[ \t]*(?:\*\*|__)?[^\W\d_][^\n:.!?*]{0,40}(?:\*\*|__)?:(?:\*\*|__)?[ \t]+\S)"  # before "Monday: closed"
    r"|\n(?=[ \t]*\\item\b)|</(?!(?:a|abbr|b|cite|code|em|i|q|s|small|span|strong|su[bp]|u)>)\w+>(?=\s*<\w)"
    r"|(?<=[.!?:;。！？：；])[ \t\r]*\n"  # after the end of a sentence
    r"|(?<=\n)\n"
    r"|^[ \t]*#{1,6}[ \t][^\n]*\n"  # after a heading
    r"|^[ \t]*(?:(?:[-*+•‣▪]|\d{1,2}[.)])[ \t]+)?(?:[^\w\s*_#|>-]{1,4}[ \t]*)?"
    r"(?:\*\*|__)[^*\n]{1,80}(?:\*\*|__):?[ \t]*\n"  # after a line in bold alone
    r"|</?(?:p|div|br|hr|li|ul|ol|h[1-6]|table|tr|pre|blockquote|script|style)(?:\s[^<>]*)?/?>"
    r"|(?:(?<=^No[.!])|(?<=^Yes[.!]))[ \t]+(?=[^\W\d_])",
    re.MULTILINE,
)


def hide_markup(answer: str, marks: Sequence[CharRange]) -> str:
    """The answer with its ``marks``, markdown, HTML and what is no answer turned to blanks.

    All other code points keep their places.

    Nothing in inline code is a mark. Numbers at the start of a line are marks if at least two lines start with one; a
    lone number is a mark if it is 1, stands beside another mark as in "2. **Mix**", or follows a line that ends with
    punctuation. In a text with such marks, numbers between two sentences of a line are marks, too.
    """
    code = inline_code(answer)
    text = hide_ranges(shield_code(answer, code), marks)
    for unseen in (structured_text(answer).signs, unspoken_ranges(answer)):
        text = hide_ranges(text, unseen)
    text = _hide_html(_TABLE_RULE.sub(_blank, _hide_latex(text)))
    for pattern in (_HTML_ENTITY, _LINK_START, _LINK_END, _MARKS):
        text = pattern.sub(_blank, text)
    numbers = list(_LIST_NUMBER.finditer(text))
    if len(numbers) > 1 or any(_begins_an_item(one, answer) for one in numbers):
        text = _INLINE_NUMBER.sub(_blank, _LIST_NUMBER.sub(_blank, text))
    return restore_code(text, answer, [one for one in code if text[one.char_start : one.char_end].strip()])


def hide_ranges(text: str, ranges: Sequence[CharRange]) -> str:
    """The text with the code points of ascending ranges turned to blanks; white space stays."""
    return replace_ranges(text, ranges, [_blanks(one.of(text)) for one in ranges])


def _hide_html(text: str) -> str:
    """Tags and comments blanked. After the last ``-->`` it looks for no comment; that search would be slow to fail."""
    end = text.rfind("-->") + len("-->") if "-->" in text else 0
    return _HTML_TAG_OR_COMMENT.sub(_blank, text[:end]) + _HTML_TAG.sub(_blank, text[end:])


def block_ranges(answer: str) -> tuple[CharRange, ...]:
    """Paragraphs, list items, headings, table rows and lines of fenced code, ascending, without empty ones.

    A sentence never crosses a block's end; a line break inside a sentence does not end a block.
    """
    text = shield_code(answer, inline_code(answer))
    ends = {match.end() for match in _BLOCK_BREAK.finditer(text)}
    for fence in fenced_code(answer):
        ends.update(place + 1 for place in range(fence.char_start, fence.char_end) if answer[place] == "\n")
    structure = structured_text(answer)
    for one in (*structure.rows, *structure.fields):
        ends.update((one.char_start, one.char_end))
    breaks = sorted({0, len(answer), *ends})
    return tuple(
        CharRange(start, end) for start, end in pairwise(breaks) if start < end and not answer[start:end].isspace()
    )


def _begins_an_item(number: re.Match[str], answer: str) -> bool:
    marked = answer[number.start() : number.end()] != number.group()
    before = answer[: number.start()].rstrip()
    return number.group(1) in ("1.", "1)", "a)") or marked or before[-1:] in tuple(".!?:;")


def _blank(match: re.Match[str]) -> str:
    return _blanks(match.group())


def _blanks(text: str) -> str:
    return "".join(character if character.isspace() else " " for character in text)


_THOUGHT = (
    r"think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratch_?pad|analysis|inner_monologue|tool_?calls?|tool_?use"
    r"|tool_?(?:response|result|output)s?|function_?calls?|function_?results?|invoke|search_query"
)
_UNSPOKEN = re.compile(
    rf"<(?P<tag>{_THOUGHT})\b[^<>]*>.*?(?:</(?P=tag)>|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z)|\[TOOL_CALLS\][^\n]*"
    r"|(?:<\|start\|>\w*)?<\|channel\|>(?!final)\w+[^<]*<\|message\|>.*?(?:<\|(?:end|call|return)\|>|(?=<\|start)|\Z)"
    r"|<｜tool▁calls▁begin｜>.*?(?:<｜tool▁calls▁end｜>|\Z)|(?:<\|start\|>assistant)?(?:<\|channel\|>final)?<\|[a-z_]{3,20}\|>"
    r"|^(?:Thought|Action|Action Input|Observation):(?=.*^(?:Action|Final Answer):).*?(?=^Final Answer:|\Z)",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_THOUGHT_END = re.compile(rf".*?</(?:{_THOUGHT})>", re.DOTALL | re.IGNORECASE)


@lru_cache(maxsize=64)
def unspoken_ranges(answer: str) -> tuple[CharRange, ...]:
    """What a model thinks before it answers, its calls of tools and tokens of its chat format, ascending.

    What is never closed runs to the end, and what was never opened begins with the answer.
    """
    if not any(sign in answer for sign in ("<", "[", "Action:")):
        return ()
    opened = _THOUGHT_END.match(answer)
    first = _UNSPOKEN.search(answer)
    start = opened.end() if opened and not (first and first.start() < opened.end() and first["tag"]) else 0
    found = [CharRange(*match.span()) for match in _UNSPOKEN.finditer(answer, start) if match.end() > match.start()]
    return (CharRange(0, start), *found) if start else tuple(found)


_MATH = re.compile(
    r"\\\(.+?\\\)|\\\[.+?\\\]|\$\$.+?\$\$|\\begin\{(?P<name>(?:equation|align|gather|multline|displaymath|math|cases|array|\w?matrix)\*?)\}.*?\\end\{(?P=name)\}"
    r"|(?<![\\$\w])\$(?=[^\s$])(?:[^$\s]{1,60}|[^$\n]*?[\\^_=+<>][^$\n]*?)(?<=[^\s\\])\$(?![\w$])"
    r"|\\[a-zA-Z]{2,20}\*?(?:\{(?:[^{}\n]|\{[^{}\n]*\}){0,200}\})+|\\item\b",
    re.DOTALL,
)
_LATEX_SIGN = re.compile(
    r"\\(?:text\w*|math(?:rm|bf|it|sf)|boxed|fbox|mbox|emph|operatorname|(?:sub)*section\*?)\s*(?=\{)|\\(?=[%$&#_])"
    r"|\\(?:begin|end)\{\w+\*?\}(?:\{[^{}]*\})?|\\(?:item|left|right|quad|qquad|displaystyle)\b|\\[,;:! ()\[\]\\]"
    r"|[{}$]"
)
_FORMULA = re.compile(r"[\\^_=+<>~*/|&]|(?<![\w'’])(?![aAI])[^\W\d_](?![\w'’])")


def formula_ranges(answer: str) -> tuple[CharRange, ...]:
    """LaTeX that is more than words and numbers, ascending: what has operators, commands or variables."""
    math = _MATH.finditer(answer) if "\\" in answer or "$" in answer else ()
    return tuple(CharRange(*one.span()) for one in math if _FORMULA.search(_LATEX_SIGN.sub(" ", one.group())))


def _hide_latex(text: str) -> str:
    """The text with the signs of LaTeX around words and numbers turned to blanks."""
    if "\\" not in text and "$" not in text:
        return text
    return _MATH.sub(lambda math: _LATEX_SIGN.sub(_blank, math.group()), text)


_LONGEST_INLINE_CODE = 120
_INLINE_CODE = re.compile(rf"(?<!`)(`{{1,2}})(?!`)([^`\n]{{1,{_LONGEST_INLINE_CODE}}})(?<!`)\1(?!`)")
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
    found = []
    for match in _INLINE_CODE.finditer(answer):
        inside = match.group(2)
        start = match.start(2) + len(inside) - len(inside.lstrip())
        end = match.end(2) - len(inside) + len(inside.rstrip())
        if start < end and range_overlapping(CharRange(start, end), fences) is None:
            found.append(CharRange(start, end))
    return tuple(found)


def range_overlapping(chars: CharRange, ranges: Sequence[CharRange]) -> CharRange | None:
    """The first of ascending, disjoint ranges that shares a code point with ``chars``, or None."""
    place = bisect_right(ranges, chars.char_start, key=lambda one: one.char_end)
    return ranges[place] if place < len(ranges) and ranges[place].overlaps(chars) else None


def fenced_code(answer: str) -> tuple[CharRange, ...]:
    """The code blocks between fences, fences included; one that is never closed runs to the end.

    A fence around text, a table or JSON is none, by its name or by what stands in it.
    """
    return tuple(
        CharRange(*match.span())
        for match in (_FENCE.finditer(answer) if "```" in answer or "~~~" in answer else ())
        if not (_NAME_OF_TEXT.fullmatch(match["name"]) or (not match["name"] and _is_text(answer, match)))
    )


def _is_text(answer: str, fence: re.Match[str]) -> bool:
    structure = structured_text(answer)
    inside = CharRange(*fence.span())
    return any(map(inside.overlaps, (*structure.rows, *structure.fields))) or bool(_SENTENCE.search(fence["inside"]))


def shield_code(answer: str, code: Sequence[CharRange]) -> str:
    """The answer with every code point of its inline code turned to "x", so that nothing in it looks like a mark."""
    return replace_ranges(answer, code, ["x" * (one.char_end - one.char_start) for one in code])


def restore_code(text: str, answer: str, code: Sequence[CharRange]) -> str:
    """A text of the answer's length with the answer's inline code put back."""
    return replace_ranges(text, code, [one.of(answer) for one in code])


def replace_ranges(text: str, ranges: Sequence[CharRange], parts: Sequence[str]) -> str:
    """The text with other parts in place of ascending ranges."""
    pieces, place = [], 0
    for one, part in zip(ranges, parts, strict=True):
        pieces += [text[place : one.char_start], part]
        place = one.char_end
    return "".join((*pieces, text[place:]))
