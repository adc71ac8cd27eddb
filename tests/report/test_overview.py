"""Support over time, by column and by share, and the use of passages, against counting span by span."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from tests.report.made_audit import added, made_audit

from attribeam.report.audited_answer import AuditedLogs
from attribeam.report.overview import (
    MASS_BINS,
    MAX_TIME_BINS,
    MAX_VALUES,
    SHOWN_PASSAGES,
    SHOWN_RANKS,
    SHOWN_VALUES,
    MassTally,
    PassageTally,
    RankTally,
    ShareTally,
    SupportCounts,
    TimelineTally,
    passage_names,
    retrieved_passages,
)
from attribeam.schemas import Passage, QARecord, RowSource

SUPPORTS = ("supported", "weak", "unsupported")
START = datetime(2026, 3, 14, 15, 9, tzinfo=UTC)


def timeline_of(rows):
    return added(TimelineTally("answered_at"), rows).result()


def counted(supports):
    return SupportCounts(*(supports.count(support) for support in SUPPORTS))


def floor(moment, unit):
    """The start of the hour, day, week, month or year that holds the moment."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    wider = {"month": day.replace(day=1), "year": day.replace(month=1, day=1)}
    return {"hour": hour, "day": day, "week": day - timedelta(days=day.weekday()), **wider}[unit]


def bin_count(first, last, unit):
    """Units from the one that holds ``first`` to the one that holds ``last``, both included, one by one."""
    count, start, end = 1, floor(first, unit), floor(last, unit)
    while start < end:
        start = floor(start + timedelta(days=31) if unit == "month" else start + STEPS[unit], unit)
        count += 1
    return count


STEPS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1), "year": timedelta(days=366)}


def naive_unit(moments):
    counts = {unit: bin_count(min(moments), max(moments), unit) for unit in ("hour", "day", "week", "month")}
    return next((unit for unit, count in counts.items() if count <= MAX_TIME_BINS), "year")


@pytest.mark.parametrize("days", [0.5, 2.5, 2.7, 40, 61, 63, 300, 440, 1800, 1900, 9000])
@pytest.mark.parametrize("seed", range(3))
def test_the_timeline_counts_every_span_in_the_narrowest_unit_that_fits(days, seed):
    chance = random.Random(seed)
    moments = [START + timedelta(days=days) * chance.random() for _ in range(40)]
    rows = [{"answered_at": moment, "support": chance.choice(SUPPORTS)} for moment in moments]
    found = timeline_of(rows)
    unit = naive_unit(moments)
    starts = sorted({floor(moment, unit) for moment in moments})
    assert (found.unit, found.undated) == (unit, 0)
    assert [one.start for one in found.bins] == [start.isoformat() for start in starts]
    for one, start in zip(found.bins, starts, strict=True):
        assert one.counts == counted([row["support"] for row in rows if floor(row["answered_at"], unit) == start])


@pytest.mark.parametrize(
    ("unit", "last", "next_unit"),
    [
        ("hour", START + timedelta(hours=MAX_TIME_BINS - 1), "day"),
        ("day", START + timedelta(days=MAX_TIME_BINS - 1), "week"),
        ("week", START + timedelta(weeks=MAX_TIME_BINS - 1), "month"),
        ("month", datetime(2031, 4, 30, tzinfo=UTC), "year"),
    ],
)
def test_one_bin_too_many_takes_the_next_wider_unit(unit, last, next_unit):
    assert bin_count(START, last, unit) == MAX_TIME_BINS
    later = last + STEPS.get(unit, timedelta(days=31))
    assert timeline_of([{"answered_at": START}, {"answered_at": last}]).unit == unit
    assert timeline_of([{"answered_at": START}, {"answered_at": later}]).unit == next_unit


@pytest.mark.parametrize("value_count", [1, SHOWN_VALUES, SHOWN_VALUES + 1, MAX_VALUES])
def test_shares_list_the_values_with_most_spans_by_their_unsupported_share(value_count):
    chance = random.Random(value_count)
    values = [*(f"team {number:02d}" for number in range(value_count - 1)), None]
    spans = [(value, chance.choice(SUPPORTS)) for value in values for _ in range(chance.randrange(1, 9))]
    chance.shuffle(spans)
    found = added(ShareTally("team"), [{"team": value, "support": support} for value, support in spans]).result()
    by_value = {value: counted([support for one, support in spans if one == value]) for value in values}
    listed = {group.value: group.counts for group in found.groups}
    assert listed == {value: by_value[value] for value in listed}
    left_out = [counts for value, counts in by_value.items() if value not in listed]
    assert len(listed) == min(SHOWN_VALUES, value_count)
    assert found.other_values == len(left_out)
    assert found.others == sum(left_out, SupportCounts())
    assert not left_out or max(one.spans for one in left_out) <= min(one.spans for one in listed.values())
    shares = [group.counts.unsupported / group.counts.spans for group in found.groups]
    assert shares == sorted(shares, reverse=True)
    assert not found.too_many_values


def test_each_mass_falls_into_the_bin_that_holds_it():
    chance = random.Random(7)
    masses = [0.0, 1.0, *(chance.randrange(65) / 64 for _ in range(200))]  # 64ths of MASS_BINS are exact
    rows = [{"evidence_mass": mass, "support": chance.choice(SUPPORTS)} for mass in masses]
    wanted = Counter((min(int(row["evidence_mass"] * MASS_BINS), MASS_BINS - 1), row["support"]) for row in rows)
    found = added(MassTally("evidence_mass"), rows, size=50).result()
    assert len(found) == MASS_BINS
    for number, counts in enumerate(found):
        assert counts == SupportCounts(*(wanted[number, support] for support in SUPPORTS))


