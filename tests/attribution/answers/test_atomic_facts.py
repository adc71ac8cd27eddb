"""Coordinating structures and atomic facts of hand-made trees, the paper's worked example among them."""

import pytest
from tests.attribution.trees import COMPANY_SPACY_ENGLISH, COMPANY_UNIVERSAL, forms, tree, word_index

from attribeam.attribution.answers.atomic_facts import AtomicFacts, find_coordinations, reform_tree
from attribeam.attribution.answers.parsed_answer import (
    SPACY_CHINESE,
    UNIVERSAL_CHINESE,
    scheme_of_labels,
)
from attribeam.attribution.answers.target_spans import fact_ranges, mention_ranges
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.schemas import CharRange, Passage


def listing_of_the_paper(dep_head, dep_label):
    """Appendix C's listing, word for word but for the name of ``get_head``."""
    coordinations = []
    in_coordination_words = set()
    for j in range(len(dep_head) - 1):
        if j in in_coordination_words:
            continue
        new_coordination = [j]
        for k in range(j + 1, len(dep_head)):
            case1 = dep_head[k] == j and dep_label[k] == dep_label[j]
            case2 = dep_head[k] == j and dep_label[k] == "conj"
            if case1 or case2:
                new_coordination.append(k)
        if len(new_coordination) > 1:
            coordinations.append(tuple(sorted(new_coordination)))
            in_coordination_words.update(new_coordination)
    return coordinations


ROLES = (
    "She/nsubj/2/PRON studies/root/0/VERB the/det/4/DET history/obj/2/NOUN of/case/6/ADP roles/nmod/4/NOUN "
    "and/cc/8/CCONJ applications/conj/6/NOUN of/case/10/ADP informatics/nmod/6/NOUN in/case/12/ADP "
    "medicine/nmod/10/NOUN"
)


_, COMPANY = tree(COMPANY_UNIVERSAL)
_, ROLES_PARSED = tree(ROLES)


@pytest.mark.parametrize(
    ("heads", "labels", "found", "listed"),
    [
        (COMPANY.dependency_heads, COMPANY.dependency_labels, [(5, 9), (11, 13)], None),
        ([1, 1, 1, 2, 2], ["nsubj", "root", "obj", "obj", "conj"], [(2, 3, 4)], None),
        ([0, 0, 1, 2], ["root", "obj", "nmod", "nmod"], [], [(2, 3)]),
        (ROLES_PARSED.dependency_heads, ROLES_PARSED.dependency_labels, [(5, 7)], [(5, 7, 9)]),
        ([0, 0, 1, 2], ["root", "obj", "conj", "conj"], [(1, 2)], None), ([1, 1], ["conj", "root"], [], []),
    ],
    ids=["worked example", "sister before a conjunct", "nested complement without a conjunct",
        "child of the leader's label after its conjunct", "component leads no structure", "conjunct before its leader"],
)  # fmt: skip
def test_coordinations_are_those_of_the_listing_where_there_is_a_conjunct(heads, labels, found, listed):
    assert list(find_coordinations(heads, labels)) == found
    assert listing_of_the_paper(heads, labels) == (found if listed is None else listed)


@pytest.mark.parametrize(("heads", "structures", "predicate", "reformed"), [
    pytest.param([1, 1, 1, 2], [(2, 3)], 1, [1, 1, 1, 1], id="component gets the head of its leader"),
    # leaders child before the first other component stays
    ([0, 0, 1, 1, 1], [(1, 3)], 0, [0, 0, 1, 0, 0]),
    pytest.param([0, 0, 0, 1], [(1, 3)], 1, [0, 1, 0, 1], id="structure led by the predicate stays below it"),
    pytest.param([0, 0, 1, 1, 3], [(3, 4), (1, 2)], 0, [0, 0, 0, 0, 0], id="nested leader passes its new head on"),
])  # fmt: skip
def test_tree_is_reformed(heads, structures, predicate, reformed):
    assert reform_tree(heads, structures, predicate=predicate) == reformed


