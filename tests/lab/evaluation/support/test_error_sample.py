from dataclasses import replace

import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.lab.evaluation.dataset_rows import ragtruth_response, ragtruth_source, write_ragtruth
from tests.lab.evaluation.support.judged_examples import judged, place, span
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.lab.evaluation.support import error_sample
from attribeam.lab.evaluation.support.error_sample import ErrorKind, error_document, false_alarms, main, misses, sample
from attribeam.schemas import EvidencePiece, Support
from attribeam.schemas.labelled_answer import JudgedDataset

TEXT = "Ada lit ten lamps. Based on passage 2, no zebras came in 1999."
UNSUPPORTED, SUPPORTED = Support.UNSUPPORTED, Support.SUPPORTED


def test_false_alarm_is_a_claim_called_unsupported_that_nobody_marked():
    answer = judged(TEXT, "zebras came")
    found = [
        span(TEXT, "Ada lit ten lamps", UNSUPPORTED, 0),
        span(TEXT, "ten", UNSUPPORTED, 1, claim_index=0),
        span(TEXT, "zebras came", UNSUPPORTED, 2),
        span(TEXT, "1999", SUPPORTED, 3),
    ]
    (error,) = false_alarms(answer, found)
    assert (error.chars.of(TEXT), error.spans) == ("Ada lit ten lamps", (found[0],))
    assert error.kinds == {ErrorKind.LITERAL, ErrorKind.PROSE}


def test_miss_is_a_mark_of_which_less_than_half_is_called():
    answer = judged(TEXT, "zebras came", "in 1999")
    found = [span(TEXT, "zebras", UNSUPPORTED, 0), span(TEXT, "in", UNSUPPORTED, 1), span(TEXT, "1999", SUPPORTED, 2)]
    (error,) = misses(answer, found)
    assert (error.chars.of(TEXT), error.spans) == ("in 1999", tuple(found[1:]))
    assert error.kinds == {ErrorKind.VALUES, ErrorKind.UNSEEN_WORDS, ErrorKind.SHORT, ErrorKind.PROSE}


@pytest.mark.parametrize(("supported", "alarms", "missed"), [(True, 1, 0), (False, 0, 0)])
def test_answer_judged_as_a_whole_is_missed_only_if_nothing_in_it_is_called(supported, alarms, missed):
    answer, found = judged(TEXT, answer_supported=supported), [span(TEXT, "ten", UNSUPPORTED)]
    assert len(list(false_alarms(answer, found))) == alarms
    assert len(list(misses(answer, found))) == missed
    assert len(list(misses(answer, []))) == (0 if supported else 1)


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("no zebras came", ErrorKind.NEGATION),
        ("Based on passage 2, no zebras came", ErrorKind.DISCOURSE),
        ("in 1999", ErrorKind.VALUES),
        ("ten lamps", ErrorKind.LITERAL),
    ],
)
def test_kinds_are_decided_by_the_text(part, kind):
    whole = [span(TEXT, TEXT, UNSUPPORTED)]
    (other,) = false_alarms(judged(TEXT), [span(TEXT, "Ada lit", UNSUPPORTED)])
    (error,) = false_alarms(judged(TEXT), [span(TEXT, part, UNSUPPORTED)])
    assert kind in error.kinds
    assert kind is ErrorKind.LITERAL or kind not in other.kinds
    assert next(false_alarms(judged(TEXT), whole)).kinds.isdisjoint({ErrorKind.SHORT, ErrorKind.LITERAL})


def test_value_that_the_audit_found_unmatched_counts_as_a_value():
    (error,) = false_alarms(judged(TEXT), [span(TEXT, "Ada lit", UNSUPPORTED, unmatched_values=("Ada",))])
    assert ErrorKind.VALUES in error.kinds


def test_passage_of_named_values_is_a_record():
    answer = judged(TEXT, passages=["name: Lamp & Co\nhours Monday: 9-17\nstars: 3.5"])
    (error,) = misses(judged(TEXT, "ten"), [])
    (other,) = false_alarms(answer, [span(TEXT, "ten", UNSUPPORTED)])
    assert (ErrorKind.RECORDS in other.kinds, ErrorKind.PROSE in error.kinds) == (True, True)


