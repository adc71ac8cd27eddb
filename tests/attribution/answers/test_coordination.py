from attribution.answers.coordination import find_coordinations, reform_tree
from attribution.answers.sentence_tree import sentence_tree
from tests.attribution.trees import COMPANY_SPACY_ENGLISH, COMPANY_UNIVERSAL, tree


def listing_of_the_paper(dep_head: list[int], dep_label: list[str]) -> list[tuple[int, ...]]:
    """Appendix C's listing, word for word but for the name of ``get_head``."""
    coordinations = []
    in_coordination_words: set[int] = set()
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


def test_coordinations_of_the_worked_example_are_the_listings() -> None:
    _, parsed = tree(COMPANY_UNIVERSAL)
    heads, labels = list(parsed.dependency_heads), list(parsed.dependency_labels)
    assert list(find_coordinations(heads, labels)) == listing_of_the_paper(heads, labels) == [(5, 9), (11, 13)]


def test_sister_with_the_leaders_label_is_a_component_before_a_conjunct() -> None:
    heads, labels = [1, 1, 1, 2, 2], ["nsubj", "root", "obj", "obj", "conj"]
    assert list(find_coordinations(heads, labels)) == listing_of_the_paper(heads, labels) == [(2, 3, 4)]


def test_nested_complement_without_a_conjunct_breaks_the_papers_equation() -> None:
    heads, labels = [0, 0, 1, 2], ["root", "obj", "nmod", "nmod"]
    assert listing_of_the_paper(heads, labels) == [(2, 3)]
    assert find_coordinations(heads, labels) == ()


def test_component_leads_no_structure_of_its_own() -> None:
    assert find_coordinations([0, 0, 1, 2], ["root", "obj", "conj", "conj"]) == ((1, 2),)


def test_conjunct_before_its_leader_is_no_component() -> None:
    assert find_coordinations([1, 1], ["conj", "root"]) == ()


def test_component_gets_the_head_of_its_leader() -> None:
    assert reform_tree([1, 1, 1, 2], [(2, 3)], predicate=1) == [1, 1, 1, 1]


def test_leaders_child_before_the_first_other_component_stays() -> None:
    heads = [0, 0, 1, 1, 1]  # predicate, leader, its early child, its conjunct, its late child
    assert reform_tree(heads, [(1, 3)], predicate=0) == [0, 0, 1, 0, 0]


def test_structure_led_by_the_predicate_stays_below_it() -> None:
    assert reform_tree([0, 0, 0, 1], [(1, 3)], predicate=1) == [0, 1, 0, 1]


def test_nested_leader_passes_its_new_head_on() -> None:
    heads = [0, 0, 1, 1, 3]  # predicate, outer leader, outer conjunct, inner leader as late child, inner conjunct
    assert reform_tree(heads, [(3, 4), (1, 2)], predicate=0) == [0, 0, 0, 0, 0]


def test_both_label_schemes_give_the_same_structures() -> None:
    found = []
    for notation, scheme in ((COMPANY_UNIVERSAL, "universal"), (COMPANY_SPACY_ENGLISH, "spacy-english")):
        _, parsed = tree(notation, label_scheme=scheme)
        sentence = sentence_tree(parsed, 0, len(parsed.words))
        found.append(find_coordinations(sentence.heads, sentence.labels))
    assert found[0] == found[1] == ((5, 9), (11, 13))
