"""``AuditAnswers`` in a pipeline of one's own: what goes in, what comes out, on two runners and in Beam YAML."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from tests.logs.log_files import log_row, write_log
from tests.pipeline.audit_fixtures import run_locally, save_tiny_audit, with_token_budget
from tests.pipeline.secret_log import CASE_PATTERNS, leaks, secret_rows

from attribeam import AuditAnswers, Passage, QARecord, RowSource, UsageError
from attribeam.logs.privacy import MASK
from attribeam.transforms.audit_answers import read_answers, row_type, rows_of
from attribeam.transforms.audit_settings import AuditSettings

RUNNERS = {
    "direct": ["--runner=DirectRunner"],
    "portable": ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"],
}


class PassageRow(NamedTuple):
    text: str
    title: str | None


class AnswerRow(NamedTuple):
    record_id: str
    question: str
    passages: Sequence[PassageRow]
    answer: str


def given(number, **changes):
    row = log_row(number)
    return {name: row[name] for name in ("record_id", "question", "passages", "answer")} | changes


def as_row(number):
    element = given(number)
    return beam.Row(**element | {"passages": [beam.Row(**one) for one in element["passages"]]})


def as_named_tuple(number):
    element = given(number)
    passages = [PassageRow(one["text"], one["title"]) for one in element["passages"]]
    return AnswerRow(element["record_id"], element["question"], passages, element["answer"])


def as_record(number):
    element = given(number)
    passages = tuple(Passage(one["text"], one["title"], one["passage_id"]) for one in element["passages"])
    source = RowSource("mine", number)
    return QARecord(element["record_id"], element["question"], passages, element["answer"], source)


ELEMENTS = [given(0), as_row(1), as_named_tuple(2), as_record(3)]
FAULTY = {
    "row-4": (given(4, answer=None), "missing_value", "answer"),
    "row-5": (given(5, question=7), "invalid_value", "question"),
    "row-6": (given(6, passages="one"), "invalid_value", "passages"),
    "row-7": (given(7, answer="  "), "empty_answer", "answer"),
    "row-8": (given(8, target_spans=[(0, 999)]), "span_out_of_range", "target_spans"),
    "row-9": (given(9, passages=[{"text": "x", "rank": 1}]), "invalid_value", "passages"),
    "row-10": ({"record_id": "row-10", "question": "?"}, "missing_value", "passages"),
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return with_token_budget(save_tiny_audit(tmp_path_factory.mktemp("models")), 1)


class WriteLines(beam.DoFn):
    """Appends the rows' dicts to a file, which all workers of these tests see."""

    def __init__(self, path):
        self._path = path

    def process(self, row):
        with self._path.open("a") as file:
            file.write(f"{_plain(row)!r}\n")


def _plain(value):
    if isinstance(value, beam.Row):
        return {name: _plain(item) for name, item in value.as_dict().items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(item) for name, item in zip(value._fields, value, strict=True)}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def written(path):
    rows = [eval(line, {"Timestamp": lambda *_: None}) for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: (str(row["record_id"]), row.get("span_index", 0)))


@pytest.mark.parametrize("runner", RUNNERS)
def test_elements_of_every_kind_give_the_evidence_of_an_audit_and_faulty_ones_dead_letters(runner, settings, tmp_path):
    faulty = [element for element, _, _ in FAULTY.values()]
    with beam.Pipeline(options=PipelineOptions(RUNNERS[runner])) as pipeline:
        answers = pipeline | beam.Create([*ELEMENTS, *faulty, "no row", {"answer": "x"}], reshuffle=False)
        audited = answers | AuditAnswers(settings)
        _ = audited.evidence | "Evidence" >> beam.Reshuffle() | "E" >> beam.ParDo(WriteLines(tmp_path / "evidence"))
        _ = audited.dead_letters | "Letters" >> beam.Reshuffle() | "L" >> beam.ParDo(WriteLines(tmp_path / "letters"))
    log = write_log(tmp_path / "log.parquet", [log_row(number) for number in range(4)])
    run_locally(log, settings, tmp_path / "local")
    (local,) = (tmp_path / "local").glob("evidence*.parquet")
    evidence = written(tmp_path / "evidence")
    for found, wanted in zip(evidence, pq.read_table(local).to_pylist(), strict=True):
        same = set(found) - {"source_file", "source_row", "top_passage_id", "evidence"}
        assert {name: found[name] for name in same} == {name: wanted[name] for name in same}
        assert [one["text"] for one in found["evidence"]] == [one["text"] for one in wanted["evidence"]]
    assert {(row["source_file"], row["source_row"]) for row in evidence} == {("", 0), ("mine", 3)}
    letters = written(tmp_path / "letters")
    by_id = {row["record_id"]: (row["reason"], row["column"], row["stage"]) for row in letters if row["record_id"]}
    assert by_id == {name: (reason, field, "validate") for name, (_, reason, field) in FAULTY.items()}
    nameless = {(row["reason"], row["column"]) for row in letters if row["record_id"] is None}
    assert nameless == {("invalid_value", None), ("missing_value", "record_id")}
    assert all(row["answer"] is None and "Ada" not in row["message"] for row in letters)


