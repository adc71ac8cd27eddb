from __future__ import annotations

import pytest

from attribeam.attribution.answers.citation_pointers import passage_references, reference_ranges


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("Passage 3 says so.", [2]),
        ("as in passages 1 and 3", [0, 2]),
        ("the second passage and the last document", [1, 3]),
        ("see document [2]", [1]),
        ("(Ref: Passage 4)", [3]),
        ("Passage 9 says so.", []),
        ("passage of 3 days", []),
        ("[link 2](page)", []),
        ("version 3 and step 2", []),
    ],
)
def test_references_name_passages_counted_from_one(answer: str, named: list[int]) -> None:
    assert [one.passage_index for one in passage_references(answer, 4)] == named


def test_a_reference_covers_the_words_that_name_it() -> None:
    answer = "According to the first passage, and passage 2, it is."
    found = passage_references(answer, 2)
    assert [one.chars.of(answer) for one in found] == ["the first passage", "passage 2"]
    assert tuple(one.chars for one in found) == reference_ranges(answer)
