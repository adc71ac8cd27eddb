"""The answer parser: a spaCy pipeline in, plain data out; and where the files of a pipeline are.

The pipeline gets one block of an answer at a time: its words, without white space between them. spaCy is imported only
when a parser is loaded: a digest of the files tells a finished audit whether its parser is still the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from attribeam.attribution.answers.citation_marks import CitationMark, citation_marks
from attribeam.attribution.answers.markup import block_ranges, hide_markup, inline_code, range_overlapping
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, scheme_of_labels
from attribeam.attribution.answers.parser_output import (
    ParsedBlock,
    ParsedTokens,
    attach_closing_marks,
    closing_marks,
    cut_long_sentences,
    heads_from_distances,
    join_blocks,
    join_unended_sentences,
    sentence_ends,
    tag_code_as_names,
)
from attribeam.attribution.answers.structured_text import structured_text
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault
from attribeam.schemas.errors import DataError
from attribeam.schemas.json_file import check_regular, read_object, read_regular

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


BUNDLED_PARSER = Path(__file__).parents[1] / "bundled" / "parser"
_META = "meta.json"
_CONFIG = "config.cfg"
_LARGEST_NUMBER = 2**24
_NUMBERS = re.compile(r"^\s*(\w+)\s*=\s*(\d{8,})\s*$", re.MULTILINE)


def pipeline_folder(parser: str) -> Path:
    """The folder with the files of "bundled", of a pipeline's directory, or of an installed pipeline by its name.

    The directory may also be that of a package, such as ``en_core_web_sm``, whose files lie one folder deeper.

    Raises:
        FileNotFoundError: if there is no such pipeline.
    """
    folder = BUNDLED_PARSER if parser == "bundled" else Path(parser)
    for place in (folder, package_folder(parser)):
        if place is not None and (place / _META).is_file():
            return _data_folder(place)
    raise FileNotFoundError(
        f"parser should be 'bundled', an installed spaCy pipeline or a directory with a {_META}, was: "
        f"{parser!r}" + (f", and {BUNDLED_PARSER} has none" if parser == "bundled" else "")
    )


def check_pipeline(folder: Path) -> None:
    """Check that a pipeline's folder holds regular files, and its config no number that no network has as a size.

    Raises:
        DataError: if not; the message names the file.
    """
    check_regular(sorted(folder.rglob("*")))
    config = folder / _CONFIG
    for name, digits in _NUMBERS.findall(read_regular(config).decode(errors="replace")) if config.is_file() else ():
        if len(digits) > len(str(_LARGEST_NUMBER)) or int(digits) > _LARGEST_NUMBER:
            raise DataError(f"{config}: {name} should be at most {_LARGEST_NUMBER:,}, was: {digits[:30]}")


def package_folder(name: str) -> Path | None:
    """The folder of an installed package; None if there is none, or if it is no name of a package. Runs no code."""
    if not name.isidentifier():
        return None
    spec = find_spec(name)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) if places else None


def pipeline_meta(folder: Path) -> Mapping[str, Any]:
    """What a pipeline's meta.json says.

    Raises:
        DataError: if it cannot be read.
    """
    return read_object(folder / _META)


def _data_folder(folder: Path) -> Path:
    """The folder itself, or where it is that of a package, the one in it that spaCy keeps the pipeline in."""
    if (folder / _CONFIG).is_file():
        return folder
    try:
        meta = pipeline_meta(folder)
        inner = folder / "{lang}_{name}-{version}".format_map(meta)
    except (ValueError, KeyError, TypeError):
        return folder
    return inner if (inner / _META).is_file() else folder


def pipeline_identity(folder: Path | None, meta: Mapping[str, object]) -> str:
    """Name, version and digest of the files of a spaCy pipeline, without its documents (``*.md``).

    ``meta`` is what its meta.json says.
    """
    digest = hashlib.sha256()
    if folder is not None:
        for file in sorted(one for one in folder.rglob("*") if one.is_file() and one.suffix != ".md"):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{meta['lang']}_{meta['name']}@{meta['version']}+sha256:{digest.hexdigest()[:16]}"


_PROBE = "Rain fell. It cleared, and birds sang."
_LONGEST_FAULT = 300
_LONGEST_TEXT = 1_000_000_000
_LONGEST_RUN = 500
"""spaCy's tokeniser searches a run from end to end once per mark at its edges."""
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
        self._identity = identity

    @classmethod
    def from_pretrained(cls, parser: str) -> AnswerParser:
        """Load "bundled", an installed spaCy pipeline by its name, or a pipeline's directory. Nothing is downloaded.

        Raises:
            FileNotFoundError: if there is no such pipeline.
            ValueError: if it cannot be read or fails on a short text, or has no dependency parser.
        """
        folder = pipeline_folder(parser)
        check_pipeline(folder)
        with _pipeline_errors(parser):
            nlp = _load_pipeline(parser, folder)
        factories = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names if name != "parser"}
        nlp.select_pipes(disable=[name for name, factory in factories.items() if factory not in _NEEDED_FACTORIES])
        loaded = cls(nlp, identity=pipeline_identity(folder, nlp.meta))
        with _pipeline_errors(parser):
            loaded.parse(_PROBE)
        return loaded

    @property
    def identity(self) -> str:
        """Name, version and digest of the pipeline's files: everything that decides its output."""
        return self._identity

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
            yield from self._parse_batch(batch, batch_size)

    def _parse_batch(self, texts: Sequence[tuple[str, Sequence[Passage]]], batch_size: int) -> list[ParsedAnswer]:
        parsed: list[list[ParsedBlock]] = [[] for _ in texts]
        marks = [citation_marks(text, passages) for text, passages in texts]
        with self._lock, self._nlp.memory_zone():
            inputs = [
                (index, *one) for index, (text, _) in enumerate(texts) for one in self._inputs(text, marks[index])
            ]
            docs = self._nlp.pipe([one.doc for _, one, _ in inputs], batch_size=batch_size)
            for (index, one, code), doc in zip(inputs, docs, strict=True):
                parsed[index].append(_parsed_block(doc, one, code))
        return [
            join_blocks(one, label_scheme=self._scheme, marks=of_answer)
            for one, of_answer in zip(parsed, marks, strict=True)
        ]

    def _inputs(self, text: str, marks: Sequence[CitationMark]) -> Iterator[tuple[ParserInput, Sequence[CharRange]]]:
        """The blocks of an answer that have words, each with the answer's inline code."""
        masked, code = hide_markup(text, [mark.chars for mark in marks]), inline_code(text)
        rows = structured_text(text).rows
        for block in block_ranges(text):
            shown = block.of(masked)
            if not shown.isspace():
                row = range_overlapping(block, rows) is not None
                yield parser_input(self._nlp, shown, char_start=block.char_start, whole=code, is_table_row=row), code


