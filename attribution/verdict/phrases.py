"""Phrases with which English answers talk about themselves, their sources and their reader, or refuse.

Most functions take one sentence and give ranges within it. Patterns are those of lower case, in which they are looked
for: without regard to case they would take two to five times as long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby

from attribeam.attribution.answers.citation_pointers import SOURCE
from attribeam.attribution.answers.plain_text import DATE
from attribeam.schemas import Passage

Span = tuple[int, int]
_WORD_BEGINS = r"(?<!\w)"


def _pattern(*alternatives: str) -> Callable[[], re.Pattern[str]]:
    """One pattern for all alternatives, for texts in lower case, which is compiled when first called for.

    A blank stands for any white space, an apostrophe also for the curly one; so character classes should have neither.
    """
    parts = []
    for begins, group in groupby(alternatives, lambda text: text.startswith(_WORD_BEGINS)):
        joined = "|".join(f"(?:{text.removeprefix(_WORD_BEGINS)})" for text in group)
        parts.append(f"{_WORD_BEGINS}(?:{joined})" if begins else joined)
    return cache(lambda: re.compile("|".join(parts).replace(" ", r"\s+").replace("'", "['’]")))


def _lowered(text: str) -> str:
    """The text in lower case, every code point at its place."""
    return (text if text.isascii() else text.replace("İ", "i")).lower()


def _words(text: str) -> str:
    """A group that matches one of the words of a text."""
    return f"(?:{'|'.join(text.split())})"


_SAID = _words(
    "stated mentioned described noted explained discussed outlined shown indicated provided given suggested reported"
    " specified detailed listed said presented found included addressed covered defined"
)
"""Participles for what a source does with a statement."""

_ADVERBS = r"(?:(?:\w+ly|also|further|then|only|just|even|still|both|all|each|do|does|did|may|can|could) )*"
_REPORTED = _words(
    "add advise argue assert claim compare cite conclude confirm contain cover define describe detail emphasi[sz]e"
    " explain give highlight include indicate instruct list mention note offer outline present provide recommend"
    " report reveal say show state suggest summari[sz]e tell"
)
_REPORTS = (
    rf"(?:concludes? by \w+ing|{_REPORTED}(?:s|d|ed)?|(?:clarif|impl|identif|specif)(?:y|ies|ied)|discuss(?:es|ed)?"
    r"|focus(?:es)? on|points? out|refers? to|talks? about|deals? with|(?:is|are) about|said|told|gave)"
)
"""Verbs for what a source does with a statement."""

_INFORMATION = _words(
    "information details? overview instructions? guidance description summary steps tips insights? fact"
)
_OBJECT = (
    r"(?: (?:us|you|me))?"
    r"(?: (?:some|additional|more|further|detailed|specific|general|the following|an?|the))*"
    rf"(?: {_INFORMATION})?(?: (?:on|about|of|for|regarding|concerning))?(?: (?:that|how to))?\b"
)
_QUOTED_QUESTION = r"(?: \"[^\"]*\"| “[^”]*”)?"

_SEARCHED = (
    rf"(?:(?:through|at|in|into|over|across) )?(?:{SOURCE}|(?:(?:the|your|our|my|all|available|internal|relevant) )*"
    r"(?:files?|docs|database|knowledge base|index|records|articles|web|internet|manuals?)\b)"
    r"(?: (?:that )?you (?:provided|shared|uploaded))?"
)
_SEARCHING = _words("searching checking reviewing reading scanning analy[sz]ing examining browsing consulting looking")
_I_SEARCHED = (
    "i(?:'ve| have)? (?:just )?"
    rf"(?:searched|checked|reviewed|read|scanned|analy[sz]ed|examined|consulted|looked) {_SEARCHED}"
)
_HIT = _words("documents? passages? sources? articles? results? match(?:es)? entr(?:y|ies) records? files? chunks?")
_RELEVANT = "(?:(?:relevant|matching|related|possible|potentially|useful|other) )*"
_HITS = (
    r"(?:(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|several|some|a few|multiple|an?|the)"
    rf" {_RELEVANT}{_HIT}"
    rf"|(?:(?:some|the|an|the following) )?{_RELEVANT}(?:information|details|answers?)\b)"
    r"(?: (?:(?:about|on|for|regarding|concerning|related to|relating to|matching|mentioning)"
    rf" [^,.;:!?]{{1,60}}|to (?:answer )?(?:your|this|the) (?:question|query|search)|(?:in|from) {_SEARCHED})){{0,2}}"
)
_SEARCH = _pattern(
    r"\W*(?:"
    rf"(?:{_SEARCHING}|thinking|retrieving|fetching|processing|generating)\b[^!?…\n]{{0,80}}?(?:…|\.\.\.)"
    rf"|{_SEARCHING} (?:the |your )?{_SEARCHED}"
    rf"|{_I_SEARCHED}(?: for [^,.;:!?]{{1,60}})?(?:,? and (?:i )?found {_HITS})?"
    r"|(?:(?:i(?:'ve| have)? )?(?:found|retrieved|used)|i was able to find"
    rf"|(?:my|the|a) search (?:returned|found|gave|yielded)) {_HITS}|there (?:are|is) \w+ (?:relevant|matching) {_HIT}"
    rf"|\d+ {_RELEVANT}{_HIT} (?:found|retrieved|searched|used|consulted)"
    rf"|{_HIT} (?:found|retrieved|searched|used|consulted|checked|reviewed)\s*: \d+(?: (?:out )?of \d+)?"
    r"|(?:let(?:'s| us| me)|i(?:'ll| will)|(?:one|just a) (?:moment|second)\b[^.!?]{0,20} while i)"
    rf" (?:(?:search|check|look|consult|review|read) {_SEARCHED}|(?:search|look) for|(?:check|look) (?:that|this|it)\b"
    r"|see what i can find)[^.!?,;:]{0,60}"
    r")\W*$",
)
"""How an answer says that it searches, and what it came upon: "I found 3 relevant documents."."""

_CONNECTIVE = _pattern(
    rf"\s*{_I_SEARCHED}(?: for [^,.;:!?]{{1,60}}?)?,? and (?:(?:i )?(?:found|(?:can )?see)\b(?: that\b)?)?",
    rf"\s*(?:after|upon) {_SEARCHING} {_SEARCHED}\s*,(?= (?:i|it|here|there)\b)",
    rf"\s*looking {_SEARCHED}\s*,",
    r"\s*i (?:have )?found that\b",
    r"\s*[\"“(]*(?:(?:and|but|so) )?(?:(?:however|therefore|thus|hence|additionally|furthermore|moreover|overall"
    r"|nevertheless|unfortunately|sorry|finally|lastly|firstly|secondly|thirdly|first|second|third|next|then|also|so"
    r"|well)|in (?:addition|summary|conclusion|short|brief|sum|other words|general|this (?:case|context|regard))"
    r"|to (?:summari[sz]e|sum up|conclude|clarify)|on the (?:other|one) hand|for (?:example|instance)"
    r"|that (?:being )?said|as (?:mentioned|stated|noted|described)(?: (?:above|earlier|before|previously))?"
    r"|in a nutshell|(?:simply put|to put it (?:simply|briefly)|long story short)"
    r"|(?:the )?(?:bottom line|(?:key|main) takeaways?|(?:quick|short|final|direct) answer)(?: is)?|as far as i know"
    r"|from what i can (?:see|tell|find)|(?:based on|according to)"
    rf" (?:the above|this|your question|my (?:search|review|analysis|reading|research)(?: of {_SEARCHED})?)"
    r"|as an ai(?: [\w-]+){0,3}"
    r"|no (?:worries|problem)|(?:i'?m|i am) sorry|i apologi[sz]e"
    rf"|(?:to )?answer(?:ing)? (?:your|the|this) question{_QUOTED_QUESTION})\s*[,:]",
    r"\s*(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day))"
    r"(?:,? (?:(?:mrs?|ms|dr|prof)\.? )?[\w.-]+(?: [\w-]+)?)?\s*[,:!]+",
    r"\s*(?:please )?(?:note|remember|keep in mind|be aware) that\b",
    r"\s*it(?:'s| is| should be) (?:also )?"
    r"(?:(?:very )?(?:important|worth|essential|crucial|necessary|interesting|good) )?"
    r"(?:noted|noting|mentioning|remembering|to (?:also )?(?:note|mention|remember|keep in mind|know|be aware)) that\b",
    r"\s*it (?:appears|seems|is clear) that\b",
    r"\s*(?:without|with no) (?:any )?(?:further|additional|more|other) (?:information|context|details)\s*,",
    r"\s*(?:we|i|you) can (?:see|conclude|infer|say|tell you|deduce|determine) that\b",
    r"\s*it can be (?:inferred|concluded|seen|deduced|determined) that\b",
    rf"\s*(?:the )?answer to (?:your|the|this) question{_QUOTED_QUESTION}(?: is(?: that)?\b)?",
    r"\s*the answer is that\b",
    r"\s*(?:but )?i(?:'m| am) afraid(?: that)?,?(?= )",
    r"\s*\(?(?:note|tl;?dr|answer|summary|response|disclaimer|conclusion|important|tip"
    r"|(?:ai )?assistant|ai|(?:chat)?bot)\s*:",
)
_REST = r"(?:(?! (?:and|but|so|however)\b)[^.!?,;:—\d]){0,80}"
"""The rest of a clause that has no number."""
_INTERJECTION = _pattern(
    r"\s*(?:certainly|absolutely|sorry|hm+|oops|okay|ok|alright|hello|hey|sure(?: thing)?|of course|hi(?: there)?"
    r"|great(?: question)?"
    r"|good question|thank you[^.!?]{0,80}|thanks[^.!?]{0,60}|you're welcome"
    r"|(?:(?:(?:best|kind|warm) )?regards|best(?: wishes)?|sincerely|yours \w+|cheers),"
    r"(?:(?: [\w-]+){1,3}|(?:[^\S\n]*\n\s*[^\n.!?:;\d]{1,40}){1,3})(?=\s*[.!]?\s*$)"
    r"|(?:best|kind|warm) regards|(?:best|kind) wishes|all the best|cheers|no (?:problem|worries)"
    r"|i understand[^.!?]{0,60}|glad to help|congratulations|(?:unfortunately|certainly) not"
    r"|(?:yes|no|yep|nope)(?=\s*[.,!])(?!\.\s*\d)"
    r"|exactly|indeed|(?:that(?:'s| is) )?(?:absolutely )?correct|that(?:'s| is) right|not (?:quite|really|exactly)"
    r"|(?:(?:i|we)(?:'m|'re| am| are) (?:\w+ )?)?"
    rf"(?:sorry (?:to hear|about|for|that you)|(?:glad|happy) (?:to hear|you))\b{_REST}"
    rf"|(?:congratulations (?:on|to)|wishing you|welcome (?:to|back)|(?:(?:i|we) apologi[sz]e|apologies) for"
    rf"|(?:i|we) (?:\w+ly )?(?:appreciate your|hope (?:this|that|you|your))|it sounds like you(?:'re| are)"
    rf"|that(?:'s| is) (?:everything|all) (?:you|there|i))\b{_REST}"
    r"|(?:what|that(?:'s| is)) an? (?:\w+ )?(?:great|good|excellent|interesting) (?:question|point|idea|plan|choice)"
    r"|(?:good|great) news|you(?:'re| are) (?:in luck|all set)"
    r"|(?:it|that|this|the answer) (?:\w+ )?depends(?: on (?:(?:a few|several|many|various|different|some) (?:\w+ )?"
    r"(?:factors|things)|(?:your|the) (?:\w+ )?(?:situation|circumstances|case|needs|context|details|specifics)))?"
    r"|there are (?:a few|several|many|some|various|different) (?:\w+ )?(?:options|possibilities|ways)(?: available)?"
    r"|there are (?:a few|several|many|some) (?:\w+ )?(?:factors|things) (?:to|you should) "
    r"(?:consider|know|keep in mind))\s*(?:[!.,:]+|$)"
)
_OWN_WORDS = _words("information answers? steps? methods? recommendations? summary response list overview conclusion")
_TEXT_KIND = _words(
    r"leaflets? brochures? flyers? pamphlets? booklets? reports? recipes? timetables? schedules? forecasts?"
    r" polic(?:y|ies) letters? e-?mails? messages? memos? diar(?:y|ies) guides? guidebooks? guidelines handbooks?"
    r" manuals? notes? minutes rules regulations terms bulletins? prospectus(?:es)? finding\saids? program(?:me)?s?"
    r" agendas? announcements? notices? releases? posts? blogs? (?:web)?pages? websites? entr(?:y|ies) reviews?"
    r" summar(?:y|ies) abstracts? overviews? papers? columns? interviews? transcripts? catalog(?:ue)?s?"
    r" lists? listings? tables? charts? menus? labels? adverts? advertisements? books? chapters? biograph(?:y|ies)"
    r" obituar(?:y|ies) contracts? agreements? leases? warrant(?:y|ies) faqs? changelogs? specifications? syllabus"
    r" newsletters? descriptions? captions?"
)
"""Kinds of texts, by which an answer may name its source."""
_TEXT = (
    rf"(?:the|this|that|these|those|your|our|their|its|his|her|my|(?:the )?[\w-]+'s) (?:[\w-]+ ){{0,2}}?{_TEXT_KIND}\b"
)
_FILE = r"[\w-]+\.(?:pdf|docx?|md|txt|html?|pptx?|xlsx?|csv)"
_CITED = rf"(?:\[\^?\d{{1,3}}(?:\s*[,;–-]\s*\d{{1,3}})*\]|(?:the (?:file|document) )?[\"“`'*]*{_FILE}[\"”`'*]*(?!\w))"
_LEAD = _pattern(
    r"(?<!\w)(?:(?:based|judging|going|relying|drawing) (?:(?:solely|only|purely|mainly|strictly|primarily) )?"
    rf"(?:up)?(?:on|by|from)|according to|(?:as )?per|as (?:{_SAID}|seen)(?: (?:in|by|on|from))?"
    rf"|(?:which|that) (?:is|are|was|were) {_SAID} (?:in|by)|{_SAID} (?:in|by)|(?:with )?reference to"
    rf"|(?:from|in|within|across|using)) (?:what (?:is|was) {_SAID} in )?(?:both )?"
    rf"{SOURCE}(?: (?:and|or) {SOURCE})*(?!'s\b)\s*[,:]?",
    rf"(?<!\w)th(?:is|ese|e) {_OWN_WORDS} (?:(?:is|are|was|were|can be|has been|have been) )?"
    rf"(?:based|{_SAID}) (?:on|in|by|from) (?:the information provided in )?{SOURCE}",
    rf"(?<!\w)(?:it is (?:also )?{_SAID}|(?:it|they) {_ADVERBS}(?:states?|mentions?|notes?|says?|explains?|adds?))"
    rf"(?: in {SOURCE})? that\b",
    rf"(?<!\w)(?:according to|based on|as per|per|see|from) {_CITED}(?:(?:,|,? and) {_CITED})*\s*,?",
    rf"(?<!\w)(?:according to|based on|as per) {_TEXT}\s*,",
    rf"(?:(?<!\w)(?:{SOURCE}|(?:one|another|some|other|several|many|most|multiple|two|both|all) sources?)"
    r"|(?:(?<!\w)\w+ )?\[1\](?=\s))"
    rf"(?:\s*\([^()]{{0,60}}\))?,? {_ADVERBS}{_REPORTS}(?!\w){_OBJECT}",
    rf"\(\s*(?:(?:refs?|references?|see|from|source)\.?:?\s*)?(?:as {_SAID} in )?"
    rf"{SOURCE}(?:\s*(?:,|;|and|&)\s*{SOURCE})*\s*\)",
    r"(?<!\w)(?:as )?(?:mentioned|stated|described|noted) (?:above|earlier|previously)\b",
)
_NAMES_SOURCE = re.compile(
    "passage|document|source|excerpt|snippet|paragraph|reference|context|text|search|article|story|information|data"
    r"|content|material|json|instruction|author|record|provided|given|\[\^?\d|it\s|\.[a-z]|according|based|as\sper|they|above|earlier|previously"
)
"""A cheap test without which ``_LEAD`` cannot match."""

_HERE = r"(?:here|below)(?:'s| is| are)"
_ANNOUNCED = _words(
    "summar(?:y|ies) answers? responses? steps? lists? overview breakdown instructions? guide examples? explanation"
    " descriptions? comparison information details ways? tips? guidelines differences? reasons? methods? options"
    " points? things facts how what why results?"
)
_ANNOUNCEMENT = _pattern(
    rf"(?:^|[,:;.!])\s*(?:so )?(?:{_HERE}|(?:the )?following (?:is|are)) (?:[^\s.:]+ ){{0,7}}?{_ANNOUNCED}\b[^.:!?]*"
    r"(?::|[.!]?\s*$)",
    rf"(?:^|[,:;.!])\s*(?:{_HERE}|i(?:'ve| have)? found (?:this|the following))\b[^.:]*:",
)
_LET_ME = _pattern(
    r"^\s*let(?:'s| us| me) (?:think|look at|walk (?:you )?through|take a (?:closer )?look|break|go through|explain"
    r"|summari[sz]e|clarify)\b[^.!?,;:]{0,60}[.:!]\s*$"
)
_FOLLOW = _pattern(
    r"(?<!\w)follow(?:ing)? (?:these|the|those|this|some)(?: \w+){0,3} "
    r"(?:steps?|instructions|guidelines|tips|directions)(?: below| outlined| in order)*\b",
    r"(?<!\w)(?:follow|do) the following\b",
    r"(?<!\w)as follows\b",
)
_WORDS_AFTER_STEPS = 4
_NUMBERED = _words("step part section option method point item question day week chapter tip reason example")
_LABEL = _pattern(
    rf"\s*(?:{_NUMBERED} (?:\d{{1,3}}|[ivx]{{1,4}}|one|two|three|four|five|six)|{SOURCE})\s*(?:[:.)–-]+(?=\s|$)|$)"
)
_LISTED = _words("ways? steps? types? kinds? methods? options? things reasons? differences? factors? signs?")
_INTRODUCTION = _pattern(
    r"(?<!\w)(?:(?:the )?following|as follows|such as|here(?:'s)?|(?:these|below|include[sd]?|including|are|is|was|were"
    rf"|like|by|follow|be)|(?:there (?:is|are)|you have|in) (?:[\w-]+ ){{1,6}}?{_LISTED})\s*"
    r"(?:[^\s:,]+ ){0,12}?[^\s:,]*\s*:$",
)
_PURPOSE = _pattern(
    r"^\s*(?:to|for|when|before|after|if) [^,:]*:$",
    r"^\s*(?:[\w-]+ ){0,3}(?:steps?|ways?|tips|instructions|methods?|options|how|things|requirements|rules) (?:to|for)"
    r" [^,:]*:$",
)
_PURPOSE_BEFORE = _pattern(r"(?:^|,(?=\s))[^\w,]*(?:to|for|when|before|after|if|once)(?=\s)[^,]*(?:,\s*)?$")
_LONGEST_INTRODUCTION = 40
_NUMBER_OR_ADDRESS = re.compile(
    r"(?<!\d)\d{3}[\s.)–-]+\d{3,4}(?!\d)|\d{7}|\+\d|\b(?:call|dial|phone|ring)\b[^.!?]{0,20}\d{3}|\S@\S|\bwww\.|://"
)
"""Phone numbers and addresses; a year or the number of a form is none."""
_CONTACT = _words(
    "us me the our your or and contact visit support help customer service sales team staff desk cent(?:er|re)"
    " website site page documentation agent representative a an official manufacturer seller professional technician"
    " qualified expert provider doctor manual dealer vendor retailer supplier physician pharmacist lawyer specialist"
    " administrator insurer local authorit(?:y|ies) attorney museum hotel shop store venue office library bank airline"
    " school university clinic hospital council landlord employer operator restaurant theat(?:er|re) policy terms"
)
_CONTACTS = rf"(?: {_CONTACT}(?:'s)?){{1,8}}"
_HELP = _words("information details help assistance support guidance advice updates")
_FOR_DETAILS = (
    "for (?:the |any )?(?:most )?(?:more|further|additional|other|latest|current|accurate|up-to-date|official|detailed"
    rf"|personali[sz]ed)(?: and [\w-]+)? {_HELP}"
)
_FOR_LINK = rf"(?:{_FOR_DETAILS}|for (?:the )?(?:full )?(?:details|information|help|more))"
_LINK = r"(?:\[[^\W\d][^\[\]]{0,80}(?:\]\(\S*\))?|(?:https?://|www\.)\S+)"
"""A link in Markdown, whose end may stand behind the sentence's last word, or an address."""
_POINTS = (
    r"(?:see|visit|check(?: out)?|read|view|browse|refer to|consult|go to|click(?: on)?"
    r"|(?:read |learn |see |find )?(?:out )?more(?: (?:details|information))?(?: (?:at|on|in|here):?)?"
    rf"|(?:details|source|link):?) (?:(?:our|the|their|this) )?{_LINK}"
)
_POINTER = _pattern(
    rf"^\W*(?:(?:{_FOR_LINK}|to (?:learn|read|find out|know) more(?: about [^,.;:!?\d]{{1,40}})?),? )?"
    rf"(?:(?:please|you can|you may) )?{_POINTS}(?: (?:page|website|site|section))?(?:,? {_FOR_LINK})?\W*$"
)
_POINTER_IN_BRACKETS = _pattern(rf"\({_POINTS}[^()]{{0,40}}(?:\)|$)")
_ADDRESS = re.compile(r"\bwww\.|://")
_NOTE = "(?:(?:please )?(?:note|be aware|remember)(?: that)? )?"
_UNSURE = (
    "(?:(?:if you(?:'re| are)|when) (?:unsure|in doubt)|if (?:the |your )?(?:problems?|issues?|errors?|symptoms)"
    " (?:persists?|continues?)),(?: (?:please|it(?:'s| is) best to))?"
)
_OF_A_MACHINE = _words("answers? responses? content messages? summar(?:y|ies) texts? output repl(?:y|ies)")
_OFFER = _pattern(
    r"(?<!\w)(?:please )?let me know\b",
    r"(?<!\w)(?:i )?hope (?:this|that|these|it|the|you)\b(?=[^.!?]*\b(?:help|find|useful|answer|clarif))",
    r"(?<!\w)feel free to (?:ask|reach out|let me|contact me|provide|share)\b",
    r"(?<!\w)(?:do not|don't) hesitate to (?:ask|reach|let|contact me)\b",
    r"(?<!\w)if you(?:'d| have| need| want| would| require) (?:like )?(?:any|to|more|further|additional)\b[^.!?]{0,80}?"
    r"(?:questions?|let me|feel free|happy to|please (?:ask|provide|let)|i can)\b",
    r"(?<!\w)i(?:'d| would|'ll| will|'m| am) (?:be )?(?:more than )?(?:happy|glad|here) "
    r"to (?:help|assist|provide|answer|explain|share|walk|guide)\b",
    r"^\s*if you (?:can |could )?(?:tell|give|send|provide) (?:me|us)\b",
    r"(?<!\w)(?:could|can|would) you (?:please )?(?:provide|clarify|specify|share)\b",
    r"(?<!\w)please (?:provide|share|clarify|specify|rephrase|ask) "
    r"(?:me|more|further|additional|another|a (?:new|different|more)|the|your|any)\b",
    r"^\s*please (?:try (?:again|another|a different|asking|rephrasing)|(?:modify|rephrase|reword|change) your \w+)\b",
    r"(?<!\w)(?:is there|if you (?:need|have|want)) anything else\b",
    r"(?<!\w)i (?:do not|don't) have (?:any )?personal (?:opinions?|feelings?|experiences?|beliefs?|preferences?)\b",
    r"(?<!\w)(?:happy|glad) to help\b",
    r"(?<!\w)i can (?:certainly )?help (?:you )?with\b",
    rf"^\s*(?:if you need (?:any |some )?(?:more|further|additional|other) \w+|{_FOR_DETAILS})"
    r"(?: (?:with|on|about) (?:this|that))?,?"
    rf" (?:please |you can )?(?:visit|see|check|refer to|contact|reach out to){_CONTACTS}\s*[.!]*\s*$",
    rf"^\s*(?:visit|see|check|refer to|contact|reach out to){_CONTACTS} {_FOR_DETAILS}\s*[.!]*\s*$",
    rf"^\s*(?:{_UNSURE}|(?:(?:{_UNSURE}|(?:instead|in this case|for [^,.;:!?\d]{{1,60}}),) )?"
    r"(?:please|(?:i|we)(?:'d| would)? "
    r"(?:suggest|recommend|advise)(?: that you)?|you (?:may|might|should|can)(?: want to| wish to)?"
    r"|it (?:would|may|might) be best to|your best option is to)) (?:contact|consult|check|see|ask|visit|refer|reach"
    r"|speak|verify|confirm|double-check)(?:ing)?(?: (?:this|that|it|everything))?(?: out)?(?: to| with| on)?"
    rf"{_CONTACTS}"
    rf"(?: directly)?(?: for (?:[\w-]+ ){{0,3}}(?:{_HELP}|options|prices|availability|hours)\b[^,.;:!?\d]{{0,40}}"
    r"| (?:about|regarding|before (?:your|making any)) [^,.;:!?\d]{1,60})?\s*[.!]*\s*$",
    rf"^\s*(?:please note(?: that)? )?(?:this|(?:this|the|my|all)(?: above)? (?:information|{_OF_A_MACHINE}))"
    r" (?:(?:is|are) not|(?:isn't|aren't)|(?:does|do|should) not (?:constitute|replace|be (?:taken|considered|used)))"
    r" [^.!?,;:\d]{0,40}\b(?:medical|legal|financial|tax|professional) (?:advice|diagnosis|guidance|care)\s*[.!]*\s*$",
    rf"^\s*{_NOTE}(?:(?:individual|actual|your|the|these|this|all|opening) )?(?:results|situation|experience|mileage"
    r"|circumstances|prices?|rates|fees|costs|terms|conditions|details|information|availability|hours|times|schedules?"
    r"|this|these) (?:may|can|might|could) (?:be subject to change|(?:vary|differ|change)"
    r"(?: (?:over time|at any time|without notice))?)\s*[.!]*\s*$",
    r"^\s*(?:have a (?:great|nice|good) \w+|have fun|stay safe|take care|safe travels"
    r"|(?:good|best of) luck(?: with [^.!?]{1,40})?|(?:get well|see you|talk to you) soon|happy \w+ing|welcome"
    r"|(?:ride|drive|travel) safely|bon \w+|enjoy(?: your \w+)?)\s*[!.]*\s*$",
    r"^\s*(?:please )?(?:keep (?:this|that|it) in mind|note this)\s*[.!]*\s*$",
    rf"^\s*(?:please )?see (?:below|above)(?: {_FOR_LINK})?\s*[.:!]*\s*$",
    r"^\s*(?:read|learn|see|find out|discover) more\s*[.!]*\s*$",
    rf"^[\s_(]*(?:note: )?th(?:is|e) (?:above )?{_OF_A_MACHINE} (?:(?:was|is|has been|may have been|may be) )?"
    r"(?:automatically )?(?:ai[- ])?(?:generated|created|written|produced)(?: (?:by|using|with|from)"
    r" (?:an? )?(?:ai|artificial intelligence|(?:large )?language model)\b[^.!?]*| automatically\b[^.!?]*|$)",
    r"^\W*(?:generated|answered|written|powered) by (?:an? )?(?:ai|(?:chat)?gpt)\b[^.!?]*",
    rf"^[\s_(]*(?:note: )?ai[- ]generated(?: {_OF_A_MACHINE})?(?: (?:may|might|can|could) [^.!?]*)?[\s_.!)]*$",
    r"^\s*(?:\w+ )?(?:ai|chatbots?|(?:ai|language) (?:models?|assistants?)) (?:can|may|might) make mistakes\b[^.!?]*",
    r"^\s*(?:please |always |(?:make|be) sure to )?(?:(?:verify|double-check)(?: all| any| the| these)?"
    r"|(?:check|review)(?: all| any)? (?:important|critical|key))(?: (?:important|critical|key))?"
    r" (?:info|information|details|facts)(?: (?:independently|yourself|before [^.!?]{1,40}))?\s*[.!]*\s*$",
)
_CHECKABLE = re.compile(
    rf"{DATE.pattern}|[$€£¥]\s?\d|\d\s?(?:%|percent\b|€)|\b\d{{1,2}}(?::\d\d)?\s?(?:am|pm|a\.m|p\.m)\b"
    r"|\b\d{1,2}:\d\d\b"
    r"|\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fourteen|thirty|sixty|ninety)[\s-]"
    r"(?:(?:business|working|calendar)\s)?(?:minutes?|hours?|days?|weeks?|months?|years?)\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b"
)
"""A date, a price, a time of day or a length of time."""
_OWN_CLAUSE = _pattern(
    r"\s*[;—]\s*| [–-] |,? (?:because|since|but|however|although|though|while|whereas) "
    r"|, (?:which|who|whose|where|as|so|and) |: |(?<=[a-z)])! (?=[a-z])"
)
"""What may separate a courtesy from a statement behind it."""
_RELATIVE = _pattern(
    r", (?:which|who|whose|where) (?:\S+ ){0,3}?(?:is|are|was|were|has|have|had|must|needs?|costs?|covers?|includes?"
    r"|requires?|contains?|opens?|closes?|ends?|expires?|applies|takes?|runs?|holds?|comes?|provides?|offers?)\b"
)


