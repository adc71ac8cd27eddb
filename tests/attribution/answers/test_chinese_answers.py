"""Chinese answers, parsed by hand in both label schemes: facts, mentions and sentences without blanks between words."""

from __future__ import annotations

import pytest
from tests.attribution.trees import forms, tree, word_index

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.parsed_answer import SPACY_CHINESE, UNIVERSAL_CHINESE, ParsedAnswer, scheme_of_labels
from attribeam.attribution.answers.parser_output import closing_marks, sentence_ends
from attribeam.attribution.answers.target_spans import fact_ranges, mention_ranges
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.schemas import CharRange, Passage

Parsed = tuple[str, ParsedAnswer]


def universal(notation: str) -> Parsed:
    return tree(_without_blanks(notation), label_scheme="universal-chinese")


def spacys(notation: str) -> Parsed:
    return tree(_without_blanks(notation), label_scheme="spacy-chinese")


def _without_blanks(notation: str) -> str:
    return " ".join(item if item == "||" else f"~{item}" for item in notation.split())


def fact(parsed: Parsed, form: str) -> str:
    return forms(*parsed, AtomicFacts(parsed[1]).words_of(word_index(*parsed, form)))


BIRDS = (
    universal(
        "海鸥/nsubj/4/NOUN 和/cc/3/CCONJ 企鹅/conj/1/NOUN 住/root/0/VERB 在/case/6/ADP 岛/obl/4/NOUN 上/case/6/ADP "
        "。/punct/4/PUNCT"
    ),
    spacys(
        "海鸥/conj/3/NOUN 和/cc/3/CCONJ 企鹅/nsubj/4/NOUN 住/ROOT/0/VERB 在/case/6/ADP 岛/nmod:prep/4/NOUN "
        "上/case/6/PART 。/punct/4/PUNCT"
    ),
)
EARNINGS = (
    universal(
        "公司/nsubj/7/NOUN 在/case/3/ADP 前年/obl/7/NOUN 和/cc/5/CCONJ 去年/conj/3/NOUN 分别/advmod/7/ADV "
        "赚/root/0/VERB 了/aux/7/AUX 一百万/obj/7/NUM 和/cc/11/CCONJ 两百万/conj/9/NUM 。/punct/7/PUNCT"
    ),
    spacys(
        "公司/nsubj/7/NOUN 在/case/5/ADP 前年/conj/5/NOUN 和/cc/5/CCONJ 去年/nmod:prep/7/NOUN 分别/advmod/7/ADV "
        "赚/ROOT/0/VERB 了/aux:asp/7/PART 一百万/conj/11/NUM 和/cc/11/CCONJ 两百万/dobj/7/NUM 。/punct/7/PUNCT"
    ),
)
SINGING = (
    universal(
        "她/nsubj/2/PRON 唱歌/root/0/VERB 、/punct/4/PUNCT 跳舞/conj/2/VERB 和/cc/6/CCONJ 画画/conj/2/VERB "
        "。/punct/2/PUNCT"
    ),
    spacys(
        "她/nsubj/6/PRON 唱歌/conj/6/VERB 、/punct/6/PUNCT 跳舞/conj/6/VERB 和/cc/6/CCONJ 画画/ROOT/0/VERB "
        "。/punct/6/PUNCT"
    ),
)
WEATHER = universal(
    "灯塔/nsubj/3/NOUN 很/advmod/3/ADV 高/root/0/ADJ ，/punct/7/PUNCT 海水/nsubj/7/NOUN 很/advmod/7/ADV 冷/conj/3/ADJ "
    "。/punct/3/PUNCT"
)


@pytest.mark.parametrize("parsed", BIRDS, ids=["universal", "spaCy"])
def test_fact_of_one_subject_leaves_the_other_out(parsed: Parsed) -> None:
    assert fact(parsed, "海鸥") == "海鸥 住 在 岛 上"
    assert fact(parsed, "企鹅") == "和 企鹅 住 在 岛 上"


@pytest.mark.parametrize("parsed", EARNINGS, ids=["universal", "spaCy"])
def test_year_and_amount_that_belong_together_are_found_by_their_places(parsed: Parsed) -> None:
    assert fact(parsed, "一百万") == "公司 在 前年 分别 赚 了 一百万"
    assert fact(parsed, "去年") == "公司 和 去年 分别 赚 了 和 两百万"


