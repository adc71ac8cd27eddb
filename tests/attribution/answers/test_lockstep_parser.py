from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from attribution.answers import lockstep_parser
from attribution.answers.lockstep_parser import LOCKSTEP_FACTORY, LockstepParser, lockstep_overrides

BUNDLED = Path(lockstep_parser.__file__).parents[1] / "bundled" / "parser"
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
    return spacy.load(BUNDLED, config=lockstep_overrides(BUNDLED))


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
    monkeypatch.setattr(lockstep_parser, "_WORDS_AT_ONCE", 20)
    docs = list(lockstep.pipe(TEXTS))
    assert [doc.text for doc in docs] == TEXTS
    assert trees(docs) == whole


def test_parser_of_another_kind_is_left_as_it_is(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("beam_parser", name="parser").add_label("nsubj")  # type: ignore[attr-defined]
    nlp.initialize()
    nlp.to_disk(tmp_path)
    assert lockstep_overrides(tmp_path) == {}
    assert lockstep_overrides(BUNDLED) == {"components": {"parser": {"factory": LOCKSTEP_FACTORY}}}
