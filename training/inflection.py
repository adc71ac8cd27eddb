"""English inflection of verbs and nouns: rules for the regular ones and tables for the others."""

import re

VOWELS = "aeiou"
SHORT_SYLLABLE = re.compile(r"^[^aeiou]*(?:qu)?[aeiouy][bdfgklmnprstvz]$")
_IRREGULAR_VERBS = """
arise arose arisen; awake awoke awoken; be was been; bear bore borne; beat beat beaten; become became become;
begin began begun; bend bent bent; bet bet bet; bid bid bid; bind bound bound; bite bit bitten; bleed bled bled;
blow blew blown; break broke broken; breed bred bred; bring brought brought; broadcast broadcast broadcast;
build built built; burst burst burst; buy bought bought; cast cast cast; catch caught caught; choose chose chosen;
cling clung clung; come came come; cost cost cost; creep crept crept; cut cut cut; deal dealt dealt; dig dug dug;
do did done; draw drew drawn; drink drank drunk; drive drove driven; dwell dwelt dwelt; eat ate eaten;
fall fell fallen; feed fed fed; feel felt felt; fight fought fought; find found found; flee fled fled;
fling flung flung; fly flew flown; forbid forbade forbidden; forecast forecast forecast; forget forgot forgotten;
forgive forgave forgiven; freeze froze frozen; get got got; give gave given; go went gone; grind ground ground;
grow grew grown; hang hung hung; have had had; hear heard heard; hide hid hidden; hit hit hit; hold held held;
hurt hurt hurt; keep kept kept; kneel knelt knelt; know knew known; lay laid laid; lead led led; leap leapt leapt;
leave left left; lend lent lent; let let let; lie lay lain; lose lost lost; make made made; mean meant meant;
meet met met; mow mowed mown; offset offset offset; pay paid paid; prove proved proven; put put put; quit quit quit;
read read read; rid rid rid; ride rode ridden; ring rang rung; rise rose risen; run ran run; say said said;
see saw seen; seek sought sought; sell sold sold; send sent sent; set set set; sew sewed sewn; shake shook shaken;
shed shed shed; shine shone shone; shoot shot shot; show showed shown; shrink shrank shrunk; shut shut shut;
sing sang sung; sink sank sunk; sit sat sat; slay slew slain; sleep slept slept; slide slid slid; sow sowed sown;
speak spoke spoken; speed sped sped; spend spent spent; spin spun spun; spit spat spat; split split split;
spread spread spread; spring sprang sprung; stand stood stood; steal stole stolen; stick stuck stuck;
sting stung stung; strike struck struck; string strung strung; strive strove striven; swear swore sworn;
sweep swept swept; swell swelled swollen; swim swam swum; swing swung swung; take took taken; teach taught taught;
tear tore torn; tell told told; think thought thought; throw threw thrown; thrust thrust thrust; tread trod trodden;
wake woke woken; wear wore worn; weave wove woven; weep wept wept; win won won; wind wound wound;
withdraw withdrew withdrawn; wring wrung wrung; write wrote written; strew strewed strewn;
troubleshoot troubleshot troubleshot; waylay waylaid waylaid
"""
_PREFIXES = ("over", "under", "out", "with", "fore", "mis", "re", "un", "up")
_DOUBLED = re.compile(
    r"(?:^(?:ad|com|per|sub|o|e|trans|re)mit|(?:^re|^pre|trans|^con|^de|^in)fer|^deter|cur|(?:com|pro|ex|re|dis|im)pel|"
    r"trol|^enrol|^rebel|^regret|^equip|^abet|^allot|^rebut|^outfit|^debug|^unplug|^recap|^kidnap|^handicap|^program|"
    r"^zigzag|^overlap|^acquit|^annul|^excel|^fulfil|^abhor|^unwrap|^format|^appal|^enthral|^offset|"
    r"(?:be|for|out|over|under|up|re)(?:get|gin|let|run|set|cut|put|win))$"
)
_IRREGULAR_PLURALS = """
child children; foot feet; tooth teeth; goose geese; mouse mice; ox oxen; person people; criterion criteria;
phenomenon phenomena; medium media; bacterium bacteria; leaf leaves; loaf loaves; knife knives; life lives;
wife wives; shelf shelves; half halves; calf calves; wolf wolves; thief thieves; self selves; scarf scarves;
axis axes; quiz quizzes; hero heroes; potato potatoes; tomato tomatoes; echo echoes; veto vetoes; embargo embargoes;
torpedo torpedoes; mosquito mosquitoes; volcano volcanoes; tornado tornadoes; cargo cargoes; matrix matrices;
appendix appendices; monarch monarchs; patriarch patriarchs; matriarch matriarchs; stomach stomachs; epoch epochs;
series series; species species; sheep sheep; fish fish; deer deer; aircraft aircraft; spacecraft spacecraft;
offspring offspring; means means; headquarters headquarters; corps corps; lens lenses; human humans; shaman shamans;
talisman talismans; passer-by passers-by; son-in-law sons-in-law; stimulus stimuli; nucleus nuclei; fungus fungi;
alumnus alumni
"""
_UNCOUNTABLE = """
information equipment money cash furniture luggage baggage advice news evidence proof knowledge research
software hardware machinery weather traffic music poetry wealth health happiness sadness anger progress water
air oxygen gold silver oil petrol gasoline electricity energy rice wheat corn bread milk butter meat beef pork
rain snow ice homework housework work labour labor education employment unemployment poverty homelessness
merchandise clothing apparel footwear rubbish garbage trash litter soil dirt mud dust sand gear stuff personnel
staff help aid assistance guidance patience courage bravery honesty justice freedom liberty independence leisure
fun luck safety security violence peace silence warfare agriculture farming transport transportation travel
"""
UNCOUNTABLE = frozenset(_UNCOUNTABLE.split())
VERBS = {base: (past, participle) for base, past, participle in map(str.split, _IRREGULAR_VERBS.split(";"))}
PLURALS = dict(pair.split() for pair in _IRREGULAR_PLURALS.split(";"))