THREE_CHAINED = (
    "Ada/nsubj/2/PROPN sells/root/0/VERB apples/obj/2/NOUN ~,/punct/3/PUNCT green/amod/6/ADJ pears/conj/3/NOUN "
    "and/cc/6/CCONJ plums/conj/6/NOUN here/advmod/2/ADV ~./punct/2/PUNCT"
)
THREE_ON_THE_FIRST = (
    "Ada/nsubj/2/PROPN sells/root/0/VERB apples/obj/2/NOUN ~,/punct/6/PUNCT green/amod/6/ADJ pears/conj/3/NOUN "
    "and/cc/8/CCONJ plums/conj/3/NOUN here/advmod/2/ADV ~./punct/2/PUNCT"
)
THREE_FACTS = {
    "apples": "Ada sells apples here", "green": "Ada sells green pears here", "plums": "Ada sells and plums here",
}  # fmt: skip
FACTS = {
    "child after the conjuncts is shared by both": (ROLES,
        {"roles": "She studies the history of roles of informatics in medicine",
        "applications": "She studies the history and applications of informatics in medicine"}),
    # "and" hangs on each second conjunct
    "worked example of the paper": (COMPANY_UNIVERSAL,
        dict.fromkeys(("one", "2012"), "The company earned one million dollars in 2012 respectively")
        | dict.fromkeys(("two", "2013"), "The company earned and two million dollars and 2013 respectively")
        | {"earned": "The company earned one million dollars and two million dollars in 2012 and 2013 respectively"}),
    "conjuncts in a chain": (THREE_CHAINED, THREE_FACTS), "conjuncts on the first": (THREE_ON_THE_FIRST, THREE_FACTS),
    "three parallel pairs are matched by place": (
        "A/nsubj/6/PROPN ~,/punct/3/PUNCT B/conj/1/PROPN and/cc/5/CCONJ C/conj/1/PROPN won/root/0/VERB gold/obj/6/NOUN "
        "~,/punct/9/PUNCT silver/conj/7/NOUN and/cc/11/CCONJ bronze/conj/7/NOUN",
        {"B": "B won silver", "bronze": "and C won and bronze"}),
    "structures of different length are not parallel": (
        "Ann/nsubj/4/PROPN and/cc/3/CCONJ Bob/conj/1/PROPN grow/root/0/VERB beans/obj/4/NOUN ~,/punct/7/PUNCT "
        "peas/conj/5/NOUN and/cc/9/CCONJ corn/conj/5/NOUN", {"Ann": "Ann grow beans peas and corn"}),
    "modifier before the second conjunct belongs to the first": (
        "He/nsubj/2/PRON met/root/0/VERB poets/obj/2/NOUN from/case/5/ADP Rome/nmod/3/PROPN and/cc/7/CCONJ "
        "painters/conj/3/NOUN", {"painters": "He met and painters", "Rome": "He met poets from Rome"}),
    "second verb is no part of the first one's fact": (
        "She/nsubj/2/PRON wrote/root/0/VERB novels/obj/2/NOUN and/cc/5/CCONJ painted/conj/2/VERB ships/obj/5/NOUN "
        "~./punct/2/PUNCT", {"novels": "She wrote novels", "ships": "and painted ships"}),
    "word with a copula is a predicate, and a relative clause has its own": (
        "Denitrification/nsubj/4/NOUN is/cop/4/AUX the/det/4/DET process/root/0/NOUN that/nsubj/6/PRON "
        "reduces/acl:relcl/4/VERB nitrate/obj/6/NOUN ~./punct/4/PUNCT",
        dict.fromkeys(("the", "Denitrification", "process"), "Denitrification is the process that reduces nitrate")
        | {"nitrate": "that reduces nitrate"}),
    "helping auxiliary is no predicate": ("Rain/nsubj/3/NOUN has/aux/3/AUX fallen/root/0/VERB",
        {"has": "Rain has fallen"}),
    "copular conjuncts are split": (
        "The/det/2/DET flag/nsubj/4/NOUN is/cop/4/AUX red/root/0/ADJ ~,/punct/6/PUNCT white/conj/4/ADJ and/cc/8/CCONJ "
        "blue/conj/4/ADJ", {"flag": "The flag is red", "white": "The flag is red white"}),
    "embedded clause belongs to the outer fact but not the reverse": (
        "Lee/nsubj/2/PROPN said/root/0/VERB that/mark/5/SCONJ ice/nsubj/5/NOUN melts/ccomp/2/VERB ~./punct/2/PUNCT",
        {"Lee": "Lee said that ice melts", "ice": "that ice melts"}),
    "label subtypes count as their base": (
        "Bells/nsubj:pass/5/NOUN and/cc/3/CCONJ horns/conj/1/NOUN were/aux:pass/5/AUX rung/root/0/VERB by/case/7/ADP "
        "monks/obl:agent/5/NOUN and/cc/9/CCONJ nuns/conj/7/NOUN", {"horns": "and horns were rung and nuns"}),
    "verb form in a function role is no predicate": (
        "Five/nummod/2/NUM cities/nsubj/5/NOUN including/case/4/VERB Bonn/nmod/2/PROPN grew/root/0/VERB",
        {"including": "Five cities including Bonn grew"}),
    "word without a predicate has only itself": (
        "Mount/compound/2/PROPN Fuji/root/0/PROPN ~,/punct/4/PUNCT Japan/appos/2/PROPN", {"Japan": "Japan"}),
    "punctuation mark has itself beside its predicate's fact": ("Dogs/nsubj/2/NOUN bark/root/0/VERB ~!/punct/2/PUNCT",
        {"!": "Dogs bark !", "bark": "Dogs bark"}),
    "fact stays within its sentence": ("Dogs/nsubj/2/NOUN bark/root/0/VERB || Cats/nsubj/2/NOUN purr/root/0/VERB",
        {"Cats": "Cats purr"}),
}  # fmt: skip
SPACY_FACTS = {
    "worked example of the paper": (COMPANY_SPACY_ENGLISH,
        {"one": "The company earned one million dollars in 2012 respectively",
        "2013": "The company earned and two million dollars in and 2013 respectively"}),
    "root auxiliary is the predicate": (
        "The/det/2/DET moon/nsubj/3/NOUN is/ROOT/0/AUX a/det/5/DET satellite/attr/3/NOUN of/prep/5/ADP "
        "Earth/pobj/6/PROPN ~./punct/3/PUNCT", {"Earth": "The moon is a satellite of Earth"}),
    "copular conjuncts are split under a verbal copula": (
        "The/det/2/DET flag/nsubj/3/NOUN is/ROOT/0/AUX red/acomp/3/ADJ ~,/punct/4/PUNCT white/conj/4/ADJ "
        "and/cc/6/CCONJ blue/conj/6/ADJ", {"white": "The flag is white", "blue": "The flag is and blue"}),
    "coordinator at the first conjunct moves to the second": (
        "Ann/nsubj/4/PROPN and/cc/1/CCONJ Bob/conj/1/PROPN met/ROOT/0/VERB Cy/dobj/4/PROPN or/cc/5/CCONJ "
        "Di/conj/5/PROPN", {"Ann": "Ann met Cy"}),
}  # fmt: skip


