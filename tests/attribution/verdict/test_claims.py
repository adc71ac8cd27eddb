"""Which spans are claims, read with the bundled parser on sentences of our own."""

from dataclasses import replace

import pytest
from tests.attribution.trees import bundled_parser
from tests.attribution.verdict.judged_rows import record

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS, choose_target_spans
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.verdict.claims import answer_claims, word_kinds
from attribeam.attribution.verdict.phrases import is_bare_refusal, purpose_before, refusals
from attribeam.schemas import AnswerKind, CharRange, ClaimKind, Passage, SpanKind, TargetSpan


def claims_among(answer, spans, *, assume_language=False):
    parsed = bundled_parser().parse(answer)
    return answer_claims(parsed, answer, spans, word_kinds(parsed, record(answer), assume_language=assume_language))


def judged(answer):
    """For each span the text of the span whose claim it belongs to, and its kind."""
    spans = spans_of(answer)
    found = claims_among(answer, spans).spans
    assert len(found) == len(spans)
    texts = {index: span.chars.of(answer) for index, span in enumerate(spans)}
    return {text: (texts.get(one.claim_index), one.kind.value) for text, one in zip(texts.values(), found, strict=True)}


def spans_of(answer):
    return choose_target_spans(bundled_parser().parse(answer), answer, kinds=DEFAULT_SPAN_KINDS, given=None)


def claims_of(answer):
    return claims_among(answer, spans_of(answer))


def refused_ranges(answer):
    return word_kinds(bundled_parser().parse(answer), record(answer)).refused


def stated(answer):
    """The words that carry a claim."""
    parsed = bundled_parser().parse(answer)
    kinds = word_kinds(parsed, record(answer)).kinds
    return " ".join(word.of(answer) for word, kind in zip(parsed.words, kinds, strict=True) if kind == ClaimKind.CLAIM)


def test_a_mention_belongs_to_the_fact_around_it():
    found = judged("Mira Falk painted the harbour in 1931.")
    fact = "Mira Falk painted the harbour in 1931"
    assert found[fact] == (fact, "claim")
    assert found["Mira Falk"] == found["1931"] == (fact, "claim")


PAINTED = "Mira Falk painted the harbour in 1931."
FACTS, MENTIONS, GIVEN = SpanKind.FACTS, SpanKind.MENTIONS, SpanKind.GIVEN


@pytest.mark.parametrize(("answer", "spans", "claims"), [
    (PAINTED, [(FACTS, 0, 17), (MENTIONS, 10, 29)], [0, 0]), (PAINTED, [(FACTS, 10, 37), (MENTIONS, 0, 17)], [0, 0]),
    ("I hope that this helps you. Mira Falk painted the harbour.", [(FACTS, 0, 26), (MENTIONS, 23, 37)], [None, 1]),
    (PAINTED, [(MENTIONS, 0, 17), (MENTIONS, 10, 29), (MENTIONS, 33, 37)], [0, 0, 2]),
    ("He thinks the tower was built by monks.", [(FACTS, 0, 38), (FACTS, 10, 38)], [1, 1]),
    ("The mill was built in 1874.", [(GIVEN, 0, 12), (GIVEN, 0, 26)], [0, 1]),
], ids=["begins within a fact", "ends within a fact", "fact claims nothing", "of mentions the first",
    "fact with one word", "given spans"])  # fmt: skip
def test_a_span_across_the_edge_of_a_claim_belongs_to_it(answer, spans, claims):
    found = claims_among(answer, [TargetSpan(kind, CharRange(*chars)) for kind, *chars in spans]).spans
    assert [one.claim_index for one in found] == claims


def test_a_fact_around_another_keeps_a_claim_of_its_own():
    answer = "The baker, who was born in Oslo, opened a shop in Bergen."
    inner, outer = TargetSpan(SpanKind.FACTS, CharRange(11, 31)), TargetSpan(SpanKind.FACTS, CharRange(0, 56))
    place = TargetSpan(SpanKind.MENTIONS, CharRange(27, 31))
    found = claims_among(answer, [outer, inner, place]).spans
    assert [one.claim_index for one in found] == [0, 1, 1]
    parsed = bundled_parser().parse(answer)
    own = {parsed.words[word].of(answer) for word in found[0].words}
    assert "Bergen" in own
    assert "Oslo" not in own


def test_what_a_passage_is_said_to_state_is_the_claim():
    answer = "Passage 3 further states that the ferry stops at Noon Island."
    assert stated(answer) == "the ferry stops at Noon Island ."
    claim = "The passage says that the mill was sold in 1907 by the owner"
    found = judged(f"{claim}.")
    assert found["1907"] == found[claim] == (claim, "claim")
    (words,) = {one.words for one in claims_of(claim).spans if len(one.words) > 3}
    assert words[0] == claim.split().index("the")


