"""What answers call their passages: in words, and between the brackets of a citation mark.

In words they say "the given passages" or "passage 3". A mark points by number, name, place, author or address. A text
is a mark only if it is nothing but pointers and what joins them: "1, 3-5", "Doc 3, p. 12", "see warranty.pdf".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Flag, auto
from functools import cache, cached_property

from attribeam.schemas import CharRange, Passage

_NOUNS = (
    "passage", "document", "doc", "source", "excerpt", "snippet", "paragraph", "reference", "context", "text",
    "search result",
)  # fmt: skip
_NOUN = rf"(?:(?:{'|'.join(_NOUNS)})s?)"
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = rf"(?:{'|'.join(_ORDINALS)}|last|\d{{1,2}}(?:st|nd|rd|th))"
_GIVEN = r"(?:given|provided|supplied|retrieved|available|above|following|mentioned|cited|listed|relevant|input)"
_REFERENCE_COUNT = (
    r"(?:one|two|three|four|five|several|other|remaining|same|different|multiple|various|many|most|some|only|\d)"
)
_DETERMINER = (
    r"(?:the|this|these|those|that|its|their|his|her|all(?:\s+of)?(?:\s+the)?|any(?:\s+of\s+the)?|each|both(?:\s+of)?(?:\s+the)?|either"
    r"|no|neither|none\s+of\s+(?:the|these)|some(?:\s+of\s+the)?|your|our|another|one(?:\s+of\s+the)?)"
)
_LIST = r"(?:(?:\s*(?:,|;|&|/|-|–|to|and|or)\s*){1,2}#?\s?\d{1,3}(?!\d))"
_NUMBERED = rf"{_NOUN}\s*(?:(?:no\.?|number|\#)\s*)?[\[(]?\d{{1,3}}[\])]?(?!\d|[.,]\d|%){_LIST}*"
_SOURCE_NOUN = (
    r"(?:(?:(?:help|support|knowledge)[\s-](?:cent(?:er|re)|base)\s+)?articles?|story|information|data|content|material"
    r"|structured\s+data|json|instructions|author|records?|(?:\w+\s+)?documentation|knowledge\s+base)"
)
_PROVIDED_NOUN = (
    rf"(?:\w+\s+)?(?:{_NOUN}|{_SOURCE_NOUN}|chunks?|details|facts|materials|leaflets?|manuals?|guides?|pages?|polic(?:y|ies)"
    r"|transcripts?|notes)"
)
_IS = r"(?:is|are|was|were|have\s+been|has\s+been)"
_BEHIND = rf"(?:\s+(?:(?:that\s+)?{_IS}\s+)?(?:provided|given|supplied|above|below|available)\b)?"

SOURCE = (
    rf"(?:(?:(?:the|this|in)\s+)?{_NUMBERED}"
    rf"|(?:{_DETERMINER}\s+)?(?:{_REFERENCE_COUNT}\s+)*+(?:{_ORDINAL}\s+|{_GIVEN}\s+)*+(?:{_REFERENCE_COUNT}\s+)*+{_NOUN}{_BEHIND}"
    rf"|(?:{_DETERMINER}\s+)?{_GIVEN}\s+{_PROVIDED_NOUN}{_BEHIND}"
    rf"|{_DETERMINER}\s+{_SOURCE_NOUN}{_BEHIND})(?:\s+in\s+json\s+format)?(?!\w)"
)
"""A noun phrase that names the sources of an answer; for lower case or ``re.IGNORECASE``."""

_REFERENCE = re.compile(rf"(?<!\w)(?:the\s+)?(?:{_NUMBERED}|(?P<ordinal>{_ORDINAL})\s+{_NOUN}(?!\w))", re.IGNORECASE)
_WRITTEN_ID = re.compile(r"(?=\S*\d)(?=\S*[^\W\d_])\S{4,}")


@dataclass(frozen=True, slots=True)
class PassageReference:
    """Words of an answer that name one passage by its number or id; ``passage_index`` counts from 0."""

    chars: CharRange
    passage_index: int


def passage_references(answer: str, passages: Sequence[Passage]) -> tuple[PassageReference, ...]:
    """Every passage that the answer names by number or id, ascending; answers count from 1.

    Numbers are ids where all of them are, or where one is larger than the count of passages. A phrase that names
    several ("passages 1 and 3") gives one reference for each, with the same characters. Numbers without a passage are
    left out.
    """
    named, names = list[tuple[CharRange, list[int], bool]](), PassageNames(passages)
    for match in _references(answer):
        ordinal = (match["ordinal"] or "").lower()
        numbers: list[int] = [names.count] if ordinal == "last" else []
        if ordinal in _ORDINALS:
            numbers = [_ORDINALS.index(ordinal) + 1]
        elif ordinal != "last":
            numbers += _numbers(match.group())
        named.append((CharRange(*match.span()), numbers, not ordinal))
    by_id = names.are_ids([number for _, numbers, may_be_id in named if may_be_id for number in numbers])
    numbered = (
        PassageReference(chars, index)
        for chars, numbers, may_be_id in named
        for number in numbers
        for index in (names.with_id(number) if by_id and may_be_id else ()) or (number - 1,)
        if 0 <= index < names.count
    )
    return tuple(sorted((*numbered, *named_ids(answer, passages)), key=lambda reference: reference.chars))


def reference_ranges(answer: str, passages: Sequence[Passage] = ()) -> tuple[CharRange, ...]:
    """The words that name passages by number, whether or not there are such passages, or by an id; ascending."""
    numbered = (CharRange(*match.span()) for match in _references(answer))
    return tuple(sorted((*numbered, *(reference.chars for reference in named_ids(answer, passages)))))


def named_ids(answer: str, passages: Sequence[Passage]) -> Iterator[PassageReference]:
    """Where the answer names passages by their ids, as in "according to KB0012345".

    Such an id has letters and digits. One that a passage has in its text may be what the answer tells about.
    """
    lowered, texts = answer.lower(), cache(lambda: "\n".join(passage.text.lower() for passage in passages))
    for index, passage in enumerate(passages):
        name = (passage.passage_id or "").strip().lower()
        if _WRITTEN_ID.fullmatch(name) and name in lowered and name not in texts():
            pattern = rf"(?<![\w/.-]){re.escape(name)}(?!\w|[-.]\w)"
            for match in re.finditer(pattern, answer, re.IGNORECASE):
                yield PassageReference(CharRange(*match.span()), index)


def _references(answer: str) -> Iterator[re.Match[str]]:
    lowered = answer.lower()
    return _REFERENCE.finditer(answer) if any(noun in lowered for noun in _NOUNS) else iter(())


class PointerKind(Flag):
    """By what a mark names its passage."""

    NUMBER = auto()  # a bare number: "2"
    LABEL = auto()  # a word for sources with a number or id: "Doc 3", "ID: 17"
    ID = auto()  # a passage's own id or file name
    TITLE = auto()  # a passage's title
    FILE = auto()  # the name of a file that is no passage's
    TOKEN = auto()  # what looks like an id and is no passage's: "KB-0042"
    PLACE = auto()  # a page, a section or the like
    AUTHOR = auto()  # author and year
    ADDRESS = auto()  # an address of the web, a DOI or the like
    VOID = auto()  # that nothing can be named: "page not specified", "citation needed"
    SOURCE = auto()  # the word "source", with a colon behind it


@dataclass(frozen=True, slots=True)
class Pointers:
    """What a mark names: kinds, the indices of passages that it names otherwise than by number, and its numbers.

    ``from_zero`` are indices that are counted from 0 whatever the answer does elsewhere.
    """

    kinds: PointerKind
    named: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    from_zero: tuple[int, ...] = ()


SOURCE_WORDS = (
    "sources?|src|refs?|references?|cit(?=[.:])|citations?|cites?|cited"
    "|quellen?|quellenangaben?|referenz(?:en)?|belege?|fuentes?"
    "|referencias?|références?|fonti?|riferiment[oi]|fontes?|referências?|bron(?:nen)?|źródł[oa]|zdroje?|kilde[r]?"
    "|källa|källor|lähde|lähteet|kaynak(?:lar|ça)?|nguồn|sursa|surse|forrás|πηγ(?:ή|ές)|स्रोत"
    "|来源|來源|出典|出处|出處|参考(?:文献|资料)?|參考(?:文獻|資料)?|источник[и]?|출처|مصدر|المصدر|מקור(?:ות)?"
)
_NUMBERED_WORDS = (
    "docs?|documents?|doc[ _-]?id|passages?|chunks?|chunk[ _-]?id|contexts?|ctx|excerpts?|snippets?|extracts?"
    "|search[ _]results?|results?|web(?:pages?|[ _]results?)?|evidence|texts?|nodes?|records?|files?|links?|ids?|kb"
    "|articles? id|footnotes?|fn|notes?|nb|inline|oaicite|dokumente?|textstellen?|documentos?|documenti?|documenten"
    r"|dokumenty?|documentul|dok\.|asiakirja|belge|tài liệu|dokumentum|έγγραφο|दस्तावेज़|n\.|fragment[os]?"
    "|文档|文檔|文件|資料|资料|文書|문헌|段落|документ|фрагмент|문서|مستند|מסמך"
)
_PLACE_WORDS = (
    r"exhibits?|schedules?|attachments?|art\.|articles?"
    r"|pages?|pp?\.?|pgs?\.?|sections?|sect?\.?|§+|paragraphs?|paras?\.?|¶+|chapters?|figures?|figs?\.?|tables?|tbl\.?"
    r"|appendix|appendices|app\.|annex(?:es)?|slides?|lines?|clauses?|seiten?|s\.|abschnitte?|kapitel|kap\.|ziffer|rn\."
    r"|tabelle|abb(?:ildung|\.)|anhang|páginas?|págs?\.?|paginas?|pagg?\.?|secci[óo]n|secções|secção|seção|sezione"
    r"|chapitre|cap[íi]tulo|capitolo|strona|str\.|стр\.|с\.|раздел|sidan?|sivu|blz\."
)
_COUNT = r"(?:\d{1,5}(?:\.\d{1,3}){0,4}[a-z]?|[ivxlc]{1,6}|[a-h])(?:\(\w{1,3}\)){0,3}(?![\w%°]|\.\d)"
_JOIN = r"(?:\s*(?:-|–|—|,|;|&|/|to\b|and\b|und\b|bis\b|et\b|y\b)\s*)"
_NUMBERS = rf"[\^#]?\d{{1,5}}\^?(?:{_JOIN}{{1,2}}#?\^?\d{{1,5}}\^?)*(?![\w%°$€£]|[.,]\d|\s?%)"
_YEAR = r"(?:(?:1[5-9]|20)\d\d[a-z]?|n\.\s?d\.|in press|forthcoming)"
_NAME = r"(?:(?:van|von|de|der|den|di|la|le|da|Mc|O['’]|al-)\s?)*[A-Z][\w'’-]+"
_NOT_AUTHORS = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?|Spring|Summer|Autumn|Fall|Winter|Since|Until|From|By|In|As|Q[1-4]|FY|Windows|Office"
    r"|Server|Version|Model|Class|Season|Olympics?|Before|After|Around|Circa|Early|Late|Mid|Founded|Born|Died|Updated"
    r"|Est|Established|Released|Effective|Published)\b"
)
_DOCUMENT = "pdf|docx?|pptx?|xlsx?|md|mdx|rst|txt|html?|epub|odt|rtf|eml|msg|aspx"
_OTHER_FILE = "csv|tsv|json|jsonl|xml|ya?ml|ipynb|png|jpe?g|mp[34]|srt|vtt|php|py|parquet"
_TOP_LEVEL = "com|org|net|gov|edu|io|info|int|mil|app|dev|ai|eu|uk|de|fr|es|it|nl|pl|ch|at|ca|au|us|jp|cn|br|in|co"

_DATE = (
    r"(?:\d{4}-\d\d-\d\d|\d{1,2}\.? [A-Z][a-z]+\.? \d{4}|[A-Z][a-z]+\.? \d{1,2},? \d{4}|\d{1,2}[./]\d{1,2}[./]\d{2,4})"
)
_SEPARATOR = re.compile(
    r"(?:[\s,;：，、|/&·•:+>→↗—–\-()\[\]\"'“”„‘’`*_.]|📄|🔗|📎|📚|📖|ℹ️|(?:and|und|et|y|e|or|oder|at|on|of|in|the|el|la|le|il|dem|der)\b)+",
    re.IGNORECASE,
)
LEAD = re.compile(
    r"(?:(?:see(?: also| e\.g\.)?|cfr?\.?|compare|vgl\.?|siehe(?: auch)?|voir|v[ée]ase|ver|zie|vedi|zob\."
    r"|см\.|from|via|per"
    r"|adapted from|retrieved from|as (?:stated|cited|noted|described) in|cited in|according to|based on|grounded in"
    r"|aus|laut|lt\.|nach|según|selon|d['’]après|secondo|segundo|volgens|według|refs?\.(?!\s?\d)|src\.|smh"
    r"|for (?:more )?(?:details|information)"
    rf"|(?:last )?(?:accessed|updated|retrieved|modified|revised)(?: on)? {_DATE})(?!\w)|参[照见見]|參見)",
    re.IGNORECASE,
)
_SOURCE_LEAD = re.compile(rf"(?:{SOURCE_WORDS})(?:\s*[:：=](?!//)|\s+[—–-]\s)", re.IGNORECASE)
_SOURCE_WORD = re.compile(rf"(?:{SOURCE_WORDS})\s+", re.IGNORECASE)
_BREADCRUMB = re.compile(r"\s[>›»]\s*$")
_NUMBERED_LEAD = re.compile(rf"(?:{_NUMBERED_WORDS}|titles?|titel|título|titre)\s*[:：=](?!//)", re.IGNORECASE)
_ITEMS = re.compile(
    "|".join(
        (
            r"(?P<void>(?:(?:page|source|section|document|citation|reference|url|link)s?(?: numbers?| name)?"
            r"(?: (?:is|was|are))?[: ]+)(?:not (?:specified|provided|available|given|stated|listed|mentioned|found"
            r"|applicable)|unspecified|unavailable|unknown|n/a)(?= *$)|(?:no|without) (?:page|source|citation)s?"
            r"(?: (?:numbers?|given|provided|specified|available))*(?= *$)|(?:citation|source|reference|page) needed"
            r"|cite_start(?= *$)"
            r"|seite nicht angegeben|ebd\.?|ebenda|a\. ?a\. ?O\.|ibid\.?|op\. ?cit\.?|loc\. ?cit\.?|same source)",
            r"(?P<sure>(?:confidence|relevance|similarity|certainty|score|rank)(?: score)?\s*[:=]?\s*"
            r"(?:(?:very )?(?:high|medium|moderate|low)|\d+(?:\.\d+)?%?)"
            r"|(?:high|medium|moderate|low) confidence)(?![\w%])",
            r"(?P<dagger>(?P<before>\d{1,5})(?::(?P<inner>\d{1,4}))?†(?P<behind>[^,;†]*))",
            r"(?P<turn>turn\d+(?:search|view|news|file|image|fetch)(?P<turned>\d+))",
            r"(?P<address>(?:https?|ftp|s3|gs|file|abfss?|doi|urn|hdl|arxiv|chrome):(?://)?[^\s<>\"\]]*[^\s<>\"\].,;)]"
            rf"|www\.[^\s,;)]+[^\s,;).]|(?<!@)(?<!\w)(?:[a-z0-9-]+\.)+(?:{_TOP_LEVEL})(?![\w.])(?:/[^\s,;)]*)?"
            r"(?: ?\+ ?\d+)?"
            r"|10\.\d{4,}/[^\s,;)]+)",
            rf"(?P<file>(?-i:(?:(?:[A-Z\d&][\w&+-]*|of|and|for|to|-) ){{0,6}})"
            r"(?:(?:[A-Z]:)?[\\/.~]{0,3}(?:[\w.@+~-]{1,80}[\\/]{1,2}){1,12})?"
            rf"[\w&+-](?:[\w&+.-]|\(\d\)){{0,80}}?\.(?:{_DOCUMENT}|(?P<other>{_OTHER_FILE}))(?!\w)"
            r"(?:(?:[#?]|::)\S*|:L?\d+(?:-L?\d+)?)?)",
            rf"(?P<label>(?:{SOURCE_WORDS}|{_NUMBERED_WORDS}|(?-i:P(?=\d)))"
            rf"(?:[ _:：#.№=|-]|no\.?|nr\.?|number|(?:id|index)\b)*[\[(]?"
            rf"(?P<labelled>(?-i:[A-Z])(?!\w)|{_NUMBERS}|(?=\S*\d)[\w.:@-]+)[\])]?)",
            rf"(?P<place>(?:{_PLACE_WORDS})\s*[:#=]?\s*{_COUNT}(?:(?!\s*;){_JOIN}{{1,2}}{_COUNT})*"
            r"(?-i: [A-Z]{2,8}\b)?"
            r"|\d{1,3} (?:U\.? ?S\.? ?C|C\.? ?F\.? ?R)\.?,? (?:§+ ?)?\d[\w.()-]*|第?\s?\d{1,5}\s?[页頁章节節条條]"
            r"|#(?:page|p|L|lines?|section)[=:]?[\w-]+|L\d+-L?\d+)",
            rf"(?-i:(?P<author>(?!{_NOT_AUTHORS}){_NAME}(?: {_NAME}){{0,3}}"
            rf"(?:(?P<joined>,? (?:&|and|und|et|y) |, (?:& |and )?){_NAME}(?: {_NAME})?)*"
            r"(?P<others>,? et al\.?| u\. a\.)?"
            rf"(?P<comma>,)? \(?{_YEAR}(?:, {_YEAR})*\)?(?:(?::|, p+\.) ?\d+(?:[-–]\d+)?)?))",
            r"(?P<time>\d{1,2}:\d\d:\d\d|\d\d:\d\d)(?![\w:†])",
            rf"(?P<number>{_NUMBERS})",
            r"(?P<token>@?(?=[\w.:@#-]*\d)(?=[\w.:@#-]*[^\W\d])\w[\w.:@#-]*\w|@\w[\w:-]+)(?![\w%°])",
        )
    ),
    re.IGNORECASE,
)
_FIXED_KINDS = {
    "void": PointerKind.VOID, "sure": PointerKind(0), "place": PointerKind.PLACE, "time": PointerKind.NUMBER,
}  # fmt: skip
_ID_LABEL = re.compile(r"\w*?(?<![^\W_])(?:ids?|kb)\b|.*\bid\b", re.IGNORECASE)
_COUNTED_ID = re.compile(r"ID: ?(\d{1,4})")
"""A number that RAGFlow gives a passage, counted from 0, where no passage has a number for its own id."""
_SYSTEM_LEAD = re.compile(r"[A-Z][\w -]{1,30}?\s*[:>›|]\s*")
"""What a source is kept in: "Confluence: Setup", where a passage is called "Setup"."""
_FREE_WITH_PLACE = re.compile(
    rf"(?P<free>[A-Z][^\d()\[\]\n;:!?]{{1,70}}?(?: (?:19|20)\d\d)?)(?:,\s*|\s+)(?=(?i:(?:{_PLACE_WORDS})\s*{_COUNT}))"
)
_PAGE_OF_NAME = re.compile(r"(?:[#?]\S*|:\d+(?:-\d+)?)(?!\w)")
_FILE_ENDING = re.compile(rf"\.(?:{_DOCUMENT}|{_OTHER_FILE})$", re.IGNORECASE)
_PART_OF_FILE = re.compile(r"[-_ ](?:p(?:age)?|chunk|part)?[-_ ]?\d{1,4}$", re.IGNORECASE)
_SOURCE_TEXT = re.compile(rf"\W*(?:{SOURCE_WORDS})\s*[:：=—–-]\s*(?P<rest>[^\n]{{1,200}})", re.IGNORECASE)
_RANGE = re.compile(r"(\d{1,5})(?:\s*(?:[-–—]|to\b|bis\b)\s*(\d{1,5}))?")
_MOST_IN_A_RANGE = 100
_LARGEST_NUMBER = 1000
_WORD = re.compile(r"[^\W_]+")
_BEGINNING = 400


class PassageNames:
    """The names of a row's passages, and what texts name them; without passages only the form of a text counts."""

    def __init__(self, passages: Sequence[Passage] = ()) -> None:
        self._passages = passages
        self.count = len(passages)

    def pointers(self, text: str) -> Pointers | None:
        """What the text points to; None if it says anything else, or points to nothing."""
        kinds, named, numbers, from_zero = PointerKind(0), list[int](), list[int](), list[int]()
        position = _behind_separators(text, 0)
        while position < len(text):
            item = self._item(text, position)
            if item is None:
                if named and _BREADCRUMB.search(text, 0, position):
                    break
                return self._free(text) if not position or kinds == PointerKind.SOURCE else None
            end, pointers = item
            kinds |= pointers.kinds
            named += pointers.named
            numbers += pointers.numbers
            from_zero += pointers.from_zero
            position = _behind_separators(text, end)
        if not kinds or kinds == PointerKind.SOURCE:
            return None
        return Pointers(kinds, tuple(dict.fromkeys(named)), tuple(numbers), tuple(from_zero))

    def _item(self, text: str, position: int) -> tuple[int, Pointers] | None:
        lead = _SOURCE_LEAD.match(text, position) or _SOURCE_WORD.match(text, position)
        if lead and (lead.re is _SOURCE_LEAD or self._name(text, lead.end())):
            return lead.end(), Pointers(PointerKind.SOURCE)
        if name := self._name(text, position):
            return name
        system = None if position else _SYSTEM_LEAD.match(text)
        if system and self._name(text, system.end()):
            return system.end(), Pointers(PointerKind(0))
        lead = LEAD.match(text, position)
        if lead is None:
            if match := _ITEMS.match(text, position):
                return match.end(), self._pointer(match)
            lead = _NUMBERED_LEAD.match(text, position)
        return (lead.end(), Pointers(PointerKind(0))) if lead else None

    def _free(self, text: str) -> Pointers | None:
        """What follows "Source:", whatever it is, and a title with a page or the like behind it."""
        if labelled := _SOURCE_TEXT.fullmatch(text):
            rest = self.pointers(labelled["rest"])
            return rest or Pointers(PointerKind.SOURCE, self._by_words(labelled["rest"]))
        match = _FREE_WITH_PLACE.match(text)
        rest = self.pointers(text[match.end() :]) if match else None
        if match is None or rest is None or len(match["free"].split()) > 8:
            return None
        return Pointers(PointerKind.PLACE | rest.kinds, (*self._by_words(match["free"]), *rest.named))

    def _name(self, text: str, position: int) -> tuple[int, Pointers] | None:
        position += text.startswith("#", position)
        names, longest = self._beginnings
        may_name = text[position : position + longest].casefold().startswith(names)  # most do not, and need no pattern
        match = self._pattern.match(text, position) if may_name else None
        if match is None:
            return None
        indices, kind = self._known[match.group().casefold()]
        page = _PAGE_OF_NAME.match(text, match.end())
        return page.end() if page else match.end(), Pointers(kind, indices)

    def _pointer(self, match: re.Match[str]) -> Pointers:
        text = match.group()
        match match.lastgroup:
            case "void" | "sure" | "place" | "time" as name:
                return Pointers(_FIXED_KINDS[name])
            case "dagger":
                named = self._by_name(match["behind"].strip()) or self.with_id(int(match["before"]))
                inner = (int(match["inner"]),) if match["inner"] else ()
                numbers = () if inner else (int(match["before"]),)
                return Pointers(PointerKind.NUMBER, named, numbers, () if named else inner)
            case "turn":
                return Pointers(PointerKind.LABEL, from_zero=(int(match["turned"]),))
            case "address":
                plain = _plain_address(text)
                names = [(passage.passage_id or "", passage.title or "") for passage in self._passages]
                named = tuple(index for index, pair in enumerate(names) if plain in map(_plain_address, pair))
                return Pointers(PointerKind.ADDRESS, named)
            case "file":
                kind = PointerKind.TOKEN if match["other"] else PointerKind.FILE
                words = re.split(r"([ /\\])", text)
                ends = (self._by_name("".join(words[first:])) for first in range(0, len(words), 2))
                return Pointers(kind, next(filter(None, ends), ()))
            case "label":
                pointers = self._labelled(match["labelled"], is_id=_ID_LABEL.match(text) is not None)
                counted = _COUNTED_ID.fullmatch(text)
                has_ids = any((passage.passage_id or "").strip().isdecimal() for passage in self._passages)
                return replace(pointers, from_zero=(int(counted[1]),)) if counted and not has_ids else pointers
            case "author":
                certain = match["comma"] or match["joined"] or match["others"]
                named = self._by_words(re.sub(r"(?<=\d{4})\D.*", "", text))
                return Pointers(PointerKind.AUTHOR if certain or named else PointerKind.TOKEN, named)
            case "number":
                return Pointers(PointerKind.NUMBER, self._with_ids(text), _numbers(text))
            case _:
                named = self._by_name(text)
                numbered = re.fullmatch(r"([A-Za-z])(\d{1,3}(?:[-–]\1?\d{1,3})?)", text)
                digits = re.sub(r"[^\d–-]", "", numbered[2]) if numbered and not named else ""
                return Pointers(PointerKind.TOKEN, named, _numbers(digits))

    def _labelled(self, text: str, *, is_id: bool) -> Pointers:
        named = self._by_name(text) or self._with_ids(text)
        if len(text) == 1 and text.isalpha():
            return Pointers(PointerKind.LABEL, named, () if named else (ord(text) - ord("A") + 1,))
        is_id = is_id or text[:1] == "0" or not re.match(r"\^?\d{1,4}(?![\w.:@-]*[^\W\d])", text)
        return Pointers(PointerKind.LABEL, named, () if is_id and text != "0" else _numbers(text))

    def _by_name(self, text: str) -> tuple[int, ...]:
        """The passages with this id, title or file name, which may have a page or part behind it."""
        plain = text.casefold().strip()
        ending = _FILE_ENDING.search(plain)
        stem = plain[: ending.start()] if ending else plain
        without_part = _PART_OF_FILE.sub("", stem) + (ending.group() if ending else "")
        for name in (plain, plain.split("#")[0], without_part):
            if found := self._numeric_ids.get(name) or self._known.get(name, ((), None))[0]:
                return found
        return ()

    def _by_words(self, text: str) -> tuple[int, ...]:
        """The passages of which id, title or beginning have all words of a text."""
        wanted = {word.casefold() for word in _WORD.findall(text) if word not in ("et", "al", "and", "p", "pp")}
        beginnings = (f"{item.passage_id} {item.title or ''} {item.text[:_BEGINNING]}" for item in self._passages)
        words = ({word.casefold() for word in _WORD.findall(beginning)} for beginning in beginnings)
        return tuple(index for index, some in enumerate(words) if wanted <= some)

    def _with_ids(self, text: str) -> tuple[int, ...]:
        """The passages whose ids are the numbers of a text, or lie between two that it joins by a dash."""
        found: list[int] = []
        for first, last in _RANGE.findall(text):
            indices = self._numeric_ids.get(first, ())
            if last:
                ends = indices and self._numeric_ids.get(last)
                within = (own for own in self._numeric_ids if ends and int(first) <= int(own) <= int(last))
                indices = tuple(index for own in sorted(within, key=int) for index in self._numeric_ids[own])
            found += indices
        return tuple(found)

    def with_id(self, number: int) -> tuple[int, ...]:
        """The passage with this number as its id, unless the ids only count the passages."""
        return self._numeric_ids.get(str(number), ())

    def are_ids(self, numbers: Sequence[int]) -> bool:
        """Whether the numbers of an answer are ids: all of them are, or one is larger than the count of passages.

        Numbers of such an answer that are no ids still count the passages, and so do all numbers of another.
        """
        return all(map(self.with_id, numbers)) or max(numbers, default=0) > self.count

    def has_in_text(self, text: str) -> bool:
        """Whether a passage says this in its text, word by word."""
        wanted = " ".join(_WORD.findall(text.casefold()))
        return any(f" {wanted} " in text for text in self._texts)

    @cached_property
    def _texts(self) -> list[str]:
        return [f" {' '.join(_WORD.findall(passage.text.casefold()))} " for passage in self._passages]

    @cached_property
    def _numeric_ids(self) -> dict[str, tuple[int, ...]]:
        """Ids that are numbers, unless they only count the passages."""
        ids = [(passage.passage_id or "").strip() for passage in self._passages]
        if ids in ([str(number) for number in range(len(ids))], [str(number + 1) for number in range(len(ids))]):
            return {}
        return {text: (index,) for index, text in enumerate(ids) if text.isdigit()}

    @cached_property
    def _known(self) -> dict[str, tuple[tuple[int, ...], PointerKind]]:
        known: dict[str, tuple[tuple[int, ...], PointerKind]] = {}
        for index, passage in enumerate(self._passages):
            for name, kind in _names_of(passage):
                indices, first = known.get(name, ((), kind))
                known[name] = (tuple(dict.fromkeys((*indices, index))), first)
        return known

    @cached_property
    def _beginnings(self) -> tuple[tuple[str, ...], int]:
        """The names, and how long the longest is."""
        return tuple(self._known), max(map(len, self._known), default=0)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        joined = "|".join(map(re.escape, sorted(self._known, key=len, reverse=True)))
        return re.compile(rf"(?:{joined})(?!\w|[-.]\w)", re.IGNORECASE)


