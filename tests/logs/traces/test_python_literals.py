"""Lists as CSV files hold them: printed by Python, by JSON, or by numpy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.logs.traces import values as python_literals
from attribeam.logs.traces.values import printed_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(value=st.lists(VALUES, max_size=5))
def test_list_that_python_printed_is_read_back(value: list[object]) -> None:
    assert printed_value(repr(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["a", null]', ["a", None]),
        ("['it\\'s', \"o'clock\"]", ["it's", "o'clock"]),
        ("[nan, 'b', -1.5]", [None, "b", -1.5]),
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        (
            "[HumanMessage(content='Who?', metadata=None)]",
            [{"type": "HumanMessage", "content": "Who?", "metadata": None}],
        ),
        ("  [ ]", []),
        ("a text", None),
        ("", None),
        ("{'a': 1}", {"a": 1}),
        ("{'a': array(['x'], dtype=object)}", {"a": ["x"]}),
        ("[Note] The pump", None),
        ("[1] The pump", None),
        ("[1]: the pump, see [2]", None),
        ("[A](https://pump.example) says so", None),
        ("['Quoted'] remark", None),
        ('["Quoted"] remark', None),
        ("['Tis] the season", None),
        ("[[Warranty]] The pump", None),
        ("[...] and the pump [...]", None),
        ("{name} is replaced", None),
        ("[x for x in y]", None),
        ("[" * 5000, None),
    ],
)
def test_what_other_writers_print(text: str, expected: list[object] | None) -> None:
    assert printed_value(text) == expected


@pytest.mark.parametrize(
    "text",
    ["['cut, 'off'", "['a' 'b']", "['a'\n 'b']", "[open('x')]", "[__import__('os')]", "['" * 5000 + "]"],
)
def test_what_is_no_list_is_an_error_and_runs_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"list|plain value"):
        printed_value(text)


def test_list_of_python_is_limited_and_one_of_json_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_literals, "_MOST_LITERAL_CHARS", 100)
    assert printed_value(f'["{"x" * 200}"]') == ["x" * 200]
    with pytest.raises(ValueError, match="no JSON and has more than 100 characters"):
        printed_value(f"['{'x' * 200}']")
