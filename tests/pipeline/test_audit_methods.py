"""Every method that can be evaluated can be audited: the same scores, honest support, and methods of the user's own."""

from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.attribution.verdict.judged_rows import DOUBTFUL, TRUSTING, save_probed_verdict
from tests.evaluation.dataset_rows import GRADIENTS, HIDDEN_AVERAGE, WORDS
from tests.pipeline.audit_fixtures import run_locally, tiny_audit
from tests.pipeline.audit_process import ROOT, log_rows, read_all, read_manifest, write_log

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.methods.models import load_models
from attribeam.attribution.options import MethodOptions
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.methods import LabelledContext, audit_name, evaluation_methods
from attribeam.logs.rows import RowRange
from attribeam.pipeline.command_line import main
from attribeam.pipeline.worker_pool import load_models as load_audit
from attribeam.pipeline.worker_process import explain_chunk_failure
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.transforms.audit_settings import configuration_hash, output_schemas

OWN_METHOD = """
from attribeam.attribution.evidence.union_results import SpanResult


class PassageLength:
    needs = {NEEDS}

    def __init__(self, options):
        self.options = options

    def span_results(self, context):
        lengths = [float(len(passage.text)) for passage in context.record.passages]
        return [SpanResult(tuple({RESULT})) for _ in context.spans]
"""


def write_method(folder, name, *, result="lengths", needs="()"):
    """A module with a method of the user's own; returns what ``--method`` calls it."""
    (folder / f"{name}.py").write_text(OWN_METHOD.replace("{RESULT}", result).replace("{NEEDS}", needs))
    return f"{name}:PassageLength"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.parquet", log_rows(4))


def audited(settings, name, log, folder, **options):
    """The evidence of an audit by a method, as the worker's graph writes it."""
    asked = replace(settings, method=settings.method.replaced(method=name, **options))
    schemas = output_schemas(asked, {"model": "tiny"}, [])
    attempt = run_locally(str(log), asked, Path(mkdtemp(dir=folder)) / "attempt", schemas=schemas)
    return pq.read_table(Path(attempt.folder) / attempt.evidence.path)


def record_of(row, place, spans):
    passages = tuple(Passage(text=one["text"], title=one["title"]) for one in row["passages"])
    source, asked = RowSource("f", place), (row["record_id"], row["question"])
    return QARecord(*asked, passages, row["answer"], source, target_spans=tuple(spans))


@pytest.mark.parametrize(
    "name", [audit_name(name) for name in evaluation_methods() if name not in ("random", "oracle")]
)
def test_every_method_gives_an_audit_the_scores_that_an_evaluation_has(name, settings, log, tmp_path):
    evidence = audited(settings, name, log, tmp_path).select(["source_row", "char_start", "char_end", "passage_scores"])
    assert evidence.num_rows
    method = resolve_method(MethodOptions(method=name))
    models = load_models(settings.models, method.needs)
    for place, row in enumerate(log_rows(4)):
        spans = evidence.filter(pc.equal(evidence["source_row"], place)).to_pylist()
        ranges = [CharRange(one["char_start"], one["char_end"]) for one in spans]
        context = LabelledContext(LabelledAnswer(record_of(row, place, ranges)), models)
        expected = [result.passage_scores for result in method.span_results(context)]
        np.testing.assert_allclose([one["passage_scores"] for one in spans], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [WORDS, HIDDEN_AVERAGE, GRADIENTS])
def test_method_without_mass_has_null_masses_and_no_verdict_by_mass(name, settings, log, tmp_path):
    evidence = audited(settings, name, log, tmp_path, verdict="mass")
    assert evidence["evidence_mass"].null_count == evidence.num_rows > 0
    assert set(evidence["support"].to_pylist()) == {"not_calibrated"}
    found = pc.list_value_length(evidence["evidence"])
    assert pc.max(found).as_py() > 0


def test_verdict_with_a_probe_judges_an_audit_by_its_decoder_and_finds_the_same_evidence(settings, log, tmp_path):
    decoder = Path(settings.model.model)
    found = {}
    for name, bias in (("doubtful", DOUBTFUL), ("trusting", TRUSTING)):
        verdict = save_probed_verdict(tmp_path / name, decoder, bias=bias)
        judged = {"verdict": str(verdict), "language_model": str(decoder)}
        found[name] = audited(settings, "attn-union-dep", log, tmp_path, **judged)
    plain = audited(settings, "attn-union-dep", log, tmp_path)
    pairs = zip(*(found[name]["answer_risk"].to_pylist() for name in ("trusting", "doubtful")), strict=True)
    risks = [(low, high) for low, high in pairs if low is not None]
    assert risks
    assert all(low < high for low, high in risks)
    expected = plain["passage_scores"].to_pylist()
    for one in found.values():
        np.testing.assert_allclose(one["passage_scores"].to_pylist(), expected, rtol=1e-5, atol=1e-6)


