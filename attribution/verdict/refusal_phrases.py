"""How English answers refuse: the passages do not say, there is no information, I cannot answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attribeam.attribution.answers.citation_pointers import SOURCE
from attribeam.attribution.verdict.discourse_phrases import (
    ADVERBS,
    REPORTS,
    SAID,
    Span,
    any_of,
    first_at_or_after,
    phrase_pattern,
    words_of,
)

_INFORMATION = words_of(
    "information mention details? data context indication instructions? references? answers? steps explanation guidance"
    " specifics discussion description hints? clues?"
)
_NOT_SAID = any_of(
    words_of(
        "provide mention say state contain specify give include discuss address offer explain describe cover indicate"
        " clarify define detail directly answer have list reveal disclose tell identify refer elaborate present talk"
        " compare contradict actually explicitly specifically necessarily support confirm suggest show relate name"
    ),
    "go into",
    "make (?:it )?(?:clear|mention)",
    "(?:seem|appear) to",
)
_ANSWERING = words_of(
    "answer provide determine find say give tell confirm offer conclude locate identify verify assist help complete"
    " fulfil generate summari[sz]e accurately directly definitively fully explicitly address respond recommend"
    " speculate make"
)
_DOES_NOT = any_of(r"(?:do|does|did)\s*(?:not|n't)", words_of("don't doesn't didn't never"))
_CAN_NOT = any_of(
    words_of("cannot can't couldn't"),
    "(?:can|could) not",
    "(?:am|are|was|were|'m|'re) (?:not able|unable) to",
    "may not be able to",
)
_THERE_IS = r"there(?:'s| is| are| was| were| isn't| aren't| seems to be| does not (?:seem|appear) to be)"
_BRACKETS = r"(?:\s*\([^()]{0,60}\))?"
_IS_NOT = any_of("(?:is|are|was|were|has|have) not", words_of("isn't aren't wasn't weren't hasn't haven't"))
_WRITTEN = words_of("mentioned stated specified")
_DOCUMENTS = rf"(?!(?:\w+ ){{0,2}}(?:author|story|data|content|material|instructions|records?)\b){SOURCE}"
"""Sources, without the names that are often those of things an answer tells of."""

_REFUSAL = phrase_pattern(
    rf"(?<!\w)(?:{SOURCE}|(?:it|they)(?= {_DOES_NOT} (?:\w+ly )*"
    rf"(?:mention|specify|say|state|explain|provide (?:\w+ )*{_INFORMATION})))"
    rf"{_BRACKETS},? (?:(?:also|still|themselves|itself|alone|however,?|simply|unfortunately,?) )*"
    rf"{_DOES_NOT} {ADVERBS}{_NOT_SAID}\b",
    rf"(?<!\w)(?:neither|none|no)(?: one)?(?: of)? {SOURCE} {ADVERBS}{REPORTS}\b",
    rf"(?<!\w){SOURCE} (?:is|are) (?:silent|unclear|insufficient|not (?:clear|sufficient|enough|specific|relevant))\b",
    rf"(?<!\w){SOURCE} (?:lacks?|fails? to)\b",
    rf"(?<!\w){SOURCE}{_BRACKETS} makes? no (?:mention|reference)\b",
    rf"(?<!\w){_DOCUMENTS}{_BRACKETS} (?:(?:mention|state)s? no\b|(?:give|provide|contain|offer|include)s? no "
    rf"(?:(?:specific|further|additional|relevant|other|direct|explicit|clear) )?(?:{_INFORMATION}|evidence)\b)",
    rf"(?<!\w)(?:there(?:'s| is| was) )?nothing (?:in|from|within) {_DOCUMENTS} "
    rf"{ADVERBS}(?:{REPORTS}|about|on|regarding)\b",
    rf"(?<!\w)no mention (?:is made )?(?:of [^,.;]{{1,60}} )?(?:in|within) {_DOCUMENTS}",
    rf"(?<!\w)no (?:[\w-]+ ){{1,4}}?(?:is|are|was|were) {_WRITTEN}(?= in {_DOCUMENTS})",
    rf"(?<!\w){_THERE_IS} no (?:[\w-]+ ){{1,4}}?{_WRITTEN}(?= in {_DOCUMENTS})",
    rf"(?<!\w)it(?:'s| is| was) not {_WRITTEN} (?:when|where|whether|if|who|whom|whose|what|which|why|how|that)\b",
    rf"(?<!\w)(?:based on|from|given) {SOURCE},? it(?:'s| is| remains) (?:unclear|unknown|not (?:\w+ly )?clear)\b",
    rf"(?<!\w)(?:this|that|the|such)(?: \w+)? information {_IS_NOT} (?:\w+ly )?(?:{SAID}|available)(?=\s*[.;]?\s*$)",
    rf"(?<!\w){_THERE_IS} (?:also )?(?:no|not (?:enough|any|sufficient|a)|insufficient|any|enough) "
    rf"(?:[\w-]+ ){{0,3}}?{_INFORMATION}\b",
    rf"(?<!\w)(?:no|not enough|insufficient) (?:[\w-]+ ){{0,2}}?{_INFORMATION} (?:(?:is|was|are|were|has been) )?"
    rf"(?:{SAID}|available|about|on|regarding)\b",
    r"(?<!\w)(?:i|we)\s*(?:(?:am|are|was|were|'m|'re) (?:unable|not able)|(?:wasn't|weren't|aren't) able) to "
    rf"(?:\w+ly )?{_ANSWERING}\b",
    rf"(?<!\w)(?:i|we) {_DOES_NOT} (?:find|see) (?:(?:an?|any|enough|sufficient) (?:\w+ ){{0,2}}?"
    rf"(?:information on|mention of|{_INFORMATION} (?:about|regarding|in {SOURCE}))|anything (?:about|regarding))\b",
    rf"(?:^\s*|, )(?:unable|not able) to (?:\w+ly )?{_ANSWERING}\b",
    r"(?<!\w)it is unable to (?:answer|provide)\b",
    r"(?<!\w)(?:it\s*(?:'s|is|was) )?(?:not possible|impossible|difficult|hard) (?:for me )?to (?:\w+ly )?"
    r"(?:(?:answer|determine|conclude|say)\b|(?:give|provide) (?:an?|any) (?:[\w-]+ ){0,2}(?:answer|figure|number)\b)",
    r"(?<!\w)(?:i|we)\s*(?:am|are|'m|'re) not (?:sure|certain)\b",
    r"(?<!\w)(?:this|that|it|which)\s*(?:'s|is) (?:(?:outside|beyond) (?:of )?(?:the scope|my (?:scope|knowledge))\b"
    r"|not something (?:i|we) can\b)",
    rf"(?<!\w)no (?:relevant |matching )?(?:passages|documents|results|sources|{_INFORMATION})"
    r" (?:were|was|could be) found\b",
    r"(?<!\w)there (?:is no|is not an?|isn't an?) (?:definitive|clear|single|specific|exact) answer\b",
    r"(?<!\w)(?:an?|the) (?:exact|specific|precise) [\w-]+ (?:is|was) not (?:given|provided)(?=\s*[.;]?\s*$)",
    rf"(?<!\w)(?:i|we) (?:have|was|were)(?: not|n't) (?:been )?(?:given|provided)(?: with)?"
    rf" (?:any |enough )?{_INFORMATION}\b",
    r"^\s*could not find (?:an? |any )?(?:answer|information)\b",
    r"(?<!\w)i can only (?:answer|help with|assist with) (?:questions?|topics)\b",
    rf"(?<!\w)(?:i|we)\s*{_CAN_NOT} (?:\w+ly )?{_ANSWERING}\b",
    rf"(?<!\w)(?:i|we) (?:{_DOES_NOT} have|lack|would need|need) "
    rf"(?:(?:access to|enough|sufficient|any|the|that|this|such|more|additional|further|specific|necessary) )*"
    rf"{_INFORMATION}\b",
    rf"(?<!\w)(?:i|we) have no (?:\w+ )?{_INFORMATION}\b",
    rf"(?<!\w)(?:more|further|additional) {_INFORMATION} (?:is|are|would be) (?:needed|required|necessary)"
    r" (?:to|before|in order to|for)\b",
    r"(?<!\w)i (?:don't|do not) know\b(?! (?:how|why|of|that|if)\b)",
)
"""What begins a refused clause."""

_PASSIVE_REFUSAL = phrase_pattern(
    rf"(?<!\w)(?:{_IS_NOT}|(?<=[(, ])not) (?:been )?(?:\w+ly )?"
    rf"(?:{SAID} (?:in|by|within|anywhere in|from) {SOURCE}|(?:available|contained) (?:in|within) {_DOCUMENTS})",
    r"(?<!\w)(?:cannot|can not|can't|could not|couldn't) be (?:\w+ly )?(?:found|inferred|derived)"
    rf" (?:in|from) {_DOCUMENTS}",
    r"(?<!\w)(?:(?:is|are|was|were|remains?) )?(?:unclear|not (?:\w+ly )?clear|unknown|unspecified)"
    rf"(?= (?:from|in|based on|within) {SOURCE})",
    rf"(?<!\w){_IS_NOT} (?:\w+ly )?{_WRITTEN}(?=\s*[.;]?\s*$)",
    r"(?<!\w)(?:cannot|can not|can't|could not) be (?:\w+ly )?(?:answered|determined|concluded)\b",
)
"""What stands in a refused clause behind its subject."""

_BORDER = phrase_pattern(
    r"\s*[;—]\s*",
    " [–-] ",
    r",? (?:but|however|although|though|while|whereas|yet|nevertheless|instead)\b,?",
    r", (?:so|only|just|rather|which|it|they|we|you|i|he|she|there|this)\b",
    r", and (?=(?:it|they|he|she|there|this|i|we|you)\b"
    r"|(?:[\w-]+ ){1,4}(?:is|are|was|were|has|have|may|might|can|will|should)\b)",
)
_MAY_REFUSE = re.compile(
    r"\b(?:not?|nothing|never|none|neither|cannot|unable|lacks?|fails?|silent|insufficient|impossible|difficult|hard"
    r"|need(?:ed)?|required|necessary|outside|beyond|only|un(?:clear|known|specified))\b|n['’]t\b",
    re.IGNORECASE,
)
"""A cheap test without which nothing above can match."""
_LABEL = re.compile(r"\W*[^\W_][\w'’-]*(?:\s+[^\W_][\w'’-]*){0,2}\s*:\s*")
"""What names the thing that is not said: "Body size: there is no mention of it"."""
_BARE = phrase_pattern(
    r"\W*(?:"
    + any_of(
        "n/a",
        "unknown",
        "not (?:mentioned|stated|specified|provided|given|available|found|applicable|known)",
        "(?:insufficient|not enough|no) (?:information|context|mention|indication|answers?)",
        rf"(?:insufficient|not enough|no) {_INFORMATION} (?:available|provided|given|found|to (?:answer|tell|say))",
    )
    + r")\W*"
)


def is_bare_refusal(answer: str) -> bool:
    """True for an answer that is nothing but "Not specified.", "N/A" and the like; a part of an answer would claim."""
    return _BARE.fullmatch(answer) is not None


def refusals(sentence: str) -> Iterator[Span]:
    """The clauses of a sentence in which the answer says that it, or its sources, do not say something."""
    if _MAY_REFUSE.search(sentence) is None:
        return
    borders = [match.span() for match in _BORDER.finditer(sentence)]
    ends = [start for start, _ in borders]
    for match in _REFUSAL.finditer(sentence):
        is_labelled = _LABEL.fullmatch(sentence, 0, match.start()) is not None
        yield (
            _begin(sentence, 0 if is_labelled else match.start()),
            first_at_or_after(ends, match.end(), otherwise=len(sentence)),
        )
    for match in _PASSIVE_REFUSAL.finditer(sentence):
        before = max((end for _, end in borders if end <= match.start()), default=0)
        start = max(before, 1 + max(sentence.rfind(mark, 0, match.start()) for mark in "(:"))
        yield _begin(sentence, start), first_at_or_after(ends, match.end(), otherwise=len(sentence))


def _begin(sentence: str, place: int) -> int:
    """Where the first letter or digit from ``place`` on stands."""
    return next((at for at in range(place, len(sentence)) if sentence[at].isalnum()), place)