def without_blanks(notation):
    return " ".join(item if item == "||" else f"~{item}" for item in notation.split())


def universal(notation):
    return tree(without_blanks(notation), label_scheme="universal-chinese")


CHINESE_FACTS = {  # by Universal Dependencies, and by spaCy's labels
    "one subject leaves the other out": (
        "海鸥/nsubj/4/NOUN 和/cc/3/CCONJ 企鹅/conj/1/NOUN 住/root/0/VERB 在/case/6/ADP 岛/obl/4/NOUN 上/case/6/ADP "
        "。/punct/4/PUNCT",
        "海鸥/conj/3/NOUN 和/cc/3/CCONJ 企鹅/nsubj/4/NOUN 住/ROOT/0/VERB 在/case/6/ADP 岛/nmod:prep/4/NOUN "
        "上/case/6/PART 。/punct/4/PUNCT", {"海鸥": "海鸥 住 在 岛 上", "企鹅": "和 企鹅 住 在 岛 上"}),
    "year and amount that belong together are found by their places": (
        "公司/nsubj/7/NOUN 在/case/3/ADP 前年/obl/7/NOUN 和/cc/5/CCONJ 去年/conj/3/NOUN 分别/advmod/7/ADV "
        "赚/root/0/VERB 了/aux/7/AUX 一百万/obj/7/NUM 和/cc/11/CCONJ 两百万/conj/9/NUM 。/punct/7/PUNCT",
        "公司/nsubj/7/NOUN 在/case/5/ADP 前年/conj/5/NOUN 和/cc/5/CCONJ 去年/nmod:prep/7/NOUN 分别/advmod/7/ADV "
        "赚/ROOT/0/VERB 了/aux:asp/7/PART 一百万/conj/11/NUM 和/cc/11/CCONJ 两百万/dobj/7/NUM 。/punct/7/PUNCT",
        {"一百万": "公司 在 前年 分别 赚 了 一百万", "去年": "公司 和 去年 分别 赚 了 和 两百万"}),
    "first of several verbs leads and keeps their subject": (
        "她/nsubj/2/PRON 唱歌/root/0/VERB 、/punct/4/PUNCT 跳舞/conj/2/VERB 和/cc/6/CCONJ 画画/conj/2/VERB "
        "。/punct/2/PUNCT",
        "她/nsubj/6/PRON 唱歌/conj/6/VERB 、/punct/6/PUNCT 跳舞/conj/6/VERB 和/cc/6/CCONJ 画画/ROOT/0/VERB "
        "。/punct/6/PUNCT", {"唱歌": "她 唱歌", "她": "她 唱歌", "画画": "和 画画"}),
    "adjective is a predicate without a copula": (
        "灯塔/nsubj/3/NOUN 很/advmod/3/ADV 高/root/0/ADJ ，/punct/7/PUNCT 海水/nsubj/7/NOUN 很/advmod/7/ADV "
        "冷/conj/3/ADJ 。/punct/3/PUNCT", None, {"海水": "海水 很 冷", "高": "灯塔 很 高"}),
}  # fmt: skip


