"""The faster spaCy pipeline: its trees are those of spaCy's own parser, its products those of thinc."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import NumpyOps, get_ops

from attribeam.attribution.answers import spacy_pipeline
from attribeam.attribution.answers.spacy_pipeline import (
    LOCKSTEP_FACTORY,
    TORCH_PRODUCTS,
    LockstepParser,
    TorchProducts,
    faster_parts,
)

BUNDLED = Path(spacy_pipeline.__file__).parents[1] / "bundled" / "parser"
TEXTS = [
    "The bridge was built in 1894, and it carries two lanes of traffic.",
    "Rain.",
    "Nobody who saw the play that evening forgot what the old actor said when the lights went out.",
    "",
    "She sold the mill to her brother; he ran it for nine years. Then it burned down.",
    "According to the guide, tickets cost $12, which the museum's own page does not say.",
    "Copper conducts heat better than iron does.",
]


@pytest.fixture(scope="module")
def plain() -> Language:
    return spacy.load(BUNDLED)


@pytest.fixture(scope="module")
def lockstep() -> Language:
    return spacy.load(BUNDLED, config=faster_parts(BUNDLED))


def trees(docs: list[Doc]) -> list[list[tuple[int, str, bool | None]]]:
    return [[(word.head.i, word.dep_, word.is_sent_start) for word in doc] for doc in docs]


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], [*TEXTS[:2], ""], ["", "", ""]])
def test_trees_are_those_of_spacys_own_parser(plain: Language, lockstep: Language, texts: list[str]) -> None:
    assert isinstance(lockstep.get_pipe("parser"), LockstepParser)
    assert trees(list(lockstep.pipe(texts))) == trees(list(plain.pipe(texts)))


def test_documents_keep_their_order_where_the_words_at_once_are_few(
    lockstep: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trees(list(lockstep.pipe(TEXTS)))
    monkeypatch.setattr(spacy_pipeline, "_WORDS_AT_ONCE", 20)
    docs = list(lockstep.pipe(TEXTS))
    assert [doc.text for doc in docs] == TEXTS
    assert trees(docs) == whole


def test_parser_of_another_kind_is_left_as_it_is(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("beam_parser", name="parser").add_label("nsubj")
    nlp.initialize()
    nlp.to_disk(tmp_path)
    assert "components" not in faster_parts(tmp_path)
    assert faster_parts(BUNDLED)["components"] == {"parser": {"factory": LOCKSTEP_FACTORY}}


NUMBERS = numpy.random.default_rng(0)


def floats(rows: int, columns: int) -> numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float32]]:
    return NUMBERS.normal(size=(rows, columns)).astype("float32")


@pytest.mark.parametrize(("trans1", "trans2"), [*product((False, True), repeat=2)])
def test_products_are_those_of_thinc(trans1: bool, trans2: bool) -> None:
    x, y = floats(*((7, 5) if trans1 else (5, 7))), floats(*((3, 7) if trans2 else (7, 3)))
    expected = NumpyOps().gemm(x, y, trans1=trans1, trans2=trans2)
    numpy.testing.assert_allclose(TorchProducts().gemm(x, y, trans1=trans1, trans2=trans2), expected, atol=1e-5)


def test_product_is_written_where_it_is_asked_for() -> None:
    x, y, out = floats(4, 6), floats(2, 6), numpy.zeros((5, 2), dtype="float32")
    TorchProducts().gemm(x, y, trans2=True, out=out[1:])
    numpy.testing.assert_allclose(out, [[0, 0], *(x @ y.T)], atol=1e-5)


def test_weights_that_may_not_be_written_are_read() -> None:
    x, y = floats(4, 6), floats(6, 2)
    y.flags.writeable = False
    numpy.testing.assert_allclose(TorchProducts().gemm(x, y), x @ y, atol=1e-5)


def test_thinc_finds_the_products_by_name() -> None:
    assert isinstance(get_ops(TORCH_PRODUCTS), TorchProducts)


def test_spacy_parses_by_itself_where_a_private_part_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spacy_pipeline, "_PRIVATE_PARTS", ("no_such_part",))
    assert "components" not in faster_parts(BUNDLED)


def test_tokenizer_without_its_languages_rules_reads_all_of_them_from_the_pipeline(lockstep: Language) -> None:
    plain = spacy.load(BUNDLED)
    assert lockstep.tokenizer.to_bytes(exclude=["vocab"]) == plain.tokenizer.to_bytes(exclude=["vocab"])
    for text in (*TEXTS, "It's 5km, isn't it? :-) See http://a.b/c?d=e (U.S.A., e.g.)"):
        assert [token.text for token in lockstep.make_doc(text)] == [token.text for token in plain.make_doc(text)]
