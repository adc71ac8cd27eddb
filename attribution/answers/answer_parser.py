"""The answer parser: a spaCy pipeline in, plain data out; and where the files of a pipeline are.

The pipeline gets one block of an answer at a time: its words, without white space between them. spaCy is imported only
when a parser is loaded: a digest of the files tells a finished audit whether its parser is still the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, islice, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from attribeam.attribution.answers.citation_marks import CitationMark, citation_marks
from attribeam.attribution.answers.markup import (
    block_ranges,
    hide_markup,
    inline_code,
    range_overlapping,
    structured_text,
)
from attribeam.attribution.answers.parsed_answer import (
    ParsedAnswer,
    ParsedTokens,
    closing_marks,
    heads_within,
    may_end_sentence,
    scheme_of_labels,
    sentence_ends,
)
from attribeam.attribution.answers.plain_text import UNIT_SIGN
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault
from attribeam.schemas.errors import DataError
from attribeam.schemas.files import check_regular, read_object, read_regular

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


BUNDLED_PARSER = Path(__file__).parents[1] / "bundled" / "parser"
_LARGEST_NUMBER = 2**24
_NUMBERS = re.compile(r"^\s*(\w+)\s*=\s*(\d{8,})\s*$", re.MULTILINE)


def pipeline_folder(parser: str) -> Path:
    """The folder with the files of "bundled", of a pipeline's directory, or of an installed pipeline by its name.

    The directory may also be that of a package, such as ``en_core_web_sm``, whose files lie one folder deeper.

    Raises:
        FileNotFoundError: if there is no such pipeline.
    """
    for folder in (BUNDLED_PARSER if parser == "bundled" else Path(parser), package_folder(parser)):
        if folder is None or not (folder / "meta.json").is_file():
            continue
        inner = folder
        if not (folder / "config.cfg").is_file():
            with suppress(ValueError, KeyError, TypeError):
                inner = folder / "{lang}_{name}-{version}".format_map(read_object(folder / "meta.json"))
        return inner if (inner / "meta.json").is_file() else folder
    raise FileNotFoundError(
        "parser should be 'bundled', an installed spaCy pipeline or a directory with a meta.json, was: "
        f"{parser!r}" + (f", and {BUNDLED_PARSER} has none" if parser == "bundled" else "")
    )


def check_pipeline(folder: Path) -> None:
    """Check that a pipeline's folder holds regular files, and its config no number that no network has as a size.

    Raises:
        DataError: if not; the message names the file.
    """
    check_regular(sorted(folder.rglob("*")))
    config = folder / "config.cfg"
    for name, digits in _NUMBERS.findall(read_regular(config).decode(errors="replace")) if config.is_file() else ():
        if len(digits) > len(str(_LARGEST_NUMBER)) or int(digits) > _LARGEST_NUMBER:
            raise DataError(f"{config}: {name} should be at most {_LARGEST_NUMBER:,}, was: {digits[:30]}")


def package_folder(name: str) -> Path | None:
    """The folder of an installed package; None if there is none, or if it is no name of a package. Runs no code."""
    if not name.isidentifier():
        return None
    spec = find_spec(name)
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(folders))) if folders else None


def pipeline_identity(folder: Path, meta: Mapping[str, object]) -> str:
    """Name and version, as ``meta`` has them, and digest of the files of a spaCy pipeline, but its documents (*.md)."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{meta['lang']}_{meta['name']}@{meta['version']}+sha256:{digest.hexdigest()[:16]}"


_PROBE = "Rain fell. It cleared, and birds sang."
_LONGEST_FAULT = 300
_LONGEST_TEXT = 1_000_000_000
_LONGEST_RUN = 500
"""spaCy's tokeniser searches a run from end to end once per mark at its edges, so longer ones are cut.

They are cut after the last code point within reach that is not a letter or digit, else after so many.
"""
_RUN = re.compile(r"(?:[!-~]|[^\w\s!-~])++")
"""ASCII without white space, and marks of any script. No character matches both parts, so nothing is tried twice."""
_NEEDED_FACTORIES = frozenset(
    {
        "tok2vec", "transformer", "curated_transformer", "tagger", "morphologizer", "attribute_ruler", "senter",
        "sentencizer", "parser", "ner", "entity_ruler", "merge_entities",
    }
)  # fmt: skip


