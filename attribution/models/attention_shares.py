"""Where the attention of a model's layer L* goes on one row: a layer that hardly looks at the passages is no good."""

from __future__ import annotations

from dataclasses import dataclass

from attribution.attention.attention_model import AttentionModel
from attribution.models.model_errors import ModelLoadError
from schemas import QARecord, RowFault


@dataclass(frozen=True, slots=True)
class AttentionShares:
    """Parts of 1 of the attention of an answer's tokens, mean over the tokens.

    Attributes:
        passages: on the passages, titles included.
        outside: on the rest of the prompt: special tokens, template, question.
        rest: what is left of the whole: on the answer itself, and on sinks that a model has learned.
        passage_tokens: of the prompt's tokens, the part that lies in passages; what even attention would give them.
    """

    passages: float
    outside: float
    rest: float
    passage_tokens: float


def attention_shares(model: AttentionModel, record: QARecord) -> AttentionShares:
    """The shares on one row; of a row in windows their mean over the windows.

    Raises:
        ModelLoadError: if the row cannot be encoded or attributed.
    """
    try:
        row = model.encode(record)
    except RowFault as fault:
        raise ModelLoadError(f"the model cannot take the row of its worked example: {fault}") from fault
    (tokens,) = model.attribute([row], [len(record.passages)])
    if isinstance(tokens, RowFault):
        raise ModelLoadError(f"the model cannot attribute the row of its worked example: {tokens}")
    passages = float(tokens.passage_mass.sum(1).mean()) / max(1, len(row.windows))
    outside = float(tokens.sink_mass.mean())
    return AttentionShares(passages, outside, max(0.0, 1 - passages - outside), float((row.column_passage >= 0).mean()))
