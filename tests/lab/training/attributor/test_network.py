"""The attributor's network: its attention, its loss, its first embeddings and the support thresholds."""

import pytest
import torch
from tokenizers import Tokenizer

from lab.training.attributor.corpus import Corpus
from lab.training.attributor.network import (
    Shape,
    answer_attention,
    collate,
    cooccurrence_embeddings,
    gold_columns,
    gold_passage_columns,
    new_model,
    train_tokenizer,
)
from lab.training.attributor.support_rows import SpanMasses, evidence_mass
from lab.training.attributor.training_rows import TrainingRow, draw_batch

SMALL = Shape(hidden_size=32, intermediate_size=32, local_layers=2, attention_heads=2, window=8)


def test_answer_attention_equals_eager_attention_normalised_over_the_prompt(
    corpus: Corpus, tokenizer: Tokenizer
) -> None:
    torch.manual_seed(0)
    model = new_model(SMALL, vocabulary_size=tokenizer.get_vocab_size())
    for weights in model.layers[:-1].parameters():
        weights.data.mul_(3.0)  # so that the local layers matter
    rows = draw_batch(corpus, tokenizer, seed=0, step=0, token_budget=600)
    with torch.no_grad():
        fast = answer_attention(model, collate(rows))
        model.set_attn_implementation("eager")
        for row, weights in zip(rows, fast, strict=True):
            eager = model(torch.tensor([row.token_ids]), output_attentions=True).attentions[SMALL.local_layers]
            prompt = eager[0, :, row.answer_start :, : row.answer_start]
            torch.testing.assert_close(weights, (prompt / prompt.sum(-1, keepdim=True)).mean(0))


def test_gold_passage_columns_cover_the_passage_and_leave_bos_alone() -> None:
    row = TrainingRow("", [0] * 8, [], 6, [(1,), (0,)], [], 0, [-1, 0, 0, 1, 1, -1])
    assert gold_passage_columns(gold_columns(row), row).int().tolist() == [[0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]


def test_tokens_with_similar_use_start_near_each_other() -> None:
    texts = [f"the {animal} ate a {food} ." for animal in ("cat", "dog") for food in ("fish", "bone", "nut")] * 20
    own = train_tokenizer([*texts, "kings and queens rule over seas and lands"] * 3, vocabulary_size=400)
    vectors = cooccurrence_embeddings([*texts, "kings and queens rule over seas and lands"] * 3, own, size=32, seed=0)
    meaning = torch.nn.functional.normalize(vectors[:, :16], dim=1)
    cat, dog, queens = (own.token_to_id(word) for word in ("Ġcat", "Ġdog", "Ġqueens"))
    assert meaning[cat] @ meaning[dog] > meaning[cat] @ meaning[queens] + 0.2


def test_evidence_mass_excludes_template_columns_and_isolated_tokens() -> None:
    offsets = [(0, 0), (0, 2), (3, 5), (6, 8), (9, 10), (11, 12), (13, 14), (20, 25)]
    row = TrainingRow("", [0] * 8, offsets, 7, [()], [], 12, [])
    weights = torch.tensor([[0.1, 0.3, 0.2, 0.0, 0.0, 0.0, 0.4]])
    assert evidence_mass(weights, row, 20, 25) == pytest.approx(0.5)  # 1 and 2; column 6 is the template's
    weights = torch.tensor([[0.0, 0.3, 0.2, 0.0, 0.0, 0.4, 0.1]])
    assert evidence_mass(weights, row, 20, 25) == pytest.approx(0.5)  # column 5 stands alone
    weights = torch.tensor([[0.1, 0.4, 0.0, 0.0, 0.0, 0.5, 0.0]])
    assert evidence_mass(weights, row, 20, 25) == pytest.approx(0.9)  # 1 and 5 both do, so both count


def test_thresholds_meet_in_the_middle_of_separated_spans() -> None:
    masses = SpanMasses(supported=torch.full((20,), 0.8), unsupported=torch.full((20,), 0.2))
    assert masses.auroc() == 1.0
    assert (masses.thresholds().supported, masses.thresholds().weak) == (0.5, 0.5)


def test_weak_threshold_lets_in_all_but_a_twentieth_of_the_supported_spans() -> None:
    masses = SpanMasses(supported=torch.linspace(0.2, 1.0, 81), unsupported=torch.linspace(0.0, 0.6, 61))
    assert masses.thresholds().weak == 0.24
    assert 0.24 < masses.thresholds().supported <= 0.61