def openings(sentence: str) -> Iterator[Span]:
    """Interjections, connectives and notes before the first clause: "Sure!", "However,", "Note that"."""
    start, sentence = 0, _lowered(sentence)
    while True:
        after_blanks = len(sentence) - len(sentence[start:].lstrip())
        match = _INTERJECTION().match(sentence, start) or _CONNECTIVE().match(sentence, start)
        match = match or _LEAD().match(sentence, after_blanks)
        if match is None or match.end() == start:
            return
        yield start, match.end()
        start = match.end()


def leads(sentence: str) -> Iterator[Span]:
    """Words anywhere that name the sources of a statement: "according to passage 2", "the article states that"."""
    sentence = _lowered(sentence)
    if _NAMES_SOURCE.search(sentence):
        yield from (match.span() for match in _LEAD().finditer(sentence))


def announcements(sentence: str, opened: int = 0) -> Iterator[Span]:
    """What announces the answer or a list, or tells of a search: "Here is a summary:", "I found 3 documents".

    The sentence's last statement begins at ``opened``: of "Close the lid and follow these steps:" the rest is claimed.
    """
    sentence = _lowered(sentence)
    if _SEARCH().match(sentence):
        yield 0, len(sentence)
    if not any(word in sentence for word in ("here", "below", "follow", "let", "found this")):
        return
    yield from (match.span() for pattern in (_ANNOUNCEMENT, _LET_ME) for match in pattern().finditer(sentence))
    for match in _FOLLOW().finditer(sentence):
        closes = len(sentence[match.end() :].split()) <= _WORDS_AFTER_STEPS
        yield (min(opened, match.start()), len(sentence)) if closes else match.span()