def _names_of(passage: Passage) -> Iterator[tuple[str, PointerKind]]:
    """Its id, the last part of an id that is a path, its title, and both without a file's ending."""
    for text, kind in ((passage.passage_id, PointerKind.ID), (passage.title, PointerKind.TITLE)):
        whole = (text or "").strip().casefold()
        for part in dict.fromkeys((whole, whole.split("/")[-1])):
            for name in dict.fromkeys((part, _FILE_ENDING.sub("", part))):
                if (len(name) <= 1 and name != (passage.passage_id or "").casefold()) or not any(
                    map(str.isalpha, name)
                ):
                    continue
                if name.replace(" ", "").isalpha():
                    yield name, PointerKind.TITLE
                elif "://" in name:
                    yield name, PointerKind.ADDRESS
                else:
                    yield name, PointerKind.ID if _FILE_ENDING.search(name) else kind


def _behind_separators(text: str, position: int) -> int:
    match = _SEPARATOR.match(text, position)
    return match.end() if match else position


def _plain_address(text: str) -> str:
    return re.sub(r"^(?:https?://)?(?:www\.)?", "", text.strip().casefold()).split("#")[0].rstrip("/")


def _numbers(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for first, last in _RANGE.findall(text):
        start, end = int(first), int(last or first)
        if end <= _LARGEST_NUMBER:
            numbers += range(start, min(end, start + _MOST_IN_A_RANGE) + 1) if end >= start else (start, end)
    return tuple(numbers)
