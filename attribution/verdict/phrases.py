"""How answers talk about themselves in English: what they say about sources, refuse, offer and announce.

Every function takes one sentence and gives ranges within it. Patterns are tried on sentences, never on whole answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attribeam.attribution.verdict.passage_references import SOURCE

_FLAGS = re.IGNORECASE
_ADVERBS = r"(?:(?:\w+ly|also|further|then|only|just|even|still|both|all|each|do|does|did|may|can|could|further)\s+)*"
_REPORTS = (
    r"(?:add|advise|argue|assert|claim|compare|cite|confirm|contain|cover|define|describe|detail|emphasi[sz]e|explain"
    r"|give|highlight|include|indicate|instruct|list|mention|note|offer|outline|present|provide|recommend|report|reveal"
    r"|say|show|state|suggest|summari[sz]e|tell|emphasi[sz]e)(?:s|d|ed)?"
    r"|(?:clarif|impl|identif|specif)(?:y|ies|ied)|discuss(?:es|ed)?|focus(?:es)?\s+on|points?\s+out|refers?\s+to"
    r"|talks?\s+about|said|told|gave|(?:is|are)\s+about|(?:deal|deals)\s+with"
)
_SAID = (
    r"(?:stated|mentioned|described|noted|explained|discussed|outlined|shown|indicated|provided|given|suggested"
    r"|reported|specified|detailed|listed|said|presented|found|included|addressed|covered|defined)"
)
_OBJECT = (
    r"(?:\s+(?:us|you|me))?(?:\s+(?:some|additional|more|further|detailed|specific|general|the following|an?|the))*"
    r"(?:\s+(?:information|details?|overview|instructions?|guidance|description|summary|steps|tips|insights?))?"
    r"(?:\s+(?:on|about|of|for|regarding|concerning))?(?:\s+(?:that|how\s+to))?\b"
)

_CONNECTIVE = re.compile(
    r"\s*[\"'“(]*(?:(?:and|but|so)\s+)?(?:however|therefore|thus|hence|additionally|furthermore|moreover|overall|nevertheless"
    r"|unfortunately|sorry|finally|lastly|firstly|secondly|thirdly|first|second|third|next|then|also|so|well|in\s+addition"
    r"|in\s+(?:summary|conclusion|short|brief|sum|other\s+words|general|this\s+(?:case|context|regard))|to\s+(?:summari[sz]e|sum\s+up"
    r"|conclude|clarify)|on\s+the\s+(?:other|one)\s+hand|for\s+(?:example|instance)|that\s+(?:being\s+)?said"
    r"|as\s+(?:mentioned|stated|noted|described)(?:\s+(?:above|earlier|before|previously))?"
    r"|(?:i['’]?m|i\s+am)\s+sorry|i\s+apologi[sz]e)\s*[,:]"
    r"|\s*(?:please\s+)?(?:note|remember|keep\s+in\s+mind|be\s+aware)\s+that\b"
    r"|\s*it(?:['’]s|\s+is|\s+should\s+be)\s+(?:also\s+)?(?:(?:very\s+)?(?:important|worth|essential|crucial|necessary|interesting|good|noted)\s*)"
    r"(?:to\s+(?:also\s+)?(?:note|mention|remember|keep\s+in\s+mind|know|be\s+aware)|noting|mentioning|remembering)?\s+that\b"
    r"|\s*(?:it\s+(?:appears|seems)|(?:we|i|you)\s+can\s+(?:see|conclude|infer|say|tell\s+you|deduce|determine)|it\s+can\s+be\s+"
    r"(?:inferred|concluded|seen|deduced|determined)|the\s+answer(?:\s+to\s+(?:your|the|this)\s+question)?\s+is)\s+that\b"
    r"|\s*to\s+answer\s+(?:your|the|this)\s+question(?:\s*[\"“][^\"”]*[\"”])?\s*,"
    r"|\s*(?:note|answer|summary|response|disclaimer|conclusion|important|tip|p\.?s\.?)\s*:",
    _FLAGS,
)
_LABEL = re.compile(
    r"\s*(?:(?:step|part|section|option|method|point|item|question|day|week|chapter|tip|reason|example)\s+(?:\d{1,3}|[ivx]{1,4}"
    rf"|one|two|three|four|five|six)|{SOURCE})\s*(?:[:.)–-]+(?=\s|$)|$)",
    _FLAGS,
)
_LEAD = re.compile(
    rf"(?<!\w)(?:(?:based|judging|going|relying|drawing)\s+(?:(?:solely|only|purely|mainly|strictly|primarily)\s+)?(?:up)?(?:on|by|from)"
    rf"|according\s+to|as\s+per|per|as\s+(?:{_SAID}|seen)(?:\s+(?:in|by|on|from))?"
    rf"|(?:which|that)\s+(?:is|are|was|were)\s+{_SAID}\s+(?:in|by)|(?:{_SAID})\s+(?:in|by)|from|in|within|across|using|(?:with\s+)?reference\s+to)"
    rf"\s+(?:what\s+(?:is|was)\s+{_SAID}\s+in\s+)?(?:both\s+)?{SOURCE}(?:\s+(?:and|or)\s+{SOURCE})*(?!['’]s\b)\s*[,:]?"
    rf"|(?<!\w)(?:it\s+is\s+(?:also\s+)?{_SAID}|(?:it|they)\s+{_ADVERBS}(?:states?|mentions?|notes?|says?|explains?|adds?))"
    rf"(?:\s+in\s+{SOURCE})?\s+that\b"
    rf"|(?<!\w)(?:{SOURCE}|(?:one|another|some|other|several|many|most|multiple|two|both|all)\s+sources?)(?:\s*\([^()]{{0,60}}\))?,?\s+"
    rf"{_ADVERBS}(?:{_REPORTS})(?!\w){_OBJECT}"
    rf"|\(\s*(?:(?:refs?|references?|see|from|source)\.?:?\s*)?(?:as\s+{_SAID}\s+in\s+)?{SOURCE}(?:\s*(?:,|;|and|&)\s*{SOURCE})*\s*\)"
    r"|(?<!\w)(?:as\s+)?(?:mentioned|stated|described|noted)\s+(?:above|earlier|previously)\b",
    _FLAGS,
)
_INTERJECTION = re.compile(
    r"\s*(?:sure(?:\s+thing)?|certainly|of\s+course|absolutely|okay|ok|alright|hello|hi(?:\s+there)?|hey|great(?:\s+question)?"
    r"|good\s+question|thank\s+you[^.!?]{0,80}|thanks[^.!?]{0,60}|you['’]re\s+welcome|no\s+problem|i\s+understand[^.!?]{0,60}"
    r"|i['’]d\s+be\s+happy\s+to\s+help[^.!?]{0,60}|i(?:['’]m|\s+am)\s+happy\s+to\s+help[^.!?]{0,60}|glad\s+to\s+help)\s*(?:[!.,:]+|$)",
    _FLAGS,
)
_ANNOUNCED = (
    r"(?:summar(?:y|ies)|answers?|responses?|steps?|lists?|overview|breakdown|instructions?|guide|examples?|explanation"
    r"|descriptions?|comparison|information|details|ways?|tips?|guidelines|differences?|reasons?|methods?|options|points?"
    r"|things|facts|how|what|why)"
)
_ANNOUNCEMENT = re.compile(
    rf"(?:^|[,:;.!])\s*(?:so\s+)?(?:(?:here|below)(?:['’]s|\s+is|\s+are)|(?:the\s+)?following\s+(?:is|are))\s+(?:[^\s.:]+\s+){{0,7}}?{_ANNOUNCED}\b[^.:!?]*(?::|[.!]?\s*$)"
    r"|(?:^|[,:;.!])\s*(?:here|below)(?:['’]s|\s+is|\s+are)\b[^.:]*:",
    _FLAGS,
)
_FOLLOW = re.compile(
    r"(?<!\w)(?:follow(?:ing)?\s+(?:these|the|those|this|some)(?:\s+\w+){0,3}\s+(?:steps?|instructions|guidelines|tips|directions)"
    r"(?:\s+below|\s+outlined|\s+in\s+order)*|(?:follow|do)\s+the\s+following|as\s+follows)\b",
    _FLAGS,
)

_INFORMATION = (
    r"(?:information|mention|details?|data|context|indication|instructions?|references?|answers?|steps|explanation|guidance"
    r"|specifics|discussion|description)"
)
_REFUSED_TO_SAY = (
    r"(?:provide|mention|say|state|contain|specify|give|include|discuss|address|offer|explain|describe|cover|indicate|clarify"
    r"|define|detail|directly|answer|have|list|reveal|disclose|tell|identify|refer|elaborate|go\s+into|present|make\s+(?:it\s+)?(?:clear|mention)"
    r"|talk|compare|contradict|seem\s+to|appear\s+to|actually|explicitly|specifically|necessarily|support|confirm|suggest|show|relate|name)"
)
_NEGATED = r"(?:(?:do|does|did)\s*(?:not|n['’]t)|don['’]t|doesn['’]t|didn['’]t|never)"
_CANNOT = (
    r"(?:cannot|can\s+not|can['’]t|could\s+not|couldn['’]t|(?:am|are|was|were|['’]m|['’]re)\s+(?:not\s+able|unable)\s+to"
    r"|may\s+not\s+be\s+able\s+to)"
)
_ANSWERING = (
    r"(?:answer|provide|determine|find|say|give|tell|confirm|offer|conclude|locate|identify|verify|assist|help|complete|fulfil|generate"
    r"|summari[sz]e|accurately|directly|definitively|fully|explicitly|address|respond|recommend|speculate|make)"
)
_REFUSAL = re.compile(
    rf"(?<!\w)(?:{SOURCE}|(?:it|they)(?=\s+{_NEGATED}\s+(?:\w+ly\s+)*(?:mention|specify|say|state|provide\s+(?:\w+\s+)*{_INFORMATION})))"
    rf"(?:\s*\([^()]{{0,60}}\))?,?\s+(?:(?:also|still|themselves|itself|alone|however,?|simply|unfortunately,?)\s+)*{_NEGATED}\s+{_ADVERBS}{_REFUSED_TO_SAY}\b"
    rf"|(?<!\w)(?:neither|none|no)(?:\s+one)?(?:\s+of)?\s+{SOURCE}\s+{_ADVERBS}(?:{_REPORTS})\b"
    rf"|(?<!\w){SOURCE}\s+(?:(?:is|are)\s+(?:silent|unclear|insufficient|not\s+(?:clear|sufficient|enough|specific|relevant|related))|lacks?|fails?\s+to)\b"
    rf"|(?<!\w)there(?:['’]s|\s+(?:is|are|was|were|does\s+not\s+(?:seem|appear)\s+to\s+be|seems\s+to\s+be|isn['’]t|aren['’]t))\s+"
    rf"(?:also\s+)?(?:no|not\s+(?:enough|any|sufficient|a)|insufficient|any|enough)\s+(?:[\w-]+\s+){{0,3}}?{_INFORMATION}\b"
    rf"|(?<!\w)(?:no|not\s+enough|insufficient)\s+(?:[\w-]+\s+){{0,2}}?{_INFORMATION}\s+(?:is|was|are|were|has\s+been)?\s*(?:{_SAID}|available|about|on|regarding)"
    rf"|(?<!\w)(?:(?:i|we)\s*(?:am|are|was|were|['’]m|['’]re)\s+|^\s*)(?:unable|not\s+able)\s+to\s+(?:\w+ly\s+)?{_ANSWERING}\b"
    rf"|(?<!\w)(?:it\s*(?:['’]s|is|was)\s+)?(?:not\s+possible|impossible|difficult)\s+(?:for\s+me\s+)?to\s+(?:\w+ly\s+)?(?:answer|determine|conclude|say)\b"
    rf"|(?<!\w)(?:i|we)\s*{_CANNOT}\s+(?:\w+ly\s+)?{_ANSWERING}\b"
    rf"|(?<!\w)(?:i|we)\s+(?:{_NEGATED}\s+have|lack|would\s+need|need)\s+(?:(?:access\s+to|enough|sufficient|any|the|more|additional|further|specific|necessary)\s+)*(?:{_INFORMATION})\b"
    rf"|(?<!\w)i\s+(?:don['’]t|do\s+not)\s+know\b(?!\s+(?:how|why))"
    rf"|(?<!\w)(?:cannot|can\s+not|can['’]t|could\s+not)\s+be\s+(?:\w+ly\s+)?(?:answered|determined|found|concluded|inferred)\b",
    _FLAGS,
)
_PASSIVE_REFUSAL = re.compile(
    rf"(?<!\w)(?:(?:is|are|was|were|has|have)\s+(?:not|n['’]t)|isn['’]t|aren['’]t|wasn['’]t|weren['’]t)\s+(?:been\s+)?(?:\w+ly\s+)?{_SAID}"
    rf"\s+(?:in|by|within|anywhere\s+in|from)\s+{SOURCE}"
    rf"|(?<!\w)(?:(?:is|are|was|were|remains?)\s+)?(?:unclear|not\s+(?:\w+ly\s+)?clear|unknown|unspecified|not\s+(?:\w+ly\s+)?(?:mentioned|stated|specified))"
    rf"(?=\s*[.;]?\s*$|\s+(?:from|in|based\s+on|within)\s+{SOURCE})",
    _FLAGS,
)
_CLAUSE_BORDER = re.compile(
    r"\s*[;—]\s*|\s+[–-]\s+|,?\s+(?:but|however|although|though|while|whereas|yet|nevertheless|instead)\b,?|,\s+(?:and|so|or|only|just|rather|which)\b",
    _FLAGS,
)
_OFFER = re.compile(
    r"(?<!\w)(?:(?:please\s+)?let\s+me\s+know|(?:i\s+)?hope\s+(?:this|that|these|it|the|you)\b(?=[^.!?]*\b(?:help|find|useful|answer|clarif))"
    r"|feel\s+free\s+to\s+(?:ask|reach\s+out|let\s+me|contact\s+me|provide|share)|(?:do\s+not|don['’]t)\s+hesitate\s+to\s+(?:ask|reach|let|contact\s+me)"
    r"|if\s+you\s+(?:have|need|want|['’]d\s+like|would\s+like|require)\s+(?:any|to|more|further|additional)\b[^.!?]{0,80}?(?:questions?|let\s+me|feel\s+free|happy\s+to|please\s+(?:ask|provide|let)|i\s+can)"
    r"|i(?:['’]d|\s+would|['’]ll|\s+will|['’]m|\s+am)\s+(?:be\s+)?(?:more\s+than\s+)?(?:happy|glad|here)\s+to\s+(?:help|assist|provide|answer)"
    r"|(?:could|can|would)\s+you\s+(?:please\s+)?(?:provide|clarify|specify|share)"
    r"|please\s+(?:provide|share|clarify|specify|rephrase|ask)\s+(?:me\b|more|further|additional|another|a\s+(?:new|different)|the|your|any|a\s+more)"
    r"|is\s+there\s+anything\s+else|(?:happy|glad)\s+to\s+help|(?:have\s+a\s+(?:great|nice|good)\s+day|good\s+luck|enjoy)\s*[!.]*\s*$)",
    _FLAGS,
)

_NAMES_SOURCE = re.compile(
    r"passage|document|source|excerpt|snippet|paragraph|reference|context|text|search|article|story|information|data|content"
    r"|material|json|instruction|author|record|provided|given|it\s|they|above|earlier|previously",
    _FLAGS,
)
_MAY_REFUSE = re.compile(
    r"\b(?:not?|never|none|neither|cannot|unable|lacks?|fails?|silent|insufficient|impossible|difficult|need|un(?:clear|known|specified))\b|n['’]t\b",
    _FLAGS,
)
"""Cheap tests without which none of the patterns can match."""

Span = tuple[int, int]


def is_offer(sentence: str) -> bool:
    """True for a courtesy to the reader: an offer of help, a request for more information, a good wish."""
    return _OFFER.search(sentence) is not None


def is_question(sentence: str) -> bool:
    """True where the sentence ends with a question mark, in any script."""
    return sentence.rstrip(" \t\r\n\"'”’»)*_").endswith(("?", "？", "؟", "⁇"))


def refusals(sentence: str) -> Iterator[Span]:
    """The clauses in which the answer says that it, or its sources, do not say something."""
    if _MAY_REFUSE.search(sentence) is None:
        return
    borders = [match.span() for match in _CLAUSE_BORDER.finditer(sentence)]
    for match in _REFUSAL.finditer(sentence):
        yield match.start(), _clause_end(borders, match.end(), len(sentence))
    for match in _PASSIVE_REFUSAL.finditer(sentence):
        start = max((end for _, end in borders if end <= match.start()), default=0)
        yield start, _clause_end(borders, match.end(), len(sentence))


def _clause_end(borders: list[Span], place: int, length: int) -> int:
    return next((start for start, _ in borders if start >= place), length)


def openings(sentence: str) -> Iterator[Span]:
    """Interjections, connectives and notes before the sentence's first clause: "Sure!", "However,", "Note that"."""
    place = 0
    while True:
        match = _INTERJECTION.match(sentence, place) or _CONNECTIVE.match(sentence, place)
        match = match or _LEAD.match(sentence, _after_blanks(sentence, place))
        if match is None or match.end() == place:
            return
        yield place, match.end()
        place = match.end()


