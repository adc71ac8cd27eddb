"""What is masked by its form: e-mail addresses, bank accounts, card numbers and phone numbers.

Check digits and lengths are those of python-stdnum, numbering plans those of phonenumbers, which is Google's
libphonenumber. Patterns only say where to look, and runs of digits are cut into the groups that people write.

A phone number with a plus sign says which plan it follows. Another one has to be valid in one of ``REGIONS``, and in
the groups that are usual there unless it begins with a 0, as numbers do within most countries.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain

import phonenumbers
import regex
from phonenumbers import Leniency, PhoneMetadata, PhoneNumberMatcher, ValidationResult
from stdnum import iban, luhn

from attribeam.schemas import CharRange

_ESCAPE = regex.compile(
    r"\\u[0-9A-Fa-f]{4}|%[2-7][0-9A-Fa-f]|&(?:\#[0-9]{1,6}|\#[xX][0-9A-Fa-f]{1,5}|[A-Za-z]{2,8});|\\[!-/:-@\[-`{-~]"
    r"|[^\x00-\x7f\p{L}\p{M}]|[\u30fc\uff21-\uff3a\uff41-\uff5a]|(?<=\w)\*{1,3}|\*{1,3}(?=\w)"
)
"""What may show something else than itself."""
_DASHES = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u30fc\ufe58\uff0d")
_LINE_ENDS = frozenset("\u0085\u2028\u2029")


def plain_text(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """A text as a reader sees it, and where in the text each character of that starts and ends.

    There are no escapes of JSON, HTML, URLs and Markdown in it, and no bold type; digits of any script are ASCII.
    """
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    last = 0
    for match in _ESCAPE.finditer(text):
        start, end = match.span()
        shown = _shown(match.group())
        parts += [text[last:start], shown]
        starts += [*range(last, start), *[start] * len(shown)]
        ends += [*range(last + 1, start + 1), *[end] * len(shown)]
        last = end
    if not parts:
        return text, range(len(text)), range(1, len(text) + 1)
    starts += range(last, len(text))
    ends += range(last + 1, len(text) + 1)
    return "".join([*parts, text[last:]]), starts, ends


def _shown(written: str) -> str:
    """What one character, or one escape, shows; invisible characters and the marks of bold type show nothing."""
    if written.startswith("*"):
        return ""
    if written.startswith(("\\u", "%")):
        written = chr(int(written.removeprefix("\\u").removeprefix("%"), 16))
    elif written.startswith("&"):
        written = html.unescape(written)
    elif written.startswith("\\"):
        written = written[1:]
    return written if written.isascii() else "".join(map(_plain, written))


def _plain(char: str) -> str:
    kind = unicodedata.category(char)
    if char in _DASHES or char in _LINE_ENDS:
        return "-" if char in _DASHES else "\n"
    if kind in ("Nd", "Zs", "Cf"):
        return str(unicodedata.decimal(char)) if kind == "Nd" else " " if kind == "Zs" else ""
    same = unicodedata.normalize("NFKC", char)
    return same if same.isascii() else char


_RUN = re.compile(r"\d+(?:(?:(?!--|\.\s)[ ().\-/~\n]){1,4}\d+)*")
_GROUP = re.compile(r"\d+")

Group = tuple[int, int]
"""The half-open range of some digits with none beside them."""


def digit_runs(text: str, *, fewest: int) -> Iterator[list[Group]]:
    """The groups of each run that is long enough for ``fewest`` digits."""
    for run in _RUN.finditer(text):
        if run.end() - run.start() >= fewest:
            yield [group.span() for group in _GROUP.finditer(text, run.start(), run.end())]


def windows(text: str, groups: list[Group], first: int, *, fewest: int, most: int) -> list[tuple[int, str]]:
    """(index behind its last group, digits) of what begins with the group ``first``, the longest first."""
    digits = accumulate(text[slice(*group)] for group in groups[first : first + most])
    runs = [(end, run) for end, run in enumerate(digits, first + 1) if fewest <= len(run) <= most]
    return runs[::-1]


REGIONS = (
    "US", "GB", "DE", "FR", "IT", "ES", "PT", "NL", "BE", "CH", "AT", "IE", "PL", "CZ", "SK", "HU", "RO", "BG",
    "GR", "HR", "RS", "UA", "RU", "TR", "DK", "SE", "NO", "FI", "IL", "EG", "SA", "AE", "MA", "NG", "KE", "ZA",
    "GH", "IN", "PK", "BD", "LK", "CN", "TW", "HK", "JP", "KR", "SG", "MY", "TH", "VN", "ID", "PH", "AU", "NZ",
    "BR", "MX", "AR", "CL", "CO", "PE",
)  # fmt: skip
"""Whose national numbers are found; more regions would find more amounts."""

_FEWEST, _MOST = 6, 17
_LEAD = re.compile(r"(?:\(\+|\+ ?\(|\+|\() ?$")
_LABEL = re.compile(
    r"(?<![^\W\d_])(?:tel|tél|telephone|téléphone|telefon|telefono|teléfono|telefone|phone|mobile|mobil|cell"
    r"|handy|fax|call|dial|whatsapp|sms|тел|телефон|τηλ|هاتف|电话|電話|전화)(?![^\W\d_])"
    r"[\s:.#№]{0,3}(?:(?:no|nr|number|us|me|him|her|them|at|on|is|under)\b[\s:.#]{0,3}){0,3}$",
    re.IGNORECASE,
)
_LABEL_CHARS = 48
_AMERICAN = re.compile(r"(?:1[ .-])?\(?\d{3}\)?[ .-]{1,2}\d{3}[ .-]\d{4}(?!\d)|\d{3}-\d\d-\d{4}(?![\d-])")
_HAS_PREFIX = re.compile(r"\(?0\d")
_NO_PHONE = re.compile(
    r"\d{1,3}(?:[ .]\d{3})*[ .]000$|\d\d?\.\d\d[^\d.]{1,3}\d\d?\.\d\d(?!\.)|\(? ?[12]\d{3}\D+[12]\d{3}$"
)
"""Round amounts, times of the day, and years from one to another."""


def phone_numbers(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of the phone numbers of a plain text, ascending, each with its prefix and its parentheses."""
    for groups in digit_runs(text, fewest=_FEWEST):
        lengths = [end - start for start, end in groups]
        counts = (count for count in range(1, _MOST + 1) if len(groups) % count == 0)
        periods = frozenset(count for count in counts if lengths[count:] == lengths[:-count])
        first = 0
        while first < len(groups):
            start = groups[first][0]
            match = _LEAD.search(text, max(0, start - 3), start)
            lead = start if match is None else match.start()
            end = _end(text, groups, first, lead, periods)
            if end is not None:
                last = groups[end - 1][1]
                if text[lead] == "(" and text.count("(", lead, last) > text.count(")", lead, last):
                    lead += 1  # it is around the number, or opens before it
                yield lead, last
            first = end or first + 1


