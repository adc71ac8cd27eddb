"""Choosing among settings and layers: luck is seen through, and what is written is what the model then uses."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import SENTENCES, save_tiny_model, save_tiny_tokenizer, tiny_model
from tests.evaluation.dataset_rows import HIDDEN_UNION, write_own_rows
from transformers import LlamaConfig

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models.model_directory import AttributionConfig, read_model_directory
from attribeam.attribution.options import ModelOptions
from attribeam.evaluation import model_description
from attribeam.evaluation.check_command import labelled_answers
from attribeam.evaluation.measures import layer_sweep
from attribeam.evaluation.measures.layer_sweep import (
    AtLayer,
    LayerSearch,
    SensitivityPoint,
    choose,
    found_settings,
    search_layers,
    search_lines,
)
from attribeam.logs.columns import LogOptions
from attribeam.pipeline.command_line import main

ROWS = 40
SPANS = [2] * ROWS
SOURCES = [*range(ROWS)]


def choose_setting(credits, *, spans, sources):
    """A choice among settings of one layer."""
    return choose(credits, layer_of=lambda _: 1, spans=spans, sources=sources)


def choose_among_layers(credits):
    """A choice among settings whose first part is the layer."""
    return choose(credits, layer_of=lambda setting: setting[0], spans=SPANS, sources=SOURCES)


def right_on(*rows):
    """Both spans of these rows are right."""
    return [2.0 * (row in rows) for row in range(ROWS)]


def credits_of(share, *, seed):
    """Of 2 spans per row about this share is right, each drawn alone."""
    return np.random.default_rng(seed).binomial(2, share, size=ROWS).astype(float).tolist()


def test_best_of_many_equally_good_settings_is_not_preferred_to_the_usual_one():
    """Among 200 settings that are right as often, the luckiest is 5 points ahead or more."""
    drawn = {number: credits_of(0.7, seed=number) for number in range(200)}
    accuracies = [sum(values) / (2 * ROWS) for values in drawn.values()]
    found = choose_setting({"usual": [1.4] * ROWS, **drawn}, spans=SPANS, sources=SOURCES)
    assert max(accuracies) > 0.75
    assert found.cross_validated.mean < 100 * max(accuracies)
    assert not found.is_gain


def test_of_settings_within_a_standard_error_the_first_is_chosen():
    better = [0.0, *[1.0] * (ROWS - 3), 2.0, 2.0]
    found = choose_setting({"usual": [1.0] * ROWS, "better": better}, spans=SPANS, sources=SOURCES)
    assert found.setting == "usual"
    assert found.accuracy == found.usual_accuracy == 50


@pytest.mark.parametrize(
    ("right", "setting", "level"),
    [
        (  # as with SmolLM2: the usual layer is level with the best one by one lucky k only
            {(1, "k 2"): range(28), (1, "k 4"): range(3, 37), (2, "k 2"): range(35), (2, "k 4"): range(35)},
            (2, "k 2"),
            ((1, "k 4"), (2, "k 2"), (2, "k 4")),
        ),
        (  # one of the best layer that is clearly better replaces its usual one
            {(1, "k 2"): range(10), (1, "k 4"): range(12), (2, "k 2"): range(20), (2, "k 4"): range(35)},
            (2, "k 4"),
            ((2, "k 4"),),
        ),
    ],
)
def test_best_layer_is_chosen_and_then_the_first_of_its_settings_within_a_standard_error(right, setting, level):
    found = choose_among_layers({one: right_on(*rows) for one, rows in right.items()})
    assert (found.setting, found.level) == (setting, level)


def test_spans_and_not_rows_have_equal_weight():
    spans = [1] * 30 + [9] * 10
    found = choose_setting(
        {"usual": [0.0] * 40, "short": [1.0] * 30 + [0.0] * 10, "long": [0.0] * 30 + [9.0] * 10},
        spans=spans,
        sources=SOURCES,
    )
    assert found.setting == "long"
    assert found.accuracy == pytest.approx(75)


_SHARPNESS = 3.0


def save_planted_decoder(directory, *, layers, planted):
    """Write a Llama whose layer ``planted``, counted from 1, has equal queries and keys; all else is random.

    Its layers add little to the embeddings, and positions hardly turn them, so that equal tokens meet in that layer.
    """
    config = LlamaConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=512,
        rope_theta=1e12,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    model = tiny_model(config, scale=0.3)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.01)
            layer.mlp.down_proj.weight.mul_(0.01)
        attention = model.model.layers[planted - 1].self_attn
        attention.q_proj.weight.copy_(_SHARPNESS * torch.eye(32))
        attention.k_proj.weight.copy_(torch.eye(32))
    model.save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return directory


def write_copied_rows(path, count):
    """Write ``count`` rows as JSONL to ``path``, which is returned: the answer repeats words of one of three passages.

    The words are drawn from those that the tiny tokenizer knows, none twice in a row.
    """
    drawn = random.Random(5)
    words = sorted({word.strip(".,:?") for sentence in SENTENCES for word in sentence.split()})
    lines = []
    for row in range(count):
        chosen = drawn.sample(words, 12)
        passages = [" ".join(chosen[start : start + 4]) for start in (0, 4, 8)]
        gold = drawn.randrange(3)
        answer = " ".join(chosen[4 * gold + 1 : 4 * gold + 4])
        lines.append(
            {
                "record_id": f"row-{row}",
                "question": f"row {row}",
                "passages": [{"text": text} for text in passages],
                "answer": answer,
                "target_spans": [{"char_start": 0, "char_end": len(answer)}],
                "span_labels": [{"gold_passages": [gold]}],
            }
        )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _few_settings(monkeypatch):
    monkeypatch.setattr(model_description, "_MOST_ROWS", 1)
    monkeypatch.setattr(layer_sweep, "TOP_KS", (1, 2))
    monkeypatch.setattr(layer_sweep, "ISOLATION_TAUS", (2.0, math.inf))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return write_own_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl", 12)


@pytest.fixture
def sweep(rows):
    def run(model, *options):
        log = ("--data", str(rows), "--log-format", "jsonl", "--threads", "1")
        return main(["models", "check", "--model", str(model), "--device", "cpu", *log, "--sweep-layers", *options])

    return run


def test_choice_is_written_and_then_used(sweep, tmp_path, capsys):
    model, output = save_tiny_model(tmp_path / "model", "bert"), tmp_path / "found.json"
    assert sweep(model, "--output", str(output)) == 0
    values = json.loads(output.read_text(encoding="utf-8"))
    assert set(values) == {"layer", "top_k", "isolation_tau"}
    assert values["layer"] in (1, 2, 3, 4)
    loaded = AttentionModel.from_pretrained(
        ModelOptions(model=str(model), device="cpu", attribution_config=str(output)), threads=1
    )
    assert (loaded.layer, loaded.settings.top_k) == (values["layer"], values["top_k"])
    assert loaded.settings.isolation_tau == float(values["isolation_tau"])
    printed = capsys.readouterr().out
    table = printed.partition("sweep ")[2].splitlines()
    assert [line.split()[0] for line in table[4:9]] == ["0", "1", "2", "3", "4"]
    assert printed.count("% by cross-validation") == 2
    assert f"written to {output}; use it with --attribution-config {output}" in printed


def test_sweep_without_an_output_writes_into_the_folder_and_replaces_nothing(sweep, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attribution_config.json").write_text("{}", encoding="utf-8")
    assert sweep(tmp_path / "absent") == 2
    assert "--output should be a new file in an existing directory, was: attribution_config.json" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--output", "found.json"], "--output says where --sweep-layers writes its choice"),
        (["--sweep-layers", "--output", "no/such/found.json"], "should be a new file in an existing directory"),
        (["--sweep-layers", "--data", "few.jsonl", "--log-format", "jsonl"], "10 different questions or more, has 9"),
    ],
)
def test_sweep_that_could_not_end_well_is_refused_first(options, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_own_rows(Path("few.jsonl"), 9)
    assert main(["models", "check", "--model", "./absent", *options]) == 2
    assert complaint in capsys.readouterr().err


def test_every_layer_of_the_bundled_model_is_tried():
    """Its own layer, which it was trained for, finds the most; the two below it were not."""
    answers = labelled_answers(None, LogOptions())
    model = AttentionModel.from_pretrained(ModelOptions(device="cpu", loaded_layers=3), threads=1)
    parser = AnswerParser.from_pretrained("bundled")
    found = search_layers(answers, model, parser)
    assert [*found.by_layer] == [0, 1, 2, 3]
    assert found.by_layer[0][:2] == (None, None)
    assert found.attention.usual == SensitivityPoint(3, 6, 2.0)
    assert found.attention.setting.layer == 3
    assert not found.prefers_states
    assert found.states is not None
    assert found.states.usual == AtLayer("hss-union-dep", 1)


@pytest.mark.parametrize("planted", [2, 5])
def test_layer_of_a_decoder_that_looks_at_the_same_words_is_chosen(planted, tmp_path):
    rows = write_copied_rows(tmp_path / "rows.jsonl", 20)
    answers = labelled_answers(rows, LogOptions(format="jsonl"))
    directory = save_planted_decoder(tmp_path / "model", layers=5, planted=planted)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", loaded_layers=5), threads=1)
    found = search_layers(answers, model, AnswerParser.from_pretrained("bundled"))
    assert found.attention.usual.layer == 3
    assert found.attention.setting.layer == planted
    assert {point.layer for point in found.attention.level} == {planted}


def chosen(setting, *, usual):
    right, wrong = [1.0] * 12, [0.0] * 12
    credits = {usual: right if setting == usual else wrong} | {setting: right}
    return choose(credits, layer_of=lambda one: one.layer, spans=[1] * 12, sources=range(12))


def test_settings_of_the_model_are_kept_but_for_those_of_another_layer(tmp_path):
    model = save_tiny_model(tmp_path)
    template = {"preamble": "", "titled_passage": "{title} {text}", "passage": "{text}", "question": "{question}"}
    own = {"layer": 2, "top_k": 4, "softmax_over": "prompt", "weak_threshold": 0.1, "prompt_template": template}
    (model / "attribution_config.json").write_text(json.dumps(own), encoding="utf-8")
    directory = read_model_directory(ModelOptions(model=str(model)))
    usual = SensitivityPoint(2, 4, 2.0)
    assert found_settings(directory, chosen(usual, usual=usual)) == own | {"isolation_tau": 2.0}
    other = found_settings(directory, chosen(SensitivityPoint(3, 1, math.inf), usual=usual))
    assert other == {"layer": 3, "top_k": 1, "isolation_tau": "inf", "prompt_template": template}
    (tmp_path / "found.json").write_text(json.dumps(other), encoding="utf-8")
    assert AttributionConfig.from_file(tmp_path / "found.json").method.isolation_tau == math.inf


def states_choice(right):
    credits = {AtLayer("hss-union", 1): [float(row < right) for row in range(12)]}
    return choose(credits, layer_of=lambda one: one.layer, spans=[1] * 12, sources=range(12))


@pytest.mark.parametrize(
    ("right", "advice"),
    [
        (12, f"hidden states find more than attention: --method {HIDDEN_UNION} --hidden-layer 1"),
        (3, "best       attention: layer 3, k 2, tau 2"),
    ],
)
def test_better_of_attention_and_hidden_states_is_named(right, advice):
    usual = SensitivityPoint(3, 2, 2.0)
    attention = choose(
        {usual: [1.0] * 6 + [0.0] * 6}, layer_of=lambda one: one.layer, spans=[1] * 12, sources=range(12)
    )
    found = LayerSearch(attention, states_choice(right), {1: (None, None, 90.0), 3: (50.0, 50.0, None)})
    assert advice in [*search_lines(found, 12)][-1]
