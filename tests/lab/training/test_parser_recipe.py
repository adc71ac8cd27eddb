"""The parser's recipe on small treebanks, and the parser that it made."""

import json

import numpy
import pytest
import spacy
from spacy.attrs import LOWER

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.schemas.errors import ExitCode
from lab.train import main
from lab.training import loss_curve
from lab.training.parser.recipe import run_training
from lab.training.parser.training_loop import Checkpoint, Folders, Schedule, learn_vectors
from lab.training.parser.treebank import adapt_tokenizer, read_sentences, split_into_characters

TREEBANK = """\
# newdoc id = GUM_bio_baker
# newpar
# text = She doesn't bake.
1\tShe\tshe\tPRON\tPRP\tCase=Nom\t4\tnsubj\t_\t_
2-3\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdoes\tdo\tAUX\tVBZ\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tbake\tbake\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

# text = Bread rises (slowly).
1\tBread\tbread\tNOUN\tNN\tNumber=Sing\t2\tnsubj\t_\t_
2\trises\trise\tVERB\tVBZ\t_\t0\troot\t_\t_
2.1\tit\tit\tPRON\tPRP\t_\t_\t_\t_\t_
3\t(\t(\tPUNCT\t-LRB-\t_\t4\tpunct\t_\tSpaceAfter=No
4\tslowly\tslowly\tADV\tRB\t_\t2\tadvmod\t_\tSpaceAfter=No
5\t)\t)\tPUNCT\t-RRB-\t_\t4\tpunct\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

# newpar
# text = Two ovens glow.
1\tTwo\ttwo\tNUM\tCD\t_\t2\tnummod\t_\t_
2\tovens\toven\tNOUN\tNNS\tNumber=Plur\t3\tnsubj\t_\t_
3\tglow\tglow\tVERB\tVBP\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

# newdoc id = review-17
# text = Good café!
1\tGood\tgood\tADJ\tJJ\t_\t2\tamod\t_\t_
2\tcafé\tcafé\tNOUN\tNN\tNumber=Sing\t0\troot\t_\tSpaceAfter=No
3\t!\t!\tPUNCT\t.\t_\t2\tpunct\t_\t_
"""
SENTENCES = read_sentences(TREEBANK)
COPIES = 25 * SENTENCES  # every label often enough for the parser to keep it
VECTORS = learn_vectors(["she bakes bread .", "two ovens glow .", "bread rises slowly ."], words=9, columns=4, seed=0)


def train_until(step, folder):
    """The weights after ``step`` steps of a schedule that starts or resumes in ``folder``."""
    folders = Folders(output=folder / "pipeline", work=folder / "work")
    schedule = Schedule(steps=step, batch_words=8, evaluate_every=2)
    run_training(COPIES, SENTENCES, VECTORS, schedule=schedule, folders=folders)
    with numpy.load(folders.checkpoint.path) as arrays:
        return {name: arrays[name] for name in arrays if name.endswith("/value")}