def label(sentence: str) -> Iterator[Span]:
    """The label before a statement that only numbers or places it: "Step 2:", "Passage 3:"."""
    match = _LABEL().match(_lowered(sentence))
    if match:
        yield match.span()


def introduces_list(sentence: str, *, has_verb: bool, ends_openly: bool) -> bool:
    """True for a statement that ends with a colon and only names what comes: "Ingredients:", "To rotate the keys:".

    One with a verb and a price, a date or a length of time says more than that, unless it tells a purpose. A
    statement that ``ends_openly`` lacks its object: "Renting offers:".
    """
    line = _lowered(sentence).rstrip()
    if not line.endswith((":", "：")) or len(line.split()) > _LONGEST_INTRODUCTION:
        return False
    if not has_verb or _PURPOSE().search(line):
        return True
    is_introduction = ends_openly or _INTRODUCTION().search(line) is not None
    return is_introduction and _CHECKABLE.search(line) is None


def purpose_before(text: str) -> int:
    """Where the purpose or condition begins with which a text ends: "Then, to rotate the keys,"; else its end."""
    match = _PURPOSE_BEFORE().search(_lowered(text))
    return match.start() if match else len(text)


def offer(sentence: str) -> Span | None:
    """A courtesy to the reader: an offer of help, a request for more information, a good wish.

    What names a phone number, an address, a price, a date or a length of time ("if you have questions, call 555 0100
    within two days") claims something: the clause of its own that it stands in, where the courtesy is said before, else
    the whole sentence.
    """
    sentence = _lowered(sentence)
    courtesy = _OFFER().search(sentence)
    if courtesy is None or _NUMBER_OR_ADDRESS.search(sentence):
        return None
    checkable = _CHECKABLE.search(sentence)
    borders = [border.start() for border in _OWN_CLAUSE().finditer(sentence, courtesy.end())]
    if checkable:
        before = [border for border in borders if border <= checkable.start()]
        return (0, before[-1]) if before else None
    return 0, next((border for border in borders if _RELATIVE().match(sentence, border)), len(sentence))


