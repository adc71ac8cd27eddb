"""What a suite runs: data sets that are there, methods, and cells.

The methods of the tables, the cells that the available data and models allow, and what is left out.

Everything that is left out comes with a reason and the way to fill it.

The data sets that a directory of the known layout contains, and those that are missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from attribeam.attribution.methods.method import MethodSettings, Need, PassageScore
from attribeam.attribution.models.model_directory import ModelDirectory
from attribeam.attribution.options import ATTN_UNION_DEP
from attribeam.evaluation.lab_methods import LabMethod, lab_methods
from attribeam.evaluation.measures.citations import SELF_CITATION
from attribeam.evaluation.suite.suite_options import SuiteOptions
from attribeam.schemas.errors import DataError


class Section(StrEnum):
    """The part of the suite that a data set belongs to."""

    PASSAGES = "passages"
    CITATIONS = "citations"
    SUPPORT = "support"
    CHINESE = "Chinese"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data set; ``loader_name`` is its name in ``datasets.loaders``, and ``name`` its name in the tables."""

    section: Section
    loader_name: str
    name: str
    path: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read: the path itself, or the data files in the directory."""
        return tuple(sorted(self.path.glob("*.jsonl*"))) if self.path.is_dir() else (self.path,)


@dataclass(frozen=True, slots=True)
class FoundData:
    """The data sets of a directory in the order of the tables, and the places of the layout that are empty."""

    files: tuple[DataFile, ...]
    missing: tuple[str, ...]

    def of_section(self, section: Section) -> tuple[DataFile, ...]:
        """The data sets of one section."""
        return tuple(file for file in self.files if file.section is section)


@dataclass(frozen=True, slots=True)
class _Place:
    section: Section
    folder: str
    loader_name: str
    patterns: tuple[str, ...]

    def __str__(self) -> str:
        return " or ".join(f"{self.folder}/{pattern}" for pattern in self.patterns)


_ROWS = ("*.jsonl", "*.jsonl.xz")
_LAYOUT = (
    _Place(Section.PASSAGES, "quotesum", "quotesum", _ROWS),
    _Place(Section.PASSAGES, "veri_gran", "veri-gran", _ROWS),
    _Place(Section.PASSAGES, "lfqa", "lfqa", _ROWS),
    _Place(Section.PASSAGES, "log", "log", ("*.parquet",)),
    _Place(Section.CITATIONS, "alce", "alce", ("*.json", "*.json.xz")),
    _Place(Section.SUPPORT, "ragtruth", "ragtruth", ("response.jsonl", "response.jsonl.xz")),
    _Place(Section.CHINESE, "chinese", "quotesum", ("quotesum*.jsonl", "quotesum*.jsonl.xz")),
    _Place(Section.CHINESE, "chinese", "veri-gran", ("veri_gran*.jsonl", "veri_gran*.jsonl.xz")),
    _Place(Section.CHINESE, "chinese", "log", ("*.parquet",)),
)


def find_data(root: Path) -> FoundData:
    """The data sets below ``root``; their content is not read.

    Raises:
        DataError: if it is not a directory, or contains no data set.
    """
    if not root.is_dir():
        raise DataError(f"--data of a suite should be a directory, was: {root}")
    found = {place: tuple(_files(place, root)) for place in _LAYOUT}
    files = tuple(file for of_place in found.values() for file in of_place)
    missing = tuple(str(place) for place, of_place in found.items() if not of_place)
    if not files:
        raise DataError(f"--data {root} should contain one of {', '.join(missing)}; contains none")
    return FoundData(files, missing)


def _files(place: _Place, root: Path) -> Iterator[DataFile]:
    folder = root / place.folder
    for path in sorted(path for pattern in place.patterns for path in folder.glob(pattern)):
        stem = path.name.partition(".")[0]
        if place.section is Section.SUPPORT:
            yield DataFile(place.section, place.loader_name, place.folder, folder)
        else:
            yield DataFile(place.section, place.loader_name, f"{place.folder} {stem}", path)


class Kind(StrEnum):
    """What a cell measures."""

    PASSAGES = "passages"
    LATENCY = "latency"
    SENSITIVITY = "sensitivity"
    TARGETS = "targets"
    FAITHFULNESS = "faithfulness"
    CITATIONS = "citations"
    SUPPORT = "support"


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one data set.

    Attributes:
        kind: what is measured.
        data: the data set.
        method: the method's name in the tables, empty if there is none.
        needs: what has to be loaded.
        all_layers: whether the model is loaded beyond the captured layer.
    """

    kind: Kind
    data: DataFile
    method: str
    needs: frozenset[Need]
    all_layers: bool = False

    @property
    def title(self) -> str:
        """The cell in words."""
        return f"{self.kind}, {self.data.name}" + (f", {self.method}" if self.method else "")


