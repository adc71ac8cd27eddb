"""Ways to cite and to point at passages, and brackets that are part of what an answer says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.answers.citation_marks import citation_marks
from attribeam.attribution.answers.citation_pointers import passage_references, reference_ranges
from attribeam.schemas import Passage

KETTLE = Passage(
    "The kettle holds two litres and boils in four minutes. Descale it monthly.", "Kettle Guide", "kettle.pdf"
)
RULES = Passage("Dogs may stay on the terrace. Breakfast ends at 11:30.", "House Rules", "docs/house_rules.md")
HOURS = Passage("Smith and Lee counted guests in 2019.", "https://help.example.com/hours", "4711")
PASSAGES = (KETTLE, RULES, HOURS)


def shown(answer, passages=PASSAGES):
    """The answer without its marks, blanks and space before full stops evened out."""
    characters = list(answer)
    for mark in citation_marks(answer, passages):
        characters[mark.chars.char_start : mark.chars.char_end] = " " * (mark.chars.char_end - mark.chars.char_start)
    return " ".join("".join(characters).split()).replace(" .", ".").replace(" ,", ",")


MARKS = [
    # Numbers in brackets of all kinds
    ("[1]", [0]), ("[2, 3]", [1, 2]), ("[1-3]", [0, 1, 2]), ("[1, 2-3]", [0, 1, 2]), ("[1][3]", [0, 2]),
    ("[1] [2]", [0, 1]), ("[1], [2]", [0, 1]), ("[[2]]", [1]), ("[^2]", [1]), ("[^1^]", [0]),
    ("[^1^][^2^]", [0, 1]), ("[1;2]", [0, 1]), ("[1 & 2]", [0, 1]), ("(1)", [0]), ("(1, 2)", [0, 1]),
    ("【1】", [0]), ("【2†source】", [1]), ("【4:0†kettle.pdf】", [0]), ("【1†L3-L9】", [0]), ("[2†source]", [1]),
    ("〔1〕", [0]), ("［2］", [1]), ("⟦3⟧", [2]), ("{1}", [0]), ("{{cite:2}}", [1]), ("{{1}}", [0]), ("<1>", [0]),
    ("<<2>>", [1]), ("<|1|>", [0]), ("#2", [1]), ("*1", [0]), ("¹", [0]), ("² ³", [1, 2]), ("¹⁻³", [0, 1, 2]),
    ("¹,²", [0, 1]), ("⁽²⁾", [1]), ("[¹]", [0]), ("^2", [1]), ("^[1]", [0]), ("^{2}", [1]), ("$^{1}$", [0]),
    ("†", []),
    # Words and numbers
    ("[doc1]", [0]), ("[Doc 2]", [1]), ("[Document 1]", [0]), ("(Doc 3, p. 12)", [2]),
    ("[doc_2]", [1]), ("[doc 1, doc 2]", [0, 1]), ("[Source: 2]", [1]), ("(Source 2)", [1]),
    ("(Sources 1 and 3)", [0, 2]), ("(Source 9)", []), ("(Sources: 1, 2)", [0, 1]), ("[Passage 3]", [2]),
    ("(see Passage 1)", [0]), ("(context 3)", [2]),
    ("(Excerpt 1)", [0]), ("[Snippet 2]", [1]), ("[Search Result 1]", [0]), ("[citation:3]", [2]),
    ("[cite: 1]", [0]), ("[cite_start:1]", []), ("[Ref. 17]", []), ("(Ref 2)", [1]),
    ("[ref:1]", [0]), ("[Reference 2]", [1]), ("[S1]", [0]), ("[D2]", [1]), ("[chunk_001]", []), ("[Chunk 2]", [1]),
    ("[node 1]", [0]), ("[web:1]", [0]), ("[Evidence 1]", [0]), ("(Quelle: Dokument 2)", [1]),
    ("[Dokument 1, Seite 3]", [0]), ("(Fuente 2)", [1]), ("(Fonte: documento 1)", [0]),
    ("（来源：文档2）", [1]), ("[出典: 3]", [2]), ("<doc1>", [0]), ("{doc2}", [1]),
    # Ids, files, titles
    ("[4711]", [2]), ("[ID: 4711]", [2]), ("(ID: 4711)", [2]), ("[ID: 99]", []), ("[doc_id: 4711]", [2]),
    ("[KB-0042]", []), ("(KB-0042)", []), ("[a3f9c21e-77b0]", []), ("[kettle.pdf]", [0]), ("(kettle.pdf)", [0]),
    ("[kettle.pdf#page=7]", [0]), ("[kettle.pdf:7]", [0]), ("[kettle.pdf, page 7]", [0]),
    ("(kettle.pdf, p. 7)", [0]), ("(kettle.pdf, pp. 7-9)", [0]), ("[kettle-7.pdf]", [0]), ("[kettle]", [0]),
    ("[other.pdf]", []), ("[1:kettle.pdf]", [0]), ("[1: kettle.pdf, p. 2]", [0]), ("[1] kettle.pdf", [0]),
    ("[house_rules.md]", [1]), ("[docs/house_rules.md]", [1]), ("(house_rules.md §3)", [1]),
    ("[files/v2/kettle.pdf]", [0]), ("[files/v2/other.md:12-18]", []), ("[kb/other_v2.pdf::chunk_3]", []),
    ("[C:\\files\\kettle.pdf]", [0]), ("(./docs/house_rules.md#L4)", [1]), ("(#4711)", [2]), ("【4711†L3-L9】", [2]),
    ("[doc_index: 2]", [1]), ("[00:12:31]", []),
    ("[Kettle Guide]", [0]), ("(Kettle Guide)", [0]), ("[House Rules, Section 2]", [1]),
    ("(House Rules, p. 4)", [1]), ("(see House Rules)", [1]), ("[[House Rules]]", [1]),
    ("(Source: House Rules)", [1]), ("(Source: Staff Handbook 2021, chapter 3)", []),
    ("(Staff Handbook, p. 12)", []), ("(Source: `kettle.pdf`)", [0]), ("*(Source: kettle.pdf)*", [0]),
    ("(📄 kettle.pdf)", [0]), ("(siehe kettle.pdf, S. 7)", [0]), ("(voir kettle.pdf, p. 7)", [0]),
    # Places alone
    ("(p. 7)", []), ("[p. 12]", []), ("(page 7)", []), ("(pp. 3–5)", []), ("(Section 3.2)", []),
    ("(see Section 4)", []), ("(§ 4)", []), ("[§4.2(b)]", []), ("(Table 3)", []), ("(Fig. 2)", []),
    ("(Seite 7)", []), ("(pág. 7)", []), ("(Page not specified)", []), ("(page number not provided)", []),
    ("(source not specified)", []), ("[citation needed]", []), ("(ibid.)", []),
    # Authors
    ("(Jones et al., 2020)", []), ("(Smith & Lee, 2019)", [2]), ("(Smith and Lee, 2019, p. 4)", [2]),
    ("(Smith, 2019; Jones, 2021)", [2]), ("(cf. Jones 2020, p. 14)", []), ("[Jones, 2020]", []),
    ("[Jones 2020]", []), ("[@jones2020]", []), ("[@jones2020, p. 3]", []), ("\\cite{jones2020}", []),
    ("~\\citep[p. 3]{jones2020}", []),
    # Addresses
    ("[1](https://example.org/a/2024)", [0]), ("[[1]](https://example.org/a)", [0]),
    ("[[1](https://example.org/a)]", [0]), ("([1](https://example.org/a_(b)))", [0]), ("[S1](#Sources)", [0]),
    ("[^1](#fn1)", [0]), ("[kettle.pdf](https://files.example.org/kettle.pdf)", [0]),
    ("[help.example.com](https://help.example.com/hours)", [2]),
    ("([help.example.com](https://help.example.com/hours))", [2]),
    ("([Opening hours of all houses](https://help.example.com/hours))", [2]),
    ("[Source](https://help.example.com/hours)", [2]), ("[Source 2](https://example.org)", [1]),
    ("(https://help.example.com/hours)", [2]), ("[https://help.example.com/hours]", [2]),
    ("<https://help.example.com/hours>", [2]), ("(Source: https://help.example.com/hours)", [2]),
    ("(doi:10.1000/xyz123)", []), ("[1][ref-one]", [0]), ("[doc1][doc3]", [0, 2]), ("[citation:1][citation:2]", [0, 1]),
    ("[kettle.pdf][house_rules.md]", [0, 1]), ("\\[1\\]", [0]), ("\\[2, 3\\]", [1, 2]),
    ("[\\[2\\]](https://example.org/a)", [1]), ("[cite_start]", []), ("[P1, P3]", [0, 2]),
    # Tags and tokens
    ("<sup>1</sup>", [0]), ("<sup>[1]</sup>", [0]), ("<sup>1,2</sup>", [0, 1]),
    ('<sup><a href="#fn2">2</a></sup>', [1]), ('<a href="#ref1">[1]</a>', [0]), ("<cite>2</cite>", [1]),
    ("<cite>kettle.pdf</cite>", [0]), ("<ref>1</ref>", [0]), ('<ref name="kettle.pdf"/>', [0]),
    ('<cite id="2"/>', [1]), ("<citation>House Rules</citation>", [1]),
    ("<sources><source>1</source></sources>", [0]), ("<small>(kettle.pdf, p. 3)</small>", [0]),
    ("<em>Source: kettle.pdf</em>", [0]), (":contentReference[oaicite:0]{index=0}", [0]),
    ("\ue200cite\ue202turn0search1\ue201", [1]), ("citeturn0search0turn0search2", [0, 2]),
    # As found elsewhere
    ("[#1]", [0]), ("[Doc A]", [0]), ("(Source B)", [1]), ("(Exhibit A)", []), ("[file: kettle.pdf]", [0]),
    ("[^kettle]", [0]), ("[^note-a]", []), ("[1]-[3]", [0, 2]), ("(42 U.S.C. § 1983)", []), ("(GDPR, Art. 17)", []),
    ("(Art. 17 GDPR)", []), ("(ref. kettle.pdf)", [0]), ("[p. 7 of kettle.pdf]", [0]),
    ("[Kettle Guide | House Rules]", [0, 1]), ("[Source: kettle.pdf | Page: 3]", [0]),
    ("(Kettle Guide, Page not specified)", [0]), ("(参考文献 1)", [0]),
    # With brackets, tags, signs and words around the mark
    ("([2])", [1]), ("([1], [3])", [0, 2]), ("([1, 3])", [0, 2]), ("(see also [2])", [1]), ("(cf. [1])", [0]),
    ("(siehe [3])", [2]), ("(Ref. [2])", [1]), ("(refs [1], [2])", [0, 1]), ("<sub>[1]</sub>", [0]),
    ('<span class="cite">[2]</span>', [1]), ("<sup>[3](#three)</sup>", [2]),
    ("\\footnote{Kettle Guide, p. 3}", [0]), ("📄 [1]", [0]), ("[2]↩", [1]), ("「3」", [2]), ("‹1›", [0]),
    # Lists, ranges and names of several kinds
    ("[1 to 3]", [0, 1, 2]), ("[S1-S3]", [0, 1, 2]), ("[cit:2]", [1]), ("(Refs. 1–2)", [0, 1]),
    ("(Source: 1, p. 2; 3, p. 4)", [0, 2]), ("[n. 2]", [1]), ("(#kettle.pdf)", [0]), ("[Kettle Guide > Care]", [0]),
    ("(House Rules, last updated 2031-05-04)", [1]), ("(https://help.example.com/hours, accessed 4 May 2031)", [2]),
    ("(see Smith & Lee, 2019, for details)", [2]), ("[Title: Kettle Guide]", [0]),
    ("(Title: House Rules, Page: 2)", [1]), ("(Source – Kettle Guide)", [0]), ("(Source House Rules)", [1]),
    ("[Grounded in: 2]", [1]), ("{{cite|3}}", [2]), ("{{cite}}", []), ('<cite doc="2"></cite>', [1]),
    ("<src>2</src>", [1]), ("<footnote>1</footnote>", [0]), ("(ebd.)", []), ("(a. a. O., S. 4)", []),
    ("[1, confidence: high]", [0]), ("[2, p. 3, score 0.87]", [1]), ("[Confluence: Kettle Guide]", [0]),
    ("[Wiki > House Rules]", [1]),
    # In other languages
    ("(lt. Dokument 2)", [1]), ("(Dok. 3)", [2]), ("(según el documento 2)", [1]), ("(véase el documento 1)", [0]),
    ("(d'après le document 3)", [2]), ("(selon la source 1)", [0]), ("(cfr. documento 2)", [1]),
    ("(см. документ 3)", [2]), ("(Lähde: asiakirja 1)", [0]), ("[kaynak 2]", [1]), ("(Nguồn: tài liệu 3)", [2]),
    ("(Sursa: documentul 1)", [0]), ("(πηγή: έγγραφο 2)", [1]), ("(स्रोत: दस्तावेज़ 1)", [0]),
    ("（参照：文書2）", [1]), ("（参见文档3）", [2]),
]  # fmt: skip


@pytest.mark.parametrize(("mark", "named"), MARKS, ids=[mark for mark, _ in MARKS])
def test_a_mark_behind_a_statement_is_no_part_of_it_and_names_its_passages(mark, named):
    plain = "The kettle holds two litres. It boils in four minutes."
    before_stop = f"The kettle holds two litres {mark}. It boils in four minutes {mark}."
    behind_stop = f"The kettle holds two litres. {mark} It boils in four minutes. {mark}"
    for answer in (
        (before_stop, behind_stop) if mark not in ("#2", "*1", "(1)", "(1, 2)", "(#4711)") else (before_stop,)
    ):
        assert shown(answer).replace(",", "") == plain, answer
        found = [one for mark in citation_marks(answer, PASSAGES) for one in mark.passages]
        assert set(found) == set(named)


ENDS = [
    "Sources:\n[1] kettle.pdf\n[2] house_rules.md", "**Sources:**\n- kettle.pdf\n- house_rules.md, p. 2",
    "## References\n1. Kettle Guide\n2. House Rules",
    "References\n\n[1] Smith and Lee, 2019. Counting Guests. Hotel Press.", "Sources: kettle.pdf; docs/house_rules.md",
    "Source: kettle.pdf (page 7); house_rules.md (page 12)", "Source: Kettle Guide",
    "*Source: Staff Handbook, Section 4*", "> Source: kettle.pdf", "(Source: kettle.pdf)",
    "Quelle: kettle.pdf, Seite 7", "Quellen:\n- Kettle Guide (Seite 3)\n- House Rules", "Fuentes: [1], [2]",
    "Fuente: Guía del Hervidor, página 3", "Références :\n1. kettle.pdf", "来源：kettle.pdf",
    "[1]: https://help.example.com/hours", "[^1]: Kettle Guide, p. 3\n[^2]: House Rules",
    "---\n**References**\n\n1. [Kettle](https://example.org/kettle)\n2. [Rules](https://example.org/rules)",
    "Learn more: https://help.example.com/hours", "Learn more: [Opening hours](https://help.example.com/hours)",
    "Read more at https://help.example.com/hours.", "More information: kettle.pdf",
    "For more information, see [House Rules](https://example.org/rules).",
    "For further details, please refer to kettle.pdf.", "See also: House Rules", "See kettle.pdf.", "kettle.pdf",
    "kettle.pdf, house_rules.md", "https://help.example.com/hours", "📄 kettle.pdf (p. 3)", "— kettle.pdf, p. 3",
    "Citations: [1] [2]", "Source(s): Document 1, Document 2", "¹ Kettle Guide, p. 3\n² kettle.pdf",
    "[1] kettle.pdf - Kettle Guide\n[2] house_rules.md", "(Page not specified)",
    "Retrieved from: Kettle Guide (score 0.87)", "<citations>1, 2</citations>",
    "Further reading:\n* [Kettles](https://example.org/k)", "Footnotes:\n[1] Kettle Guide",
    "Sources:\n【1】 Kettle Guide\n【2】 House Rules",
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_a_list_of_sources_behind_an_answer_is_no_part_of_it(end):
    assert shown(f"The kettle holds two litres.\n\n{end}").removesuffix(" ---") == "The kettle holds two litres."
    if "\n" not in end and end[0] not in "—(*>¹[k📄":
        assert shown(f"The kettle holds two litres. {end}") == "The kettle holds two litres."


ASIDES = [
    ("— Kettle Guide", [0]), ("— Source 2", [1]), ("– [3]", [2]), ("→ [1]", [0]), ("~[2]", [1]), ("📎 kettle.pdf", [0]),
    ("🔗 https://help.example.com/hours", [2]), ("①", [0]), ("②③", [1, 2]), ("†1", []),
]  # fmt: skip


@pytest.mark.parametrize(("aside", "named"), ASIDES)
def test_an_aside_at_the_end_of_a_sentence_is_no_part_of_it(aside, named):
    answer = f"The kettle holds two litres {aside}. It boils in four minutes {aside}."
    assert shown(answer) == "The kettle holds two litres. It boils in four minutes."
    assert {one for mark in citation_marks(answer, PASSAGES) for one in mark.passages} == set(named)


SAID = [
    "The pump is tight (up to 12 bar).", "It was founded early (2019).", "The law passed in [2019].",
    'He wrote that he "recieve[sic] nothing".', "It weighs little (3 kg).", "The area is 40 m² and the volume 3 m³.",
    "x^2 + y^2 = 25 holds.", "It gives off CO₂ and H₂O.", "It gives off water (H2O).", "The rust (Fe2O3) is red.",
    "Salt [NaCl] is white.", "The oxide [Fe2O3] is red.", "Ask the staff (see the manual).", "The model (X200) is new.",
    "Use the spray (WD-40).", "The virus (COVID-19) spread.", "The games were great (Tokyo 2020).",
    "They met once (May 2020).", "It opened later (March 5, 2021).", "It took place there (Berlin, Germany).",
    "You have five (5) days to reply.", "It is #1.", "The band is ranked #1.", "Open the ticket #12 now.",
    "The value lies in the interval [0, 1].", "The list [1, 2, 3] has three items.", "The set {1, 2} is small.",
    "Run `a[1]` and `f(x)[2]` first.", "```\nprint(a[1])\n```", "The rate rose (5%).", "Call us (555 0100).",
    "Visit our website (www.kettles.example.org).", "Open the file (settings.yaml).",
    "Fill in the form (form-c77.pdf).", "The firm filed for bankruptcy (Chapter 11).", "10⁶ drops fall, and 10^6 more.",
    "E = mc² is known.", "The room is 5 m<sup>2</sup> large.", "It is the 1<sup>st</sup> of May.",
    "The board [of directors] met.", "It is warm [in July].", "He said that [t]he kettle is loud.",
    "Turn it on (step 2).", "Version (2.1) is out.", "It lasts for 24 hours (one day).",
    "The sources of vitamin D: salmon, eggs and sunlight.",
    "Sources:\n- oily fish such as salmon\n- egg yolks and red meat",
    "Notes:\n- Clean the kettle weekly.\n- Never open it hot.",
    "Source: the river springs from two lakes in the north.", "[x] Paint the door",
    "- [x] Paint the door\n- [ ] Mow the lawn", "It is {name} who calls.", "If a < 3 and b > 5, stop.",
    "The [terrace](https://example.org/t) is open to dogs.", "Read the [house rules](https://example.org/r) first.",
    "The kettle (Kettle Guide edition) is loud.", "It is open (09:30).", "Dogs (on the terrace) are fine.",
    "It was 1 of 3 (33.3 percent).", "(1) Fill it. (2) Switch it on.",
    "It is true (see page 3 of the old manual that we sent).", "The tax form (C-77) is due.",
    "The score was close (3-2).", "She was born there (Oslo, 1970).", "The sequel (Part 2) is longer.",
    "The plan [B] failed.", "The price is open (not specified).", "The value is x[2] today.",
    "The bus (line 4) stops there.", "The house (a former mill) is small.", "Use array[1] here.",
    "Press [F1] for help.", "Choose option (a) or (b).", "The dose is one tablet (5 mg).",
    "The law (Act 12 of 1990) holds.", "The engineer (1840–1902) built it.", "The source (a spring) is near.",
    "The reference (from her boss) was good.", "The third floor (Section B staff only) is closed.",
    "Choose one. ① Fill it. ② Switch it on.", "It is loud – at times.", "He said “wait” → then he left.",
    "The room (pop. 40) is full.", '{"docs": [{"_id": "91d1fa83"}]}',
]  # fmt: skip


@pytest.mark.parametrize("answer", SAID)
def test_brackets_and_numbers_that_say_something_stay(answer):
    assert shown(answer) == " ".join(answer.split())


@pytest.mark.parametrize(("answer", "statement"), [
    *((f"{one} [1].", f"{one}.") for one in ("It weighs 50 g", "It does 86 km/h", "He keeps the list", "It gives 3")),
    ("The house permits it². A lock holds 5 in³.", "The house permits it. A lock holds 5 in³."),
    ("It weighs 3 kg<sup>2,3</sup>. It is 4 m²,³ long.", "It weighs 3 kg. It is 4 m long."),
])  # fmt: skip
def test_a_mark_behind_a_unit_or_a_word_of_mathematics_cites_and_the_power_of_a_unit_does_not(answer, statement):
    assert shown(answer) == statement


@pytest.mark.parametrize("mark", ["[{}]", "({})", "[{}]:", "^{}"])
def test_last_lines_whose_numbers_the_answer_cites_are_footnotes(mark):
    first, second = mark.format(1), mark.format(2)
    answer = f"It holds two litres {first.strip(':')}. It boils in four minutes {second.strip(':')}."
    notes = f"{first} House Rules, 2024 edition, page 17\n{second} Kettle Guide, p. 3"
    assert shown(f"{answer}\n\n{notes}") == "It holds two litres. It boils in four minutes."
    marks = citation_marks(f"{answer}\n\n{notes}", PASSAGES)
    assert [one.passages for one in marks][:2] == [(1,), (0,)]
    said = f"{first} The guide was printed in 2024.\n{second} It is on page 3."
    assert "printed" in shown(f"{answer}\n\n{said}")


def test_numbered_lines_that_nothing_cites_are_no_footnotes():
    answer = "[1] First printed in 1990, page 3\n[2] Second printed in 1995, page 4"
    assert "printed in 1990" in shown(answer)


@pytest.mark.parametrize(("answer", "named"), [
    ("Dogs may stay [1]. It boils fast [2].\n\nSources:\n[1] house_rules.md\n[2] kettle.pdf", [(1,), (0,)]),
    ("It boils [0]. Dogs may stay [1].", [(0,), (1,)]), ("It boils.\n\nSources used: 2 of 3", [()]),
], ids=["its own list says what numbers mean", "zero is the first", "a count names none"])  # fmt: skip
def test_numbers_mean_what_the_answer_says(answer, named):
    assert [mark.passages for mark in citation_marks(answer, PASSAGES)][:2] == named


def test_links_in_a_list_of_the_answers_own_name_passages_by_their_addresses():
    passages = (KETTLE, Passage("b", None, "https://example.org/b"), Passage("c", None, "https://example.org/c"))
    listed = "1. [Care](https://example.org/c)\n2. Rules: https://example.org/b"
    marks = citation_marks(f"It boils [1]. Dogs may stay [2].\n\n**Sources**\n{listed}", passages)
    assert [mark.passages for mark in marks] == [(2,), (1,), (2, 1)]


@pytest.mark.parametrize("answer", ["It boils ##1$$. It hums ##0$$ ##2$$.", "It boils [ID:1]. It hums [ID:0] [ID:2]."])
def test_marks_of_ragflow_count_from_zero_where_no_id_is_a_number(answer):
    passages = (KETTLE, RULES, Passage("It hums.", None, "a3f9c21e77b0"))
    assert [mark.passages for mark in citation_marks(answer, passages)] == [(1,), (0,), (2,)]
    assert shown(answer, passages) == "It boils. It hums."


@pytest.mark.parametrize(("answer", "named"), [
    ("It is [2]. It was [7].", [0, 1]), ("It is [7].", [1]), ("It is [1]. It was [2].", [0, 1]),
    ("It is [7]. It was [1].", [1, 0]), ("It boils [2-7].", [0, 1]), ("It boils [1-2].", [0, 1]),
    ("It boils [docs 2–7].", [0, 1]), ("It boils [7-9]. It was [7].", [1]),
    ("It boils [doc 1]. It was [doc 2].", [0, 1]), ("It boils [doc 2]. It was [doc 7].", [0, 1]),
    ("It boils [1]. It was [ID: 2].", [0, 0]),
])  # fmt: skip
def test_numbers_are_ids_where_all_are_or_passages_are_too_few(answer, named):
    passages = (Passage("a", None, "2"), Passage("b", None, "7"))
    assert [one for mark in citation_marks(answer, passages) for one in mark.passages] == named


def test_letters_that_are_ids_name_their_passages():
    passages = (Passage("It boils.", None, "B"), Passage("It hums.", None, "i"))
    answer = "It boils [B]. It hums [i]. Both [B, i] [Doc B]. The plan [B] failed."
    assert [mark.passages for mark in citation_marks(answer, passages)] == [(0,), (1,), (0, 1), (0,)]


@pytest.mark.parametrize(
    "head", ["| # | Document |", "| No. | Title |", "**Sources**\n\n| # | File |", "| # | Source |"]
)
def test_a_last_table_that_lists_sources_is_no_part_of_an_answer_and_says_what_its_numbers_mean(head):
    rows = "|---|---|\n| 1 | House Rules |\n| 2 | Kettle Guide, p. 3 |"
    said = "Dogs may stay [1]. It boils in four minutes [2]."
    assert shown(f"{said}\n\n{head}\n{rows}").removesuffix(" **Sources**") == "Dogs may stay. It boils in four minutes."
    assert [mark.passages for mark in citation_marks(f"{said}\n\n{head}\n{rows}", PASSAGES)][:2] == [(1,), (0,)]


def test_a_last_table_that_says_more_or_that_nothing_cites_stays():
    for head in ("| No. | Title |", "| Source | Pages read |"):
        assert "House Rules" in shown(f"Here they are.\n\n{head}\n|---|---|\n| 1 | House Rules |\n| 2 | Other |")


def test_an_answer_that_is_a_name_or_an_address_is_no_mark():
    for answer in ("kettle.pdf", "House Rules", "https://help.example.com/hours"):
        assert citation_marks(answer, PASSAGES) == ()
    assert shown("Source: kettle.pdf") == ""


@pytest.mark.parametrize(("answer", "text", "named"), [
    ('<cite index="0-1">Dogs may stay.</cite>', "Dogs may stay.", (0,)),
    ("<co: 0,1>Dogs may stay</co: 0,1>.", "Dogs may stay.", (0, 1)),
    ('<citation source="kettle.pdf">It boils.</citation>', "It boils.", (0,)),
])  # fmt: skip
def test_a_tag_around_a_statement_cites_behind_it(answer, text, named):
    marks = citation_marks(answer, PASSAGES)
    assert marks[-1].passages == named
    assert marks[-1].chars.char_start >= answer.index(text.strip(".")) + len(text.strip("."))


@given(st.text(alphabet="ab1A2[]()<>{}^.,:# \n¹【】†`*-_/", max_size=60))
def test_marks_are_ascending_disjoint_and_inside(answer):
    end = 0
    for mark in citation_marks(answer, PASSAGES):
        assert end <= mark.chars.char_start < mark.chars.char_end <= len(answer)
        end = mark.chars.char_end
        assert all(0 <= one < len(PASSAGES) for one in mark.passages)


@pytest.mark.parametrize(("answer", "named"), [
    ("Passage 3 says so.", [2]), ("as in passages 1 and 3", [0, 2]),
    ("Passages 1 to 4 say so.", [0, 1, 2, 3]), ("as in passages 2-4", [1, 2, 3]),
    ("the second passage and the last document", [1, 3]), ("see document [2]", [1]), ("(Ref: Passage 4)", [3]),
    ("Passage 9 says so.", []), ("passage of 3 days", []), ("[link 2](page)", []), ("version 3 and step 2", []),
])  # fmt: skip
def test_references_name_passages_counted_from_one(answer, named):
    assert [one.passage_index for one in passage_references(answer, [KETTLE] * 4)] == named


def test_references_name_ids_where_all_are_or_passages_are_too_few():
    passages = [Passage("a", None, "102"), Passage("b", None, "2")]
    for answer, named in (
        ("Passage 102 says so, and passages 1 and 2.", [0, 0, 1]), ("Passage 2 says so.", [1]),
        ("Passages 1 and 2 say so.", [0, 1]), ("The second passage says so.", [1]), ("Document 103 says so.", []),
    ):  # fmt: skip
        assert [one.passage_index for one in passage_references(answer, passages)] == named


def test_an_id_in_words_names_its_passage_unless_a_text_has_it():
    passages = [Passage("Pay by card.", None, "KB0012345"), Passage("The BX-200 hums.", None, "BX-200")]
    answer = "Article kb0012345 says: pay by card. The BX-200 hums, as does KB00123456, says KB0012345-2."
    (found,) = passage_references(answer, passages)
    assert (found.chars.of(answer), found.passage_index) == ("kb0012345", 0)
    assert reference_ranges(answer, passages) == (found.chars,)


def test_a_reference_covers_the_words_that_name_it():
    answer = "According to the first passage, and passage 2, it is."
    found = passage_references(answer, [KETTLE, RULES])
    assert [one.chars.of(answer) for one in found] == ["the first passage", "passage 2"]
    assert tuple(one.chars for one in found) == reference_ranges(answer)
