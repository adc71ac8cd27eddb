"""The names in an answer, whole, what a passage says, and whether it repeats a name as people would say it does.

A name is a run of capitalised proper nouns. It is repeated where each of its words occurs, in another form or as part
of initials, in one of the passages that it is held against.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain, combinations, pairwise
from typing import TypeAlias

from attribeam.attribution.answers.markup import range_overlapping
from attribeam.attribution.answers.parsed_answer import BEFORE_NUMBERS, ParsedAnswer, base_label, sentence_of_word
from attribeam.attribution.answers.plain_text import (
    DATE,
    DOTTED_DATE,
    FULL_STOP_AFTER_LETTER,
    FUNCTION_WORDS,
    ISO_DATE,
    MONTHS,
    SLASHED_DATE,
    UNIT_BESIDE_NUMBER,
    VERSION,
    WORD,
    Kind,
    Number,
    Reading,
    clock_times_in,
    comparable_words,
    date_fields,
    numbers_in,
    plain_text,
    remembered,
)
from attribeam.attribution.answers.quantities import (
    CHANGE,
    PERCENT_BEHIND,
    RATE,
    comparable,
    number_quantities,
    phrases_in,
)
from attribeam.schemas import CharRange, Passage

Phrase = tuple[str, ...]
"""The words of a name, in lower case, without full stops and possessives."""
Range: TypeAlias = tuple[str, Decimal, Decimal]
"""A kind of reading, and the least and the largest size that repeats a value."""

_FORM_GROUPS = """
alabama|al alaska|ak arizona|az|ariz arkansas|ar|ark california|ca|calif colorado|co|colo connecticut|ct|conn
delaware|de|del florida|fl|fla georgia|ga hawaii|hi idaho|id illinois|il|ill indiana|in|ind iowa|ia kansas|ks|kan
kentucky|ky louisiana|la maine|me maryland|md massachusetts|ma|mass michigan|mi|mich minnesota|mn|minn
mississippi|ms|miss missouri|mo montana|mt|mont nebraska|ne|neb nevada|nv|nev new+hampshire|nh new+jersey|nj
new+mexico|nm new+york|ny north+carolina|nc north+dakota|nd ohio|oh oklahoma|ok|okla oregon|or|ore
pennsylvania|pa|penn rhode+island|ri south+carolina|sc south+dakota|sd tennessee|tn|tenn texas|tx|tex utah|ut
vermont|vt virginia|va washington|wa|wash west+virginia|wv wisconsin|wi|wis wyoming|wy district+of+columbia|dc
british+columbia|bc ontario|ont quebec|que new+south+wales|nsw
united+states|united+states+of+america|us|usa|america|american|americans
united+kingdom|great+britain|uk|gb|britain|british|briton|britons
european+union|eu united+nations|un soviet+union|ussr|soviet|soviets united+arab+emirates|uae|emirati
new+york+city|nyc|new+york los+angeles|la san+francisco|sf washington+dc|washington|dc hong+kong|hk new+zealand|nz
islamic+state|isis|isil|is|daesh england|english france|french spain|spanish netherlands|holland|dutch
switzerland|swiss greece|greek|greeks denmark|danish|danes poland|polish|poles turkey|turkiye|turkish|turks
ireland|irish scotland|scottish|scots wales|welsh philippines|filipino|filipinos thailand|thai|thais
finland|finnish|finns sweden|swedish|swedes norway|norwegian germany|german|germans iraq|iraqi|iraqis iran|iranian
israel|israeli|israelis pakistan|pakistani afghanistan|afghan|afghans yemen|yemeni|yemenis kuwait|kuwaiti
mexico|mexican|mexicans slovakia|slovak|slovaks egypt|egyptian|egyptians morocco|moroccan|moroccans
croatia|croatian|croat|croats serbia|serbian|serb|serbs canada|canadian|canadians argentina|argentine|argentines
qatar|qatari china|chinese burma|myanmar|burmese somalia|somali|somalis bangladesh|bangladeshi nepal|nepalese|nepali
monday|mon tuesday|tue|tues wednesday|wed thursday|thu|thur|thurs friday|fri saturday|sat sunday|sun
street|st saint|st avenue|ave|av road|rd boulevard|blvd drive|dr lane|ln suite|ste highway|hwy fort|ft mount|mt
mountain|mt|mtn department|dept university|univ junior|jr senior|sr association|assn|assoc national|natl
international|intl government|govt|gov't brothers|bros north|n south|s east|e west|w northwest|nw northeast|ne
southwest|sw southeast|se television|tv covid|coronavirus celsius|c fahrenheit|f christianity|christian|christians
islam|islamic|muslim|muslims judaism|jewish|jews|jew
ai|artificial+intelligence hr|human+resources it|information+technology ram|memory cpu|processor
gpu|graphics+card|graphics+processor pc|computer fed|federal+reserve sso|single+sign+on
q1|1q|first+quarter q2|2q|second+quarter q3|3q|third+quarter q4|4q|fourth+quarter h1|first+half h2|second+half
"""

TITLES = frozenset(
    """
    mr mrs ms miss dr doctor prof professor sir dame lord lady president vice chancellor governor gov senator sen
    representative rep congressman congresswoman secretary minister mayor judge justice attorney officer deputy sheriff
    chief captain capt lieutenant lt sergeant sgt colonel col general gen major maj admiral king queen prince princess
    pope cardinal bishop reverend rev father sister brother coach director ceo aunt uncle the st mt
    """.split()  # noqa: SIM905
)
"""Words before a name that say what someone is; a name is the same without them."""
_COMPANY_FORMS = frozenset(
    "inc incorporated corp corporation co company ltd limited llc llp plc gmbh ag sa nv bv".split()  # noqa: SIM905
)
"""Words behind the name of a company; the name is the same without them."""
_NO_NAMES = frozenset(
    """
    fahrenheit celsius kelvin json html pdf csv note ref refs passage passages step figure fig table tl whichever
    """.split()  # noqa: SIM905
)
"""Words that are written as names, but name nothing that a passage must repeat: units, formats, labels and others."""


def _forms(text: str) -> Mapping[Phrase, tuple[Phrase, ...]]:
    """For each form of a name its others. Blanks separate groups, bars the forms of one, pluses the words of a form."""
    by_form: dict[Phrase, dict[Phrase, None]] = {}
    for group in text.split():
        forms = [tuple(form.split("+")) for form in group.split("|")]
        for form in forms:
            by_form.setdefault(form, {}).update((other, None) for other in forms if other != form)
    return {form: tuple(others) for form, others in by_form.items()}


_OTHER_FORMS = _forms(_FORM_GROUPS)
"""The other forms of a name that has some: ("ny",) for ("new", "york")."""

_BEHIND_VERBS = frozenset(["your", "it", "them", "into", "onto"])
_ADDED_ENDINGS = ("n", "an", "ian", "ese", "ic", "ism", "ist", "ity")
_STEM_LENGTH = 4
_ALIKE = 0.8
_LONGEST_ABBREVIATION = 3
_LONGEST_ACRONYM = 6
_SHORTEST_INITIALS = 3
_NUMBER_BEHIND = re.compile(r"\.?\s?\d")
_FISCAL_YEAR = re.compile(r"FY(?:\d{2}(?:\d{2})?)?")
_WITHIN_NAME = re.compile(r"[ -]?|\s?&\s?")
_BETWEEN_NAMES = re.compile(r" (?:(?:of|for|and|de|in|on|to)(?: the)?|the|&) ")
_GLOSS = re.compile(r" \(([A-Z][A-Za-z]*[A-Z])s?\)")


@dataclass(frozen=True, slots=True)
class NamePart:
    """One word of a name: where it stands, how it is written, and its words in comparable form.

    Where ``is_beside``, the parser did not call it a name itself. A title or the form of a company is what a name may
    have or lack, a letter alone may be the initial of a middle name.
    """

    chars: CharRange
    written: str
    words: Phrase
    is_beside: bool = False

    @property
    def is_title(self) -> bool:
        return all(word in TITLES or word in _COMPANY_FORMS for word in self.words)


@dataclass(frozen=True, slots=True)
class AnswerName:
    """A whole name: its words, and those of a longer run around it, from the place ``first`` of the run on.

    So "Labor" stands in the run "Bureau of Labor Statistics", which small words join. ``silent`` are the places of
    parts that need not occur. ``gloss`` are initials that the answer gives behind the run, in brackets: "BLS"; "" for
    none.
    """

    chars: CharRange
    parts: tuple[NamePart, ...]
    run: tuple[NamePart, ...]
    first: int
    silent: frozenset[int]
    gloss: str = ""

    def parts_in(self, passage: PassageContent) -> frozenset[int]:
        """The places of the parts that a passage repeats; all, where it has the surname of a name of two words.

        The surname must never stand behind another name than the first.
        """
        parts = self.parts
        repeated = {index for index in range(len(parts)) if index in self.silent or self._occurs(index, passage)}
        if len(repeated) < len(parts):
            repeated |= {index - self.first for index in self._covered_by_forms(passage)} & set(range(len(parts)))
        if len(parts) == 2 and repeated == {1} and not self.silent:
            first, last = (part.words[-1] for part in parts)
            before = passage.names_before(last) - TITLES
            if all(SequenceMatcher(None, first, other).ratio() >= _ALIKE for other in before):
                repeated.add(0)
        return frozenset(repeated)

    def _occurs(self, index: int, passage: PassageContent) -> bool:
        """True where each word of the part occurs as it is, as initials, or as a demonym.

        So "Italian" is "Italy", alone and in "Italian President Rossi". But a first name is none: a passage on Normandy
        names no "Norman Hale".
        """
        part = self.parts[index]
        may_be_demonym = len(self.parts) == 1 or any(part.is_title for part in self.parts[index + 1 : index + 2])
        is_acronym = part.written.isupper()
        return all(
            word in passage.words
            or _word_occurs(word, passage, is_acronym=is_acronym)
            or (may_be_demonym and _is_demonym(word, passage))
            for word in part.words
        )

    def is_repeated_by(self, parts: frozenset[int]) -> bool:
        """Whether the parts that passages repeat are enough: all of them."""
        return len(parts) == len(self.parts)

    def _covered_by_forms(self, passage: PassageContent) -> Iterator[int]:
        """Places in the run of words that the passage has in another form, such as initials."""
        end_of_name = self.first + len(self.parts)
        if self.gloss and self.gloss in passage.capitals:
            yield from range(self.first, end_of_name)
            return
        for start in range(max(0, self.first - _LONGEST_ACRONYM + 1), end_of_name):
            for end in range(max(start, self.first) + 1, min(len(self.run), start + _LONGEST_ACRONYM) + 1):
                phrase = tuple(word for part in self.run[start:end] for word in part.words)
                joined, initials = "".join(phrase), "".join(word[0] for word in phrase).upper()
                if len(phrase) == 1:
                    occurs = len(joined) >= _STEM_LENGTH and joined in passage.joined_words
                else:
                    occurs = joined in passage.words or (len(initials) > 1 and initials in passage.capitals)
                if occurs or other_form(phrase, passage):
                    yield from range(start, end)


def other_form(phrase: Phrase, passage: PassageContent) -> Phrase | None:
    """The words of a name in the other form that a passage has: ("ny",) for ("new", "york"); None for none.

    An abbreviation of up to three letters counts in capitals only: "IN" is Indiana, "in" is not. Longer words may have
    the "s" of a plural.
    """
    last = phrase[-1].removesuffix("s") if len(phrase[-1]) > _LONGEST_ABBREVIATION + 1 else phrase[-1]
    for form in _OTHER_FORMS.get(phrase) or _OTHER_FORMS.get((*phrase[:-1], last), ()):
        if len(form) == 1 and len(form[0]) <= _LONGEST_ABBREVIATION:
            occurs = form[0].upper() in passage.capitals or form[0].title() in passage.capitalised
        else:
            occurs = passage.words.issuperset(form)
        if occurs:
            return form
    return None


def _word_occurs(word: str, passage: PassageContent, *, is_acronym: bool) -> bool:
    """Whether a word that the passage does not have occurs in another spelling, as initials, or as a day of several."""
    singular = word.rstrip("s")
    spellings = [singular, word + "s"]
    for british, american in (("our", "or"), ("tre", "ter"), ("ence", "ense"), ("ise", "ize"), ("isa", "iza")):
        spellings += [word.replace(british, american), word.replace(american, british)]
    return (
        (singular in _DAYS and singular in passage.days)
        or not passage.words.isdisjoint(spellings)
        or (is_acronym and len(word) > 1 and any(word in initials for initials in passage.initials))
        or (is_acronym and len(word) >= _SHORTEST_INITIALS and word in passage.content_initials)
    )


def _is_demonym(word: str, passage: PassageContent) -> bool:
    """True where a passage names the place of the word, or people of the place: "Germany" and "German"."""
    names, singular = passage.lower_capitalised, word.rstrip("s")
    is_people = len(singular) >= _STEM_LENGTH + 2 and singular.endswith(("an", "ese", "ish"))
    return (len(word) > _STEM_LENGTH and any(word + ending in names for ending in _ADDED_ENDINGS)) or (
        is_people and any(name.startswith(singular[:_STEM_LENGTH]) for name in names)
    )


def answer_names(parsed: ParsedAnswer, text: str) -> Iterator[AnswerName]:
    """The names of an answer, ascending, but for months; ``text`` is the answer without its markup."""
    run: list[list[NamePart]] = []
    for part in (*_parts(parsed, text), None):
        gap = (run[-1][-1].chars.char_end, part.chars.char_start) if run and part else None
        if gap and part and _WITHIN_NAME.fullmatch(text, *gap):
            run[-1].append(part)
            continue
        if run and not (gap and _BETWEEN_NAMES.fullmatch(text, *gap)):
            yield from _names_of_run(run, text)
            run = []
        run += [[part]] if part else []


def _names_of_run(run: Sequence[Sequence[NamePart]], text: str) -> Iterator[AnswerName]:
    parts = tuple(part for segment in run for part in segment)
    match = _GLOSS.match(text, parts[-1].chars.char_end)
    initials = {word[0].upper() for part in parts for word in part.words}
    gloss = match[1].upper() if match and not initials.isdisjoint(match[1]) else ""
    first = 0
    for segment in run:
        silent = {index for index, part in enumerate(segment) if part.is_beside or part.is_title}
        letters = {index for index, part in enumerate(segment) if all(len(word) == 1 for word in part.words)}
        if len(silent | letters) < len(segment):
            silent |= letters
        if len(silent) < len(segment):
            chars = CharRange(segment[0].chars.char_start, segment[-1].chars.char_end)
            yield AnswerName(chars, tuple(segment), parts, first, frozenset(silent), gloss)
        first += len(segment)


def _parts(parsed: ParsedAnswer, text: str) -> Iterator[NamePart]:
    """Proper nouns with a capital letter, and what belongs to them; units beside a number are none.

    A capitalised word of another kind beside a proper noun ("American" in "American Cancer Society") and a word that a
    hyphen joins to one are part of the name, but need not occur.
    """
    units = [CharRange(*match.span(match.lastgroup or 0)) for match in UNIT_BESIDE_NUMBER.finditer(text)]
    named = {
        word
        for word, tag in enumerate(parsed.universal_tags)
        if tag == "PROPN"
        and _may_name(parsed, word, text, units)
        and not _abbreviates(parsed.words[word], text)
        and not is_capitalised_as_first(parsed, word, text)
    }
    neighbours = (word for step in (-1, 1) for word in _neighbours(parsed, named, text, step))
    beside = {word for word in neighbours if _may_name(parsed, word, text, units)}
    for word in sorted(named | beside):
        chars = parsed.words[word]
        written = chars.of(text)
        yield NamePart(chars, written, tuple(comparable_words(written)), word in beside)


def _may_name(parsed: ParsedAnswer, word: int, text: str, units: Sequence[CharRange]) -> bool:
    written = parsed.words[word].of(text)
    if not any(character.isupper() for character in written) or range_overlapping(parsed.words[word], units):
        return False
    words = comparable_words(written)
    is_name = bool(words) and words[0] not in MONTHS and not _NO_NAMES.issuperset(words)
    return is_name and not _FISCAL_YEAR.fullmatch(written) and not _numbers(parsed.words[word], text)


def _numbers(chars: CharRange, text: str) -> bool:
    """Whether a word is an abbreviation before a number: that of "No. 5", "Art 12"."""
    behind = _NUMBER_BEHIND.match(text, chars.char_end)
    return behind is not None and f"{chars.of(text).lower().rstrip('.')}." in BEFORE_NUMBERS


def _neighbours(parsed: ParsedAnswer, named: set[int], text: str, step: int) -> Iterator[int]:
    """Words of other kinds, with a capital letter, right beside proper nouns; several in a row count as well."""
    for name in named:
        word = name + step
        while 0 <= word < len(parsed.words) and word not in named:
            first, second = sorted((word, word - step))
            gap = text[parsed.words[first].char_end : parsed.words[second].char_start]
            written = parsed.words[word].of(text)
            is_named = written[0].isupper() and parsed.universal_tags[word] in _NAMING_TAGS
            if gap not in ("", " ") or not (is_named if written != "-" else not gap):
                break
            if any(map(str.isalpha, written)):
                yield word
            word += step


def _abbreviates(chars: CharRange, text: str) -> bool:
    """True for the initials, in brackets, of the words before them: "Iron Ore Board (IOB)"."""
    name = chars.of(text)
    before = text[max(chars.char_start - 200, 0) : chars.char_start]
    if not before.endswith("(") or not text.startswith(")", chars.char_end) or len(name) < 2:
        return False
    initials = [word[0] for word in re.findall(r"\w+", before) if word.lower() not in SMALL_WORDS]
    return "".join(initials[-len(name) :]).lower() == name.lower()


_NAMING_TAGS = frozenset({"ADJ", "NOUN", "VERB", "ADV", "X", "PROPN"})
_LEADING_LABELS = frozenset(
    {"aux", "auxpass", "amod", "compound", "advmod", "neg", "mark", "cc", "preconj", "case", "prep", "agent"}
)
_VERBAL_CHILDREN = frozenset(
    {"obj", "dobj", "iobj", "obl", "xcomp", "ccomp", "advcl", "advmod", "prt", "prep", "dative"}
)


def is_capitalised_as_first(parsed: ParsedAnswer, word: int, text: str) -> bool:
    """True for the first word of a sentence, or one behind a colon, that its place alone makes a capital letter.

    So it seems where the word leads a request ("Dip a cloth", "Rinse it"), has what only a verb has ("Sow seeds
    directly"), is an auxiliary or an adjective ("May prevent", "Indoor seating"), a label ("Sunshine: ..."), or a verb
    before "of" ("Consists of").
    """
    start, end = sentence_of_word(parsed, word)
    chars, label = parsed.words[word], base_label(parsed.dependency_labels[word])
    form = chars.of(text)
    if word != start and text[: chars.char_start].rstrip()[-1:] not in (":", "*", ""):
        return False
    if any(map(str.isupper, form[1:])):
        return False
    following, next_form = "", ""
    if word + 1 < end:
        following, next_form = parsed.universal_tags[word + 1], parsed.words[word + 1].of(text)
    if (
        (form == "May" and following == "VERB")
        or (label in _LEADING_LABELS and following != "PROPN")
        or next_form == ":"
        or next_form in _BEHIND_VERBS
        or (next_form == "of" and form in ("Composed", "Comprised", "Consisting", "Consists", "Made"))
    ):
        return True
    heads = parsed.dependency_heads
    children = {base_label(parsed.dependency_labels[child]) for child in range(word + 1, end) if heads[child] == word}
    has_verbal_child = following != "PROPN" and not _VERBAL_CHILDREN.isdisjoint(children)
    return heads[word] == word and (following in ("DET", "PRON") or has_verbal_child)


_BOLD_NUMBER = re.compile(r"(?<!\d)\*\*(?=[$€£]?\d)|(?<=[\d%])\*\*(?!\d)")
_CAMEL_CASE, _BETWEEN_CAMELS = re.compile(r"[a-z][A-Z]"), re.compile(r"(?<=[a-z])(?=[A-Z])")
_YEAR = re.compile(r"(?:1\d|20)\d\d(?<![\d.,$€£]\d{4})(?!\d|[.,]\d|\s?%)")
_DIGITS_JOINED = re.compile(r"\d[-./]\d")
_MONTHS_OR_VERBS = frozenset({"may", "march"})
_KINDS_OF_DATES = frozenset({Kind.MONTH, Kind.MINUTE})
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PARTS_OF_THE_WEEK = {"weekday": frozenset(_DAYS[:5]), "weekend": frozenset(_DAYS[5:])}
_SHORT_DAYS = tuple(day[:3] for day in _DAYS)
_DAY = rf"({'|'.join(_SHORT_DAYS)})(?:s|rs?|(?:s|nes|rs|ur)?days?)?\.?"
_RANGE_OF_DAYS = re.compile(rf"\b{_DAY}\s?(?:[-–—]|to|through|thru|until|till)\s?{_DAY}(?!\w)", re.IGNORECASE)
_WORD_BEHIND = re.compile(r"[\s-]+([^\W\d_]{3,})")
_COUNTED_LETTERS = 5
_BETWEEN_PHRASES = re.compile(r"[.,;:!?()\n]")
_INITIAL = re.compile(r"[A-Z]\.")
_CAPITALISED_PREFIX = re.compile(r"([A-Z])\w*")
SMALL_WORDS = frozenset({"of", "the", "and", "for", "de", "&"})


SHARED = "%"
"""What a share counts."""
DIFFERENCE = "difference in "
"""What the kind of a difference begins with."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_MOST_COMPARED = 8


class PassageContent:
    """What one passage, its title included, says in comparable form; each part is read when first asked for."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    @cached_property
    def plain(self) -> str:
        text = f"{self._passage.title or ''}\n{self._passage.text}"
        return plain_text(_BOLD_NUMBER.sub("", text) if "**" in text else text)

    @cached_property
    def _written(self) -> list[str]:
        return WORD.findall(self.plain)

    @cached_property
    def _word_list(self) -> list[str]:
        return comparable_words(self.plain)

    @cached_property
    def words(self) -> frozenset[str]:
        """Words in lower case, without diacritics; "OutdoorSeating" counts as one word and as two."""
        words = frozenset(self._word_list)
        if _CAMEL_CASE.search(self.plain):
            words |= {*comparable_words(_BETWEEN_CAMELS.sub(" ", self.plain))}
        return words

    def sizes(self, kind: str) -> frozenset[Decimal]:
        """All sizes of the readings of one kind, or the differences of two of them in one sentence."""
        if kind.startswith(DIFFERENCE):
            return self._differences.get(kind.removeprefix(DIFFERENCE), frozenset())
        return (self._dates if kind in _KINDS_OF_DATES else self._readings).get(kind, frozenset())

    def repeats(self, part: Collection[Range]) -> bool:
        """Whether some reading of a kind has a size in its range; most have that of a number, which is looked at first.

        What counts anything may count time.
        """
        amounts = self._amounts
        if any(least in amounts for kind, least, _ in part if kind is Kind.AMOUNT_OF_TIME):
            return True
        return any(
            least in (sizes := self.sizes(kind)) or (least < most and any(least <= size <= most for size in sizes))
            for kind, least, most in part
        )

    @cached_property
    def _numbers(self) -> list[Number]:
        return numbers_in(self.plain)

    @cached_property
    def _amounts(self) -> frozenset[Decimal]:
        return frozenset(amount for number in self._numbers for amount in number.amounts)

    @cached_property
    def _readings(self) -> dict[str, frozenset[Decimal]]:
        text = self.plain
        readings: defaultdict[str, set[Decimal]] = defaultdict(set)
        for quantity in chain(number_quantities(self._numbers, text), phrases_in(text)):
            for kind, size in quantity.readings:
                readings[kind].add(size)
        for kind in self._undirected_changes():
            readings[kind].update((Decimal(1), Decimal(-1)))
        readings[Kind.CENTURY].update(Decimal(int(year) // 100 + 1) for year in _YEAR.findall(text))
        for kind, size in map(version, VERSION.findall(text) if _DIGITS_JOINED.search(text) else ()):
            readings[kind].add(size)
        if self.words.issuperset(_DAYS):
            readings[Kind.TIMES_A_WEEK].add(Decimal(7))
        return {kind: frozenset(sizes) for kind, sizes in readings.items()}

    def _undirected_changes(self) -> Iterator[str]:
        """Changes by a percentage that also stands where nothing says whether it is a rise: "a fall of 20%"."""
        text = self.plain
        directed = {
            phrase.end for phrase in phrases_in(text) if any(kind.startswith(CHANGE) for kind, _ in phrase.readings)
        }
        for number in self._numbers if directed else ():
            percent = PERCENT_BEHIND.match(text, number.end)
            if percent and percent.end() not in directed:
                yield from (f"{CHANGE}{(amount / 100).normalize():f}" for amount in number.amounts)

    @cached_property
    def _differences(self) -> dict[str, frozenset[Decimal]]:
        ends = [end.start() for end in _SENTENCE_END.finditer(self.plain)]
        compared: defaultdict[tuple[int, str], set[Decimal]] = defaultdict(set)
        for quantity in number_quantities(self._numbers, self.plain):
            for kind, size in comparable(quantity, self.plain):
                compared[bisect_left(ends, quantity.start), kind].add(size)
        differences: defaultdict[str, frozenset[Decimal]] = defaultdict(frozenset)
        for (_, kind), sizes in compared.items():
            if len(sizes) <= _MOST_COMPARED:
                differences[kind] |= {abs(one - other) for one, other in combinations(sizes, 2)}
        return differences

    @cached_property
    def dates(self) -> frozenset[tuple[int, int, int]]:
        """The day, month and year of each date; the year of one without is 0."""
        dates = (fields for match in DATE.finditer(self.plain) for fields in date_fields(match.group()))
        return frozenset(fields for fields in dates if fields[0])

    @cached_property
    def _dates(self) -> dict[str, frozenset[Decimal]]:
        """The months and the times of day."""
        text, words = self.plain, self.words
        months = [month for name, month in MONTHS.items() if name in words and self._names_month(name)]
        if _DIGITS_JOINED.search(text):
            months += (int(match[2]) for match in (*ISO_DATE.finditer(text), *DOTTED_DATE.finditer(text)))
            months += (int(part) for match in SLASHED_DATE.finditer(text) for part in match.groups())
        minutes = (size for time in clock_times_in(text) for _, size in time.readings)
        return {Kind.MONTH: frozenset(map(Decimal, months)), Kind.MINUTE: frozenset(minutes)}

    def _names_month(self, name: str) -> bool:
        """False for the verbs "may" and "march", which are written small and stand beside no number."""
        is_month = name not in _MONTHS_OR_VERBS or name.title() in self.capitalised or name.upper() in self.capitals
        beside_number = rf"\d(?:st|nd|rd|th)?\s(?:of\s)?{name}\b|\b{name},?\s(?:the\s)?\d"
        return is_month or re.search(beside_number, self.plain) is not None

    @cached_property
    def counted_nouns(self) -> frozenset[str]:
        """What its numbers count, as ``noun_behind`` has it, its kinds of rates, and ``SHARED`` if it has a share."""
        nouns = {noun_behind(self.plain, number.end) for number in self._numbers}
        has_share = self.sizes(Kind.SHARE) or any(
            PERCENT_BEHIND.match(self.plain, number.end) for number in self._numbers
        )
        rates = {kind for kind in self._readings if kind.startswith(RATE)}
        return frozenset(nouns | rates | {SHARED} if has_share else nouns | rates)

    @cached_property
    def days(self) -> frozenset[str]:
        """The days of the week that it has also without their names: those of "Tue-Sun" and "weekdays"."""
        named: set[str] = set()
        for first, last in _RANGE_OF_DAYS.findall(self.plain):
            start, end = (_SHORT_DAYS.index(day[:3].lower()) for day in (first, last))
            named.update(_DAYS[day % len(_DAYS)] for day in range(start, end + 1 + len(_DAYS) * (end < start)))
        for word, days in PARTS_OF_THE_WEEK.items():
            if not self.words.isdisjoint((word, word + "s")):
                named.update(days)
        return frozenset(named)

    def names_before(self, name: str) -> frozenset[str]:
        """Capitalised words right before a capitalised word, all in lower case: first names before a surname."""
        pattern = re.compile(rf"\b([A-Z]\w+)\.?\s+({re.escape(name)})\b", re.IGNORECASE)
        matches = (match for match in pattern.finditer(self.plain) if match[1][0].isupper() and match[2][0].isupper())
        return frozenset(match[1].lower() for match in matches)

    @cached_property
    def capitals(self) -> frozenset[str]:
        """Words all in capitals, without full stops: "US" for "U.S."."""
        undotted = FULL_STOP_AFTER_LETTER.sub("", self.plain)
        written = self._written if undotted == self.plain else WORD.findall(undotted)
        return frozenset([word for word in written if word.isupper()])

    @cached_property
    def capitalised(self) -> frozenset[str]:
        """Words with a capital first letter, as they are written."""
        return frozenset([word for word in self._written if word[0].isupper()])

    @cached_property
    def lower_capitalised(self) -> frozenset[str]:
        """The capitalised words in lower case."""
        return frozenset(map(str.lower, self.capitalised))

    @cached_property
    def joined_words(self) -> frozenset[str]:
        """Neighbouring words written as one: "wifi" for "Wi-Fi" and "wi fi"."""
        return frozenset(map("".join, pairwise(self._word_list)))

    @cached_property
    def initials(self) -> tuple[str, ...]:
        """First letters of its runs of capitalised words, one string per run: "un" for "the United Nations", "jpf" for
        "J. P. Ferrante"."""
        runs = [""]
        for chunk in self.plain.split():
            capitalised = _CAPITALISED_PREFIX.match(chunk)
            if capitalised:
                runs[-1] += capitalised[1].lower()
            rest = chunk[capitalised.end() :] if capitalised else chunk
            if rest and rest.lower() not in SMALL_WORDS and not _INITIAL.fullmatch(chunk):
                runs.append("")
        return tuple(run for run in runs if len(run) > 1)

    @cached_property
    def content_initials(self) -> str:
        """First letters of its words in lower or upper case, in runs without function words: "bmi" is in it for "body
        mass index". Blanks separate runs."""
        runs = _BETWEEN_PHRASES.split(self.plain.lower())
        words = (WORD.findall(run) for run in runs)
        return " ".join("".join(" " if word in FUNCTION_WORDS else word[0] for word in run) for run in words)


def noun_behind(text: str, end: int) -> str:
    """The first five letters of the word behind a number that ends there, "moons" of "three moons"; "" for none."""
    match = _WORD_BEHIND.match(text, end)
    return match[1].lower()[:_COUNTED_LETTERS] if match else ""


def version(number: str) -> Reading:
    """The reading of a version, which must occur as it is written: "4.8.2"."""
    return f"version {number}", Decimal(0)


@remembered
def passage_content(text: str, title: str | None) -> PassageContent:
    """What a passage says; logs repeat their passages, so that of the last ones is remembered."""
    return PassageContent(Passage(text=text, title=title))
