"""Training rows for the attributor, and the rewording of their answers.

Training rows for the attributor: a prompt, an answer, and the source of each answer token.

The answer is stitched from slightly reworded clauses of known origin and from words without a source.

An answer that records where its characters come from, and the rewording of single words.

Numbers are spelled out or get other separators, words are replaced by synonyms, and sometimes by a wrong number or a
wrong name.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tokenizers import Tokenizer

from lab.training.attributor.corpus import Corpus, Passage, draw_passages, names_in

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
    alternatives: dict[str, tuple[str, ...]] = {}
    for line in _GROUPS.replace("\n", ";").split(";"):
        words = line.split()
        for word in words:
            alternatives[word] = alternatives.get(word, ()) + tuple(other for other in words if other != word)
    for value, word in enumerate(_NUMBER_WORDS):
        alternatives[word], alternatives[str(value)] = (str(value),), (word,)
    for value, word in enumerate(_ORDINALS, start=1):
        ordinal = f"{value}{_ENDINGS.get(value, 'th')}"
        alternatives[word], alternatives[ordinal] = (*alternatives.get(word, ()), ordinal), (word,)
    return alternatives


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
                NUMBER.sub(lambda match: str(rng.randrange(1, 10 ** min(len(match[0]), 9))), text)
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


CharOffsets = tuple[int, int]
WORD = re.compile(r"\S+")
DAY_AND_MONTH = re.compile(
    r"(\d{1,2}) (January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
INVENTION_SHARE = 0.1
CONNECTOR_SHARE = 0.2
CITATION_SHARE = 0.1
BOLD_SHARE = 0.08
REVERSED_SHARE = 0.15
DROPPED_SHARE = 0.06
SUBJECT_SHARE = 0.35
SWITCH_SHARE = 0.25
RUN_WORDS = (2, 3, 4, 6, 8, 8, 12, 12, 16, 20, 30)
CONNECTORS = (
    "According to the first source, ", "Also, ", "In addition, ", "However, ", "One source states that ",
    "Another source says ", "It is ", "There are several answers. ", "Meanwhile, ", "The answer is ",
    "This is because ", "In terms of ", "Yes, ", "For example, ", "Based on the passages, ", "- ", "The ",
)  # fmt: skip
SENTENCE_ENDS = (". ", ". ", ". ", ".\n", ".\n- ", "\n", ". It ")
SWITCHES = (" and ", ", and ", ", ", "; ", ", while ", " while ", " or ", ", but ", " but ", ", whereas ")
SUBJECT_LINKS = (" ", " ", " was ", " is ", ", ", " has ", "'s ", " in ", ", which ", ", also known as ")
RUN_LINKS = (" ", " ", ", ", " and ", " that ", " was ", " of ", " in ", " for ", " by ")
NAME = re.compile(r"\b[A-Z][\w'-]+(?: (?:of |the |de |von )?[A-Z0-9][\w'-]*)*")


class AnswerWriter:
    """Stitches one answer from one prompt.

    ``quotable`` holds, for each passage to quote, the ranges of its title, if any, and of its sentences. ``unquoted``
    are sentences on the same subject that are not in the prompt.
    """

    def __init__(
        self,
        prompt: str,
        quotable: list[list[CharOffsets]],
        *,
        unquoted: Sequence[str],
        corpus: Corpus,
        rng: random.Random,
    ) -> None:
        self._prompt = prompt
        self._quotable = quotable
        self._unquoted = unquoted
        self._corpus = corpus
        self._rng = rng
        self._names = [name for name in names_in(corpus.random_words(rng, 120)) if name not in prompt]

    def write(self, *, char_budget: int) -> Answer:
        """An answer of about ``char_budget`` characters."""
        answer, rng = Answer(), self._rng
        while len(answer.text) < char_budget:
            if rng.random() < INVENTION_SHARE:
                self._invent(answer)
            if rng.random() < CONNECTOR_SHARE:
                answer.add_unsourced(rng.choice(CONNECTORS))
            self._quote_passage(answer, rng.choice(self._quotable))
            if rng.random() < CITATION_SHARE:
                answer.add_unsourced(f" [{rng.randint(1, 30)}]")
            answer.add_unsourced(rng.choice(SWITCHES if rng.random() < SWITCH_SHARE else SENTENCE_ENDS))
        return answer

    def _invent(self, answer: Answer) -> None:
        """Append words of another page or of an unquoted sentence, as a claim without support."""
        rng = self._rng
        count = rng.randint(2, 12)
        if self._unquoted and rng.random() < 0.6:
            words = rng.choice(self._unquoted).split()
            first = rng.randrange(max(1, len(words) - count))
            words = words[first : first + count]
        else:
            words = self._corpus.random_words(rng, count)
        answer.add_unsourced_claim(" ".join(words))
        answer.add_unsourced(rng.choice(SENTENCE_ENDS))

    def _quote_passage(self, answer: Answer, ranges: list[CharOffsets]) -> None:
        """Append runs of words from one or two sentences of a passage, sometimes after a name from the passage."""
        rng = self._rng
        noise = rng.choice([0.0, 0.0, 0.5, 1.0, 2.0])
        wording = Wording(rng, noise=noise, names=self._names)
        runs = [run for _ in range(rng.choice([1, 1, 1, 2])) for run in self._runs(self._words(rng.choice(ranges)))]
        if rng.random() < SUBJECT_SHARE:
            self._quote_run(answer, self._subject(ranges), Wording(rng))
            answer.add_unsourced(rng.choice(SUBJECT_LINKS))
        for turn, run in enumerate(runs):
            if turn:
                answer.add_unsourced(rng.choice(RUN_LINKS))
            self._quote_run(answer, run, wording)

    def _subject(self, ranges: list[CharOffsets]) -> list[CharOffsets]:
        """The words of the passage's title, or of a name in the passage, because answers repeat what they are about."""
        rng = self._rng
        names = [match.span() for start, end in ranges for match in NAME.finditer(self._prompt, start, end)]
        return self._words(rng.choice(names) if names and rng.random() < 0.6 else ranges[0])

    def _words(self, char_range: CharOffsets) -> list[CharOffsets]:
        """The ranges of the words within ``char_range`` of the prompt."""
        return [match.span() for match in WORD.finditer(self._prompt, *char_range)]

    def _runs(self, words: list[CharOffsets]) -> list[list[CharOffsets]]:
        """One to three runs of a sentence's words with gaps between them, sometimes in reverse order."""
        rng = self._rng
        runs = []
        position = 0 if rng.random() < 0.4 else rng.randrange(len(words))
        for _ in range(rng.choice([1, 1, 2, 3])):
            length = rng.choice(RUN_WORDS)
            runs.append(words[position : position + length])
            position += length + rng.choice([0, 1, 2, 4])
        runs = [run for run in runs if run]
        return runs[::-1] if rng.random() < REVERSED_SHARE else runs

    def _quote_run(self, answer: Answer, words: list[CharOffsets], wording: Wording) -> None:
        """Append consecutive words, sometimes in bold, with a lower-case first letter, or all in lower case."""
        rng = self._rng
        bold = "**" if rng.random() < BOLD_SHARE else ""
        small_first, small = rng.random() < 0.3, rng.random() < 0.05
        answer.add_unsourced(bold)
        start, claims = len(answer.text), len(answer.claims)
        words = self._reordered(self._thinned(words, wording), wording)
        for index, (char_start, char_end) in enumerate(words):
            if index:
                answer.add_ignored(" ")
            text = self._prompt[char_start:char_end]
            if index == len(words) - 1:
                text = without_last_mark(text, rng)
            if small or (small_first and index == 0):
                text = lower_case(text)
            wording.write_word(answer, text, char_start)
        if len(answer.claims) == claims:
            answer.claim(start, supported=True)
        answer.add_unsourced(bold)

    def _thinned(self, words: list[CharOffsets], wording: Wording) -> list[CharOffsets]:
        """The words without some of them, more with higher noise, but never without all."""
        return [word for word in words if self._rng.random() >= DROPPED_SHARE * wording.noise] or words

    def _reordered(self, words: list[CharOffsets], wording: Wording) -> list[CharOffsets]:
        """The words, sometimes with day and month exchanged: "5 March" becomes "March 5"."""
        if not wording.noise or self._rng.random() < 0.5:
            return words
        reordered = list(words)
        for index, ((first, _), (_, last)) in enumerate(pairwise(words)):
            if DAY_AND_MONTH.match(self._prompt, first, last):
                reordered[index], reordered[index + 1] = words[index + 1], words[index]
        return reordered


