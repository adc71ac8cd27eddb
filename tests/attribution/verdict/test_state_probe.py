"""The verdict's probe: states of words on a small decoder, the mean with the trees, and an audit that uses it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.attribution.verdict.probed_verdict import (
    DOUBTFUL,
    LAYER,
    SIZE,
    TRUSTING,
    made_regression,
    save_probed_verdict,
)
from transformers import AutoModel, PreTrainedModel

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.language_context import LanguageContext
from attribeam.attribution.models.language_model import LanguageModel
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.state_probe import AnswerStates, StateProbe
from attribeam.attribution.verdict.verdict_model import load_verdict_model
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError

QUESTION = "Who built the lighthouse?"
PASSAGES = ("The lighthouse at Brigg Point was built in 1874 by Ada Thorne.", "Its lamp burned oil.")
ANSWER = "Ada Thorne built the lighthouse. Its keeper painted the tower."
RECORD = QARecord("1", QUESTION, tuple(Passage(text=one) for one in PASSAGES), ANSWER, RowSource("log", 0))


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


def attributor(verdict: Path, language_model: Path) -> Attributor:
    return Attributor.from_pretrained(verdict=str(verdict), language_model=str(language_model), device="cpu")


def judging(decoder: Decoder, verdict: Path, *, bias: float, share: float = 0.5) -> Attributor:
    """An attributor with a new verdict for the decoder."""
    return attributor(save_probed_verdict(verdict, decoder.directory, bias=bias, share=share), decoder.directory)


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
    found = LanguageContext(RECORD, decoder.model).answer_states(LAYER).of_words(words)
    assert found.shape == (3, SIZE)
    for word, state in zip(words, found, strict=True):
        tokens = [place for place, chars in enumerate(row.response_chars) if chars and chars.overlaps(word)]
        assert state == pytest.approx(states[tokens].mean(dim=0).detach().numpy(), abs=1e-4)


def test_word_without_a_token_has_the_state_before_it() -> None:
    states = AnswerStates(np.array([0, 6]), np.array([3, 9]), np.array([[1.0], [5.0]], dtype=np.float32))
    words = [CharRange(0, 3), CharRange(4, 5), CharRange(2, 8), CharRange(10, 12)]
    assert states.of_words(words).tolist() == [[1.0], [1.0], [3.0], [5.0]]


def test_probe_comes_back_as_it_was_saved_and_is_averaged_with_the_trees(decoder: Decoder) -> None:
    probe = StateProbe(LAYER, 0.25, {"language_model_revision": "a"}, made_regression(bias=-1.5))
    again = StateProbe.from_json(json.loads(json.dumps(probe.to_json())))
    words = [CharRange(0, 3), CharRange(4, 10)]
    states = LanguageContext(RECORD, decoder.model).answer_states(LAYER)
    probed = np.array(again.word_log_odds(states, words))
    by_hand = ((states.of_words(words) - 0.1) / 2) @ probe.regression.weights - 1.5
    assert probed == pytest.approx(np.clip(by_hand, -7, 7), abs=1e-5)
    assert again.mixed(np.array([2.0, -2.0]), probed) == pytest.approx([1.5, -1.5] + 0.25 * probed)


def test_audit_with_a_probe_judges_by_it(decoder: Decoder, tmp_path: Path) -> None:
    doubtful = judging(decoder, tmp_path / "doubtful", bias=DOUBTFUL)
    trusting = judging(decoder, tmp_path / "trusting", bias=TRUSTING)
    deaf = judging(decoder, tmp_path / "deaf", bias=DOUBTFUL, share=0.0)
    bundled = Attributor.from_pretrained(device="cpu")
    assert risk(trusting) < risk(bundled) < risk(doubtful)
    assert risk(deaf) == pytest.approx(risk(bundled))


def test_probe_sees_all_words_of_the_parse(decoder: Decoder, tmp_path: Path) -> None:
    probe = load_verdict_model(save_probed_verdict(tmp_path / "own", decoder.directory)).probe
    assert probe is not None
    words = AnswerParser.from_pretrained("bundled").parse(ANSWER).words
    states = LanguageContext(RECORD, decoder.model).answer_states(probe.layer)
    assert len(probe.word_log_odds(states, words)) == len(words)


def test_other_decoder_than_that_of_the_fit_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    verdict = save_probed_verdict(tmp_path / "own", decoder.directory)
    other = save_tiny_model(tmp_path / "other", scale=0.2)
    with pytest.raises(ModelLoadError, match="language_model_revision"):
        attributor(verdict, other)


def test_model_that_is_no_decoder_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    verdict = save_probed_verdict(tmp_path / "own", decoder.directory)
    with pytest.raises(ModelLoadError, match=r"a verdict with a probe, cci .* need a causal language model"):
        Attributor.from_pretrained(verdict=str(verdict), device="cpu")
