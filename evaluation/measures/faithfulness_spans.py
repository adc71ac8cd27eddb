"""The answers and target spans whose log-probability drops are measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from attribution.models.language_model import LanguageModel
from evaluation.datasets.labelled_answer import LabelledAnswer, SkippedRow
from evaluation.measures.context_sensitivity import sensitive_spans
from evaluation.measures.target_choice import Answers, Spans, check_targets
from evaluation.methods.language_context import LanguageContext
from schemas import QARecord, RowFault


class TargetAnswers:
    """The answers of a data set with the spans that were asked for, made one by one as they are asked for.

    Attributes:
        skipped: the answers that were left out so far: refused by the model, empty, or without a sensitive token.
    """

    def __init__(
        self, answers: Iterable[LabelledAnswer], model: LanguageModel, *, spans: Spans, source: Answers
    ) -> None:
        check_targets(spans=spans, source=source)
        self._answers, self._model, self._spans, self._source = answers, model, spans, source
        self.skipped: list[SkippedRow] = []

    def __iter__(self) -> Iterator[LabelledAnswer]:
        for labelled in self._answers:
            try:
                made = self._made(labelled)
            except RowFault as fault:
                made = str(fault.reason)
            if isinstance(made, str):
                self.skipped.append(SkippedRow(labelled.record.source.source_row, made))
            else:
                yield made

    def _made(self, labelled: LabelledAnswer) -> LabelledAnswer | str:
        """The answer, or why there is none."""
        record = labelled.record
        if self._source is Answers.GENERATED:
            record = replace(record, answer=self._model.generate(record), target_spans=None)
            if not record.answer:
                return "empty_answer"
        return labelled if self._spans is Spans.LABELLED else _with_sensitive_spans(record, self._model)


def _with_sensitive_spans(record: QARecord, model: LanguageModel) -> LabelledAnswer | str:
    context = LanguageContext(record, model)
    spans = sensitive_spans(context.divergences, context.encoded.response_chars)
    return LabelledAnswer(replace(record, target_spans=spans)) if spans else "no_context_sensitive_token"