def without_last_mark(text: str, rng: random.Random) -> str:
    """The word, usually without the punctuation at its end."""
    return text.rstrip(".,;:") or text if rng.random() < 0.7 else text


def lower_case(text: str) -> str:
    """The word in lower case, unless that changes its length."""
    return text.lower() if len(text.lower()) == len(text) else text


PROMPT_TEMPLATE = {
    "preamble": "",
    "titled_passage": "{title}\n{text}\n\n",
    "passage": "{text}\n\n",
    "question": "Question: {question}\nAnswer: ",
}
BOS_COLUMN = 0
CHARS_PER_TOKEN = 3.7
ROW_TOKENS = (192, 256, 384, 384, 512, 512, 768, 768, 1024, 1536, 2048, 3072)


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One rendered row, tokenised once as a whole.

    Attributes:
        text: prompt and answer.
        token_ids: the tokens of ``text``, with one BOS in front.
        offsets: the half-open character range of each token in ``text``.
        answer_start: the index of the first answer token.
        gold: for each answer token the columns that it must attend to: the tokens that it was copied from, BOS
            (column 0) if it has no source, or none if it is not to be learned.
        claims: spans of the answer as (char_start, char_end, supported), with offsets in ``text``.
        passages_end: the end of the passages in ``text``.
        column_passage: the passage of each prompt token, -1 outside all passages.
        question, passages: what the prompt was made from.
    """

    text: str
    token_ids: list[int]
    offsets: list[CharOffsets]
    answer_start: int
    gold: list[tuple[int, ...]]
    claims: list[tuple[int, int, bool]]
    passages_end: int
    column_passage: list[int]
    question: str = ""
    passages: Sequence[Passage] = ()


def draw_batch(corpus: Corpus, tokenizer: Tokenizer, *, seed: int, step: int, token_budget: int) -> list[TrainingRow]:
    """The rows of one training step, all of one length class of ``ROW_TOKENS``; they depend only on the arguments.

    The length class does not exceed the token budget.
    """
    rng = random.Random(f"attributor rows {seed} {step}")
    tokens = rng.choice([tokens for tokens in ROW_TOKENS if tokens <= max(token_budget, ROW_TOKENS[0])])
    count = max(1, token_budget // tokens)
    return [draw_row(corpus, tokenizer, rng, tokens=tokens) for _ in range(count)]


def draw_row(corpus: Corpus, tokenizer: Tokenizer, rng: random.Random, *, tokens: int) -> TrainingRow:
    """One row of about ``tokens`` tokens, and at most 1.25 times as many."""
    while True:
        row = compose_row(corpus, tokenizer, rng, char_budget=round(tokens * CHARS_PER_TOKEN))
        if len(row.token_ids) <= 1.25 * tokens:
            return row


def compose_row(corpus: Corpus, tokenizer: Tokenizer, rng: random.Random, *, char_budget: int) -> TrainingRow:
    """Draw passages, quote one to six of them in an answer, and map the answer's tokens to their sources."""
    answer_chars = min(round(0.3 * char_budget), rng.choice([150, 300, 500, 800, 1200]))
    passages = draw_passages(corpus, rng, char_budget=char_budget - answer_chars - 60)
    context, clauses = render_passages(passages)
    ends = [max(end for _, end in ranges) for ranges in clauses]
    quoted = rng.sample(clauses, min(len(clauses), rng.choice([1, 2, 2, 3, 4, 6, 10])))
    question = draw_question(context, quoted, corpus, rng)
    prompt = context + PROMPT_TEMPLATE["question"].format(question=question)
    unquoted = draw_unquoted_sentences(passages, prompt, rng)
    answer = AnswerWriter(prompt, quoted, unquoted=unquoted, corpus=corpus, rng=rng).write(char_budget=answer_chars)
    row = align_row(prompt, answer, tokenizer, passages_end=len(context), passage_ends=ends)
    return replace(row, question=question, passages=passages)


