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
from itertools import chain, zip_longest
from unicodedata import numeric

from attribeam.attribution.answers.citation_pointers import LEAD, SOURCE_WORDS, PassageNames, PointerKind, Pointers
from attribeam.attribution.answers.markup import fenced_code, inline_code, shield_code
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS
from attribeam.schemas import CharRange, Passage


@dataclass(frozen=True, slots=True)
class CitationMark:
    """One mark.

    Attributes:
        chars: where it stands in the answer.
        passages: the passages of the row that it names, counted from 0; none where it names no passage of it.
        closes: True for a line, sentence or list of sources, which stands for all before it that has no other mark.
    """

    chars: CharRange
    passages: tuple[int, ...] = ()
    closes: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    end: int
    pointers: Pointers
    style: str = ""

    @property
    def kinds(self) -> PointerKind:
        return self.pointers.kinds


_SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_NOTHING = Pointers(PointerKind.VOID)
_BETWEEN_MARKS = re.compile(r"[ \t]*(?:[,;&–-]|and\b|und\b)[ \t]*")
_CLOSING = ("source", "list", "line")
_ALWAYS = (PointerKind.NUMBER, PointerKind.LABEL)
_CERTAIN = PointerKind.SOURCE | PointerKind.VOID
_MOST_CODE_POINTS = 300
_URL_IN_LINK = r"\((?P<url>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:[ \t]+\"[^\"\n]*\")?\)"
_SQUARE = re.compile(
    rf"!?\[(?P<inner>\[[^\[\]\n]{{1,200}}\](?:\([^()\s]{{0,300}}\))?|[^\[\]\n]{{1,200}})\](?:{_URL_IN_LINK}|\[(?P<reference>(?!\^?[\d{_SUPERSCRIPT}])[^\[\]\n]{{1,60}})\])?"
    r"|［(?P<wide>[^［］\n]{1,100})］|〔(?P<shell>[^〔〕\n]{1,100})〕|⟦(?P<double>[^⟦⟧\n]{1,100})⟧"
)
_ROUND = re.compile(r"[(（](?P<inner>(?:[^()（）\n]|\((?:[^()\n]|\([^()\n]{0,100}\)){0,300}\)){1,300})[)）]")
_WIDE = re.compile(r"【(?P<inner>[^【】\n]{1,120})】|〖(?P<other>[^〖〗\n]{1,100})〗")
_QUOTES = re.compile(r"[「‹«](?P<inner>[^「」‹›«»\n]{1,40})[」›»]")
_BRACES = re.compile(r"\{\{(?P<inner>[^{}\n]{1,100})\}\}|\{(?P<single>[^{}\n]{1,60})\}")
_ANGLES = re.compile(r"<{1,2}\|?(?P<inner>[^\s<>|/](?:[^<>|\n]{0,100}[^\s<>|])?)\|?>{1,2}")
_TAG = re.compile(
    r"<(?P<tag>sup|cite|cit|citation|ref|reference|sources?|src|doc|document|passage|chunk|footnote|fn|small|em|i|a|span)\b(?P<with>[^<>]*)>"
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
    r":contentReference\[oaicite:(?P<oaicite>\d+)\](?:\{index=\d+\})?"
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
    rf"|[⁽⁺]?[{_SUPERSCRIPT}]+(?:[\s,⁻˒’‚ʼ‐⸴ᐟ·–-]{{1,2}}[{_SUPERSCRIPT}]+)*⁾?(?![\w^])"
    r"|\^\[?(?P<caret>\d{1,2}(?:,\s?\d{1,2})*)\]?\^?(?!\w)"
    r"|\^\{(?P<braced>\[?\d{1,2}(?:,\s?\d{1,2})*\]?)\}(?!\w)"
)
_DAGGERS = re.compile(r"(?<=[\w.,;!?)])\s?[†‡]+\d{0,2}(?=\s|[.,;!?]|$)|(?<=[\w.,;!?)])\[[a-z]\](?![\w(])")
_HASH = re.compile(
    r"(?<=[\w.!?)%°])[ \t]+(?:\\?[#*@→↗]|ref\.?\s)\s?(?P<inner>\d{1,3}(?:,\s?[#*]?\d{1,3})*)(?=\s*(?:[.,;!?]|\n|$))"
)
_RAISED_UNIT = re.compile(
    r"(?:(?<![^\W\d_])[^\W\d_]{1,2}|[\d)\]}|µ]|(?<![^\W\d_])(?:km|cm|mm|dm|nm|hm|ft|yd|mi|in|sec|s|inch(?:es)?|foot|feet|yards?|miles?"
    r"|met(?:er|re)s?|(?:centi|kilo|milli)met(?:er|re)s?|seconds?|chi|log|sin|cos|tan|sigma|lambda|theta|pi|eta|rho"
    r"|square|cubic))$",
    re.IGNORECASE,
)
_YEAR_BEFORE = re.compile(r"(?<!\d)(?:19|20)\d\d$")
_DIGITS = str.maketrans(_SUPERSCRIPT, "0123456789")