def test_audit_by_words_loads_no_model(settings, log, tmp_path):
    without = replace(settings, model=settings.model.replaced(model="/absent/model"))
    provenance = load_audit(replace(without, method=MethodOptions(method=WORDS)))
    assert "model" not in provenance
    assert (provenance["method"], provenance["device"]) == (WORDS, "cpu")
    assert audited(without, WORDS, log, tmp_path).num_rows


def test_option_that_has_its_default_does_not_change_the_configuration(settings):
    plain = configuration_hash(settings, {}, [])
    given = replace(settings, method=settings.method.replaced(strict_isolation=False))
    assert configuration_hash(given, {}, []) == plain
    strict = replace(settings, method=settings.method.replaced(strict_isolation=True))
    assert configuration_hash(strict, {}, []) != plain


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "attn-unoin"], "'attn-unoin': unknown; did you mean attn-union"),
        (["--method", "words"], "'words': unknown; there are: attn-union, attn-union-dep"),
        (["--hidden-layer", "3"], "--hidden-layer says nothing to --method attn-union-dep"),
        (["--language-model", "x"], "--language-model says nothing to --method attn-union-dep"),
        (["--method", HIDDEN_AVERAGE, "--verdict", "mass", "--fail-if", "supported_share < 0.5"], "has no thresholds"),
        (["--method", WORDS, "--fail-if", "evidence_mass_mean < 0.5"], "has no evidence mass"),
        (["--method", GRADIENTS], "needs a causal language model: name it with --language-model"),
        (["--verdict", "smollm2-135m"], "--language-model; the verdict was fitted to SmolLM2-135M-Instruct"),
        (["--method", "no_such_module:Name"], "module 'no_such_module' could not be imported"),
        (["--method", "json:Name"], "module 'json' has no class 'Name'"),
        (["--method", "json:JSONDecodeError"], "JSONDecodeError should take the options as its one argument"),
        (["--method", "collections:OrderedDict"], "needs should be a set of 'parser', 'attention'"),
    ],
)
def test_what_cannot_be_audited_is_refused_before_anything_is_read(options, message, capsys):
    assert main(["audit", "--input", "absent.parquet", "--output", "out", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        ("lengths[1:]", "passage_scores should have one score per passage, 2, had 1"),
        ("[-1.0 for _ in lengths]", "should be finite and not negative"),
        ("1 / 0", "raised ZeroDivisionError at row 0"),
    ],
)
def test_broken_method_is_named_with_its_row_and_without_the_answer(
    result, complaint, settings, log, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = write_method(tmp_path, f"broken_{abs(hash(result))}", result=result)
    with pytest.raises(Exception, match="method 'broken_") as caught:
        audited(settings, name, log, tmp_path)
    told = explain_chunk_failure(caught.value, RowRange(str(log), 0, 4))
    assert complaint in told
    assert name in told
    assert "Ferry 0 leaves" not in told


def test_own_method_runs_in_several_workers_and_a_change_of_its_file_is_another_audit(tmp_path):
    audit = tiny_audit(tmp_path, log_rows(10))
    name, output = write_method(tmp_path, "of_length"), tmp_path / "out"
    first = audit.run(output, "--method", name, "--workers", "2", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    before = read_all(output / "evidence")
    assert before["evidence_mass"].null_count == before.num_rows
    assert set(before["top_passage_index"].to_pylist()) == {0}
    write_method(tmp_path, "of_length", result="reversed(lengths)")
    refused = audit.run(output, "--method", name, cwd=tmp_path)
    assert refused.returncode == 2
    assert "another option or a version is not the same" in refused.stderr
    manifest = read_manifest(output)
    assert manifest.models["method_code"].startswith("sha256:")
    assert manifest.counts.tokens is None
    assert main(["show", "--audit", str(output), "ferry-3"]) == 0
    assert main(["report", "--audit", str(output), "--output", str(tmp_path / "page.html")]) == 0


def test_the_guides_example_is_evaluated_and_audited(settings, tmp_path, monkeypatch):
    from attribeam import Attributor

    guide = (ROOT / "docs" / "extending.md").read_text()
    (tmp_path / "first_names.py").write_text(guide.split("```python\n")[1].split("```")[0])
    monkeypatch.syspath_prepend(tmp_path)
    asked = {"method": "first_names:FirstNames", "parser": settings.parser, "spans": "sentences"}
    attributor = Attributor.from_pretrained(settings.model.model, **asked)
    (span,) = attributor.attribute(question="Who?", passages=["no one", "By Ada Thorne."], answer="It was Ada Thorne.")
    assert (span.passage_scores, span.top_passage_index, span.evidence_mass) == ((0.0, 2.0), 1, None)
    assert [piece.text for piece in span.evidence] == ["Ada", "Thorne"]
    assert isinstance(attributor.parser, AnswerParser)