def test_sample_keeps_the_order_and_is_the_same_for_a_seed():
    errors = [next(misses(judged(TEXT, part), [])) for part in TEXT.rstrip(".").split()]
    chosen = sample(errors, 4, seed=3)
    assert chosen == sample(errors, 4, seed=3) != sample(errors, 4, seed=4)
    assert [errors.index(one) for one in chosen] == sorted(errors.index(one) for one in chosen)
    assert sample(errors, 99, seed=0) == errors


def test_entry_shows_the_claim_its_evidence_the_marks_and_room_for_a_label():
    piece = EvidencePiece(0, None, False, place("ten", "Ada lit ten lamps."), "ten", 1.5)
    found = [span(TEXT, "Ada lit", UNSUPPORTED, evidence=(piece,), support_score=0.25, unmatched_values=("Ada",))]
    errors = list(false_alarms(judged(TEXT, "zebras came"), found))
    text = error_document("Errors", [("False alarms", errors, errors), ("Misses", [], [])])
    assert "## False alarms: 1 of 1" in text
    assert "answer: ⟦Ada lit⟧ ten lamps. Based on passage 2, no ⟨zebras came⟩ in 1999." in text
    assert 'facts span "Ada lit": unsupported, mass 0.500, support score 0.250, unmatched "Ada"' in text
    assert "evidence 1.500, passage 1: Ada lit ⟦ten⟧ lamps." in text
    assert text.count("- label:") == 1
    assert "| literal | 1 | 100.0 | 1 | 100.0 |" in text
    assert "| literal | 0 |  | 0 |  |" in text


def test_command_writes_the_sample(tmp_path, capsys):
    source = ragtruth_source("s", {"question": "Who lit it?", "passages": "passage 1:Ada lit the lamp in 1874."})
    responses = [ragtruth_response("1", "s", "Ada lit it in 1999.", {"Ada": "Conflict"})]
    data, output = write_ragtruth(tmp_path / "ragtruth", [source], responses), tmp_path / "errors.md"
    models = ("--model", save_tiny_model(tmp_path / "model"), "--parser", save_tiny_parser(tmp_path / "parser"))
    asked = ["--dataset", "ragtruth", "--data", data, *models, "--output", output]
    assert main([*map(str, asked)]) == 0
    assert output.read_text().startswith("# Errors of attn-union-dep on 1 answers of ragtruth")
    assert f"sample written to {output}" in capsys.readouterr().out


def test_output_that_cannot_be_written_is_refused_first(tmp_path, capsys):
    asked = ["--dataset", "bump", "--data", "none", "--output", str(tmp_path / "none" / "errors.md")]
    assert main(asked) == 2
    assert "--output should be a file in an existing directory" in capsys.readouterr().err


def test_each_answer_is_judged_by_the_verdict_of_its_fold(tmp_path, monkeypatch):
    chosen = []
    one = judged(TEXT)
    answers = tuple(replace(one, record=replace(one.record, record_id=name)) for name in ("a", "b", "c"))
    (tmp_path / "folds.json").write_text('{"a": 1, "b": 0, "c": 1}')
    monkeypatch.setattr(error_sample, "_attributor", lambda _, verdict: chosen.append(verdict))
    monkeypatch.setattr(error_sample, "collect_errors", lambda some, _: (some.answers, ()))
    monkeypatch.setitem(error_sample.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset(answers))
    monkeypatch.setattr(error_sample, "error_document", lambda *given: chosen.append(given[1][0][1]) or "text")
    asked = ["--dataset", "ragtruth", "--data", "x", "--fold-verdicts", tmp_path, "--output", tmp_path / "out.md"]
    assert main([*map(str, asked)]) == 0
    assert chosen == [str(tmp_path / "0"), str(tmp_path / "1"), (answers[1], answers[0], answers[2])]


def test_folder_without_folds_is_refused_with_the_command_that_makes_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(error_sample.JUDGED_LOADERS, "ragtruth", lambda _: JudgedDataset((judged(TEXT),)))
    asked = ["--dataset", "ragtruth", "--data", "x", "--fold-verdicts", tmp_path, "--output", tmp_path / "out.md"]
    assert main([*map(str, asked)]) == 2
    assert "attribeam train verdict --cross-validate" in capsys.readouterr().err