@pytest.mark.parametrize("answer", [
    "Based on the given passages, the ferry stops at Noon Island.",
    "According to passage 2, the ferry stops at Noon Island.",
    "However, the documents provided mention that the ferry stops at Noon Island.",
    "The ferry stops at Noon Island (Passage 1).", "It is important to note that the ferry stops at Noon Island.",
    "Sure! The ferry stops at Noon Island.", "Assistant: The ferry stops at Noon Island.",
    "Hi Anna, the ferry stops at Noon Island.", "In a nutshell, the ferry stops at Noon Island.",
    "Short answer: The ferry stops at Noon Island.", "From what I can see, the ferry stops at Noon Island.",
    "Based on your question, the ferry stops at Noon Island.", "I found this: The ferry stops at Noon Island.",
    "I searched the documents and found that the ferry stops at Noon Island.",
    "After searching the knowledge base, I found that the ferry stops at Noon Island.",
    "Based on ferry.pdf and `noon_v2.docx`, the ferry stops at Noon Island.",
    "According to the ferry guide, the ferry stops at Noon Island.",
    "According to the retrieved chunks, the ferry stops at Noon Island.",
    "Based on my search, the ferry stops at Noon Island.", "Searching…\nThe ferry stops at Noon Island.",
    "I'm afraid that the ferry stops at Noon Island.", "According to [1], the ferry stops at Noon Island.",
    "As per [2] and [3], the ferry stops at Noon Island.",
    "In summary, the ferry stops at Noon Island, according to the second document.",
])  # fmt: skip
def test_words_about_sources_are_no_part_of_the_claim(answer):
    assert [word for word in stated(answer).split() if word.isalpha()] in (
        ["The", "ferry", "stops", "at", "Noon", "Island"],
        ["the", "ferry", "stops", "at", "Noon", "Island"],
    )
    assert claims_of(answer).kind == AnswerKind.ANSWER


@pytest.mark.parametrize("lead", ["According to KB00124, ", "KB00124 says that ", "Article KB00124 states that "])
def test_a_passage_named_by_its_id_is_no_part_of_the_claim(lead):
    answer = f"{lead}the ferry stops at Noon Island."
    row, parsed = record(answer), bundled_parser().parse(answer)
    row = replace(row, passages=(Passage("The ferry stops at Noon Island.", None, "KB00124"),))
    kinds = word_kinds(parsed, row).kinds
    claimed = [word.of(answer) for word, kind in zip(parsed.words, kinds, strict=True) if kind is ClaimKind.CLAIM]
    assert claimed == ["the", "ferry", "stops", "at", "Noon", "Island", "."]
    matcher = ValueMatcher(answer=answer, parsed=parsed, passages=row.passages)
    assert matcher.unmatched_values(CharRange(0, len(answer)), ()) == ()


@pytest.mark.parametrize("answer", [
    "I am unable to answer this question based on the given passages.",
    "The passages do not provide any details about the ferry's timetable.",
    "Unfortunately, there is no information about the price of a ticket in the provided documents.",
    "None of the passages mentions who built the pier.", "The price of a ticket is not mentioned in the passages.",
    "I'm sorry, but I cannot determine the year from the context.",
    "The provided articles don't mention how the ferry is cleaned.",
    "The help center articles do not mention a phone number.", "The documentation doesn't specify a timetable.",
    "The knowledge base doesn't contain information about this.", "The passages mention no date for the opening.",
    "The documents include no details about prices.", "The passage makes no mention of the price.",
    "Nothing in the provided context mentions the price.", "There is nothing in the documents about the price.",
    "No mention is made of a fee in the passages.", "Body size: There is no mention of it in the passages.",
    "No fee is mentioned in the passages.", "The price isn't specified.", "It's not stated when the ferry leaves.",
    "Based on the provided documents, it's unclear whether the ferry takes dogs.",
    "I'm sorry, but I don't have that information.", "I wasn't able to find the price.",
    "I don't see any information about the price.", "The answer cannot be found in the passages.",
    "This information is not available in the provided context.", "Not enough information to answer.",
    "It is difficult to give an exact answer.", "I'm not sure about that.",
    "That is outside the scope of the material.", "This is beyond my knowledge.", "No relevant passages were found.",
    "No documents found.", "I found no passages about prices.", "I checked the manual, but found nothing about noise.",
    "There isn't a definitive answer to this.", "An exact number is not given.",
    "I have not been given any information on the colour.", "I'm afraid this is not something I can answer.",
    "Could not find an answer.", "I can only answer questions about the ferry.", "Not specified.", "N/A",
    "NO_ANSWER",
    "The information you asked for is not available in the retrieved data.", "Empty response",
    "That information isn't in the data I have.", "Sorry! No relevant content was found in the knowledge base!",
    "The response was filtered by the content policy.", "A summary could not be generated for your search.",
])  # fmt: skip
def test_an_answer_that_only_refuses_is_a_refusal(answer):
    found = claims_of(answer)
    assert found.kind == AnswerKind.REFUSAL
    assert {one.kind for one in found.spans} <= {ClaimKind.REFUSAL, ClaimKind.DISCOURSE}
    assert refused_ranges(answer)
    assert all(one.claim_index is None for one in found.spans)


