"""Records and their Arrow schemas, manifests, errors, and what docs/schema.md says of them."""

import json
import pickle
import random
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from tests.pipeline.made_metrics import made_manifest
from tests.report.made_audit import bare_span

from attribeam.pipeline.command_line import main
from attribeam.schemas import (
    SCHEMA_VERSION,
    CharRange,
    DeadLetter,
    EvidencePiece,
    Passage,
    QARecord,
    Reason,
    RowFault,
    RowSource,
    Stage,
    Support,
    SupportedHow,
    TokenEvidence,
    UnsupportedReason,
    dead_letter_row,
    dead_letter_schema,
    evidence_schema,
)
from attribeam.schemas.errors import (
    DataError,
    ExitCode,
    LogReadError,
    ModelLoadError,
    RunError,
    SchemaVersionError,
    UsageError,
)
from attribeam.schemas.evidence_record import evidence_table
from attribeam.schemas.run_manifest import (
    AuditCounts,
    ChunkManifest,
    CutPassages,
    DeadLetterCount,
    InputFile,
    OutputFile,
    ReadingNote,
    RunManifest,
    cut_passages,
    merge_samples,
    sample_passages,
    sum_counts,
)

SOURCE = RowSource("log.parquet", 4)
RECORD = QARecord("r", "Who?", (Passage("Ada lit it."),), "Ada.", SOURCE, extra_columns=(("region", "north"),))
PIECE = EvidencePiece(0, None, False, CharRange(0, 3), "Ada", 0.5)
TOLD = {"passage_scores": (0.5,), "top_passage_index": 0, "margin": 1.0, "unmatched_values": ("1874",)}
SPAN = bare_span("Ada.", "Ada", Support.SUPPORTED, evidence=(PIECE,), claim_index=None, **TOLD)


def _row(record, span):
    """The row of a span, field by field; ranges of pieces and tokens stand beside their other fields."""

    def flat(item):
        return item.pop("chars") | item

    fields = flat(asdict(span))
    tokens = fields["token_evidence"]
    fields |= {"evidence": [*map(flat, fields["evidence"])], "token_evidence": tokens and [*map(flat, tokens)]}
    own = {name: getattr(record, name) for name in ("record_id", "answered_at", "generator")}
    return {**own, **asdict(record.source), **fields, **dict(record.extra_columns)}


def test_evidence_table_is_the_rows_of_all_spans_in_their_order():
    schema = evidence_schema(extra_fields=[pa.field("region", pa.string())], metadata={"a": "b"})
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    other = replace(RECORD, record_id="s", answered_at=moment, extra_columns=(("region", None),))
    bare = bare_span("Ada.", "Ada", Support.SUPPORTED, 1, claim_index=None)
    reasoned = replace(SPAN, reason=UnsupportedReason.OTHER_VALUE, expected="1874", how=SupportedHow.QUOTED)
    reasoned = replace(reasoned, token_evidence=(TokenEvidence(0, True, CharRange(1, 3), 0.25),))
    rows = [(RECORD, (SPAN, bare)), (RECORD, ()), (other, (replace(reasoned, evidence=(PIECE, PIECE)),))]
    table = evidence_table(rows, schema)
    expected = [_row(record, span) for record, spans in rows for span in spans]
    assert table.equals(pa.Table.from_pylist(expected, schema=schema), check_metadata=True)


def test_dead_letter_row_has_the_fields_of_its_schema_in_their_order():
    letter = DeadLetter("r", SOURCE, Stage.PARSE, Reason.PARSE_FAILED, "should, does not", column="answer")
    row = dead_letter_row(letter)
    schema = dead_letter_schema()
    assert list(row) == schema.names
    assert pa.Table.from_pylist([row], schema=schema).to_pylist() == [row]
    assert row["answer"] is None


def test_row_fault_survives_pickling():
    fault = pickle.loads(pickle.dumps(RowFault(Reason.NO_PASSAGES, "should, does not", column="contexts")))
    assert (fault.reason, str(fault), fault.column) == (Reason.NO_PASSAGES, "should, does not", "contexts")


