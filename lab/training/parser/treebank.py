"""Treebanks as training documents, and how their words are found in text.

Universal Dependencies treebanks: reading their files, and spaCy documents with the text as a reader sees it.

Where words begin and end: English tokens close to the treebanks' words, and Chinese words as trees of characters.

spaCy's English tokenizer gets the rules of the Universal Dependencies treebanks. Text without spaces between words is
parsed character by character, and the parsed characters are joined into words.
"""

from __future__ import annotations

import lzma
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

from spacy.lang.char_classes import ALPHA, HYPHENS
from spacy.language import Language
from spacy.symbols import NORM, ORTH  # type: ignore[import-not-found]
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex
from spacy.vocab import Vocab

from attribeam.attribution.answers.parsed_answer import SUBTOKEN_LABEL, word_runs

Separator = Callable[[], str]


@dataclass
class Sentence:
    """One annotated sentence; ``heads`` are 0-based word positions in the sentence, and the root is its own head."""

    document_id: str = ""
    opens_paragraph: bool = False
    words: list[str] = field(default_factory=list)
    spaces: list[bool] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def add_word(self, columns: list[str], *, space: bool) -> None:
        """Append the word of one CoNLL-U line, in which the root has head 0."""
        head = int(columns[6])
        self.heads.append(head - 1 if head else len(self.words))
        self.words.append(columns[1])
        self.spaces.append(space)
        self.tags.append(columns[3])
        self.labels.append("ROOT" if columns[7] == "root" else columns[7])


def read_text(path: Path) -> str:
    """The text of a ``.conllu`` or ``.conllu.xz`` file."""
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as packed:
            return packed.read()
    return path.read_text(encoding="utf-8")


def read_sentences(text: str) -> list[Sentence]:
    """The sentences of a CoNLL-U text in order, each with its document and whether it opens a paragraph."""
    sentences: list[Sentence] = []
    document_id = ""
    for number, block in enumerate(part for part in text.split("\n\n") if part.strip()):
        lines = block.strip("\n").split("\n")
        comments = [line for line in lines if line.startswith("#")]
        new_document = next((line for line in comments if line.startswith("# newdoc")), None)
        if new_document is not None:
            document_id = new_document.partition("=")[2].strip() or f"document {number}"
        paragraph = new_document is not None or any(line.startswith("# newpar") for line in comments)
        sentence = Sentence(document_id=document_id, opens_paragraph=paragraph)
        _add_words(sentence, [line.split("\t") for line in lines if not line.startswith("#")])
        sentences.append(sentence)
    return sentences


def _add_words(sentence: Sentence, rows: list[list[str]]) -> None:
    """Fill ``sentence``; there is no space within a multiword token, and empty nodes are skipped."""
    end_of_multiword, space_after_multiword = 0, True
    for columns in rows:
        space = "SpaceAfter=No" not in columns[9].split("|")
        if "." in columns[0]:
            continue
        if "-" in columns[0]:
            end_of_multiword, space_after_multiword = int(columns[0].partition("-")[2]), space
            continue
        position = int(columns[0])
        if position < end_of_multiword:
            space = False
        elif position == end_of_multiword:
            space = space_after_multiword
        sentence.add_word(columns, space=space)


def group_by_document(sentences: Iterable[Sentence]) -> list[list[Sentence]]:
    """Consecutive sentences of the same document as lists, in order."""
    groups: list[list[Sentence]] = []
    for sentence in sentences:
        if not groups or groups[-1][-1].document_id != sentence.document_id:
            groups.append([])
        groups[-1].append(sentence)
    return groups


def cut_at_random(documents: Iterable[list[Sentence]], *, longest: int, rng: random.Random) -> Iterator[list[Sentence]]:
    """Cut every document into consecutive pieces of 1 to ``longest`` sentences."""
    for document in documents:
        start = 0
        while start < len(document):
            end = start + rng.randint(1, longest)
            yield document[start:end]
            start = end


