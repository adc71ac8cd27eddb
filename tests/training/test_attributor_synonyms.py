"""Other wordings of the attributor's training rows: inflection, the lexicon, and where a reworded word goes back to."""

import random

import pytest
import torch
from tokenizers import Tokenizer, models

from training import attributor_wording
from training.attributor_answer import AnswerWriter
from training.attributor_corpus import Corpus, Page
from training.attributor_synonyms import alternatives, opposite_wording, opposites, other_wording, phrase_length
from training.attributor_wording import FILLERS, NO_SOURCE, Answer, Wording
from training.inflection import noun_forms, verb_forms
from training.lexicon_groups import FORMS_BY_FILE, LEXICON, antonym_pairs, lexicon_lines, word_groups
from training.lexicon_vectors import draw_together, like_tokens

FILES = {
    "verbs.txt": "# verbs\n\nsend back, return\ncarry out, do\n",
    "nouns.txt": "town, place  # settlements\npoint of view, opinion\n",
    "modifiers.txt": "swift, rapid\n",
    "antonyms.txt": "v: increase, decrease\nn: friend, enemy\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("lemma", "forms"),
    [
        ("send back", "send back/sends back/sent back/sent back/sending back"),
        ("carry out", "carry out/carries out/carried out/carried out/carrying out"),
        ("stop", "stop/stops/stopped/stopped/stopping"),
        ("open", "open/opens/opened/opened/opening"),
        ("rewrite", "rewrite/rewrites/rewrote/rewritten/rewriting"),
        ("lie", "lie/lies/lay/lain/lying"),
        ("refer", "refer/refers/referred/referred/referring"),
        ("offer", "offer/offers/offered/offered/offering"),
        ("go on", "go on/goes on/went on/gone on/going on"),
        ("panic", "panic/panics/panicked/panicked/panicking"),
        ("free", "free/frees/freed/freed/freeing"),
        ("visit", "visit/visits/visited/visited/visiting"),
    ],
)
def test_verbs_are_inflected_at_their_first_word(lemma: str, forms: str) -> None:
    assert "/".join(verb_forms(lemma)) == forms


@pytest.mark.parametrize(
    ("lemma", "plural"),
    [
        ("city", "cities"), ("day", "days"), ("box", "boxes"), ("policewoman", "policewomen"), ("crisis", "crises"),
        ("human", "humans"), ("power station", "power stations"), ("point of view", "points of view"),
        ("church", "churches"), ("leaf", "leaves"), ("equipment", None),
    ],
)  # fmt: skip
def test_nouns_are_inflected_at_their_last_word(lemma: str, plural: str | None) -> None:
    assert noun_forms(lemma) == (lemma, plural)


def test_noun_that_is_plural_already_has_no_singular() -> None:
    assert noun_forms("premises") == (None, "premises")


def test_groups_are_read_with_past_beside_past_and_plural_beside_plural(folder) -> None:
    groups = list(word_groups(folder))
    assert ("sent back", "returned") in groups
    assert ("carrying out", "doing") in groups
    assert ("points of view", "opinions") in groups
    assert ("towns", "places") in groups
    assert ("swift", "rapid") in groups
    assert list(antonym_pairs(folder))[3:] == [
        ("increased", "decreased"), ("increasing", "decreasing"), ("friend", "enemy"), ("friends", "enemies")
    ]  # fmt: skip


def test_antonym_line_without_its_letter_is_refused(folder) -> None:
    (folder / "antonyms.txt").write_text("hot, cold\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected 'v\|n\|m: word, word'"):
        list(antonym_pairs(folder))


def test_every_bundled_group_has_two_lemmas_or_more() -> None:
    for name in FORMS_BY_FILE:
        assert [line for line in lexicon_lines(LEXICON / name) if "," not in line] == []


def test_no_word_stands_for_itself_or_for_its_opposite() -> None:
    assert len(alternatives()) > 5000
    for word, others in alternatives().items():
        assert word not in [other.lower() for other in others]
        assert not set(others) & set(opposites().get(word, ()))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("two weeks", "14 days"), ("a year", "twelve months"), ("half", "50 percent"), ("a dozen", "twelve"),
        ("twelve", "a dozen"), ("14 days", "two weeks"), ("two", "2"), ("3 million", "3,000,000"),
    ],
)  # fmt: skip
def test_quantities_have_other_wordings(text: str, other: str) -> None:
    assert other in alternatives()[text]


