from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.trees import COMPANY_SPACY_ENGLISH, COMPANY_UNIVERSAL, tree

from attribeam.attribution.answers import target_spans
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import (
    choose_target_spans,
    is_content_word,
    mention_ranges,
    parse_span_kinds,
)
from attribeam.schemas import CharRange, SpanKind, TargetSpan

EMPTY = ParsedAnswer((), (), (), (), (), ())


def texts(notation, kinds, *, label_scheme="universal"):
    text, parsed = tree(notation, label_scheme=label_scheme)
    spans = choose_target_spans(parsed, text, kinds=parse_span_kinds(kinds), given=None)
    return [span.chars.of(text) for span in spans]


def test_span_kinds_are_read_in_their_order():
    assert parse_span_kinds(" Facts,given ,facts") == (SpanKind.FACTS, SpanKind.GIVEN)


@pytest.mark.parametrize("text", ["", "facts,", "phrases"])
def test_unknown_span_kind_is_refused_with_the_allowed_ones(text):
    with pytest.raises(ValueError, match="given, sentences, facts, mentions, words"):
        parse_span_kinds(text)


def test_given_spans_are_used_exactly():
    text, parsed = tree(COMPANY_UNIVERSAL)
    given_spans = (CharRange(4, 11), CharRange(0, 3))
    chosen = choose_target_spans(parsed, text, kinds=(SpanKind.FACTS, SpanKind.GIVEN), given=given_spans)
    assert chosen == tuple(TargetSpan(SpanKind.GIVEN, chars) for chars in given_spans)


@pytest.mark.parametrize("given_spans", [None, ()])
def test_row_without_given_spans_falls_back_to_the_other_kinds(given_spans):
    text, parsed = tree(COMPANY_UNIVERSAL)
    chosen = choose_target_spans(parsed, text, kinds=(SpanKind.GIVEN, SpanKind.FACTS), given=given_spans)
    assert [span.kind for span in chosen] == [SpanKind.FACTS]


def test_equal_ranges_keep_the_first_kind():
    text, parsed = tree("Blue/amod/2/ADJ whales/root/0/NOUN")
    kinds = (SpanKind.MENTIONS, SpanKind.FACTS, SpanKind.SENTENCES)
    assert choose_target_spans(parsed, text, kinds=kinds, given=None) == (
        TargetSpan(SpanKind.MENTIONS, CharRange(0, len(text))),
    )


def test_spans_are_ordered_by_place():
    text, parsed = tree(COMPANY_UNIVERSAL)
    chosen = choose_target_spans(parsed, text, kinds=parse_span_kinds("words,facts,mentions"), given=None)
    assert [span.chars for span in chosen] == sorted({span.chars for span in chosen})


def test_answer_without_words_is_one_trimmed_span():
    assert choose_target_spans(EMPTY, " 🎉🎉\n", kinds=(SpanKind.FACTS,), given=None) == (
        TargetSpan(SpanKind.SENTENCES, CharRange(1, 3)),
    )


def test_answer_of_white_space_is_refused():
    with pytest.raises(ValueError, match="white space"):
        choose_target_spans(EMPTY, " \n", kinds=(SpanKind.FACTS,), given=None)