_ENDS = re.compile(r"[\s\"”’»*_)]*(?:[.!?;:,。！？；，、]|$|[\[【{<(†‡]|[¹²³])|[ \t*_]*\n")
_SENTENCE_ENDS = re.compile(r"[\s\"”’»*_)\]】]*(?:[.!?;。！？；]|$|[\[【{(†‡]|[¹²³])|[ \t*_]*\n|\s+[A-Z]")
_WORD_BEFORE = re.compile(r"([^\W_]+(?:['’-][^\W_]+)*)[\s\"”’»*_]*$")
_MATHS_BEFORE = re.compile(
    r"(?:\b(?:interval|range|ranges|array|list|vector|matrix|tuple|points?|coordinates?|scale|domain|set|index|values?)"
    r"|[∈=∪]|\w\(|(?<!\w)(?-i:[b-z]))\s*$",
    re.IGNORECASE,
)
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

_LABEL = (
    rf"(?:(?:primary|main|original|cited|information|data|my|the|all)\s+)?(?:{SOURCE_WORDS})(?:\(s\))?"
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
_SENTENCE_STOP = re.compile(r"[.!?](?=\s+[A-Z\[(]|\s*$)")
_HEADING = re.compile(
    rf"^[ \t#>*_=📚🔗📄📖-]{{0,20}}+(?:\d+[.)][ \t]*)?(?:(?:{_LABEL}|bibliograph(?:y|ie)|bibliograf[íi]a|works cited"
    rf"|footnotes?|endnotes?|literatur(?:verzeichnis)?|quellenverzeichnis|einzelnachweise|{_MORE})"
    r"|(?P<weak>notes?|documents?|links?|anmerkungen))[ \t]*[*_:：]*[ \t]*[:：]?[*_]*[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_RULE_LINE = re.compile(r"[ \t]*(?:[-*_=—][ \t]*){3,}$")
_ITEM = re.compile(
    r"[ \t]*(?:[-*+•‣▪–][ \t]+|(?P<number>\[\^?\w{1,12}\^?\]:?|【\d+】|\(?\d{1,3}[.):\]]"
    rf"|[{_SUPERSCRIPT}]+|\d{{1,3}}(?=[ \t]+\S)|\^\d{{1,3}}:?)[ \t]*)(?P<rest>.*)$"
)
_DEFINITION = re.compile(r"^[ \t]*\[\^?(?P<number>[\w.-]{1,30})\]:[ \t]+(?P<rest>[^\n]+)$", re.MULTILINE)
_LINE = re.compile(r"^[^\n]*\S[^\n]*$", re.MULTILINE)
_TITLE_WORD = re.compile(r"[^\W\d_][\w'’&-]*")
_MOST_WORDS_OF_TITLE = 14
_TRAILING = re.compile(
    r"(?:(?<=[.!?])[ \t]+|(?<=\S)[ \t]{1,3}[—–-]{1,2}[ \t]+|^[ \t]{0,8}[—–][ \t]*)(?P<inner>[^\n]{3,160})$",
    re.MULTILINE,
)
_ASIDE = re.compile(
    r"(?<=[^\s.!?])[ \t]{1,3}(?:[—–][ \t]+|[📄📎🔗📚→]\ufe0f?[ \t]*)(?P<inner>(?!at\b)[^\n—–📄📎🔗📚→]{3,160}?)"
    r"(?=[.!?](?:\s+[A-Z]|\s*$)|$)",
    re.MULTILINE,
)
_LINKS = re.compile(
    r"!?\[([^\[\]\n]{0,200})\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:[ \t]+\"[^\"\n]*\")?\)|<(https?://[^\s<>]+)>"
)
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
_PLAIN = PointerKind.FILE | PointerKind.ID | PointerKind.ADDRESS | PointerKind.LABEL | PointerKind.AUTHOR
"""What is a source in a line of its own, or behind a full stop, without a word that says so."""


def citation_marks(answer: str, passages: Sequence[Passage] = ()) -> tuple[CitationMark, ...]:
    """The marks of an answer, ascending and disjoint.

    Numbers count from 1, or from 0 in an answer that cites a 0; where the answer lists its sources by number, its own
    list says what a number means. Nothing in code is a mark, and an answer that would be nothing but marks has none
    apart from those that say "source": it may be what was asked for.
    """
    return _Marks(answer, PassageNames(passages)).found()


class _Marks:
    def __init__(self, answer: str, names: PassageNames) -> None:
        self._answer = answer
        self._names = names
        code = sorted((*inline_code(answer), *fenced_code(answer)))
        shielded = shield_code(answer, code) if code else answer
        self._text = (
            "".join("\n" if was == "\n" else now for was, now in zip(answer, shielded, strict=True)) if code else answer
        )

    def found(self) -> tuple[CitationMark, ...]:
        marks = self._disjoint(self._all())
        visible = list(self._answer)
        for one in marks:
            visible[one.start : one.end] = " " * (one.end - one.start)
        if not any(map(str.isalnum, visible)):
            marks = [
                one for one in marks if one.style in ("source", "list") or one.kinds in _ALWAYS or one.kinds & _CERTAIN
            ]
        marks = [self._reach(one, after) for one, after in zip_longest(marks, marks[1:])]
        marks = [*chain.from_iterable(self._with_surroundings([*run]) for run in _runs(marks))]
        own = {key: value for one in self._lists for key, value in one.items()}
        from_zero = any(0 in one.pointers.numbers for one in marks)
        return tuple(
            CitationMark(
                CharRange(one.start, one.end),
                self._passages(one.pointers, own, from_zero=from_zero),
                one.style in _CLOSING,
            )
            for one in marks
        )

    def _reach(self, one: _Found, following: _Found | None) -> _Found:
        """The mark with a comma or the like between it and the next one."""
        joined = following and _BETWEEN_MARKS.fullmatch(self._answer, one.end, following.start)
        return replace(one, end=joined.end()) if joined else one

    def _with_surroundings(self, run: list[_Found]) -> list[_Found]:
        """Marks that follow each other, with what stands around them all."""
        start, end = self._grown(run[0].start, run[-1].end)
        run[0] = replace(run[0], start=start)
        run[-1] = replace(run[-1], end=end)
        return run

    def _grown(self, start: int, end: int) -> tuple[int, int]:
        """With the brackets, tags and emphasis that hold the mark and what leads to it: "(see also [2])"."""
        while True:
            before, found = self._text[max(0, start - _MOST_AROUND) : start], None
            for opening, closing in _AROUND:
                opened = opening.search(before)
                if opened is None:
                    continue
                found = re.compile(closing.replace("NAME", opened.groupdict().get("name", ""))).match(self._text, end)
                if found:
                    start, end = start - (len(before) - opened.start()), found.end()
                    break
            if not found:
                break
        return start, end

    def _passages(self, pointers: Pointers, own: dict[str, Pointers], *, from_zero: bool) -> tuple[int, ...]:
        numbered: list[int] = []
        for number in pointers.numbers:
            listed = own.get(str(number))
            if listed is not None and listed.named:
                numbered += listed.named
            else:
                numbered.append(number if from_zero else number - 1)
        places = pointers.named or (*pointers.from_zero, *numbered)
        return tuple(dict.fromkeys(one for one in places if 0 <= one < self._names.count))

    @staticmethod
    def _disjoint(found: Sequence[_Found]) -> list[_Found]:
        """Ascending; of marks that overlap the one that begins first, the longer one of two that begin together."""
        kept: list[_Found] = []
        for one in sorted(found, key=lambda mark: (mark.start, -mark.end)):
            if not kept or one.start >= kept[-1].end:
                kept.append(one)
        return kept

    def _all(self) -> list[_Found]:
        self._lists: list[dict[str, Pointers]] = []
        found = [*self._source_lists(), *self._source_sentences(), *self._tokens(), *self._tags(), *self._raised()]
        return [*found, *self._brackets(), *self._lines(), *self._trailing()]

    # Brackets

    def _brackets(self) -> list[_Found]:
        if not any(mark in self._text for mark in "[(【{<［〔⟦（〖「‹«"):
            return []
        candidates = [
            *self._candidates(_SQUARE, "square", self._is_square_mark),
            *self._candidates(_WIDE, "wide", lambda *_: True),
            *self._candidates(_QUOTES, "quotes", lambda one, _: one.kinds in _ALWAYS and self._ends(one)),
            *self._candidates(_BRACES, "braces", self._is_braces_mark),
            *self._candidates(_ANGLES, "angles", self._is_angles_mark),
            *self._candidates(_ROUND, "round", self._is_round_mark),
        ]
        shapes = Counter(_shape(self._answer[one.start : one.end]) for one in candidates if one.style == "perhaps")
        return [
            self._with_file_behind(one)
            for one in candidates
            if one.style != "perhaps" or shapes[_shape(self._answer[one.start : one.end])] > 1
        ]

    def _candidates(
        self, pattern: re.Pattern[str], style: str, is_mark: Callable[[_Found, str], bool | None]
    ) -> Iterator[_Found]:
        """Those of a kind of bracket that are marks; ``is_mark`` gives None for one that must have a twin."""
        place = 0
        while (match := pattern.search(self._text, place)) is not None:
            inner = next(
                (match[name] for name in match.groupdict() if name not in ("url", "reference") and match[name]), ""
            )
            start = match.start() + match.group().index(inner)
            inner = self._answer[start : start + len(inner)]
            pointers = self._pointers_of_bracket(match, inner)
            found = None if pointers is None else _Found(match.start(), match.end(), pointers, style)
            verdict = False if found is None else is_mark(found, inner)
            if found is not None and verdict is not False:
                yield found if verdict else replace(found, style="perhaps")
                place = match.end()
            else:
                place = match.start() + 1

    def _pointers_of_bracket(self, match: re.Match[str], inner: str) -> Pointers | None:
        groups = match.groupdict()
        url, text = groups.get("url"), inner if match.re is _ROUND else inner.strip("[]")
        pointers = self._names.pointers(_without_links(text.translate(_DIGITS)))
        if pointers is None and match.re is _SQUARE and _FOOTNOTE.fullmatch(text):
            pointers = self._names.pointers(text[1:]) or _NOTHING
        if url is None:
            links = [one for one in _LINKS.finditer(text) if not _is_image(one)]
            if links and not _LINKS.sub("", text).strip(" ,;|"):
                linked = dict.fromkeys(index for one in links for index in self._link_passages(one))
                return Pointers(PointerKind.ADDRESS | PointerKind.SOURCE, tuple(linked))
            if match.re is _BRACES and match["inner"] and _CITE_WORD.fullmatch(text):
                return _NOTHING
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

    def _link_passages(self, link: re.Match[str]) -> tuple[int, ...]:
        for part in (link[2] or link[3], link[1] or ""):
            pointers = self._names.pointers(part)
            if pointers is not None and (pointers.named or pointers.numbers):
                numbers = (number - 1 for number in pointers.numbers)
                return pointers.named or tuple(one for one in numbers if 0 <= one < self._names.count)
        return ()

    def _is_square_mark(self, one: _Found, inner: str) -> bool | None:
        before, plain = self._text[: one.start], inner.strip("[] ").translate(_DIGITS)
        kinds = one.kinds
        if PointerKind.ADDRESS in kinds and self._answer[one.start : one.end].endswith(")"):
            without_address = kinds & ~PointerKind.ADDRESS
            return without_address != PointerKind.TITLE or (self._ends(one) and not _is_function_word(before))
        if kinds == PointerKind.NUMBER:
            numbers = re.findall(r"\d+", plain)
            if _MATHS_BEFORE.search(before[-20:]) or (len(numbers) > 1 and _EQUALS_BEFORE.search(before[-20:])):
                return False
            is_year = any(re.fullmatch(r"1[5-9]\d\d|20\d\d", number) for number in numbers)
            return not is_year and (len(max(numbers, key=len)) <= 3 or bool(one.pointers.named) or self._ends(one))
        if kinds == PointerKind.TITLE:
            behind = self._text[one.end : one.end + 2].strip()
            return not (behind[:1].islower() or behind[:1].isdigit()) or not before.strip()
        if kinds == PointerKind.TOKEN and not one.pointers.named:
            if "`" in inner or not _STARTS_WITH_LETTER.match(plain):
                return False
            if _FORMULA.fullmatch(plain) and not (one.pointers.numbers and self._ends(one) and len(plain) < 4):
                return False
            return not self._names.has_in_text(plain) or bool(one.pointers.numbers)
        return True

    def _is_braces_mark(self, one: _Found, _inner: str) -> bool:
        is_double = self._text.startswith("{{", one.start)
        if is_double:
            return True
        if one.kinds == PointerKind.NUMBER:
            return (
                self._ends(one)
                and self._are_known(one.pointers.numbers)
                and not _MATHS_BEFORE.search(self._text[max(0, one.start - 20) : one.start])
            )
        return one.kinds != PointerKind.TITLE and (one.kinds != PointerKind.TOKEN or bool(one.pointers.numbers))

    def _is_angles_mark(self, one: _Found, inner: str) -> bool:
        if one.kinds == PointerKind.ADDRESS:
            return self._is_address_mark(one, inner)
        if PointerKind.TOKEN in one.kinds:
            return bool(one.pointers.numbers or one.pointers.named)
        return one.kinds != PointerKind.NUMBER or self._are_known(one.pointers.numbers)

    def _is_round_mark(self, one: _Found, inner: str) -> bool | None:
        kinds, named = one.kinds, one.pointers.named
        if self._text[: one.start].endswith("]"):
            return False
        if kinds & _CERTAIN:
            return True
        before = self._text[max(0, one.start - 60) : one.start]
        if kinds == PointerKind.NUMBER:
            return self._is_number_mark(one, before)
        if PointerKind.LABEL in kinds:
            if _WEAK_LABEL.match(inner) and not named:
                return self._ends(one) and self._are_known(one.pointers.numbers) and not self._names.has_in_text(inner)
            return bool(named) or not _ID_LABEL.match(inner) or self._ends(one)
        if PointerKind.ID in kinds:
            return not _OFFERED_BEFORE.search(before) or (self._ends(one) and not self._names.has_in_text(inner))
        if self._names.has_in_text(inner):
            return None if kinds == PointerKind.TITLE and self._ends(one) and not _is_function_word(before) else False
        if kinds == PointerKind.TITLE:
            return self._ends(one) and not _is_function_word(before)
        if PointerKind.ADDRESS in kinds:
            return self._is_address_mark(one, inner)
        if PointerKind.FILE in kinds:
            return not _OFFERED_BEFORE.search(before)
        if PointerKind.PLACE in kinds:
            return not _OTHER_PLACE.fullmatch(inner) or bool(named)
        if PointerKind.AUTHOR in kinds:
            is_certain = (
                bool(named) or len(re.findall(r"(?:19|20)\d\d|n\.d\.", inner)) > 1 or _SEVERAL_AUTHORS.search(inner)
            )
            return False if not self._ends(one) else True if is_certain else None
        if named:
            return True
        if not self._ends(one) or PointerKind.TOKEN not in kinds or _OFFERED_BEFORE.search(before):
            return False
        if _LIKE_AN_ID.match(inner):
            return True
        return None if _LIKE_AN_ID_TWICE.fullmatch(inner) or re.search(r" (?:19|20)\d\d", inner) else False

    def _is_number_mark(self, one: _Found, before: str) -> bool:
        if not _ENDS.match(self._text, one.end) or _NUMBER_WORDS_BEFORE.search(before) or not before.strip():
            return False
        written = self._answer[one.start : one.end]
        return self._are_known(one.pointers.numbers) and re.search(r"\.|^\W\d+\s*[-–]\s*\d+\W$", written) is None

    def _is_address_mark(self, one: _Found, inner: str) -> bool:
        before = self._text[max(0, one.start - 60) : one.start]
        return bool(one.pointers.named) or not (_OFFERED_BEFORE.search(before) or self._names.has_in_text(inner))

    def _are_known(self, numbers: Sequence[int]) -> bool:
        """Whether numbers may be those of passages; without passages small ones may."""
        return bool(numbers) and all(0 <= one <= (self._names.count or 20) for one in numbers)

    def _ends(self, one: _Found) -> bool:
        """Whether a statement, or a part of one, ends behind the mark, or has ended right before it."""
        if _ENDS.match(self._text, one.end):
            return True
        before = self._text[max(0, one.start - 10) : one.start].rstrip(' \t*_"”»)]')
        return before[-1:] in tuple(".!?。！？") and _SENTENCE_ENDS.match(self._text, one.end) is not None

    def _with_file_behind(self, one: _Found) -> _Found:
        """With a file's name right behind it: "[1] warranty.pdf"."""
        match = _FILE_BEHIND.match(self._text, one.end) if one.style in ("square", "wide") else None
        pointers = self._names.pointers(match["inner"]) if match else None
        if match is None or pointers is None:
            return one
        named = pointers.named or one.pointers.named
        return replace(one, end=match.end(), pointers=replace(one.pointers, named=named))

    # Superscripts, tags and tokens

    def _raised(self) -> Iterator[_Found]:
        for match in _RAISED.finditer(self._text):
            if not self._is_power(match.start()):
                digits = (match["caret"] or match["braced"] or match.group()).translate(_DIGITS).replace("⁻", "-")
                digits = re.sub(r"[①-⑳❶-❿]", lambda one: f"{numeric(one[0]):.0f},", digits)
                pointers = self._names.pointers(re.sub(r"[^\d,-]+", ",", digits).strip(","))
                yield _Found(match.start(), match.end(), pointers or _NOTHING)
        for match in _DAGGERS.finditer(self._text):
            yield _Found(match.start(), match.end(), _NOTHING)
        for match in _HASH.finditer(self._text):
            numbers = tuple(map(int, re.findall(r"\d+", match["inner"])))
            if self._are_known(numbers) and not _NUMBER_WORDS_BEFORE.search(
                self._text[max(0, match.start() - 20) : match.start()]
            ):
                yield _Found(match.start(), match.end(), Pointers(PointerKind.NUMBER, numbers=numbers))

    def _is_power(self, place: int) -> bool:
        """True for the exponent of a unit, a number or a variable: "m²", "10⁶", "x^2"; not behind a year."""
        before = self._text[max(0, place - 16) : place]
        if not before or before[-1].isspace():
            return False
        return _YEAR_BEFORE.search(before) is None and _RAISED_UNIT.search(before) is not None

    def _tags(self) -> Iterator[_Found]:
        if "<" not in self._text and "\\" not in self._text and "$" not in self._text:
            return
        for match in _TAG.finditer(self._text):
            inner = _ANY_TAG.sub(" ", _without_links(self._answer[match.start("inner") : match.end("inner")])).strip()
            pointers = self._names.pointers(inner.strip("[]() "))
            tag = match["tag"].lower()
            if pointers is None:
                continue
            if tag in ("em", "i", "small", "span", "a"):
                is_plain = pointers.kinds & (
                    PointerKind.SOURCE | PointerKind.LABEL | PointerKind.PLACE | PointerKind.VOID
                )
                is_mark = bool(is_plain) or (tag == "a" and PointerKind.NUMBER in pointers.kinds)
            else:
                is_mark = tag != "sup" or not self._is_power(match.start())
            if is_mark:
                yield _Found(match.start(), match.end(), pointers)
        for match in _CITING_TAG.finditer(self._text):
            yield from self._of_attributes(match)
        for match in _COHERE.finditer(self._text):
            numbers = tuple(map(int, re.findall(r"\d+", match["inner"]))) if match["closing"] else ()
            yield _Found(match.start(), match.end(), Pointers(PointerKind.NUMBER, from_zero=numbers))
        for match in _LATEX.finditer(self._text):
            pointers = self._names.pointers(match["inner"] or match["power"])
            if not (match["power"] and self._is_power(match.start())):
                yield _Found(match.start(), match.end(), pointers or _NOTHING)

    def _of_attributes(self, match: re.Match[str]) -> Iterator[_Found]:
        """What a tag's attributes point to; it is a mark of the text that it encloses, so it counts where that ends."""
        pointing = _POINTING.search(match["with"])
        if pointing is None:
            return
        closing = self._text.find(f"</{match['tag']}>", match.end(), match.end() + 2000)
        start, end = (match.start(), match.end()) if closing < 0 else (closing, closing + len(match["tag"]) + 3)
        if closing == match.end():
            start = match.start()
        if pointing["name"].lower().endswith("index") or pointing["name"].lower() == "indices":
            numbers = (int(found[1]) for found in re.finditer(r"(?:^|,)\s*(\d+)", pointing["value"]))
            yield _Found(start, end, Pointers(PointerKind.NUMBER, from_zero=tuple(numbers)))
        else:
            yield _Found(start, end, self._names.pointers(pointing["value"]) or _NOTHING)

    def _tokens(self) -> Iterator[_Found]:
        if "cite" not in self._text:
            return
        for match in _TOKENS.finditer(self._text):
            numbers = [match["oaicite"]] if match["oaicite"] else _TURNED.findall(match["turns"] or match["plain"])
            yield _Found(match.start(), match.end(), Pointers(PointerKind.LABEL, from_zero=tuple(map(int, numbers))))

    # Lines and sentences that only name sources

    def _source_lists(self) -> Iterator[_Found]:
        """A heading such as "Sources:" with the list behind it, and definitions of footnotes."""
        for heading in _HEADING.finditer(self._text):
            end = self._end_of_list(heading)
            if end is not None:
                named = (index for one in self._lists[-1].values() for index in one.named)
                yield _Found(heading.start(), end, replace(_NOTHING, named=tuple(dict.fromkeys(named))), "list")
        for match in _DEFINITION.finditer(self._text):
            pointers = self._entry(match["rest"])
            if pointers is None:
                yield _Found(match.start(), match.start("rest"), _NOTHING)
            else:
                self._lists.append({match["number"]: pointers})
                yield _Found(match.start(), match.end(), replace(_NOTHING, named=pointers.named), "list")

    def _end_of_list(self, heading: re.Match[str]) -> int | None:
        """Where the list behind a heading ends; None where what stands there is no list of sources."""
        end, listed, count = heading.end(), dict[str, Pointers](), 0
        for line in _LINE.finditer(self._text, heading.end()):
            text = self._answer[line.start() : line.end()]
            if _RULE_LINE.fullmatch(text):
                continue
            item = _ITEM.match(text)
            entry = self._entry(item["rest"] if item else text, is_item=item is not None and heading["weak"] is None)
            if entry is None and item and (item["number"] or "").startswith("[") and heading["weak"] is None:
                entry = Pointers(PointerKind.TITLE, self._named_at_start(item["rest"]))
            if entry is None:
                break
            number = (item["number"] or "").translate(_DIGITS).strip("[]^().:【】") if item else ""
            listed[number or f"entry {count}"] = entry
            end, count = line.end(), count + 1
        if not count:
            return None
        self._lists.append(listed)
        return end

    def _entry(self, text: str, *, is_item: bool = False) -> Pointers | None:
        """What an entry of a list of sources points to; None for a text that may say something.

        An item without any pointer is an entry if it is written like a title.
        """
        plain = _without_links(text).strip(" \t*_`.")
        pointers = self._names.pointers(plain) if plain else None
        if pointers is not None:
            return pointers
        for match in (
            *_LINKS.finditer(text),
            *re.finditer(r"https?://\S+|\S+\.(?:pdf|docx?|html?|pptx?|xlsx?)\b", text),
        ):
            found = self._names.pointers(_without_links(match.group()))
            named = found.named if found else ()
            return Pointers(PointerKind.ADDRESS, named or self._named_at_start(plain))
        named = self._named_at_start(plain)
        if is_item and (named or _is_title(plain)) and len(plain.split()) <= 2 * _MOST_WORDS_OF_TITLE:
            return Pointers(PointerKind.TITLE, named)
        return None

    def _named_at_start(self, text: str) -> tuple[int, ...]:
        parts = re.split(r"\s+[—–-]\s+|[,:(|;]", text)
        found = self._names.pointers(parts[0].strip(" *_\"“”'")) if parts and parts[0].strip() else None
        return found.named if found else ()

    def _source_sentences(self) -> Iterator[_Found]:
        for match in _SOURCE_SENTENCE.finditer(self._text):
            rest = self._answer[match.start("rest") : match.end("rest")]
            ends = [*(stop.start() for stop in _SENTENCE_STOP.finditer(rest)), len(rest)]
            for end in sorted(set(ends), reverse=True):
                shown = _without_links(rest[:end]).strip(" \t*_`.>)]")
                pointers = self._names.pointers(shown) if shown else None
                links = [*_LINKS.finditer(rest[:end])]
                if pointers is None and links and _is_filler(_LINKS.sub(" ", rest[:end])):
                    named = [index for link in links for index in self._link_passages(link)]
                    pointers = Pointers(PointerKind.ADDRESS, tuple(dict.fromkeys(named)))
                if pointers is None and _is_title(shown) and not match["lead"].lower().startswith("see"):
                    pointers = Pointers(PointerKind.TITLE, self._named_at_start(shown))
                if pointers is not None and (pointers.named or not _SENDS.search(match["lead"])):
                    stop = match.start("rest") + min(end + 1, len(rest))
                    yield _Found(match.start(), stop, pointers, "source")
                    break

    def _lines(self) -> Iterator[_Found]:
        """Lines that are nothing but the name of a file, an address and the like."""
        for line in _LINE.finditer(self._text):
            text = self._answer[line.start() : line.end()]
            if len(text) <= _MOST_CODE_POINTS and not text.rstrip().endswith(":"):
                item = _ITEM.match(text)
                is_entry = item is not None and re.match(r"[\[【]|\D", item["number"] or "1") is not None
                pointers = self._names.pointers(_without_links(item["rest"] if item and is_entry else text))
                is_named = pointers is not None and (
                    (is_entry and pointers.kinds != PointerKind.NUMBER) or bool(pointers.kinds & _PLAIN)
                )
                if pointers is not None and is_named and not _is_numbered_alone(text):
                    yield _Found(line.start(), line.end(), pointers, "line")

    def _trailing(self) -> Iterator[_Found]:
        """Pointers behind a full stop at the end of a line, and at the end of a sentence behind a dash or the like."""
        for pattern, kinds in ((_ASIDE, _PLAIN | PointerKind.TITLE), (_TRAILING, _PLAIN)):
            for match in pattern.finditer(self._text):
                text = self._answer[match.start("inner") : match.end("inner")]
                pointers = self._names.pointers(_without_links(text))
                if pointers is not None and (pointers.kinds & kinds or pointers.kinds == PointerKind.PLACE):
                    yield _Found(match.start(), match.end(), pointers, "aside" if pattern is _ASIDE else "line")


def _runs(marks: Sequence[_Found]) -> Iterator[list[_Found]]:
    """Marks that follow each other."""
    run: list[_Found] = []
    for one in marks:
        if run and one.start != run[-1].end:
            yield run
            run = []
        run.append(one)
    if run:
        yield run


def _shape(text: str) -> str:
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_]+", "a", text))


def _is_numbered_alone(text: str) -> bool:
    """True for a label that numbers what stands below it: "Document 2:", "Option 3"."""
    return re.fullmatch(r"\W*[^\W\d_]+\s*\d+\W*", text) is not None


def _is_image(link: re.Match[str]) -> bool:
    return link.group().startswith("!")


def _without_links(text: str) -> str:
    """The text with its links as their words and their addresses."""
    return _LINKS.sub(
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


def _is_filler(text: str) -> bool:
    """True for words that only lead to a link."""
    words = {word.lower() for word in _TITLE_WORD.findall(text)}
    return words <= FUNCTION_WORDS | {"here", "page", "link", "article", "guide", "full", "document", "documents"}


def _is_function_word(before: str) -> bool:
    match = _WORD_BEFORE.search(before[-40:])
    return match is not None and match[1].lower() in FUNCTION_WORDS