@pytest.mark.parametrize(("char_start", "char_end"), [(2, 2), (3, 1), (-1, 4)])
def test_range_that_is_empty_reversed_or_negative_is_refused(char_start, char_end):
    with pytest.raises(ValueError, match="0 <= char_start < char_end"):
        CharRange(char_start, char_end)


@pytest.mark.parametrize("schema", [evidence_schema(metadata={"a": "b"}), dead_letter_schema({"a": "b"})])
def test_schemas_carry_version_metadata_and_descriptions(schema):
    assert schema.metadata == {b"attribeam.schema_version": SCHEMA_VERSION.encode(), b"a": b"b"}
    assert all(field.metadata[b"description"] for field in schema)


def test_only_the_span_that_its_verdict_is_on_is_the_claim():
    claim = replace(SPAN, span_index=3, claim_index=3)
    assert claim.is_claim
    assert not replace(claim, span_index=4).is_claim
    for support in (Support.NO_CLAIM, Support.NOT_JUDGED):
        assert not replace(claim, claim_index=None, support=support).is_claim


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError, ExitCode.BAD_USAGE), (DataError, 2), (LogReadError, 1), (ModelLoadError, 2), (RunError, 1)],
)
def test_error_of_a_command_is_one_line_and_its_exit_code(error, code, monkeypatch, capsys):
    def fail(_):
        raise error("the log is gone; name another")

    monkeypatch.setattr("attribeam.report.history_command.run", fail)
    assert main(["history", "nights"]) == code
    assert capsys.readouterr().err == "attribeam history: the log is gone; name another\n"


COUNTS = AuditCounts(
    3, 2, (DeadLetterCount("validate", "no_passages", 1),), spans={"supported": 4, "weak": 1}, tokens=120,
    claims={"supported": 4}, answers={"answer": 2},
)  # fmt: skip
NAME = "00000-log-r0000000000"
CHUNK = ChunkManifest(
    NAME, "log.parquet", "ab", 0, 3, "cd", COUNTS, OutputFile(f"evidence/{NAME}.parquet", 5, 900, "ef"),
    OutputFile(f"dead_letters/{NAME}.parquet", 1, 400, "01"), 1.5, sample_passages(["A text", "Another text."]),
)  # fmt: skip
RUN = made_manifest(
    COUNTS, inputs=(InputFile("log.parquet", 1000, 3, "ab", (ReadingNote("answer read from response", 3),)),),
    options={"parser": "bundled"}, versions={"python": "3.11"}, chunks=(NAME,),
    cut_passages=CutPassages(9, 12, "characters", 200),
)  # fmt: skip


def test_a_run_manifest_comes_back_from_json():
    assert RunManifest.from_json(RUN.to_json()) == RUN


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"counts": 1}', CHUNK.to_json()[:-20]])
def test_what_is_no_manifest_is_a_value_error(text):
    with pytest.raises(ValueError, match=r".+"):
        ChunkManifest.from_json(text)


def test_counts_of_disjoint_rows_add_up():
    letters = DeadLetterCount("read", "invalid_utf8", 1), DeadLetterCount("validate", "no_passages", 1)
    other = AuditCounts(2, 0, letters)
    total = sum_counts([COUNTS, other])
    assert (total.rows, total.audited, total.dead_lettered, total.span_count, total.tokens) == (5, 2, 3, 5, 120)
    assert [letter.rows for letter in total.dead_letters] == [1, 2]
    assert total.is_reconciled


def test_claims_and_kinds_add_up():
    one = AuditCounts(claims={"weak": 2, "not_judged": 1}, not_judged={"code": 1}, answers={"answer": 3})
    other = AuditCounts(claims={"weak": 1, "no_claim": 4}, answers={"answer": 1, "refusal": 1})
    total = sum_counts([one, other])
    assert (total.claims, total.claim_count) == ({"no_claim": 4, "not_judged": 1, "weak": 3}, 3)
    assert (total.not_judged, total.answers) == ({"code": 1}, {"answer": 4, "refusal": 1})


