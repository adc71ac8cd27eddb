"""spaCy's own English labels lead to what Universal Dependencies lead to: the same sentences, parsed both ways by hand.

Each sentence is given as UD annotates it and as spaCy's English pipelines do ("dobj", "prep" and "pobj",
"nsubjpass", "attr" under a verbal copula, chains of conjuncts).
"""

from __future__ import annotations

import pytest
from tests.attribution.trees import tree, word_index

from attribeam.attribution.answers.answer_names import is_capitalised_as_first
from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.target_spans import choose_target_spans, is_content_word, parse_span_kinds
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.schemas import CharRange, Passage

BOTH = {
    "passive with an agent": (
        "Ships/nsubj:pass/3/NOUN were/aux:pass/3/AUX sent/root/0/VERB to/case/5/ADP Skelde/obl/3/PROPN "
        "by/case/8/ADP the/det/8/DET owners/obl:agent/3/NOUN ~./punct/3/PUNCT",
        "Ships/nsubjpass/3/NOUN were/auxpass/3/AUX sent/ROOT/0/VERB to/prep/3/ADP Skelde/pobj/4/PROPN "
        "by/agent/3/ADP the/det/8/DET owners/pobj/6/NOUN ~./punct/3/PUNCT",
    ),
    "copula": (
        "It/nsubj/4/PRON is/cop/4/AUX a/det/4/DET town/root/0/NOUN in/case/6/ADP Norway/nmod/4/PROPN "
        "known/acl/4/VERB for/case/10/ADP its/nmod:poss/10/PRON trams/obl/7/NOUN ~./punct/4/PUNCT",
        "It/nsubj/2/PRON is/ROOT/0/AUX a/det/4/DET town/attr/2/NOUN in/prep/4/ADP Norway/pobj/5/PROPN "
        "known/acl/4/VERB for/prep/7/ADP its/poss/10/PRON trams/pobj/8/NOUN ~./punct/2/PUNCT",
    ),
    "enumeration of objects": (
        "The/det/2/DET dam/nsubj/3/NOUN feeds/root/0/VERB Kalbrook/obj/3/PROPN ~,/punct/6/PUNCT Ottenby/conj/4/PROPN "
        "and/cc/8/CCONJ Ravik/conj/4/PROPN ~./punct/3/PUNCT",
        "The/det/2/DET dam/nsubj/3/NOUN feeds/ROOT/0/VERB Kalbrook/dobj/3/PROPN ~,/punct/4/PUNCT Ottenby/conj/4/PROPN "
        "and/cc/6/CCONJ Ravik/conj/6/PROPN ~./punct/3/PUNCT",
    ),
    "conjoined predicates": (
        "The/det/2/DET bridge/nsubj:pass/4/NOUN was/aux:pass/4/AUX opened/root/0/VERB in/case/6/ADP 1994/obl/4/NUM "
        "and/cc/8/CCONJ carries/conj/4/VERB trains/obj/8/NOUN ~./punct/4/PUNCT",
        "The/det/2/DET bridge/nsubjpass/4/NOUN was/auxpass/4/AUX opened/ROOT/0/VERB in/prep/4/ADP 1994/pobj/5/NUM "
        "and/cc/4/CCONJ carries/conj/4/VERB trains/dobj/8/NOUN ~./punct/4/PUNCT",
    ),
    "clauses with subjects of their own": (
        "Lee/nsubj/2/PROPN says/root/0/VERB that/mark/6/SCONJ the/det/5/DET ice/nsubj/6/NOUN melts/ccomp/2/VERB "
        "after/mark/9/SCONJ rain/nsubj/9/NOUN falls/advcl/6/VERB ~./punct/2/PUNCT",
        "Lee/nsubj/2/PROPN says/ROOT/0/VERB that/mark/6/SCONJ the/det/5/DET ice/nsubj/6/NOUN melts/ccomp/2/VERB "
        "after/mark/9/SCONJ rain/nsubj/9/NOUN falls/advcl/6/VERB ~./punct/2/PUNCT",
    ),
    "relative clause": (
        "A/det/2/DET mill/nsubj/6/NOUN that/nsubj/4/PRON burned/acl:relcl/2/VERB was/cop/6/AUX old/root/0/ADJ "
        "~./punct/6/PUNCT",
        "A/det/2/DET mill/nsubj/5/NOUN that/nsubj/4/PRON burned/relcl/2/VERB was/ROOT/0/AUX old/acomp/5/ADJ "
        "~./punct/5/PUNCT",
    ),
    "either and or": (
        "Either/cc:preconj/4/CCONJ the/det/3/DET lamp/nsubj/4/NOUN failed/root/0/VERB or/cc/7/CCONJ Ada/nsubj/7/PROPN "
        "slept/conj/4/VERB ~./punct/4/PUNCT",
        "Either/preconj/4/CCONJ the/det/3/DET lamp/nsubj/4/NOUN failed/ROOT/0/VERB or/cc/4/CCONJ Ada/nsubj/7/PROPN "
        "slept/conj/4/VERB ~./punct/4/PUNCT",
    ),
    "possessor, number and dative": (
        "Ada/nmod:poss/3/PROPN ~'s/case/1/PART firm/nsubj/4/NOUN gave/root/0/VERB Jon/iobj/4/PROPN twelve/nummod/7/NUM "
        "boats/obj/4/NOUN ~./punct/4/PUNCT",
        "Ada/poss/3/PROPN ~'s/case/1/PART firm/nsubj/4/NOUN gave/ROOT/0/VERB Jon/dative/4/PROPN twelve/nummod/7/NUM "
        "boats/dobj/4/NOUN ~./punct/4/PUNCT",
    ),
    "coordination under a preposition": (
        "She/nsubj/2/PRON lived/root/0/VERB in/case/4/ADP Bern/obl/2/PROPN and/cc/6/CCONJ Oslo/conj/4/PROPN "
        "~./punct/2/PUNCT",
        "She/nsubj/2/PRON lived/ROOT/0/VERB in/prep/2/ADP Bern/pobj/3/PROPN and/cc/4/CCONJ Oslo/conj/4/PROPN "
        "~./punct/2/PUNCT",
    ),
}


