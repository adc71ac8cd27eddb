"""What a parser is worth: dependencies, tags, sentences, speed and size, all measured on raw text."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spacy.language import Language
from spacy.training import Example

from training.chinese_words import join_words
from training.treebank import Sentence, build_doc, group_by_document

PARAGRAPH_BREAK = "\n\n"
BLANK = " "


@dataclass(frozen=True)
class ParserScores:
    """Percentages, and words a second on one core; attachment scores leave punctuation out, as spaCy's do."""

    uas: float
    las: float
    upos: float
    sentence_f: float
    words_per_second: float

    @property
    def selection(self) -> float:
        """The figure that chooses between checkpoints: attachment first, sentences beside it."""
        return 0.7 * self.las + 0.3 * self.sentence_f

    def __str__(self) -> str:
        return (
            f"UAS {self.uas:.1f}  LAS {self.las:.1f}  UPOS {self.upos:.1f}  "
            f"sentence F {self.sentence_f:.1f}  {self.words_per_second:,.0f} words/s"
        )


def score_sentences(nlp: Language, sentences: Sequence[Sentence], *, separator: str = PARAGRAPH_BREAK) -> ParserScores:
    """Score ``nlp`` on whole documents of ``sentences``, read as raw text with ``separator`` between paragraphs.

    The text is tokenised by ``nlp`` itself. In the speed a word is one of spaCy's tokens, or of characters that the
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
    """The genre a document's name begins with: ``GUM_bio_x`` is ``bio``, ``weblog-x`` is ``weblog``."""
    return document_id.removeprefix("GUM_").replace("_", "-").partition("-")[0]


def size_in_megabytes(directory: Path) -> float:
    """The size of all files under ``directory`` in units of 1,000,000 bytes."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6
