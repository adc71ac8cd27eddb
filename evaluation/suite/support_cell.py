"""How well the flags of an audit agree with RAGTruth's labels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribution.attributor import Attributor
from attribution.settings import Method as UnionMethod
from evaluation.datasets.ragtruth import load_ragtruth
from evaluation.evaluation_error import EvaluationError
from evaluation.methods.answer_context import LoadedModels
from evaluation.suite.suite_options import SuiteOptions
from evaluation.support.support_label_command import SPLIT, audited_answers
from evaluation.support.support_label_figures import group_figures


def support_figures(directory: Path, method: str, models: LoadedModels, options: SuiteOptions) -> dict[str, object]:
    """The figures of ``evaluation.support.support_label_figures``, for all answers and for each task.

    Raises:
        EvaluationError: if no answer could be audited.
    """
    if models.parser is None or models.attention is None:
        raise RuntimeError("parser and attention model should be loaded, are not")
    dataset = load_ragtruth(directory).of_split(SPLIT)
    dataset = dataset if options.limit is None else dataset.first(options.limit)
    union = options.settings.union_options(UnionMethod(method))
    attributor = Attributor(parser=models.parser, model=models.attention.with_method(union), spans=DEFAULT_SPAN_KINDS)
    answers, failed = audited_answers(dataset.answers, attributor)
    if not answers:
        raise EvaluationError(f"data {directory} should have answers that can be audited, has none")
    groups = group_figures(answers, draws=options.draws, seed=options.seed)
    return {"groups": [asdict(group) for group in groups], "failed": [asdict(row) for row in failed]}
