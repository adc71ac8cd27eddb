"""The figures at the top of the page."""

from dataclasses import replace

import pytest
from tests.report.made_audit import made_audit, no_claim, supported_span, unsupported_span

from attribeam.report.audit_summary import Change, audit_title, comparison_remark, top_figures, verdict_accuracy
from attribeam.schemas import AnswerKind, ClaimKind
from attribeam.schemas.run_manifest import RunStatus


@pytest.mark.parametrize(("speed", "note"), [(2.5, "2.5 rows/s after 4 s of loading"), (0.0, "nothing was left to do")])
def test_run_that_found_all_rows_finished_tells_no_speed(tmp_path, speed, note):
    audit = made_audit(tmp_path).opened
    audit = replace(audit, manifest=replace(audit.manifest, rows_per_second=speed))
    (duration,) = (figure for figure in top_figures(audit, None) if figure.name == "duration")
    assert (duration.value, duration.note) == ("20 s", note)


def test_an_earlier_audit_that_is_not_complete_is_compared_with_a_remark(tmp_path):
    audit = made_audit(tmp_path).opened
    assert comparison_remark(audit, audit) is None
    earlier = replace(audit, manifest=replace(audit.manifest, status=RunStatus.RUNNING))
    assert "The earlier audit is not complete (its status is running)" in str(comparison_remark(audit, earlier))


@pytest.mark.parametrize(
    ("paths", "title"),
    [
        (["logs/answers.parquet"], "answers.parquet"), (["logs/2026-11-19.parquet"], "2026-11-19.parquet"),
        (["logs/date=2026-11-19/part-0.parquet"], "date=2026-11-19"),
        (["s3://logs/date=2026-11-19/part-00000-1f-c000.snappy.parquet"], "date=2026-11-19"),
        (["night/data.parquet"], "night"), (["night/a.jsonl", "night/b.jsonl"], "night"),
        (["one/a.jsonl", "two/b.jsonl"], "2 log files"), (["part-0.parquet"], "part-0.parquet"),
    ],
)  # fmt: skip
def test_an_audit_is_called_by_its_file_or_where_that_says_nothing_by_the_folder(tmp_path, paths, title):
    audit = made_audit(tmp_path).opened
    inputs = tuple(replace(audit.manifest.inputs[0], path=path) for path in paths)
    assert audit_title(replace(audit, manifest=replace(audit.manifest, inputs=inputs))) == title


@pytest.mark.parametrize(("configuration", "verdict"), [("same", "worse"), ("thresholds", "neutral")])
def test_a_change_is_worse_only_where_the_audits_were_made_alike(tmp_path, configuration, verdict):
    audits = [
        made_audit(tmp_path / name, record_ids=["ferry"], spans={0: spans}).opened
        for name, spans in (
            ("now", (replace(unsupported_span(), span_index=0, claim_index=0),)),
            ("then", (supported_span(),)),
        )
    ]
    now, then = (replace(one, manifest=replace(one.manifest, configuration="same")) for one in audits)
    then = replace(then, manifest=replace(then.manifest, configuration=configuration))
    changes = {one.name: one.change for one in top_figures(now, then)}
    assert changes["unsupported"] == Change("+100.0 points", verdict)


def test_what_did_not_change_is_called_so_whatever_it_counts(tmp_path):
    audit = made_audit(tmp_path).opened
    changes = {one.name: one.change for one in top_figures(audit, audit) if one.change}
    assert set(changes) == {"rows", "claims", "supported", "weak", "unsupported", "dead_letters"}
    assert {one.text for one in changes.values()} == {"no change"}


def figures_of(folder, *spans):
    audit = made_audit(folder, record_ids=["ferry"], spans={0: spans}).opened
    return {figure.name: (figure.value, figure.note) for figure in top_figures(audit, None)}


def test_claims_count_once_and_refusals_and_what_is_not_judged_stand_apart(tmp_path):
    part = replace(unsupported_span(), span_index=2, claim_index=1)
    code = no_claim(ClaimKind.CODE, 3)
    figures = figures_of(tmp_path / "claims", supported_span(), unsupported_span(), part, code)
    assert figures["claims"] == ("2", "2.0 an answer")
    assert figures["unsupported"] == ("50.0%", "1 claim")
    assert figures["not_judged"] == ("1", "spans: code")
    assert not {"refusals", "not_calibrated"} & set(figures)
    refusal = no_claim(ClaimKind.REFUSAL, answer_kind=AnswerKind.REFUSAL)
    figures = figures_of(tmp_path / "refusal", refusal)
    assert (figures["claims"], figures["refusals"]) == (("0", "0.0 an answer"), ("1", "100.0% of the answers"))
    assert figures["supported"][0] == "–"


def test_figures_stand_where_the_manifest_has_them():
    models = {"precision": "0.714", "recall": "0.64", "false_alarms": "0.125", "measured_on": "90 answers"}
    models |= {"short_precision": "0.9", "short_recall": "0.8"}
    text = verdict_accuracy({f"verdict_{name}": told for name, told in models.items()})
    assert "71% do have an unsupported claim" in text
    assert "it flags 64% (measured on 90 answers)." in text
    assert "nothing wrong with, it flags 12%." in text
    assert "short answers" not in text
    text = verdict_accuracy(
        {f"verdict_{name}": told for name, told in models.items()} | {"verdict_short_false_alarms": "0.1"}
    )
    assert "With short answers, of up to three claims, these are 90%, 80% and 10%." in text


@pytest.mark.parametrize(("risk", "text"), [(0.5, "is a calibrated probability"), (None, "is no probability")])
def test_the_order_is_explained_as_it_was_made(tmp_path, risk, text):
    spans = (replace(supported_span(), answer_risk=risk),)
    page = made_audit(tmp_path, record_ids=["ferry"], spans={0: spans}).page()
    assert [one in page for one in ("is a calibrated probability", "is no probability")].count(True) == 1
    assert text in page
    assert "Refusals come after" in page
