"""The answer parser: a spaCy pipeline in, plain data out. spaCy is imported only when a parser is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from attribution.answers.answer_blocks import blocks, is_table_row, without_marks
from attribution.answers.code_spans import inline_code
from attribution.answers.label_schemes import scheme_of_labels
from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.parsed_blocks import ParsedBlock, heads_within, joined_blocks, with_code_as_names
from attribution.answers.parser_input import ParserInput, parser_input
from attribution.answers.sentence_ends import closing_marks, sentence_ends, with_closed_sentences, with_ended_sentences
from attribution.answers.subtokens import ParsedTokens
from schemas import CharRange

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_BUNDLED = Path(__file__).parents[1] / "bundled" / "parser"
_LONGEST_TEXT = 1_000_000_000
_NEEDED_FACTORIES = frozenset(
    {
        "tok2vec", "transformer", "curated_transformer", "tagger", "morphologizer", "attribute_ruler", "senter",
        "sentencizer", "parser", "ner", "entity_ruler", "merge_entities",
    }
)  # fmt: skip


class AnswerParser:
    """Parses answers into sentences, words, dependency heads and labels, tags and entities."""

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
        self._nlp.max_length = _LONGEST_TEXT
        self._scheme = scheme_of_labels(nlp.pipe_labels.get("parser", ()), language=str(nlp.lang)).name
        self._identity = identity

    @classmethod
    def from_pretrained(cls, parser: str) -> AnswerParser:
        """Load "bundled", an installed spaCy pipeline by its name, or a pipeline's directory. Nothing is downloaded.

        Raises:
            FileNotFoundError: if there is no such pipeline.
            ValueError: if it has no dependency parser.
        """
        import spacy
        from thinc.api import use_ops

        from attribution.answers.lockstep_parser import lockstep_overrides
        from attribution.answers.torch_products import TORCH_PRODUCTS

        path = _BUNDLED if parser == "bundled" else Path(parser)
        if (path / "meta.json").is_file():
            with use_ops(TORCH_PRODUCTS):
                nlp = spacy.load(path, config=lockstep_overrides(path))
        elif parser != "bundled" and spacy.util.is_package(parser):
            nlp = spacy.load(parser)
        else:
            raise FileNotFoundError(
                f"parser should be 'bundled', an installed spaCy pipeline or a directory with a meta.json, was: "
                f"{parser!r}" + (f", and {_BUNDLED} has none" if parser == "bundled" else "")
            )
        factories = {name: nlp.get_pipe_meta(name).factory for name in nlp.pipe_names if name != "parser"}
        nlp.select_pipes(disable=[name for name, factory in factories.items() if factory not in _NEEDED_FACTORIES])
        return cls(nlp, identity=_identity(nlp))

    @property
    def identity(self) -> str:
        """Name, version and digest of the pipeline's files: what decides its output."""
        return self._identity

    def parse(self, text: str) -> ParsedAnswer:
        """Parse one answer; a text of white space only has no words."""
        return next(self.parse_many([text]))

    def parse_many(self, texts: Sequence[str], batch_size: int = 64) -> Iterator[ParsedAnswer]:
        """Parse answers, in their order, ``batch_size`` at a time.

        Markdown and citation marks are hidden from the parser and are no words; paragraphs, list items and headings
        are parsed one by one, so that no sentence runs over their ends.
        """
        remaining = iter(texts)
        while batch := list(islice(remaining, batch_size)):
            yield from self._parse_batch(batch, batch_size)

    def _parse_batch(self, texts: Sequence[str], batch_size: int) -> list[ParsedAnswer]:
        parsed: list[list[ParsedBlock]] = [[] for _ in texts]
        with self._nlp.memory_zone():
            inputs = [(index, *one) for index, text in enumerate(texts) for one in self._inputs(text)]
            docs = self._nlp.pipe([one.doc for _, one, _ in inputs], batch_size=batch_size)
            for (index, one, code), doc in zip(inputs, docs, strict=True):
                parsed[index].append(_parsed_block(doc, one, code))
        return [joined_blocks(one, label_scheme=self._scheme) for one in parsed]

    def _inputs(self, text: str) -> Iterator[tuple[ParserInput, Sequence[CharRange]]]:
        """The blocks of an answer that have words, each with the answer's inline code."""
        masked, code = without_marks(text), inline_code(text)
        for block in blocks(text):
            shown = block.of(masked)
            if not shown.isspace():
                row = is_table_row(block.of(text))
                yield parser_input(self._nlp, shown, char_start=block.char_start, whole=code, is_row=row), code


def _parsed_block(doc: Doc, given: ParserInput, code: Sequence[CharRange]) -> ParsedBlock:
    """Plain data of one block; inline code is tagged as a name."""
    ranges = given.ranges()
    tokens = _parsed_tokens(doc, ranges).whole_words()
    words, forms = tokens.ranges, tokens.forms
    gaps = [one.char_end != following.char_start for one, following in pairwise(words)]
    closing = closing_marks(forms, spaced=[*gaps, True] if words else [])
    heads, labels, starts = with_closed_sentences(tokens.heads, tokens.labels, tokens.starts, closing=closing)
    ended = [False] * len(words) if given.is_row else sentence_ends(forms)
    heads, labels, starts = with_ended_sentences(heads, labels, starts, ended=ended)
    return ParsedBlock(
        words=list(words),
        dependency_heads=heads,
        dependency_labels=labels,
        universal_tags=with_code_as_names(list(tokens.universal_tags), words, code),
        fine_tags=list(tokens.fine_tags),
        sentence_starts=starts,
        entities=[CharRange(ranges[one.start].char_start, ranges[one.end - 1].char_end) for one in doc.ents],
    )


def _parsed_tokens(doc: Doc, ranges: Sequence[CharRange]) -> ParsedTokens:
    columns = doc.to_array(["HEAD", "DEP", "POS", "TAG", "SENT_START"]).T
    starts = [place for place, opens in enumerate(columns[4].tolist()) if opens == 1 or not place]
    heads = heads_within(columns[0].astype("int64").tolist(), starts)
    labels, universal_tags, fine_tags = ([doc.vocab.strings[key] for key in column.tolist()] for column in columns[1:4])
    labels = ["root" if head == place else labels[place].lower() for place, head in enumerate(heads)]
    forms = [token.text for token in doc]
    return ParsedTokens(ranges, forms, heads, labels, universal_tags, fine_tags, starts)


def _identity(nlp: Language) -> str:
    digest = hashlib.sha256()
    root = nlp.path
    for file in sorted(one for one in root.rglob("*") if one.is_file()) if root is not None else ():
        digest.update(file.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{nlp.meta['lang']}_{nlp.meta['name']}@{nlp.meta['version']}+sha256:{digest.hexdigest()[:16]}"
