"""The bundled verdict on answers of our own."""

import json
import shutil

import pytest
from tests.attribution.verdict.judged_rows import LANTERN
from tests.evaluation.dataset_rows import HIDDEN_AVERAGE

from attribeam.attribution.attributor import Attributor
from attribeam.attribution.option_declaration import VERDICT_FILE, Strictness
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.judge import judge_of
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model
from attribeam.schemas import AnswerKind, ClaimKind, Support

INVENTED = "The keeper trimmed the lamp every evening. He was born in Norway in 1872."


def judged(attributor, answer, *passages):
    found = attributor.attribute(question="What did the keeper do?", passages=passages or [LANTERN], answer=answer)
    return {one.text: one for one in found}


def test_an_invented_claim_is_unsupported_and_names_its_words(attributor):
    found = judged(attributor, INVENTED)
    invented = found["He was born in Norway in 1872"]
    assert invented.support is Support.UNSUPPORTED
    assert any("Norway" in one.of(INVENTED) for one in invented.unsupported_words)
    kept = found["The keeper trimmed the lamp every evening"]
    assert (kept.support, kept.unsupported_words) == (Support.SUPPORTED, ())
    assert kept.support_score > invented.support_score


def test_the_risk_is_what_the_worst_claim_leaves_open_and_support_follows_from_scores(attributor):
    limits = load_verdict_model(BUNDLED_VERDICT).thresholds
    for answer in (INVENTED, INVENTED.split(" He")[0], "His daughter kept a blue ledger of storms."):
        claims = [one for one in judged(attributor, answer).values() if one.is_claim]
        scores = [one.support_score for one in claims if one.support_score is not None]
        assert all(one.answer_risk == pytest.approx(1 - min(scores)) for one in claims)
        for one, score in zip(claims, scores, strict=True):
            assert (one.support is Support.UNSUPPORTED) is (score < limits.balanced)
            assert (one.support is Support.SUPPORTED) is (score >= limits.supported)


def test_what_claims_nothing_is_not_judged_and_a_refusal_is_its_own_kind(attributor):
    (refused,) = judged(attributor, "I am unable to answer that.").values()
    assert (refused.support, refused.claim_kind) == (Support.NO_CLAIM, ClaimKind.REFUSAL)
    assert (refused.answer_kind, refused.answer_risk, refused.support_score) == (AnswerKind.REFUSAL, None, None)


def test_another_language_is_supported_where_it_repeats_a_passage_and_else_not_judged(attributor):
    passage = "המגדלור ליד העיר נבנה לפני מאה שנים על ידי שני אחים"
    copied = judged(attributor, f"{passage}.", "The harbour is old.", passage)
    assert {one.support for one in copied.values() if one.span_kind == "facts"} == {Support.SUPPORTED}
    assert {one.top_passage_index for one in copied.values() if one.span_kind == "facts"} == {1}
    other = judged(attributor, "הספינה טבעה בסערה הגדולה ולא נמצאה עד היום", "The harbour is old.", passage)
    assert {one.support for one in other.values()} == {Support.NOT_JUDGED}
    assert {one.claim_kind for one in other.values()} == {ClaimKind.LANGUAGE}
    assert {one.answer_risk for one in other.values()} == {None}


def test_in_another_language_too_a_claim_counts_once_and_its_words_take_its_verdict(attributor):
    passage = "Der Turm wurde 1889 von Gustave Eiffel in Paris gebaut. Er ist 330 Meter hoch und besteht aus Eisen."
    answer = f"{passage} Der Turm gefiel in Paris zuerst keinem Menschen."
    found = attributor.attribute(question="Wie hoch ist der Turm?", passages=[passage], answer=answer)
    claims = [one for one in found if one.is_claim]
    assert [(one.span_kind, one.support) for one in claims] == [("facts", Support.SUPPORTED)] * 2
    for one in found:
        of = None if one.claim_index is None else found[one.claim_index]
        assert one.support is (Support.NOT_JUDGED if of is None else of.support)
        assert (of is None) is (one.chars.char_start > len(passage))


def test_strictness_sets_the_threshold_and_says_what_it_gave():
    found = {}
    for strictness in Strictness:
        judge = judge_of(MethodOptions(strictness=strictness))
        found[strictness] = judge.provenance()
    for name in ("answer_risk_threshold", "verdict_recall", "verdict_short_recall", "verdict_false_alarms"):
        lenient, balanced, strict = (float(found[one][name]) for one in Strictness)
        falls = name == "answer_risk_threshold"
        assert (lenient > balanced > strict) if falls else (lenient < balanced < strict), name


