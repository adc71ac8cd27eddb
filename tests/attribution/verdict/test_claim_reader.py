"""The reader of claims: what it reads of a claim and its premise, and what it makes of them."""

import numpy as np
import pytest
import torch
from tests.attribution.verdict.judged_rows import parse, record
from tokenizers import Tokenizer

from attribeam.attribution.verdict.claim_reader import READER_FILES, ClaimReader, ReaderInput, is_read, load_reader
from attribeam.attribution.verdict.claims import word_kinds
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, Premise
from attribeam.attribution.verdict.texts import AnswerWords, PassageSentences
from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT
from attribeam.schemas import Passage
from attribeam.schemas.errors import DataError
from lab.training.verdict.cross_encoder import padded_inputs
from lab.training.verdict.reader import Reader, reader_weights

ANSWER = "Rooms are cheap. The ferry leaves at noon, and it carries forty cars. Ask at the desk."
TOKENIZER = Tokenizer.from_file(str(BUNDLED_VERDICT / READER_FILES[1]))
SENTENCES = PassageSentences(
    [
        Passage("A bus waits. The ferry to Aln leaves at noon. It has a café. Nobody swims.", "Ferries"),
        Passage("Forty cars fit on the deck."),
    ]
)


def premise(*others, sentence=2, **numbers):
    found = np.zeros(len(PREMISE_NUMBERS), dtype=np.float32)
    for name, number in numbers.items():
        found[PREMISE_NUMBERS.index(name)] = number
    window = () if sentence is None else tuple(SENTENCES.window(sentence))
    return Premise(found, sentence, window, others=others)


@pytest.fixture(scope="module")
def reader():
    return load_reader(BUNDLED_VERDICT)


def text_of(ids):
    return TOKENIZER.decode(list(ids), skip_special_tokens=False)


def own_text(claim):
    return text_of(tuple(claim.sentence[place] for place in claim.own))


def inputs(reader, answer, start, end, of):
    parsed = parse(answer)
    words = [place for place, word in enumerate(parsed.words) if start <= word.char_start and word.char_end <= end]
    kinds = word_kinds(parsed, record(answer), assume_language=True).kinds
    (found,) = reader.inputs(AnswerWords(parsed, answer, kinds), [(words, of)], SENTENCES)
    return found


def test_claim_is_read_in_its_sentence_beside_its_window_and_two_more_sentences(reader):
    claim = inputs(reader, ANSWER, ANSWER.index("it carries"), ANSWER.index(". Ask"), premise(5))
    assert text_of(claim.sentence) == "the ferry leaves at noon, and it carries forty cars."
    assert own_text(claim) == "it carries forty cars"
    assert text_of(claim.premise) == (
        "ferries a bus waits. the ferry to aln leaves at noon. it has a cafe. [SEP] forty cars fit on the deck."
    )


@pytest.mark.parametrize(("answer", "start", "sentence", "own"), [
    ("The ferry leaves at noon [1], and it carries forty cars [2, 3].", "it carries",
        "the ferry leaves at noon, and it carries forty cars.", "it carries forty cars."),
    *((one, "The", "the ferry leaves at noon.", "the ferry leaves at noon.")
        for one in ("The ferry leaves at noon", "The ferry leaves at noon [1]")),
    ("According to the passage, the ferry leaves at noon.", "the ferry", *["the ferry leaves at noon."] * 2),
], ids=["citation marks", "no mark at the end", "citation mark at the end", "words that lead a claim"])  # fmt: skip
def test_marks_and_words_that_lead_a_claim_are_not_read_but_a_full_stop_is(reader, answer, start, sentence, own):
    claim = inputs(reader, answer, answer.index(start), len(answer), premise())
    assert text_of(claim.sentence) == sentence
    assert own_text(claim) == own


def test_names_of_special_tokens_in_a_text_are_text(reader):
    claim = inputs(reader, "Rooms [SEP] are cheap.", 0, 5, premise())
    assert TOKENIZER.token_to_id("[SEP]") not in claim.sentence


def test_long_sentence_is_read_around_the_claim(reader):
    answer = "We saw " + "old " * 300 + "ships and " + "new " * 300 + "boats."
    at = answer.index("ships")
    claim = inputs(reader, answer, at, at + 5, premise())
    assert len(claim.sentence) == 64
    assert own_text(claim) == "ships"


@pytest.mark.parametrize(("of", "read"), [
    (premise(best=1.0, run=0.9), False), (premise(best=1.0, run=0.5), True), (premise(best=0.6, run=0.9), True),
    (premise(sentence=None), False),
])  # fmt: skip
def test_claim_that_a_sentence_has_in_its_order_is_not_read(reader, of, read):
    assert is_read(of) is read
    claim = inputs(reader, ANSWER, 0, ANSWER.index("."), of)
    assert bool(claim.premise) is read
    assert bool(reader.log_odds([claim])[0]) is read


def test_reading_is_that_of_the_trained_module_whatever_is_read_beside_it():
    torch.manual_seed(5)
    vectors = torch.randn(TOKENIZER.get_vocab_size(), 24)
    scales = vectors.abs().amax(1) / 127
    stored = (vectors / scales[:, None]).round().to(torch.int8)
    trained = Reader(stored * scales.half()[:, None]).half().float().eval()
    draw = np.random.default_rng(5)
    claims = [
        ReaderInput(
            tuple(draw.integers(5, 900, length).tolist()),
            np.arange(start, length),
            (),
            tuple(draw.integers(5, 900, other).tolist()),
        )
        for start, length, other in ((0, 4, 30), (3, 9, 5), (1, 20, 200))
    ]
    weights = reader_weights(trained, stored.numpy(), scales.half().numpy())
    reader = ClaimReader({name: torch.from_numpy(one) for name, one in weights.items()}, TOKENIZER)
    with torch.inference_mode():
        expected = trained(*padded_inputs(claims)).numpy()
    assert np.ptp(expected) > 0.001
    np.testing.assert_allclose(reader.log_odds(claims), expected, atol=2e-4)


@pytest.mark.parametrize("name", READER_FILES)
@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_file_that_is_no_reader_is_an_error_that_names_it(tmp_path, name, content):
    for one in READER_FILES:
        (tmp_path / one).write_bytes((BUNDLED_VERDICT / one).read_bytes())
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        load_reader(tmp_path)
