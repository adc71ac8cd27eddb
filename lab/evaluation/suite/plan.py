"""The methods of the tables, the cells that the available data and models allow, and what is left out.

Everything that is left out comes with a reason and the way to fill it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attribeam.attribution.methods.method import MethodSettings, Need, PassageScore
from attribeam.lab.evaluation.lab_methods import LabMethod, lab_methods
from attribeam.lab.evaluation.measures.citations import SELF_CITATION
from attribeam.lab.evaluation.suite.cell import Cell, Kind
from attribeam.lab.evaluation.suite.data_files import DataFile, FoundData, Section
from attribeam.lab.evaluation.suite.dependencies import Dependencies
from attribeam.lab.evaluation.suite.suite_options import SuiteOptions

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
_SWEPT_METHOD = "attn-union-dep"


@dataclass(frozen=True, slots=True)
class Plan:
    """All cells, finished or not, in the order in which they run, and what is left out."""

    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...]


def plan_suite(
    found: FoundData, options: SuiteOptions, dependencies: Dependencies, *, nli_model: str | None = None
) -> Plan:
    """The cells that can run; cells without a model come first, and cells that share models are adjacent.

    ``nli_model`` is the name and revision of the model that judges citations, None if there is none.
    """
    planner = _Planner(found, options, dependencies, nli_model)
    lacking = left_out(
        found,
        has_language_model=planner.has_language_model,
        has_nli_model=nli_model is not None,
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
    dependencies: Dependencies
    nli_model: str | None

    @property
    def has_language_model(self) -> bool:
        """Whether a language model is named, or the model itself is one."""
        return self.options.choice.language is not None or self.dependencies.writes_text()

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
            and (self.dependencies.has_own_weights() or not has_paper_weights(name))
            and (self.has_language_model or Need.LANGUAGE_MODEL not in available[name].needs)
        }

    def _cell(
        self,
        kind: Kind,
        data: DataFile,
        method: str,
        needs: frozenset[Need],
        more: Mapping[str, object] | None = None,
        *,
        all_layers: bool = False,
    ) -> Cell:
        """A cell that depends on data, models and ``more``."""
        depends_on = self.dependencies.of(data, needs, parser=parser_of(data, self.options))
        return Cell(kind, data, method, needs, {**depends_on, **(more or {})}, all_layers)

    def _drawn(self, name: str) -> dict[str, object]:
        """The additional dependency of ``random``."""
        return {"seed": self.options.seed} if name == "random" else {}

    @property
    def _resampled(self) -> dict[str, object]:
        """The additional dependencies of cells that store intervals."""
        return {"draws": self.options.draws, "seed": self.options.seed}

    def _passages(self, data: DataFile, names: Sequence[str]) -> Iterator[Cell]:
        for name, method in self._chosen(names).items():
            yield self._cell(Kind.PASSAGES, data, name, method.needs, self._drawn(name))

    def _sweep(self, data: DataFile) -> Iterator[Cell]:
        if self.options.methods is None or _SWEPT_METHOD in self.options.methods:
            yield self._cell(Kind.SENSITIVITY, data, _SWEPT_METHOD, _UNION, self._resampled, all_layers=True)

    def _faithfulness(self, data: DataFile) -> Iterator[Cell]:
        chosen = self._chosen(FAITHFULNESS)
        if not self.has_language_model or not chosen:
            return
        targets: dict[str, object] = {"spans": str(self.options.spans), "source": str(self.options.answers)}
        language = frozenset({Need.LANGUAGE_MODEL})
        yield self._cell(Kind.TARGETS, data, "", language, targets)
        for name, method in chosen.items():
            more = {**targets, **self._drawn(name)}
            yield self._cell(Kind.FAITHFULNESS, data, name, method.needs | language, more)

    def _citations(self, data: DataFile) -> Iterator[Cell]:
        for name, method in self._chosen(LATENCY).items():
            yield self._cell(Kind.LATENCY, data, name, method.needs)
        if self.nli_model is None:
            return
        judged: dict[str, object] = {"nli_model": self.nli_model, "most_citations": self.options.most_citations}
        yield self._cell(Kind.CITATIONS, data, SELF_CITATION, frozenset(), judged)
        for name, method in self._chosen(CITATIONS).items():
            yield self._cell(Kind.CITATIONS, data, name, method.needs, judged)

    def _support(self, data: DataFile) -> Iterator[Cell]:
        for name in self._chosen(SUPPORT):
            yield self._cell(Kind.SUPPORT, data, name, _UNION, self._resampled)
