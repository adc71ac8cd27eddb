"""The evidence of target spans by hand, and the two thresholds of support."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.made_rows import made_attribution, made_row
from tests.attribution.trees import COMPANY_UNIVERSAL, tree

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.evidence.union_results import decide_support, evidence_records, union_results
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP, MethodOptions
from attribeam.schemas import CharRange, Passage, QARecord, RowSource, SpanKind, Support, TargetSpan

UNION = MethodOptions(method=ATTN_UNION, token_evidence=True)
DEP = MethodOptions(method=ATTN_UNION_DEP, token_evidence=True)


@dataclass
class Row:
    """A row whose prompt is a BOS, then title and text of each passage, one token a word; responses likewise."""

    passages: list[Passage]
    answer: str
    parsed: ParsedAnswer
    columns: list[tuple[int, bool, int, int]] = field(default_factory=lambda: [(-1, False, 0, 0)])
    empty_token_at: int | None = None

    def __post_init__(self):
        for index, passage in enumerate(self.passages):
            for in_title, text in ((True, passage.title or ""), (False, passage.text)):
                self.columns += [(index, in_title, start, end) for start, end in _token_ranges(text)]

    def evidence(self, attention, *spans, settings=UNION):
        """Evidence of the spans where response token i attends to these (column, similarity) pairs."""
        tokens = _token_ranges(self.answer)
        if self.empty_token_at is not None:
            place = tokens[self.empty_token_at][0]
            tokens.insert(self.empty_token_at, (place, place))
        encoded = made_row(
            [one[0] for one in self.columns],
            responses=tokens,
            columns=[one[2:] for one in self.columns],
            titles=[place for place, one in enumerate(self.columns) if one[1]],
        )
        top = made_attribution(attention, len(self.passages))
        results = union_results(
            answer=self.answer,
            passages=self.passages,
            parsed=self.parsed,
            spans=spans,
            encoded=encoded,
            tokens=top,
            settings=settings,
        )
        return evidence_records(
            record=QARecord("r", "?", tuple(self.passages), self.answer, RowSource("f", 0)),
            parsed=self.parsed,
            spans=[TargetSpan(SpanKind.GIVEN, chars) for chars in spans],
            results=results,
            thresholds=settings,
        )


def _token_ranges(text):
    """Words with the blank before them, as byte-level tokenizers cut."""
    ranges, start = [], 0
    for word in text.split(" ") if text else []:
        ranges.append((max(start - 1, 0), start + len(word)))
        start += len(word) + 1
    return ranges


RAIN = "Rain/nsubj/2/NOUN fell/root/0/VERB here/advmod/2/ADV"
PASSAGES = [Passage("heavy rain fell", "Weather", "a"), Passage("snow lay here", None, "b")]


def rain():
    answer, parsed = tree(RAIN)
    return Row(PASSAGES, answer, parsed)


ATTENTION = [[(2, 0.4), (3, 0.2)], [(3, 0.5), (0, 0.3)], [(7, 0.8), (6, 0.1)]]


def tokens(span):
    """The score of each evidence token."""
    found = {}
    for token in span.token_evidence or ():
        passage = PASSAGES[token.passage_index]
        found[token.chars.of((passage.title or "") if token.in_title else passage.text).strip()] = token.score
    return found


RUNS = "Rain/nsubj/2/NOUN fell/root/0/VERB ~,/punct/2/PUNCT snow/dislocated/2/NOUN here/advmod/2/ADV ~./punct/2/PUNCT"


def test_sentence_counts_in_the_passage_decision_and_nowhere_else():
    answer, parsed = tree(RUNS)
    row = Row(PASSAGES, answer, replace(parsed, dependency_heads=tuple(range(len(parsed.words)))))  # no atomic facts
    attention = [[(3, 0.2), (4, 0.1)], [(4, 0.2), (3, 0.1)], [(5, 0.9), (6, 0.3)], [(7, 0.9), (6, 0.3)]]
    (alone,) = row.evidence(attention, CharRange(0, 9), settings=DEP)
    (span,) = row.evidence(attention, CharRange(0, 9), settings=DEP.replaced(sentence_weight=0.2))
    tokens = 2  # of the span; each brings a fifth of the sentence's scores
    assert alone.passage_scores == pytest.approx((0.6, 0.0))
    assert span.passage_scores == pytest.approx((0.6 + tokens * 0.2 * 0.6, tokens * 0.2 * 2.4))
    assert (alone.top_passage_id, span.top_passage_id) == ("a", "b")
    assert (span.evidence, span.evidence_mass) == (alone.evidence, alone.evidence_mass)


def test_sentence_gives_no_passage_to_a_span_without_evidence():
    attention = [[(0, 0.9)], [(0, 0.9)], [(5, 0.9)]]
    answer, parsed = tree(RAIN)
    row = Row(PASSAGES, answer, replace(parsed, dependency_heads=(0, 1, 2)))
    (span,) = row.evidence(attention, CharRange(0, 9), settings=DEP.replaced(sentence_weight=0.2))
    assert (span.top_passage_index, span.margin, span.passage_scores) == (None, None, (0.0, 0.0))


def test_words_decide_where_attention_is_divided_and_count_nowhere_else():
    attention = [[(3, 0.2), (4, 0.1)], [(4, 0.2), (3, 0.1)], [(7, 0.9), (6, 0.4)]]
    row = rain()
    place = row.answer.index("here")
    near = [[(7, 0.3), (6, 0.1)], [(6, 0.1), (7, 0.2)], [(3, 0.4), (4, 0.45)]]
    (alone,) = row.evidence(near, CharRange(place, place + 4), settings=DEP)
    (span,) = row.evidence(near, CharRange(place, place + 4), settings=DEP.replaced(word_weight=1.0))
    first, second = alone.passage_scores
    total = first + second
    assert (alone.top_passage_id, span.top_passage_id) == ("a", "b")
    # "here" stands in "snow lay here" alone; of the sentence's words "rain" and "fell" are a run in the other
    assert span.passage_scores == pytest.approx((first + total * 4 / 5, second + total * (1 + 1 / 5 + 1)))
    assert (span.token_evidence, span.evidence_mass) == (alone.token_evidence, alone.evidence_mass)
    (plain,) = row.evidence(
        near, CharRange(place, place + 4), settings=DEP.replaced(word_weight=1).with_paper_weights()
    )
    assert plain == alone
    (union,) = row.evidence(attention, CharRange(place, place + 4), settings=UNION.replaced(word_weight=1.0))
    assert union.passage_scores == pytest.approx((0.0, 1.3))


def test_evidence_outside_the_best_window_of_its_passage_is_left_out():
    attention = [[(2, 0.3), (3, 0.2)], [(4, 0.4), (1, 0.1)], [(5, 0.1), (7, 0.5)]]
    row = rain()
    (span,) = row.evidence(attention, CharRange(0, 14), settings=UNION.replaced(isolation_tau=9, evidence_window=2))
    assert tokens(span) == pytest.approx({"Weather": 0.1, "rain": 0.2, "fell": 0.4, "here": 0.5})
    assert span.passage_scores == pytest.approx((0.2 + 0.4 + 0.1, 0.5))  # the title counts always


@pytest.mark.parametrize("settings", [UNION, DEP.replaced(word_weight=1.0)], ids=["union", "with words"])
def test_span_without_evidence_is_unsupported_and_has_no_passage(settings):
    (span,) = rain().evidence([[(0, 0.9), (1, 0.0)]] * 3, CharRange(0, 4), settings=settings)
    assert (span.evidence, span.passage_scores) == ((), (0.0, 0.0))
    assert (span.top_passage_index, span.top_passage_id, span.margin) == (None, None, None)
    assert (span.evidence_mass, span.evidence_isolated, span.support) == (0.0, False, Support.UNSUPPORTED)


def test_span_that_no_token_overlaps_has_no_evidence():
    (span,) = rain().evidence([[(2, 0.6), (3, 0.3)]] * 3, CharRange(14, 15), settings=DEP)
    assert (span.evidence, span.evidence_mass, span.support) == ((), 0.0, Support.UNSUPPORTED)


def test_token_without_code_points_is_in_no_span():
    row = rain()
    with_empty = Row(PASSAGES, row.answer, row.parsed, empty_token_at=1)
    attention = [ATTENTION[0], [(6, 0.9), (7, 0.05)], *ATTENTION[1:]]
    for settings in (UNION, DEP):
        assert with_empty.evidence(attention, CharRange(0, 9), settings=settings) == row.evidence(
            ATTENTION, CharRange(0, 9), settings=settings
        )


def test_more_spans_than_are_done_at_once_are_the_same_as_each_alone():
    spans = [CharRange(start, end) for start in range(13) for end in range(start + 1, 15)]
    together = rain().evidence(ATTENTION, *spans, settings=DEP)
    assert [span.span_index for span in together] == list(range(len(spans)))
    for span, chars in zip(together, spans, strict=True):
        (alone,) = rain().evidence(ATTENTION, chars, settings=DEP)
        assert replace(span, span_index=0, claim_index=0) == alone


def test_tokens_are_recorded_only_when_asked_for_and_change_nothing_else():
    (asked,) = rain().evidence(ATTENTION, CharRange(0, 9), settings=DEP)
    (span,) = rain().evidence(ATTENTION, CharRange(0, 9), settings=MethodOptions(method=ATTN_UNION_DEP))
    assert span.token_evidence is None
    assert replace(asked, token_evidence=None) == span
    assert [(token.passage_index, token.in_title) for token in asked.token_evidence or ()] == [(0, False)] * 2 + [
        (1, False)
    ] * 2


def test_ties_go_to_the_first_passage():
    (span,) = rain().evidence([[(4, 0.25), (5, 0.25)]] * 3, CharRange(0, 4))
    assert (span.top_passage_index, span.margin) == (0, 0.0)


def test_token_of_no_word_counts_itself():
    answer, parsed = tree(RAIN)
    row = Row(PASSAGES, f"{answer} **", parsed)
    attention = [*ATTENTION, [(2, 0.5), (3, 0.25)]]
    (span,) = row.evidence(attention, CharRange(15, 17), settings=DEP)
    assert span.passage_scores == pytest.approx((0.75, 0.0))
    assert span.atomic_fact == (CharRange(15, 17),)


def test_atomic_fact_ranges_leave_irrelevant_conjuncts_out():
    answer, parsed = tree(COMPANY_UNIVERSAL)
    row = Row(PASSAGES, answer, parsed)
    start = answer.index("one")
    (span,) = row.evidence(
        [[(2, 0.5), (3, 0.25)]] * len(_token_ranges(answer)), CharRange(start, start + 3), settings=DEP
    )
    assert [chars.of(answer) for chars in span.atomic_fact] == [
        "The company earned one million dollars", "in 2012", "respectively",
    ]  # fmt: skip


@st.composite
def attentions(draw):
    pair = st.lists(st.integers(0, 7), min_size=2, max_size=2, unique=True)
    score = st.sampled_from([0.0, 0.0625, 0.125, 0.5])
    return [[(column, draw(score)) for column in draw(pair)] for _ in range(17)]


@given(
    attention=attentions(), words=st.tuples(st.integers(0, 14), st.integers(1, 3)), own_token_weight=st.integers(1, 5)
)
def test_augmented_scores_are_the_naive_sums(attention, words, own_token_weight):
    answer, parsed = tree(COMPANY_UNIVERSAL.replace("~", ""))  # one token a word
    row = Row(PASSAGES, answer, parsed)
    first, end = words[0], words[0] + words[1]
    chars = CharRange(parsed.words[first].char_start, parsed.words[end - 1].char_end)
    settings = DEP.replaced(isolation_tau=float("inf"), own_token_weight=own_token_weight)
    (span,) = row.evidence(attention, chars, settings=settings)
    expected = [0.0, 0.0]
    for word in range(first, end):
        for other in [*AtomicFacts(parsed).words_of(word), *[word] * (own_token_weight - 1)]:
            for column, score in attention[other]:
                if column:
                    expected[row.columns[column][0]] += score
    assert span.passage_scores == pytest.approx(expected)
    assert sum(token.score for token in span.token_evidence or ()) == pytest.approx(sum(expected))
    assert sum(piece.score for piece in span.evidence) <= sum(expected) * (1 + 1e-9)
    for piece in span.evidence:
        passage = PASSAGES[piece.passage_index]
        assert piece.text == piece.chars.of((passage.title or "") if piece.in_title else passage.text)
    assert 0 <= span.evidence_mass <= 1


SETTINGS = MethodOptions(supported_threshold=0.5, weak_threshold=0.25)


@pytest.mark.parametrize(("mass", "support"), [
    (1.0, Support.SUPPORTED), (0.5, Support.SUPPORTED), (0.49, Support.WEAK), (0.25, Support.WEAK),
    (0.24, Support.UNSUPPORTED), (0.0, Support.UNSUPPORTED),
])  # fmt: skip
def test_support_falls_at_its_two_thresholds_and_with_an_unmatched_value(mass, support):
    assert decide_support(mass, False, SETTINGS) is support
    assert decide_support(mass, True, SETTINGS) is Support.UNSUPPORTED


def test_spans_of_a_cut_sentence_say_so():
    text, parsed = tree("Rain/nsubj/2/NOUN fell/root/0/VERB || Hail/nsubj/2/NOUN fell/root/0/VERB || Snow/root/0/NOUN")
    row = Row([Passage("rain hail snow")], text, replace(parsed, cut_starts=(2,)))
    spans = row.evidence([[(1, 0.5)]] * 5, *(parsed.words[word] for word in (0, 3, 4)))
    assert [span.sentence_cut for span in spans] == [True, True, False]