def build_doc(vocab: Vocab, sentences: Sequence[Sentence], *, separator: Separator) -> Doc:
    """One gold document of ``sentences``, with ``separator()`` in the text wherever a new paragraph opens.

    A separator other than a single space becomes a separate word (tag ``SPACE``, label ``dep``) that is attached to
    the word before it, as in spaCy's tokenizer.
    """
    whole = Sentence()
    for position, sentence in enumerate(sentences):
        if position and sentence.opens_paragraph:
            _append_separator(whole, separator())
        offset = len(whole.words)
        whole.heads += [offset + head for head in sentence.heads]
        for name in ("words", "spaces", "tags", "labels"):
            getattr(whole, name).extend(getattr(sentence, name))
    return Doc(
        vocab,
        words=whole.words,
        spaces=whole.spaces,
        pos=whole.tags,
        morphs=[""] * len(whole.words),  # without them, they would count as unknown, and no tags would be learned
        heads=whole.heads,
        deps=whole.labels,
    )


def _append_separator(whole: Sentence, separator: str) -> None:
    whole.spaces[-1] = separator == " "
    if separator != " ":
        whole.heads.append(len(whole.words) - 1)
        whole.words.append(separator)
        whole.spaces.append(False)
        whole.tags.append("SPACE")
        whole.labels.append("dep")


DEV_SHARE = 10


