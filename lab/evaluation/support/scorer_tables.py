"""Tables of scorers: ranking, verdicts on answers, characters, and whether probabilities are what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attribeam.lab.evaluation.measures.bootstrap import Auroc, F1Figures
from attribeam.lab.evaluation.measures.calibration import Reliability
from attribeam.lab.evaluation.measures.ranking import RankCorrelation
from attribeam.lab.evaluation.measures.verdicts import Share, VerdictFigures
from attribeam.lab.evaluation.report import interval_cell, text_table
from attribeam.lab.evaluation.support.scorer_figures import FIRST, GroupComparison, ScorerFigures

_OWN = "its own"
_CHOSEN = "best F1 elsewhere"
_BALANCED = "best balance elsewhere"
_INTERVAL = "95% interval"
_VERDICT_HEADER = (
    *("answers", "threshold", "precision %", "recall %", "F1 %", _INTERVAL),
    *("balanced %", _INTERVAL, "false alarms %", _INTERVAL),
)
_CLAIM_HEADER = ("claims", "threshold", "precision %", "recall %", "F1 %", _INTERVAL)
_CHARACTER_HEADER = ("characters", *_CLAIM_HEADER[1:])
_RELIABILITY_HEADER = ("mean risk", "share marked", "number")
_NOTE = (
    "thresholds: 'elsewhere' means chosen in cross-validation, for each fifth of the sources on the other four, over "
    "all groups together; intervals do not include that choice"
)


def comparison_tables(dataset: str, groups: Sequence[GroupComparison]) -> list[str]:
    """The tables of all groups, then what their thresholds mean; nothing without groups."""
    tables = [table for group in groups for table in _group_tables(dataset, group)]
    return [*tables, _NOTE] if tables else []


def _group_tables(dataset: str, group: GroupComparison) -> Iterator[str]:
    names = ", ".join(one.scorer for one in group.scorers)
    yield f"{dataset}, {group.group}: {group.marked_answers} of {group.answers} answers unsupported; {names}"
    yield text_table(*_ranking(group))
    if group.answers >= FIRST[0]:
        yield text_table(*_precisions(group))
    yield text_table(_VERDICT_HEADER, [line for one in group.scorers for line in _verdict_lines(one)])
    for header, lines in (
        (_CLAIM_HEADER, [line for one in group.scorers for line in _claim_lines(one)]),
        (_CHARACTER_HEADER, [line for one in group.scorers for line in _character_lines(one)]),
    ):
        if lines:
            yield text_table(header, lines)
    if any(one.kinds for one in group.scorers):
        yield text_table(*_kinds(group))
    if any(one.grades for one in group.scorers):
        yield text_table(*_grades(group))
    for one in group.scorers:
        yield from _reliability_tables(one)
        yield from _false_alarm_lines(one, clean=group.answers - group.marked_answers)


def _ranking(group: GroupComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    header = ["AUROC", "answers", _INTERVAL]
    has_sentences = any(one.sentences is not None for one in group.scorers)
    has_claims = any(one.claims is not None for one in group.scorers)
    has_grades = any(one.rank_correlation is not None for one in group.scorers)
    header += [f"{group.sentences} sentences", _INTERVAL] if has_sentences else []
    header += [f"{group.claims} claims", _INTERVAL] if has_claims else []
    header += ["Spearman", _INTERVAL] if has_grades else []
    lines = []
    for one in group.scorers:
        cells = _number_cells(one.answers)
        cells += _number_cells(one.sentences) if has_sentences else ()
        cells += _number_cells(one.claims) if has_claims else ()
        cells += _number_cells(one.rank_correlation) if has_grades else ()
        lines.append((one.scorer, *cells))
    return tuple(header), lines


def _precisions(group: GroupComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    firsts = [first for first in FIRST if first <= group.answers]
    header = ["precision among the first", *(cell for first in firsts for cell in (f"{first}, %", _INTERVAL))]
    lines = [
        (one.scorer, *(cell for found in one.precision_at for cell in _share_cells(found.precision)))
        for one in group.scorers
    ]
    return tuple(header), lines


def _verdict_lines(one: ScorerFigures) -> Iterator[tuple[str, ...]]:
    thresholds = ((_OWN, one.verdict), (_CHOSEN, one.chosen_verdict), (_BALANCED, one.balanced_verdict))
    for threshold, verdict in thresholds:
        if verdict is not None:
            yield (one.scorer, threshold, *_verdict_cells(verdict))


def _verdict_cells(verdict: VerdictFigures) -> tuple[str, ...]:
    return (
        *(_share_cells(share)[0] for share in (verdict.precision, verdict.recall)),
        *(
            cell
            for share in (verdict.f1, verdict.balanced_accuracy, verdict.false_alarms)
            for cell in _share_cells(share)
        ),
    )


def _claim_lines(one: ScorerFigures) -> Iterator[tuple[str, ...]]:
    for threshold, figures in ((_OWN, one.claim_verdicts), (_CHOSEN, one.chosen_claim_verdicts)):
        if figures is not None:
            yield (one.scorer, threshold, *_f1_cells(figures))


def _character_lines(one: ScorerFigures) -> Iterator[tuple[str, ...]]:
    for threshold, figures in ((_OWN, one.characters), (_CHOSEN, one.chosen_characters)):
        if figures is not None:
            yield (one.scorer, threshold, *_f1_cells(figures))


def _f1_cells(figures: F1Figures) -> tuple[str, ...]:
    shares = [f"{share:.1f}" for share in (figures.precision, figures.recall, figures.f1)]
    return (*shares, interval_cell(figures.f1_interval))


def _reliability_tables(one: ScorerFigures) -> Iterator[str]:
    for what, found in (("answers", one.answer_reliability), ("claims", one.claim_reliability)):
        if found is not None:
            yield f"risks of {what} as probabilities, {one.scorer}: {_reliability_sums(found)}"
            lines = [(f"{part.mean_score:.3f}", f"{part.marked_share:.3f}", str(part.items)) for part in found.bins]
            yield text_table(_RELIABILITY_HEADER, lines)


def _reliability_sums(found: Reliability) -> str:
    errors = (
        ("calibration error", found.calibration_error, found.calibration_error_interval),
        ("Brier score", found.brier_score, found.brier_score_interval),
    )
    return ", ".join(f"{name} {value:.3f} ({interval_cell(interval, digits=3)})" for name, value, interval in errors)


def _kinds(group: GroupComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    scorers = [one for one in group.scorers if one.kinds]
    header = ("called of the unsupported ones", "answers", *(f"{one.scorer}, %" for one in scorers))
    lines = [
        (kinds[0].kind, str(kinds[0].answers), *(f"{kind.called:.1f}" for kind in kinds))
        for kinds in zip(*(one.kinds for one in scorers), strict=True)
    ]
    return header, lines


def _grades(group: GroupComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    scorers = [one for one in group.scorers if one.grades]
    columns = [(f"{one.scorer}: called %", "mean risk") for one in scorers]
    header = ("mean grade from", "answers", *(name for names in columns for name in names))
    lines = [
        (
            *(str(of_grade[0].grade), str(of_grade[0].answers)),
            *(cell for one in of_grade for cell in (f"{one.called:.1f}", f"{one.mean_risk:.3f}")),
        )
        for of_grade in zip(*(one.grades for one in scorers), strict=True)
    ]
    return header, lines


def _false_alarm_lines(one: ScorerFigures, *, clean: int) -> Iterator[str]:
    """The headline of a scorer that decides by itself and not always in the same way."""
    if one.verdict is not None and one.chosen_verdict is not None and one.verdict.false_alarms is not None:
        share, interval = _share_cells(one.verdict.false_alarms)
        yield f"{one.scorer} calls {share}% ({interval}) of the {clean} answers unsupported that people found clean"


def _share_cells(share: Share | None) -> tuple[str, str]:
    return ("", "") if share is None else (f"{share.value:.1f}", interval_cell(share.interval))


def _number_cells(figure: Auroc | RankCorrelation | None) -> tuple[str, ...]:
    return ("", "") if figure is None else (f"{figure.value:.3f}", interval_cell(figure.interval, digits=3))
