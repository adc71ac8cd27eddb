"""Phrases with which answers talk about themselves, their sources and their reader.

Patterns of English phrases, written so that they can be read.

How English answers talk about themselves, their sources and their reader without claiming anything.

Every function takes one sentence and gives ranges within it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attribeam.attribution.answers.citation_pointers import SOURCE
from attribeam.attribution.answers.plain_text import DATE

Span = tuple[int, int]


def phrase_pattern(*alternatives: str) -> re.Pattern[str]:
    """One pattern for all alternatives, in any case.

    A blank stands for any white space, an apostrophe also for the curly one; so character classes should have neither.
    """
    joined = "|".join(f"(?:{one})" for one in alternatives)
    return re.compile(joined.replace(" ", r"\s+").replace("'", "['’]"), re.IGNORECASE)


def any_of(*words: str) -> str:
    """A group that matches one of the words, each of which may be a pattern."""
    return f"(?:{'|'.join(words)})"


def words_of(text: str) -> str:
    """A group that matches one of the words of a text."""
    return any_of(*text.split())


def spans_of(pattern: re.Pattern[str], sentence: str) -> Iterator[Span]:
    """Where the pattern matches, ascending."""
    return (match.span() for match in pattern.finditer(sentence))


def first_at_or_after(borders: Iterable[int], place: int, *, otherwise: int) -> int:
    """The first of ascending borders that lies at ``place`` or behind it."""
    return next((border for border in borders if border >= place), otherwise)


SAID = words_of(
    "stated mentioned described noted explained discussed outlined shown indicated provided given suggested reported"
    " specified detailed listed said presented found included addressed covered defined"
)
"""Participles for what a source does with a statement."""

ADVERBS = r"(?:(?:\w+ly|also|further|then|only|just|even|still|both|all|each|do|does|did|may|can|could) )*"
REPORTS = any_of(
    r"concludes? by \w+ing",
    words_of(
        "add advise argue assert claim compare cite conclude confirm contain cover define describe detail emphasi[sz]e"
        " explain give highlight include indicate instruct list mention note offer outline present provide recommend"
        " report reveal say show state suggest summari[sz]e tell"
    )
    + "(?:s|d|ed)?",
    "(?:clarif|impl|identif|specif)(?:y|ies|ied)",
    "discuss(?:es|ed)?",
    "focus(?:es)? on",
    "points? out",
    "refers? to",
    "talks? about",
    "deals? with",
    "(?:is|are) about",
    "said",
    "told",
    "gave",
)
"""Verbs for what a source does with a statement."""

_INFORMATION = words_of(
    "information details? overview instructions? guidance description summary steps tips insights? fact"
)
_OBJECT = (
    r"(?: (?:us|you|me))?"
    r"(?: (?:some|additional|more|further|detailed|specific|general|the following|an?|the))*"
    rf"(?: {_INFORMATION})?(?: (?:on|about|of|for|regarding|concerning))?(?: (?:that|how to))?\b"
)
_QUOTED_QUESTION = r"(?: \"[^\"]*\"| “[^”]*”)?"
_NUMBER = r"(?:\d{1,3}|[ivx]{1,4}|one|two|three|four|five|six)"

_CONNECTIVE = phrase_pattern(
    r"\s*[\"“(]*(?:(?:and|but|so) )?"
    + any_of(
        words_of(
            "however therefore thus hence additionally furthermore moreover overall nevertheless unfortunately sorry"
            " finally lastly firstly secondly thirdly first second third next then also so well"
        ),
        "in (?:addition|summary|conclusion|short|brief|sum|other words|general|this (?:case|context|regard))",
        "to (?:summari[sz]e|sum up|conclude|clarify)",
        "on the (?:other|one) hand",
        "for (?:example|instance)",
        "that (?:being )?said",
        "as (?:mentioned|stated|noted|described)(?: (?:above|earlier|before|previously))?",
        "in a nutshell",
        "(?:simply put|to put it (?:simply|briefly)|long story short)",
        "(?:the )?(?:bottom line|(?:key|main) takeaways?|(?:quick|short|final|direct) answer)(?: is)?",
        "as far as i know",
        "from what i can (?:see|tell|find)",
        "based on (?:the above|this|your question)",
        "as an ai(?: [\\w-]+){0,3}",
        "no (?:worries|problem)",
        "(?:hi|hello|hey|dear)(?: [\\w.-]+){1,2}",
        "(?:i'?m|i am) sorry",
        "i apologi[sz]e",
        "(?:to )?answer(?:ing)? (?:your|the|this) question" + _QUOTED_QUESTION,
    )
    + r"\s*[,:]",
    r"\s*(?:please )?(?:note|remember|keep in mind|be aware) that\b",
    r"\s*it(?:'s| is| should be) (?:also )?"
    r"(?:(?:very )?(?:important|worth|essential|crucial|necessary|interesting|good) )?"
    r"(?:noted|noting|mentioning|remembering|to (?:also )?(?:note|mention|remember|keep in mind|know|be aware)) that\b",
    r"\s*it (?:appears|seems|is clear) that\b",
    r"\s*(?:without|with no) (?:any )?(?:further|additional|more|other) (?:information|context|details)\s*,",
    r"\s*(?:we|i|you) can (?:see|conclude|infer|say|tell you|deduce|determine) that\b",
    r"\s*it can be (?:inferred|concluded|seen|deduced|determined) that\b",
    r"\s*(?:the )?answer to (?:your|the|this) question" + _QUOTED_QUESTION + r"(?: is(?: that)?\b)?",
    r"\s*the answer is that\b",
    r"\s*(?:but )?i(?:'m| am) afraid(?: that)?,?(?= )",
    r"\s*\(?(?:note|tl;?dr|answer|summary|response|disclaimer|conclusion|important|tip)\s*:",
)
_INTERJECTION = phrase_pattern(
    r"\s*"
    + any_of(
        words_of("certainly absolutely okay ok alright hello hey"),
        "sure(?: thing)?",
        "of course",
        "hi(?: there)?",
        "great(?: question)?",
        "good question",
        "thank you[^.!?]{0,80}",
        "thanks[^.!?]{0,60}",
        "you're welcome",
        "(?:best|kind|warm) regards(?:,(?: [\\w-]+){1,3})?",
        "no problem",
        "i understand[^.!?]{0,60}",
        "glad to help",
    )
    + r"\s*(?:[!.,:]+|$)"
)
_OWN_WORDS = words_of("information answers? steps? methods? recommendations? summary response list overview conclusion")
_CITED = r"\[\^?\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*\]"
_LEAD = phrase_pattern(
    r"(?<!\w)"
    + any_of(
        "(?:based|judging|going|relying|drawing) (?:(?:solely|only|purely|mainly|strictly|primarily) )?"
        "(?:up)?(?:on|by|from)",
        "according to",
        "(?:as )?per",
        f"as (?:{SAID}|seen)(?: (?:in|by|on|from))?",
        f"(?:which|that) (?:is|are|was|were) {SAID} (?:in|by)",
        f"{SAID} (?:in|by)",
        "(?:with )?reference to",
        words_of("from in within across using"),
    )
    + rf" (?:what (?:is|was) {SAID} in )?(?:both )?{SOURCE}(?: (?:and|or) {SOURCE})*(?!'s\b)\s*[,:]?",
    rf"(?<!\w)th(?:is|ese|e) {_OWN_WORDS} (?:(?:is|are|was|were|can be|has been|have been) )?"
    rf"(?:based|{SAID}) (?:on|in|by|from) (?:the information provided in )?{SOURCE}",
    rf"(?<!\w)it is (?:also )?{SAID}(?: in {SOURCE})? that\b",
    rf"(?<!\w)(?:it|they) {ADVERBS}(?:states?|mentions?|notes?|says?|explains?|adds?)(?: in {SOURCE})? that\b",
    rf"(?<!\w)(?:according to|based on|as per|per|see|from) {_CITED}(?:(?:,|,? and) {_CITED})*\s*,?",
    rf"(?<!\w)(?:{SOURCE}|(?:one|another|some|other|several|many|most|multiple|two|both|all) sources?)"
    rf"(?:\s*\([^()]{{0,60}}\))?,? {ADVERBS}{REPORTS}(?!\w){_OBJECT}",
    rf"\(\s*(?:(?:refs?|references?|see|from|source)\.?:?\s*)?(?:as {SAID} in )?"
    rf"{SOURCE}(?:\s*(?:,|;|and|&)\s*{SOURCE})*\s*\)",
    r"(?<!\w)(?:as )?(?:mentioned|stated|described|noted) (?:above|earlier|previously)\b",
)
_NAMES_SOURCE = re.compile(
    "passage|document|source|excerpt|snippet|paragraph|reference|context|text|search|article|story|information|data"
    r"|content|material|json|instruction|author|record|provided|given|\[\^?\d|it\s|they|above|earlier|previously",
    re.IGNORECASE,
)
"""A cheap test without which ``_LEAD`` cannot match."""

_HERE = r"(?:here|below)(?:'s| is| are)"
_ANNOUNCED = words_of(
    "summar(?:y|ies) answers? responses? steps? lists? overview breakdown instructions? guide examples? explanation"
    " descriptions? comparison information details ways? tips? guidelines differences? reasons? methods? options"
    " points? things facts how what why"
)
_ANNOUNCEMENT = phrase_pattern(
    rf"(?:^|[,:;.!])\s*(?:so )?(?:{_HERE}|(?:the )?following (?:is|are)) (?:[^\s.:]+ ){{0,7}}?{_ANNOUNCED}\b[^.:!?]*"
    r"(?::|[.!]?\s*$)",
    rf"(?:^|[,:;.!])\s*{_HERE}\b[^.:]*:",
)
_LET_ME = phrase_pattern(
    r"^\s*let(?:'s| us| me) (?:look at|take a (?:closer )?look|break|go through|explain|summari[sz]e|clarify)\b"
    r"[^.!?,;:]{0,60}[.:!]\s*$"
)
_FOLLOW = phrase_pattern(
    r"(?<!\w)follow(?:ing)? (?:these|the|those|this|some)(?: \w+){0,3} "
    r"(?:steps?|instructions|guidelines|tips|directions)(?: below| outlined| in order)*\b",
    r"(?<!\w)(?:follow|do) the following\b",
    r"(?<!\w)as follows\b",
)
_WORDS_AFTER_STEPS = 4
_LABEL = phrase_pattern(
    r"\s*"
    + any_of(
        words_of("step part section option method point item question day week chapter tip reason example")
        + f" {_NUMBER}",
        SOURCE,
    )
    + r"\s*(?:[:.)–-]+(?=\s|$)|$)"
)
_INTRODUCTION = phrase_pattern(
    r"(?<!\w)"
    + any_of(
        "(?:the )?following",
        "as follows",
        "such as",
        "here(?:'s)?",
        words_of("these below include[sd]? including are is was were like by follow be"),
        r"there (?:is|are) (?:[\w-]+ ){1,6}?"
        + words_of("ways? steps? types? kinds? methods? options? things reasons? differences? factors? signs?"),
    )
    + r"\s*(?:[^\s:,]+ ){0,12}?[^\s:,]*\s*:$"
)
_PURPOSE = phrase_pattern(
    r"^\s*(?:to|for|when|before|after|if) [^,:]*:$",
    r"^\s*(?:[\w-]+ ){0,3}(?:steps?|ways?|tips|instructions|methods?|options|how|things|requirements|rules) (?:to|for)"
    r" [^,:]*:$",
)
_LONGEST_INTRODUCTION = 40
_NUMBER_OR_ADDRESS = re.compile(
    r"(?<!\d)\d{3}[\s.)–-]+\d{3,4}(?!\d)|\d{7}|\+\d|\b(?:call|dial|phone|ring)\b[^.!?]{0,20}\d{3}|\S@\S|\bwww\.|://",
    re.IGNORECASE,
)
"""Phone numbers and addresses; a year or the number of a form is none."""
_CONTACT = words_of(
    "us me the our your or and contact visit support help customer service sales team staff desk cent(?:er|re)"
    " website site page documentation agent representative a an official manufacturer seller professional technician"
    " qualified expert provider doctor manual dealer vendor retailer supplier physician pharmacist lawyer specialist"
    " administrator insurer local authorit(?:y|ies)"
)
_OFFER = phrase_pattern(
    r"(?<!\w)(?:please )?let me know\b",
    r"(?<!\w)(?:i )?hope (?:this|that|these|it|the|you)\b(?=[^.!?]*\b(?:help|find|useful|answer|clarif))",
    r"(?<!\w)feel free to (?:ask|reach out|let me|contact me|provide|share)\b",
    r"(?<!\w)(?:do not|don't) hesitate to (?:ask|reach|let|contact me)\b",
    r"(?<!\w)if you(?:'d| have| need| want| would| require) (?:like )?(?:any|to|more|further|additional)\b[^.!?]{0,80}?"
    r"(?:questions?|let me|feel free|happy to|please (?:ask|provide|let)|i can)\b",
    r"(?<!\w)i(?:'d| would|'ll| will|'m| am) (?:be )?(?:more than )?(?:happy|glad|here) "
    r"to (?:help|assist|provide|answer)\b",
    r"(?<!\w)(?:could|can|would) you (?:please )?(?:provide|clarify|specify|share)\b",
    r"(?<!\w)please (?:provide|share|clarify|specify|rephrase|ask) "
    r"(?:me|more|further|additional|another|a (?:new|different|more)|the|your|any)\b",
    r"(?<!\w)is there anything else\b",
    r"(?<!\w)(?:happy|glad) to help\b",
    r"(?<!\w)i can (?:certainly )?help (?:you )?with\b",
    r"^\s*(?:if you need (?:any |some )?|for )(?:more|further|additional|other)"
    r" (?:information|details|help|assistance|support|guidance)(?: (?:with|on|about) (?:this|that))?,?"
    rf" (?:please |you can )?(?:visit|see|check|refer to|contact|reach out to)(?: {_CONTACT}){{1,8}}\s*[.!]*\s*$",
    r"^\s*(?:(?:if you(?:'re| are) (?:unsure|in doubt)|instead|in this case|for [^,.;:!?\d]{1,60}), )?"
    r"(?:please|(?:i|we)(?:'d| would)? "
    r"(?:suggest|recommend|advise)(?: that you)?|you (?:may|might|should|can)(?: want to| wish to)?"
    r"|it (?:would|may|might) be best to|your best option is to) (?:contact|consult|check|ask|visit|refer|reach"
    rf"|speak)(?:ing)?(?: out)?(?: to| with)?(?: {_CONTACT}){{1,6}}"
    r"(?: directly)?(?: (?:for|about|regarding) [^,.;:!?\d]{1,60})?\s*[.!]*\s*$",
    r"^\s*(?:have a (?:great|nice|good) \w+|have fun|stay safe|take care|safe travels|good luck(?: with [^.!?]{1,40})?"
    r"|enjoy(?: your \w+)?)\s*[!.]*\s*$",
)


_CHECKABLE = re.compile(
    rf"{DATE.pattern}|[$€£¥]\s?\d|\d\s?(?:%|percent\b|€)|\b\d{{1,2}}(?::\d\d)?\s?(?:am|pm|a\.m|p\.m)\b"
    r"|\b\d{1,2}:\d\d\b"
    r"|\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fourteen|thirty|sixty|ninety)[\s-]"
    r"(?:(?:business|working|calendar)\s)?(?:minutes?|hours?|days?|weeks?|months?|years?)\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b",
    re.IGNORECASE,
)
"""A date, a price, a time of day or a length of time."""
_OWN_CLAUSE = phrase_pattern(
    r"\s*[;—]\s*",
    " [–-] ",
    r",? (?:because|since|but|however|although|though|while|whereas) ",
    r", (?:which|who|whose|where|as|so|and) ",
    r": ",
    r"(?<=[a-z)])! (?=[A-Z])",
)
"""What may separate a courtesy from a statement behind it."""
_RELATIVE = phrase_pattern(
    r", (?:which|who|whose|where) (?:\S+ ){0,3}?(?:is|are|was|were|has|have|had|must|needs?|costs?|covers?|includes?"
    r"|requires?|contains?|opens?|closes?|ends?|expires?|applies|takes?|runs?|holds?|comes?|provides?|offers?)\b"
)


def openings(sentence: str) -> Iterator[Span]:
    """Interjections, connectives and notes before the first clause: "Sure!", "However,", "Note that"."""
    place = 0
    while True:
        after_blanks = len(sentence) - len(sentence[place:].lstrip())
        match = _INTERJECTION.match(sentence, place) or _CONNECTIVE.match(sentence, place)
        match = match or _LEAD.match(sentence, after_blanks)
        if match is None or match.end() == place:
            return
        yield place, match.end()
        place = match.end()


def leads(sentence: str) -> Iterator[Span]:
    """Words anywhere that name the sources of a statement: "according to passage 2", "the article states that"."""
    if _NAMES_SOURCE.search(sentence):
        yield from spans_of(_LEAD, sentence)


def announcements(sentence: str) -> Iterator[Span]:
    """What announces the answer or a list: "Here is a summary:", "To reset it, follow these steps"."""
    yield from spans_of(_ANNOUNCEMENT, sentence)
    yield from spans_of(_LET_ME, sentence)
    for match in _FOLLOW.finditer(sentence):
        closes = len(sentence[match.end() :].split()) <= _WORDS_AFTER_STEPS
        yield (0, len(sentence)) if closes else match.span()


def label(sentence: str) -> Span | None:
    """The label before a statement that only numbers or places it: "Step 2:", "Passage 3:"."""
    match = _LABEL.match(sentence)
    return match.span() if match else None


def introduces_list(sentence: str, *, has_verb: bool) -> bool:
    """True for a line that ends with a colon and only names what comes: "Ingredients:", "To rotate the keys:"."""
    line = sentence.rstrip()
    if not line.endswith((":", "：")) or len(line.split()) > _LONGEST_INTRODUCTION:
        return False
    return not has_verb or any(pattern.search(line) for pattern in (_INTRODUCTION, _PURPOSE))


def offer(sentence: str) -> Span | None:
    """A courtesy to the reader: an offer of help, a request for more information, a good wish.

    What names a phone number, an address, a price, a date or a length of time ("if you have questions, call 555 0100
    within two days") claims something: the clause of its own that it stands in, where the courtesy is said before, else
    the whole sentence.
    """
    courtesy = _OFFER.search(sentence)
    if courtesy is None or _NUMBER_OR_ADDRESS.search(sentence):
        return None
    checkable = _CHECKABLE.search(sentence)
    borders = [border.start() for border in _OWN_CLAUSE.finditer(sentence, courtesy.end())]
    if checkable:
        before = [border for border in borders if border <= checkable.start()]
        return (0, before[-1]) if before else None
    stating = (border for border in borders if _RELATIVE.match(sentence, border))
    return 0, next(stating, len(sentence))


def is_question(sentence: str) -> bool:
    """True where the sentence ends with a question mark, in any script."""
    return sentence.rstrip(" \t\r\n\"'”’»)*_").endswith(("?", "？", "؟", "⁇"))