def parse_each(parser: AnswerParser, records: Sequence[QARecord]) -> list[ParsedAnswer | RowFault]:
    """One outcome per record, for its answer. If a batch fails, its answers are parsed one by one.

    A parser is third-party code that meets any text, so an error on one answer is that row's fault. Running out of
    memory is not.
    """
    try:
        return list(parser.parse_many([one.answer for one in records], [one.passages for one in records]))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - does not go on: a lone answer becomes a fault, others are tried alone
        if len(records) == 1:
            message = f"the parser should take any answer, but raised {type(error).__name__}; try another --parser"
            return [RowFault(Reason.PARSE_FAILED, message, column="answer")]
    return [outcome for one in records for outcome in parse_each(parser, [one])]


def _load_pipeline(parser: str, folder: Path) -> Language:
    """The pipeline in ``folder``; the package that it came in, if it is one, may bring components of its own."""
    import spacy
    from thinc.api import use_ops

    from attribeam.attribution.answers.spacy_pipeline import TORCH_PRODUCTS, faster_parts

    package = package_folder(parser)
    if package is not None and folder.is_relative_to(package):
        import_module(parser)
    with use_ops(TORCH_PRODUCTS):
        return spacy.load(folder, config=faster_parts(folder))


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


def _parsed_block(doc: Doc, given: ParserInput, code: Sequence[CharRange]) -> ParsedBlock:
    """Plain data of one block; inline code is tagged as a name."""
    ranges = given.ranges()
    tokens = _parsed_tokens(doc, ranges).whole_words()
    words, forms = tokens.ranges, tokens.forms
    gaps = [one.char_end != following.char_start for one, following in pairwise(words)]
    closing = closing_marks(forms, spaced=[*gaps, True] if words else [])
    heads, labels, starts = attach_closing_marks(tokens.heads, tokens.labels, tokens.starts, closing=closing)
    ended = [False] * len(words) if given.is_table_row else sentence_ends(forms)
    heads, labels, starts = cut_long_sentences(heads, labels, starts, ended=ended)
    heads, labels, starts = join_unended_sentences(heads, labels, starts, ended=ended)
    return ParsedBlock(
        words=list(words),
        dependency_heads=heads,
        dependency_labels=labels,
        universal_tags=tag_code_as_names(list(tokens.universal_tags), words, code),
        fine_tags=list(tokens.fine_tags),
        sentence_starts=starts,
        cut_starts=[start for start in starts[1:] if not ended[start - 1]],
        entities=[CharRange(ranges[one.start].char_start, ranges[one.end - 1].char_end) for one in doc.ents],
    )