def outcomes(settings, element):
    group = read_answers([element], settings)
    return [*group.rows, *group.dead_letters]


def test_fields_of_other_names_are_mapped_and_ids_may_be_numbers():
    element = given(0)
    element["response"] = element.pop("answer")
    (record,) = outcomes(AuditSettings(columns=(("answer", "response"),)), element | {"record_id": 7, "rank": 1})
    assert (record.record_id, record.answer) == ("7", element["response"])


def test_a_text_that_is_too_long_is_refused_and_its_answer_kept_only_when_asked_for():
    for wanted, answer in ((False, None), (True, given(0)["answer"])):
        (letter,) = outcomes(AuditSettings(max_text_chars=20, dead_letter_text=wanted), given(0))
        assert (letter.reason, letter.column, letter.answer) == ("text_too_long", "passages", answer)


def test_half_of_a_surrogate_pair_and_a_record_with_a_field_of_another_type_are_refused():
    for element, reason, column in (
        (given(0, question="caf\ud800"), "invalid_utf8", "question"),
        (replace(as_record(0), passages=(Passage("One.", title=7),)), "invalid_value", "passages"),
    ):
        (refused,) = outcomes(AuditSettings(), element)
        assert (refused.record_id, refused.reason, refused.column) == ("row-0", reason, column)


def test_a_field_that_is_not_read_may_hold_itself_and_one_that_is_read_harms_its_element_alone():
    element, deep = given(0), "text"
    element["element"] = element
    for _ in range(2000):
        deep = [deep]
    found = [outcomes(AuditSettings(), one)[0] for one in (element, given(1, passages=deep))]
    assert [one.record_id for one in found] == ["row-0", "row-1"]
    assert (found[1].reason, found[1].column) == ("invalid_value", "passages")


