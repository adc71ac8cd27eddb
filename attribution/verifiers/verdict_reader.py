"""A verdict's own model, a decoder or a verifier: which answers it is asked about, and what it says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.prompts.token_offsets import windows_or_whole
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.attribution.verdict.state_probe import UNREAD, AnswerStates, StateProbe
from attribeam.attribution.verdict.verified import VerifiedAnswer, Verifier, answer_to_verify
from attribeam.schemas import QARecord, Reason, RowFault, SpanEvidence

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.language_models.decoder import Decoder

_Taken = TypeVar("_Taken")

Reading: TypeAlias = tuple[float, ...] | VerifiedAnswer
"""The probe's log odds of each word of an answer, or what a verifier says of its claims; ``UNREAD`` for an answer that
is too long for the model, even with one passage at a time."""


@dataclass(frozen=True, slots=True)
class AnswerToRead:
    """An answer, and its records by the bundled verdict where that judges first."""

    record: QARecord
    parsed: ParsedAnswer
    judged: tuple[SpanEvidence, ...] | None


class VerdictReader(Protocol):
    """The loaded model of a verdict; ``device`` is where it runs."""

    @property
    def device(self) -> torch.device: ...

    def provenance(self) -> Mapping[str, str]:
        """What its readings depend on."""
        ...

    def read(self, answers: Sequence[AnswerToRead]) -> Sequence[Reading | RowFault | None]:
        """One outcome per answer, in order; None where there is nothing to read, a ``RowFault`` for a refused one."""
        ...


@dataclass(frozen=True, slots=True)
class VerifierReader:
    """Reads with a verifier the claims that the bundled verdict scored; an answer without one is not read."""

    verifier: Verifier

    @property
    def device(self) -> torch.device:
        return self.verifier.device

    def provenance(self) -> Mapping[str, str]:
        """See ``VerdictReader``."""
        return self.verifier.provenance()

    def read(self, answers: Sequence[AnswerToRead]) -> Sequence[Reading | RowFault | None]:
        """See ``VerdictReader``."""
        asked = [answer_to_verify(one.record, one.judged or ()) for one in answers]
        said = iter(self.verifier.verify([one for one in asked if one is not None]))
        return [None if one is None else _or_unread(next(said)) for one in asked]


@dataclass(frozen=True, slots=True)
class DecoderReader:
    """Reads with a decoder; its ``probe`` says of each word how likely it is unsupported."""

    decoder: Decoder
    probe: StateProbe

    @property
    def device(self) -> torch.device:
        return self.decoder.device

    def provenance(self) -> Mapping[str, str]:
        """See ``VerdictReader``."""
        return self.decoder.provenance()

    def read(self, answers: Sequence[AnswerToRead]) -> Sequence[Reading | RowFault | None]:
        """See ``VerdictReader``."""
        found = read_answers(
            self.decoder,
            [one.record for one in answers],
            lambda place, states: self.probe.word_log_odds(states, answers[place].parsed.words),
        )
        return [_or_unread(one) for one in found]


def _or_unread(found: _Taken | RowFault) -> _Taken | RowFault | tuple[float, ...]:
    return UNREAD if isinstance(found, RowFault) and found.reason is Reason.TOO_MANY_TOKENS else found


def read_answers(
    decoder: Decoder, records: Sequence[QARecord], take: Callable[[int, Sequence[AnswerStates]], _Taken]
) -> list[_Taken | RowFault]:
    """What ``take`` makes of the states of each record's answer, given with its place in ``records``, in their order.

    A record that is longer than the decoder's context is read in windows of whole passages, as the attention model
    reads it, and its answer has states in each of them, in their order; any other has them once. They are dropped as
    soon as they are taken. A record that the decoder refuses gets its ``RowFault``: TOO_MANY_TOKENS if one passage with
    question and answer is longer than the context.
    """
    found: dict[int, _Taken | RowFault] = {}
    parts: list[tuple[int, EncodedRow]] = []
    for place, record in enumerate(records):
        try:
            parts += [(place, part) for part in windows_or_whole(decoder.encode(record))]
        except RowFault as fault:
            found[place] = fault
    left = Counter(place for place, _ in parts)
    read: dict[int, dict[int, AnswerStates]] = {place: {} for place in left}
    for index, states in decoder.response_states([part for _, part in parts]):
        place, part = parts[index]
        left[place] -= 1
        if isinstance(states, RowFault):
            found.setdefault(place, states)
        else:
            read[place][index] = _of_answer(part, states)
        if not left[place]:
            windows = read.pop(place)
            if place not in found:
                found[place] = take(place, [windows[index] for index in sorted(windows)])
    return [found[place] for place in range(len(records))]


def _of_answer(row: EncodedRow, states: torch.Tensor) -> AnswerStates:
    covering = np.flatnonzero(row.response_char_start < row.response_char_end)
    return AnswerStates(row.response_char_start[covering], row.response_char_end[covering], states.numpy()[covering])