def pointers(cited: str, passages: Sequence[Passage]) -> Iterator[tuple[Span, bool]]:
    """What only points to a link: a sentence, with whether it is one, or brackets: "(see [prices](...))".

    ``cited`` is the sentence with its markup. Where passages have addresses, one that is written out is claimed.
    """
    if "[" not in cited and _ADDRESS.search(cited) is None:
        return
    sentence = _lowered(cited)
    matches = [(match, True) for match in _POINTER().finditer(sentence)]
    matches += [(match, False) for match in _POINTER_IN_BRACKETS().finditer(sentence)]
    for match, is_whole in matches:
        shows = "[" not in match.group() and any(_ADDRESS.search(passage.text) for passage in passages)
        if not shows:
            yield match.span(), is_whole


def is_question(sentence: str) -> bool:
    """True where the sentence ends with a question mark, in any script."""
    return sentence.rstrip(" \t\r\n\"'”’»)*_").endswith(("?", "？", "؟", "⁇"))


_UNKNOWN = _words(
    "information mention details? data context indication instructions? references? answers? steps explanation guidance"
    " specifics discussion description hints? clues?"
)
_NOT_SAID = _words(
    "provide mention say state contain specify give include discuss address offer explain describe cover indicate"
    " clarify define detail directly answer have list reveal disclose tell identify refer elaborate present talk"
    " compare contradict actually explicitly specifically necessarily support confirm suggest show relate name"
    " report"
)
_NOT_SAID = f"(?:{_NOT_SAID}|go into|make (?:it )?(?:clear|mention)|(?:seem|appear) to)"
_ANSWERING = _words(
    "answer provide determine find say give tell confirm offer conclude locate identify verify assist help complete"
    " fulfil generate summari[sz]e accurately directly definitively fully explicitly address respond recommend"
    " speculate make"
)
_DOES_NOT = r"(?:(?:do|does|did)\s*(?:not|n't)|(?:don't|doesn't|didn't|never))"
_CAN_NOT = (
    "(?:(?:cannot|can't|couldn't)|(?:can|could) not|(?:am|are|was|were|'m|'re) (?:not able|unable) to"
    "|may not be able to)"
)
_THERE_IS = r"there(?:'s| is| are| was| were| isn't| aren't| seems to be| does not (?:seem|appear) to be)"
_BRACKETS = r"(?:\s*\([^()]{0,60}\))?"
_IS_NOT = "(?:(?:is|are|was|were|has|have) not|(?:isn't|aren't|wasn't|weren't|hasn't|haven't))"
_WRITTEN = "(?:mentioned|stated|specified)"
_DOCUMENTS = rf"(?!(?:\w+ ){{0,2}}(?:author|story|data|content|material|instructions|records?)\b){SOURCE}"
"""Sources, without the names that are often those of things an answer tells of."""