@pytest.mark.parametrize(("answer", "claim"), [
    ("The answer to the question is: Oslo", "Oslo"), ("* Dizziness (passages 2 & 3)", "Dizziness"),
])  # fmt: skip
def test_one_word_may_be_the_claim(answer, claim):
    assert [word for word in stated(answer).split() if word.isalpha()] == [claim]
    assert claims_of(answer).kind == AnswerKind.ANSWER
    assert ClaimKind.CLAIM in {one.kind for one in claims_of(answer).spans}


@pytest.mark.parametrize(("answer", "refused"), [
    ("Although the text does not mention a bridge, it names two ferries.", "the text does not mention a bridge"),
    ("It is old, and there is no information about who built it.", "there is no information about who built it."),
    ("The mill is old. Its exact height is not specified in the documents.", "Its exact height is not specified in"),
    ("Height: 12 m (width is not mentioned in the passages)", "width is not mentioned in the passages"),
    ("The passages do not mention a harbour, a pier, or a ferry.", "not mention a harbour, a pier, or a ferry."),
])  # fmt: skip
def test_a_refusal_takes_its_clause_and_no_more(answer, refused):
    (found,) = refused_ranges(answer)
    assert refused in found.of(answer)
    assert found.char_end - found.char_start < len(refused) + 20


@pytest.mark.parametrize(("answer", "passage", "is_refused"), [
    ("The report mentions no deaths.", "The report lists 4 deaths.", False),
    ("The report does not mention Basel.", "The report lists 4 deaths.", True),
    ("The leaflet does not mention tablets.", "This leaflet says how to take tablets.", True),
])  # fmt: skip
def test_what_passages_tell_of_a_text_is_denied_and_not_refused(answer, passage, is_refused):
    kinds = word_kinds(bundled_parser().parse(answer), record(answer, passage))
    assert bool(kinds.refused) == is_refused


def test_an_answer_that_states_and_refuses_is_partial():
    answer = "The pier was opened in 1907, but the passages do not say who built it."
    found = claims_of(answer)
    assert found.kind == AnswerKind.PARTIAL
    assert [one.of(answer) for one in refused_ranges(answer)] == ["the passages do not say who built it."]
    assert "opened" in stated(answer)
    assert "built" not in stated(answer)


