"""The facade: three lines to evidence, one outcome a record."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attributor import Attributor, torch_threads
from attribeam.attribution.methods.method import LoadedModels
from attribeam.attribution.methods.models import ModelChoice
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault, RowSource, SpanKind, Support
from attribeam.schemas.errors import ModelLoadError, UsageError

ANSWER = "Ada Thorne built it in 1874."
PASSAGES = ["The lighthouse was built in 1874.", "The keeper lived in the tower."]


class FlatParser:
    """Takes every run of visible characters for a word, and the first word for the verb that all others hang on."""

    def parse_many(self, texts, _passages):
        return map(self._parse, texts)

    def _parse(self, text):
        words = tuple(CharRange(found.start(), found.end()) for found in re.finditer(r"\S+", text))
        count = len(words)
        return ParsedAnswer(
            words=words,
            dependency_heads=(0,) * count,
            dependency_labels=("root", *("dep",) * (count - 1)),
            universal_tags=("VERB", *("NOUN",) * (count - 1)),
            fine_tags=("",) * count,
            sentence_starts=(0,),
        )


@pytest.fixture(scope="module")
def attributor(llama):
    model = AttentionModel.from_pretrained(ModelOptions(model=str(llama), device="cpu"))
    return Attributor(
        parser=FlatParser(), models=LoadedModels(attention=model), spans=(SpanKind.GIVEN, SpanKind.SENTENCES)
    )


def record(answer, *, spans=None):
    return QARecord("r", "Who built it?", tuple(map(Passage, PASSAGES)), answer, RowSource("log.parquet", 0), spans)


def test_sentence_gets_its_evidence_from_the_passages(attributor):
    (span,) = attributor.attribute(question="Who built it?", passages=PASSAGES, answer=ANSWER)
    assert (span.span_kind, span.text) == (SpanKind.SENTENCES, ANSWER)
    assert span.evidence
    for piece in span.evidence:
        assert piece.chars.of(PASSAGES[piece.passage_index]) == piece.text


def test_given_spans_are_code_points_of_the_answer(attributor):
    answer = "🦊 " + ANSWER
    spans = attributor.attribute(question="Who?", passages=PASSAGES, answer=answer, target_spans=[(2, 12), (25, 29)])
    assert [(span.span_kind, span.text) for span in spans] == [(SpanKind.GIVEN, "Ada Thorne"), (SpanKind.GIVEN, "1874")]


@pytest.mark.parametrize(("answer", "passages", "spans", "reason"), [
    (" ", PASSAGES, None, Reason.EMPTY_ANSWER), (ANSWER, [], None, Reason.NO_PASSAGES),
    (ANSWER, ["", " "], None, Reason.NO_PASSAGES), (ANSWER, PASSAGES, [(3, 99)], Reason.SPAN_OUT_OF_RANGE),
    (ANSWER, PASSAGES, [(3, 3)], Reason.SPAN_OUT_OF_RANGE), ("tower " * 600, PASSAGES, None, Reason.TOO_MANY_TOKENS),
])  # fmt: skip
def test_row_that_cannot_be_attributed_raises_its_reason(attributor, answer, passages, spans, reason):
    with pytest.raises(RowFault) as caught:
        attributor.attribute(question="Who?", passages=passages, answer=answer, target_spans=spans)
    assert caught.value.reason is reason


def test_faulty_record_leaves_its_neighbours_as_they_are(attributor):
    records = [record("Yes."), record(" "), record(ANSWER), record("tower " * 600), record("In the tower.")]
    outcomes = attributor.attribute_many(records)
    assert [type(outcome) for outcome in outcomes] == [tuple, RowFault, tuple, RowFault, tuple]
    for one, outcome in zip(records, outcomes, strict=True):
        if not isinstance(outcome, RowFault):
            assert [span.text for span in outcome] == [one.answer]


@pytest.mark.parametrize(("options", "expected"), [({}, 1), ({"threads": 2}, 2)])
def test_torch_has_the_attributors_threads_while_it_works_and_its_own_before_and_after(options, expected, monkeypatch):
    seen = []

    class CountingParser(FlatParser):
        def parse_many(self, texts, passages):
            seen.append(torch.get_num_threads())
            return super().parse_many(texts, passages)

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        attributor = Attributor.from_pretrained("bundled", device="cpu", **options)
        monkeypatch.setattr(attributor, "parser", CountingParser())
        attributor.attribute_many([record("Yes."), record("No.")])
        attributor.attribute_many([record("Yes.")])
        assert (seen, torch.get_num_threads()) == ([expected] * 2, 3)
    finally:
        torch.set_num_threads(before)


def test_threads_of_torch_are_as_before_when_the_last_of_several_ends():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with torch_threads(1), torch_threads(2), torch_threads(None):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 3
        with pytest.raises(KeyError), torch_threads(1):
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_range_given_twice_has_two_records_and_is_one_claim(attributor):
    places = [(0, 28), (0, 10), (0, 28)]
    spans = attributor.attribute(question="Who?", passages=PASSAGES, answer=ANSWER, target_spans=places)
    first, _, again = spans
    assert [span.span_index for span in spans] == [0, 1, 2]
    for name in ("chars", "support", "support_score", "evidence", "claim_index"):
        assert getattr(again, name) == getattr(first, name)
    assert first.support is not Support.NO_CLAIM
    assert not again.is_counted
    single = attributor.attribute(question="Who?", passages=PASSAGES, answer=ANSWER, target_spans=places[:2])
    assert (single[0].answer_risk, single[0].support) == (first.answer_risk, first.support)


@pytest.mark.parametrize(("of_both", "own", "expected"), [
    ({}, {}, ("auto", "none")), ({"quantization": "int8"}, {}, ("auto", "int8")),
    ({}, {"language_model_quantization": "int8"}, ("auto", "int8")),
    ({"quantization": "int8"}, {"language_model_quantization": "none"}, ("auto", "none")),
    ({"dtype": "float32"}, {"language_model_quantization": "nf4"}, ("float32", "nf4")),
    ({"dtype": "float32", "quantization": "nf4"}, {"language_model_dtype": "bfloat16",
        "language_model_quantization": "int8"}, ("bfloat16", "int8")),
])  # fmt: skip
def test_language_model_is_stored_like_the_model_unless_it_has_options_of_its_own(of_both, own, expected):
    model = ModelOptions(model="ours", **of_both)
    choice = ModelChoice(model=model, method=MethodOptions(language_model="theirs", **own))
    assert choice.model == model
    assert choice.language.model == "theirs"
    assert (choice.language.dtype, choice.language.quantization) == expected


def test_a_path_is_taken_as_its_text():
    with pytest.raises(ModelLoadError, match="/absent/model"):
        Attributor.from_pretrained(Path("/absent/model"))


def test_wrong_options_are_refused_before_anything_is_loaded():
    with pytest.raises(ValueError, match="nearest"):
        Attributor.from_pretrained("/absent/model", query_position="nearest")
    with pytest.raises(ValueError, match="language_model_quantization"):
        MethodOptions(language_model_quantization="int3")
    with pytest.raises(UsageError, match="'mean': unknown"):
        Attributor.from_pretrained("/absent/model", method="mean")


PATIENCE_SECONDS = 120

FORKING = """
import os
import signal
import sys

from attribeam import Attributor


def evidence(attributor):
    passages = ["The ferry to Aln leaves the east pier at noon. " * 40] * 12
    return attributor.attribute(question="When?", passages=passages, answer="It leaves at noon, with 40 cars.")

attributor = Attributor.from_pretrained("bundled", threads=2)
found = evidence(attributor)
if (child := os.fork()) == 0:
    signal.alarm(60)
    expected = [one.top_passage_index for one in found]
    inherited_and_own = (attributor, Attributor.from_pretrained("bundled"))
    same = all([one.top_passage_index for one in evidence(used)] == expected for used in inherited_and_own)
    try:
        Attributor.from_pretrained("bundled", threads=2)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_forked_process_ends_its_work_and_refuses_more_threads():
    command = [sys.executable, "-c", FORKING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert "UsageError threads should be 1 in a process that was forked" in done.stdout
    assert "start processes with spawn" in done.stdout