_SUBORDINATORS = ("and", "but", "as", "since", "because", "though", "that")
_CLAUSE_BEGINS = "|".join([r"^\W{0,3}", r"(?<=[,;:(—–]\s)", *(rf"(?<=\b{word}\s)" for word in _SUBORDINATORS)])
_AS_SUBJECT = (
    rf"(?:{_CLAUSE_BEGINS}){_TEXT}(?: (?:about|by|for|from|of|on) (?:[\w-]+ ){{0,3}}?[\w-]+)?{_BRACKETS},?"
    r"(?: (?:also|still|itself|themselves|alone|however,?|simply|unfortunately,?))*"
)
"""A text by its kind where a clause begins: "the leaflet", "Anna's letter to the board"."""
_BY_KIND, _LONG_WORD = re.compile(_TEXT), re.compile(r"\w{4,}")
_DETAILS = rf"(?:(?:us|you|any|an?|the|its|specific|exact|precise|further|more|much) )*(?:{_UNKNOWN}|anything about)"
_AMOUNTS = _words("answer date time price cost figure number name length amount reason cause address age year size")
_SAY = (
    "(?:say|state|mention|specify|indicate|reveal|disclose|tell|explain|report|clarify|describe|discuss|identify|note"
    "|name|elaborate|go into|make (?:it )?(?:clear|mention)"
    rf"|(?:give|provide|contain|include|offer) {_DETAILS}|give (?:(?:an?|any|the|its|exact) )+{_AMOUNTS})\b"
)
"""What a text does with what it says; one that does not "cover" or "allow" something says so."""
_NOTHING_SAID = (
    rf"(?:(?:mention|state|specif)(?:s|ies)? no\b|says? nothing\b|makes? no (?:mention|reference)\b"
    rf"|(?:give|provide|contain|offer|include)s? no (?:[\w-]+ )?(?:{_UNKNOWN}|evidence|{_AMOUNTS})\b"
    r"|(?:is|are) silent\b|leaves? (?:it )?open (?:whether|if|who|what|when|where|which|why|how)\b)"
)
_SAID_IN_TEXT = "(?:mentioned|stated|specified|given|said|indicated|explained|disclosed|discussed|described)"

