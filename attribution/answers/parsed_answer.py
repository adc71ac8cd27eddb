"""A dependency-parsed answer as plain data, and a tree per sentence that is the same for all parsers.

This is what leaves spaCy and crosses process borders. All that differs between dependency parsers is in one small table
per label scheme. Where sentences end by their marks is said here, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from attribeam.attribution.answers.citation_marks import CitationMark
from attribeam.attribution.answers.plain_text import remembered
from attribeam.schemas import CharRange

_MODIFIERS = frozenset({"amod", "case", "cc", "compound", "det", "fixed", "flat", "goeswith", "mark", "prep", "punct"})
CONJUNCT = "conj"


@dataclass(frozen=True, slots=True)
class LabelScheme:
    """How a parser names what the method asks for; labels are given without their subtype ("nsubj:pass" -> "nsubj").

    Verbs have ``predicate_tags``; an auxiliary is a predicate only where it carries a clause, by none of the
    ``auxiliary_labels``. A verb form under one of the ``modifier_labels`` is none ("including" as ``case``). A noun
    chunk has one of the ``noun_tags`` and the children with ``noun_chunk_labels``. ``last_conjunct_leads`` where the
    other conjuncts hang on the last one, rather than on the first or on each other.
    """

    name: str
    auxiliary_labels: frozenset[str]
    subject_labels: frozenset[str]
    noun_chunk_labels: frozenset[str]
    modifier_labels: frozenset[str] = _MODIFIERS
    predicate_tags: frozenset[str] = frozenset({"VERB"})
    noun_tags: frozenset[str] = frozenset({"NOUN", "PROPN"})
    last_conjunct_leads: bool = False


UNIVERSAL = LabelScheme(
    name="universal",
    auxiliary_labels=frozenset({"aux", "cop"}),
    subject_labels=frozenset({"nsubj", "csubj", "expl"}),
    noun_chunk_labels=frozenset({"det", "amod", "compound", "nummod", "nmod:poss", "flat", "fixed", "goeswith"}),
)
SPACY_ENGLISH = LabelScheme(
    name="spacy-english",
    auxiliary_labels=frozenset({"aux", "auxpass"}),
    subject_labels=frozenset({"nsubj", "nsubjpass", "csubj", "csubjpass", "expl"}),
    noun_chunk_labels=frozenset({"det", "amod", "compound", "nummod", "poss", "nmod", "quantmod", "predet"}),
)
UNIVERSAL_CHINESE = replace(
    UNIVERSAL,
    name="universal-chinese",
    predicate_tags=frozenset({"VERB", "ADJ"}),  # an adjective needs no copula
    modifier_labels=_MODIFIERS | {"advmod", "clf", "nmod"},
    noun_chunk_labels=UNIVERSAL.noun_chunk_labels | {"clf", "nmod"},
    noun_tags=frozenset({"NOUN", "PROPN", "PART"}),  # suffixes are separate words, and head the noun
)
SPACY_CHINESE = LabelScheme(
    name="spacy-chinese",
    auxiliary_labels=frozenset({"aux", "auxpass", "cop"}),
    subject_labels=frozenset({"nsubj", "nsubjpass"}),
    noun_chunk_labels=frozenset({"det", "amod", "compound", "nummod", "nmod", "name", "mark:clf"}),
    modifier_labels=_MODIFIERS | {"name", "neg", "etc", "nmod", "advmod"},
    predicate_tags=frozenset({"VERB", "ADJ"}),
    last_conjunct_leads=True,
)
_SCHEMES = {scheme.name: scheme for scheme in (UNIVERSAL, SPACY_ENGLISH, UNIVERSAL_CHINESE, SPACY_CHINESE)}
_SPACYS_OWN = frozenset({"dobj", "pobj", "nsubjpass", "auxpass", "attr", "acomp"})


def label_scheme(name: str) -> LabelScheme:
    """The scheme of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in _SCHEMES:
        raise ValueError(f"label scheme should be one of {sorted(_SCHEMES)}, was: {name!r}")
    return _SCHEMES[name]


def scheme_of_labels(labels: Iterable[str], *, language: str = "en") -> LabelScheme:
    """The scheme of a parser with these labels: spaCy's own where a label gives it away, else universal.

    ``language`` is the pipeline's, as spaCy names it. Chinese has its own schemes; all other languages share two.
    """
    spacys_own = not _SPACYS_OWN.isdisjoint(labels)
    if language == "zh":
        return SPACY_CHINESE if spacys_own else UNIVERSAL_CHINESE
    return SPACY_ENGLISH if spacys_own else UNIVERSAL