def _after_blanks(sentence: str, place: int) -> int:
    while place < len(sentence) and sentence[place].isspace():
        place += 1
    return place


def leads(sentence: str) -> Iterator[Span]:
    """Words anywhere that name the sources of a statement: "according to passage 2", "the article states that"."""
    if _NAMES_SOURCE.search(sentence):
        yield from (match.span() for match in _LEAD.finditer(sentence))


def announcements(sentence: str) -> Iterator[Span]:
    """What announces the answer or a list: "Here is a summary:", "To reset it, follow these steps"."""
    yield from (match.span() for match in _ANNOUNCEMENT.finditer(sentence))
    for match in _FOLLOW.finditer(sentence):
        closes = len(sentence[match.end() :].split()) <= _WORDS_AFTER_STEPS
        yield (0, len(sentence)) if closes else match.span()


_WORDS_AFTER_STEPS = 4


def label(sentence: str) -> Span | None:
    """The label before a statement that only numbers or places it: "Step 2:", "Passage 3:"."""
    match = _LABEL.match(sentence)
    return match.span() if match else None


_INTRODUCES = re.compile(
    r"(?<!\w)(?:(?:the\s+)?following|as\s+follows|these|here(?:['’]s)?|below|include[sd]?|including|are|is|was|were|like|such\s+as|by|follow|be"
    r"|there\s+(?:is|are)\s+(?:[\w-]+\s+){1,6}?(?:ways?|steps?|types?|kinds?|methods?|options?|things|reasons?|differences?|factors?|signs?|symptoms?))"
    r"\s*(?:[\w'’()/-]+\s+){0,12}?[\w'’()/-]*\s*:$",
    _FLAGS,
)
_LONGEST_INTRODUCTION = 40


def introduces_list(sentence: str, *, has_verb: bool) -> bool:
    """True for a line that ends with a colon and only names what comes: "Ingredients:", "The steps are as follows:"."""
    line = sentence.rstrip()
    if not line.endswith((":", "：")) or len(line.split()) > _LONGEST_INTRODUCTION:
        return False
    return not has_verb or _INTRODUCES.search(line) is not None