@pytest.mark.parametrize(("answer", "kind"), [
    ("I hope this helps! Let me know if you have any other questions.", ClaimKind.OFFER),
    ("Which of the two boats do you mean?", ClaimKind.QUESTION),
    ("If you need further assistance, please contact our support team.", ClaimKind.OFFER),
    ("For more details, visit our help centre.", ClaimKind.OFFER),
    ("For more information, contact support.", ClaimKind.OFFER),
    ("I hope this helps you prepare for 2025!", ClaimKind.OFFER),
    ("Let me know if you have questions about Form 1040.", ClaimKind.OFFER),
    ("Good luck with your move!", ClaimKind.OFFER), ("Please contact support.", ClaimKind.OFFER),
    ("I would suggest checking with the manufacturer.", ClaimKind.OFFER),
    ("We recommend reaching out to our support team.", ClaimKind.OFFER),
    ("Please refer to the official documentation.", ClaimKind.OFFER),
    ("Please contact support for more details.", ClaimKind.OFFER),
    ("For specific pricing, please consult your dealer.", ClaimKind.OFFER),
    ("You may want to check the official website for prices.", ClaimKind.OFFER),
    ("You should speak to a qualified technician about this.", ClaimKind.OFFER),
    ("Best regards, the support team", ClaimKind.DISCOURSE), ("I don't have personal opinions.", ClaimKind.OFFER),
    ("If you need anything else, just ask!", ClaimKind.OFFER), ("Let me think step by step.", ClaimKind.DISCOURSE),
    ("Best,\nSupport Bot", ClaimKind.DISCOURSE), ("Generated by AI.", ClaimKind.OFFER),
    ("Let's break it down:", ClaimKind.DISCOURSE), ("_AI-generated content may be incorrect._", ClaimKind.OFFER),
    ("AI can make mistakes.", ClaimKind.OFFER),
    ("This answer was generated by an AI and may have errors.", ClaimKind.OFFER),
    ("Please verify important information.", ClaimKind.OFFER), ("Let me explain.", ClaimKind.DISCOURSE),
    ("Steps to reset your password:", ClaimKind.HEADING),
    ("Here are the steps to clean the filter:", ClaimKind.DISCOURSE), ("Ingredients:", ClaimKind.HEADING),
    ("To rotate the keys:", ClaimKind.HEADING), ("I found 3 relevant documents.", ClaimKind.DISCOURSE),
    ("Searching the knowledge base…", ClaimKind.DISCOURSE), ("Sources used: 2 of 3", ClaimKind.DISCOURSE),
    ("Here is what I found in your documents:", ClaimKind.HEADING), ("5 passages found.", ClaimKind.DISCOURSE),
    ("My search returned 3 results.", ClaimKind.DISCOURSE), ("There are 2 relevant documents.", ClaimKind.DISCOURSE),
    ("I searched the knowledge base and found 2 results about the pump.", ClaimKind.DISCOURSE),
    ("I've reviewed the files you uploaded.", ClaimKind.DISCOURSE),
    ("Let me check the documents.", ClaimKind.DISCOURSE), ("Documents consulted: 3", ClaimKind.DISCOURSE),
    ("I found some information about the pump in your documents.", ClaimKind.DISCOURSE), ("Yes.", ClaimKind.DISCOURSE),
    ("No", ClaimKind.DISCOURSE), ("Yes, you can.", ClaimKind.DISCOURSE), ("Unfortunately not.", ClaimKind.DISCOURSE),
    ("Based on the given passages, the answer to the question is yes.", ClaimKind.DISCOURSE),
    ("I'm sorry to hear that your visit didn't go well.", ClaimKind.DISCOURSE),
    ("Congratulations on your anniversary!", ClaimKind.DISCOURSE), ("That's a great question!", ClaimKind.DISCOURSE),
    ("It depends on a few factors.", ClaimKind.DISCOURSE), ("We appreciate your patience.", ClaimKind.DISCOURSE),
    ("I hope you recover soon!", ClaimKind.DISCOURSE),
    ("This information is not a substitute for professional medical advice.", ClaimKind.OFFER),
    ("Individual results may vary.", ClaimKind.OFFER),
    ("For the most accurate information, contact the museum.", ClaimKind.OFFER),
    ("Contact the museum for the latest information.", ClaimKind.OFFER),
    ("If the problem persists, contact customer support.", ClaimKind.OFFER),
    ("I'd recommend checking the official website before your visit.", ClaimKind.OFFER),
    ("Hi Tom!", ClaimKind.DISCOURSE), ("Hello Mrs. Patel!", ClaimKind.DISCOURSE),
    ("Good morning, Tom!", ClaimKind.DISCOURSE), ("Cheers!", ClaimKind.DISCOURSE),
    ("Best regards,\nAnna Lind\nSupport Team", ClaimKind.DISCOURSE), ("No worries!", ClaimKind.DISCOURSE),
    ("That's correct.", ClaimKind.DISCOURSE), ("Not quite.", ClaimKind.DISCOURSE), ("None", ClaimKind.DISCOURSE),
    ("It depends on your situation.", ClaimKind.DISCOURSE), ("There are several options.", ClaimKind.DISCOURSE),
    ("You have two options:", ClaimKind.HEADING), ("You can reach them in two ways:", ClaimKind.HEADING),
    ("Get well soon!", ClaimKind.OFFER), ("Happy reading!", ClaimKind.OFFER), ("Best of luck!", ClaimKind.OFFER),
    ("Please see below.", ClaimKind.OFFER), ("Please keep this in mind.", ClaimKind.OFFER),
    ("Please verify this with the library.", ClaimKind.OFFER), ("Terms may change.", ClaimKind.OFFER),
    ("Please double-check on the website.", ClaimKind.OFFER), ("Note that this may change.", ClaimKind.OFFER),
    ("For more details, visit www.ferry.example.", ClaimKind.OFFER), ("[Read more](https://a.b)", ClaimKind.OFFER),
    ("See [our price list](https://ferry.example/prices) for details.", ClaimKind.OFFER),
    ("- **Norway:** Yes.\n- **Spain:** No.", ClaimKind.DISCOURSE),
])  # fmt: skip
def test_what_claims_nothing_has_its_kind(answer, kind):
    found = claims_of(answer)
    assert {one.kind for one in found.spans} <= {kind, ClaimKind.HEADING}
    assert found.kind == AnswerKind.NO_CLAIM