@pytest.mark.parametrize(("scheme", "notation", "facts"), [
    *(pytest.param("universal", *case, id=name) for name, case in FACTS.items()),
    *(pytest.param("spacy-english", *case, id=f"spaCy: {name}") for name, case in SPACY_FACTS.items()),
    *(pytest.param(f"{kind}-chinese", without_blanks(notation), facts, id=f"{kind} Chinese: {name}") for name,
        (*notations, facts) in CHINESE_FACTS.items() for kind,
        notation in zip(("universal", "spacy"), notations, strict=True) if notation is not None),
])  # fmt: skip
def test_fact_of_a_word(scheme, notation, facts):
    text, parsed = tree(notation, label_scheme=scheme)
    atomic = AtomicFacts(parsed)
    found = {word: forms(text, parsed, atomic.words_of(word_index(text, parsed, word))) for word in facts}
    assert found == facts


class CountedHeads(tuple[int, ...]):
    """Heads that count how often one of them is read."""

    reads = 0

    def __getitem__(self, place):
        self.reads += 1
        return super().__getitem__(place)

    def __iter__(self):
        self.reads += len(self)
        return super().__iter__()


def reads_of_a_reform(pairs):
    """Predicate with so many pairs of coordinated children."""
    heads = CountedHeads([0, *[one for pair in range(pairs) for one in (0, 1 + 2 * pair)]])
    reform_tree(heads, [(1 + 2 * pair, 2 + 2 * pair) for pair in range(pairs)], predicate=0)
    return heads.reads


def test_reforming_a_tree_reads_each_head_some_times_however_many_structures_there_are():
    assert reads_of_a_reform(400) < 2.2 * reads_of_a_reform(200)


def test_facts_of_deep_nested_structures_are_those_of_the_definition():
    heads = [0, 0, 1, 1, 3, 3, 5, 5, 7, 7, 9]
    assert reform_tree(heads, [(3, 5), (1, 3), (5, 7), (7, 9)], predicate=0) == reform_by_definition(
        heads, [(1, 3), (3, 5), (5, 7), (7, 9)], 0
    )


def reform_by_definition(heads, outer_first, predicate):
    reformed = list(heads)
    reformed[predicate] = predicate
    for leader, first_other in outer_first:
        for word, dependency_head in enumerate(heads):
            if dependency_head == leader and word >= first_other and word != predicate:
                reformed[word] = reformed[leader]
    return reformed


def test_facts_are_the_clauses():
    text, parsed = universal(CHINESE_FACTS["adjective is a predicate without a copula"][0])
    assert [one.of(text) for one in fact_ranges(parsed, text)] == ["灯塔很高", "海水很冷"]


YEAR = universal("灯塔/nsubj/2/NOUN 建/root/0/VERB 于/mark/2/ADP 1874/nummod/5/NUM 年/obl/2/PART 。/punct/2/PUNCT")


@pytest.mark.parametrize(("parse", "mentions"), [
    (universal("岛/nsubj/3/NOUN 上/case/1/ADP 有/root/0/VERB 三/nummod/6/NUM 座/clf/4/NOUN 灯塔/obj/3/NOUN "
        "。/punct/3/PUNCT"), ["岛", "三座灯塔"]),
    (YEAR, ["灯塔", "1874年"]),
    (universal("科学/compound/2/NOUN 家/nsubj/3/PART 来/root/0/VERB 了/aux/3/AUX 。/punct/3/PUNCT"), ["科学家"]),
], ids=["number and measure word", "number between characters", "suffix that heads its noun"])  # fmt: skip
def test_mention_is_a_noun_with_what_belongs_to_it(parse, mentions):
    text, parsed = parse
    assert [one.of(text) for one in mention_ranges(parsed, text)] == mentions


@pytest.mark.parametrize(("year", "unmatched"), [("1874", ()), ("1875", ("1874",))])
@pytest.mark.parametrize("passage", ["It was built in {}.", "灯塔建于{}年。"])
def test_number_is_held_against_the_passages(passage, year, unmatched):
    text, parsed = YEAR
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage(passage.format(year))])
    assert matcher.unmatched_values(CharRange(0, len(text)), [0]) == unmatched


def test_scheme_is_read_from_language_and_labels():
    assert scheme_of_labels(["nsubj", "dobj", "nmod:assmod"], language="zh") is SPACY_CHINESE
    assert scheme_of_labels(["nsubj", "obj", "mark:rel"], language="zh") is UNIVERSAL_CHINESE