def render_passages(passages: list[Passage]) -> tuple[str, list[list[CharOffsets]]]:
    """The text, and for each passage the ranges of its title, if any, and of its sentences."""
    context, clauses = PROMPT_TEMPLATE["preamble"], []
    for passage in passages:
        name = "passage" if passage.title is None else "titled_passage"
        parts = [*([] if passage.title is None else [passage.title]), *passage.sentences]
        clauses.append(part_offsets(context, parts))
        context += PROMPT_TEMPLATE[name].format(title=passage.title, text=passage.text)
    return context, clauses


def part_offsets(context: str, parts: list[str]) -> list[CharOffsets]:
    """The ranges of ``parts`` when they are appended to ``context`` with one character between them."""
    ranges, start = [], len(context)
    for part in parts:
        ranges.append((start, start + len(part)))
        start += len(part) + 1
    return ranges


def draw_unquoted_sentences(passages: list[Passage], prompt: str, rng: random.Random) -> list[str]:
    """Up to four sentences from the passages' pages that are not in the prompt."""
    drawn = [rng.choice(rng.choice(rng.choice(passages).page.paragraphs)) for _ in range(4)]
    return [sentence for sentence in drawn if sentence and sentence not in prompt]


def draw_question(context: str, quoted: list[list[CharOffsets]], corpus: Corpus, rng: random.Random) -> str:
    """Words of a quoted passage in random order, or unrelated words."""
    if rng.random() < 0.3:
        return " ".join(corpus.random_words(rng, 6)) + "?"
    ranges = rng.choice(quoted)
    start, end = ranges[0] if rng.random() < 0.3 else rng.choice(ranges)
    words = WORD.findall(context[start:end])
    return " ".join(rng.sample(words, min(len(words), rng.randint(3, 8)))) + "?"


