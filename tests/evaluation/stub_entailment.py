"""An entailment model that needs no weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from attribeam.evaluation.measures.citations import Claim


@dataclass
class WordsEntail:
    """Judges a statement as entailed if the premise contains all of its words; records all claims."""

    identity: str = "words"
    asked: list[Claim] = field(default_factory=list)

    def entails(self, claims: Sequence[Claim]) -> list[bool]:
        self.asked += claims
        return [_words(statement) <= _words(premise) for premise, statement in claims]


def _words(text: str) -> set[str]:
    return set(text.lower().replace(".", "").split())