@dataclass(frozen=True, slots=True)
class FinishedCell:
    """A cell and its result, as ``measure_cell`` gives it."""

    cell: Cell
    result: Mapping[str, Any]


FAITHFULNESS = (
    "random", "words", "hss-avg", "hss-avg-dep", "cci", "attn-union", "attn-union-dep", "oracle",
)  # fmt: skip
CITATIONS = ("words", "hss-avg", "cci", "attn-union")
LATENCY = ("words", "hss-avg", "cci", "attn-union")
CHINESE = ("words", "words-dep", "hss-avg", "attn-union", "attn-union-dep")
SUPPORT = ("attn-union-dep", "attn-union")
UNION_OR_AVERAGE = ("hss-union", "hss-avg", "hss-union-dep", "hss-avg-dep")
ALTERNATIVES = (
    "attn-union", "attn-union-sent", "augment-by-attn", "augment-by-attn-sent", "attn-union-dep",
    "hss-union", "hss-union-dep", "words", "words-sent", "words-dep",
)  # fmt: skip
_VARIED = ("attn-union", "attn-union-dep")
_BEST_TOKENS = str(PassageScore.TOP5_MEAN)
_PAPER_WEIGHTS = "paper's weights"
_STRICT = f"{_PAPER_WEIGHTS}, strict"


def suite_methods(settings: MethodSettings) -> Mapping[str, LabMethod]:
    """All methods in the order of the tables.

    The attention unions occur three times: with the model's own weights, with the paper's weights, which all
    alternatives use, and deciding by the mean of a passage's five best tokens. ``attn-union`` occurs once more exactly
    as in Algorithm 1, where a span with only isolated evidence has no evidence.
    """
    plain = lab_methods(settings)
    variants = {
        _PAPER_WEIGHTS: lab_methods(settings.with_paper_weights()),
        _BEST_TOKENS: lab_methods(settings.replaced(passage_score=PassageScore.TOP5_MEAN)),
    }
    varied = {f"{name}, {words}": methods[name] for words, methods in variants.items() for name in _VARIED}
    strict = lab_methods(settings.with_paper_weights().replaced(strict_isolation=True))
    varied |= {f"attn-union, {_STRICT}": strict["attn-union"]}
    first = {name: plain[name] for name in _VARIED}
    return {**first, **varied, **{name: method for name, method in plain.items() if name not in first}}


def is_strict(name: str) -> bool:
    """Whether a method's name stands for the union that always drops isolated evidence."""
    return name.endswith(f", {_STRICT}")


def has_paper_weights(name: str) -> bool:
    """Whether a method's name stands for a union with the paper's weights instead of the model's own."""
    return name.endswith(f", {_PAPER_WEIGHTS}")


def with_paper_weights(name: str, ran: Collection[str]) -> str:
    """The name of the same method with the paper's weights if that is in ``ran``, else ``name``."""
    other = f"{name}, {_PAPER_WEIGHTS}"
    return other if other in ran else name


def base_name(name: str) -> str:
    """The method's name on the command line."""
    return name.partition(",")[0]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of the suite that does not run, with the reason and the options or data that fill it."""

    what: str
    reason: str
    remedy: str


def left_out(
    found: FoundData, *, has_language_model: bool, has_nli_model: bool, has_chinese_parser: bool
) -> Iterator[LeftOut]:
    """What is left out, in the order of the tables; other models come last, because a run covers only one."""
    if not has_language_model:
        reason = "the model is not a causal language model, and none is named"
        yield LeftOut("cci and log-probability drops", reason, "--language-model NAME")
    if not found.of_section(Section.CITATIONS):
        yield LeftOut("sentence level", "no ALCE result file", "alce/*.json and --nli-model NAME")
    elif not has_nli_model:
        yield LeftOut("sentence level", "no NLI model is named", "--nli-model NAME")
    if not found.of_section(Section.SUPPORT):
        yield LeftOut("support labels", "no RAGTruth", "ragtruth/response.jsonl and ragtruth/source_info.jsonl")
    yield from _chinese(has_data=bool(found.of_section(Section.CHINESE)), has_parser=has_chinese_parser)
    yield LeftOut("other models", "a run covers one model", "--model NAME and another --output")


def _chinese(*, has_data: bool, has_parser: bool) -> Iterator[LeftOut]:
    lacking = []
    if not has_data:
        lacking.append(("no Chinese data", "chinese/quotesum*.jsonl, chinese/veri_gran*.jsonl or chinese/*.parquet"))
    if not has_parser:
        lacking.append(("no Chinese parser is named", "--chinese-parser NAME"))
    if lacking:
        reasons, remedies = zip(*lacking, strict=True)
        yield LeftOut("Chinese", ", ".join(reasons), " and ".join(remedies))


_UNION = frozenset({Need.PARSER, Need.ATTENTION})
_SWEPT = ("quotesum", "veri-gran", "log")
_SWEPT_METHOD = ATTN_UNION_DEP
_WRITES_TEXT = ("ForCausalLM", "LMHeadModel")


@dataclass(frozen=True, slots=True)
class Plan:
    """All cells in the order in which they run, and what is left out."""

    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...]


def plan_suite(found: FoundData, options: SuiteOptions, directory: ModelDirectory, *, has_nli_model: bool) -> Plan:
    """The cells that can run; cells without a model come first, and cells that share models are adjacent.

    ``directory`` is that of ``--model``; ``has_nli_model`` says whether a model judges citations.
    """
    planner = _Planner(found, options, directory, has_nli_model)
    lacking = left_out(
        found,
        has_language_model=planner.has_language_model,
        has_nli_model=has_nli_model,
        has_chinese_parser=options.chinese_parser is not None,
    )
    return Plan(tuple(sorted(planner.cells(), key=_models_rank)), tuple(lacking))


def parser_of(data: DataFile, options: SuiteOptions) -> str:
    """The parser of the data set's answers."""
    return options.chinese_parser or "" if data.section is Section.CHINESE else options.choice.parser