class AnswerParser:
    """Parses answers into sentences, words, dependency heads and labels, tags and entities.

    Threads may share one; they parse one batch after another, because a spaCy pipeline holds state while it parses.
    """

    def __init__(self, nlp: Language, *, identity: str) -> None:
        """Wrap a loaded pipeline; most callers want ``from_pretrained``.

        Raises:
            ValueError: if the pipeline has no dependency parser.
        """
        if "parser" not in nlp.pipe_names:
            raise ValueError(
                f"a pipeline with a component named 'parser' is needed, {identity} has: {nlp.pipe_names}; "
                "name another with --parser, or use the bundled one"
            )
        self._nlp = nlp
        self._lock = Lock()
        self._nlp.max_length = _LONGEST_TEXT
        self._scheme = scheme_of_labels(nlp.pipe_labels.get("parser", ()), language=str(nlp.lang)).name
        self.identity = identity
        """Name, version and digest of the pipeline's files: everything that decides its output."""

    @classmethod
    def from_pretrained(cls, parser: str) -> AnswerParser:
        """Load "bundled", an installed spaCy pipeline by its name, or a pipeline's directory. Nothing is downloaded.

        The package that a pipeline came in, if it is one, may bring components of its own.

        Raises:
            FileNotFoundError: if there is no such pipeline.
            ValueError: if it cannot be read or fails on a short text, or has no dependency parser.
        """
        folder = pipeline_folder(parser)
        check_pipeline(folder)
        with _pipeline_errors(parser):
            import spacy
            from thinc.api import use_ops

            from attribeam.attribution.answers.spacy_pipeline import TORCH_PRODUCTS, faster_parts

            package = package_folder(parser)
            if package is not None and folder.is_relative_to(package):
                import_module(parser)
            with use_ops(TORCH_PRODUCTS):
                nlp = spacy.load(folder, config=faster_parts(folder))
        factories = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names if name != "parser"}
        nlp.select_pipes(disable=[name for name, factory in factories.items() if factory not in _NEEDED_FACTORIES])
        loaded = cls(nlp, identity=pipeline_identity(folder, nlp.meta))
        with _pipeline_errors(parser):
            loaded.parse(_PROBE)
        return loaded

    def parse(self, text: str, passages: Sequence[Passage] = ()) -> ParsedAnswer:
        """Parse one answer to these passages; a text of only white space has no words."""
        return next(self.parse_many([text], [passages]))

    def parse_many(
        self, texts: Sequence[str], passages: Sequence[Sequence[Passage]] = (), batch_size: int = 64
    ) -> Iterator[ParsedAnswer]:
        """Parse answers, in their order, ``batch_size`` at a time.

        ``passages`` are those of each answer, which its citation marks may name; without any only the form of a mark
        counts. Markdown and citation marks are hidden from the parser and are not words; paragraphs, list items and
        headings are parsed one by one, so that no sentence crosses their ends.
        """
        remaining = zip(texts, passages or [()] * len(texts), strict=True)
        while batch := list(islice(remaining, batch_size)):
            blocks: list[list[ParsedAnswer]] = [[] for _ in batch]
            marks = [citation_marks(*answer) for answer in batch]
            with self._lock, self._nlp.memory_zone():
                inputs = [
                    (index, *block)
                    for index, (text, _) in enumerate(batch)
                    for block in self._inputs(text, tuple(mark.chars for mark in marks[index]))
                ]
                docs = self._nlp.pipe([doc for _, doc, *_ in inputs], batch_size=batch_size)
                for (index, _, words, code, is_row), doc in zip(inputs, docs, strict=True):
                    blocks[index].append(_parsed_block(doc, words, code, is_table_row=is_row))
            yield from (_joined(*answer, self._scheme) for answer in zip(blocks, marks, strict=True))

    def _inputs(
        self, text: str, marks: tuple[CharRange, ...]
    ) -> Iterator[tuple[Doc, list[CharRange], Sequence[CharRange], bool]]:
        """The blocks with words, each with the answer's inline code and whether it is a table's row."""
        masked, code = hide_markup(text, marks), inline_code(text)
        rows = structured_text(text).rows
        for block in block_ranges(text):
            shown = block.of(masked)
            if not shown.isspace():
                is_row = range_overlapping(block, rows) is not None
                yield *parser_input(self._nlp, shown, char_start=block.char_start, whole=code), code, is_row