_HELD = rf"{SOURCE}(?: (?:that )?(?:i|we) (?:have|was given|were given)(?: access to)?)?"

_REFUSAL = _pattern(
    rf"{_AS_SUBJECT} (?:(?:do|does)\s*(?:not|n't)) {_ADVERBS}{_SAY}",
    rf"{_AS_SUBJECT} (?:never (?:\w+ly )?(?:says?|states?|mentions?|specif(?:y|ies)|explains?)\b|{_NOTHING_SAID})",
    rf"(?<!\w)nothing (?:in|from|within) {_TEXT} {_ADVERBS}(?:says?|states?|mentions?|indicates?|explains?|tells?)\b",
    rf"(?<!\w)no mention (?:is made )?(?:of [^,.;]{{1,60}} )?(?:in|within) (?:{_TEXT}|{_DOCUMENTS})",
    rf"(?<!\w)(?:{SOURCE}|(?:it|they)(?= {_DOES_NOT} (?:\w+ly )*"
    rf"(?:mention|specify|say|state|explain|provide (?:\w+ )*{_UNKNOWN})))"
    rf"{_BRACKETS},? (?:(?:also|still|themselves|itself|alone|however,?|simply|unfortunately,?) )*"
    rf"{_DOES_NOT} {_ADVERBS}{_NOT_SAID}\b",
    rf"(?<!\w)(?:neither|none|no)(?: one)?(?: of)? {SOURCE} {_ADVERBS}{_REPORTS}\b",
    rf"(?<!\w){SOURCE}(?: (?:is|are) (?:silent|unclear|insufficient|not (?:clear|sufficient|enough|specific|relevant))"
    rf"| (?:lacks?|fails? to)|{_BRACKETS} makes? no (?:mention|reference))\b",
    rf"(?<!\w){_DOCUMENTS}{_BRACKETS} (?:(?:mention|state)s? no\b|(?:give|provide|contain|offer|include)s? no "
    rf"(?:(?:specific|further|additional|relevant|other|direct|explicit|clear) )?(?:{_UNKNOWN}|evidence)\b)",
    rf"(?<!\w)(?:there(?:'s| is| was) )?nothing (?:in|from|within) {_DOCUMENTS} "
    rf"{_ADVERBS}(?:{_REPORTS}|about|on|regarding)\b",
    rf"(?<!\w)(?:no (?:[\w-]+ ){{1,4}}?(?:is|are|was|were)|{_THERE_IS} no(?: [\w-]+){{1,4}}?) {_WRITTEN}"
    rf"(?= in (?:{_DOCUMENTS}|{_TEXT}))",
    rf"(?<!\w)it(?:'s| is| was) not {_WRITTEN} (?:when|where|whether|if|who|whom|whose|what|which|why|how|that)\b",
    rf"(?<!\w)(?:based on|from|given) {SOURCE},? it(?:'s| is| remains) (?:unclear|unknown|not (?:\w+ly )?clear)\b",
    r"(?<!\w)(?:this|that|the|such)(?: \w+)? information(?: (?:that )?you(?:'re| are| have|'ve)? \w+(?: for)?)?"
    rf" {_IS_NOT} (?:\w+ly )?(?:{_SAID}|available|(?:(?:{_SAID}|available) (?:in|within)|in) {_HELD})(?=\s*[.;!]?\s*$)",
    rf"(?<!\w)(?:the|your|this) (?:{_OF_A_MACHINE}|prompt|request|query) (?:was|is|has been)"
    r" (?:filtered|blocked|rejected)\b",
    rf"(?<!\w)(?:an?|the|your) {_OF_A_MACHINE} (?:could not|cannot|can not|couldn't|can't) be"
    r" (?:generated|created|produced|found|provided)\b",
    rf"(?<!\w){_THERE_IS} (?:also )?(?:no|not (?:enough|any|sufficient|a)|insufficient|any|enough) "
    rf"(?:[\w-]+ ){{0,3}}?{_UNKNOWN}\b",
    rf"(?<!\w)(?:no|not enough|insufficient) (?:[\w-]+ ){{0,2}}?{_UNKNOWN} (?:(?:is|was|are|were|has been) )?"
    rf"(?:{_SAID}|available|about|on|regarding)\b",
    r"(?<!\w)(?:i|we)\s*(?:(?:am|are|was|were|'m|'re) (?:unable|not able)|(?:wasn't|weren't|aren't) able) to "
    rf"(?:\w+ly )?{_ANSWERING}\b",
    rf"(?<!\w)(?:i|we) {_DOES_NOT} (?:find|see) (?:(?:an?|any|enough|sufficient) (?:\w+ ){{0,2}}?"
    rf"(?:information on|mention of|{_UNKNOWN} (?:about|regarding|in {SOURCE}))|anything (?:about|regarding))\b",
    rf"(?:^\s*|, )(?:unable|not able) to (?:\w+ly )?{_ANSWERING}\b",
    r"(?<!\w)it is unable to (?:answer|provide)\b",
    r"(?<!\w)(?:it\s*(?:'s|is|was) )?(?:not possible|impossible|difficult|hard) (?:for me )?to (?:\w+ly )?"
    r"(?:(?:answer|determine|conclude|say)\b|(?:give|provide) (?:an?|any) (?:[\w-]+ ){0,2}(?:answer|figure|number)\b)",
    r"(?<!\w)(?:i|we)\s*(?:am|are|'m|'re) not (?:sure|certain)\b",
    r"(?<!\w)(?:this|that|it|which)\s*(?:'s|is) (?:(?:outside|beyond) (?:of )?(?:the scope|my (?:scope|knowledge))\b"
    r"|not something (?:i|we) can\b)",
    rf"(?<!\w)no (?:relevant |matching )?(?:passages|documents|results|sources|content|{_UNKNOWN})"
    r" (?:(?:were|was|could be) found\b|found(?=\s*[.!]?\s*$))",
    rf"(?<!\w)(?:{_I_SEARCHED},? (?:and|but)(?: i)?|i(?:'ve| have)?) found (?:no {_RELEVANT}(?:{_HIT}|{_UNKNOWN})"
    rf"|nothing (?:about|on|regarding|in {SOURCE}))\b",
    r"(?<!\w)there (?:is no|is not an?|isn't an?) (?:definitive|clear|single|specific|exact) answer\b",
    r"(?<!\w)(?:an?|the) (?:exact|specific|precise) [\w-]+ (?:is|was) not (?:given|provided)(?=\s*[.;]?\s*$)",
    rf"(?<!\w)(?:i|we) (?:have|was|were)(?: not|n't) (?:been )?(?:given|provided)(?: with)?"
    rf" (?:any |enough )?{_UNKNOWN}\b",
    r"^\s*could not find (?:an? |any )?(?:answer|information)\b",
    r"(?<!\w)i can only (?:answer|help with|assist with) (?:questions?|topics)\b",
    rf"(?<!\w)(?:i|we)\s*{_CAN_NOT} (?:\w+ly )?{_ANSWERING}\b",
    rf"(?<!\w)(?:i|we) (?:{_DOES_NOT} have|lack|would need|need) "
    rf"(?:(?:access to|enough|sufficient|any|the|that|this|such|more|additional|further|specific|necessary) )*"
    rf"{_UNKNOWN}\b",
    rf"(?<!\w)(?:i|we) have no (?:\w+ )?{_UNKNOWN}\b",
    rf"(?<!\w)(?:more|further|additional) {_UNKNOWN} (?:is|are|would be) (?:needed|required|necessary)"
    r" (?:to|before|in order to|for)\b",
    r"(?<!\w)i (?:don't|do not) know\b(?! (?:how|why|of|that|if)\b)",
)
"""What begins a refused clause."""

