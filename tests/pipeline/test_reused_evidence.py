"""``--reuse``: an earlier audit's evidence with another verdict gives the bytes of an audit from scratch."""

import json
from dataclasses import replace
from shutil import copytree

import pytest
from tests.pipeline.audit_fixtures import tiny_audit
from tests.pipeline.audit_process import (
    finished_chunks,
    log_rows,
    output_digests,
    read_all,
    read_manifest,
    wait_until,
    write_log,
)

from attribeam.attribution.option_declaration import MASS_FILE
from attribeam.attribution.verdict.verified import MassThresholds


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """Small models, and a log with a row without answer and one in another language."""
    rows = log_rows(9)
    rows[3]["answer"] = None
    rows[5]["answer"] = (
        "Die Fähre fährt um zwölf Uhr mittags vom östlichen Anleger ab, und der westliche ist geschlossen."
    )
    return tiny_audit(tmp_path_factory.mktemp("reuse"), rows)


@pytest.fixture(scope="module")
def earlier(audit, tmp_path_factory):
    output = tmp_path_factory.mktemp("earlier") / "out"
    assert audit.run_here(output, "--quiet", "--no-report") == 0
    return output


@pytest.mark.parametrize("by_mass", [False, True])
def test_evidence_judged_anew_has_the_bytes_of_an_audit_from_scratch(audit, earlier, tmp_path, by_mass):
    verdict = ["--strictness", "strict", "--prior", "0.3"]
    if by_mass:
        thresholds = MassThresholds(0.4, 0.1, str(audit.model), "attn-union-dep", "", "two claims of ours")
        (tmp_path / MASS_FILE).write_text(thresholds.to_json(), encoding="utf-8")
        verdict = ["--verdict", str(tmp_path)]
    assert audit.run_here(tmp_path / "whole", "--quiet", "--no-report", *verdict) == 0
    again = ("--rows-per-chunk", "4", "--reuse", str(earlier))
    assert audit.run_here(tmp_path / "again", "--quiet", "--no-report", *verdict, *again) == 0
    assert output_digests(tmp_path / "again") == output_digests(tmp_path / "whole")
    whole, reused = (read_manifest(tmp_path / name) for name in ("whole", "again"))
    assert (reused.models, reused.counts) == (whole.models, whole.counts)
    assert reused.configuration == whole.configuration
    assert read_all(tmp_path / "again" / "evidence")["support"] != read_all(earlier / "evidence")["support"]


def test_no_model_is_loaded(audit, earlier, tmp_path):
    (weights,) = audit.model.glob("*.safetensors")
    aside = weights.rename(tmp_path / weights.name)
    try:
        assert audit.run_here(tmp_path / "out", "--quiet", "--no-report", "--reuse", str(earlier)) == 0
    finally:
        aside.rename(weights)
    assert output_digests(tmp_path / "out") == output_digests(earlier)


def test_a_killed_run_goes_on_to_the_bytes_of_an_audit_from_scratch(audit, tmp_path):
    longer = replace(audit, log=write_log(tmp_path / "log.parquet", log_rows(60)))
    options = ("--quiet", "--no-report", "--rows-per-chunk", "2", "--workers", "1")
    reusing = (*options, "--reuse", str(tmp_path / "earlier"))
    assert longer.run_here(tmp_path / "earlier", *options) == 0
    process = longer.start(tmp_path / "killed", *reusing)
    wait_until(process, lambda: finished_chunks(tmp_path / "killed") > 0)
    process.kill()
    process.communicate()
    assert finished_chunks(tmp_path / "killed") < 30
    assert longer.run_here(tmp_path / "killed", *reusing) == 0
    assert output_digests(tmp_path / "killed") == output_digests(tmp_path / "earlier")


def test_of_a_damaged_audit_the_message_names_it_and_the_way_out(audit, earlier, tmp_path, capsys):
    damaged = tmp_path / "damaged"
    copytree(earlier, damaged)
    evidence = min((damaged / "evidence").iterdir())
    for content in (b"?" * evidence.stat().st_size, b"cut"):
        evidence.write_bytes(content)
        assert audit.run_here(tmp_path / "out", "--quiet", "--reuse", str(damaged)) == 1
        message = capsys.readouterr().err
        assert f"the audit of --reuse {damaged}: {evidence} " in message
        assert "or leave --reuse out" in message


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--token-evidence",), "only the verdict may differ, but so does token_evidence"),
        (("--spans", "sentences"), "but so does span_kinds"),
        (("--columns", "question=team"), "but so does columns"),
        (("--verdict", "mass"), "--verdict mass needs thresholds"),
    ],
)
def test_audit_of_other_evidence_is_refused(audit, earlier, tmp_path, capsys, options, complaint):
    assert audit.run_here(tmp_path / "out", *options, "--reuse", str(earlier)) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out" / "evidence").exists()


def test_rows_that_the_audit_has_not_seen_are_refused(audit, earlier, tmp_path, capsys):
    other = replace(audit, log=write_log(tmp_path / "other.parquet", log_rows(2, first=50)))
    assert other.run_here(tmp_path / "out", "--reuse", str(earlier)) == 2
    assert "other.parquet' is not one of its inputs, or has changed; leave --reuse out" in capsys.readouterr().err


def test_output_into_the_reused_audit_is_refused(audit, earlier, tmp_path, capsys):
    before = output_digests(earlier)
    (tmp_path / "link").symlink_to(earlier)
    assert audit.run_here(tmp_path / "link", "--overwrite", "--reuse", str(earlier)) == 2
    assert "--reuse and --output should be two directories" in capsys.readouterr().err
    assert output_digests(earlier) == before


def test_audit_without_texts_or_of_another_version_is_refused(audit, earlier, tmp_path, capsys):
    assert audit.run_here(tmp_path / "masked", "--redact", "--quiet", "--no-report") == 0
    assert audit.run_here(tmp_path / "out", "--reuse", str(tmp_path / "masked")) == 2
    assert "its texts are masked or left out" in capsys.readouterr().err
    manifest = earlier / "run_manifest.json"
    text = manifest.read_text()
    try:
        manifest.write_text(json.dumps({**json.loads(text), "attribeam_version": "0.0.1"}))
        assert audit.run_here(tmp_path / "out", "--reuse", str(earlier)) == 2
    finally:
        manifest.write_text(text)
    assert "it was made by attribeam 0.0.1" in capsys.readouterr().err