def parse_each(parser: AnswerParser, records: Sequence[QARecord]) -> list[ParsedAnswer | RowFault]:
    """One outcome per record, for its answer. If a batch fails, its answers are parsed one by one.

    A parser is third-party code that meets any text, so an error on one answer is that row's fault. Running out of
    memory is not.
    """
    try:
        return list(parser.parse_many([record.answer for record in records], [record.passages for record in records]))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - does not go on: a lone answer becomes a fault, others are tried alone
        if len(records) == 1:
            message = f"the parser should take any answer, but raised {type(error).__name__}; try another --parser"
            return [RowFault(Reason.PARSE_FAILED, message, column="answer")]
    return [outcome for record in records for outcome in parse_each(parser, [record])]


@contextmanager
def _pipeline_errors(parser: str) -> Iterator[None]:
    """Turn whatever a broken or hostile pipeline makes spaCy raise into an error that names it."""
    try:
        yield
    except Exception as error:
        fault = " ".join(str(error).split())[:_LONGEST_FAULT]
        raise ValueError(
            f"parser {parser!r} should be a spaCy pipeline that this spaCy can read and run, fails with "
            f"{type(error).__name__}: {fault}; save it again with nlp.to_disk, install what it needs, or name another "
            "with --parser"
        ) from error


def _parsed_block(doc: Doc, ranges: list[CharRange], code: Sequence[CharRange], *, is_table_row: bool) -> ParsedAnswer:
    """Plain data of one block, whose words are counted from its first; inline code is tagged as a name.

    A table's row is one sentence.
    """
    ranges = word_ranges(doc, ranges)
    columns = doc.to_array(["HEAD", "DEP", "POS", "TAG", "SENT_START"]).T
    starts = [index for index, opens in enumerate(columns[4].tolist()) if opens == 1 or not index]
    distances = columns[0].astype("int64").tolist()
    heads = heads_within([word + distance for word, distance in enumerate(distances)], starts)
    labels, universal_tags, fine_tags = ([doc.vocab.strings[key] for key in column.tolist()] for column in columns[1:4])
    labels = ["root" if head == index else labels[index].lower() for index, head in enumerate(heads)]
    forms = [token.text for token in doc]
    tokens = ParsedTokens(ranges, forms, heads, labels, universal_tags, fine_tags, starts)
    tokens.join_subtokens()
    words = tokens.ranges
    tokens.attach_closing_marks(closing_marks(tokens.forms, spaced=[*_gaps_between(words), True] if words else []))
    ended = [False] * len(words) if is_table_row else sentence_ends(tokens.forms)
    tokens.cut_long_sentences(ended)
    tokens.join_unended_sentences(ended)
    tagged = zip(words, tokens.universal_tags, strict=True)
    return ParsedAnswer(
        words=tuple(words),
        dependency_heads=tuple(tokens.heads),
        dependency_labels=tuple(tokens.labels),
        universal_tags=tuple("PROPN" if range_overlapping(word, code) else tag for word, tag in tagged),
        fine_tags=tuple(tokens.fine_tags),
        sentence_starts=tuple(tokens.starts),
        cut_starts=tuple(start for start in tokens.starts[1:] if not ended[start - 1]),
        entities=tuple(CharRange(ranges[ent.start].char_start, ranges[ent.end - 1].char_end) for ent in doc.ents),
    )


def _joined(blocks: Sequence[ParsedAnswer], marks: tuple[CitationMark, ...], label_scheme: str) -> ParsedAnswer:
    """The answer made of all its blocks, which ascend and do not overlap, and its marks."""
    firsts = accumulate((len(block.words) for block in blocks), initial=0)
    shifted = {"dependency_heads", "sentence_starts", "cut_starts"}
    parts: dict[str, list[Any]] = {name: [] for name in (*_PER_BLOCK, *shifted)}
    for first, block in zip(firsts, blocks, strict=False):
        for name in _PER_BLOCK:
            parts[name] += getattr(block, name)
        for name in shifted:
            parts[name] += [first + word for word in getattr(block, name)]
    return ParsedAnswer(**{name: tuple(part) for name, part in parts.items()}, label_scheme=label_scheme, marks=marks)