def test_options_by_name_are_settings():
    by_name = AuditAnswers(spans="sentences", max_text_chars=9, columns={"answer": "a"}, verdict="mass")._settings
    assert ([str(kind) for kind in by_name.span_kinds], by_name.max_text_chars) == (["sentences"], 9)
    assert (by_name.columns, by_name.method.verdict) == ((("answer", "a"),), "mass")
    assert AuditAnswers(supported_threshold=0.4)._settings.method.verdict == "mass"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"settings": AuditSettings(), "spans": "facts"}, "come alone.*spans"), ({"spam": 1}, "spam"),
        ({"settings": AuditSettings(extra_columns=("team",))}, "join the evidence"), ({"method": "guess"}, "guess"),
        ({"no_texts": True, "dead_letter_text": True}, "leave one out"),
        ({"redact_patterns": "none.txt"}, "cannot be read"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused_when_the_pipeline_is_built(arguments, said):
    with pytest.raises((UsageError, ValueError), match=said):
        AuditAnswers(**arguments)


@pytest.mark.parametrize("hiding", [{"redact": True, "redact_patterns": str(CASE_PATTERNS)}, {"no_texts": True}])
def test_nothing_that_comes_out_holds_what_the_options_hide(hiding, settings, tmp_path):
    """Seven rows with secrets in every field; one is a dead letter, and so is an element without passages."""
    names = ("record_id", "question", "passages", "answer", "target_spans")
    rows = [{name: row[name] for name in names} for row in secret_rows(7)]
    options = {"model": settings.model.model, "parser": settings.parser, **hiding}
    options |= {"dead_letter_text": True} if "redact" in hiding else {}
    with beam.Pipeline(options=PipelineOptions(RUNNERS["direct"])) as pipeline:
        answers = pipeline | beam.Create([*rows, rows[0] | {"passages": []}], reshuffle=False)
        audited = answers | AuditAnswers(**options)
        _ = audited.evidence | "E" >> beam.ParDo(WriteLines(tmp_path / "evidence"))
        _ = audited.dead_letters | "L" >> beam.ParDo(WriteLines(tmp_path / "letters"))
    evidence, letters = written(tmp_path / "evidence"), written(tmp_path / "letters")
    assert (len({row["source_row"] for row in evidence}), len(evidence), len(letters)) == (1, 18, 2)
    if "redact" in hiding:
        assert list(leaks(tmp_path)) == []
        assert all(MASK in str(row["text"]) for row in evidence if "Write to" in str(row["text"]))
        assert [MASK in str(row["answer"]) for row in letters].count(True) == 1
    else:
        assert {row["text"] for row in evidence} == {""}
        assert {piece["text"] for row in evidence for piece in row["evidence"]} == {""}
        said = (tmp_path / "evidence").read_text() + (tmp_path / "letters").read_text()
        words = ("Who is", "west pier", "Office of", "Write to", "answers at")
        assert [one for one in words if one in said] == []


def test_windows_are_refused(settings):
    answers = beam.Pipeline() | beam.Create([given(0)], reshuffle=False) | beam.WindowInto(FixedWindows(60))
    with pytest.raises(UsageError, match="global window"):
        _ = answers | AuditAnswers(settings)


def test_rows_keep_nested_values_and_nulls():
    inner = pa.struct([pa.field("start", pa.int32(), nullable=False), pa.field("text", pa.string())])
    schema = pa.schema([("pieces", pa.list_(inner)), ("score", pa.float32()), ("seen", pa.timestamp("us", "UTC"))])
    table = pa.Table.from_pylist([{"pieces": [{"start": 1, "text": None}], "score": 0.5, "seen": None}], schema)
    (row,) = rows_of(table)
    assert (row.pieces, row.score, row.seen) == ([beam.Row(start=1, text=None)], 0.5, None)
    assert [name for name, _ in row_type(schema)._fields] == schema.names
    with pytest.raises(TypeError, match="binary"):
        row_type(pa.schema([("raw", pa.binary())]))


@pytest.fixture
def yaml_pipeline(settings, tmp_path):
    """The example's pipeline with models and outputs of the test."""
    for name in ("jsonschema", "docstring_parser"):
        pytest.importorskip(name, reason="Beam YAML needs the extra attribeam[yaml]")
    import yaml

    example = Path(__file__).parents[2] / "examples" / "beam_pipeline.yaml"
    spec = yaml.safe_load(example.read_text())
    by_name = {one.get("name", one["type"]): one["config"] for one in spec["pipeline"]["transforms"]}
    by_name["AuditAnswers"] |= {"model": settings.model.model, "parser": settings.parser}
    by_name["WriteClaims"]["path"] = str(tmp_path / "claims.txt")
    by_name["WriteRefused"]["path"] = str(tmp_path / "refused.txt")
    return spec


def test_the_example_for_beam_yaml_writes_spans_and_refused_answers(yaml_pipeline, tmp_path):
    import yaml
    from apache_beam.yaml.yaml_transform import SafeLineLoader, expand_pipeline

    spec = yaml.load(yaml.safe_dump(yaml_pipeline, sort_keys=False), Loader=SafeLineLoader)
    with beam.Pipeline(options=PipelineOptions(["--runner=DirectRunner"])) as pipeline:
        expand_pipeline(pipeline, spec, validate_schema=None)
    (claims,), (refused,) = tmp_path.glob("claims.txt*"), tmp_path.glob("refused.txt*")
    assert {line.partition(":")[0] for line in claims.read_text().splitlines()} == {"ferry-1"}
    (line,) = refused.read_text().splitlines()
    assert line.startswith("ferry-2: empty_answer: the answer should have words")
