"""Evidence in a notebook: all that a span says, in the report's colours, and no text of a log as markup."""

import re
from dataclasses import replace

import pytest
from tests.report.made_audit import ANSWER, Page, bare_span, made_record, supported_span, told_spans, unsupported_span

from attribeam.schemas import AnswerKind, CharRange, ClaimKind, EvidencePiece, Passage, Support, UnsupportedReason
from attribeam.schemas.evidence_html import Explanation, answer_html, cut, span_html

ATTACK = "<script>window.hacked = 1</script><img src=x onerror=alert(1)>\"'&</style><b>$x^2$"


class Fragment(Page):
    def __init__(self, text):
        self.open = []
        super().__init__(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self.open:
            super().handle_data(data)

    @property
    def text(self):
        return "".join(self.texts)


def answer():
    return made_record("log.parquet", 0), (supported_span(), unsupported_span())


def hostile():
    chars = CharRange(0, len(ATTACK))
    passages = (Passage(ATTACK, ATTACK, ATTACK),)
    record = replace(made_record("l", 0, answer=ATTACK), question=ATTACK, passages=passages)
    pieces = tuple(EvidencePiece(0, ATTACK, in_title, chars, ATTACK, 1.0) for in_title in (True, False))
    told = {"reason": UnsupportedReason.OTHER_ENTITY, "expected": ATTACK, "unsupported_words": (CharRange(0, 8),)}
    found = {"evidence": pieces, "passage_scores": (2.0,), "top_passage_index": 0}
    values = (ATTACK, "<b>")
    return record, (bare_span(ATTACK, ATTACK, Support.UNSUPPORTED, unmatched_values=values, **found, **told),)


def test_an_answer_is_shown_with_question_claims_and_passages():
    record, spans = answer()
    page = Fragment(answer_html(record, spans))
    texts = (one.text for one in record.passages)
    for text in (record.question, ANSWER, "2 claims", "unsupported", "supported", *texts, "Timetable", "pier-1"):
        assert text in page.text


def test_a_span_is_shown_with_its_verdict_and_evidence():
    span = unsupported_span()
    page = Fragment(span._repr_html_())
    assert page.text.startswith(span.text)
    assert f"not in the passages: {', '.join(span.unmatched_values)}" in page.text
    assert [one["class"] for one in page.all("b")] == ["verdict unsupported"]
    assert all(piece.text in Fragment(supported_span()._repr_html_()).text for piece in supported_span().evidence)


def test_a_verdict_says_why():
    quoted, other = (Fragment(span_html(one)).text for one in told_spans())
    assert "supported quoted, " in quoted
    assert "unsupported other value — evidence says: twelve, " in other


def test_the_value_that_no_passage_has_is_struck_out_in_answer_and_claim():
    record, spans = answer()
    struck = re.findall(r"<s title=[^>]*>([^<]*)</s>", answer_html(record, spans))
    assert struck == ["40", "40"]


def test_the_words_that_speak_against_a_claim_are_marked():
    start = ANSWER.index("cars")
    span = replace(unsupported_span(), unmatched_values=(), unsupported_words=(CharRange(start, start + 4),))
    assert re.findall(r"<em title=[^>]*>([^<]*)</em>", span_html(span)) == ["cars"]


def test_a_piece_of_the_answer_has_the_support_of_the_shortest_span_around_it():
    record, (supported, unsupported) = answer()
    whole = bare_span(ANSWER, ANSWER, Support.WEAK, 2)
    shown = answer_html(record, (whole, supported, unsupported))
    pieces = re.findall(r'<span class="seg (\w+) [^"]*">(.*?)</span>', shown)
    assert ("supported", supported.text) in pieces
    assert ("weak", "The ferry ") in pieces


def test_evidence_in_a_passage_is_lit_by_its_claim():
    record, spans = answer()
    text = answer_html(record, spans)
    lit = re.findall(r"\.attribeam:has\(\.c(\d+):hover\) \.e\1\{", text)
    assert lit == [str(one.span_index) for one in sorted(spans, key=lambda one: one.chars)]
    for piece in spans[0].evidence:
        assert f'<mark class="e{spans[0].span_index}">{piece.text}</mark>' in text


def test_risk_and_an_unusual_kind_of_answer_are_told():
    record, spans = answer()
    assert "kind of answer" not in Fragment(answer_html(record, spans)).text
    partial = tuple(replace(span, answer_kind=AnswerKind.PARTIAL, answer_risk=0.375) for span in spans)
    assert "kind of answer: partial, risk 0.38" in Fragment(answer_html(record, partial)).text


def test_what_claims_nothing_stands_apart():
    record, (supported, unsupported) = answer()
    heading = replace(unsupported, support=Support.NO_CLAIM, claim_kind=ClaimKind.HEADING, claim_index=None)
    page = Fragment(answer_html(record, (supported, heading)))
    assert "1 claim" in page.text
    assert "1 not judged, or no claim" in page.text


@pytest.mark.parametrize(
    "shown", [lambda one: answer_html(*one), lambda one: span_html(one[1][0])], ids=["answer", "span"]
)
def test_hostile_texts_are_shown_as_the_texts_that_they_are(shown):
    page = Fragment(shown(hostile()))
    allowed = {"div", "style", "p", "span", "s", "em", "b", "bdi", "details", "summary", "ul", "li", "mark", "section"}
    assert {tag for tag, _ in page.tags} <= allowed
    assert [tag for tag, _ in page.tags].count("style") == 1
    assert {name for _, attrs in page.tags for name in attrs} <= {"class", "dir", "title", "open"}
    assert page.text.count("window.hacked = 1") >= 3
    assert ATTACK in page.text


def test_nothing_is_loaded_and_nothing_runs():
    text = Explanation(*answer())._repr_html_()
    assert re.findall(r"url\(|https?:|@import|<script|\bon\w+=", text) == []


def test_pieces_of_a_cut_text_are_the_text_and_know_what_covers_them():
    pieces = [*cut("🦊 abcd", [(2, 5, "x"), (3, 6, "y"), (4, 99, "beyond"), (3, 3, "empty")])]
    assert pieces == [("🦊 ", ()), ("a", ("x",)), ("bc", ("x", "y")), ("d", ("y",))]
    assert [*cut("", [(0, 1, "x")])] == []