@pytest.mark.parametrize("answer", [
    "He was unable to find the key to the lighthouse.", "The atmosphere is pleasant, with many seats.",
    "The sources of the river lie in the Kaltberg mountains.", "The miller did not provide bread for the army.",
    "The king offered to help the town in 1642.", "Paris", "Yes, the shop is open.",
    "If you have further questions, call the desk at 555-0100.", "If you have further questions, call 911.",
    "If you need more help within 30 days, please contact the bank.",
    "For further assistance after the trial ends, contact the sales team for a refund of up to 90%.",
    "For more information on the recall, contact Kestrel Motors in Oslo.",
    "Best regards were sent to the queen by the king of Norway.", "No fee is mentioned.",
    "There is no fee mentioned on the ticket.", "In the speech, no mention is made of the war.",
    "We do not see any details in the dark.", "The author has no children.",
    "Visit www.ferry.example and pay there.", "Let the dough rest.",
    "Dear guests pay more.", "Good morning tea is served.", "Hello Kitty is a brand.", "Prices may change in May.",
    "Please verify your identity with a passport.", "See [our page](https://a.example) to pay the fee.",
    "It depends on the dose.", "There are several options for pupils.", "Not quite 5 km.",
    "We recommend checking the filter every week.",
    "Please contact support at 555-0199.", "For orders below 50 euros, please contact the sales team.",
    "More information would help the police.", "It is hard to carry.", "The shed is outside the wall.",
    "There is no known cure.", "No injuries were reported.", "It is not clear who started the fire.",
    "The personal information is not given to third parties.", "That information was not provided by the police.",
    "This content was generated by the team in Oslo.", "AI-generated text must be marked as such in Norway.",
    "I don't see a doctor often.", "The study found 3 documents.", "I found the hotel lovely.",
    "She found nothing on the roof.", "There are two documents in the box.", "I found three texts by Homer.",
    "The police searched the files and found 3 documents.", "Searching the forest, he found a grave.",
    "Find the article about pumps.", "3 documents of 1821 were found.", "I found 3 documents in the attic.",
    "Parking: not available on Sundays.", "Contact the museum at 555 0100.", "Contact the museum.",
    "You can visit the museum for free.", "You can visit the museum for lunch.", "No. 5 is the fastest bus.",
    "Congratulations were sent by the king.", "Welcome drinks are free.", "It depends on the age of the roof.",
    "The leaflet is no medical advice.", "Results vary by region.", "If the rash persists, see a doctor.",
])  # fmt: skip
def test_statements_that_only_sound_alike_are_claims(answer):
    found = claims_of(answer)
    assert found.kind == AnswerKind.ANSWER
    assert {one.kind for one in found.spans} == {ClaimKind.CLAIM}


@pytest.mark.parametrize(("answer", "claimed"), [
    ("The policy documentation contains no exclusions for pets.", "exclusions for pets"),
    ("The documents include no photographs of children.", "photographs of children"),
    ("The article offers no discount.", "discount"), ("The document contains no signature.", "signature"),
    ("The contract cannot be found in the records.", "contract"),
    ("The shirt is not available in this material.", "shirt is not available"),
])  # fmt: skip
def test_what_a_document_lacks_is_a_claim_unless_it_is_information(answer, claimed):
    found = claims_of(answer)
    assert found.kind == AnswerKind.ANSWER
    assert not refused_ranges(answer)
    assert claimed in stated(answer)


def test_headings_steps_tables_and_code_are_no_claims():
    answer = (
        "## Cleaning\n\nStep 1: Remove the lid of the kettle.\n\n"
        "| Part | Colour |\n| --- | --- |\n| Lid | blue |\n\n```\nkettle --clean --all\n```\n"
    )
    found = judged(answer)
    assert found["Cleaning"] == (None, "heading")
    assert found["Step 1"] == (None, "heading")
    assert {kind for text, (_, kind) in found.items() if text in ("Part", "Colour", "Lid")} <= {"heading"}
    assert "blue" in stated(answer)
    assert {kind for text, (_, kind) in found.items() if "kettle --clean" in text} == {"code"}
    assert "Remove the lid of the kettle" in stated(answer)


