"""What a verifier is: a model that says how far passages support the claims of an answer.

``attribeam.attribution.verifiers`` reads those of the hub. A verifier of another package is found by the entry-point
group ``attribeam.verifiers``, whose names are values of ``--verdict``; docs/extending.md shows one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from attribeam.schemas import CharRange, QARecord, RowFault

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class ClaimToVerify:
    """A claim of an answer.

    Attributes:
        chars: its range in the answer, within which no other claim counts for it.
        text: it as a sentence of its own: with what it takes from elsewhere in its sentence.
        passages: indices of the passages, those with most evidence for it first; all of them.
    """

    chars: CharRange
    text: str
    passages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnswerToVerify:
    """An answer and its claims, in the order of their spans; there is at least one."""

    record: QARecord
    claims: tuple[ClaimToVerify, ...]


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """What a verifier says of an answer.

    Attributes:
        support: for each claim the probability that the passages support it, 0 to 1.
        doubtful: ranges of the answer that it holds for unsupported, ascending; empty where it judges whole claims.
    """

    support: tuple[float, ...]
    doubtful: tuple[CharRange, ...] = ()


class Verifier(Protocol):
    """A loaded verifier; ``device`` is where it runs."""

    @property
    def device(self) -> torch.device: ...

    def provenance(self) -> Mapping[str, str]:
        """What its numbers depend on, such as "verifier_revision": a commit or a digest of the model's files."""
        ...

    def verify(self, answers: Sequence[AnswerToVerify]) -> Sequence[VerifiedAnswer | RowFault]:
        """One outcome per answer, in order, computed in batches.

        A ``RowFault`` TOO_MANY_TOKENS leaves the answer to the bundled verdict; any other makes it a dead letter.
        """
        ...
