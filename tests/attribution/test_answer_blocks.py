from hypothesis import given
from hypothesis import strategies as st

from attribution.answer_blocks import blocks, without_marks


def texts(answer: str) -> list[str]:
    return [block.of(answer).strip() for block in blocks(answer)]


def test_markdown_and_citations_are_blanked_in_place() -> None:
    answer = "## Facts\n- **Bern** is `old` [1][2, 3].\n> See [the map](http://a.b/c)."
    masked = without_marks(answer)
    assert len(masked) == len(answer)
    assert masked.split() == ["Facts", "Bern", "is", "old", ".", "See", "the", "map", "."]
    assert masked.index("Bern") == answer.index("Bern")


def test_words_with_signs_inside_are_kept() -> None:
    answer = "snake_case - twenty-one [sic] (1) 5 > 3 #1"
    assert without_marks(answer) == answer


def test_list_numbers_are_marks_only_in_a_list() -> None:
    assert without_marks("1. Bern\n2. Basel").split() == ["Bern", "Basel"]
    assert without_marks("7. That is the answer").split()[0] == "7."


def test_blocks_are_paragraphs_items_and_headings() -> None:
    answer = "# Towns\nTwo of them:\n- Bern\n- Basel\n\nThat is\nall.\r\n\r\nBye"
    assert texts(answer) == ["# Towns\nTwo of them:", "- Bern", "- Basel", "That is\nall.", "Bye"]


def test_line_break_after_a_sentence_ends_a_block() -> None:
    assert texts("It rained.\nIt stopped\nat noon.") == ["It rained.", "It stopped\nat noon."]


@given(st.text(alphabet="ab1.*-#[]`>\n\r \t|()🎉", max_size=40))
def test_masking_keeps_places_and_blocks_cover_all_text(answer: str) -> None:
    masked = without_marks(answer)
    assert len(masked) == len(answer)
    assert all(new in (old, " ") for new, old in zip(masked, answer, strict=True))
    covered = "".join(block.of(answer) for block in blocks(answer))
    assert covered.split() == answer.split()