@pytest.mark.parametrize("parsed", SINGING, ids=["universal", "spaCy"])
def test_first_of_several_verbs_leads_and_keeps_their_subject(parsed: Parsed) -> None:
    assert fact(parsed, "唱歌") == fact(parsed, "她") == "她 唱歌"
    assert fact(parsed, "画画") == "和 画画"


def test_adjective_is_a_predicate_without_a_copula() -> None:
    assert fact(WEATHER, "海水") == "海水 很 冷"
    assert fact(WEATHER, "高") == "灯塔 很 高"


def test_adjective_that_modifies_a_noun_is_none() -> None:
    parsed = universal("她/nsubj/2/PRON 看/root/0/VERB 高/amod/4/ADJ 塔/obj/2/NOUN 。/punct/2/PUNCT")
    assert fact(parsed, "高") == "她 看 高 塔"


@pytest.mark.parametrize(
    "parsed",
    [
        universal("她/nsubj/3/PRON 是/cop/3/AUX 守塔人/root/0/NOUN 。/punct/3/PUNCT"),
        spacys("她/nsubj/3/PRON 是/cop/3/VERB 守塔人/ROOT/0/NOUN 。/punct/3/PUNCT"),
    ],
    ids=["universal", "spaCy"],
)
def test_noun_with_a_copula_is_a_predicate(parsed: Parsed) -> None:
    assert fact(parsed, "她") == "她 是 守塔人"


def test_facts_are_the_clauses() -> None:
    text, parsed = WEATHER
    assert [one.of(text) for one in fact_ranges(parsed, text)] == ["灯塔很高", "海水很冷"]


def test_mention_is_a_noun_with_number_and_measure_word() -> None:
    text, parsed = universal(
        "岛/nsubj/3/NOUN 上/case/1/ADP 有/root/0/VERB 三/nummod/6/NUM 座/clf/4/NOUN 灯塔/obj/3/NOUN 。/punct/3/PUNCT"
    )
    assert [one.of(text) for one in mention_ranges(parsed, text)] == ["岛", "三座灯塔"]


YEAR = universal("灯塔/nsubj/2/NOUN 建/root/0/VERB 于/mark/2/ADP 1874/nummod/5/NUM 年/obl/2/PART 。/punct/2/PUNCT")


def test_number_between_characters_is_a_mention_with_its_word() -> None:
    text, parsed = YEAR
    assert [one.of(text) for one in mention_ranges(parsed, text)] == ["灯塔", "1874年"]


@pytest.mark.parametrize(("year", "unmatched"), [("1874", ()), ("1875", ("1874",))])
@pytest.mark.parametrize("passage", ["It was built in {}.", "灯塔建于{}年。"])
def test_number_is_held_against_the_passages(passage: str, year: str, unmatched: tuple[str, ...]) -> None:
    text, parsed = YEAR
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage(passage.format(year))])
    assert matcher.unmatched_values(CharRange(0, len(text)), [0]) == unmatched


def test_noun_is_headed_by_its_suffix() -> None:
    text, parsed = universal("科学/compound/2/NOUN 家/nsubj/3/PART 来/root/0/VERB 了/aux/3/AUX 。/punct/3/PUNCT")
    assert [one.of(text) for one in mention_ranges(parsed, text)] == ["科学家"]


def test_scheme_is_read_from_language_and_labels() -> None:
    assert scheme_of_labels(["nsubj", "dobj", "nmod:assmod"], language="zh") is SPACY_CHINESE
    assert scheme_of_labels(["nsubj", "obj", "mark:rel"], language="zh") is UNIVERSAL_CHINESE


@pytest.mark.parametrize("mark", ["。", "！", "？", "；", "：", "。”", "！」", "？）"])
def test_wide_mark_may_end_a_sentence(mark: str) -> None:
    assert sentence_ends(["好", mark]) == [False, True]


@pytest.mark.parametrize("mark", ["，", "、", "《"])
def test_wide_comma_ends_none(mark: str) -> None:
    assert sentence_ends(["好", mark]) == [False, False]


def test_quote_behind_a_full_stop_closes_although_no_blank_follows() -> None:
    words = ["说", "：", "“", "好", "。", "”", "她", "走", "」", "了"]
    closing = closing_marks(words, spaced=[False] * 9 + [True])
    assert [word for word, closes in zip(words, closing, strict=True) if closes] == ["”", "」"]
