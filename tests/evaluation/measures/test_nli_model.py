import pytest
import torch
from tests.attribution.tiny_models import SENTENCES, save_tiny_model
from tests.evaluation.tiny_nli import save_tiny_nli
from transformers import AutoModelForSequenceClassification, AutoTokenizer, RobertaConfig

from attribeam.evaluation.measures.nli_model import NliModel, entailment_label
from attribeam.schemas.errors import ModelLoadError

CLAIMS = [
    (premise, statement) for premise in SENTENCES for statement in ("Ada built it.", "The lamp", "1874 1874 1874")
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return save_tiny_nli(tmp_path_factory.mktemp("nli"))


def test_batched_verdicts_equal_those_of_the_classifier_claim_by_claim(directory):
    classifier = AutoModelForSequenceClassification.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    expected = []
    for premise, statement in CLAIMS:
        with torch.inference_mode():
            expected.append(
                classifier(**tokenizer(premise, statement, return_tensors="pt")).logits.argmax().item() == 1
            )
    assert NliModel.from_pretrained(str(directory)).entails(CLAIMS) == expected
    assert True in expected
    assert False in expected


def test_order_of_the_claims_does_not_matter(directory):
    model = NliModel.from_pretrained(str(directory))
    assert model.entails(CLAIMS[::-1]) == model.entails(CLAIMS)[::-1]
    assert model.cut_claims == 0


def test_claim_beyond_the_models_length_is_cut_and_counted(tmp_path):
    model = NliModel.from_pretrained(str(save_tiny_nli(tmp_path, places=16)))
    assert len(model.entails([(" ".join(SENTENCES), "Ada built it."), ("A", "B")])) == 2
    assert model.cut_claims == 1


def test_positions_that_a_roberta_does_not_use_are_not_counted(tmp_path):
    model = NliModel.from_pretrained(str(save_tiny_nli(tmp_path, places=19, kind=RobertaConfig)))
    assert len(model.entails([(" ".join(SENTENCES), "Ada built it.")])) == 1
    assert model.cut_claims == 1


@pytest.mark.parametrize(
    ("labels", "index"),
    [(("entailment", "not_entailment"), 0), (("neutral", "Entailment", "contradiction"), 1), (("no", "SUPPORTED"), 1)],
)
def test_entailment_label_is_found_by_its_name(labels, index):
    assert entailment_label(dict(enumerate(labels)), "m") == index


@pytest.mark.parametrize("labels", [("LABEL_0", "LABEL_1", "LABEL_2"), ("entailment",), ("entailment", "supported")])
def test_classifier_without_one_such_label_is_refused_with_its_labels(labels):
    with pytest.raises(ModelLoadError, match=rf"one of them called entailment .*has: .*{labels[0]}.*correct id2label"):
        entailment_label(dict(enumerate(labels)), "m")


def test_directory_without_a_model_is_refused_with_its_name(tmp_path):
    with pytest.raises(ModelLoadError, match=r"--nli-model .*none' should be a directory or hub id"):
        NliModel.from_pretrained(str(tmp_path / "none"))


@pytest.mark.filterwarnings("ignore")
def test_language_model_without_a_classifier_is_refused(tmp_path):
    with pytest.raises(ModelLoadError, match="should have the weights of a classifier, lacks 1"):
        NliModel.from_pretrained(str(save_tiny_model(tmp_path)))