_PASSIVE_REFUSAL = _pattern(
    rf"(?<!\w)(?:{_IS_NOT}|(?<=[(, ])not) (?:been )?(?:\w+ly )?"
    rf"(?:{_SAID} (?:in|by|within|anywhere in|from) {SOURCE}|(?:available|contained) (?:in|within) {_DOCUMENTS})",
    rf"(?<!\w){_IS_NOT} (?:\w+ly )?{_SAID_IN_TEXT} (?:anywhere )?(?:in|by) {_TEXT}",
    r"(?<!\w)(?:cannot|can not|can't|could not|couldn't) be (?:\w+ly )?(?:found|inferred|derived)"
    rf" (?:in|from) {_DOCUMENTS}",
    r"(?<!\w)(?:(?:is|are|was|were|remains?) )?(?:unclear|not (?:\w+ly )?clear|unknown|unspecified)"
    rf"(?= (?:from|in|based on|within) {SOURCE})",
    rf"(?<!\w){_IS_NOT} (?:\w+ly )?{_WRITTEN}(?=\s*[.;]?\s*$)",
    r"(?<!\w)(?:cannot|can not|can't|could not) be (?:\w+ly )?(?:answered|determined|concluded)\b",
)
"""What stands in a refused clause behind its subject."""

_THING = r"(?P<noun>[a-z-]{3,}(?<!er)(?<!ers)(?<!or)(?<!ors)(?<!ist)(?<!ists)(?<!ian)(?<!ians)(?<!man)(?<!men))\b"
_SILENT_THING = _pattern(
    rf"(?:{_CLAUSE_BEGINS})(?:the|this|that|these|your) {_THING} (?:(?:do|does)\s*(?:not|n't)) {_ADVERBS}"
    r"(?:say|state|mention|specify|explain)\b",
)
_UNTOLD_IN_THING = _pattern(rf"(?<!\w){_IS_NOT} (?:\w+ly )?{_WRITTEN} (?:anywhere )?in (?:the|this|that|your) {_THING}")
"""What may be a source, but no person; it is one only if the passages tell of nothing that is called so."""

