"""Other ways to write a word: numbers in words, digits with and without separators, and words of like sense."""

import random

_GROUPS = """
began started commenced opened; ended finished concluded stopped; big large great huge; small little tiny minor
film movie picture; book volume work; song track tune; show programme series; company firm business corporation
built constructed erected; made produced created manufactured; wrote authored penned; said stated told noted remarked
died passed perished; born birth; killed slain murdered; won gained secured; lost defeated beaten; got received obtained
bought purchased acquired; sold traded; moved relocated shifted; founded established formed set; led headed directed
car automobile vehicle; plane aircraft airplane; ship vessel boat; town city municipality; village settlement hamlet
area region zone district; country nation state; people persons individuals residents; child kid; children kids
man male; woman female; job position post role; money funds cash; war conflict; battle fight clash; army troops forces
king monarch ruler; leader chief head; member part; group team band; game match contest; player athlete sportsman
about around approximately roughly nearly; many numerous several various; most majority; often frequently commonly
usually generally typically normally; main primary chief principal major; important significant key notable
famous known renowned noted; new recent modern; old ancient former; first initial earliest; last final latest
early initial; near close; between among; before prior; after following; during throughout; because since as
but however although though; also too additionally; while whereas; such like; including with; using through via
help assist aid support; show display demonstrate; use utilize employ apply; need require; allow permit let enable
cause lead produce; increase rise grow growth; decrease fall drop decline; change alter modify; begin start; end finish
include contain comprise; contains includes comprises; has holds possesses; located situated based; called named termed
released issued published launched; appeared featured starred; played performed; sung performed; directed made
illness disease sickness; doctor physician; drug medicine medication; food meal; home house residence; street road
school college academy; student pupil; teacher instructor; law statute act; court tribunal; judge justice
government administration; president leader; election vote poll; party faction; church chapel; river stream
mountain peak hill; sea ocean; forest woods; animal creature beast; plant herb; water liquid; fire blaze; earth soil
fast quick rapid; slow gradual; hard difficult; easy simple; rich wealthy; poor needy; happy glad; sad unhappy
whole entire complete; kind type sort form; way manner method; place site location spot; time period era age
year annum; century hundred; part portion section piece; number amount quantity; result outcome consequence
reason cause; idea concept notion; example instance; problem issue difficulty; answer reply response; question query
"""
_NUMBER_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
_ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def _alternatives() -> dict[str, tuple[str, ...]]:
    """Word, in small letters, to the others that may stand for it."""
    found: dict[str, tuple[str, ...]] = {}
    for line in _GROUPS.replace("\n", ";").split(";"):
        words = line.split()
        for word in words:
            found[word] = found.get(word, ()) + tuple(other for other in words if other != word)
    for value, word in enumerate(_NUMBER_WORDS):
        found[word], found[str(value)] = (str(value),), (word,)
    for value, word in enumerate(_ORDINALS, start=1):
        ordinal = f"{value}{_ENDINGS.get(value, 'th')}"
        found[word], found[ordinal] = (*found.get(word, ()), ordinal), (word,)
    return found


ALTERNATIVES = _alternatives()


def other_wording(text: str, rng: random.Random) -> str | None:
    """Another way to write ``text``, with the marks behind it and its first letter's case; None where none is known."""
    core = text.rstrip(".,;:")
    marks = text[len(core) :]
    if core.endswith("%") and core[:-1].isdecimal():
        return core[:-1] + " percent" + marks
    if core.replace(",", "").isdecimal() and len(core.replace(",", "")) > 4:
        return (core.replace(",", "") if "," in core else f"{int(core):,}") + marks
    others = ALTERNATIVES.get(core.lower())
    if not others:
        return None
    other = rng.choice(others)
    return (other.capitalize() if core[0].isupper() else other) + marks