def _models_rank(cell: Cell) -> tuple[bool, bool, bool, bool]:
    return (
        cell.data.section is Section.CHINESE,
        cell.all_layers,
        Need.LANGUAGE_MODEL in cell.needs,
        Need.ATTENTION in cell.needs or Need.HIDDEN_STATES in cell.needs,
    )


@dataclass(frozen=True)
class _Planner:
    found: FoundData
    options: SuiteOptions
    directory: ModelDirectory
    has_nli_model: bool

    @property
    def has_language_model(self) -> bool:
        """Whether a language model is named, or the configuration of the model says that it is a causal one."""
        names = getattr(self.directory.config, "architectures", None) or ()
        return self.options.choice.language is not None or any(name.endswith(_WRITES_TEXT) for name in names)

    @property
    def has_own_weights(self) -> bool:
        """Whether the options or the model directory set weights of the union that differ from the paper's."""
        used = self.options.settings.union_options(ATTN_UNION_DEP).with_model(self.directory.defaults.method)
        return used != used.with_paper_weights()

    def cells(self) -> Iterator[Cell]:
        for data in self.found.of_section(Section.PASSAGES):
            yield from self._passages(data, tuple(suite_methods(self.options.settings)))
            if data.loader_name in _SWEPT:
                yield from self._sweep(data)
                yield from self._faithfulness(data)
        for data in self.found.of_section(Section.CITATIONS):
            yield from self._citations(data)
        for data in self.found.of_section(Section.SUPPORT):
            yield from self._support(data)
        if self.options.chinese_parser is not None:
            for data in self.found.of_section(Section.CHINESE):
                yield from self._passages(data, CHINESE)

    def _chosen(self, names: Sequence[str]) -> dict[str, LabMethod]:
        """Those of the named methods that were asked for and that the models allow."""
        available, asked = suite_methods(self.options.settings), self.options.methods
        return {
            name: available[name]
            for name in names
            if (asked is None or base_name(name) in asked)
            and (self.has_own_weights or not has_paper_weights(name))
            and (self.has_language_model or Need.LANGUAGE_MODEL not in available[name].needs)
        }

    def _passages(self, data: DataFile, names: Sequence[str]) -> Iterator[Cell]:
        for name, method in self._chosen(names).items():
            yield Cell(Kind.PASSAGES, data, name, method.needs)

    def _sweep(self, data: DataFile) -> Iterator[Cell]:
        if self.options.methods is None or _SWEPT_METHOD in self.options.methods:
            yield Cell(Kind.SENSITIVITY, data, _SWEPT_METHOD, _UNION, all_layers=True)

    def _faithfulness(self, data: DataFile) -> Iterator[Cell]:
        chosen = self._chosen(FAITHFULNESS)
        if not self.has_language_model or not chosen:
            return
        language = frozenset({Need.LANGUAGE_MODEL})
        yield Cell(Kind.TARGETS, data, "", language)
        for name, method in chosen.items():
            yield Cell(Kind.FAITHFULNESS, data, name, method.needs | language)

    def _citations(self, data: DataFile) -> Iterator[Cell]:
        for name, method in self._chosen(LATENCY).items():
            yield Cell(Kind.LATENCY, data, name, method.needs)
        if not self.has_nli_model:
            return
        yield Cell(Kind.CITATIONS, data, SELF_CITATION, frozenset())
        for name, method in self._chosen(CITATIONS).items():
            yield Cell(Kind.CITATIONS, data, name, method.needs)

    def _support(self, data: DataFile) -> Iterator[Cell]:
        for name in self._chosen(SUPPORT):
            yield Cell(Kind.SUPPORT, data, name, _UNION)