@pytest.mark.parametrize("manifest", [CHUNK, RUN])
def test_a_manifest_of_another_version_is_refused_whatever_its_fields(manifest):
    fields = json.loads(manifest.to_json()) | {"schema_version": "2.0", "a_new_field": 1}
    del fields["counts"]
    with pytest.raises(SchemaVersionError, match=r"^here is of schema version '2.0', but only files of version '1.2'"):
        type(manifest).from_json(json.dumps(fields), "here")


WORDS = "the ferry leaves for an island at noon while harbour staff mend nets and count crates of herring".split()  # noqa: SIM905


def _texts(count, *, words=60, seed=1):
    """Texts of sentences, of lengths that vary."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        lengths = [chance.randint(6, 14) for _ in range(chance.randint(words // 12, words // 6))]
        made.append(" ".join(" ".join(chance.choices(WORDS, k=length)).capitalize() + "." for length in lengths))
    return made


WHOLE = _texts(40)
LONG = [text for text in _texts(40, words=120) if len(text.split()) > 60]


def _bytes_cut(text, size):
    return text.replace("a", "á").encode()[:size].decode(errors="ignore")


@pytest.mark.parametrize(
    ("texts", "unit", "length"),
    [
        ([text[:150] for text in LONG], "characters", 150),
        ([text[:200] for text in WHOLE], "characters", 200),
        ([text[:197] + "..." for text in LONG], "characters", 200),
        ([text[:120] + " […]" for text in LONG], "characters", 124),
        ([" ".join(text.split()[:40]) for text in LONG], "words", 40),
        ([" ".join(text.split()[:40]) + "…" for text in LONG], "words", 40),
        ([text[: text.rfind(" ", 0, 180 + 7 * place)] + " [...]" for place, text in enumerate(LONG)], None, None),
        ([text.replace(" ", "")[:90] for text in LONG], "characters", 90),
        ([text[:200] for text in LONG[:12]] + WHOLE[:12], "characters", 200),
        ([text for text in (_bytes_cut(one, 160) for one in LONG) if len(text.encode()) == 160], "bytes", 160),
    ],
)
def test_texts_of_one_length_that_end_inside_a_sentence_are_cut(texts, unit, length):
    found = cut_passages(sample_passages(texts))
    assert (found.unit, found.length) == (unit, length)
    assert 0 < found.passages <= found.sampled == len(set(texts))
    assert "log whole passages" in str(found)


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(WHOLE, id="whole"),
        pytest.param([text.rstrip(".") for text in WHOLE], id="no full stops"),
        pytest.param([text[: 100 + 9 * place] for place, text in enumerate(LONG)], id="lengths that vary"),
        pytest.param([f"{text[:199]}." for text in LONG], id="sentence ends of one length"),
        pytest.param([f"Deck {one // 26}{chr(97 + one % 26)}" for one in range(40)], id="short texts"),
        pytest.param([f"Invoice {4000 + one} of the harbour office, due within 30 days of 2031-04-{one + 10}"
                      for one in range(20)], id="records"),
        pytest.param([LONG[0][:200]] * 50 + WHOLE[:20], id="one text again and again"),
        pytest.param([LONG[0][:200], LONG[1][:200], LONG[2][:200]], id="three"),
        pytest.param([*WHOLE, "And so on ...", "There it ends …"], id="two that trail off"),
        pytest.param([], id="none"),
    ],
)  # fmt: skip
def test_other_texts_are_not_cut(texts):
    assert cut_passages(sample_passages(texts)) is None


def test_the_sample_does_not_depend_on_how_the_texts_were_divided_or_ordered():
    texts = _texts(500)
    whole = sample_passages(texts)
    assert len(whole) == 64
    assert merge_samples([sample_passages(texts[300:]), sample_passages(texts[:350])]) == whole
    assert sample_passages(texts[:350], sample_passages(reversed(texts[300:]))) == whole