def base_label(label: str) -> str:
    """The label without its subtype: "nsubj:pass" -> "nsubj"."""
    return label.partition(":")[0]


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """Words, dependency tree and sentences of one answer.

    One item per word, white space excluded, have: ``words``, their code points; ``dependency_heads``, where a root is
    its own head; ``dependency_labels`` in lower case, with subtypes ("nsubj:pass"); ``universal_tags`` (UPOS);
    ``fine_tags``, the parser's own, "" where it gives none. ``sentence_starts`` are the first words of sentences,
    ascending, ``cut_starts`` those of them before which a sentence was cut because it was too long. No word lies in
    one of the ``marks``, where the answer cites.
    """

    words: tuple[CharRange, ...]
    dependency_heads: tuple[int, ...]
    dependency_labels: tuple[str, ...]
    universal_tags: tuple[str, ...]
    fine_tags: tuple[str, ...]
    sentence_starts: tuple[int, ...]
    entities: tuple[CharRange, ...] = ()
    label_scheme: str = "universal"
    cut_starts: tuple[int, ...] = ()
    marks: tuple[CitationMark, ...] = ()

    @property
    def marked(self) -> tuple[CharRange, ...]:
        """The code points of the marks."""
        return tuple(mark.chars for mark in self.marks)


@dataclass(frozen=True, slots=True)
class SentenceTree:
    """The tree of one sentence; words are counted from the sentence's first (``first_word`` of the answer).

    Conjuncts depend on the first conjunct, and a coordinator on the conjunct that follows it, whatever the parser does.
    A root is its own head, labels have no subtype, and predicates are verbs and copular predicates.
    """

    first_word: int
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    predicates: tuple[bool, ...]
    punctuation: tuple[bool, ...]

    def closest_predicate(self, word: int) -> int | None:
        """The word itself if it is a predicate, else its closest ancestor that is one, else None."""
        while not self.predicates[word]:
            if self.heads[word] == word:
                return None
            word = self.heads[word]
        return word


def sentence_bounds(parsed: ParsedAnswer) -> tuple[tuple[int, int], ...]:
    """Half-open word ranges of the sentences."""
    return tuple(pairwise((*parsed.sentence_starts, len(parsed.words))))


def sentence_of_word(parsed: ParsedAnswer, word: int) -> tuple[int, int]:
    """Half-open word range of the sentence that a word stands in."""
    index = bisect_right(parsed.sentence_starts, word)
    end = parsed.sentence_starts[index] if index < len(parsed.sentence_starts) else len(parsed.words)
    return parsed.sentence_starts[index - 1], end


def words_in(parsed: ParsedAnswer, chars: CharRange) -> range:
    """The words that share a code point with the range."""
    first = bisect_right(parsed.words, chars.char_start, key=lambda word: word.char_end)
    return range(first, bisect_left(parsed.words, chars.char_end, lo=first, key=lambda word: word.char_start))


def cut_sentences(parsed: ParsedAnswer) -> tuple[CharRange, ...]:
    """The code points of each sentence that was cut, with all its pieces together, ascending."""
    whole: list[CharRange] = []
    previous_end = -1
    for start in parsed.cut_starts:
        before, _ = sentence_of_word(parsed, start - 1)
        _, end = sentence_of_word(parsed, start)
        first = whole.pop().char_start if start == previous_end else parsed.words[before].char_start
        whole.append(CharRange(first, parsed.words[end - 1].char_end))
        previous_end = end
    return tuple(whole)


def sentence_tree(parsed: ParsedAnswer, start: int, end: int) -> SentenceTree:
    """The tree of the words ``[start, end)``; a head outside the sentence makes its word a root."""
    heads, labels = parsed.dependency_heads[start:end], parsed.dependency_labels[start:end]
    return _sentence_tree(parsed.label_scheme, start, heads, labels, parsed.universal_tags[start:end])