@pytest.mark.parametrize(("answer", "claims"), [
    ("To free space: 1. Delete old models. 2. Choose a larger plan. 3. Wait for an hour.",
        ["To free space: 1. Delete old models", "Choose a larger plan", "Wait for an hour"]),
    ("Legs of the spider: 8. Legs of the crab: 10.", ["Legs of the spider: 8", "Legs of the crab: 10"]),
    ("Renting offers:\n- Few duties for the tenant", ["Few duties for the tenant"]),
    ("Ask the owner about:\n- The age of the roof", ["The age of the roof"]),
    ("`sort`: Gives the order of the result.", ["`sort`: Gives the order of the result"]),
    ('"The ferry is late," said the clerk.', ['"The ferry is late," said the clerk']),
])  # fmt: skip
def test_numbers_and_lines_before_a_list_are_no_claims_and_marks_stay_in_pairs(answer, claims):
    found = judged(answer)
    assert [text for text, (claim, _) in found.items() if text == claim] == claims


@pytest.mark.parametrize(("answer", "said"), [
    ("The plan costs $5 and includes the following:", "The plan costs $ 5"),
    ("The plan costs $5 per month and comes with:", "The plan costs $ 5 per month"),
    ("The lid must be closed, and you must follow these steps:", "The lid must be closed"),
    ("Although the plan costs more, it includes the following:", "Although the plan costs more ,"),
    ("The plan costs $5 with the following parts:", "The plan costs $ 5 with the following parts :"),
    ("To factory reset an HTC One VX, follow these steps:", ""), ("Key benefits:", ""), ("Renting offers:", ""),
    ("To rotate the keys, do the following:", ""), ("After you have signed in, you can do the following:", ""),
])  # fmt: skip
def test_before_a_list_only_the_clause_that_introduces_it_is_no_claim(answer, said):
    assert stated(answer) == said


def test_inline_code_is_part_of_the_claim_around_it():
    answer = "Start it with `kettle --boil --fast`.\n\n`kettle --stop`\n"
    found = judged(answer)
    assert found["kettle --boil --fast"][1] == "claim"
    assert found["kettle --stop"] == (None, "code")


def test_an_answer_in_another_language_is_not_judged_unless_it_is_assumed_to_be_read():
    answer = "Die Mühle wurde im Jahr 1874 von einem Müller gebaut und ist heute ein kleines Museum für Kinder."
    spans = spans_of(answer)
    found = claims_among(answer, spans)
    assert found.kind == AnswerKind.NOT_JUDGED
    assert {one.kind for one in found.spans} == {ClaimKind.LANGUAGE}
    assumed = claims_among(answer, spans, assume_language=True)
    assert assumed.kind == AnswerKind.ANSWER
    assert ClaimKind.LANGUAGE not in {one.kind for one in assumed.spans}


@pytest.mark.parametrize(("answer", "label", "fact"), [
    ("- **Warranty**: The pump has a warranty.\n- It hums.", "Warranty", "The pump has a warranty"),
    ("1. **Care:** Clean the filter every week.", "Care", "Clean the filter every week"),
    ("* __Weight__: It weighs 3 kg.", "Weight", "It weighs 3 kg"),
    ("**Zulu Prime** – It weighs 3 kg.", "Zulu Prime", "It weighs 3 kg"),
    ("- **Weight**: 3 kg\n- **Height**: 9 cm", "Weight", "3 kg"),
    ("**Warranty**\nThe pump has a warranty.", "Warranty", "The pump has a warranty"),
    ("🔧 **Warranty**\nThe pump has a warranty.", "Warranty", "The pump has a warranty"),
    ("1. **Warranty**\n   The pump has a warranty.", "Warranty", "The pump has a warranty"),
])  # fmt: skip
def test_a_bold_label_is_a_heading_and_no_part_of_the_claim_behind_it(answer, label, fact):
    found = judged(answer)
    assert found[label] == (None, "heading")
    assert found[fact] == (fact, "claim")


@pytest.mark.parametrize("mark", ["## {}", "**{}**", "1. **{}**"])
@pytest.mark.parametrize(("heading", "is_claim"), [
    ("The pump weighs 3 kg", True), ("Table 1 shows the costs", False), ("What the pump does", False),
    ("Does the pump hum?", False), ("Things you need to know", False), ("Key features include weight", False),
])  # fmt: skip
def test_a_heading_is_a_claim_where_it_states_an_amount(mark, heading, is_claim):
    assert (heading in stated(f"{mark.format(heading)}\n\nIt is loud.")) == is_claim


def test_bold_type_that_states_something_is_a_claim_and_no_asterisk_is_left_alone():
    assert "The plan costs $5" in judged("**The plan costs $5:** that is cheap.")
    assert judged("The plans are:\n- **Basic**\n- **Pro**")["Pro"] == ("Pro", "claim")
    for answer in ("The **pump** weighs **3 kg**.", "**The pump** weighs 3 kg.", "It weighs *3 kg*."):
        assert all(text.count("*") in (0, 2, 4, 8) for text in judged(answer)), answer


