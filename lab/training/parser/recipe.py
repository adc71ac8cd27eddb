"""Recipe of the bundled English parser: tags, sentences and Universal Dependencies.

``python -m lab.train parser --pages FILE... --train FILE... --dev FILE... --test FILE... --output DIR`` learns word
vectors from the pages, trains, and prints the scores; restarted with the same options, it resumes from its last
evaluation. With ``--evaluate DIR`` and ``--test`` alone, it prints the scores of a finished pipeline. It runs in one
thread on the CPU.

``--treebank DIR --output DIR`` trains a parser for another language on a folder of Universal Dependencies, without word
vectors unless ``--pages`` is given. If most of the letters are Chinese characters, the parser also finds the words.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.training import Example
from thinc.api import Optimizer, fix_random_seed

from attribeam.report.messages import CommandParser, print_lines
from lab.training.loss_curve import check_drawing_is_installed
from lab.training.parser.training_loop import (
    Folders,
    Schedule,
    WordVectors,
    endless_batches,
    epoch_batches,
    learn_vectors,
    load_vectors,
    read_paragraphs,
    train,
)
from lab.training.parser.treebank import (
    Sentence,
    TreebankFolder,
    adapt_tokenizer,
    build_doc,
    group_by_document,
    is_chinese,
    join_words,
    read_files,
    read_sentences,
    read_text,
    split_into_characters,
)

PARAGRAPH_BREAK = "\n\n"
BLANK = " "


@dataclass(frozen=True)
class ParserScores:
    """Percentages, and words per second on one core; attachment scores exclude punctuation, as spaCy's do."""

    uas: float
    las: float
    upos: float
    sentence_f: float
    words_per_second: float

    @property
    def selection(self) -> float:
        """The figure that selects the checkpoint: mostly attachment, partly sentences."""
        return 0.7 * self.las + 0.3 * self.sentence_f

    def __str__(self) -> str:
        return (
            f"UAS {self.uas:.1f}  LAS {self.las:.1f}  UPOS {self.upos:.1f}  "
            f"sentence F {self.sentence_f:.1f}  {self.words_per_second:,.0f} words/s"
        )


def score_sentences(nlp: Language, sentences: Sequence[Sentence], *, separator: str = PARAGRAPH_BREAK) -> ParserScores:
    """Score ``nlp`` on whole documents of ``sentences``, read as raw text with ``separator`` between paragraphs.

    The text is tokenised by ``nlp`` itself. For the speed, a word is a token of spaCy, or several characters that the
    parser joined.
    """
    references = [
        build_doc(nlp.vocab, document, separator=lambda: separator) for document in group_by_document(sentences)
    ]
    texts = [reference.text for reference in references]
    start = time.perf_counter()
    predicted = [join_words(doc) for doc in nlp.pipe(texts)]
    seconds = time.perf_counter() - start
    examples = [Example(doc, reference) for doc, reference in zip(predicted, references, strict=True)]
    scores = nlp.get_pipe("parser").score(examples)  # type: ignore[attr-defined]
    scores |= nlp.get_pipe("morphologizer").score(examples)  # type: ignore[attr-defined]
    return ParserScores(
        uas=100 * scores["dep_uas"],
        las=100 * scores["dep_las"],
        upos=100 * scores["pos_acc"],
        sentence_f=100 * scores["sents_f"],
        words_per_second=sum(map(len, predicted)) / seconds,
    )


def genre(document_id: str) -> str:
    """The genre that a document's name begins with: ``bio`` for ``GUM_bio_x``, ``weblog`` for ``weblog-x``."""
    return document_id.removeprefix("GUM_").replace("_", "-").partition("-")[0]


