"""The sweep over layers: each point is what a run of its own at that layer gives."""

import pytest
from tests.attribution.methods.hand_parser import PARSER
from tests.attribution.tiny_models import save_tiny_model
from tests.evaluation.dataset_rows import quotesum_row, write_rows
from tests.evaluation.evaluate_command import evaluate
from tests.evaluation.measures.test_sensitivity import ANSWERS, answer

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import MethodSettings, Need
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.evaluation.comparison import run_methods
from attribeam.evaluation.measures.layer_sweep import SWEPT, AtLayer, run_at_layers, sweep_layers
from attribeam.evaluation.methods.registry import lab_methods, needs_of
from attribeam.evaluation.runs import with_all_layers
from attribeam.schemas import Passage

LAYERS = {name: range(0 if name.startswith("hss") else 1, 5) for name in SWEPT}


def choice(directory, *, layer=None, hidden_layer=None, max_tokens=None):
    model = ModelOptions(model=str(directory), device="cpu", layer=layer, max_tokens=max_tokens)
    return ModelChoice(model=model, method=MethodOptions(top_k=3, hidden_layer=hidden_layer))


def loaded(choice, methods):
    models = load_models(choice, needs_of(methods) - {Need.PARSER})
    return LoadedModels(PARSER, models.attention, models.hidden_layer)


def methods_named(*names):
    available = lab_methods(MethodSettings(top_k=3))
    return [available[name] for name in names]


@pytest.fixture(scope="module", params=["llama", "bert"])
def directory(request, tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)


def test_each_layer_equals_a_separate_run(directory):
    """Of whole rows, and of one that needs windows."""
    max_tokens = 56
    answers = [*ANSWERS, answer(3, 1, tuple(Passage(text=f"Bells {number} ring there.") for number in range(4)))]
    methods = methods_named(*SWEPT)
    found = sweep_layers(answers, methods, loaded(with_all_layers(choice(directory, max_tokens=max_tokens)), methods))
    assert {*found} == {AtLayer(name, layer) for name, layers in LAYERS.items() for layer in layers}
    for point, tally in found.items():
        hidden = point.method.startswith("hss")
        own = choice(
            directory,
            layer=None if hidden else point.layer,
            hidden_layer=point.layer if hidden else None,
            max_tokens=max_tokens,
        )
        (alone,) = run_methods(answers, methods_named(point.method), loaded(own, methods_named(point.method)))
        assert (tally.credits, tally.spans) == (pytest.approx(alone.credits), alone.spans), point
        assert (tally.isolated_spans, tally.spans_without_evidence) == (
            alone.isolated_spans,
            alone.spans_without_evidence,
        )
        assert tally.name == f"{point.method}, layer {point.layer}"
    assert len({tuple(tally.credits) for tally in found.values()}) > 2


def test_refused_row_counts_as_wrong_at_every_layer(directory):
    methods = methods_named("attn-union", "hss-union")
    models = loaded(with_all_layers(choice(directory)), methods)
    refused = answer(7, 0, (Passage(text="far " * 600),))
    for tally in sweep_layers([refused, ANSWERS[0]], methods, models).values():
        assert [(one.row, one.reason) for one in tally.failed] == [(7, "too_many_tokens")]
        assert tally.credits[0] == 0


def test_methods_that_read_no_layer_run_once_beside_the_sweep(directory):
    methods = methods_named("words", "hss-union")
    models = loaded(with_all_layers(choice(directory)), methods)
    tallies = run_at_layers(iter(ANSWERS), methods, models)
    assert [one.name for one in tallies] == [*(f"hss-union, layer {layer}" for layer in range(5)), "words"]
    with pytest.raises(ValueError, match="should be some of attn-union"):
        sweep_layers(ANSWERS, methods, models)


def test_command_prints_a_line_per_layer(directory, tmp_path, capsys):
    data = write_rows(tmp_path / "dev.jsonl", [quotesum_row("The lamp is kept by [ 1 Ada Thorne ] since 1874.")])
    arguments = ("--dataset", "quotesum", "--data", data, "--model", directory, "--sweep-layers", "--device", "cpu")
    assert evaluate(*arguments, "--method", "hss-union", "--method", "words") == 0
    names = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[3:]]
    assert names[:6] == [*(f"hss-union, layer {layer}" for layer in range(5)), "words"]
    assert evaluate(*arguments, "--cost") == 2
    assert "leave one of them out" in capsys.readouterr().err