@pytest.mark.parametrize(("answer", "said"), [
    ("Let me know if you need form C-77, which must reach us by 15 May.", ", which must reach us by 15 May ."),
    ("Feel free to ask for more, but the office is closed on Sundays.", ", but the office is closed on Sundays ."),
    ("I hope this helps; the form costs $5.", "; the form costs $ 5 ."),
    ("Let me know if you want the form, which is needed for refunds.", ", which is needed for refunds ."),
    ("Let me know if you have any other questions, and I will be happy to help.", ""),
    ("Let me know if you need the form from 2019.", ""), ("I hope this helps, and have a great day!", ""),
    ("I'm sorry to hear that, but the shop is closed.", "but the shop is closed ."),
    ("Sorry for the delay of 3 days.", "Sorry for the delay of 3 days ."),
    ("No. Dogs stay outside.", "Dogs stay outside ."), ("* Restaurant Takeout: Yes\n* Good For Groups: Yes", "Yes Yes"),
    ("It is open (see [opening hours](https://a.example/b)).", "It is open"),
])  # fmt: skip
def test_a_courtesy_hides_no_clause_that_can_be_checked(answer, said):
    assert stated(answer) == said


@pytest.mark.parametrize(("answer", "claims"), [
    ('{"volume_l": 2, "boil_minutes": 4, "price": "$45"}', ["2", "4", "$45"]),
    ('{"answer": "The kettle holds 2 litres.", "confidence": 0.9, "page": 17, "doc_id": 55, "key": "k7"}',
        ["The kettle holds 2 litres"]),
    ('{"kettles": [{"name": "kettle", "litres": 2}, {"name": "large kettle", "litres": 3}], "score": 0.77}',
        ["kettle", "2", "large kettle", "3"]),
    ('Here is the JSON:\n\n```json\n{"guarantee": "18 months", "made_in": "Oslo"}\n```', ["18 months", "Oslo"]),
    ('{"guarantee": "18 months", "made_in": "Oslo", "maker": "Nordic St', ["18 months", "Oslo", "Nordic St"]),
    ('{"has_guarantee": true, "descale": "monthly", "colour": null, "found": false}', ["monthly"]),
    ("{'volume': '2 litres', 'boil_time': '4 minutes'}", ["2 litres", "4 minutes"]),
    ('["The kettle holds 2 litres.", "It boils in 4 minutes."]', ["The kettle holds 2 litres",
        "It boils in 4 minutes"]),
    ("| Feature | Value |\n|---|---|\n| Volume | 2 litres |\n| Guarantee | 18 months |\n| Made in | Oslo |",
        ["2 litres", "18 months", "Oslo"]),
    ("| Volume | 2 litres |\n| Guarantee | 18 months |", ["2 litres", "18 months"]),
    ("| Topic | What we know |\n|---|---|\n| Care | Descale it monthly. |\n| Maker | It was made in Oslo. |",
        ["Descale it monthly", "It was made in Oslo"]),
    ("<table><tr><th>Item</th><th>Litres</th></tr><tr><td>Kettle</td><td>2</td></tr></table>", ["2"]),
    ("```csv\nitem,litres,price\nKettle,2,$45\nLarge kettle,3,$60\n```", ["2", "$45", "3", "$60"]),
    ("Item\tLitres\nKettle\t2\nLarge kettle\t3", ["2", "3"]),
    ("```\nThe kettle holds 2 litres.\nIt boils in 4 minutes.\n```", ["The kettle holds 2 litres",
        "It boils in 4 minutes"]),
    ("```text\nguarantee: 18 months\nvolume: 2 litres\n```", ["guarantee: 18 months", "volume: 2 litres"]),
    ("```python\nkettle = Kettle(litres=9)\nkettle.boil(minutes=77)\n```", []),
    ("<think>Maybe 99 litres from Berlin? Let me check 1987.</think>The kettle holds 2 litres.",
        ["The kettle holds 2 litres"]),
    ('<details type="reasoning" done="true">\n<summary>Thought</summary>\n> 9 litres?\n</details>\nIt boils.',
        ["It boils"]),
    ('<details open> <summary> Thinking... </summary> Maybe it holds 9 litres. </details>It boils.', ["It boils"]),
    ("<details><summary>Volume</summary>\n\nIt holds 2 litres.</details>", ["Volume", "It holds 2 litres"]),
    ("Okay, so Berlin 1987 and 99 litres?\n</think>\n\nThe kettle holds 2 litres.", ["The kettle holds 2 litres"]),
    ("<think>The user asks about kettles. Maybe 99 litres from Berlin in 1987", []),
    ('<tool_call>{"name": "search", "arguments": {"query": "kettle"}}</tool_call>\nThe kettle holds 2 litres.',
        ["The kettle holds 2 litres"]),
    ("<|channel|>analysis<|message|>9?<|end|><|start|>assistant<|channel|>final<|message|>It boils.<|return|>",
        ["It boils"]),
    ("$$\\int_0^1 x^2 dx = \\frac{1}{3}$$", []),
    ("* Kettle\n    * Volume: 2 litres\n    * Guarantee: 18 months\n* Large kettle\n    * Price: $60",
        ["Volume: 2 litres", "Guarantee: 18 months", "Price: $60"]),
    ("<answer><volume>2 litres</volume><guarantee>18 months</guarantee></answer>", ["2 litres", "18 months"]),
    ("**Volume:** 2 litres  \n**Guarantee:** 18 months  \n**Confidence:** 95%", ["2 litres", "18 months"]),
    ("The kettle holds 2 litres.\n\nConfidence: 0.97", ["The kettle holds 2 litres"]),
    ("| Kettle | Guarantee | Steel |\n|---|---|---|\n| Kettle | Yes | ✓ |\n| Large kettle | N/A | ✗ |", []),
])  # fmt: skip
def test_cells_and_fields_are_claims_and_labels_thoughts_and_calls_are_none(answer, claims):
    spans = spans_of(answer)
    found = claims_among(answer, spans).spans
    assert [spans[at].chars.of(answer) for at, one in enumerate(found) if one.claim_index == at] == claims


