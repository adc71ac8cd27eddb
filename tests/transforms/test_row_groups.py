"""A group of rows goes through stages as a bundle of its own."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.transforms.window import GlobalWindows

from attribeam.schemas import DeadLetter, Reason, RowSource, Stage
from attribeam.transforms.dead_letters import DEAD_LETTERS
from attribeam.transforms.elements import PackRows
from attribeam.transforms.row_groups import RowGroup, RowGroupCoder, StagesOfGroup


def letter(row: int) -> DeadLetter:
    return DeadLetter("x", RowSource("log", row), Stage.PARSE, Reason.PARSE_FAILED, "no")


class RefuseOdd(beam.DoFn):
    """Refuses odd numbers at once, and 100 at the end of the bundle."""

    def process(self, number: int) -> Iterator[object]:
        yield beam.pvalue.TaggedOutput(DEAD_LETTERS, letter(number)) if number % 2 else number

    def finish_bundle(self) -> Iterator[object]:
        yield beam.pvalue.TaggedOutput(DEAD_LETTERS, GlobalWindows.windowed_value(letter(100)))


def run(group: RowGroup, *stages: beam.DoFn) -> RowGroup:
    (made,) = StagesOfGroup(stages).process(group)
    return made


def test_the_last_pack_of_a_group_leaves_with_it() -> None:
    pack = PackRows(2)
    stages = StagesOfGroup([pack])
    packs = [next(stages.process(RowGroup("chunk", tuple(range(count))))).rows for count in (3, 2, 0)]
    assert packs == [((0, 1), (2,)), ((0, 1),), ()]


def test_dead_letters_of_all_stages_stay_with_their_group() -> None:
    made = run(RowGroup("chunk", (1, 2, 3, 4), (letter(9),)), RefuseOdd(), RefuseOdd(), PackRows(10))
    assert (made.chunk, made.rows) == ("chunk", ((2, 4),))
    assert [one.source.source_row for one in made.letters] == [9, 1, 3, 100, 100]


def test_another_tag_than_that_of_dead_letters_is_an_error() -> None:
    class Other(beam.DoFn):
        def process(self, number: int) -> Iterator[object]:
            yield beam.pvalue.TaggedOutput("other", number)

    with pytest.raises(ValueError, match="'other'"):
        run(RowGroup("chunk", (1,)), Other())


def test_the_coder_pickles_a_group_and_weighs_it_without() -> None:
    coder, group = RowGroupCoder(), RowGroup("chunk", (1, 2))
    assert coder.decode(coder.encode(group)) == group == pickle.loads(pickle.dumps(group))
    assert coder.estimate_size(group) > coder.estimate_size(RowGroup("chunk", (1,)))