_BORDER = _pattern(
    r"\s*[;—]\s*| [–-] |,? (?:but|however|although|though|while|whereas|yet|nevertheless|instead)\b,?"
    r"|, (?:so|only|just|rather|which|it|they|we|you|i|he|she|there|this)\b"
    r"|, and (?=(?:it|they|he|she|there|this|i|we|you)\b"
    r"|(?:[\w-]+ ){1,4}(?:is|are|was|were|has|have|may|might|can|will|should|must|needs?|costs?|covers?|includes?"
    r"|requires?|contains?|opens?|closes?|leaves?|ends?|expires?|applies|takes?|runs?|holds?|weighs?|provides?|offers?)\b)"
)
_MAY_REFUSE = re.compile(
    r"\b(?:not?|nothing|never|none|neither|cannot|unable|lacks?|fails?|silent|insufficient|impossible|difficult|hard"
    r"|need(?:ed)?|required|necessary|outside|beyond|only|leaves?|filtered|blocked|rejected|un(?:clear|known|specified))\b|n['’]t\b"
)
"""A cheap test without which no refusal can match."""
_REFUSED_LABEL = re.compile(r"\W*[^\W_][\w'’-]*(?:\s+[^\W_][\w'’-]*){0,2}\s*:\s*")
"""What names the thing that is not said: "Body size: there is no mention of it"."""
_BARE = _pattern(
    r"\W*(?:n/a|unknown|empty (?:response|answer)"
    r"|not (?:mentioned|stated|specified|provided|given|available|found|applicable|known)"
    r"|(?:insufficient|not enough|no) (?:information|context|mention|indication|answers?)"
    rf"|(?:insufficient|not enough|no) {_UNKNOWN} (?:available|provided|given|found|to (?:answer|tell|say)))\W*"
)


def is_bare_refusal(answer: str) -> bool:
    """True for an answer that is nothing but "Not specified.", "N/A" and the like; a part of an answer would claim."""
    return _BARE().fullmatch(_lowered(answer).replace("_", " ")) is not None


def is_yes_or_no(answer: str) -> bool:
    """True for an answer that is nothing but "Yes", "No" or "None", with or without a mark; a field would claim."""
    return re.fullmatch(r"\W*(?:yes|no|none)\W*", _lowered(answer)) is not None


def refusals(sentence: str, passages: Sequence[Passage] = ()) -> Iterator[Span]:
    """The clauses of a sentence in which the answer says that it, or its sources, do not say something.

    A source may go by a kind of text ("the leaflet"), or by any noun in lower case that the passages lack. It is none
    where passages tell what "the report lists", and of what it shall be silent on: there, the answer speaks of it.
    """
    written, sentence = sentence, _lowered(sentence)
    if _MAY_REFUSE.search(sentence) is None:
        return
    borders = [match.span() for match in _BORDER().finditer(sentence)]
    found = dict[Span, None]()
    for pattern in (_REFUSAL, _SILENT_THING, _PASSIVE_REFUSAL, _UNTOLD_IN_THING):
        for match in pattern().finditer(sentence):
            if "noun" in match.re.groupindex and not _names_no_thing(written[slice(*match.span("noun"))], passages):
                continue
            start = match.start()
            if pattern in (_PASSIVE_REFUSAL, _UNTOLD_IN_THING):
                before = max((end for _, end in borders if end <= start), default=0)
                start = max(before, 1 + max(sentence.rfind(mark, 0, start) for mark in "(:"))
            elif _REFUSED_LABEL.fullmatch(sentence, 0, start):
                start = 0
            first_letter = next((at for at in range(start, len(sentence)) if sentence[at].isalnum()), start)
            end = next((border for border, _ in borders if border >= match.end()), len(sentence))
            text = _BY_KIND.search(match.group()) if pattern is _REFUSAL else None
            if text is None or not _is_told_of(text.group().split()[-1], sentence[match.end() : end], passages):
                found[first_letter, end] = None
    yield from found


def _is_told_of(kind: str, things: str, passages: Sequence[Passage]) -> bool:
    """Whether a passage tells what a text of this kind says, and has a word for one of the things it is silent on."""
    told = re.compile(rf"\bthe {re.escape(kind)} (?:\w+ )?{_REPORTS}\b")
    texts = [text for text in (passage.text.lower() for passage in passages) if told.search(text)]
    return any(word in text for text in texts for word in _LONG_WORD.findall(things))


def _names_no_thing(noun: str, passages: Sequence[Passage]) -> bool:
    """Whether a noun in lower case is none that the passages have, but for their titles."""
    singular = noun.removesuffix("s")
    return noun.islower() and not any(singular in passage.text.lower() for passage in passages)