@pytest.fixture(params=BOTH.values(), ids=BOTH.keys(), name="parses")
def both_parses(request: pytest.FixtureRequest) -> tuple[str, ParsedAnswer, ParsedAnswer]:
    """The sentence, its parse by Universal Dependencies, and by spaCy's labels."""
    universal, spacy_english = request.param
    text, first = tree(universal)
    same, second = tree(spacy_english, label_scheme="spacy-english")
    assert text == same
    return text, first, second


@pytest.mark.parametrize("kinds", ["facts", "mentions", "words"])
def test_spans_are_the_same_under_both_label_schemes(
    parses: tuple[str, ParsedAnswer, ParsedAnswer], kinds: str
) -> None:
    text, *both = parses
    first, second = (
        [one.chars.of(text) for one in choose_target_spans(parsed, text, kinds=parse_span_kinds(kinds), given=None)]
        for parsed in both
    )
    assert second == first != []


def test_atomic_facts_have_the_same_content_under_both_label_schemes(
    parses: tuple[str, ParsedAnswer, ParsedAnswer],
) -> None:
    text, *both = parses
    first, second = ([_content_of_fact(text, parsed, word) for word in _content(text, parsed)] for parsed in both)
    assert second == first != []


def _content(text: str, parsed: ParsedAnswer) -> list[int]:
    return [word for word in range(len(parsed.words)) if is_content_word(parsed, word, text)]


def _content_of_fact(text: str, parsed: ParsedAnswer, word: int) -> list[str]:
    fact = AtomicFacts(parsed).words_of(word)
    return [parsed.words[one].of(text) for one in _content(text, parsed) if one in fact]


def test_facts_of_an_enumeration_are_told_apart_by_their_names() -> None:
    text, parsed = tree(BOTH["enumeration of objects"][1], label_scheme="spacy-english")
    of_names = {name: _content_of_fact(text, parsed, word_index(text, parsed, name)) for name in ("Kalbrook", "Ravik")}
    assert of_names == {"Kalbrook": ["dam", "feeds", "Kalbrook"], "Ravik": ["dam", "feeds", "Ravik"]}


def test_counted_number_and_names_are_missed_in_passages_that_lack_them() -> None:
    text, parsed = tree(BOTH["possessor, number and dative"][1], label_scheme="spacy-english")
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage(text="Ada's firm gave away boats.")])
    assert set(matcher.unmatched_values(CharRange(0, len(text)), range(1))) == {"Jon", "twelve"}


@pytest.mark.parametrize(
    "notation",
    [
        "Amid/prep/4/PROPN heavy/amod/3/ADJ rain/pobj/1/NOUN ships/nsubj/5/NOUN sank/ROOT/0/VERB",
        "Being/auxpass/2/PROPN sold/ROOT/0/VERB",
        "Neither/preconj/2/PROPN ships/nsubj/3/NOUN sank/ROOT/0/VERB",
        "Repair/ROOT/0/PROPN the/det/3/DET lamp/dobj/1/NOUN",
    ],
)
def test_first_word_that_only_its_place_makes_a_capital_is_no_name(notation: str) -> None:
    text, parsed = tree(notation, label_scheme="spacy-english")
    assert is_capitalised_as_first(parsed, 0, text)
