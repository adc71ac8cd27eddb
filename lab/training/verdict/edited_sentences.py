"""Claims made from sentences of Wikipedia, right or wrong by construction, beside premises that look like an audit's.

Half of them are wrong: a name, number, role, word or predicate was exchanged, or a negation put in or taken out, in the
claim or in its premise. Right claims lose parts, change their order or take other words. A cross-encoder learns from
them what a claim and a premise are, before it sees the few that people judged.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from attribeam.attribution.verdict.claim_reader import ReaderInput
from lab.training.attributor.corpus import Corpus, Page

_Words = list[str]
_Edit = tuple[_Words, list[bool]]
"""Words, and which of them are wrong beside the sentence as it was."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_AUXILIARIES = _set("is was are were has had have can could will would did does")
_VERBS = _AUXILIARIES | _set(
    "became remains includes included began won lost made wrote built opened founded moved joined lives lived died "
    "married received published released produced played serves served contains covers uses used holds held gave took "
    "leads led sold bought owns owned runs ran stands lies got left returned created designed directed appeared came "
    "went says said starts started ends ended"
)
_FUNCTION_WORDS = _set(
    "the a an of in on at to for by with and or but from as that which who it its his her their this these those he "
    "she they be been being not into than also after before during between over under about more most other such there "
    "where when while"
)
_PRONOUNS = _set("It He She They This These")
_PREPOSITIONS = _set("in at on from by with for during after")
_SYNONYMS = {
    "began": "started", "started": "began", "won": "received", "built": "constructed", "constructed": "built",
    "around": "about", "about": "around", "located": "situated", "made": "produced", "film": "movie", "movie": "film",
    "children": "kids", "large": "big", "big": "large", "important": "significant", "bought": "purchased",
    "purchased": "bought", "wrote": "authored", "because": "since", "many": "numerous", "help": "assist",
    "helped": "assisted", "show": "display", "used": "utilised", "begins": "starts", "ended": "finished",
    "although": "though", "while": "whereas", "often": "frequently", "usually": "generally", "first": "initially",
}  # fmt: skip
_SHORTEST, _LONGEST, _FEWEST_SENTENCES, _MOST_SENTENCES = 6, 45, 6, 120
"""Of sentences in words, and of pages in sentences."""
_CLAIM_TOKENS, _PREMISE_TOKENS = 64, 224


@dataclass(frozen=True, slots=True)
class EditedClaim:
    """A claim with its premise; ``marks``, int8, has 1 for its wrong tokens, 0 for its right ones and -1 for others."""

    read: ReaderInput
    is_wrong: bool
    marks: npt.NDArray[np.int8]


class _Sentences:
    """The sentences of a page as words."""

    def __init__(self, page: Page) -> None:
        self.title = _WORD.findall(page.title)
        split = (_WORD.findall(sentence) for sentences in page.paragraphs for sentence in sentences)
        whole = [words for words in split if _SHORTEST <= len(words) <= _LONGEST and words[-1] == "."]
        self.all = whole[:_MOST_SENTENCES]

    @cached_property
    def names(self) -> list[_Words]:
        return [words[start:end] for words in self.all for start, end in _names(words)]

    @cached_property
    def numbers(self) -> _Words:
        return [word for words in self.all for word in words if _has_digit(word)]

    @cached_property
    def content(self) -> _Words:
        return [word for words in self.all for word in words if _is_content(word)] or ["thing"]


def edited_claims(corpus: Corpus, tokenizer: Tokenizer, *, count: int, seed: int) -> Iterator[EditedClaim]:
    """``count`` claims from the corpus; the tokenizer is the reader's.

    Raises:
        ValueError: if no page has enough sentences.
    """
    pages = [page for page in map(_Sentences, corpus.pages) if len(page.all) >= _FEWEST_SENTENCES]
    if not pages:
        raise ValueError(f"expected a page with at least {_FEWEST_SENTENCES} whole sentences, found none")
    maker = _Maker(pages, tokenizer, random.Random(seed))
    made = 0
    while made < count:
        claim = maker.claim()
        if claim is not None:
            made += 1
            yield claim


