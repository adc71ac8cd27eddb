"""The words of one answer as the verdict sees them: stems, content, sentences, clauses and what is negated."""

from __future__ import annotations

from collections import defaultdict

from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds, sentence_tree
from attribeam.attribution.verdict.word_forms import NEGATIONS, carries_content, stem, word_set

_BREAKS = frozenset(["but", "however", "although", "though", "while", "whereas", "yet", "despite", ";"])
_SUBJECTS = word_set("the it they there customers he she we this its their")
_AFTER_AND = _SUBJECTS | word_set("has have is are does do offers offer provides provide takes accepts features")
DENIALS = NEGATIONS | word_set("unavailable absent absence closed cannot except excluding lacking limited")


class AnswerWords:
    """One parsed answer.

    Attributes:
        texts, lowered, stems: each word as it is written, in lower case, and its stem.
        content: whether each word carries content.
        bounds: half-open word ranges of the sentences.
        sentences: the sentence that each word stands in.
        clauses: the words of each clause: those whose closest predicate is the same.
        clause_of: the clause that each word belongs to.
        heads: the head of each word, with conjuncts on the first conjunct.
        is_word: False for marks.
    """

    def __init__(self, parsed: ParsedAnswer, answer: str) -> None:
        self.parsed = parsed
        self.answer = answer
        self.texts = [chars.of(answer) for chars in parsed.words]
        self.lowered = [text.lower() for text in self.texts]
        self.stems = [stem(text) for text in self.texts]
        self.is_word = [any(one.isalnum() for one in text) for text in self.texts]
        self.content = [carries_content(text) for text in self.texts]
        self.bounds = sentence_bounds(parsed)
        self.sentences = [0] * len(self.texts)
        self.heads = list(range(len(self.texts)))
        self.clause_of = [0] * len(self.texts)
        clauses: dict[tuple[int, int | None], list[int]] = {}
        for sentence, (start, end) in enumerate(self.bounds):
            tree = sentence_tree(parsed, start, end)
            for word in range(start, end):
                self.sentences[word] = sentence
                self.heads[word] = tree.heads[word - start] + start
                clauses.setdefault((sentence, tree.closest_predicate(word - start)), []).append(word)
        self.clauses = list(clauses.values())
        for index, words in enumerate(self.clauses):
            for word in words:
                self.clause_of[word] = index

    def __len__(self) -> int:
        return len(self.texts)

    def content_of(self, words: range | list[int]) -> list[int]:
        """Those of the words that carry content."""
        return [word for word in words if self.content[word]]

    def content_head(self, word: int) -> int | None:
        """The closest ancestor that carries content, None if there is none."""
        head = self.heads[word]
        while not self.content[head] and self.heads[head] != head:
            head = self.heads[head]
        return head if head != word and self.content[head] else None

    def denied_words(self) -> list[bool]:
        """Whether each word stands in a part of a sentence that denies something.

        A part ends at a conjunction of contrast, and before a new subject or verb after a comma or "and".
        """
        part = 0
        parts = [0] * len(self.texts)
        for start, end in self.bounds:
            part += 1
            for word in range(start, end):
                part += self._begins_part(word, end)
                parts[word] = part
        denying: defaultdict[int, bool] = defaultdict(bool)
        for word, text in enumerate(self.lowered):
            denying[parts[word]] |= text in DENIALS
        return [denying[one] for one in parts]

    def _begins_part(self, word: int, end: int) -> bool:
        text = self.lowered[word]
        following = self.lowered[word + 1] if word + 1 < end else ""
        return (
            text in _BREAKS or (text == "," and following in _SUBJECTS) or (text == "and" and following in _AFTER_AND)
        )
