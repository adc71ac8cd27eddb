"""Citation recall, precision and F1 as ALCE defines them (Gao et al. 2023), for answers' own citations and methods'.

An NLI model judges them: any sequence classifier of transformers that has a label for entailment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from attribeam.attribution.methods.method import LoadedModels
from attribeam.attribution.models.model_directory import model_context
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.measures.bootstrap import Counts, Interval, percentile_interval, row_draws
from attribeam.evaluation.methods.registry import LabelledContext, LabMethod
from attribeam.evaluation.report import FailedRow, failure_remarks, interval_cell, text_table
from attribeam.report.messages import one_line
from attribeam.schemas import Passage, RowFault
from attribeam.schemas.errors import ModelLoadError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Claim = tuple[str, str]
"""A premise and a statement."""


class EntailmentModel(Protocol):
    """A natural language inference model."""

    def entails(self, claims: Sequence[Claim]) -> list[bool]:
        """Whether the premise of each claim entails its statement, in the order of ``claims``."""
        ...


class RememberedEntailment:
    """An entailment model that judges each claim once, so that methods citing the same passages share its verdicts."""

    def __init__(self, model: EntailmentModel) -> None:
        self._model = model
        self._verdicts: dict[Claim, bool] = {}

    def entails(self, claims: Sequence[Claim]) -> list[bool]:
        """The verdicts; unknown ones come from one call of the model, which must give one for each."""
        new = [claim for claim in dict.fromkeys(claims) if claim not in self._verdicts]
        self._verdicts.update(zip(new, self._model.entails(new) if new else (), strict=True))
        return [self._verdicts[claim] for claim in claims]


MOST_CITATIONS = 3


@dataclass(frozen=True, slots=True)
class CitingSentence:
    """A sentence without its markers, and the 0-based passages that it cites, in order; some may not exist."""

    text: str
    citations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CitationCounts:
    """What was counted in one answer.

    Attributes:
        sentences: all sentences, with or without citations.
        supported: sentences that are entailed by their citations together.
        citations: citations that were judged.
        needed: citations of supported sentences that entail the sentence alone, or without which the others do not.
    """

    sentences: int
    supported: int
    citations: int
    needed: int

    @property
    def recall(self) -> float:
        """The share of sentences that are supported."""
        return self.supported / self.sentences

    @property
    def precision(self) -> float:
        """The share of citations that are needed; 0 without citations."""
        return self.needed / self.citations if self.citations else 0.0


@dataclass(frozen=True, slots=True)
class CitationScore:
    """Means over answers in percent; ``f1`` is the harmonic mean of the two means, and intervals are over answers."""

    recall: float
    recall_interval: Interval
    precision: float
    precision_interval: Interval
    f1: float
    f1_interval: Interval
    citations_a_sentence: float


def citation_counts(
    passages: Sequence[Passage],
    sentences: Sequence[CitingSentence],
    model: EntailmentModel,
    *,
    most_citations: int = MOST_CITATIONS,
) -> CitationCounts:
    """The counts of one answer, which has at least one sentence.

    The first ``most_citations`` citations of each sentence are judged. A sentence without citations, or with a
    citation of a passage that does not exist, is not supported, and its citations are not counted.
    """
    judged = [
        CitingSentence(one.text, one.citations[:most_citations])
        for one in sentences
        if one.citations and all(0 <= passage < len(passages) for passage in one.citations)
    ]
    verdicts = model.entails([_claim(passages, one.citations, one.text) for one in judged])
    supported = [one for one, entailed in zip(judged, verdicts, strict=True) if entailed]
    return CitationCounts(
        sentences=len(sentences),
        supported=len(supported),
        citations=sum(len(one.citations) for one in judged),
        needed=_needed(passages, supported, model),
    )


def citation_score(counts: Sequence[CitationCounts], row_counts: Counts) -> CitationScore:
    """The figures of one or more answers; ``row_counts`` are their resamples."""
    recalls = np.array([one.recall for one in counts])
    precisions = np.array([one.precision for one in counts])
    drawn_recalls, drawn_precisions = (row_counts @ shares / len(counts) for shares in (recalls, precisions))
    recall, precision = float(recalls.mean()), float(precisions.mean())
    return CitationScore(
        recall=100 * recall,
        recall_interval=percentile_interval(100 * drawn_recalls),
        precision=100 * precision,
        precision_interval=percentile_interval(100 * drawn_precisions),
        f1=100 * float(_harmonic_mean(recalls.mean(keepdims=True), precisions.mean(keepdims=True))[0]),
        f1_interval=percentile_interval(100 * _harmonic_mean(drawn_recalls, drawn_precisions)),
        citations_a_sentence=sum(one.citations for one in counts) / sum(one.sentences for one in counts),
    )


def _needed(passages: Sequence[Passage], supported: Sequence[CitingSentence], model: EntailmentModel) -> int:
    """How many citations of supported sentences are needed: the only one, one that suffices, or one that is missed."""
    several = [(one, citation) for one in supported if len(one.citations) > 1 for citation in one.citations]
    alone = model.entails([_claim(passages, [citation], one.text) for one, citation in several])
    unsure = [pair for pair, entailed in zip(several, alone, strict=True) if not entailed]
    others = [(one.text, [other for other in one.citations if other != citation]) for one, citation in unsure]
    without = model.entails([_claim(passages, rest, text) for text, rest in others])
    return sum(len(one.citations) for one in supported) - sum(without)


def _claim(passages: Sequence[Passage], citations: Iterable[int], statement: str) -> Claim:
    cited = [passages[citation] for citation in citations]
    return "\n".join(f"Title: {one.title}\n{one.text}" if one.title else one.text for one in cited), statement


def _harmonic_mean(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    both = left + right
    mean: npt.NDArray[np.float64] = np.divide(2 * left * right, both, out=np.zeros_like(both), where=both > 0)
    return mean


SELF_CITATION = "self-citation"
_THRESHOLDS: Mapping[str, float] = {"hss-avg": 0.55, "hss-avg-dep": 0.55}


@dataclass(slots=True)
class CitationTally:
    """The counts of one method, answer by answer."""

    name: str
    counts: list[CitationCounts] = field(default_factory=list)
    failed: list[FailedRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CitationRow:
    """One line of the table; rows that the method could not attribute count as answers without citations."""

    method: str
    score: CitationScore
    answers: int
    sentences: int
    failed_rows: tuple[FailedRow, ...]


def run_citations(
    answers: Iterable[LabelledAnswer],
    methods: Sequence[LabMethod],
    models: LoadedModels,
    entailment: EntailmentModel,
    *,
    most_citations: int = MOST_CITATIONS,
) -> tuple[CitationTally, ...]:
    """The answers' own citations first, then those of every method; a target span is a sentence.

    A method cites the passages whose score exceeds its threshold, highest score first: 0.55 for the cosines of
    ``hss-avg``, 0 for all others (Section 4.4 of the paper).
    """
    tallies = tuple(CitationTally(name) for name in (SELF_CITATION, *(method.name for method in methods)))
    for labelled in answers:
        context = LabelledContext(labelled, models)
        cited = [labelled.citations, *(_citations(*pair, context) for pair in zip(methods, tallies[1:], strict=True))]
        for tally, citations in zip(tallies, cited, strict=True):
            texts = [span.of(labelled.record.answer) for span in labelled.spans]
            sentences = list(map(CitingSentence, texts, citations))
            counts = citation_counts(labelled.record.passages, sentences, entailment, most_citations=most_citations)
            tally.counts.append(counts)
    return tallies


def score_citations(tallies: Sequence[CitationTally], *, draws: int, seed: int) -> tuple[CitationRow, ...]:
    """The figures of all methods, over the same resamples of answers.

    Raises:
        ValueError: if there was no answer.
    """
    row_counts = row_draws(len(tallies[0].counts), draws=draws, seed=seed)
    return tuple(
        CitationRow(
            method=tally.name,
            score=citation_score(tally.counts, row_counts),
            answers=len(tally.counts),
            sentences=sum(one.sentences for one in tally.counts),
            failed_rows=tuple(tally.failed),
        )
        for tally in tallies
    )


def _citations(method: LabMethod, tally: CitationTally, context: LabelledContext) -> Sequence[tuple[int, ...]]:
    """For each span the passages above the method's threshold, highest score first; ties keep their order."""
    threshold = _THRESHOLDS.get(method.name, 0.0)
    labelled = context.labelled
    try:
        results = method.span_results(context)
    except RowFault as fault:
        tally.failed.append(FailedRow.of(labelled.record, fault))
        return [()] * len(labelled.spans)
    scores = [result.passage_scores for result in results]
    above = [[index for index, score in enumerate(own) if score > threshold] for own in scores]
    return [tuple(sorted(some, key=lambda index: -own[index])) for some, own in zip(above, scores, strict=True)]


