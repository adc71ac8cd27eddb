"""The words that the bundled parser is trained on."""

import pytest
import spacy
from spacy.language import Language

from lab.training.parser.treebank import adapt_tokenizer


@pytest.fixture(scope="module")
def nlp() -> Language:
    pipeline = spacy.blank("en")
    adapt_tokenizer(pipeline)
    return pipeline


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Really!! No?!", "Really !! No ?!"),
        ("====== Note ******", "====== Note ******"),
        ("tea and/or milk", "tea and / or milk"),
        ("She co-founded it by e-mail.", "She co-founded it by e-mail ."),
        ("a well-known non-profit", "a well - known non-profit"),
        ("the item(s) (see 3): here", "the item ( s ) ( see 3 ) : here"),
        ("from 1837–1908", "from 1837 – 1908"),
        ("at 7:30PM", "at 7:30 PM"),
        ("Rao et al. say it", "Rao et al. say it"),
        ("I wanna go", "I wan na go"),
        ("It costs $4.50, i.e. little.", "It costs $ 4.50 , i.e. little ."),
        ("Write to a.b@c.org or see https://c.org/x?y=(1)", "Write to a.b@c.org or see https://c.org/x?y=(1 )"),
    ],
)
def test_text_is_split_into_the_treebanks_words(nlp: Language, text: str, words: str) -> None:
    assert [token.text for token in nlp(text)] == words.split()


def test_tokenizer_survives_being_saved(nlp: Language) -> None:
    text = "He co-wrote it!! And/or (perhaps)read it—twice, et al. 1990–92"
    again = spacy.blank("en").from_bytes(nlp.to_bytes())
    assert [token.text for token in again(text)] == [token.text for token in nlp(text)]


def test_tokenizer_of_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the English tokenizer"):
        adapt_tokenizer(spacy.blank("zh"))