class _Maker:
    def __init__(self, pages: Sequence[_Sentences], tokenizer: Tokenizer, rng: random.Random) -> None:
        self._pages, self._tokenizer, self._rng = pages, tokenizer, rng
        self._separator = tokenizer.token_to_id("[SEP]") or 0
        self._page, self._near = pages[0], pages[0].all
        self._edits: tuple[tuple[float, Callable[[_Words], _Edit | None]], ...] = (
            (3, self._name), (3, self._number), (2.5, self._roles), (1.5, self._negation), (2, self._word),
            (3.5, self._predicate), (1.2, self._foreign),
        )  # fmt: skip

    def claim(self) -> EditedClaim | None:
        """A claim, or None where the drawn edit does not fit the drawn sentence."""
        rng, page = self._rng, self._rng.choice(self._pages)
        index = rng.randrange(len(page.all))
        sentence = page.all[index]
        near = [other for other in page.all[max(0, index - 2) : index + 3] if other is not sentence]
        is_wrong = rng.random() < 0.5
        edit = rng.choices([edit for _, edit in self._edits], [weight for weight, _ in self._edits])[0]
        self._page, self._near = page, near
        edited = edit(sentence)
        if edited is None or edited[0] == sentence:
            return None
        words, wrong = edited
        premise = sentence
        if not is_wrong:
            premise = words if rng.random() < 0.4 else sentence
            words, wrong = premise, [False] * len(premise)
        elif edit != self._foreign and rng.random() < 0.4:  # the premise was edited, and the claim is the sentence
            premise, words, wrong = words, sentence, _differs(sentence, words)
        words, wrong = self._same_meaning(list(words), list(wrong))
        return self._tokens(words, wrong, self._premise(premise, index), is_wrong=is_wrong)

    def _name(self, words: _Words) -> _Edit | None:
        names = _names(words, with_first=self._rng.random() < 0.5)
        close = [sentence[start:end] for sentence in self._near for start, end in _names(sentence)]
        others = close if close and self._rng.random() < 0.6 else self._page.names
        others = [name for name in others if not set(name) & set(words)]
        if not names or not others:
            return None
        start, end = self._rng.choice(names)
        return _replaced(words, start, end, self._rng.choice(others))

    def _number(self, words: _Words) -> _Edit | None:
        indices = [index for index, word in enumerate(words) if _has_digit(word)]
        if not indices:
            return None
        index = self._rng.choice(indices)
        number, is_year = words[index], bool(_YEAR.fullmatch(words[index]))
        others = [word for word in self._page.numbers if word not in words and bool(_YEAR.fullmatch(word)) == is_year]
        if others and self._rng.random() < 0.65:
            return _replaced(words, index, index + 1, [self._rng.choice(others)])
        digits = re.search(r"[0-9]+", number)
        if digits is None:
            return None
        value = int(digits.group())
        step = self._rng.choice((1, 2, 3, 5, 7, 10, 12, 20)) * self._rng.choice((1, -1))
        if not is_year and self._rng.random() < 0.4:
            step = int(value * self._rng.choice((0.5, -0.5, 1, 0.2)))
        changed = max(0, value + step)
        changed += changed == value
        return _replaced(words, index, index + 1, [f"{number[: digits.start()]}{changed}{number[digits.end() :]}"])

    def _roles(self, words: _Words) -> _Edit | None:
        verb = _first_verb(words)
        if verb is None:
            return None
        names = _names(words, with_first=words[0].lower() not in _FUNCTION_WORDS)
        before, behind = [name for name in names if name[1] <= verb], [name for name in names if name[0] > verb][:2]
        if not before or not behind:
            return None
        (start, end), (first, last) = self._rng.choice(before), self._rng.choice(behind)
        if set(words[start:end]) & set(words[first:last]):
            return None
        parts = (words[:start], words[first:last], words[end:first], words[start:end], words[last:])
        return [w for part in parts for w in part], [bool(n % 2) for n, part in enumerate(parts) for _ in part]

    def _negation(self, words: _Words) -> _Edit | None:
        if "not" in words:
            index = words.index("not")
            rest = words[:index] + words[index + 1 :]
            return rest, [at == min(index, len(rest) - 1) for at in range(len(rest))]
        indices = [index for index, word in enumerate(words[:-1]) if word in _AUXILIARIES]
        if not indices:
            return None
        no = self._rng.choices((["not"], ["never"], ["no", "longer"]), (6, 2, 2))[0]
        return _replaced(words, indices[0], indices[0] + 1, [words[indices[0]], *no])

    def _word(self, words: _Words) -> _Edit | None:
        indices = [index for index, word in enumerate(words) if _is_content(word)]
        if not indices:
            return None
        changed, wrong = list(words), [False] * len(words)
        for index in self._rng.sample(indices, min(len(indices), self._rng.choice((1, 1, 2, 3)))):
            others = (self._page if self._rng.random() < 0.5 else self._rng.choice(self._pages)).content
            drawn = [self._rng.choice(others) for _ in range(12)]
            fitting = [word for word in drawn if word not in words and word[-2:] == words[index][-2:]]
            if fitting:
                changed[index], wrong[index] = fitting[0], True
        return (changed, wrong) if any(wrong) else None

    def _predicate(self, words: _Words) -> _Edit | None:
        return self._other_predicate(words, self._near if self._rng.random() < 0.7 else self._page.all)

    def _foreign(self, words: _Words) -> _Edit | None:
        return self._other_predicate(words, self._rng.choice(self._pages).all)

    def _other_predicate(self, words: _Words, others: list[_Words]) -> _Edit | None:
        """The subject of the sentence with the predicate of another one."""
        verb = _first_verb(words)
        others = [other for other in others if other is not words and _first_verb(other) is not None]
        if verb is None or not others or words[0] in _PRONOUNS:
            return None
        other = self._rng.choice(others)
        cut = _first_verb(other) or 0
        shared = {word for word in other[:cut] if word[:1].isupper()} & set(words[:verb])
        if shared or other[0] in _PRONOUNS:
            return None
        return _replaced(words, verb, len(words), other[cut:])

    def _same_meaning(self, words: _Words, wrong: list[bool]) -> _Edit:
        """The words with parts left out, moved or exchanged so that what they say stays."""
        rng, draw = self._rng, self._rng.random()
        commas = [index for index, word in enumerate(words) if word in (",", ";") and index > 2]
        starts = [at for at, word in enumerate(words) if word in _PREPOSITIONS and at > 4 and len(words) - at < 12]
        if draw < 0.45 and commas:
            start = rng.choice(commas)
            behind = [comma for comma in commas if comma > start]
            end = behind[0] + 1 if behind and rng.random() < 0.6 else len(words) - 1
            if not any(wrong[start:end]) and len(words) - (end - start) >= _SHORTEST - 1:
                words, wrong = words[:start] + words[end:], wrong[:start] + wrong[end:]
        elif 0.45 <= draw < 0.6 and starts and not any(wrong[starts[-1] :]):
            words, wrong = [*words[: starts[-1]], "."], [*wrong[: starts[-1]], False]
        if rng.random() < 0.35 and words[0].lower() in _PREPOSITIONS and "," in words[2:9]:
            cut = words.index(",", 2)
            words = [*words[cut + 1 : -1], words[0].lower(), *words[1:cut], "."]
            wrong = [*wrong[cut + 1 : -1], *wrong[:cut], False]
        if rng.random() < 0.3 and self._page.title and words[0] in ("It", "He", "She"):
            words, wrong = self._page.title + words[1:], [wrong[0]] * len(self._page.title) + wrong[1:]
        if rng.random() < 0.3:
            known = [
                _SYNONYMS.get(word, word) if not bad and rng.random() < 0.6 else word
                for word, bad in zip(words, wrong, strict=True)
            ]
            words = known
        return words, wrong

    def _premise(self, main: _Words, index: int) -> list[int]:
        """Ids: perhaps the title, the sentence with its neighbours, and behind separators up to two others."""
        rng, draw = self._rng, self._rng.random()
        before = self._page.all[index - 1 : index] if index and draw < 0.35 else []
        after = self._page.all[index + 1 : index + 2] if 0.2 < draw < 0.7 else []
        window = [*([self._page.title] if self._page.title and rng.random() < 0.5 else []), *before, main, *after]
        others = rng.sample(self._near, min(len(self._near), rng.choice((0, 1, 2, 2))))
        if rng.random() >= 0.7:
            others = rng.choice(self._pages).all[:2]
        ids = [token for words in window for token in self._ids(words)[:80]]
        for words in others:
            if words not in window:
                ids += [self._separator, *self._ids(words)[:40]]
        return ids[:_PREMISE_TOKENS]

    def _tokens(self, words: _Words, wrong: list[bool], premise: list[int], *, is_wrong: bool) -> EditedClaim | None:
        """The claim as the reader gets it: a whole sentence, a part of one, or joined with another one."""
        rng, own = self._rng, [True] * len(words)
        cuts = [at for at, word in enumerate(words) if word in (",", "and", ";", "but") and 3 <= at < len(words) - 3]
        if cuts and rng.random() < 0.3:
            cut, is_first = rng.choice(cuts), rng.random() < 0.5
            own = [(at < cut) is is_first for at in range(len(words))]
            if is_wrong and not any(bad and mine for bad, mine in zip(wrong, own, strict=True)):
                own = [not mine for mine in own]
        elif self._near and rng.random() < 0.2:
            other = rng.choice(self._near if rng.random() < 0.5 else rng.choice(self._pages).all)[:20]
            first, second = [(words[:-1], wrong[:-1], True), (other, [False] * len(other), False)][
                :: rng.choice((1, -1))
            ]
            own = [first[2]] * len(first[0]) + [False] + [second[2]] * len(second[0])
            words, wrong = [*first[0], "and", *second[0]], [*first[1], False, *second[1]]
        text, spans = _joined(words)
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        of_chars = np.full(len(text) + 1, -1)
        for number, (start, end) in enumerate(spans):
            of_chars[start:end] = number
        of_tokens = [int(of_chars[start:end].max(initial=-1)) for start, end in encoding.offsets[:_CLAIM_TOKENS]]
        marks = np.array([int(wrong[word]) if word >= 0 and own[word] else -1 for word in of_tokens], dtype=np.int8)
        positions = np.flatnonzero(marks >= 0)
        if len(positions) < 2 or is_wrong is not bool((marks == 1).any()):
            return None
        read = ReaderInput(tuple(encoding.ids[:_CLAIM_TOKENS]), positions, tuple(positions.tolist()), tuple(premise))
        return EditedClaim(read, is_wrong, marks)

    def _ids(self, words: _Words) -> list[int]:
        return list(self._tokenizer.encode(_joined(words)[0], add_special_tokens=False).ids)


