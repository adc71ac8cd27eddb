"""The check of a log's columns: one clear error before anything starts, or the right columns are read."""

import pyarrow as pa
import pytest
from tests.logs.log_files import LOG_SCHEMA

from attribeam.logs.columns import MOST_LEVELS, ColumnMap, LogOptions, check_same_extra_fields, parse_column_mapping
from attribeam.schemas.errors import LogFormatError, UsageError


def map_of(schema, **options):
    return ColumnMap.from_schema("log.parquet", schema, LogOptions(**options))


def renamed(old, new):
    return pa.schema([(new if field.name == old else field.name, field.type) for field in LOG_SCHEMA])


def retyped(name, kind):
    return LOG_SCHEMA.set(LOG_SCHEMA.get_field_index(name), pa.field(name, kind))


def nested(levels, around):
    kind = pa.string()
    for _ in range(levels):
        kind = around(kind)
    return kind


@pytest.mark.parametrize("name", ["record_id", "question", "passages", "answer"])
def test_missing_column_is_an_error_that_names_the_columns_and_the_way_out(name):
    with pytest.raises(LogFormatError) as caught:
        map_of(renamed(name, "other"))
    for part in ("log.parquet", f"'{name}'", "the file has: ", "other", f"--columns {name}=..."):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("record_id", pa.float64(), "double"), ("question", pa.int64(), "int64"),
        ("answer", pa.list_(pa.string()), "list"), ("passages", pa.string(), "string"),
        ("passages", pa.list_(pa.int8()), "int8"),
        ("passages", pa.list_(pa.struct([("content", pa.string())])), "content"),
        ("passages", pa.list_(pa.struct([("text", pa.string()), ("title", pa.int8())])), "title: int8"),
        ("target_spans", pa.list_(pa.int32()), "int32"),
        ("target_spans", pa.list_(pa.struct([("char_start", pa.int8()), ("char_end", pa.float32())])), "float"),
        ("answered_at", pa.float64(), "double"), ("generator", pa.int8(), "int8"),
    ],
)  # fmt: skip
def test_mistyped_column_is_an_error_that_names_both_types(name, kind, found):
    with pytest.raises(LogFormatError) as caught:
        map_of(retyped(name, kind))
    for part in ("log.parquet", f"'{name}' should be", found, f"--columns {name}="):
        assert part in str(caught.value)


@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.struct([("page_content", pa.string())]))])
def test_passages_in_another_shape_are_an_error_that_names_the_import(kind):
    with pytest.raises(LogFormatError, match="make a log with `attribeam import jsonl`"):
        map_of(retyped("passages", kind))


def test_optional_columns_may_be_missing_or_null():
    needed = pa.schema([LOG_SCHEMA.field(index) for index in range(4)])
    assert [field for field, _ in map_of(needed).pairs] == ["record_id", "question", "passages", "answer"]
    assert not map_of(retyped("generator", pa.null())).has("generator")


@pytest.mark.parametrize(
    ("name", "made", "kind"),
    [
        ("answer", "response", pa.string()),
        ("answer", "generated_answer", pa.string()),
        ("answer", "prediction", pa.string()),
        ("answer", "actual_output", pa.large_string()),
        ("passages", "retrieved_contexts", pa.list_(pa.string())),
        ("passages", "retrieval_context", pa.list_(pa.string())),
    ],
)
def test_column_that_an_application_made_counts_before_the_other(name, made, kind):
    schema = LOG_SCHEMA.append(pa.field(made, kind))
    found = map_of(schema)
    assert found.column_of(name) == made
    assert found.notes == (f"{name} read from {made}, not from {name}; --columns {name}={name} names the other",)
    for options in ({"columns": ((name, name),)}, {"extra_columns": (made,)}):
        assert (map_of(schema, **options).column_of(name), map_of(schema, **options).notes) == (name, ())
    assert map_of(LOG_SCHEMA.append(pa.field(made, pa.int64()))).column_of(name) == name


@pytest.mark.parametrize(
    ("schema", "options", "problem"),
    [
        (LOG_SCHEMA, {"columns": (("generator", "writer"),)}, "'writer' is needed, there is none"),
        (LOG_SCHEMA, {"extra_columns": ("region",)}, "'region' is needed, there is none"),
        (LOG_SCHEMA.append(pa.field("answer", pa.string())), {}, "there is more than one"),
        (renamed("question", "query"), {"columns": (("answer", "reply"),)},
         r"columns 'question', 'reply' are needed.*--columns question=\.\.\.,answer="),
        (renamed("record_id", "trace_id"), {"columns": (("record_id", "trace_idd"),)},
         r"'trace_idd' is needed, .*did you mean trace_id\? name the column"),
        (renamed("answer", "response"), {"columns": (("answer", "respons"),)},
         r"did you mean response\? name the column"),
    ],
)  # fmt: skip
def test_column_that_is_needed_is_named_with_the_nearest(schema, options, problem):
    with pytest.raises(LogFormatError, match=problem):
        map_of(schema, **options)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("answer", "has: 'answer' without a column"),
        ("reply=response", "has: 'reply'"),
        ("response=answer", r"has: 'response'; did you mean answer=response\?"),
        ("answer=a,answer=b", "has 'answer' twice"),
        ("=a", "has: ''"),
        ("=answer", "has: ''"),
        ("awnser=response", r"has: 'awnser'; did you mean answer\?"),
    ],
)
def test_mapping_that_is_none_is_an_error(text, problem):
    with pytest.raises(UsageError, match=f"--columns should .*{problem}$"):
        parse_column_mapping(text)