def _end(text: str, groups: list[Group], first: int, lead: int, periods: frozenset[int]) -> int | None:
    """The index behind the last group of the longest phone number that begins with the group ``first``.

    ``lead`` is where its plus sign or parenthesis stands, and ``periods`` says after how many groups the lengths of
    the run repeat, up to its end.
    """
    start = groups[first][0]
    ends = windows(text, groups, first, fewest=_FEWEST, most=_MOST)
    if "+" in text[lead:start]:
        numbers = [(end, text[lead : groups[end - 1][1]]) for end, _ in ends]
        on_one_line_first = sorted(numbers, key=lambda pair: "\n" in pair[1])
        return next((end for end, number in on_one_line_first if _is_international(number)), None)
    if _is_letter(text[lead - 1 : lead]):
        return None
    american = _AMERICAN.match(text, lead) or _AMERICAN.match(text, start)
    is_labelled = _LABEL.search(text, max(0, lead - _LABEL_CHARS), lead) is not None
    for end, digits in ends:
        last = groups[end - 1][1]
        written = text[lead:last]
        if written.count("\n") > written.count("-\n") or _is_letter(text[last : last + 1]):
            continue
        is_whole = _HAS_PREFIX.match(written) or _stands_alone(text, groups, first, end, periods)
        if is_labelled and len(digits) <= 15:
            return end
        if (american is not None and american.end() == last) or (is_whole and _is_national(written, digits)):
            return end
    return None


