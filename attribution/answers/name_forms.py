"""Names that people write in more than one way: abbreviations of places, addresses, days, quarters, company forms."""

from __future__ import annotations

from collections.abc import Mapping

Phrase = tuple[str, ...]
"""The words of a name, in lower case, without full stops and possessives."""

_STATES = """
alabama|al alaska|ak arizona|az|ariz arkansas|ar|ark california|ca|calif colorado|co|colo connecticut|ct|conn
delaware|de|del florida|fl|fla georgia|ga hawaii|hi idaho|id illinois|il|ill indiana|in|ind iowa|ia kansas|ks|kan
kentucky|ky louisiana|la maine|me maryland|md massachusetts|ma|mass michigan|mi|mich minnesota|mn|minn
mississippi|ms|miss missouri|mo montana|mt|mont nebraska|ne|neb nevada|nv|nev new+hampshire|nh new+jersey|nj
new+mexico|nm new+york|ny north+carolina|nc north+dakota|nd ohio|oh oklahoma|ok|okla oregon|or|ore
pennsylvania|pa|penn rhode+island|ri south+carolina|sc south+dakota|sd tennessee|tn|tenn texas|tx|tex utah|ut
vermont|vt virginia|va washington|wa|wash west+virginia|wv wisconsin|wi|wis wyoming|wy district+of+columbia|dc
british+columbia|bc ontario|ont quebec|que new+south+wales|nsw
"""
_PLACES = """
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
"""
_SHORT_WORDS = """
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

_TITLES = """
mr mrs ms miss dr doctor prof professor sir dame lord lady president vice chancellor governor gov senator sen
representative rep congressman congresswoman secretary minister mayor judge justice attorney officer deputy sheriff
chief captain capt lieutenant lt sergeant sgt colonel col general gen major maj admiral king queen prince princess
pope cardinal bishop reverend rev father sister brother coach director ceo aunt uncle the st mt
"""
TITLES = frozenset(_TITLES.split())
"""Words before a name that say what someone is; a name is the same without them."""

_COMPANY_FORMS = "inc incorporated corp corporation co company ltd limited llc llp plc gmbh ag sa nv bv"
COMPANY_FORMS = frozenset(_COMPANY_FORMS.split())
"""Words behind the name of a company; the name is the same without them."""

_NO_NAMES = "fahrenheit celsius kelvin json html pdf csv note ref refs passage passages step figure fig table whichever"
NO_NAMES = frozenset(_NO_NAMES.split())
"""Words that are written as names, but name nothing that a passage must repeat: units, formats, labels and others."""


def _forms(text: str) -> Mapping[Phrase, tuple[Phrase, ...]]:
    """For each form of a name its others. Blanks separate groups, bars the forms of one, pluses the words of a form."""
    found: dict[Phrase, dict[Phrase, None]] = {}
    for group in text.split():
        forms = [tuple(form.split("+")) for form in group.split("|")]
        for form in forms:
            found.setdefault(form, {}).update((other, None) for other in forms if other != form)
    return {form: tuple(others) for form, others in found.items()}


OTHER_FORMS = _forms(_STATES + _PLACES + _SHORT_WORDS)
"""The other forms of a name that has some: ("ny",) for ("new", "york")."""

LONGEST_FORM = max(map(len, OTHER_FORMS))
"""Words of the longest form."""
