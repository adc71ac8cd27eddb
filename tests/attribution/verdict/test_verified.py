"""A verifier's verdict in an audit, what calibration makes of it, and bands of risk that few answers lie in."""

import json
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.attribution.tiny_verifiers import save_verifier
from tests.attribution.verdict.judged_rows import DOUBTFUL, save_probed_verdict
from tests.evaluation.dataset_rows import WORDS

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.method import has_own_model, resolve_method
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.option_declaration import VERIFIER_FILE, names_verifier
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.verdict.verified import VerifiedAnswer, VerifierForm, verified_records
from attribeam.schemas import CharRange, RowFault, SpanEvidence, Support
from attribeam.schemas.errors import DataError, ModelLoadError, UsageError

PASSAGES = ["The ferry to Kolm has forty cars and two decks. It leaves at nine, and dogs travel free."]
ROWS = [
    {"question": "What is the ferry like?", "passages": PASSAGES, "answer": one}
    for one in (
        "The ferry to Kolm has forty cars and two decks.",
        "The ferry has a cinema with ninety seats, which Queen Maud opened.",
        "It leaves at nine. Tickets cost twelve crowns.",
        "Dogs travel free, and cats sleep in the engine room.",
        "I cannot answer that.",
    )
]
BAND = (0.05, 0.75)
FITTED = {"identity": {}, "answer_risk": 0.5, "unsupported": 0.3, "supported": 0.7, "measured_on": "three ferries"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verifiers")
    decoder = save_tiny_model(folder / "decoder")
    probed = save_probed_verdict(folder / "probed", decoder, bias=DOUBTFUL)
    kinds = {kind: save_verifier(folder, kind) for kind in ("lettucedetect", "nli")}
    return {**kinds, "decoder": decoder, "probed": probed}


@lru_cache(maxsize=8)
def judge(verdict, language_model=None, band=None):
    return Attributor.from_pretrained(
        verdict=verdict, language_model=language_model, verdict_band=band, device="cpu", method=WORDS
    )


def audited(*asked):
    found = judge(*asked).attribute_many(ROWS)
    assert not any(isinstance(one, RowFault) for one in found)
    return found


@pytest.mark.parametrize("kind", ["lettucedetect", "nli"])
def test_verifier_scores_the_claims_that_the_bundled_verdict_tells(kind, folders):
    for own, bundled in zip(audited(str(folders[kind])), audited(None), strict=True):
        as_before = {"support", "support_score", "answer_risk", "unsupported_words", "reason", "expected", "how"}
        kept = [name for name in SpanEvidence.__slots__ if name not in as_before]
        assert [[getattr(one, name) for name in kept] for one in own] == [
            [getattr(one, name) for name in kept] for one in bundled
        ]
        scored = [one for one in own if one.support_score is not None]
        assert [one.span_index for one in scored] == [
            one.span_index for one in bundled if one.support_score is not None
        ]
        assert {one.support for one in scored} <= {Support.NOT_CALIBRATED}
        least = min((one.support_score or 0.0 for one in scored), default=None)
        assert {one.answer_risk for one in own} == {None if least is None else 1 - least}
    assert judge(str(folders[kind])).provenance()["verifier_revision"].startswith("sha256:")
    assert judge(str(folders[kind])).provenance()["answer_risk_threshold"] == "0.5"


def calibrated(folder, model, **changes):
    folder.mkdir()
    found = FITTED | {"verifier": str(model)} | changes
    (folder / VERIFIER_FILE).write_text(json.dumps(found), encoding="utf-8")
    return folder


def test_calibrated_verifier_blends_the_scores_and_names_the_support(folders, tmp_path):
    blend = {"bias": 0.5, "verifier": 0.6, "bundled": 0.3}
    verdict = calibrated(tmp_path / "own", folders["lettucedetect"], claims=blend, answers=blend)
    rows = zip(audited(str(verdict)), audited(str(folders["lettucedetect"])), audited(None), strict=True)
    supports = set()
    for found, raw, bundled in rows:
        for one, own, other in zip(found, raw, bundled, strict=True):
            if own.support_score is None or other.support_score is None:
                assert one == replace(other, answer_risk=one.answer_risk)
                continue
            odds = [np.log(share / (1 - share)) for share in (own.support_score, other.support_score)]
            score = 1 / (1 + np.exp(-(0.5 + 0.6 * odds[0] + 0.3 * odds[1])))
            assert one.support_score == pytest.approx(score, abs=1e-5)
            expected = Support.UNSUPPORTED if score < 0.3 else Support.WEAK if score < 0.7 else Support.SUPPORTED
            assert one.support is expected
            assert bool(one.unsupported_words) <= (expected is Support.UNSUPPORTED)
            supports.add(expected)
    assert len(supports) > 1
    texts = judge(str(verdict)).provenance()
    assert texts["verdict_measured_on"] == "three ferries"
    assert texts["answer_risk_threshold"] == "0.5"
    assert len(texts["verdict_calibration"]) == 16


def test_words_of_an_unsupported_claim_are_those_that_the_verifier_doubts(folders):
    judged = audited(None)[2]
    claims = [one for one in judged if one.claim_index == one.span_index]
    said = VerifiedAnswer((0.9,) * (len(claims) - 1) + (0.01,), (CharRange(10, 24), CharRange(27, 32)))
    form = VerifierForm.model_validate(FITTED | {"verifier": str(folders["nli"])})
    found = {one.span_index: one for one in verified_records(judged, said, form)}
    last = found[claims[-1].span_index]
    assert last.support is Support.UNSUPPORTED
    doubtful = [CharRange(max(one.char_start, 19), one.char_end) for one in said.doubtful]
    assert last.unsupported_words == tuple(doubtful)
    assert all(one.support is Support.SUPPORTED for one in found.values() if one.claim_index == claims[0].span_index)


@pytest.mark.parametrize(("changes", "error", "complaint"), [
    ({"identity": {"verifier_revision": "sha256:0"}}, ModelLoadError, "calibrate it again"),
    ({"bundled": "0123"}, ModelLoadError, "with verdict_model 0123"),
    ({"unsupported": 0.8}, DataError, "unsupported should be at most supported"),
    ({"verifier": "/nowhere"}, ModelLoadError, "'/nowhere' should be a directory"),
    ({"claims": {"bias": 0, "first": 1}}, DataError, "claims"),
])  # fmt: skip
def test_calibration_of_another_verifier_or_verdict_is_refused(changes, error, complaint, folders, tmp_path):
    verdict = calibrated(tmp_path / "own", folders["nli"], **changes)
    method = MethodOptions(method=WORDS, verdict=str(verdict))
    with pytest.raises(error, match=complaint):
        load_models(ModelChoice(model=ModelOptions(device="cpu"), method=method), frozenset(), verdict=True)


@pytest.mark.parametrize("kind", ["lettucedetect", "probed"])
def test_model_is_asked_within_the_band_and_the_bundled_verdict_stands_outside(kind, folders):
    decoder = str(folders["decoder"]) if kind == "probed" else None
    everywhere, bundled = audited(str(folders[kind]), decoder), audited(None)
    risks = [row[0].answer_risk for row in bundled]
    lowest, second, *_ = sorted(risk for risk in risks if risk is not None)
    asked_in = ((lowest + second) / 2, 1.0)
    band = audited(str(folders[kind]), decoder, asked_in)
    inside = [risk is not None and asked_in[0] <= risk for risk in risks]
    assert 0 < sum(inside) < len(ROWS) - 1
    assert band == [own if asked else other for own, other, asked in zip(everywhere, bundled, inside, strict=True)]
    assert any(own != other for own, other, asked in zip(everywhere, bundled, inside, strict=True) if asked)
    texts = judge(str(folders[kind]), decoder, asked_in).provenance()
    assert texts["verdict_band"] == str(asked_in)
    assert texts["bundled_verdict_model"] == judge(None).provenance()["verdict_model"]


@pytest.mark.parametrize(("given", "complaint"), [
    ({"verdict_band": BAND}, "--verdict-band says which answers a verifier or decoder is asked about"),
    ({"verdict_band": BAND, "verdict": "mass"}, "--verdict mass has none"),
    ({"verdict_band": (0.8, 0.9), "verdict": "org/own"}, "should hold the risks from which answers are flagged"),
    ({"verdict_band": (0.0, 0.1), "verdict": "smollm2-135m"}, "by the bundled verdict and .* by --verdict smoll"),
    ({"prior": 0.1, "verdict": "org/own"}, "not for the verifier org/own"),
])  # fmt: skip
def test_band_or_rate_that_says_nothing_to_the_verdict_is_refused(given, complaint):
    with pytest.raises(UsageError, match=complaint):
        resolve_method(MethodOptions(**given))


@pytest.mark.parametrize(("name", "is_verifier"), [
    ("org/model-1.5", True), ("bundled", False), ("mass", False), ("smollm2-135m", False), ("smollm3", False),
    ("/nowhere/at/all", False), ("../org/model", False), ("./model", False),
])  # fmt: skip
def test_hub_ids_are_verifiers(name, is_verifier):
    assert names_verifier(name) is is_verifier


def test_directories_of_models_and_of_calibrated_ones_are_verifiers(folders, tmp_path):
    assert names_verifier(str(folders["nli"]))
    assert names_verifier(str(calibrated(tmp_path / "own", folders["nli"])))
    assert not names_verifier(str(folders["probed"]))
    assert not names_verifier(str(tmp_path))
    assert has_own_model(MethodOptions(verdict=str(folders["nli"])))
