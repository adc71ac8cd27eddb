"""The verdict's probe: states of words on a small decoder, the mean with the trees, and an audit that uses it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model
from transformers import AutoModel, PreTrainedModel

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.language_context import LanguageContext
from attribeam.attribution.models.language_model import LanguageModel
from attribeam.attribution.option_types import VERDICT_FILE
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.logistic_regression import LogisticRegression
from attribeam.attribution.verdict.state_probe import StateProbe, decoder_identity, state_names, word_states
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model
from attribeam.attribution.verdict.word_table import WORD_FILES
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError

QUESTION = "Who built the lighthouse?"
PASSAGES = ("The lighthouse at Brigg Point was built in 1874 by Ada Thorne.", "Its lamp burned oil.")
ANSWER = "Ada Thorne built the lighthouse. Its keeper painted the tower."
RECORD = QARecord("1", QUESTION, tuple(Passage(text=one) for one in PASSAGES), ANSWER, RowSource("log", 0))
LAYER, SIZE = 2, 32


@dataclass
class Decoder:
    directory: Path
    model: LanguageModel
    network: PreTrainedModel


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    directory = save_tiny_model(tmp_path_factory.mktemp("decoder"))
    model = LanguageModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    return Decoder(directory, model, AutoModel.from_pretrained(directory).eval())


def regression(*, bias: float = 0.0) -> LogisticRegression:
    weights = np.random.default_rng(3).normal(size=SIZE)
    return LogisticRegression(state_names(SIZE), np.full(SIZE, 0.1), np.full(SIZE, 2.0), weights, bias)


def save_verdict(output: Path, decoder: Decoder, *, bias: float, share: float = 0.5) -> Path:
    """The bundled verdict with a probe for the decoder."""
    output.mkdir()
    for name in WORD_FILES:
        copyfile(BUNDLED_VERDICT / name, output / name)
    found = json.loads((BUNDLED_VERDICT / VERDICT_FILE).read_text(encoding="utf-8"))
    identity = decoder_identity(decoder.model.provenance())
    found["probe"] = StateProbe(LAYER, share, identity, regression(bias=bias)).to_json()
    (output / VERDICT_FILE).write_text(json.dumps(found), encoding="utf-8")
    return output


def attributor(verdict: Path, language_model: Path) -> Attributor:
    return Attributor.from_pretrained(verdict=str(verdict), language_model=str(language_model), device="cpu")


def risk(judge: Attributor) -> float:
    (first, *_) = judge.attribute(question=QUESTION, passages=PASSAGES, answer=ANSWER)
    assert first.answer_risk is not None
    return first.answer_risk


def test_state_of_a_word_is_the_mean_over_its_tokens(decoder: Decoder) -> None:
    words = [CharRange(0, 3), CharRange(4, 10), CharRange(21, 31)]
    row = decoder.model.encode(RECORD)
    states = decoder.network(
        decoder.model.token_ids([row]), output_hidden_states=True
    ).hidden_states[LAYER][0, row.prompt_length :]  # fmt: skip
    found = word_states(LanguageContext(RECORD, decoder.model), words, layer=LAYER)
    assert found.shape == (3, SIZE)
    for word, state in zip(words, found, strict=True):
        tokens = [place for place, chars in enumerate(row.response_chars) if chars and chars.overlaps(word)]
        assert state == pytest.approx(states[tokens].mean(dim=0).detach().numpy(), abs=1e-4)


def test_probe_comes_back_as_it_was_saved_and_is_averaged_with_the_trees(decoder: Decoder) -> None:
    probe = StateProbe(LAYER, 0.25, {"language_model_revision": "a"}, regression(bias=-1.5))
    again = StateProbe.from_json(json.loads(json.dumps(probe.to_json())))
    words = [CharRange(0, 3), CharRange(4, 10)]
    context = LanguageContext(RECORD, decoder.model)
    probed = np.array(again.word_log_odds(context, words))
    states = word_states(context, words, layer=LAYER)
    by_hand = ((states - 0.1) / 2) @ probe.regression.weights - 1.5
    assert probed == pytest.approx(np.clip(by_hand, -7, 7), abs=1e-5)
    assert again.mixed(np.array([2.0, -2.0]), probed) == pytest.approx([1.5, -1.5] + 0.25 * probed)


def test_audit_with_a_probe_judges_by_it(decoder: Decoder, tmp_path: Path) -> None:
    doubtful = attributor(save_verdict(tmp_path / "doubtful", decoder, bias=6.0), decoder.directory)
    trusting = attributor(save_verdict(tmp_path / "trusting", decoder, bias=-6.0), decoder.directory)
    deaf = attributor(save_verdict(tmp_path / "deaf", decoder, bias=6.0, share=0.0), decoder.directory)
    bundled = Attributor.from_pretrained(device="cpu")
    assert risk(trusting) < risk(bundled) < risk(doubtful)
    assert risk(deaf) == pytest.approx(risk(bundled))


def test_probe_sees_all_words_of_the_parse(decoder: Decoder, tmp_path: Path) -> None:
    probe = load_verdict_model(save_verdict(tmp_path / "own", decoder, bias=0.0)).probe
    assert probe is not None
    words = AnswerParser.from_pretrained("bundled").parse(ANSWER).words
    assert len(probe.word_log_odds(LanguageContext(RECORD, decoder.model), words)) == len(words)


def test_other_decoder_than_that_of_the_fit_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    verdict = save_verdict(tmp_path / "own", decoder, bias=0.0)
    other = save_tiny_model(tmp_path / "other", scale=0.2)
    with pytest.raises(ModelLoadError, match="language_model_revision"):
        attributor(verdict, other)


def test_model_that_is_no_decoder_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    verdict = save_verdict(tmp_path / "own", decoder, bias=0.0)
    with pytest.raises(ModelLoadError, match="verdict with a probe need a causal language model"):
        Attributor.from_pretrained(verdict=str(verdict), device="cpu")