def verb_forms(lemma: str) -> tuple[str, ...]:
    """(base, third person, past, participle, -ing) of a verb and what follows it: only the first word is inflected."""
    verb, space, rest = lemma.partition(" ")
    past_form, participle = irregular_past(verb) or (past(verb),) * 2
    return tuple(form + space + rest for form in (verb, third_person(verb), past_form, participle, gerund(verb)))


def noun_forms(lemma: str) -> tuple[str | None, str | None]:
    """(singular, plural), None where there is none; the last word is inflected, or the one before "of"."""
    before, of, after = lemma.partition(" of ")
    lead, space, noun = before.rpartition(" ")
    if noun in UNCOUNTABLE or noun.endswith("ics"):
        return lemma, None
    if noun.endswith("s") and noun not in PLURALS and not noun.endswith(("ss", "us", "is", "as")):
        return None, lemma
    return lemma, lead + space + plural(noun) + of + after


def irregular_past(verb: str) -> tuple[str, str] | None:
    """(past, participle) of an irregular verb, also behind a prefix: "rewrite", "overtake"; None of a regular one."""
    if verb in VERBS or verb == "relay":
        return VERBS.get(verb)
    for prefix in _PREFIXES:
        stem = verb.removeprefix(prefix)
        if stem != verb and stem in VERBS:
            return prefix + VERBS[stem][0], prefix + VERBS[stem][1]
    return None


def third_person(verb: str) -> str:
    """ "says", "tries", "goes"."""
    known = {"be": "is", "have": "has"}.get(verb)
    return known or _with_s(verb, o_ending="es")


def past(verb: str) -> str:
    """ "asked", "tried", "stopped": the regular past, whatever the verb."""
    if verb.endswith("e"):
        return verb + "d"
    return (verb[:-1] + "i" if _ends_in_consonant_y(verb) else _lengthened(verb)) + "ed"


def gerund(verb: str) -> str:
    """ "asking", "making", "lying", "stopping"."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return verb[:-1] + "ing"
    return _lengthened(verb) + "ing"


def plural(noun: str) -> str:
    """ "towns", "cities", "boxes", "women", "crises"."""
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith("man"):
        return noun[:-2] + "en"
    if noun.endswith("sis"):
        return noun[:-2] + "es"
    return _with_s(noun, o_ending="s")


def _with_s(word: str, *, o_ending: str) -> str:
    if word.endswith("quiz"):
        return word + "zes"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if _ends_in_consonant_y(word):
        return word[:-1] + "ies"
    return word + (o_ending if word.endswith("o") and word[-2:-1] not in VOWELS else "s")


def _ends_in_consonant_y(word: str) -> bool:
    return len(word) > 1 and word[-1] == "y" and word[-2] not in VOWELS


def _lengthened(verb: str) -> str:
    """The stem before "-ed" and "-ing": its last consonant is doubled behind one short stressed vowel."""
    if verb.endswith("ic"):
        return verb + "k"
    return verb + verb[-1] if SHORT_SYLLABLE.match(verb) or _DOUBLED.search(verb) else verb
