"""The verdict's probe: states of words on a small decoder, the mean with the trees, and an audit that uses it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from tests.attribution.made_rows import record
from tests.attribution.tiny_models import edit_json, save_tiny_model
from tests.attribution.verdict.judged_rows import (
    DOUBTFUL,
    LAYER,
    SAME_SHARE,
    SIZE,
    TRUSTING,
    made_regression,
    save_probed_verdict,
)
from transformers import AutoModel, PreTrainedModel

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.language_models import Decoder, DecoderReader, read_answers
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.option_declaration import VERDICT_FILE
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.verdict import fitted_parts
from attribeam.attribution.verdict.fitted_parts import StateProbe, same_share
from attribeam.attribution.verdict.texts import RowKind
from attribeam.schemas import CharRange, Reason, RowFault
from attribeam.schemas.errors import ModelLoadError

QUESTION = "Who built the lighthouse?"
PASSAGES = ("The lighthouse at Brigg Point was built in 1874 by Ada Thorne.", "Its lamp burned oil.")
ANSWER = "Ada Thorne built the lighthouse. Its keeper painted the tower."
RECORD = record(PASSAGES, ANSWER, question=QUESTION)
ROW = {"question": QUESTION, "passages": [*PASSAGES], "answer": ANSWER}


@dataclass
class SavedDecoder:
    directory: Path
    model: Decoder
    network: PreTrainedModel


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    directory = save_tiny_model(tmp_path_factory.mktemp("decoder"))
    model = Decoder.from_pretrained(ModelOptions(model=str(directory), device="cpu"), layer=LAYER)
    return SavedDecoder(directory, model, AutoModel.from_pretrained(directory).eval())


def attributor(verdict, language_model):
    return Attributor.from_pretrained(verdict=str(verdict), language_model=str(language_model), device="cpu")


def judging(decoder, verdict, *, bias, shares=SAME_SHARE):
    """An attributor with a new verdict for the decoder."""
    return attributor(save_probed_verdict(verdict, decoder.directory, bias=bias, shares=shares), decoder.directory)


def windows_of(model, record=RECORD):
    (windows,) = read_answers(model, [record], lambda _, windows: windows)
    assert not isinstance(windows, RowFault)
    return windows


def states_of(decoder):
    (states,) = windows_of(decoder.model)
    return states


def risk(judge):
    (first, *_) = judge.attribute(question=QUESTION, passages=PASSAGES, answer=ANSWER)
    assert first.answer_risk is not None
    return first.answer_risk


def test_state_of_a_word_is_the_mean_over_its_tokens(decoder):
    words = [CharRange(0, 3), CharRange(4, 10), CharRange(21, 31)]
    row = decoder.model.encode(RECORD)
    ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
    states = decoder.network(ids, output_hidden_states=True).hidden_states[LAYER][0, row.prompt_length :]
    found = states_of(decoder).of_words(words)
    assert found.shape == (3, SIZE)
    for word, state in zip(words, found, strict=True):
        tokens = [place for place, chars in enumerate(row.response_chars) if chars and chars.overlaps(word)]
        assert state == pytest.approx(states[tokens].mean(dim=0).detach().numpy(), abs=1e-4)


@pytest.mark.parametrize("of_records", [0.25, 0.75])
def test_probe_comes_back_as_it_was_saved_and_is_averaged_with_the_trees(of_records, decoder):
    shares = same_share(0.25) | {RowKind.RECORD: of_records}
    probe = StateProbe(LAYER, shares, {"language_model_revision": "a"}, made_regression(bias=-1.5))
    again = StateProbe.from_json(json.loads(json.dumps(probe.to_json())))
    words = [CharRange(0, 3), CharRange(4, 10)]
    states = states_of(decoder)
    probed = np.array(again.word_log_odds([states], words))
    by_hand = ((states.of_words(words) - 0.1) / 2) @ probe.regression.weights - 1.5
    assert probed == pytest.approx(np.clip(by_hand, -7, 7), abs=1e-5)
    assert again.shares == shares
    of_trees = np.array([2.0, -2.0])
    assert fitted_parts.mixed(of_trees, probed, share=again.shares[RowKind.QUESTION]) == pytest.approx(
        0.75 * of_trees + 0.25 * probed
    )
    of_both = (1 - of_records) * of_trees + of_records * probed
    assert fitted_parts.mixed(of_trees, probed, share=again.shares[RowKind.RECORD]) == pytest.approx(of_both)


def test_audit_with_a_probe_judges_by_it(decoder, tmp_path):
    doubtful = judging(decoder, tmp_path / "doubtful", bias=DOUBTFUL)
    trusting = judging(decoder, tmp_path / "trusting", bias=TRUSTING)
    deaf = judging(decoder, tmp_path / "deaf", bias=DOUBTFUL, shares=same_share(1.0) | {RowKind.QUESTION: 0.0})
    bundled = Attributor.from_pretrained(device="cpu")
    assert risk(trusting) < risk(bundled) < risk(doubtful)
    assert risk(deaf) == pytest.approx(risk(bundled))


def test_rows_of_a_batch_get_the_risk_that_each_gets_alone(decoder, tmp_path, monkeypatch):
    judge = judging(decoder, tmp_path / "own", bias=0.0)
    rows = [
        {"question": QUESTION, "passages": [*PASSAGES[:count]], "answer": answer}
        for answer in (ANSWER, "Ada Thorne built the harbour.", "Nobody knows.")
        for count in (1, 2)
    ]
    passes = []
    real = Decoder._states
    monkeypatch.setattr(Decoder, "_states", lambda self, some: passes.append(len(some)) or real(self, some))
    together = judge.attribute_many(rows)
    assert passes == [len(rows)]
    for row, found in zip(rows, together, strict=True):
        (alone,) = judge.attribute_many([row])
        for name in ("answer_risk", "support_score"):
            expected = [getattr(one, name) for one in alone]
            assert [getattr(one, name) for one in found] == pytest.approx(expected, abs=1e-4)


def test_long_row_is_read_in_windows_of_whole_passages(decoder):
    options = ModelOptions(model=str(decoder.directory), device="cpu")
    length = max(len(decoder.model.encode(replace(RECORD, passages=(one,))).token_ids) for one in RECORD.passages)
    narrow = Decoder.from_pretrained(options.replaced(max_tokens=length), layer=LAYER)
    windows = windows_of(narrow, RECORD)
    assert len(windows) == len(RECORD.passages)
    for number, found in enumerate(windows):
        (expected,) = windows_of(decoder.model, replace(RECORD, passages=RECORD.passages[: number + 1][-1:]))
        assert found.char_start.tolist() == expected.char_start.tolist()
        if number == 0:  # later passages keep their number in the prompt
            np.testing.assert_allclose(found.values, expected.values, atol=1e-4)


def test_word_of_a_long_row_takes_the_lowest_log_odds_of_its_windows():
    probe = StateProbe(
        LAYER,
        same_share(0.5),
        {},
        fitted_parts.LogisticRegression(fitted_parts.state_names(1), np.zeros(1), np.ones(1), np.ones(1), 0.0),
    )
    places = (np.array([0, 4]), np.array([3, 7]))
    windows = [
        fitted_parts.AnswerStates(*places, np.array(one, dtype=np.float32))
        for one in ([[1.0], [-2.0]], [[-1.0], [3.0]])
    ]
    assert probe.word_log_odds(windows, [CharRange(0, 3), CharRange(4, 7)]) == (-1.0, -2.0)
    assert probe.word_log_odds(windows[:1], [CharRange(0, 3), CharRange(4, 7)]) == (1.0, -2.0)


def test_row_that_no_window_holds_is_judged_by_the_trees_alone(decoder, tmp_path):
    judge = judging(decoder, tmp_path / "own", bias=DOUBTFUL)
    bundled = Attributor.from_pretrained(device="cpu")
    far = ROW | {"passages": ["far " * 600, *PASSAGES]}
    found, unread = judge.attribute_many([ROW, far])
    expected, of_trees = bundled.attribute_many([ROW, far])
    assert unread == of_trees
    assert not isinstance(unread, RowFault)
    assert found[0].answer_risk > expected[0].answer_risk


def test_other_fault_of_the_decoder_is_the_rows(decoder, tmp_path, monkeypatch):
    judge = judging(decoder, tmp_path / "own", bias=0.0)
    longest, real = len(decoder.model.encode(RECORD).token_ids), Decoder._states

    def limited(self, some):
        if len(some) > 1 or len(some[0].token_ids) == longest:
            raise MemoryError
        return real(self, some)

    monkeypatch.setattr(Decoder, "_states", limited)
    fault, found = judge.attribute_many([ROW, ROW | {"answer": "Ada Thorne."}])
    assert fault.reason is Reason.OUT_OF_MEMORY
    assert not isinstance(found, RowFault)


def test_probe_alone_loads_no_language_model_and_one_with_cci_shares_the_whole_one(decoder, tmp_path):
    verdict = save_probed_verdict(tmp_path / "own", decoder.directory)
    method = MethodOptions(verdict=str(verdict), language_model=str(decoder.directory))
    choice = ModelChoice(model=ModelOptions(device="cpu"), method=method)
    alone = load_models(choice, frozenset(), verdict=True)
    assert alone.language is None
    assert isinstance(alone.verdict, DecoderReader)
    both = load_models(choice, frozenset({Need.LANGUAGE_MODEL}), verdict=True)
    assert isinstance(both.verdict, DecoderReader)
    assert both.verdict.decoder._network is both.language.network
    found, expected = (states_of(replace(decoder, model=one)) for one in (both.verdict.decoder, decoder.model))
    np.testing.assert_allclose(found.values, expected.values, atol=1e-4)


def test_other_decoder_than_that_of_the_fit_is_refused(decoder, tmp_path):
    verdict = save_probed_verdict(tmp_path / "own", decoder.directory, note="what Ada Thorne has")
    other = save_tiny_model(tmp_path / "other", scale=0.2)
    complaint = r"language_model_weights is .* was fitted to what Ada Thorne has"
    with pytest.raises(ModelLoadError, match=complaint) as error:
        attributor(verdict, other)
    assert "stored in float32 or bfloat16, or fit a verdict to this one" in str(error.value)


def test_same_weights_serve_whatever_else_their_folder_says(decoder, tmp_path):
    """As where another version of transformers converted the same file."""
    verdict = save_probed_verdict(tmp_path / "own", decoder.directory, bias=DOUBTFUL)
    again = save_tiny_model(tmp_path / "again")
    edit_json(again / "config.json", transformers_version="5.99.0")
    found, expected = (attributor(verdict, one) for one in (again, decoder.directory))
    assert risk(found) == pytest.approx(risk(expected))
    revisions = [one.provenance()["language_model_revision"] for one in (found, expected)]
    assert revisions[0] != revisions[1]


def test_verdict_that_names_a_revision_as_earlier_ones_did_wants_that(decoder, tmp_path):
    verdict = save_probed_verdict(tmp_path / "own", decoder.directory)
    file = verdict / VERDICT_FILE
    found = json.loads(file.read_text(encoding="utf-8"))
    del found["probe"]["decoder"]["language_model_weights"]
    revisions = {"same": decoder.model.provenance()["language_model_revision"], "other": "sha256:0"}
    for name, revision in revisions.items():
        found["probe"]["decoder"]["language_model_revision"] = revision
        copytree(verdict, tmp_path / name)
        (tmp_path / name / VERDICT_FILE).write_text(json.dumps(found), encoding="utf-8")
    assert 0 < risk(attributor(tmp_path / "same", decoder.directory)) < 1
    with pytest.raises(ModelLoadError, match="language_model_revision is sha256:0"):
        attributor(tmp_path / "other", decoder.directory)


def test_errors_of_a_named_language_model_name_its_option(decoder, tmp_path):
    verdict = save_probed_verdict(tmp_path / "own", decoder.directory, note="what Ada Thorne has")
    packed = tmp_path / "decoder.gguf"
    packed.write_bytes(b"GGUF")
    expected = "name the new directory with --language-model; the verdict was fitted to what Ada Thorne has"
    for dtype in ("auto", "float32"):  # which is read before it is loaded, and loaded at once
        with pytest.raises(ModelLoadError, match=expected):
            Attributor.from_pretrained(
                verdict=str(verdict), language_model=str(packed), language_model_dtype=dtype, device="cpu"
            )
    with pytest.raises(ModelLoadError, match=r"gguf-files says, and name the new directory with --model$"):
        Attributor.from_pretrained(str(packed), verdict=str(verdict), device="cpu")
