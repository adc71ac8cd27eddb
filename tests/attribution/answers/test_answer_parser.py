"""The answer parser, and what it gives to a spaCy pipeline."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc
from tests.attribution.trees import bundled_parser

from attribeam.attribution.answers.answer_parser import BUNDLED_PARSER, AnswerParser, parser_input, word_ranges
from attribeam.attribution.answers.parsed_answer import LONGEST_SENTENCE, ParsedAnswer, cut_sentences, sentence_bounds
from attribeam.attribution.answers.target_spans import choose_target_spans, parse_span_kinds
from attribeam.schemas import CharRange


@Language.component("chain_words")
def chain_words(doc):
    """Hang each token on the one before it, and end a sentence after each full stop."""
    words = [token.text for token in doc]
    starts = [place == 0 or words[place - 1] == "." for place in range(len(words))]
    return Doc(
        doc.vocab,
        words=words,
        spaces=[bool(token.whitespace_) for token in doc],
        heads=[place if start else place - 1 for place, start in enumerate(starts)],
        deps=["ROOT" if start else "DEP" for start in starts],
        pos=["PUNCT" if token.is_punct else "SPACE" if token.is_space else "NOUN" for token in doc],
    )


def chaining_pipeline():
    nlp = spacy.blank("en")
    nlp.add_pipe("chain_words", name="parser")
    return nlp


@pytest.fixture(scope="module")
def parser():
    return AnswerParser(chaining_pipeline(), identity="chain")


def forms(text, parsed):
    return [chars.of(text) for chars in parsed.words]


def test_white_space_is_no_word_and_heads_pass_it_by(parser):
    text = "Rain   fell \n here"
    parsed = parser.parse(text)
    assert forms(text, parsed) == ["Rain", "fell", "here"]
    assert parsed.dependency_heads == (0, 0, 1)
    assert parsed.dependency_labels == ("root", "dep", "dep")
    assert parsed.universal_tags == ("NOUN", "NOUN", "NOUN")


def test_heads_stay_within_their_sentence_and_block(parser):
    parsed = parser.parse("It rained. It stopped.\n\n- Sun\n- Moon")
    assert parsed.sentence_starts == (0, 3, 6, 7)
    assert parsed.dependency_heads == (0, 0, 1, 3, 3, 4, 6, 7)


@pytest.mark.parametrize("text", ["", " \n", "[1]", "**"])
def test_text_without_words_has_an_empty_parse(parser, text):
    assert replace(parser.parse(text), marks=()) == ParsedAnswer((), (), (), (), (), ())


def test_answers_keep_their_order_in_batches(parser):
    texts = [f"Answer {number}.\n\nNo more." if number % 3 else "" for number in range(11)]
    together = list(parser.parse_many(texts, batch_size=4))
    assert together == [parser.parse(text) for text in texts]


def test_parses_arrive_one_batch_at_a_time(parser):
    parses = parser.parse_many(["One.", "Two."], batch_size=1)
    assert isinstance(parses, Iterator)
    assert len(next(parses).words) == 2
    assert parser.parse("Three words here").sentence_starts == (0,)  # while the other is not read to its end


def test_threads_may_share_a_parser():
    parser = AnswerParser.from_pretrained("bundled")
    texts = [f"Ferry{number} left the quay of Town{number}, and {number} cars waited for it." for number in range(48)]
    expected = list(parser.parse_many(texts))
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(parser.parse, texts)) == expected


def test_answer_longer_than_spacys_limit_is_parsed(parser):
    text = ("a" * 200 + " ") * 5_100
    assert len(parser.parse(text).words) == 5_100


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(alphabet="aé東京مصر🎉👩‍🚀 .,*[1]\n-#'’", max_size=60))
def test_words_and_spans_are_ranges_of_the_answer(parser, text):
    parsed = parser.parse(text)
    places = [chars.char_start for chars in parsed.words]
    assert places == sorted(places)
    assert all(form.strip() == form and form for form in forms(text, parsed))
    assert all(0 <= head < len(parsed.words) for head in parsed.dependency_heads)
    if text.strip():
        for span in choose_target_spans(parsed, text, kinds=parse_span_kinds("facts,mentions"), given=None):
            assert span.chars.of(text).strip() == span.chars.of(text) != ""


def test_pipeline_without_a_parser_is_refused():
    with pytest.raises(ValueError, match="component named 'parser'"):
        AnswerParser(spacy.blank("en"), identity="blank")


def test_directory_loads_and_its_identity_follows_its_files(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("parser").add_label("dobj")
    nlp.initialize()
    nlp.to_disk(tmp_path / "one")
    first = AnswerParser.from_pretrained(str(tmp_path / "one"))
    assert first.parse("Rain fell").label_scheme == "spacy-english"
    (tmp_path / "one" / "MODEL_CARD.md").write_text("Words about the model decide nothing.")
    assert first.identity == AnswerParser.from_pretrained(str(tmp_path / "one")).identity
    nlp.meta["version"] = "9.9"
    nlp.to_disk(tmp_path / "one")
    assert AnswerParser.from_pretrained(str(tmp_path / "one")).identity != first.identity
    assert first.identity.startswith("en_pipeline@0.0.0+sha256:")


def bundled_spans(text, kind):
    spans = choose_target_spans(bundled_parser().parse(text), text, kinds=parse_span_kinds(kind), given=None)
    return [span.chars.of(text) for span in spans]


MARKDOWN_ANSWERS = [
    "Before the glaze:\n\n1. **Sieve** the ash twice.\n2. **Mix** it with water [1].\n3. Let it rest.",
    "1. Fill the tank [2].", "Do this next:\n\n2. **Mix** the clay with sand.",
    "- **Colour**: dark red\n- **Weight**: 40 kg [2]\n  - with the lid: 45 kg\n* Origin: Norvik",
    "## Kiln rules\n\n> The kiln must cool [3].\n> Nobody opens it.\n\n---\n\n### Fees\nA firing costs **12 euros**.",
    "| Kiln | Heat |\n|:---|---:|\n| Old oak | 1,200 °C |\n| Big Tom | **950 °C** |\n\nBoth burn wood.",
    "Run this:\n\n```bash\npip install kilnlog==4.8.2\n```\n\nThen open `http://localhost:80/kilns` in a browser.",
    "<p>Open the <b>kiln</b>.</p><ul><li>Wait &amp; see</li></ul>",
]  # fmt: skip


@pytest.mark.parametrize("answer", MARKDOWN_ANSWERS)
@pytest.mark.parametrize("kind", ["facts", "mentions", "sentences", "words"])
def test_no_span_of_a_markdown_answer_is_edged_by_a_mark(answer, kind):
    spans = bundled_spans(answer, kind)
    assert spans
    for written in spans:
        span = written.strip("*") if written.count("*") % 2 == 0 else written  # bold type that is closed
        assert span[0] not in "*_`#>|[<~-", span
        assert not span.endswith(("*", "_", "`", "|", "[", "<", "~", "[1]", "[2]", "[3]")), span
        assert span not in ("1.", "2.", "3.", "1", "3", "p", "b", "amp")


def test_inline_code_is_one_word_and_a_name():
    text = "The log is in `~/.local/share/kiln log/x`, set `KILN_LOG=*` to move it."
    parsed = bundled_parser().parse(text)
    tags = dict(zip(forms(text, parsed), parsed.universal_tags, strict=True))
    assert tags["~/.local/share/kiln log/x"] == tags["KILN_LOG=*"] == "PROPN"
    assert {"is", "in", "~/.local"}.isdisjoint(bundled_spans(text, "facts"))


def test_merged_words_have_the_range_of_all_of_them():
    text = "In  New   York, too"
    doc, words = parser_input(spacy.blank("en"), text, char_start=5, whole=())
    with doc.retokenize() as merging:
        merging.merge(doc[1:3])
    assert [word.of(" " * 5 + text) for word in word_ranges(doc, words)] == ["In", "New   York", ",", "too"]


def test_text_without_an_end_is_cut_and_the_answer_says_where(parser):
    text = "It rained. " + " ".join(["word"] * (2 * LONGEST_SENTENCE + 1)) + ". It cleared."
    parsed = parser.parse(text)
    assert max(end - start for start, end in sentence_bounds(parsed)) == LONGEST_SENTENCE
    assert parsed.cut_starts == (3 + LONGEST_SENTENCE, 3 + 2 * LONGEST_SENTENCE)
    assert [chars.of(text) for chars in cut_sentences(parsed)] == [text[len("It rained. ") : -len(" It cleared.")]]


def test_tokeniser_never_meets_a_longer_run_of_marks_than_it_can_split_fast():
    given = []
    nlp = chaining_pipeline()
    tokenise = nlp.make_doc
    nlp.make_doc = lambda text: (given.append(len(text)), tokenise(text))[1]
    text = "((a" * 1000 + " rain fell"
    parsed = AnswerParser(nlp, identity="chain").parse(text)
    assert max(given) <= 500 + len(" rain fell")
    assert "".join(forms(text, parsed)) == text.replace(" ", "")


def test_inline_code_is_looked_up_and_not_searched_for_each_word(parser, monkeypatch):
    compared = []
    overlaps = CharRange.overlaps
    monkeypatch.setattr(CharRange, "overlaps", lambda one, other: (compared.append(one), overlaps(one, other))[1])
    parsed = parser.parse("`a` " * 300)
    assert parsed.universal_tags == ("PROPN",) * 300
    assert len(compared) < 10 * 300


@pytest.fixture
def saved_pipeline(tmp_path):
    return Path(shutil.copytree(BUNDLED_PARSER, tmp_path / "own_parser"))


@pytest.mark.parametrize(("file", "content"), [
    ("meta.json", b"[]"), ("meta.json", b"[" * 100_000), ("config.cfg", b"[nlp"),
    ("config.cfg", b'[nlp]\nlang = "en"\n[nlp.before_creation]\n@callbacks = "no.such.callback"\n'),
    ("parser/model", b"\0garbage"), ("tokenizer", b"zz"), ("config.cfg", None),
])  # fmt: skip
def test_broken_directory_is_an_error_that_names_it_and_the_way_out(saved_pipeline, file, content):
    (saved_pipeline / file).unlink() if content is None else (saved_pipeline / file).write_bytes(content)
    named = r"own_parser.* fails with \w+: .*; save it again .* another with --parser"
    with pytest.raises(ValueError, match=named) as caught:
        AnswerParser.from_pretrained(str(saved_pipeline))
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize("file", ["config.cfg", "meta.json", "parser/model", "vocab/key2row"])
def test_directory_with_a_pipe_is_refused_before_anything_waits_for_it(saved_pipeline, file):
    (saved_pipeline / file).unlink(missing_ok=True)
    os.mkfifo(saved_pipeline / file)
    with pytest.raises((ValueError, FileNotFoundError), match=r"own_parser"):
        AnswerParser.from_pretrained(str(saved_pipeline))


def test_directory_of_an_absurd_size_is_refused_before_anything_is_allocated(saved_pipeline):
    config = saved_pipeline / "config.cfg"
    config.write_text(config.read_text().replace("\nwidth = 128", f"\nwidth = {10**9}"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.cfg: width should be at most 16,777,216, was: 1000000000"):
        AnswerParser.from_pretrained(str(saved_pipeline))


def test_directory_that_loads_and_cannot_parse_is_named(saved_pipeline, monkeypatch):
    def fail(_, text):
        raise IndexError(f"no weights for {len(text)} code points")

    monkeypatch.setattr(AnswerParser, "parse", fail)
    with pytest.raises(ValueError, match=r"own_parser.* fails with IndexError: no weights"):
        AnswerParser.from_pretrained(str(saved_pipeline))