@lru_cache(maxsize=4096)
def _sentence_tree(
    scheme_name: str, start: int, above: tuple[int, ...], written: tuple[str, ...], tags: tuple[str, ...]
) -> SentenceTree:
    scheme, end = label_scheme(scheme_name), start + len(tags)
    labels = list(map(base_label, written))
    heads = [head - start if start <= head < end else word for word, head in enumerate(above)]
    copular = {heads[word] for word, label in enumerate(labels) if label == "cop"}
    no_verbs = scheme.auxiliary_labels | scheme.modifier_labels
    predicates = tuple(
        word in copular or (label not in no_verbs and (tag == "AUX" or tag in scheme.predicate_tags))
        for word, (label, tag) in enumerate(zip(labels, tags, strict=True))
    )
    if scheme.last_conjunct_leads:
        _let_first_conjuncts_lead(heads, labels)
    _flatten_coordination(heads, labels)
    punctuation = tuple(label == "punct" or tag == "PUNCT" for label, tag in zip(labels, tags, strict=True))
    return SentenceTree(start, tuple(heads), tuple(labels), predicates, punctuation)


def _conjuncts_by_leader(heads: Sequence[int], labels: Sequence[str]) -> dict[int, list[int]]:
    """For each word that begins a chain of conjuncts, the words of the chain behind it, ascending."""
    members: dict[int, list[int]] = {}
    for word, label in enumerate(labels):
        if label == CONJUNCT and heads[word] != word:
            leader = word
            while labels[leader] == CONJUNCT and heads[leader] != leader:
                leader = heads[leader]
            members.setdefault(leader, []).append(word)
    return members


def _let_first_conjuncts_lead(heads: list[int], labels: list[str]) -> None:
    """If the last conjunct leads its structure, put the first one in its place.

    The first conjunct gets the head and the label of the last, and the others become its conjuncts. Words before them
    all that depended on the last one, such as their subject, now depend on the first.
    """
    for leader, members in _conjuncts_by_leader(heads, labels).items():
        first = min(members)
        if first > leader:
            continue
        shared = [word for word in range(first) if heads[word] == leader and word not in members]
        is_root = heads[leader] == leader
        heads[first], labels[first] = (first if is_root else heads[leader]), labels[leader]
        for word in (*members, leader):
            if word != first:
                heads[word], labels[word] = first, CONJUNCT
        for word in shared:
            heads[word] = first


def _flatten_coordination(heads: list[int], labels: Sequence[str]) -> None:
    """Attach each conjunct to its chain's first word, and each coordinator to the conjunct that follows it."""
    members = _conjuncts_by_leader(heads, labels)
    leaders = {word: leader for leader, words in members.items() for word in words}
    for word, label in enumerate(labels):
        if label == "cc" and heads[word] < word:
            leader = leaders.get(heads[word], heads[word])
            heads[word] = next((member for member in members.get(leader, ()) if member > word), heads[word])
    for word, leader in leaders.items():
        heads[word] = leader


_END_MARKS = frozenset(".!?:;…。！？：；।؟۔")
_WIDE_END_MARKS = frozenset("。！？…")
_WIDE_CLOSING = "」』）】》〉"
OPENING = "\"'([{“‘«*_"
"""Marks that may open a word."""
_AFTER_END = "\"'”’»)]}*_" + _WIDE_CLOSING
_BEFORE_MORE = frozenset(
    """
    dr. mr. mrs. ms. prof. rev. gen. col. capt. lt. sgt. sen. rep. gov. hon. st. mt. messrs. mme. mlle. vs. cf. e.g.
    i.e. viz. ca. approx. fig. figs. eq. eqs. vol. vols. pp. incl. excl. tel. ext. ref. refs. inv. avg. std. resp.
    """.split()  # noqa: SIM905
)
BEFORE_NUMBERS = frozenset(
    """
    no. nos. ch. sec. art. para. jan. feb. mar. apr. jun. jul. aug. sep. sept. oct. nov. dec.
    """.split()  # noqa: SIM905
)
"""Abbreviations that number what they stand beside, in lower case: "No. 5"."""
_SHORT_FORMS = frozenset(
    """
    al. ave. blvd. bros. co. corp. dept. est. etc. inc. jr. ltd. max. min. plc. sr. univ.
    """.split()  # noqa: SIM905
)


def sentence_ends(words: Sequence[str]) -> list[bool]:
    """Whether a sentence may end with each word.

    It may if the word ends with a mark that ends sentences and is not a title or another abbreviation that needs a
    continuation ("Dr.", "e.g.", "No. 12"), even if the parser takes the full stop for a word of its own. A word of
    only closing quotes and brackets follows the word before it.
    """
    ends: list[bool] = []
    for index, word in enumerate(words):
        bare = word.rstrip(_AFTER_END)
        whole = (words[index - 1] + bare if bare == "." and index else bare).lower()
        may_end = bare[-1:] in _END_MARKS and may_end_sentence(whole, "".join(words[index + 1 : index + 2]))
        ends.append(may_end if bare else ends[-1:] == [True])
    return ends


