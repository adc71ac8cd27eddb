"""The attributor's recipe: its training loop, its checkpoints and the model directory that it writes."""

import json

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from lab.training.attributor.corpus import Corpus
from lab.training.attributor.network import Shape
from lab.training.attributor.recipe import run_recipe
from lab.training.attributor.training_loop import TrainingPlan, learning_rate, train
from lab.training.attributor.training_rows import PROMPT_TEMPLATE

CPU = torch.device("cpu")
SMALL = Shape(hidden_size=32, intermediate_size=32, local_layers=2, attention_heads=2, window=8)


def test_a_few_steps_lower_the_loss(corpus: Corpus, tokenizer: Tokenizer, tmp_path) -> None:
    plan = TrainingPlan(steps=60, token_budget=256, record_every=20, shape=SMALL)
    _, history = train(corpus, tokenizer, plan=plan, output=tmp_path, device=CPU)
    assert history.steps == [20, 40, 60]
    assert history.loss[-1] < history.loss[0]


def test_resumed_run_equals_an_uninterrupted_one(corpus: Corpus, tokenizer: Tokenizer, tmp_path) -> None:
    plan = TrainingPlan(steps=4, token_budget=256, checkpoint_every=2, record_every=2, shape=SMALL)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    expected, history = train(corpus, tokenizer, plan=plan, output=whole, device=CPU)
    train(corpus, tokenizer, plan=plan, output=broken, device=CPU, stop_at=2)
    resumed, resumed_history = train(corpus, tokenizer, plan=plan, output=broken, device=CPU)
    assert resumed_history == history
    for name, weights in expected.state_dict().items():
        assert torch.equal(weights, resumed.state_dict()[name]), name


def test_checkpoint_of_other_settings_is_refused(corpus: Corpus, tokenizer: Tokenizer, tmp_path) -> None:
    train(
        corpus,
        tokenizer,
        plan=TrainingPlan(steps=2, token_budget=256, shape=SMALL),
        output=tmp_path,
        device=CPU,
        stop_at=1,
    )
    with pytest.raises(ValueError, match=r"written with .*'seed': 0.* this run has .*'seed': 1"):
        train(
            corpus,
            tokenizer,
            plan=TrainingPlan(steps=2, seed=1, token_budget=256, shape=SMALL),
            output=tmp_path,
            device=CPU,
        )


def test_recipe_writes_a_directory_that_transformers_loads_with_one_bos(corpus: Corpus, tmp_path) -> None:
    plan = TrainingPlan(steps=2, token_budget=384, shape=SMALL)
    run_recipe(corpus, plan=plan, output=tmp_path, device=CPU, vocabulary_size=600, held_out_batches=6)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    encoding = tokenizer("Arvik – naïve.", return_offsets_mapping=True, return_tensors="pt")
    ids = encoding["input_ids"][0].tolist()
    assert tokenizer.is_fast
    assert (ids[0], ids.count(tokenizer.bos_token_id)) == (tokenizer.bos_token_id, 1)
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<s>", "</s>", "<pad>")
    assert encoding["offset_mapping"][0, -1].tolist() == [13, 14]
    model = AutoModel.from_pretrained(tmp_path, local_files_only=True, dtype=torch.float32)
    assert model(encoding["input_ids"]).last_hidden_state.isfinite().all()
    settings = json.loads((tmp_path / "attribution_config.json").read_text(encoding="utf-8"))
    assert settings["prompt_template"] == PROMPT_TEMPLATE
    assert 0 <= settings["weak_threshold"] <= settings["supported_threshold"] <= 1
    assert (tmp_path / "loss_curve.png").read_bytes().startswith(b"\x89PNG")


def test_learning_rate_rises_then_falls_to_almost_nothing() -> None:
    rates = [learning_rate(step, 1000) for step in range(1000)]
    assert max(rates) == rates[99]
    assert rates[-1] < 0.02 * rates[99]