def test_marks_and_first_capital_are_kept_and_abbreviations_left_alone() -> None:
    rng = random.Random(0)
    assert other_wording("Twenty-one,", rng) == "21,"
    assert other_wording("21.", rng) == "twenty-one."
    assert other_wording("US", rng) is None
    opposite = opposite_wording("Increased,", rng)
    assert opposite is not None
    assert opposite[0].isupper()
    assert opposite.endswith(",")


def test_word_that_is_noun_and_verb_is_read_by_the_word_before_it() -> None:
    drawn = {other_wording("plant", random.Random(seed), behind="to") for seed in range(40)}
    assert "sow" in drawn
    assert "sow" not in {other_wording("plant", random.Random(seed), behind="the") for seed in range(40)}


def test_longest_known_phrase_is_found() -> None:
    assert phrase_length(["two", "weeks", "later"]) == 2
    assert phrase_length(["carried", "out,", "then"]) == 2
    assert phrase_length(["zorb", "weeks"]) == 0


def test_sources_of_a_reworded_word_point_into_it() -> None:
    for seed in range(60):
        answer = Answer()
        Wording(random.Random(seed), noise=4.0).write_word(answer, "started", 100)
        assert all(100 <= source < 107 for source in answer.sources) or answer.claims


def test_sources_of_a_reworded_phrase_point_into_it_and_not_at_a_space() -> None:
    said = set()
    for seed in range(30):
        answer = Answer()
        count = Wording(random.Random(seed), noise=4.0).write_phrase(answer, ["two", "weeks", "ago"], [50, 54, 60])
        assert count in (0, 2)
        assert set(answer.sources) <= set(range(54, 59))
        said.add(answer.text)
    assert len(said) > 2


def test_opposites_are_unsupported_claims(monkeypatch) -> None:
    monkeypatch.setattr(attributor_wording, "OPPOSITE_SHARE", 1.0)
    answer = Answer()
    Wording(random.Random(1)).write_word(answer, "increased", 10)
    assert answer.text in opposites()["increased"]
    assert set(answer.sources) == {NO_SOURCE}
    assert answer.claims == [(0, len(answer.text), False)]


def test_fillers_go_back_to_the_word_beside_them() -> None:
    fillers = 0
    for seed in range(200):
        answer = Answer()
        Wording(random.Random(seed), noise=4.0).write_word(answer, "zorb", 30)
        fillers += answer.text.split()[0] in FILLERS
        assert all(30 <= source < 34 for source in answer.sources)
    assert fillers > 20


def test_names_keep_their_words_unless_they_begin_a_sentence() -> None:
    corpus = Corpus([Page("Arvik", [["nothing here"]])])
    prompt = "Arvik saw the Great March. Great fires came."
    writer = AnswerWriter(prompt, [[(0, len(prompt))]], unsaid=(), corpus=corpus, rng=random.Random(0))
    assert [writer._is_name(prompt.index(word)) for word in ("Great", "March", "Great fires", "came")] == [
        True, True, False, False
    ]  # fmt: skip


def test_heavily_reworded_answers_depend_on_the_seed_alone(monkeypatch) -> None:
    monkeypatch.setattr("training.attributor_answer.NOISES", (4.0,))
    corpus = Corpus([Page("Arvik", [["nothing here"]])])
    prompt = "The town began to build a large school. It carried out many tests for two weeks in a year."
    drawn = [
        AnswerWriter(prompt, [[(0, 39), (40, 90)]], unsaid=(), corpus=corpus, rng=random.Random(seed)).write(
            char_budget=400
        )
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_words_of_like_sense_and_ways_to_write_a_word_are_paired() -> None:
    tokenizer = Tokenizer(models.WordLevel({"Ġdoctor": 0, "Doctor": 1, "Ġphysician": 2, "Ġriver": 3}, unk_token=None))
    pairs = like_tokens(tokenizer, [("doctor", "physician", "medical man"), ("river", "stream")])
    assert pairs == [(0, 1), (0, 2), (1, 0), (2, 0)]


def test_vectors_of_paired_tokens_come_nearer_and_keep_their_lengths() -> None:
    vectors = torch.randn(6, 32, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 7)[:, None]
    drawn = draw_together(vectors, [(0, 1), (1, 0)])
    similarity = torch.nn.functional.cosine_similarity
    assert similarity(drawn[0], drawn[1], dim=0) > similarity(vectors[0], vectors[1], dim=0) + 0.3
    torch.testing.assert_close(drawn.norm(dim=1), vectors.norm(dim=1))
    torch.testing.assert_close(drawn[2:], vectors[2:])


def test_without_pairs_vectors_stay() -> None:
    vectors = torch.ones(2, 3)
    assert draw_together(vectors, []) is vectors
