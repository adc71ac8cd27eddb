"""An answer that records where its characters come from, and the rewording of single words.

Numbers are spelled out or get other separators, words are replaced by synonyms, and sometimes by a wrong number or a
wrong name.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

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
    """Lower-case words, with the words that may replace them."""
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


def alternative_wording(text: str, rng: random.Random) -> str | None:
    """Another way to write ``text`` with the same final punctuation and initial case; None if none is known."""
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


NUMBER = re.compile(r"\d+")
NO_SOURCE, IGNORED = -1, -2
WRONG_NUMBER_SHARE = 0.04
WRONG_NAME_SHARE = 0.03
OTHER_WORDING_SHARE = 0.5
PRONOUNS = ("He", "She", "It", "They", "This")
SUFFIXES = ("s", "ed", "ing", "ly", "'s", "er")
FILLERS = ("also", "then", "the", "later", "a", "mainly", "later", "first", "of", "that", "in", "to")


@dataclass(slots=True)
class Answer:
    """An answer under construction; ``sources`` has one entry per character.

    An entry is the place in the prompt that the character was copied from, ``NO_SOURCE`` if the prompt does not say it,
    or ``IGNORED`` if there is nothing to learn from it. ``claims`` are (char_start, char_end, supported).
    """

    text: str = ""
    sources: list[int] = field(default_factory=list)
    claims: list[tuple[int, int, bool]] = field(default_factory=list)

    def copy(self, text: str, source: int) -> None:
        """Append characters copied from the prompt, starting at ``source``; their case may differ."""
        self.text += text
        self.sources.extend(range(source, source + len(text)))

    def derive(self, text: str, source: int) -> None:
        """Append characters that all derive from the one at ``source``."""
        self.text += text
        self.sources.extend([source] * len(text))

    def add_unsourced(self, text: str) -> None:
        """Append characters without a source."""
        self.derive(text, NO_SOURCE)

    def add_ignored(self, text: str) -> None:
        """Append characters that nothing should be learned from."""
        self.derive(text, IGNORED)

    def claim(self, char_start: int, *, supported: bool) -> None:
        """Record the text from ``char_start`` on as one claim, supported or not."""
        char_end = len(self.text.rstrip())
        if char_end > char_start:
            self.claims.append((char_start, char_end, supported))

    def add_unsourced_claim(self, text: str) -> None:
        """Append characters without a source, as a separate claim."""
        start = len(self.text)
        self.add_unsourced(text)
        self.claim(start, supported=False)


@dataclass(frozen=True, slots=True)
class Wording:
    """How freely the writer rewords: with ``noise`` 0 it copies; wrong names are drawn from ``names``."""

    rng: random.Random
    noise: float = 0.0
    names: Sequence[str] = ()

    def write_word(self, answer: Answer, text: str, source: int) -> None:
        """Append the word at ``source``, or what a careless writer would put in its place.

        Fillers, other endings, synonyms and pronouns, which are more frequent with higher ``noise``, teach the model
        that wording may differ. Wrong numbers and names have no source.
        """
        if not self._write_false_value(answer, text):
            self._write_reworded(answer, text, source)

    def _write_false_value(self, answer: Answer, text: str) -> bool:
        """Append a wrong number or name in place of ``text`` at random; return whether that happened."""
        rng = self.rng
        if NUMBER.search(text) and rng.random() < WRONG_NUMBER_SHARE:
            answer.add_unsourced_claim(
                NUMBER.sub(lambda found: str(rng.randrange(1, 10 ** min(len(found[0]), 9))), text)
            )
            return True
        if self.names and len(text) > 3 and text[0].isupper() and rng.random() < WRONG_NAME_SHARE:
            answer.add_unsourced_claim(rng.choice(self.names))
            return True
        return False

    def _write_reworded(self, answer: Answer, text: str, source: int) -> None:
        rng = self.rng
        dice = rng.random() / self.noise if self.noise else 1.0
        other = alternative_wording(text, rng) if self.noise and rng.random() < OTHER_WORDING_SHARE else None
        if other is not None:
            answer.derive(other, source + len(text) // 2)
        elif dice < 0.04:
            answer.add_ignored(rng.choice(FILLERS))
        elif dice < 0.08 and len(text) > 5 and text.isalpha():
            answer.copy(text[: -rng.choice((1, 2, 3))], source)
            answer.derive(rng.choice(SUFFIXES), source + len(text) - 1)
        elif dice < 0.1 and text[:1].isupper():
            answer.add_ignored(rng.choice(PRONOUNS))
        elif dice < 0.13:
            answer.add_ignored(rng.choice(FILLERS) + " ")
            answer.copy(text, source)
        else:
            answer.copy(text, source)
