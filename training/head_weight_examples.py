"""What head weights are fitted to: attention masses, and log-probabilities under random ablations of the passages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from attribution.attention.attention_model import AttentionModel
from attribution.attention.head_masses import head_masses
from attribution.models.language_model import LanguageModel
from attribution.prompts.passage_ablation import ablated_row
from attribution.token_attribution import EncodedRow
from schemas import CharRange, QARecord, RowFault
from training.head_weight_fit import HeadExample


def random_ablations(passages: int, *, ablations: int, seed: int, row: int) -> npt.NDArray[np.bool_]:
    """bool [ablations, passages]: every passage is kept with a chance of one half; the same for equal arguments."""
    return np.random.default_rng([seed, row]).random((ablations, passages)) < 0.5


def row_examples(
    record: QARecord, *, attention: AttentionModel, language: LanguageModel, ablations: int, seed: int
) -> list[HeadExample]:
    """One example a target span of the record, the whole answer where it has none.

    Spans without a token are left out.

    Raises:
        RowFault: if one of the models refuses the row.
    """
    kept = random_ablations(len(record.passages), ablations=ablations, seed=seed, row=record.source.source_row)
    row = language.encode(record)
    rows = [ablated_row(language, record, kept=set(np.flatnonzero(one).tolist()), response_of=row) for one in kept]
    token_log_probabilities = np.stack([_found(outcome) for outcome in language.token_log_probabilities(rows)])
    encoded = attention.encode(record)
    masses = head_masses(attention, encoded, len(record.passages))
    examples = []
    for span in record.target_spans or (CharRange(0, len(record.answer)),):
        attended, written = _tokens_of(span, encoded), _tokens_of(span, row)
        if len(attended) and len(written):
            log_probabilities = token_log_probabilities[:, written].sum(1)
            of_span = masses[:, torch.from_numpy(attended)].mean(1)
            examples.append(HeadExample(of_span, torch.from_numpy(kept), torch.from_numpy(log_probabilities)))
    return examples


def save_examples(path: Path, examples: list[HeadExample]) -> None:
    """One file a row; a reader sees the whole file or none."""
    partial = path.with_name(f".{path.name}.partial")
    torch.save([(one.masses, one.kept, one.log_probabilities) for one in examples], partial)
    partial.replace(path)


def load_examples(path: Path) -> list[HeadExample]:
    """What ``save_examples`` wrote."""
    return [HeadExample(*tensors) for tensors in torch.load(path, map_location="cpu", weights_only=True)]


def _tokens_of(span: CharRange, row: EncodedRow) -> npt.NDArray[np.intp]:
    starts, ends = row.response_char_start, row.response_char_end
    return np.flatnonzero((starts < ends) & (starts < span.char_end) & (ends > span.char_start))


def _found(outcome: npt.NDArray[np.float64] | RowFault) -> npt.NDArray[np.float64]:
    if isinstance(outcome, RowFault):
        raise outcome
    return outcome
