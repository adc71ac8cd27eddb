"""The parser's recipe on Chinese sentences, written for this test."""

from pathlib import Path

import pytest
import spacy

from attribeam.attribution.answers.answer_parser import AnswerParser
from lab.training.parser.recipe import main
from lab.training.parser.treebank import (
    Sentence,
    TreebankFolder,
    build_doc,
    is_chinese,
    read_sentences,
    split_into_characters,
)


def conllu(*sentences: str) -> str:
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
TREEBANK = conllu(LAMP, BIRDS, SEA)
ENGLISH = Sentence(words=["The", "lamp", "burns", "灯"])


def test_character_is_attached_to_the_next_one_of_its_word() -> None:
    lamp = split_into_characters(read_sentences(conllu(LAMP))[0])
    assert "".join(lamp.words) == "守塔人点亮灯塔。"
    assert lamp.heads == [1, 2, 4, 4, 4, 6, 4, 4]
    assert lamp.labels == ["subtok", "subtok", "nsubj", "subtok", "ROOT", "subtok", "obj", "punct"]
    assert lamp.tags == ["NOUN"] * 3 + ["VERB"] * 2 + ["NOUN"] * 2 + ["PUNCT"]


def test_characters_are_the_tokens_of_spacys_chinese_tokenizer() -> None:
    nlp = spacy.blank("zh")
    sentences = [split_into_characters(sentence) for sentence in read_sentences(TREEBANK)]
    doc = build_doc(nlp.vocab, sentences, separator=lambda: "\n\n")
    assert doc.text == "守塔人点亮灯塔。海鸥喜欢海岛。海水很冷。"
    assert [token.text for token in nlp.make_doc(doc.text)] == [token.text for token in doc]
    assert [sentence.text for sentence in doc.sents] == ["守塔人点亮灯塔。", "海鸥喜欢海岛。", "海水很冷。"]


def test_language_is_read_from_the_words() -> None:
    assert is_chinese(read_sentences(TREEBANK))
    assert not is_chinese([ENGLISH])


def test_without_a_train_file_the_last_tenth_of_dev_selects(tmp_path: Path) -> None:
    (tmp_path / "zh-dev.conllu").write_text("\n".join([TREEBANK] * 10), encoding="utf-8")
    learned, chosen_by = TreebankFolder(tmp_path).train_and_dev()
    assert (len(learned), len(chosen_by)) == (27, 3)
    (tmp_path / "zh-train.conllu").write_text(TREEBANK, encoding="utf-8")
    learned, chosen_by = TreebankFolder(tmp_path).train_and_dev()
    assert (len(learned), len(chosen_by)) == (3, 30)


@pytest.mark.parametrize("name", ["", "none"])
def test_folder_without_a_treebank_is_refused_and_its_content_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(FileNotFoundError, match=r"with \*dev\*\.conllu .* has: (\['notes\.txt'\]|no folder)"):
        TreebankFolder(tmp_path / name)


def test_trained_pipeline_finds_words_heads_and_sentences(tmp_path: Path) -> None:
    folder = tmp_path / "ud_chinese"
    folder.mkdir()
    for part, copies in (("train", 40), ("dev", 1), ("test", 1)):
        (folder / f"tiny-{part}.conllu").write_text("\n".join([TREEBANK] * copies), encoding="utf-8")
    steps = ("--steps", "20", "--batch-words", "60", "--evaluate-every", "20")
    main(["--treebank", str(folder), "--output", str(tmp_path / "parser"), *steps])
    parser = AnswerParser.from_pretrained(str(tmp_path / "parser"))
    text = "海鸥喜欢海岛。守塔人点亮灯塔。"
    parsed = parser.parse(text)
    assert parsed.label_scheme == "universal-chinese"
    assert [word.of(text) for word in parsed.words] == ["海鸥", "喜欢", "海岛", "。", "守塔人", "点亮", "灯塔", "。"]
    assert parsed.sentence_starts == (0, 4)
    assert parsed.dependency_heads == (1, 1, 1, 1, 5, 5, 5, 5)
    assert parsed.dependency_labels == ("nsubj", "root", "obj", "punct") * 2
    assert parsed.universal_tags == ("NOUN", "VERB", "NOUN", "PUNCT") * 2
