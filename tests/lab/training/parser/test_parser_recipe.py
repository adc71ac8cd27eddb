"""The parser's recipe on a treebank of four sentences, written for this test."""

import json
import lzma
from pathlib import Path

import numpy
import pytest
import spacy
from spacy.attrs import LOWER

from lab.training.parser.recipe import (
    genre,
    load_or_learn_vectors,
    new_pipeline,
    parse_arguments,
    run_training,
    score_sentences,
)
from lab.training.parser.training_loop import Checkpoint, Folders, Schedule, learn_vectors, named_parameters
from lab.training.parser.treebank import build_doc, group_by_document, read_sentences, read_text

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


def train_until(step: int, folder: Path) -> dict[str, numpy.ndarray]:
    """The weights after ``step`` steps of a schedule that starts or resumes in ``folder``."""
    folders = Folders(output=folder / "pipeline", work=folder / "work")
    schedule = Schedule(steps=step, batch_words=8, evaluate_every=2)
    run_training(COPIES, SENTENCES, VECTORS, schedule=schedule, folders=folders)
    with numpy.load(folders.checkpoint.path) as arrays:
        return {name: arrays[name] for name in arrays if name.endswith("/value")}


def assert_equal_weights(left: dict[str, numpy.ndarray], right: dict[str, numpy.ndarray]) -> None:
    assert left.keys() == right.keys()
    for name, value in left.items():
        numpy.testing.assert_array_equal(value, right[name], err_msg=name)


def test_text_of_document_is_the_text_of_its_sentences_with_paragraphs_separated() -> None:
    vocab = spacy.blank("en").vocab
    baker, review = group_by_document(SENTENCES)
    doc = build_doc(vocab, baker, separator=lambda: "\n\n")
    assert doc.text == "She doesn't bake. Bread rises (slowly).\n\nTwo ovens glow. "
    assert build_doc(vocab, baker, separator=lambda: " ").text == (
        "She doesn't bake. Bread rises (slowly). Two ovens glow. "
    )
    assert build_doc(vocab, review, separator=lambda: "\n\n").text == "Good café! "


def test_words_keep_their_offsets_heads_and_sentences() -> None:
    doc = build_doc(spacy.blank("en").vocab, group_by_document(SENTENCES)[0], separator=lambda: "\n\n")
    assert [doc.text[word.idx : word.idx + len(word)] for word in doc] == [word.text for word in doc]
    assert [sentence.text for sentence in doc.sents] == [
        "She doesn't bake.",
        "Bread rises (slowly).\n\n",
        "Two ovens glow.",
    ]
    glow = next(word for word in doc if word.text == "glow")
    assert glow.dep_ == "ROOT"
    assert [child.text for child in glow.children] == ["ovens", "."]


def test_break_between_paragraphs_is_the_word_that_the_tokenizer_makes_of_it() -> None:
    nlp = spacy.blank("en")
    doc = build_doc(nlp.vocab, group_by_document(SENTENCES)[0], separator=lambda: "\n\n")
    assert [word.text for word in nlp.make_doc(doc.text)] == [word.text for word in doc]


def test_packed_treebank_reads_like_the_plain_one(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.conllu", tmp_path / "a.conllu.xz"
    plain.write_text(TREEBANK, encoding="utf-8")
    packed.write_bytes(lzma.compress(TREEBANK.encode()))
    assert read_text(packed) == read_text(plain) == TREEBANK


def test_genre_is_the_first_part_of_the_name() -> None:
    assert [genre(name) for name in ("GUM_bio_baker", "weblog-blog.com_1", "review-17")] == ["bio", "weblog", "review"]


def test_labelled_score_never_exceeds_the_unlabelled_one() -> None:
    nlp, _ = new_pipeline(COPIES, VECTORS, seed=0)
    scores = score_sentences(nlp, SENTENCES)
    assert 0 <= scores.las <= scores.uas <= 100
    assert scores.words_per_second > 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two steps; tests must not change it."""
    folder = tmp_path_factory.mktemp("trained")
    train_until(2, folder)
    return folder


def test_recipe_writes_a_loadable_pipeline_and_a_picture(trained: Path) -> None:
    nlp = spacy.load(trained / "pipeline")
    doc = nlp("She bakes. Two ovens glow.")
    assert nlp.pipe_names == ["tok2vec", "morphologizer", "senter", "parser"]
    assert doc.has_annotation("DEP")
    assert (trained / "work" / "loss_curve.png").read_bytes().startswith(b"\x89PNG")


def test_pipeline_has_its_vectors_by_lower_cased_word_and_no_other_words_of_the_training_data(trained: Path) -> None:
    nlp = spacy.load(trained / "pipeline")
    assert json.loads((trained / "pipeline" / "vocab" / "strings.json").read_text()) == []
    assert nlp.vocab.vectors.attr == LOWER
    row = nlp.vocab.vectors.find(keys=nlp("Bread").to_array(LOWER))[0]
    numpy.testing.assert_array_equal(nlp.vocab.vectors.data[row], VECTORS.values[VECTORS.words.index("bread")])


def test_loaded_pipeline_parses_as_the_trained_one(tmp_path: Path) -> None:
    nlp, _ = new_pipeline(COPIES, VECTORS, seed=0)
    Folders(output=tmp_path / "pipeline", work=tmp_path / "work").replace_output(nlp)
    text = "Two ovens glow. SHE doesn't bake bread!!"
    loaded, kept = (
        one.get_pipe("tok2vec").predict([one.make_doc(text)])[0] for one in (spacy.load(tmp_path / "pipeline"), nlp)
    )
    numpy.testing.assert_allclose(loaded, kept, rtol=1e-5)


def test_vectors_of_a_run_are_learned_once(tmp_path: Path) -> None:
    folders = Folders(output=tmp_path / "pipeline", work=tmp_path / "work")
    VECTORS.save(folders.vectors)
    again = load_or_learn_vectors([tmp_path / "gone.jsonl"], folders=folders, seed=1)
    assert again.words == VECTORS.words
    numpy.testing.assert_array_equal(again.values, VECTORS.values)


def test_training_without_pages_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--train", "a", "--dev", "b", "--output", "c"])
    assert "expected --pages, --train, --dev and --output, or --evaluate" in capsys.readouterr().err


def test_killed_run_resumes_to_the_weights_of_another_run_with_this_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_until(4, tmp_path / "whole")
    save = Checkpoint.save

    def save_and_die(self, nlp, optimizer, history):  # type: ignore[no-untyped-def]
        save(self, nlp, optimizer, history)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            train_until(4, tmp_path / "killed")
    assert_equal_weights(whole, train_until(4, tmp_path / "killed"))


def test_checkpoint_restores_optimizer_state(trained: Path) -> None:
    nlp, optimizer = new_pipeline(COPIES, VECTORS, seed=0)
    history = Folders(output=trained / "pipeline", work=trained / "work").checkpoint.load(nlp, optimizer)
    assert history.step == 2
    trained = [key for key, _ in named_parameters(nlp).values() if optimizer.nr_update[key]]
    assert trained
    assert all(key in optimizer.mom1 and key in optimizer.averages for key in trained)


def test_schedule_without_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="steps should be at least 1, was: 0"):
        Schedule(steps=0)