def size_in_megabytes(directory: Path) -> float:
    """The size of all files below ``directory`` in units of 1,000,000 bytes."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


CONFIG = Path(__file__).with_name("parser_config.cfg")
VECTOR_WORDS = 20_000
VECTOR_COLUMNS = 96
FILE_OPTIONS = {
    "pages": 'pages to learn word vectors from: lines of {"title", "paras"}, plain or .xz',
    "train": ".conllu or .conllu.xz files to train on",
    "dev": "files that select the best evaluation",
    "test": "files for the final scores",
}
META = {
    "name": "attribeam_universal",
    "version": "1.0.0",
    "spacy_version": ">=3.8.0,<3.9.0",
    "description": "Tags, sentences and Universal Dependencies for English answers",
    "license": "CC BY-SA 4.0",
}
CHINESE_META = META | {
    "name": "universal",
    "description": "Words, tags, sentences and Universal Dependencies for Chinese answers",
    "license": "that of the treebank",
}


def load_or_learn_vectors(pages: Sequence[Path], *, folders: Folders, seed: int) -> WordVectors:
    """The vectors that the run in ``folders`` started with, else new ones; learning them takes about a minute."""
    if not folders.vectors.exists():
        learned = learn_vectors(read_paragraphs(pages), words=VECTOR_WORDS, columns=VECTOR_COLUMNS, seed=seed)
        learned.save(folders.vectors)
    return load_vectors(folders.vectors)


def new_pipeline(
    sentences: Sequence[Sentence], vectors: WordVectors | None, *, seed: int, chinese: bool = False
) -> tuple[Language, Optimizer]:
    """An untrained pipeline that knows every label of ``sentences``, and its optimizer.

    Without vectors it only sees the forms of the words. A Chinese pipeline has one token per character, as its
    ``sentences`` must have; ``attribeam.attribution.answers.answer_parser`` joins the characters into words.
    """
    fix_random_seed(seed)
    overrides: dict[str, bool | str] = {"components.tok2vec.model.embed.include_static_vectors": vectors is not None}
    overrides |= {"nlp.lang": "zh"} if chinese else {}
    config = spacy.util.load_config(CONFIG, overrides=overrides)
    nlp = spacy.util.load_model_from_config(config, meta=CHINESE_META if chinese else META, auto_fill=True)
    if not chinese:
        adapt_tokenizer(nlp)
    if vectors is not None:
        nlp.vocab.vectors = vectors.as_spacy(nlp.vocab.strings)
    batches = epoch_batches(nlp, sentences, seed=str(seed), words=1000)
    examples = [example for batch in batches for example in batch]
    return nlp, nlp.initialize(lambda: examples)


def run_training(
    sentences: Sequence[Sentence],
    dev: Sequence[Sentence],
    vectors: WordVectors | None,
    *,
    schedule: Schedule,
    folders: Folders,
) -> None:
    """Train on ``sentences``, select by ``dev``, and write the best pipeline to ``folders.output``."""
    chinese = is_chinese(sentences)
    if chinese:
        sentences = [split_into_characters(sentence) for sentence in sentences]
    nlp, optimizer = new_pipeline(sentences, vectors, seed=schedule.seed, chinese=chinese)

    def score(pipeline: Language) -> dict[str, float]:
        scores = score_sentences(pipeline, dev)
        return {
            "LAS": scores.las,
            "UPOS": scores.upos,
            "sentence F": scores.sentence_f,
            "selection": scores.selection,
        }

    train(
        nlp,
        optimizer,
        endless_batches(nlp, sentences, schedule),
        schedule=schedule,
        folders=folders,
        score=score,
    )


def print_scores(directory: Path, paths: Sequence[Path]) -> None:
    """Print the size and scores of a pipeline: each file with paragraphs separate and run together, then by genre."""
    nlp = spacy.load(directory)
    print_lines(f"size {size_in_megabytes(directory):.1f} MB")
    for path in paths:
        sentences = read_sentences(read_text(path))
        print_lines(f"{path.name}: {score_sentences(nlp, sentences)}")
        print_lines(f"{path.name}, paragraphs run together: {score_sentences(nlp, sentences, separator=BLANK)}")
        for name in sorted({genre(sentence.document_id) for sentence in sentences}):
            part = [sentence for sentence in sentences if genre(sentence.document_id) == name]
            print_lines(f"  {name}: {score_sentences(nlp, part)}")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; they must name something to train or to evaluate."""
    parser = CommandParser(prog="python -m lab.train parser", description="Train the bundled parser.")
    for name, purpose in FILE_OPTIONS.items():
        parser.add_argument(f"--{name}", type=Path, nargs="+", default=[], metavar="FILE", help=purpose)
    parser.add_argument(
        "--treebank", type=Path, metavar="DIR", help="a folder with *train*, *dev* and *test* .conllu files"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="the folder that the best pipeline is written to")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="the folder with the state to resume from (default: OUTPUT.work)"
    )
    parser.add_argument("--evaluate", type=Path, metavar="DIR", help="only print the scores of this pipeline")
    parser.add_argument("--steps", type=int, default=Schedule.steps)
    parser.add_argument(
        "--until", type=int, default=0, metavar="STEP", help="stop after this step (default: the last step)"
    )
    parser.add_argument("--batch-words", type=int, default=Schedule.batch_words)
    parser.add_argument("--evaluate-every", type=int, default=Schedule.evaluate_every, metavar="STEPS")
    parser.add_argument("--seed", type=int, default=Schedule.seed)
    options = parser.parse_args(arguments)
    named = options.pages and options.train and options.dev
    if options.evaluate is None and not ((options.treebank or named) and options.output):
        parser.error("expected --pages, --train, --dev and --output, or --evaluate, or --treebank and --output")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and print the scores, or only print them."""
    options = parse_arguments(arguments)
    if options.evaluate is None:
        check_drawing_is_installed()
        schedule = Schedule(
            steps=options.steps,
            batch_words=options.batch_words,
            evaluate_every=options.evaluate_every,
            seed=options.seed,
            stop_after=options.until,
        )
        work = options.work or options.output.with_name(options.output.name + ".work")
        folders = Folders(output=options.output, work=work)
        train_sentences, dev = _sentences(options)
        vectors = load_or_learn_vectors(options.pages, folders=folders, seed=options.seed) if options.pages else None
        run_training(train_sentences, dev, vectors, schedule=schedule, folders=folders)
    test = options.test or (TreebankFolder(options.treebank).files("test") if options.treebank else [])
    print_scores(options.evaluate or options.output, test)


def _sentences(options: argparse.Namespace) -> tuple[list[Sentence], list[Sentence]]:
    if options.treebank is not None:
        return TreebankFolder(options.treebank).train_and_dev()
    return read_files(options.train), read_files(options.dev)


if __name__ == "__main__":
    main()