def may_end_sentence(whole: str, following: str) -> bool:
    """Whether a sentence may end with a word, in lower case, that has a mark at its end, before this text.

    It may end with a short form that can end one ("Ltd.", "max.") only before what is no small letter and no number.
    """
    whole, first = whole.lstrip(OPENING), following[:1]
    if whole in _BEFORE_MORE or (whole in BEFORE_NUMBERS and first.isdigit()):
        return False
    return not (whole in _SHORT_FORMS and (first.islower() or first.isdigit()))


def closing_marks(words: Sequence[str], *, spaced: Sequence[bool]) -> list[bool]:
    """Whether each word consists only of closing quotes and brackets, bound to the word before and not to the next.

    In text without blanks the marks show this: a bracket that only closes, or a quote behind "。". ``spaced`` says for
    each word whether white space follows it; the last one counts as spaced.
    """
    last = len(words) - 1
    return [
        index > 0
        and not spaced[index - 1]
        and not word.rstrip(_AFTER_END)
        and (
            spaced[index] or index == last or words[index - 1][-1] in _WIDE_END_MARKS or not word.rstrip(_WIDE_CLOSING)
        )
        for index, word in enumerate(words)
    ]


LONGEST_SENTENCE = 256
"""Words. Of 10,636 sentences in real answers the longest has 116; text without marks may have any number."""

SUBTOKEN_LABEL = "subtok"
"""The label of a token whose word goes on with the next token, as in spaCy's ``merge_subtokens``."""


@dataclass(slots=True)
class ParsedTokens:
    """The tokens of one block, which each step changes: parallel lists.

    ``starts`` are the first tokens of the sentences, ascending; a root is its own head.
    """

    ranges: list[CharRange]
    forms: list[str]
    heads: list[int]
    labels: list[str]
    universal_tags: list[str]
    fine_tags: list[str]
    starts: list[int]

    def join_subtokens(self) -> None:
        """Words in place of tokens: a run of ``subtok`` and the token behind it, within one sentence.

        The last token represents the word; a word whose head lies within itself is a root.
        """
        if SUBTOKEN_LABEL not in self.labels:
            return
        runs = word_runs(self.labels, self.starts)
        word_of = [word for word, run in enumerate(runs) for _ in run]
        lasts = [run[-1] for run in runs]
        self.ranges = [CharRange(self.ranges[run[0]].char_start, self.ranges[run[-1]].char_end) for run in runs]
        self.forms = ["".join(self.forms[token] for token in run) for run in runs]
        self.heads = [word_of[self.heads[last]] for last in lasts]
        self.labels = ["root" if self.heads[word] == word else self.labels[last] for word, last in enumerate(lasts)]
        self.universal_tags = [self.universal_tags[last] for last in lasts]
        self.fine_tags = [self.fine_tags[last] for last in lasts]
        self.starts = [word_of[start] for start in self.starts]

    def attach_closing_marks(self, closing: Sequence[bool]) -> None:
        """Move ``closing`` marks at the start of a sentence to the sentence before it.

        Such a mark becomes a ``punct`` of the earlier sentence's root; words that depended on it become roots.
        """
        heads, kept = self.heads, list[int]()
        for start, end in self._sentences():
            first = start
            while kept and first < end and closing[first]:
                first += 1
            root = next((word for word in range(kept[-1], start) if heads[word] == word), start) if kept else start
            for word in range(start, end):
                if word < first:
                    heads[word], self.labels[word] = root, "punct"
                elif start <= heads[word] < first:
                    heads[word], self.labels[word] = word, "root"
            if first < end:
                kept.append(first)
        self.starts = kept

    def cut_long_sentences(self, ended: Sequence[bool]) -> None:
        """Cut sentences of more than ``LONGEST_SENTENCE`` words after the last that may end one (``ended``).

        Where there is none, they are cut after so many words. A word whose head is then in another piece is a root.
        """
        cut: list[int] = []
        for start, end in self._sentences():
            cut.append(start)
            while end - cut[-1] > LONGEST_SENTENCE:
                limit = cut[-1] + LONGEST_SENTENCE
                cut.append(next((word + 1 for word in range(limit - 1, cut[-1], -1) if ended[word]), limit))
        if len(cut) > len(self.starts):
            self.heads, self.starts = heads_within(self.heads, cut), cut
            self.labels = ["root" if self.heads[word] == word else label for word, label in enumerate(self.labels)]

    def join_unended_sentences(self, ended: Sequence[bool]) -> None:
        """Join sentences if no word between them ends one.

        If a sentence is joined to the one before it, its root becomes a ``parataxis`` of the earlier root. Sentences
        that would have more than ``LONGEST_SENTENCE`` words together stay apart.
        """
        kept: list[int] = []
        root = 0
        for start, end in self._sentences():
            roots = [word for word in range(start, end) if self.heads[word] == word]
            if not kept or ended[start - 1] or end - kept[-1] > LONGEST_SENTENCE:
                kept.append(start)
                root = roots[0]
                continue
            for word in roots:
                self.heads[word], self.labels[word] = root, "parataxis"
        self.starts = kept

    def _sentences(self) -> Iterator[tuple[int, int]]:
        return pairwise((*self.starts, len(self.heads)))