def test_a_formula_is_not_judged_and_latex_around_words_is_read():
    assert stated("The kettle boils in 4 minutes. By $E = mc^2$ it works.").split()[-2:] == ["works", "."]
    assert "mc^2" not in stated("By $E = mc^2$ it works.")
    assert stated(r"It holds $\boxed{2 \text{ litres}}$ and costs \$45.").startswith("It holds 2 litres")


def refused(sentence):
    return [sentence[start:end] for start, end in refusals(sentence)]


def test_a_word_of_any_length_before_a_refusal_is_read_in_one_pass():
    sentence = "x" * 20_000 + " the passage does not mention it"
    assert refused(sentence) == ["the passage does not mention it"]


def test_blanks_of_any_length_before_the_last_statement_are_read_in_one_pass():
    assert purpose_before("To" + " " * 20_000 + "it," + ", " * 20_000 + "so") == 60_007


PASSAGES = [
    Passage(passage_id="p1", text="The mayor opened the hotel. The plan was not to charge for data.", title="Leaflet")
]


@pytest.mark.parametrize("clause", [
    "The leaflet does not say how quickly it works", "Our release notes don't mention any fixes",
    "The mayor's letter does not state when she left", "The report about the bridge doesn't tell us who paid",
    "The policy does not provide any information about floods", "The course guide does not give the length",
    "The timetable never mentions dogs", "The diary leaves open whether they are male",
    "The menu says nothing about nuts",
    "The product page gives no details about the price", "The forecast is silent on the weekend",
    "The price is not mentioned in the leaflet", "The doses were not specified in your policy",
    "No price is stated in the brochure", "There is no mention of sugar in the recipe",
    "Nothing in the prospectus says what it costs", "The almanac does not say when it rises",
    "Its rise is not mentioned in the almanac", "The source does not report how far away it is",
])  # fmt: skip
def test_a_text_that_goes_by_its_kind_is_silent(clause):
    assert [*refusals(f"{clause}, but it opens at nine.", PASSAGES)] == [(0, len(clause))]


@pytest.mark.parametrize("sentence", [
    "The policy does not cover floods.", "The hotel does not allow dogs.", "The hotel does not say who owns it.",
    "The leaflet does not recommend alcohol.",
    "The mayor does not say who pays.", "The speaker does not mention her age.", "The report did not say who paid.",
    "The editor of the report does not say who paid.", "The warranty does not include the cost of shipping.",
    "The plan does not include data.", "The deal is not stated in the plan.",
    "The Almanac does not say when it rises.", "The pill is not given in the morning.",
])  # fmt: skip
def test_who_does_not_say_something_and_what_does_not_do_something_is_claimed(sentence):
    assert [*refusals(sentence, PASSAGES)] == []


@pytest.mark.parametrize("answer", ["No steps.", "No references.", "No details."])
def test_an_answer_that_counts_none_is_no_refusal(answer):
    assert not is_bare_refusal(answer)


@pytest.mark.parametrize("passage", ["The map is at www.ferry.example.", "There is no map."])
def test_an_address_is_claimed_where_passages_have_some(passage):
    answer = "For more details, visit www.harbour.example."
    kinds = set(word_kinds(bundled_parser().parse(answer), record(answer, passage)).kinds)
    assert (kinds == {ClaimKind.CLAIM}) == ("www" in passage)