def _is_letter(mark: str) -> bool:
    """A letter that joins digits to a word, as in hexadecimal digests; scripts without spaces have none."""
    return mark == "_" or (mark.isascii() and mark.isalpha())


def _stands_alone(text: str, groups: list[Group], first: int, end: int, periods: frozenset[int]) -> bool:
    """Whether the groups ``[first, end)`` are no part of a list, whose numbers have the same mark between them.

    A run that repeats their lengths is one phone number after another, unless all of them might be years or hundreds.
    """
    inside = {text[groups[at - 1][1] : groups[at][0]] for at in range(first + 1, end)}
    beside = {text[groups[at - 1][1] : groups[at][0]] for at in (first, end) if 0 < at < len(groups)}
    if not inside & beside:
        return True
    count = end - first
    if count not in periods or first % count != 0:
        return False
    lengths = {last - start for start, last in groups[first:end]}
    return max(lengths) > 4 or len(lengths) > 1


@lru_cache(maxsize=4096)
def _is_international(written: str) -> bool:
    try:
        number = phonenumbers.parse(written.replace("\n", " "))
    except phonenumbers.NumberParseException:
        return False
    return bool(phonenumbers.is_possible_number_with_reason(number) == ValidationResult.IS_POSSIBLE)


@lru_cache(maxsize=4096)
def _is_national(written: str, digits: str) -> bool:
    """Whether it is valid in a region; one group without a 0 in front has to be a mobile phone's."""
    if digits.startswith("00"):
        return _is_international(f"+{digits[2:]}")
    has_prefix = _HAS_PREFIX.match(written) is not None
    if not 7 <= len(digits) <= 14 or _NO_PHONE.match(written):
        return False
    is_bare = digits == written and not has_prefix
    if is_bare and len(digits) < 10:
        return False
    grouping = Leniency.VALID if has_prefix else Leniency.EXACT_GROUPING
    shown = written.replace("\n", " ")
    return any(
        match.end - match.start == len(shown)
        for region in REGIONS
        if _plan(region, mobile=is_bare).fullmatch(digits)
        for match in PhoneNumberMatcher(shown, region, leniency=grouping)
    )


@cache
def _plan(region: str, *, mobile: bool) -> re.Pattern[str]:
    """Which digits may be a number of the region, with its prefix: a quick look before the library's long one."""
    plan = PhoneMetadata.metadata_for_region(region)
    kind = None if plan is None else plan.mobile if mobile else plan.general_desc
    if plan is None or kind is None:
        raise ValueError(f"phonenumbers should have the plan of {region}, has none")
    return re.compile(f"(?:{plan.national_prefix or ''})?(?:{kind.national_number_pattern})")


_MAY_HOLD = re.compile(r"[@＠﹫]|%40|&commat;|(?:\d\D{0,12}){6}|\\u0040|&#0*64;|&#[xX]0*40;", re.IGNORECASE)
"""What every text has in which something is found."""