def word_runs(labels: Sequence[str], starts: Sequence[int]) -> list[range]:
    """The tokens of each word; a word never continues in the next sentence."""
    ends = {end - 1 for _, end in pairwise((*starts, len(labels)))}
    lasts = [token for token, label in enumerate(labels) if label != SUBTOKEN_LABEL or token in ends]
    return [range(before + 1, last + 1) for before, last in pairwise((-1, *lasts))]


def heads_within(heads: Sequence[int], starts: Sequence[int]) -> list[int]:
    """The heads of words, but a word whose head is in another sentence becomes a root."""
    return [
        head if start <= head < end else word
        for start, end in pairwise((*starts, len(heads)))
        for word, head in enumerate(heads[start:end], start)
    ]


_LINE, _NO_BLANK = re.compile(r"[^\r\n]+"), re.compile(r"\S")
_MAY_END = re.compile(
    rf"""[。！？；：]+["'”’»)\]」』）】]*|[{re.escape("".join(sorted(_END_MARKS)))}][{re.escape(_AFTER_END)}]*(?!\S)"""
)
_ONLY_CLOSING = re.compile(rf"\s*[{re.escape(_AFTER_END)}]+(?!\S)")
_CLAUSE_MARKS = (":", ";", "：", "；")
_CLOSING = "\"'”’»)]}*_」』）】"


def has_letter_or_digit(text: str) -> bool:
    """True if some character is a letter or a digit."""
    return any(map(str.isalnum, text))


@remembered
def text_sentences(text: str) -> tuple[CharRange, ...]:
    """The sentences of a text, ascending, without white space at their edges.

    They end where a parse ends sentences, at colons and semicolons, and at the end of each line.
    """
    return tuple(_sentences(text, at_clauses=True))


@remembered
def whole_sentences(text: str) -> tuple[CharRange, ...]:
    """Like ``text_sentences``, but no sentence ends at a colon or semicolon, and all contain a letter or digit."""
    return tuple(chars for chars in _sentences(text, at_clauses=False) if has_letter_or_digit(chars.of(text)))


def _sentences(text: str, *, at_clauses: bool) -> Iterator[CharRange]:
    """Words are those between blanks, and what wide marks end; only those with a mark at their end are looked at."""
    for line in _LINE.finditer(text):
        position, end = line.span()
        start = _next_word(text, position, end)
        for match in _MAY_END.finditer(text, start, end):
            words, position = text[position : match.end()].rsplit(None, 2), match.end()
            bare = words[-1].rstrip(_AFTER_END)
            whole = ("".join(words[-2:-1]) + bare if bare == "." else bare).lower()
            following = _next_word(text, position, end)
            if not may_end_sentence(whole, text[following : min(following + 1, end)]):
                continue
            if at_clauses or not words[-1].rstrip(_CLOSING).endswith(_CLAUSE_MARKS):
                yield CharRange(start, position)
                start = following
            while closing := _ONLY_CLOSING.match(text, position, end):
                position = closing.end()
                yield CharRange(start, position)
                start = _next_word(text, position, end)
        if start < end:
            yield CharRange(start, start + len(text[start:end].rstrip()))


def _next_word(text: str, position: int, end: int) -> int:
    match = _NO_BLANK.search(text, position, end)
    return match.start() if match else end
