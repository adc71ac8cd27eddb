"""Ten pages written for the tests of the attributor's recipe, and a small tokenizer of their text."""

import pytest
from tokenizers import Tokenizer

from lab.data_files import PageText
from lab.training.attributor.corpus import Corpus, make_corpus
from lab.training.attributor.network import train_tokenizer

PLACES = ["Arvik", "Belmora", "Corden", "Dunhaven", "Elsby", "Farrow", "Glimsund", "Hartwell", "Ismere", "Jorvale"]
TRADES = ["a glass works", "a whaling station", "a school for pilots", "an observatory", "a salt mine"]


def pages() -> list[PageText]:
    """Ten pages of three paragraphs on towns that do not exist."""
    return [
        PageText(
            place,
            [
                f"{place} is a harbour town on the river Lund. It was founded in {1500 + 13 * index} by Queen Ysolde. "
                f"The town grew quickly because of {TRADES[index % 5]}, which closed {index + 3} years later.",
                f"A fire destroyed most of {place} in {1700 + 7 * index}. The mayor, Ansel {PLACES[-index]}, rebuilt "
                "it. Its market hall was copied from the one in the capital.",
                f"Today {place} has {1000 + 311 * index} inhabitants. Naïve visitors ask for “old {place}” – gone.",
            ],
        )
        for index, place in enumerate(PLACES)
    ]


@pytest.fixture(scope="package")
def corpus() -> Corpus:
    return make_corpus(pages())


@pytest.fixture(scope="package")
def tokenizer(corpus: Corpus) -> Tokenizer:
    return train_tokenizer(corpus.texts(), vocabulary_size=600)