@pytest.mark.parametrize(
    ("column", "shares", "bins"),
    [
        ("support_score", [0.5, 0.5, None, 1.0], {MASS_BINS // 2: 2, MASS_BINS - 1: 1}),
        ("evidence_mass", [0.5, float("nan"), 1.0], {MASS_BINS // 2: 1, MASS_BINS - 1: 1}),
        ("evidence_mass", [None, None], {}),
    ],
)
def test_spans_without_a_share_are_in_no_bin(column, shares, bins):
    found = added(MassTally(column), [{column: share} for share in shares], size=2).result()
    assert {number: one.spans for number, one in enumerate(found) if one.spans} == bins
    assert len(found) == (MASS_BINS if bins else 0)


PIECE = {"passage_index": 0, "in_title": False, "char_start": 0, "char_end": 1, "text": "x", "score": 1.0}


def random_ranks(seed):
    """Spans with up to 25 passages, each with a score or without."""
    chance = random.Random(seed)
    rows = []
    for _ in range(60):
        scores = [chance.choice([0.0, 0.25, 1.5]) for _ in range(chance.randrange(26))]
        top = max(range(len(scores)), key=scores.__getitem__, default=None)
        rows.append({"passage_scores": scores, "top_passage_index": top if any(scores) else None})
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_places_are_counted_as_offered_used_and_best(seed):
    rows = random_ranks(seed)
    found = added(RankTally(), rows, size=7).result()
    assert [one.rank for one in found] == list(range(1, SHOWN_RANKS + 1))
    for place, one in enumerate(found):
        scores = [row["passage_scores"][place] for row in rows if len(row["passage_scores"]) > place]
        best = sum(row["top_passage_index"] == place for row in rows)
        assert (one.offered, one.used, one.best) == (len(scores), sum(score > 0 for score in scores), best)


def random_evidence(seed):
    """The spans of 40 answers in two files, one after the other; some passages have no id."""
    chance = random.Random(seed)
    ids = [*(f"p{number}" for number in range(20)), None]
    return [
        {
            "source_file": f"log{file}.parquet",
            "source_row": row,
            "evidence": [{**PIECE, "passage_id": chance.choice(ids)} for _ in range(chance.randrange(4))],
        }
        for file in range(2)
        for row in range(20)
        for _ in range(chance.randrange(1, 5))
    ]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_an_answer_counts_once_for_each_passage_that_it_draws_on(size):
    rows = random_evidence(size)
    answers = {}
    for row in rows:
        for piece in row["evidence"]:
            if piece["passage_id"] is not None:
                answers.setdefault(piece["passage_id"], set()).add((row["source_file"], row["source_row"]))
    by_use = sorted(answers, key=lambda name: (-len(answers[name]), name))
    found = added(PassageTally(), rows, size=size).result(None)
    assert [(use.passage_id, use.answers, use.retrieved) for use in found.most_used] == [
        (name, len(answers[name]), None) for name in by_use[:SHOWN_PASSAGES]
    ]
    assert (found.least_used, found.passage_count) == ((), len(answers))


def test_passages_retrieved_in_vain_come_first_among_the_least_used():
    ids = ["used", "used", "used", "always"]
    rows = [{"source_row": row, "evidence": [{**PIECE, "passage_id": name}]} for row, name in enumerate(ids)]
    found = added(PassageTally(), rows).result({"used": 4, "always": 1, "rare": 2, "idle": 9})
    assert [use.passage_id for use in found.least_used] == ["idle", "rare", "used"]
    assert [(use.passage_id, use.retrieved) for use in found.most_used] == [("used", 4), ("always", 1)]
    assert found.passage_count == 4


def test_rows_that_retrieved_a_passage_are_counted_from_the_log_unless_it_changed(tmp_path):
    made = made_audit(tmp_path)
    assert retrieved_passages(AuditedLogs.of(made.opened)) == {"pier-1": 4, "pier-2": 4}
    made.log.write_bytes(made.log.read_bytes() + b"x")
    assert retrieved_passages(AuditedLogs.of(made.opened)) is None


def rows(*texts):
    """One record per mapping of passage ids to texts."""
    passages = [tuple(Passage(text, f"About {one}", one) for one, text in own.items()) for own in texts]
    return [QARecord(f"r{row}", "Why?", own, "So.", RowSource("log", row)) for row, own in enumerate(passages)]


SAME = {"source1": "a", "source2": "b", "source3": "c"}


@pytest.mark.parametrize(
    ("texts", "per_row"),
    [
        ([{"source1": "a", "source2": "b"}, {"source1": "c", "source2": "d"}], True),
        ([{"source1": "a", "source2": "b"}, {"source1": "a", "source2": "b"}], False),
        ([{"source1": "old"}, {"source1": "old"}, {"source1": "new"}, {"source1": "new"}], False),
        ([{"source1": "a"}], False), ([SAME, {**SAME, "source3": "c, revised"}], False),
    ],
)  # fmt: skip
def test_an_id_is_one_of_a_row_if_most_rows_give_it_another_text(texts, per_row):
    names = passage_names(rows(*texts))
    assert names.is_per_row("source1") is per_row
    assert names.is_per_row("source27") is per_row
    assert not names.is_per_row("doc-1")


def test_ids_of_rows_are_left_out_of_the_ranking_and_counted():
    names = passage_names(rows({"source1": "a", "doc1": "x"}, {"source1": "b", "doc1": "x"}))
    ranking = PassageTally().result({"source1": 9, "source2": 4, "doc1": 2}, names)
    assert [(use.passage_id, use.title) for use in ranking.least_used] == [("doc1", "About doc1")]
    assert (ranking.passage_count, ranking.per_row_ids) == (1, 2)