def assert_equal_weights(left, right):
    assert left.keys() == right.keys()
    for name, value in left.items():
        numpy.testing.assert_array_equal(value, right[name], err_msg=name)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of two steps; tests must not change it."""
    folder = tmp_path_factory.mktemp("trained")
    train_until(2, folder)
    return folder


def test_pipeline_has_its_vectors_by_lower_cased_word_and_no_other_words_of_the_training_data(trained):
    nlp = spacy.load(trained / "pipeline")
    assert json.loads((trained / "pipeline" / "vocab" / "strings.json").read_text()) == []
    assert nlp.vocab.vectors.attr == LOWER
    row = nlp.vocab.vectors.find(keys=nlp("Bread").to_array(LOWER))[0]
    numpy.testing.assert_array_equal(nlp.vocab.vectors.data[row], VECTORS.values[VECTORS.words.index("bread")])


def test_killed_run_resumes_to_the_weights_of_another_run_with_this_seed(tmp_path, monkeypatch):
    whole = train_until(4, tmp_path / "whole")
    save = Checkpoint.save

    def save_and_die(self, nlp, optimizer, history):
        save(self, nlp, optimizer, history)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            train_until(4, tmp_path / "killed")
    assert_equal_weights(whole, train_until(4, tmp_path / "killed"))


def conllu(*sentences):
    """One sentence per text of form/tag/head/label items, without spaces between its words."""
    blocks = []
    for sentence in sentences:
        rows = [item.split("/") for item in sentence.split()]
        blocks.append(
            "\n".join(
                f"{number}\t{form}\t{form}\t{tag}\t_\t_\t{head}\t{label}\t_\tSpaceAfter=No"
                for number, (form, tag, head, label) in enumerate(rows, start=1)
            )
        )
    return "\n\n".join(blocks) + "\n"


LAMP = "守塔人/NOUN/2/nsubj 点亮/VERB/0/root 灯塔/NOUN/2/obj 。/PUNCT/2/punct"
BIRDS = "海鸥/NOUN/2/nsubj 喜欢/VERB/0/root 海岛/NOUN/2/obj 。/PUNCT/2/punct"
SEA = "海水/NOUN/3/nsubj 很/ADV/3/advmod 冷/ADJ/0/root 。/PUNCT/3/punct"
CHINESE_TREEBANK = conllu(LAMP, BIRDS, SEA)


def test_character_is_attached_to_the_next_one_of_its_word():
    lamp = split_into_characters(read_sentences(conllu(LAMP))[0])
    assert "".join(lamp.words) == "守塔人点亮灯塔。"
    assert lamp.heads == [1, 2, 4, 4, 4, 6, 4, 4]
    assert lamp.labels == ["subtok", "subtok", "nsubj", "subtok", "ROOT", "subtok", "obj", "punct"]
    assert lamp.tags == ["NOUN"] * 3 + ["VERB"] * 2 + ["NOUN"] * 2 + ["PUNCT"]


def test_trained_pipeline_finds_words_heads_and_sentences(tmp_path):
    folder = tmp_path / "ud_chinese"
    folder.mkdir()
    for part, copies in (("train", 40), ("dev", 1), ("test", 1)):
        (folder / f"tiny-{part}.conllu").write_text("\n".join([CHINESE_TREEBANK] * copies), encoding="utf-8")
    steps = ("--steps", "20", "--batch-words", "60", "--evaluate-every", "20")
    main(["parser", "--treebank", str(folder), "--output", str(tmp_path / "parser"), *steps])
    parser = AnswerParser.from_pretrained(str(tmp_path / "parser"))
    text = "海鸥喜欢海岛。守塔人点亮灯塔。"
    parsed = parser.parse(text)
    assert parsed.label_scheme == "universal-chinese"
    assert [word.of(text) for word in parsed.words] == ["海鸥", "喜欢", "海岛", "。", "守塔人", "点亮", "灯塔", "。"]
    assert parsed.sentence_starts == (0, 4)
    assert parsed.dependency_heads == (1, 1, 1, 1, 5, 5, 5, 5)
    assert parsed.dependency_labels == ("nsubj", "root", "obj", "punct") * 2
    assert parsed.universal_tags == ("NOUN", "VERB", "NOUN", "PUNCT") * 2


@pytest.fixture(scope="module")
def nlp():
    pipeline = spacy.blank("en")
    adapt_tokenizer(pipeline)
    return pipeline


@pytest.mark.parametrize(("text", "words"), [
    ("Really!! No?!", "Really !! No ?!"), ("====== Note ******", "====== Note ******"),
    ("tea and/or milk", "tea and / or milk"), ("She co-founded it by e-mail.", "She co-founded it by e-mail ."),
    ("a well-known non-profit", "a well - known non-profit"),
    ("the item(s) (see 3): here", "the item ( s ) ( see 3 ) : here"), ("from 1837–1908", "from 1837 – 1908"),
    ("at 7:30PM", "at 7:30 PM"), ("Rao et al. say it", "Rao et al. say it"), ("I wanna go", "I wan na go"),
    ("It costs $4.50, i.e. little.", "It costs $ 4.50 , i.e. little ."),
    ("Write to a.b@c.org or see https://c.org/x?y=(1)", "Write to a.b@c.org or see https://c.org/x?y=(1 )"),
])  # fmt: skip
def test_text_is_split_into_the_treebanks_words(nlp, text, words):
    assert [token.text for token in nlp(text)] == words.split()


@pytest.mark.parametrize("arguments", [[], ["lexer"]])
def test_without_a_known_recipe_the_existing_ones_are_named(arguments, capsys):
    assert main(arguments) == ExitCode.BAD_USAGE
    assert "name a recipe: parser, attributor, verdict" in capsys.readouterr().err


@pytest.mark.parametrize(("recipe", "options"), [
    ("parser", ["--treebank", "no such folder", "--output", "o"]),
    ("attributor", ["--pages", "no such file", "--output", "o"]),
])  # fmt: skip
def test_missing_extra_is_named_with_the_way_to_install_it(recipe, options, monkeypatch, capsys):
    monkeypatch.setattr(loss_curve, "EXTRA_MODULE", "no_such_module")
    assert main([recipe, *options]) == ExitCode.BAD_USAGE
    assert "pip install 'attribeam[training]'" in capsys.readouterr().err
