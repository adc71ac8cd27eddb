"""The tables of passage accuracy: one column pair a data set, one row a method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evaluation.measures.highlight_overlap import HighlightScore
from evaluation.suite.data_files import Section
from evaluation.suite.markdown import NOTHING, markdown_table, section, with_interval
from evaluation.suite.suite_methods import UNION_OR_AVERAGE
from evaluation.suite.suite_results import TO_AVERAGE, DatasetAccuracy, SuiteResults


def accuracy_sections(results: SuiteResults) -> Iterator[str]:
    """Main accuracy, union against average, alternatives to augmentation, highlights, and Chinese."""
    english = [one for one in results.accuracy if one.section == Section.PASSAGES]
    chinese = [one for one in results.accuracy if one.section == Section.CHINESE]
    if english:
        yield section("Passage accuracy", _MAIN_TEXT, _main_table(english), _remarks(english))
        yield _union_section(english)
        yield _alternatives_section(english)
        yield from _highlight_sections(english)
    if chinese:
        yield section("An additional language: Chinese", _MAIN_TEXT, _main_table(chinese), _remarks(chinese))


_MAIN_TEXT = (
    "Percent of the spans whose best passage is right, with 95% bootstrap intervals over answers, and the paired "
    "difference to `words`, which needs no model."
)
_UNION_TEXT = (
    "Hidden states compared token by token and united, or averaged (Section 4.2.3); the difference is that to the "
    "average."
)
_DEP_TEXT = (
    "What else could show a span its context (Section 4.2.1 and last appendix), all with the paper's weights; the "
    "difference is that to `{}`."
)


def _union_section(datasets: Sequence[DatasetAccuracy]) -> str:
    methods = [method for method in UNION_OR_AVERAGE if any(one.score(method) for one in datasets)]
    table = _compared(datasets, methods, dict(TO_AVERAGE)) if methods else ""
    return section("Union against average", _UNION_TEXT, table) if table else ""


def _alternatives_section(datasets: Sequence[DatasetAccuracy]) -> str:
    methods, augmented = datasets[0].alternatives, datasets[0].augmented
    table = _compared(datasets, methods, dict.fromkeys(methods, augmented)) if methods else ""
    return section("Alternatives to dependency augmentation", _DEP_TEXT.format(augmented), table) if table else ""


def _main_table(datasets: Sequence[DatasetAccuracy]) -> str:
    header = ["method", *(cell for one in datasets for cell in (_column(one), "vs words"))]
    methods = list(dict.fromkeys(score.method for one in datasets for score in one.scores))
    return markdown_table(
        header, [[f"`{method}`", *(cell for one in datasets for cell in _cells(one, method))] for method in methods]
    )


def _column(dataset: DatasetAccuracy) -> str:
    return f"{dataset.dataset} ({dataset.spans} spans, {dataset.answers} answers)"


def _cells(dataset: DatasetAccuracy, method: str) -> tuple[str, str]:
    score = dataset.score(method)
    if score is None:
        return NOTHING, NOTHING
    difference = NOTHING
    if score.difference_to_words is not None and score.difference_interval is not None:
        difference = with_interval(score.difference_to_words, score.difference_interval, sign="+")
    return with_interval(score.passage_accuracy, score.interval), difference


def _compared(datasets: Sequence[DatasetAccuracy], methods: Sequence[str], references: Mapping[str, str]) -> str:
    """Accuracy and paired difference to another method, where one is given."""
    header = ["method", *(cell for one in datasets for cell in (one.dataset, "difference"))]
    rows = [
        [
            f"`{method}`",
            *(cell for one in datasets for cell in _compared_cells(one, method, references.get(method, ""))),
        ]
        for method in methods
    ]
    return markdown_table(header, rows)


def _compared_cells(dataset: DatasetAccuracy, method: str, reference: str) -> tuple[str, str]:
    score, difference = dataset.score(method), dataset.difference(method, reference)
    return (
        NOTHING if score is None else with_interval(score.passage_accuracy, score.interval),
        NOTHING if difference is None else with_interval(difference.value, difference.interval, sign="+"),
    )


def _remarks(datasets: Sequence[DatasetAccuracy]) -> str:
    return "\n".join(f"- {remark}" for one in datasets for remark in _remarks_of(one))


def _remarks_of(dataset: DatasetAccuracy) -> Iterator[str]:
    for reason, count in sorted(dataset.skipped_rows.items()):
        yield f"{dataset.dataset}: {count} rows skipped ({reason})."
    if dataset.single_passage_spans:
        yield f"{dataset.dataset}: {dataset.single_passage_spans} spans have one passage to choose from."
    for score in dataset.scores:
        if score.spans_without_evidence:
            yield f"{dataset.dataset}, `{score.method}`: nothing found for {score.spans_without_evidence} spans."
        if score.failed_rows:
            reasons = ", ".join(sorted({row.reason for row in score.failed_rows}))
            yield f"{dataset.dataset}, `{score.method}`: {len(score.failed_rows)} answers count as wrong ({reasons})."


def _highlight_sections(datasets: Sequence[DatasetAccuracy]) -> Iterator[str]:
    for one in datasets:
        rows = [
            [f"`{score.method}`", *_overlap_cells(score.highlights), *_overlap_cells(score.sentences)]
            for score in one.scores
            if score.highlights is not None and score.sentences is not None and score.highlights.recall > 0
        ]
        if rows:
            yield section(f"Highlights, {one.dataset}", _HIGHLIGHT_TEXT, markdown_table(_HIGHLIGHT_HEADER, rows))


_HIGHLIGHT_TEXT = (
    "The evidence in the best passage, and the passage sentences that it points to, against the characters that people "
    "marked; all in %."
)
_HIGHLIGHT_HEADER = (
    "method", "evidence: recall", "precision", "F1", "sentences: recall", "precision", "F1",
)  # fmt: skip


def _overlap_cells(score: HighlightScore | None) -> tuple[str, str, str]:
    if score is None:
        return NOTHING, NOTHING, NOTHING
    return f"{score.recall:.1f}", f"{score.precision:.1f}", with_interval(score.f1, score.f1_interval)