CITING_METHODS = ("hss-avg", "cci", "attn-union", "words")
"""The default methods: those of the paper's table, and ``words``."""
_HEADER = ("method", "recall %", "95% interval", "precision %", "95% interval", "F1 %", "95% interval", "per sentence")


def citation_table(title: str, rows: Sequence[CitationRow], remarks: Sequence[str]) -> str:
    """The figures, one line per method, then the remarks and what failed."""
    failures = [
        f"{row.method}: {remark}"
        for row in rows
        for remark in failure_remarks(row.failed_rows, consequence="count as answers without citations")
    ]
    lines = []
    for row in rows:
        score = row.score
        lines.append(
            (row.method,
             *(f"{score.recall:.1f}", interval_cell(score.recall_interval)),
             *(f"{score.precision:.1f}", interval_cell(score.precision_interval)),
             *(f"{score.f1:.1f}", interval_cell(score.f1_interval)),
             f"{score.citations_a_sentence:.2f}")
        )  # fmt: skip
    return "\n".join([one_line(title), text_table(_HEADER, lines), *map(one_line, remarks), *failures])


_BATCH_CLAIMS = 16
_NO_LIMIT = 2**20
"""Tokenizers without a limit report a huge number, far beyond what they can read."""


class NliModel:
    """Judges a claim as entailed if the entailment label has the largest logit.

    Premise and statement are encoded as a pair of texts. If both together exceed what the model reads, the longer one,
    usually the premise, is cut at its end; ``cut_claims`` counts how often.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, identity: str, device: torch.device
    ) -> None:
        """Wrap a loaded model; most callers want ``from_pretrained``.

        Raises:
            ModelLoadError: if it has no label for entailment.
        """
        from attribeam.attribution.language_models.verifiers import entailment_label

        self._model, self._tokenizer, self._device = model, tokenizer, device
        self._label = entailment_label(dict(model.config.id2label or {}), f"--nli-model {identity!r}")
        self._longest = longest_input(model, tokenizer)
        self.identity = identity
        self.cut_claims = 0

    @classmethod
    def from_pretrained(cls, name: str, *, device: torch.device | str = "cpu") -> NliModel:
        """Load a directory or a model of the Hugging Face hub.

        Raises:
            ModelLoadError: if there is no such model, or it is no sequence classifier with a label for entailment.
        """
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(name)
            model, report = AutoModelForSequenceClassification.from_pretrained(name, output_loading_info=True)
        except (OSError, ValueError, KeyError) as error:
            raise ModelLoadError(
                f"--nli-model {name!r} should be a directory or hub id of a sequence classifier, could not be loaded: "
                f"{error}"
            ) from error
        if report["missing_keys"]:
            raise ModelLoadError(
                f"--nli-model {name!r} should have the weights of a classifier, lacks {len(report['missing_keys'])} of "
                "them; name a model that was trained for natural language inference"
            )
        revision = getattr(model.config, "_commit_hash", None)
        chosen = torch.device(device)
        model.eval().to(chosen)
        return cls(model, tokenizer, identity=f"{name}@{revision or 'local'}", device=chosen)

    def entails(self, claims: Sequence[Claim]) -> list[bool]:
        """One verdict per claim; claims of similar length share a batch."""
        order = sorted(range(len(claims)), key=lambda index: -sum(map(len, claims[index])))
        verdicts = [False] * len(claims)
        for start in range(0, len(order), _BATCH_CLAIMS):
            batch = order[start : start + _BATCH_CLAIMS]
            for index, verdict in zip(batch, self._batch([claims[index] for index in batch]), strict=True):
                verdicts[index] = verdict
        return verdicts

    def _batch(self, claims: Sequence[Claim]) -> list[bool]:
        import torch

        premises, statements = [list(texts) for texts in zip(*claims, strict=True)]
        whole = self._tokenizer(premises, statements, verbose=False)["input_ids"]
        self.cut_claims += sum(len(one) > self._longest for one in whole)
        tokens = self._tokenizer(
            premises, statements, truncation=True, max_length=self._longest, padding=True, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            logits: Any = self._model(**tokens).logits
        return [label == self._label for label in logits.argmax(dim=-1).tolist()]


def longest_input(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The most tokens that the model reads, limited by its tokenizer and its positions."""
    return int(min(tokenizer.model_max_length, model_context(model.config) or _NO_LIMIT, _NO_LIMIT))