_NAME = regex.compile(r"(?r)[\p{L}\p{M}\p{N}_.!#$%'*+^`{|}~-]+")
_QUOTED_NAME = regex.compile(r'(?r)"[^"\n]{1,64}"')
_NAME_START = regex.compile(r"[\p{L}\p{M}\p{N}_]")
_HOST = regex.compile(
    r"\[[\d.:a-f]{3,45}\]|\d{1,3}(?:\.\d{1,3}){3}(?![\p{L}\d])"
    r"|(?:[\p{L}\p{M}\p{N}_-]+\.)+(?:xn--[a-z\d-]+|\p{L}[\p{L}\p{M}]+)",
    regex.IGNORECASE,
)
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])(?:IBAN)?([A-Z]{2}[0-9]{2}(?:[ ._-]?\n?[A-Z0-9]){11,30})", re.IGNORECASE)
_NO_SIGN = re.compile(r"[^A-Za-z0-9]")
_BETWEEN_GROUPS = re.compile(r"_|(?<=\d{4})(?:,| ?\| ?)(?=\d{4})")
"""What tables and files have between the groups of a card number."""
_NO_SECRET = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=[0-9]*[a-f])[0-9a-f]{32,})(?![0-9a-f])"
    r"|(?<![\d+.-])(?:(?:1[89]|2[01])\d\d([./-])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])"
    r"|(?:0?[1-9]|[12]\d|3[01])([./-])(?:0?[1-9]|[12]\d|3[01])\2(?:1[89]|2[01])\d\d)(?![./-]?\d)"
    r"|(?<![\d+.-])97[89]-\d{1,5}-\d{1,7}-\d{1,6}-\d(?![\d-])"
    r"|(?<![\d+.,-])(?:0|[1-9]\d{0,2})(?:\.\d{4,}|,\d{4,12})(?![\d.-])",
    re.IGNORECASE,
)
_CARD = re.compile(
    r"4\d{12}(?:\d{3})?|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}|35\d{14}"
    r"|(?:5[0678]|6\d|8[12])\d{11,17}|9792\d{12}"
)
"""Which beginnings and lengths card numbers have."""


def secret_ranges(text: str) -> Iterator[CharRange]:
    """Everything that is found, in no order; ranges may overlap."""
    if _MAY_HOLD.search(text) is None:
        return
    plain, starts, ends = plain_text(text)
    accounts = list(_accounts(plain))
    rest = _without(plain, accounts)
    rest = _without(rest, (match.span() for match in _NO_SECRET.finditer(rest)))
    for start, end in chain(_addresses(plain), accounts, _cards(rest), phone_numbers(rest)):
        yield CharRange(starts[start], ends[end - 1])


def _without(text: str, ranges: Iterable[tuple[int, int]]) -> str:
    """The text with the ascending ``ranges`` blotted out, so that nothing is found in them."""
    parts, last = [], 0
    for start, end in ranges:
        parts += [text[last:start], "■" * (end - start)]
        last = end
    return "".join([*parts, text[last:]]) if parts else text


def _addresses(text: str) -> Iterator[tuple[int, int]]:
    for at in (match.start() for match in re.finditer("@", text)):
        host = _HOST.match(text, at + 1)
        name = _QUOTED_NAME.match(text, 0, at) or _NAME.match(text, 0, at)
        if name is not None and not name.group().startswith('"'):
            name = _NAME_START.search(text, name.start(), at)
        if host is not None and name is not None:
            yield name.start(), host.end()


def _accounts(text: str) -> Iterator[tuple[int, int]]:
    for match in _ACCOUNT.finditer(text):
        written = match.group(1)
        for length in range(len(written), 14, -1):
            if written[length - 1].isalnum() and iban.is_valid(_NO_SIGN.sub("", written[:length]), check_country=False):
                yield match.start(1), match.start(1) + length
                break


def _cards(text: str) -> Iterator[tuple[int, int]]:
    text = _BETWEEN_GROUPS.sub(lambda match: " " * len(match.group()), text)
    for groups in digit_runs(text, fewest=13):
        first = 0
        while first < len(groups):
            ends = windows(text, groups, first, fewest=13, most=19)
            end = next((end for end, digits in ends if _is_card(text, groups[first:end], digits)), None)
            if end is not None:
                yield groups[first][0], groups[end - 1][1]
            first = end or first + 1


def _is_card(text: str, groups: list[Group], digits: str) -> bool:
    if not (_CARD.fullmatch(digits) and luhn.is_valid(digits)):
        return False
    lengths = [end - start for start, end in groups]
    is_usual = len(groups) <= 2 or set(lengths[:-1]) == {4} or lengths[:2] == [4, 6]
    return is_usual or "\n" not in text[groups[0][0] : groups[-1][1]]