@pytest.mark.parametrize(("notation", "kind", "expected"), [
    pytest.param("Rain/nsubj/2/NOUN fell/root/0/VERB ~./punct/2/PUNCT || 🎉/root/0/SYM", "sentences",
        ["Rain fell."], id="sentence of marks only is no span"),
    pytest.param("The/det/2/DET cat/nsubj/3/NOUN sat/root/0/VERB on/case/5/ADP it/obl/3/PRON ~./punct/3/PUNCT",
        "words", ["cat", "sat"], id="words are the content words"),
    pytest.param(
        "She/nsubj/2/PRON wrote/root/0/VERB novels/obj/2/NOUN and/cc/5/CCONJ painted/conj/2/VERB grey/amod/7/ADJ "
        "ships/obj/5/NOUN ~./punct/2/PUNCT", "facts", ["She wrote novels", "painted grey ships"],
        id="conjoined clauses are two facts"),
    pytest.param(
        "It/nsubj/2/PRON rains/root/0/VERB we/nsubj/6/PRON hard/advmod/2/ADV and/cc/6/CCONJ sing/conj/2/VERB "
        "loudly/advmod/6/ADV", "facts", ["It rains", "we hard and sing loudly"],
        id="of facts whose words cross the earlier ends where the later begins"),
    pytest.param(
        "She/nsubj/2/PRON wrote/root/0/VERB novels/obj/2/NOUN and/cc/5/CCONJ painted/conj/2/VERB ships/obj/5/NOUN",
        "facts", ["She wrote novels and painted ships"], id="conjunct of two words is part of the fact before it"),
    pytest.param(
        "Stir/root/0/VERB until/mark/4/SCONJ water/nsubj/4/NOUN boils/advcl/1/VERB and/cc/8/CCONJ the/det/7/DET "
        "lamp/nsubj/8/NOUN glows/conj/4/VERB ~,/punct/10/PUNCT pour/conj/1/VERB it/obj/10/PRON "
        "out/compound:prt/10/ADP", "facts", ["Stir until water boils and the lamp glows", "pour it out"],
        id="what holds under a condition is no fact"),
    pytest.param("Bern/root/0/PROPN (/punct/3/PUNCT ~Berne/appos/1/PROPN ~)/punct/3/PUNCT ~./punct/1/PUNCT",
        "facts", ["Bern (Berne)"], id="closing bracket stays with its opening one"),
    pytest.param("Sales/nsubj/2/NOUN rose/root/0/VERB 3.5/nummod/4/NUM ~%/obl/2/SYM on/case/6/ADP 12/obl/2/NUM "
        "May/nmod/6/PROPN 2013/nmod/6/NUM to/case/10/ADP $/obl/2/SYM ~4/nummod/10/NUM million/nummod/10/NUM "
        "~./punct/2/PUNCT", "mentions", ["Sales", "3.5%", "12 May 2013", "$4 million"],
        id="dates and units stay whole"),
    pytest.param(
        "The/det/5/DET two/nummod/4/NUM ~-/punct/4/PUNCT ~room/compound/5/NOUN flat/nsubj/6/NOUN burnt/root/0/VERB",
        "mentions", ["The two-room flat"], id="mention takes its hyphenated words along"),
    pytest.param("🎉/discourse/2/SYM Rain/nsubj/3/NOUN fell/root/0/VERB 👍🏽/discourse/3/SYM", "facts",
        ["Rain fell"], id="emoji at an edge is left out"),
    pytest.param("The/det/2/DET cache/root/0/NOUN is/root/0/AUX in/root/0/ADP tmp/root/0/NOUN", "facts",
        ["The cache is in tmp"], id="fragments before join the fact beside them"),
    pytest.param("There/root/0/ADV ships/nsubj/3/NOUN sank/root/0/VERB", "facts", ["There ships sank"],
        id="lone adverb joins the fact behind it"),
])  # fmt: skip
def test_spans_of_a_sentence(notation, kind, expected):
    assert texts(notation, kind) == expected


def test_mentions_of_the_worked_example():
    expected = ["The company", "one million dollars", "two million dollars", "2012", "2013"]
    assert texts(COMPANY_UNIVERSAL, "mentions") == expected
    assert texts(COMPANY_SPACY_ENGLISH, "mentions", label_scheme="spacy-english") == expected


def test_entities_replace_runs_of_proper_nouns():
    text, parsed = tree("Rio/root/0/PROPN de/flat/1/X Janeiro/flat/1/PROPN Carnival/appos/1/PROPN")
    named = replace(parsed, entities=(CharRange(0, 23),))
    spans = choose_target_spans(named, text, kinds=(SpanKind.MENTIONS,), given=None)
    assert [span.chars.of(text) for span in spans] == [text]