def maps_of(kinds):
    """What each file makes of an extra column of its own type."""
    schemas = {
        f"{name}.parquet": LOG_SCHEMA.append(pa.field("region", kind)) for name, kind in zip("abc", kinds, strict=False)
    }
    return {file: map_of(schema, extra_columns=("region",)) for file, schema in schemas.items()}


@pytest.mark.parametrize("kinds", [(pa.string(), pa.int32()), (pa.int64(), pa.uint64())])
def test_extra_columns_must_have_one_type_in_all_files(kinds):
    assert [field.name for field in check_same_extra_fields(maps_of(kinds[:1]))] == ["region"]
    with pytest.raises(LogFormatError, match=rf"is {kinds[0]} in a\.parquet and {kinds[1]} in b\.parquet"):
        check_same_extra_fields(maps_of(kinds))


@pytest.mark.parametrize(
    ("kinds", "shared"),
    [
        ((pa.null(), pa.string()), pa.string()),
        ((pa.string(), pa.null()), pa.string()),
        ((pa.string(), pa.large_string(), pa.string()), pa.large_string()),
        ((pa.int32(), pa.int64(), pa.uint8()), pa.int64()),
        ((pa.float64(), pa.float32()), pa.float64()),
    ],
)
def test_extra_column_has_the_widest_type_that_files_give_it(kinds, shared):
    assert [(field.name, field.type) for field in check_same_extra_fields(maps_of(kinds))] == [("region", shared)]


@pytest.mark.parametrize(
    ("kind", "carried"),
    [
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.list_view(pa.string_view()), pa.list_(pa.string())),
        (pa.large_list_view(pa.int8()), pa.large_list(pa.int8())),
        (pa.list_(pa.string_view(), 2), pa.list_(pa.string(), 2)),
        (pa.struct([("a", pa.string_view())]), pa.struct([("a", pa.string())])),
        (pa.map_(pa.string_view(), pa.string_view()), pa.map_(pa.string(), pa.string())),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.uuid(), pa.binary(16)),
        (pa.list_(pa.struct([("a", pa.uuid())])), pa.list_(pa.struct([("a", pa.binary(16))]))),
        (nested(MOST_LEVELS, pa.list_), nested(MOST_LEVELS, pa.list_)),
    ],
)
def test_extra_column_is_carried_in_a_type_that_every_reader_knows(kind, carried):
    (field,) = map_of(LOG_SCHEMA.append(pa.field("region", kind)), extra_columns=("region",)).extra_fields
    assert field.type == carried


@pytest.mark.parametrize("within", [lambda kind: kind, pa.list_, lambda kind: pa.struct([("at", kind)])])
def test_extra_column_in_an_unknown_time_zone_is_an_error(within):
    schema = LOG_SCHEMA.append(pa.field("seen", within(pa.timestamp("us", "Nowhere/Land"))))
    with pytest.raises(LogFormatError, match=r"'seen' should have .* the time zone 'Nowhere/Land', .*--extra-columns"):
        map_of(schema, extra_columns=("seen",))


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (nested(MOST_LEVELS + 1, pa.list_), "nested more than 64 levels deep"),
        (nested(MOST_LEVELS // 2 + 1, lambda kind: pa.map_(pa.string(), kind)), "nested more than 64 levels deep"),
        (nested(2000, lambda kind: pa.struct([("a", kind)])), "nested more than 64 levels deep"),
        (pa.list_(pa.struct([("a", pa.int8()), ("a", pa.int8())])), "two members of one name"),
        (pa.struct([]), "Arrow says"),
        (pa.dense_union([pa.field("a", pa.int8())]), "Arrow says"),
        (pa.struct([(f"member {number}", pa.dense_union([])) for number in range(9000)]), "Arrow says"),
    ],
)
def test_extra_column_that_evidence_cannot_hold_is_an_error_that_names_it(kind, found):
    with pytest.raises(LogFormatError, match=f"extra column 'x' should .*{found}.*--extra-columns") as caught:
        map_of(LOG_SCHEMA.append(pa.field("x", kind)), extra_columns=("x",))
    assert len(str(caught.value)) < 1000


def test_missing_column_among_thousands_is_told_with_the_names_most_like_it():
    names = [f"feature_{number}_{'x' * 300}" for number in range(10_000)]
    schema = pa.schema([*renamed("answer", "answer_text"), *((name, pa.int8()) for name in names)])
    with pytest.raises(LogFormatError, match=r"has 10,007 columns, most like it: .*answer_text, ") as caught:
        map_of(schema)
    assert len(str(caught.value)) < 1000