_PER_BLOCK = ("words", "dependency_labels", "universal_tags", "fine_tags", "entities")


def parser_input(
    nlp: Language, text: str, *, char_start: int, whole: Sequence[CharRange]
) -> tuple[Doc, list[CharRange]]:
    """A block's ``text``, which begins at ``char_start`` of the answer, as a document, and the ranges of its words.

    One blank stands between words that white space separates. White space is not a word: blanked marks would otherwise
    look like words that no parser was trained on. Each of the ``whole`` ranges of the answer is one word, however the
    tokeniser splits it, and so is an abbreviation with the full stop that ends no sentence: "max. 2 pages".
    """
    cuts = [0]
    for run in _RUN.finditer(text) if len(text) > _LONGEST_RUN else ():
        start = run.start()
        while run.end() - start > _LONGEST_RUN:
            end = start + _LONGEST_RUN
            start = next((cut for cut in range(end, start, -1) if not text[cut - 1].isalnum()), end)
            cuts.append(start)
    pieces = [(start, nlp.make_doc(text[start:end])) for start, end in pairwise((*cuts, len(text)))]
    words: list[CharRange] = []
    last: CharRange | None = None
    for start, token in ((char_start + first + token.idx, token.text) for first, doc in pieces for token in doc):
        if token.isspace():
            continue
        word = CharRange(start, start + len(token))
        around = range_overlapping(word, whole) if whole else None
        goes_on = token == "." and words and _goes_on(text, words[-1].char_start - char_start, start - char_start)
        if goes_on or (around is not None and around == last):
            words[-1] = CharRange(words[-1].char_start, word.char_end)
        elif around is None and _ends_with_full_stop(text, word.char_start - char_start, word.char_end - char_start):
            words += CharRange(word.char_start, word.char_end - 1), CharRange(word.char_end - 1, word.char_end)
        else:
            words.append(word)
        last = around
    forms = [text[word.char_start - char_start : word.char_end - char_start] for word in words]
    doc = type(pieces[0][1])(nlp.vocab, words=forms, spaces=[*_gaps_between(words), False] if words else [])
    return doc, words


def word_ranges(doc: Doc, ranges: list[CharRange]) -> list[CharRange]:
    """The answer's code points for each word of ``doc``, which first had ``ranges``; the parser may merge words."""
    if len(doc) == len(ranges):
        return ranges
    starts, ends, length = {}, {}, 0
    for word, gap in zip(ranges, (*_gaps_between(ranges), False), strict=True):
        starts[length] = word.char_start
        length += word.char_end - word.char_start
        ends[length] = word.char_end
        length += gap
    return [CharRange(starts[token.idx], ends[token.idx + len(token)]) for token in doc]


_UNIT_BEFORE_STOP = re.compile(rf"(?:\d[ \u00a0-]?{UNIT_SIGN}|/[a-z])\.$")
_LETTER_BEFORE_STOP = re.compile(r"(?<![^\W\d_])[^\W\d_]\.$")
_ENDS, _NEXT_SENTENCE = re.compile(r"\s*$"), re.compile(r"\s+[\"“(]?[A-Z]")


def _goes_on(text: str, start: int, stop: int) -> bool:
    """Whether the word from ``start`` to a full stop is an abbreviation that ends no sentence before what follows."""
    following = text[stop + 1 : stop + 3].lstrip()
    return bool(following) and not may_end_sentence(text[start : stop + 1].lower(), following)


def _ends_with_full_stop(text: str, start: int, end: int) -> bool:
    """Whether the token that ends there has the full stop of its sentence: behind a unit, or a letter that ends all."""
    if end - start < 2 or text[end - 1] != "." or "." in text[start : end - 1]:
        return False
    before = text[max(end - _LONGEST_UNIT, 0) : end]
    if _ENDS.match(text, end):
        return bool(_UNIT_BEFORE_STOP.search(before) or _LETTER_BEFORE_STOP.search(before))
    return bool(_NEXT_SENTENCE.match(text, end) and _UNIT_BEFORE_STOP.search(before))


_LONGEST_UNIT = 12


def _gaps_between(words: Sequence[CharRange]) -> list[bool]:
    """For each word but the last, whether a gap separates it from the next one."""
    return [word.char_end < following.char_start for word, following in pairwise(words)]