TAGS = ["NOUN", "VERB", "AUX", "PROPN", "ADJ", "NUM", "DET", "ADP", "PRON", "PUNCT", "CCONJ", "SCONJ", "SYM", "X"]
LABELS = [
    "nsubj", "obj", "obl", "conj", "cc", "cop", "aux", "amod", "det", "case", "mark", "acl:relcl", "ccomp", "advcl",
    "parataxis", "punct", "xcomp", "nummod",
]  # fmt: skip
FORMS = ["alpha", "Beta", "7", ",", "(", ")", "**", "🎉", "東京", "القاهرة", "é", "%", "'s"]


@st.composite
def random_parses(draw):
    """Random sentences of random trees over words of several scripts, marks and emoji."""
    sentences = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 9))
        order = draw(st.permutations(range(size)))
        items = [""] * size
        for rank, word in enumerate(order):
            above = order[draw(st.integers(0, rank - 1))] + 1 if rank else 0
            glue = draw(st.sampled_from(["", "~"])) if word else ""
            label = draw(st.sampled_from(LABELS)) if rank else "root"
            form, tag = draw(st.sampled_from(FORMS)), draw(st.sampled_from(TAGS))
            items[word] = f"{glue}{form}/{label}/{above}/{tag}"
        sentences.append(" ".join(items))
    return tree(" || ".join(sentences), label_scheme=draw(st.sampled_from(["universal", "spacy-english"])))


@given(parse=random_parses())
def test_every_content_word_lies_in_a_fact(parse):
    text, parsed = parse
    facts = [span.chars for span in choose_target_spans(parsed, text, kinds=(SpanKind.FACTS,), given=None)]
    for word, chars in enumerate(parsed.words):
        if is_content_word(parsed, word, text):
            assert any(fact.char_start <= chars.char_start and chars.char_end <= fact.char_end for fact in facts), chars


@given(parse=random_parses(), kinds=st.lists(st.sampled_from(SpanKind), max_size=5, unique=True))
def test_every_answer_has_spans_that_are_neither_empty_nor_edged_by_white_space(parse, kinds):
    text, parsed = parse
    spans = choose_target_spans(parsed, text, kinds=kinds, given=None)
    assert spans
    for span in spans:
        covered = text[span.chars.char_start : span.chars.char_end]
        assert covered
        assert covered == covered.strip()


@given(parse=random_parses())
def test_no_mention_lies_within_another(parse):
    text, parsed = parse
    spans = choose_target_spans(parsed, text, kinds=(SpanKind.MENTIONS,), given=None)
    chars = [span.chars for span in spans if span.kind is SpanKind.MENTIONS]
    for one, following in pairwise(chars):
        assert one.char_start < following.char_start
        assert one.char_end < following.char_end


def test_mention_ends_at_a_bar():
    text = "|Oak | Elm"
    parsed = ParsedAnswer(
        (CharRange(1, 4), CharRange(7, 10)), (1, 1), ("compound", "root"), ("PROPN",) * 2, ("",) * 2, (0,)
    )
    spans = choose_target_spans(parsed, text, kinds=(SpanKind.MENTIONS,), given=None)
    assert [span.chars.of(text) for span in spans] == ["Oak", "Elm"]


def test_edges_of_a_hyphenated_chain_are_found_once_for_all_of_its_words(monkeypatch):
    looked_at = []
    is_hyphen = target_spans._is_hyphen_inside

    def counted(parsed, word, answer):
        looked_at.append(word)
        return is_hyphen(parsed, word, answer)

    monkeypatch.setattr(target_spans, "_is_hyphen_inside", counted)
    chain = " ".join(["Ada/root/0/PROPN", *["~-/punct/1/PUNCT ~Ada/flat/1/PROPN"] * 200])
    text, parsed = tree(chain)
    assert [chars.of(text) for chars in mention_ranges(parsed, text)] == [text]
    assert len(looked_at) < 5 * len(parsed.words)
