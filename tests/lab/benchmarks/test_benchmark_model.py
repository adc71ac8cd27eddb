"""Models to measure: a saved random model, named, is the model that was saved."""

from __future__ import annotations

import numpy as np
import pytest

from attribeam.attribution.token_attribution import TokenAttribution
from lab.benchmarks.attribution_latency import LatencyRun, Mode, measure
from lab.benchmarks.latency_methods import LATENCY_SHAPES, latency_records
from lab.benchmarks.random_model import NamedModel, RandomModel


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> NamedModel:
    return NamedModel(str(RandomModel("tiny").save(tmp_path_factory.mktemp("tiny") / "model")))


def test_named_model_attributes_as_the_model_that_was_saved(saved: NamedModel) -> None:
    record = latency_records(LATENCY_SHAPES[0], 1)[0]
    row = RandomModel("tiny").encoder().encode(record)
    found = []
    for model in (saved, RandomModel("tiny")):
        (tokens,) = model.attributor().attribute([row], [len(record.passages)])
        assert isinstance(tokens, TokenAttribution)
        found.append(tokens)
    np.testing.assert_array_equal(found[0].top_columns, found[1].top_columns)
    np.testing.assert_array_equal(found[0].passage_mass, found[1].passage_mass)


def test_named_model_is_timed_like_a_random_one(saved: NamedModel) -> None:
    """Only AttnUnion: the layers above L* were not saved."""
    found = measure(LatencyRun("attn_union", Mode.BATCHES, saved, rows=1))
    assert [(one.shape, one.rows, one.spans) for one in found] == [
        ("QuoteSum", 1, 4),
        ("ASQA", 1, 3),
        ("VERI-GRAN", 1, 1),
    ]
    assert all(one.operations > 0 and one.seconds > 0 for one in found)