@dataclass(frozen=True)
class TreebankFolder:
    """The ``.conllu`` and ``.conllu.xz`` files of a folder with ``train``, ``dev`` or ``test`` in their names.

    Raises:
        FileNotFoundError: if there is no ``dev`` file.
    """

    directory: Path

    def __post_init__(self) -> None:
        if not self.files("dev"):
            content = sorted(path.name for path in self.directory.glob("*")) if self.directory.is_dir() else "no folder"
            raise FileNotFoundError(
                f"--treebank {self.directory} should be a folder with *dev*.conllu or *dev*.conllu.xz, has: {content}"
            )

    def files(self, part: str) -> list[Path]:
        """The files of one part, sorted."""
        return sorted([*self.directory.glob(f"*{part}*.conllu"), *self.directory.glob(f"*{part}*.conllu.xz")])

    def train_and_dev(self) -> tuple[list[Sentence], list[Sentence]]:
        """The sentences to train on, and those that select the best evaluation.

        Without a ``train`` file, the last tenth of ``dev`` selects, and the rest is trained on.
        """
        train, dev = read_files(self.files("train")), read_files(self.files("dev"))
        if train:
            return train, dev
        border = len(dev) - max(1, len(dev) // DEV_SHARE)
        return dev[:border], dev[border:]


def read_files(paths: Sequence[Path]) -> list[Sentence]:
    """The sentences of all files."""
    return [sentence for path in paths for sentence in read_sentences(read_text(path))]


PREFIX_WORDS = (
    "anti", "co", "counter", "e", "ex", "extra", "inter", "intra", "mega", "micro", "mid", "mini", "multi", "non",
    "post", "pre", "pro", "pseudo", "re", "semi", "sub", "super", "ultra",
)  # fmt: skip
RUNS = [rf"(?:{mark}){{2,}}" for mark in ("=", r"\*", "_", "#", "~", r"\+", "<", ">", "-", r"\$")] + [r"[!?]{2,}"]
BETWEEN_LETTERS = rf"(?<=[{ALPHA}0-9])(?:{HYPHENS})(?=[{ALPHA}])"
MORE_PREFIXES = [*RUNS, rf"-(?=[{ALPHA}])"]
MORE_SUFFIXES = [*RUNS, rf"-(?<=[{ALPHA}]-)", r"[AP]M(?<=[0-9][AP]M)"]
MORE_INFIXES = [  # each begins with a rare character, because every rule is tried at every letter
    r"(?=[!?])(?<=\w)[!?]+(?=\w)",
    rf"(?=[()\[\];])(?<=[{ALPHA}0-9])[()\[\];](?=[{ALPHA}0-9$])",
    r"(?=[(\[,.])(?<=[)\]])[(\[,.](?=\w)",
    r"(?=[–—])(?<=[0-9])[–—](?=[0-9])",
    r"-{2,}",
]
NO_EXCEPTIONS = ("and/or", "):", "(=", "=)")
ABBREVIATIONS = ("Ft.", "vol.", "Vol.", "al.")


def adapt_tokenizer(nlp: Language) -> None:
    """Adapt the tokenizer of ``nlp``, which must be spaCy's English one, to the treebanks.

    A run of one mark ("!!", "====") is one word, "and/or" is three words, a prefix stays with its word ("co-founded"),
    and marks within a word ("it)(see", "1837–1908") split it.

    Raises:
        ValueError: if this version of spaCy does not have the rule for hyphens that is replaced.
    """
    tokenizer, rules = nlp.tokenizer, nlp.Defaults
    if not isinstance(tokenizer, Tokenizer) or BETWEEN_LETTERS not in (rules.infixes or ()):
        raise ValueError("expected the English tokenizer of spaCy 3.8 with its rule for hyphens, found another")
    no_prefix = "".join(rf"(?<!\b(?i:{word}))" for word in PREFIX_WORDS)
    hyphens = rf"(?=(?:{HYPHENS}))(?<=[{ALPHA}0-9]){no_prefix}(?:{HYPHENS})(?=[{ALPHA}])"
    infixes = [hyphens if rule == BETWEEN_LETTERS else rule for rule in rules.infixes or ()]
    tokenizer.prefix_search = compile_prefix_regex([*MORE_PREFIXES, *(rules.prefixes or ())]).search
    tokenizer.suffix_search = compile_suffix_regex([*MORE_SUFFIXES, *(rules.suffixes or ())]).search
    tokenizer.infix_finditer = compile_infix_regex([*MORE_INFIXES, *infixes]).finditer
    tokenizer.rules = {text: words for text, words in tokenizer.rules.items() if text not in NO_EXCEPTIONS}
    for abbreviation in ABBREVIATIONS:
        tokenizer.add_special_case(abbreviation, [{ORTH: abbreviation}])
    tokenizer.add_special_case("wanna", [{ORTH: "wan", NORM: "want"}, {ORTH: "na", NORM: "to"}])


def is_chinese(sentences: Iterable[Sentence]) -> bool:
    """Whether most letters of the words are Chinese characters."""
    letters = [letter for sentence in sentences for word in sentence.words for letter in word if letter.isalpha()]
    return 2 * sum(map(is_chinese_character, letters)) > len(letters)


def is_chinese_character(letter: str) -> bool:
    """Whether ``letter`` is a unified ideograph, including those of the supplementary planes."""
    return "\u3400" <= letter <= "\u9fff" or "\uf900" <= letter <= "\ufaff" or "\U00020000" <= letter <= "\U0003ffff"


def split_into_characters(sentence: Sentence) -> Sentence:
    """The sentence with one word per character.

    The last character of a word stands for the word; every other one is attached to its right neighbour with the label
    ``subtok``. All characters have the word's tag.
    """
    lengths = [len(word) for word in sentence.words]
    lasts = [end - 1 for end in accumulate(lengths)]
    split = replace(sentence, words=[], spaces=[], tags=[], heads=[], labels=[])
    for index, word in enumerate(sentence.words):
        inside = len(word) - 1
        split.words += word
        split.spaces += [False] * inside + [sentence.spaces[index]]
        split.tags += [sentence.tags[index]] * len(word)
        split.heads += [*range(lasts[index] - inside + 1, lasts[index] + 1), lasts[sentence.heads[index]]]
        split.labels += [SUBTOKEN_LABEL] * inside + [sentence.labels[index]]
    return split


def join_words(doc: Doc) -> Doc:
    """The document with parsed words as tokens; unchanged if no word has several characters as tokens."""
    runs = word_runs([token.dep_ for token in doc], [sentence.start for sentence in doc.sents])
    with doc.retokenize() as retokenizer:
        for run in runs:
            if len(run) > 1:
                retokenizer.merge(doc[run[0] : run[-1] + 1])
    return doc
