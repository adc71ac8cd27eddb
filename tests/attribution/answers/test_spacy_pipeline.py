"""spaCy's pipelines as parsers: files, the faster passes, and spaCy's own English labels."""

import json
import shutil
import sys
from itertools import product

import numpy
import pytest
import spacy
from tests.attribution.trees import tree
from thinc.api import NumpyOps

from attribeam.attribution.answers import spacy_pipeline
from attribeam.attribution.answers.answer_names import is_capitalised_as_first
from attribeam.attribution.answers.answer_parser import BUNDLED_PARSER, AnswerParser, pipeline_folder, pipeline_identity
from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.spacy_pipeline import LOCKSTEP_FACTORY, LockstepParser, TorchProducts, faster_parts
from attribeam.attribution.answers.target_spans import choose_target_spans, is_content_word, parse_span_kinds
from attribeam.schemas.files import read_object

TEXTS = [
    "The bridge was built in 1894, and it carries two lanes of traffic.", "Rain.",
    "Nobody who saw the play that evening forgot what the old actor said when the lights went out.", "",
    "She sold the mill to her brother; he ran it for nine years. Then it burned down.",
    "According to the guide, tickets cost $12, which the museum's own page does not say.",
    "Copper conducts heat better than iron does.",
]  # fmt: skip


@pytest.fixture(scope="module")
def plain():
    return spacy.load(BUNDLED_PARSER)


@pytest.fixture(scope="module")
def lockstep():
    nlp = spacy.load(BUNDLED_PARSER, config=faster_parts(BUNDLED_PARSER))
    spacy_pipeline.read_words_once(nlp)
    return nlp


def trees(docs):
    return [[(word.head.i, word.dep_, word.is_sent_start) for word in doc] for doc in docs]


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], [*TEXTS[:2], ""], ["", "", ""]])
def test_trees_are_those_of_spacys_own_parser(plain, lockstep, texts):
    assert isinstance(lockstep.get_pipe("parser"), LockstepParser)
    assert lockstep.get_pipe("tok2vec").model.layers[0].name == "embed_once"
    assert trees(list(lockstep.pipe(texts))) == trees(list(plain.pipe(texts)))


def test_documents_keep_their_order_where_the_words_at_once_are_few(lockstep, monkeypatch):
    whole = trees(list(lockstep.pipe(TEXTS)))
    monkeypatch.setattr(spacy_pipeline, "_WORDS_AT_ONCE", 20)
    docs = list(lockstep.pipe(TEXTS))
    assert [doc.text for doc in docs] == TEXTS
    assert trees(docs) == whole


