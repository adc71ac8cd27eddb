import pytest

from lab.benchmarks.markdown_table import markdown_table


def test_first_column_is_flush_left_and_the_others_flush_right():
    assert markdown_table(("method", "F1"), [["words", "4.5"]]) == "| method | F1 |\n| --- | ---: |\n| words | 4.5 |"


def test_padded_columns_line_up():
    table = markdown_table(("rows", "MiB"), [["10", "1,024"], ["10,000", "9"]], padded=True)
    assert table.splitlines() == [
        "| rows   |   MiB |",
        "| ------ | ----: |",
        "| 10     | 1,024 |",
        "| 10,000 |     9 |",
    ]


def test_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="rows should have 2 cells like the header"):
        markdown_table(("a", "b"), [["1"]])