def _joined(words: _Words) -> tuple[str, list[tuple[int, int]]]:
    """The words as text, and the characters of each."""
    text, spans = "", []
    for before, word in pairwise(["(", *words]):
        text += "" if before == "(" or word in ".,;:!?)'’%" else " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans


def _differs(words: _Words, other: _Words) -> list[bool]:
    """Which words lie between the beginning and the end that both have."""
    most = min(len(words), len(other))
    start = next((at for at in range(most) if words[at] != other[at]), most)
    end = next((at for at in range(most - start) if words[-1 - at] != other[-1 - at]), most - start)
    return [start <= at < max(len(words) - end, start + 1) for at in range(len(words))]


def _replaced(words: _Words, start: int, end: int, new: _Words) -> _Edit:
    changed = [*words[:start], *new, *words[end:]]
    return changed, [start <= at < start + len(new) for at in range(len(changed))]


def _names(words: _Words, *, with_first: bool = False) -> list[tuple[int, int]]:
    """Runs of capitalised words, as [start, end)."""
    ranges: list[tuple[int, int]] = []
    for at, word in enumerate(words):
        if word[:1].isupper() and len(word) > 1 and word.lower() not in _FUNCTION_WORDS and (at or with_first):
            if ranges and ranges[-1][1] == at:
                ranges[-1] = (ranges[-1][0], at + 1)
            else:
                ranges.append((at, at + 1))
    return ranges


def _first_verb(words: _Words) -> int | None:
    return next((at for at in range(1, min(len(words) - 3, 14)) if words[at].lower() in _VERBS), None)


def _has_digit(word: str) -> bool:
    return any(char.isdecimal() for char in word)


def _is_content(word: str) -> bool:
    return word.isalpha() and word.islower() and len(word) > 3 and word not in _FUNCTION_WORDS | _VERBS