def _parsed_tokens(doc: Doc, ranges: Sequence[CharRange]) -> ParsedTokens:
    columns = doc.to_array(["HEAD", "DEP", "POS", "TAG", "SENT_START"]).T
    starts = [place for place, opens in enumerate(columns[4].tolist()) if opens == 1 or not place]
    heads = heads_from_distances(columns[0].astype("int64").tolist(), starts)
    labels, universal_tags, fine_tags = ([doc.vocab.strings[key] for key in column.tolist()] for column in columns[1:4])
    labels = ["root" if head == place else labels[place].lower() for place, head in enumerate(heads)]
    forms = [token.text for token in doc]
    return ParsedTokens(ranges, forms, heads, labels, universal_tags, fine_tags, starts)


@dataclass(frozen=True, slots=True)
class ParserInput:
    """One block of an answer as a document to be parsed.

    Attributes:
        doc: the block's words, with one blank between words that white space separates.
        word_ranges: the answer's code points of each word that ``doc`` originally had.
        is_table_row: True for a row of a table, which is one sentence.
    """

    doc: Doc
    word_ranges: list[CharRange]
    is_table_row: bool

    def ranges(self) -> list[CharRange]:
        """The answer's code points for each word of ``doc``; the parser may have merged some of its words."""
        if len(self.doc) == len(self.word_ranges):
            return self.word_ranges
        starts, ends, length = {}, {}, 0
        for place, gap in zip(self.word_ranges, (*_gaps_between(self.word_ranges), False), strict=True):
            starts[length] = place.char_start
            length += place.char_end - place.char_start
            ends[length] = place.char_end
            length += gap
        return [CharRange(starts[token.idx], ends[token.idx + len(token)]) for token in self.doc]


def parser_input(
    nlp: Language, text: str, *, char_start: int, whole: Sequence[CharRange], is_table_row: bool
) -> ParserInput:
    """The words of a block's ``text``, which begins at ``char_start`` of the answer.

    White space is not a word: blanked marks would otherwise look like words that no parser was trained on. Each of the
    ``whole`` ranges of the answer is one word, however the tokeniser splits it.
    """
    docs = [(start, nlp.make_doc(text[start:end])) for start, end in pairwise((*_run_cuts(text), len(text)))]
    ranges = [
        CharRange(char_start + start, char_start + start + len(word))
        for start, word in ((first + token.idx, token.text) for first, doc in docs for token in doc)
        if not word.isspace()
    ]
    places = _with_whole_ranges(ranges, whole) if whole else ranges
    words = [text[one.char_start - char_start : one.char_end - char_start] for one in places]
    doc = type(docs[0][1])(nlp.vocab, words=words, spaces=[*_gaps_between(places), False] if words else [])
    return ParserInput(doc, places, is_table_row)


def _run_cuts(text: str) -> list[int]:
    """Where the separately tokenised pieces of a text begin; only a run longer than ``_LONGEST_RUN`` is cut.

    It is cut after the last code point within reach that is not a letter or digit, else after ``_LONGEST_RUN`` of them.
    """
    cuts = [0]
    for run in _RUN.finditer(text):
        start = run.start()
        while run.end() - start > _LONGEST_RUN:
            end = start + _LONGEST_RUN
            start = next((place for place in range(end, start, -1) if not text[place - 1].isalnum()), end)
            cuts.append(start)
    return cuts


def _gaps_between(places: Sequence[CharRange]) -> list[bool]:
    """For each word but the last, whether a gap separates it from the next one."""
    return [one.char_end < following.char_start for one, following in pairwise(places)]


def _with_whole_ranges(words: Iterable[CharRange], whole: Sequence[CharRange]) -> list[CharRange]:
    """The words, where those that overlap the same range of ``whole`` are joined into one."""
    joined: list[CharRange] = []
    last: CharRange | None = None
    for word in words:
        around = range_overlapping(word, whole)
        if around is not None and around == last:
            joined[-1] = CharRange(joined[-1].char_start, word.char_end)
        else:
            joined.append(word)
        last = around
    return joined