def test_a_prior_moves_scores_and_risk_by_its_odds(attributor):
    rare = judged(Attributor.from_pretrained("bundled", prior=0.1), INVENTED)
    for text, one in judged(attributor, INVENTED).items():
        if one.support_score is not None:
            even = one.support_score / (1 - one.support_score)
            assert rare[text].support_score == pytest.approx(9 * even / (1 + 9 * even))


def test_thresholds_of_mass_replace_the_fitted_verdict():
    assert judge_of(MethodOptions(verdict="mass")) is None
    assert judge_of(MethodOptions(supported_threshold=0.4, weak_threshold=0.2)) is None
    assert judge_of(MethodOptions()) is not None


def test_mass_without_thresholds_of_the_model_or_the_user_is_not_calibrated():
    by_mass = Attributor.from_pretrained("bundled", method=HIDDEN_AVERAGE, verdict="mass")
    assert {one.support for one in judged(by_mass, INVENTED).values()} == {Support.NOT_CALIBRATED}


@pytest.mark.parametrize(("balanced", "weak_word", "named"), [
    pytest.param(0.5, 0.0, True, id="flagged"), pytest.param(0.5, 1.0, False, id="flagged-no-word-suspicious"),
    pytest.param(0.5, None, False, id="flagged-without-the-level"), pytest.param(0.0, 0.0, False, id="not-flagged"),
])  # fmt: skip
def test_suspicious_words_of_a_weak_claim_are_named_beside_an_unsupported_one(tmp_path, balanced, weak_word, *, named):
    shutil.copytree(BUNDLED_VERDICT, tmp_path / "own")
    file = tmp_path / "own" / VERDICT_FILE
    found = json.loads(file.read_text())
    levels = {"lenient": 0.0, "balanced": balanced, "strict": 1.0, "supported": 1.0, "weak_word": weak_word}
    found["thresholds"] |= levels
    if weak_word is None:
        del found["thresholds"]["weak_word"]
    file.write_text(json.dumps(found))
    own = judged(Attributor.from_pretrained("bundled", verdict=str(tmp_path / "own")), INVENTED)
    kept = own["The keeper trimmed the lamp every evening"]
    assert kept.support is Support.WEAK
    assert bool(kept.unsupported_words) is named


@pytest.mark.parametrize("answer", ["<b></b><br>", "|" * 50, "`" * 301, ".", "🙂"])
def test_an_answer_without_words_is_no_claim(attributor, answer):
    found = judged(attributor, answer)
    assert {one.support for one in found.values()} <= {Support.NO_CLAIM, Support.NOT_JUDGED}
    assert {one.answer_risk for one in found.values()} == {None}


def test_a_line_of_a_record_without_a_name_is_no_field(attributor):
    found = judged(attributor, "The keeper trimmed the lamp.", "Note: old\n : true\n  : no", LANTERN)
    assert found["The keeper trimmed the lamp"].support is Support.SUPPORTED


def test_given_spans_without_content_are_no_claims_and_words_stay_within_them(attributor):
    answer = "The lamp, which Norway sent, burned in 1999."
    spans = [(8, 9), (0, 3), (12, 40)]
    found = attributor.attribute(question="", passages=[LANTERN], answer=answer, target_spans=spans)
    assert [one.support for one in found[:2]] == [Support.NO_CLAIM, Support.NO_CLAIM]
    for one in found:
        assert all(one.chars.char_start <= part.char_start < part.char_end <= one.chars.char_end
                   for part in one.unsupported_words)  # fmt: skip


def test_a_literal_span_is_not_accused_of_what_stands_beside_it(attributor):
    answer = f"{LANTERN} Aliens from Jupiter landed beside a frozen volcano in 2090."
    (found,) = attributor.attribute(
        question="", passages=[LANTERN], answer=answer, target_spans=[(0, LANTERN.index("."))]
    )
    assert found.support is Support.SUPPORTED


@pytest.mark.parametrize("question", ["When?", "Was it opened in 1950?"])
def test_a_value_that_only_the_question_has_is_unsupported_with_what_the_passage_has_instead(attributor, question):
    spans = attributor.attribute(
        question=question, passages=["The pier was opened in 1931."], answer="The pier was opened in 1950."
    )
    (found,) = (one for one in spans if one.is_claim)
    assert (found.support, found.reason, found.expected) == (Support.UNSUPPORTED, "other_time", "1931")
