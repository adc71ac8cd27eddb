"""The names in an answer, whole, and whether a passage repeats them as people would say it does.

A name is a run of capitalised proper nouns. It is repeated where each of its words occurs, in another form or as part
of initials, in one of the passages that it is held against.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from attribeam.attribution.answers.markup import range_overlapping
from attribeam.attribution.answers.numbers_and_dates import MONTHS, UNIT_BESIDE_NUMBER
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, base_label, sentence_of_word
from attribeam.attribution.answers.plain_text import SMALL_WORDS, PassageContent, comparable_words
from attribeam.schemas import CharRange

Phrase = tuple[str, ...]
"""The words of a name, in lower case, without full stops and possessives."""

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
_COMPANIES = "inc incorporated corp corporation co company ltd limited llc llp plc gmbh ag sa nv bv"
_COMPANY_FORMS = frozenset(_COMPANIES.split())
"""Words behind the name of a company; the name is the same without them."""
_NAMELESS = "fahrenheit celsius kelvin json html pdf csv note ref refs passage passages step figure fig table whichever"
_NO_NAMES = frozenset(_NAMELESS.split())
"""Words that are written as names, but name nothing that a passage must repeat: units, formats, labels and others."""


def _forms(text: str) -> Mapping[Phrase, tuple[Phrase, ...]]:
    """For each form of a name its others. Blanks separate groups, bars the forms of one, pluses the words of a form."""
    found: dict[Phrase, dict[Phrase, None]] = {}
    for group in text.split():
        forms = [tuple(form.split("+")) for form in group.split("|")]
        for form in forms:
            found.setdefault(form, {}).update((other, None) for other in forms if other != form)
    return {form: tuple(others) for form, others in found.items()}


_OTHER_FORMS = _forms(_FORM_GROUPS)
"""The other forms of a name that has some: ("ny",) for ("new", "york")."""

_LONGEST_FORM = max(map(len, _OTHER_FORMS))


_DEMONYM_ENDINGS = ("an", "ese", "ish")
_ADDED_ENDINGS = ("n", "an", "ian", "ese", "ic", "ism", "ist", "ity")
_VERBS_BEFORE_OF = frozenset(["Composed", "Comprised", "Consisting", "Consists", "Made"])
_BEHIND_VERBS = frozenset(["your", "it", "them", "into", "onto"])
_STEM_LENGTH = 4
_ALIKE = 0.8
_LONGEST_ABBREVIATION = 3
_LONGEST_ACRONYM = 6
_SHORTEST_INITIALS = 3
_FISCAL_YEAR = re.compile(r"FY(?:\d{2}(?:\d{2})?)?")
_WITHIN_NAME = re.compile(r"[ -]?|\s?&\s?")
_BETWEEN_NAMES = re.compile(r" (?:(?:of|for|and|de|in|on|to)(?: the)?|the|&) ")


@dataclass(frozen=True, slots=True)
class NamePart:
    """One word of a name: where it stands, how it is written, and its words in comparable form.

    ``is_beside`` says that the parser did not call it a name itself.
    """

    chars: CharRange
    written: str
    words: Phrase
    is_beside: bool = False

    @property
    def is_title(self) -> bool:
        """True for titles and forms of companies, which a name may have or lack."""
        return all(word in TITLES or word in _COMPANY_FORMS for word in self.words)

    @property
    def is_letter(self) -> bool:
        """True for a letter alone, such as the initial of a middle name."""
        return all(len(word) == 1 for word in self.words)


@dataclass(frozen=True, slots=True)
class AnswerName:
    """A whole name.

    Attributes:
        chars: where it stands in the answer.
        parts: its words.
        run: the words of a longer run around it, joined by small words: "Bureau of Labor Statistics".
        first: the place of the name's first word in the run.
        silent: places of parts that need not occur.
        gloss: initials that the answer gives behind the run, in brackets: "BLS"; "" for none.
    """

    chars: CharRange
    parts: tuple[NamePart, ...]
    run: tuple[NamePart, ...]
    first: int
    silent: frozenset[int]
    gloss: str = ""

    def parts_in(self, passage: PassageContent) -> frozenset[int]:
        """The places of the parts that a passage repeats."""
        found = {
            place for place, part in enumerate(self.parts) if place in self.silent or self._occurs(place, part, passage)
        }
        if len(found) < len(self.parts):
            found |= {one - self.first for one in self._covered_by_forms(passage)} & set(range(len(self.parts)))
        if self._has_only_surname(found, passage):
            return frozenset(range(len(self.parts)))
        return frozenset(found)

    def _occurs(self, place: int, part: NamePart, passage: PassageContent) -> bool:
        """True where each word of the part occurs as it is, as initials, or as a demonym.

        So "Italian" is "Italy", alone and in "Italian President Rossi". But a first name is none: a passage on Normandy
        names no "Norman Hale".
        """
        may_be_demonym = len(self.parts) == 1 or any(one.is_title for one in self.parts[place + 1 : place + 2])
        is_acronym = part.written.isupper()
        return all(
            _word_occurs(word, passage, is_acronym=is_acronym) or (may_be_demonym and _is_demonym(word, passage))
            for word in part.words
        )

    def _has_only_surname(self, found: set[int], passage: PassageContent) -> bool:
        """True where of a name of two words the passage has the last, never behind another name than the first."""
        if len(self.parts) != 2 or found != {1} or self.silent:
            return False
        first, last = (part.words[-1] for part in self.parts)
        before = passage.names_before(last) - TITLES
        return all(SequenceMatcher(None, first, one).ratio() >= _ALIKE for one in before)

    def is_repeated_by(self, parts: frozenset[int]) -> bool:
        """Whether the parts that passages repeat are enough: all of them."""
        return len(parts) == len(self.parts)

    def _covered_by_forms(self, passage: PassageContent) -> Iterator[int]:
        """Places in the run of words that the passage has in another form, such as initials."""
        if self.gloss and self.gloss in passage.capitals:
            yield from range(self.first, self.first + len(self.parts))
            return
        for start in range(max(0, self.first - _LONGEST_ACRONYM + 1), self.first + len(self.parts)):
            for end in range(max(start, self.first) + 1, min(len(self.run), start + _LONGEST_ACRONYM) + 1):
                if _window_occurs(self.run[start:end], passage):
                    yield from range(start, end)


def _window_occurs(window: Sequence[NamePart], passage: PassageContent) -> bool:
    phrase = tuple(word for part in window for word in part.words)
    if len(phrase) <= _LONGEST_FORM and any(_form_occurs(form, passage) for form in _OTHER_FORMS.get(phrase, ())):
        return True
    joined = "".join(phrase)
    if len(phrase) == 1:
        return len(joined) >= _STEM_LENGTH and joined in passage.joined_words
    initials = "".join(word[0] for word in phrase).upper()
    return joined in passage.words or (len(initials) > 1 and initials in passage.capitals)


def _form_occurs(form: Phrase, passage: PassageContent) -> bool:
    """An abbreviation of up to three letters counts in capitals only: "IN" is Indiana, "in" is not."""
    if len(form) == 1 and len(form[0]) <= _LONGEST_ABBREVIATION:
        return form[0].upper() in passage.capitals or form[0].title() in passage.capitalised
    return all(word in passage.words for word in form)


def _word_occurs(word: str, passage: PassageContent, *, is_acronym: bool) -> bool:
    if any(one in passage.words for one in (word, word.rstrip("s"), word + "s", *_other_spellings(word))):
        return True
    if len(word) > 1 and is_acronym and any(word in initials for initials in passage.initials):
        return True
    return len(word) >= _SHORTEST_INITIALS and is_acronym and word in passage.content_initials


def _is_demonym(word: str, passage: PassageContent) -> bool:
    """True where a passage names the place of the word, or people of the place: "Germany" and "German"."""
    names = {one.lower() for one in passage.capitalised}
    if len(word) > _STEM_LENGTH and any(word + ending in names for ending in _ADDED_ENDINGS):
        return True
    singular = word.rstrip("s")
    if len(singular) < _STEM_LENGTH + 2 or not singular.endswith(_DEMONYM_ENDINGS):
        return False
    return any(one.startswith(singular[:_STEM_LENGTH]) for one in names)


def _other_spellings(word: str) -> Iterator[str]:
    """A British word as Americans spell it, and the other way round."""
    for here, there in (("our", "or"), ("tre", "ter"), ("ence", "ense"), ("ise", "ize"), ("isa", "iza")):
        if here in word:
            yield word.replace(here, there)
        if there in word:
            yield word.replace(there, here)


def answer_names(parsed: ParsedAnswer, text: str) -> Iterator[AnswerName]:
    """The names of an answer, ascending, but for months; ``text`` is the answer without its markup."""
    run: list[list[NamePart]] = []
    for segment in _segments(list(_parts(parsed, text)), text):
        if run and _BETWEEN_NAMES.fullmatch(text, run[-1][-1].chars.char_end, segment[0].chars.char_start) is None:
            yield from _names_of_run(run, text)
            run = []
        run.append(segment)
    yield from _names_of_run(run, text)


_GLOSS = re.compile(r" \(([A-Z][A-Za-z]*[A-Z])s?\)")


def _names_of_run(run: Sequence[Sequence[NamePart]], text: str) -> Iterator[AnswerName]:
    parts = tuple(part for segment in run for part in segment)
    match = _GLOSS.match(text, parts[-1].chars.char_end) if parts else None
    initials = {word[0].upper() for part in parts for word in part.words}
    gloss = match[1].upper() if match and not initials.isdisjoint(match[1]) else ""
    first = 0
    for segment in run:
        silent = {place for place, part in enumerate(segment) if part.is_beside or part.is_title}
        letters = {place for place, part in enumerate(segment) if part.is_letter}
        if len(silent | letters) < len(segment):
            silent |= letters
        if len(silent) < len(segment):
            chars = CharRange(segment[0].chars.char_start, segment[-1].chars.char_end)
            yield AnswerName(chars, tuple(segment), parts, first, frozenset(silent), gloss)
        first += len(segment)


def _segments(parts: Sequence[NamePart], text: str) -> Iterator[list[NamePart]]:
    """Neighbouring parts with nothing but a blank, a hyphen or an ampersand between them."""
    segment: list[NamePart] = []
    for part in parts:
        if segment and _WITHIN_NAME.fullmatch(text, segment[-1].chars.char_end, part.chars.char_start) is None:
            yield segment
            segment = []
        segment.append(part)
    if segment:
        yield segment


def _parts(parsed: ParsedAnswer, text: str) -> Iterator[NamePart]:
    """Proper nouns with a capital letter, and what belongs to them; units beside a number are none.

    A capitalised word of another kind beside a proper noun ("American" in "American Cancer Society") and a word that a
    hyphen joins to one are part of the name, but need not occur.
    """
    units = [CharRange(*match.span(match.lastgroup or 0)) for match in UNIT_BESIDE_NUMBER.finditer(text)]
    named = {
        word
        for word, tag in enumerate(parsed.universal_tags)
        if tag == "PROPN" and _may_name(parsed, word, text, units) and not _is_no_name(parsed, word, text)
    }
    beside = {word for word in _neighbours(parsed, named, text) if _may_name(parsed, word, text, units)}
    for word in sorted(named | beside):
        chars = parsed.words[word]
        written = chars.of(text)
        yield NamePart(chars, written, tuple(comparable_words(written)), word in beside)


def _may_name(parsed: ParsedAnswer, word: int, text: str, units: Sequence[CharRange]) -> bool:
    written = parsed.words[word].of(text)
    if not any(character.isupper() for character in written) or range_overlapping(parsed.words[word], units):
        return False
    words = comparable_words(written)
    if _FISCAL_YEAR.fullmatch(written):
        return False
    return bool(words) and words[0] not in MONTHS and not _NO_NAMES.issuperset(words)


def _neighbours(parsed: ParsedAnswer, named: set[int], text: str) -> Iterator[int]:
    """Words of other kinds, with a capital letter, right beside proper nouns; several in a row count as well."""
    for step in (-1, 1):
        for name in named:
            word = name + step
            while 0 <= word < len(parsed.words) and word not in named and _is_beside(parsed, word, step, text):
                if has_letter(parsed.words[word].of(text)):
                    yield word
                word += step


def _is_beside(parsed: ParsedAnswer, word: int, step: int, text: str) -> bool:
    first, second = sorted((word, word - step))
    gap = text[parsed.words[first].char_end : parsed.words[second].char_start]
    if gap not in ("", " "):
        return False
    written = parsed.words[word].of(text)
    if written == "-":
        return not gap
    return written[0].isupper() and parsed.universal_tags[word] in ("ADJ", "NOUN", "VERB", "ADV", "X", "PROPN")


def has_letter(text: str) -> bool:
    """True where some character is a letter."""
    return any(map(str.isalpha, text))


def _is_no_name(parsed: ParsedAnswer, word: int, text: str) -> bool:
    return _abbreviates(parsed.words[word], text) or is_capitalised_as_first(parsed, word, text)


def _abbreviates(chars: CharRange, text: str) -> bool:
    """True for the initials, in brackets, of the words before them: "Iron Ore Board (IOB)"."""
    name = chars.of(text)
    before = text[max(chars.char_start - 200, 0) : chars.char_start]
    if not before.endswith("(") or not text.startswith(")", chars.char_end) or len(name) < 2:
        return False
    initials = [word[0] for word in re.findall(r"\w+", before) if word.lower() not in SMALL_WORDS]
    return "".join(initials[-len(name) :]).lower() == name.lower()


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
    chars = parsed.words[word]
    if word != start and text[: chars.char_start].rstrip()[-1:] not in (":", "*", ""):
        return False
    if any(character.isupper() for character in chars.of(text)[1:]):
        return False
    following = parsed.universal_tags[word + 1] if word + 1 < end else ""
    label = base_label(parsed.dependency_labels[word])
    if chars.of(text) == "May" and following == "VERB":
        return True
    if label in _LEADING_LABELS and following != "PROPN":
        return True
    following_text = parsed.words[word + 1].of(text) if word + 1 < end else ""
    if following_text == ":" or (following_text == "of" and chars.of(text) in _VERBS_BEFORE_OF):
        return True
    if following_text in _BEHIND_VERBS:
        return True
    if parsed.dependency_heads[word] != word:
        return False
    if following in ("DET", "PRON"):
        return True
    children = [
        base_label(parsed.dependency_labels[one])
        for one in range(word + 1, end)
        if parsed.dependency_heads[one] == word
    ]
    return following != "PROPN" and not _VERBAL_CHILDREN.isdisjoint(children)