def align_row(
    prompt: str, answer: Answer, tokenizer: Tokenizer, *, passages_end: int, passage_ends: list[int]
) -> TrainingRow:
    """Tokenise prompt and answer as one text, and convert the answer's sources from characters to tokens."""
    text = prompt + answer.text
    encoding = tokenizer.encode(text)
    offsets = encoding.offsets
    ends = [end for _, end in offsets]
    answer_start = next(i for i in range(1, len(ends)) if ends[i] > len(prompt))
    gold = [
        source_columns(answer.sources[max(0, start - len(prompt)) : end - len(prompt)], offsets, ends)
        for start, end in offsets[answer_start:]
    ]
    claims = [(len(prompt) + start, len(prompt) + end, supported) for start, end, supported in answer.claims]
    column_passage = [passage_at(end, passage_ends) for end in ends[:answer_start]]
    return TrainingRow(text, encoding.ids, offsets, answer_start, gold, claims, passages_end, column_passage)


def passage_at(char_end: int, passage_ends: list[int]) -> int:
    """The passage of a token that ends at ``char_end``, -1 for BOS and for tokens after the last passage."""
    index = bisect_left(passage_ends, char_end)
    return index if char_end > 0 and index < len(passage_ends) else -1


def source_columns(sources: list[int], offsets: list[CharOffsets], ends: list[int]) -> tuple[int, ...]:
    """The columns that a token's characters were copied from: BOS without a source, () if ignored."""
    columns = set()
    for source in sources:
        if source >= 0:
            column = bisect_left(ends, source + 1)
            if offsets[column][0] <= source:
                columns.add(column)
    if columns:
        return tuple(sorted(columns))
    return (BOS_COLUMN,) if NO_SOURCE in sources or IGNORED not in sources else ()