def test_parser_of_another_kind_is_left_as_it_is(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("beam_parser", name="parser").add_label("nsubj")
    nlp.initialize()
    nlp.to_disk(tmp_path)
    assert "components" not in faster_parts(tmp_path)
    assert faster_parts(BUNDLED_PARSER)["components"] == {"parser": {"factory": LOCKSTEP_FACTORY}}


NUMBERS = numpy.random.default_rng(0)


def floats(rows, columns):
    return NUMBERS.normal(size=(rows, columns)).astype("float32")


@pytest.mark.parametrize(("trans1", "trans2"), [*product((False, True), repeat=2)])
def test_products_are_those_of_thinc(trans1, trans2):
    x, y = floats(*((7, 5) if trans1 else (5, 7))), floats(*((3, 7) if trans2 else (7, 3)))
    expected = NumpyOps().gemm(x, y, trans1=trans1, trans2=trans2)
    numpy.testing.assert_allclose(TorchProducts().gemm(x, y, trans1=trans1, trans2=trans2), expected, atol=1e-5)


def test_product_is_written_where_it_is_asked_for_and_weights_that_may_not_be_written_are_read():
    x, y, out = floats(4, 6), floats(2, 6), numpy.zeros((5, 2), dtype="float32")
    y.flags.writeable = False
    TorchProducts().gemm(x, y, trans2=True, out=out[1:])
    numpy.testing.assert_allclose(out, [[0, 0], *(x @ y.T)], atol=1e-5)


def test_spacy_parses_by_itself_where_a_private_part_is_missing(monkeypatch):
    monkeypatch.setattr(spacy_pipeline, "_PRIVATE_PARTS", ("no_such_part",))
    assert "components" not in faster_parts(BUNDLED_PARSER)


def test_tokenizer_without_its_languages_rules_reads_all_of_them_from_the_pipeline(lockstep):
    plain = spacy.load(BUNDLED_PARSER)
    assert lockstep.tokenizer.to_bytes(exclude=["vocab"]) == plain.tokenizer.to_bytes(exclude=["vocab"])
    for text in (*TEXTS, "It's 5km, isn't it? :-) See http://a.b/c?d=e (U.S.A., e.g.)"):
        assert [token.text for token in lockstep.make_doc(text)] == [token.text for token in plain.make_doc(text)]


BOTH = {
    "passive with an agent": (
        "Ships/nsubj:pass/3/NOUN were/aux:pass/3/AUX sent/root/0/VERB to/case/5/ADP Skelde/obl/3/PROPN "
        "by/case/8/ADP the/det/8/DET owners/obl:agent/3/NOUN ~./punct/3/PUNCT",
        "Ships/nsubjpass/3/NOUN were/auxpass/3/AUX sent/ROOT/0/VERB to/prep/3/ADP Skelde/pobj/4/PROPN "
        "by/agent/3/ADP the/det/8/DET owners/pobj/6/NOUN ~./punct/3/PUNCT"),
    "copula": ("It/nsubj/4/PRON is/cop/4/AUX a/det/4/DET town/root/0/NOUN in/case/6/ADP Norway/nmod/4/PROPN "
        "known/acl/4/VERB for/case/10/ADP its/nmod:poss/10/PRON trams/obl/7/NOUN ~./punct/4/PUNCT",
        "It/nsubj/2/PRON is/ROOT/0/AUX a/det/4/DET town/attr/2/NOUN in/prep/4/ADP Norway/pobj/5/PROPN "
        "known/acl/4/VERB for/prep/7/ADP its/poss/10/PRON trams/pobj/8/NOUN ~./punct/2/PUNCT"),
    "enumeration of objects": (
        "The/det/2/DET dam/nsubj/3/NOUN feeds/root/0/VERB Kalbrook/obj/3/PROPN ~,/punct/6/PUNCT Ottenby/conj/4/PROPN "
        "and/cc/8/CCONJ Ravik/conj/4/PROPN ~./punct/3/PUNCT",
        "The/det/2/DET dam/nsubj/3/NOUN feeds/ROOT/0/VERB Kalbrook/dobj/3/PROPN ~,/punct/4/PUNCT Ottenby/conj/4/PROPN "
        "and/cc/6/CCONJ Ravik/conj/6/PROPN ~./punct/3/PUNCT"),
    "conjoined predicates": (
        "The/det/2/DET bridge/nsubj:pass/4/NOUN was/aux:pass/4/AUX opened/root/0/VERB in/case/6/ADP 1994/obl/4/NUM "
        "and/cc/8/CCONJ carries/conj/4/VERB trains/obj/8/NOUN ~./punct/4/PUNCT",
        "The/det/2/DET bridge/nsubjpass/4/NOUN was/auxpass/4/AUX opened/ROOT/0/VERB in/prep/4/ADP 1994/pobj/5/NUM "
        "and/cc/4/CCONJ carries/conj/4/VERB trains/dobj/8/NOUN ~./punct/4/PUNCT"),
    "clauses with subjects of their own": (
        "Lee/nsubj/2/PROPN says/root/0/VERB that/mark/6/SCONJ the/det/5/DET ice/nsubj/6/NOUN melts/ccomp/2/VERB "
        "after/mark/9/SCONJ rain/nsubj/9/NOUN falls/advcl/6/VERB ~./punct/2/PUNCT",
        "Lee/nsubj/2/PROPN says/ROOT/0/VERB that/mark/6/SCONJ the/det/5/DET ice/nsubj/6/NOUN melts/ccomp/2/VERB "
        "after/mark/9/SCONJ rain/nsubj/9/NOUN falls/advcl/6/VERB ~./punct/2/PUNCT"),
    "relative clause": (
        "A/det/2/DET mill/nsubj/6/NOUN that/nsubj/4/PRON burned/acl:relcl/2/VERB was/cop/6/AUX old/root/0/ADJ "
        "~./punct/6/PUNCT",
        "A/det/2/DET mill/nsubj/5/NOUN that/nsubj/4/PRON burned/relcl/2/VERB was/ROOT/0/AUX old/acomp/5/ADJ "
        "~./punct/5/PUNCT"),
    "either and or": (
        "Either/cc:preconj/4/CCONJ the/det/3/DET lamp/nsubj/4/NOUN failed/root/0/VERB or/cc/7/CCONJ Ada/nsubj/7/PROPN "
        "slept/conj/4/VERB ~./punct/4/PUNCT",
        "Either/preconj/4/CCONJ the/det/3/DET lamp/nsubj/4/NOUN failed/ROOT/0/VERB or/cc/4/CCONJ Ada/nsubj/7/PROPN "
        "slept/conj/4/VERB ~./punct/4/PUNCT"),
    "possessor, number and dative": (
        "Ada/nmod:poss/3/PROPN ~'s/case/1/PART firm/nsubj/4/NOUN gave/root/0/VERB Jon/iobj/4/PROPN twelve/nummod/7/NUM "
        "boats/obj/4/NOUN ~./punct/4/PUNCT",
        "Ada/poss/3/PROPN ~'s/case/1/PART firm/nsubj/4/NOUN gave/ROOT/0/VERB Jon/dative/4/PROPN twelve/nummod/7/NUM "
        "boats/dobj/4/NOUN ~./punct/4/PUNCT"),
    "coordination under a preposition": (
        "She/nsubj/2/PRON lived/root/0/VERB in/case/4/ADP Bern/obl/2/PROPN and/cc/6/CCONJ Oslo/conj/4/PROPN "
        "~./punct/2/PUNCT",
        "She/nsubj/2/PRON lived/ROOT/0/VERB in/prep/2/ADP Bern/pobj/3/PROPN and/cc/4/CCONJ Oslo/conj/4/PROPN "
        "~./punct/2/PUNCT"),
}  # fmt: skip


@pytest.fixture(params=BOTH.values(), ids=BOTH.keys(), name="parses")
def both_parses(request):
    """The sentence, its parse by Universal Dependencies, and by spaCy's labels."""
    universal, spacy_english = request.param
    text, first = tree(universal)
    same, second = tree(spacy_english, label_scheme="spacy-english")
    assert text == same
    return text, first, second


@pytest.mark.parametrize("kinds", ["facts", "mentions", "words"])
def test_spans_are_the_same_under_both_label_schemes(parses, kinds):
    text, *both = parses
    first, second = (
        [one.chars.of(text) for one in choose_target_spans(parsed, text, kinds=parse_span_kinds(kinds), given=None)]
        for parsed in both
    )
    assert second == first != []


def test_atomic_facts_have_the_same_content_under_both_label_schemes(parses):
    text, *both = parses
    first, second = ([_content_of_fact(text, parsed, word) for word in _content(text, parsed)] for parsed in both)
    assert second == first != []


def _content(text, parsed):
    return [word for word in range(len(parsed.words)) if is_content_word(parsed, word, text)]


def _content_of_fact(text, parsed, word):
    fact = AtomicFacts(parsed).words_of(word)
    return [parsed.words[one].of(text) for one in _content(text, parsed) if one in fact]


@pytest.mark.parametrize("notation", [
    "Amid/prep/4/PROPN heavy/amod/3/ADJ rain/pobj/1/NOUN ships/nsubj/5/NOUN sank/ROOT/0/VERB",
    "Being/auxpass/2/PROPN sold/ROOT/0/VERB", "Neither/preconj/2/PROPN ships/nsubj/3/NOUN sank/ROOT/0/VERB",
    "Repair/ROOT/0/PROPN the/det/3/DET lamp/dobj/1/NOUN",
])  # fmt: skip
def test_first_word_that_only_its_place_makes_a_capital_is_no_name(notation):
    text, parsed = tree(notation, label_scheme="spacy-english")
    assert is_capitalised_as_first(parsed, 0, text)


PACKAGE = "own_english_pipeline"
COMPONENT = """
from spacy.language import Language
from spacy.tokens import Doc

@Language.component("own_component_of_a_package")
def leave_alone(doc: Doc) -> Doc:
    return doc
"""


@pytest.fixture
def pipeline_package(tmp_path, monkeypatch):
    """The folder of an installed package, as ``spacy package`` makes it, with a component of its own."""
    folder = tmp_path / PACKAGE
    data = folder / "en_attribeam_universal-1.0.0"
    shutil.copytree(BUNDLED_PARSER, data)
    shutil.copy(data / "meta.json", folder)
    config = (data / "config.cfg").read_text(encoding="utf-8").replace('"parser"]', '"parser", "senter2"]', 1)
    (data / "config.cfg").write_text(
        config + '\n[components.senter2]\nfactory = "own_component_of_a_package"\n', encoding="utf-8"
    )
    (folder / "__init__.py").write_text(COMPONENT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop(PACKAGE, None)


def test_pipeline_of_a_package_is_found_by_name_and_by_both_of_its_folders(pipeline_package):
    data = pipeline_package / "en_attribeam_universal-1.0.0"
    assert pipeline_folder(PACKAGE) == pipeline_folder(str(pipeline_package)) == pipeline_folder(str(data)) == data
    assert PACKAGE not in sys.modules  # finding it ran none of its code


def test_named_package_brings_its_own_components_and_the_faster_parser(pipeline_package):
    parser = AnswerParser.from_pretrained(PACKAGE)
    assert isinstance(parser._nlp.get_pipe("parser"), LockstepParser)
    folder = pipeline_folder(PACKAGE)
    assert parser.identity == pipeline_identity(folder, read_object(folder / "meta.json"))
    assert parser.parse("Rain fell.") == AnswerParser.from_pretrained("bundled").parse("Rain fell.")
    assert pipeline_package.name in sys.modules


@pytest.mark.parametrize("name", ["no_such_pipeline", "json", "no.such", "en-core", "/no/such/folder", ""])
def test_name_without_a_pipeline_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="'bundled', an installed spaCy pipeline or a directory"):
        pipeline_folder(name)


@pytest.mark.parametrize("meta", ["{", "[]", json.dumps({"lang": "en"}), json.dumps({"lang": "a", "name": "b"})])
def test_folder_with_a_broken_description_is_left_to_spacy_to_refuse(tmp_path, meta):
    (tmp_path / "meta.json").write_text(meta, encoding="utf-8")
    assert pipeline_folder(str(tmp_path)) == tmp_path
    with pytest.raises(ValueError, match="name another with --parser"):
        AnswerParser.from_pretrained(str(tmp_path))
