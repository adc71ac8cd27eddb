import math

import pytest
from tests.attribution.methods.hand_parser import ANSWER, PARSER
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.method import MethodSettings, PassageScore
from attribeam.attribution.methods.registry import AttentionUnion
from attribeam.attribution.options import UNIONS, ModelOptions
from attribeam.evaluation.measures.accuracy import run_methods, score_methods
from attribeam.evaluation.measures.layer_sweep import SensitivityPoint, sweep
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import LabelledAnswer

PASSAGES = (Passage(text="Jon dances there."), Passage(text="Ada sings."), Passage(text="Bells ring in the tower."))


def answer(row: int, gold: int, passages: tuple[Passage, ...] = PASSAGES) -> LabelledAnswer:
    spans = tuple(CharRange(ANSWER.index(text), ANSWER.index(text) + len(text)) for text in ("Ada", "Jon", "Bells"))
    record = QARecord("r", f"Question {row}?", passages, ANSWER, RowSource("f", row), target_spans=spans)
    return LabelledAnswer(record, (frozenset({gold}),) * len(spans))


ANSWERS = [answer(0, 2), answer(1, 2), answer(2, 0)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def load(directory, **options):
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", **options))


POINTS = [
    SensitivityPoint(layer, top_k, tau)
    for layer, top_k, tau in [(1, 2, 2), (2, 2, 1), (3, 2, 2), (4, 2, 0), (3, 9, 1), (3, 5, math.inf)]
]


@pytest.mark.parametrize("method", UNIONS)
@pytest.mark.parametrize("rule", list(PassageScore))
def test_each_point_equals_a_separate_run(directory, method, rule):
    models = LoadedModels(PARSER, load(directory, loaded_layers=4))
    tallies = sweep(ANSWERS, models, POINTS, settings=MethodSettings(passage_score=rule), method=method)
    figures = score_methods(tallies.values(), draws=50, seed=0)
    found = []
    for point in POINTS:
        settings = MethodSettings(top_k=point.top_k, isolation_tau=point.isolation_tau, passage_score=rule)
        model = load(directory, layer=point.layer).with_method(settings.union_options(method))
        alone = run_methods(ANSWERS, [AttentionUnion(method, settings)], LoadedModels(PARSER, model))
        (score,) = score_methods(alone, draws=50, seed=0)
        found.append((score.passage_accuracy, score.interval, score.spans, score.rows))
    assert [(one.passage_accuracy, one.interval, one.spans, one.rows) for one in figures] == found
    assert [*tallies] == POINTS
    assert len({one.passage_accuracy for one in figures}) > 1


def test_answer_takes_one_forward_pass_for_any_number_of_points(directory):
    model = load(directory, loaded_layers=4)
    passes = []
    model.network.register_forward_pre_hook(lambda *_: passes.append(1))
    sweep(ANSWERS, LoadedModels(PARSER, model), POINTS, settings=MethodSettings())
    assert len(passes) == len(ANSWERS)


def test_refused_row_counts_as_wrong_in_every_point(directory):
    refused = answer(3, 0, (Passage(text="far " * 600),))
    models = LoadedModels(PARSER, load(directory))
    point = [SensitivityPoint(3, 2, 2)]
    (alone,) = sweep([refused], models, point, settings=MethodSettings()).values()
    assert (len(alone.failed), alone.spans, alone.credits) == (1, [3], [0.0])
