"""A rank that makes the others wait a tenth of the cycle is told by its number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import MS, found, loop, parts, process, timing
from tfprobe.analysis.distributed.rank_lateness import RankLateness
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject
from tfprobe.findings.rule import LoopAnalysis


def _rank(rank: int | None, **changes) -> LoopAnalysis:
    subject = Subject("node7", 4711 + (rank or 0), rank, "fit", "model")
    return loop(subject=subject, process=process(subject=subject), **changes)


LAST = RankLateness(matched=20, last_ratio=0.6, waiting_ns=0.1 * MS)
OTHER = RankLateness(matched=20, last_ratio=0.4, waiting_ns=0.2 * MS)


def test_a_tenth_of_the_cycle_is_told() -> None:
    """Of ranks in step the late one waits least for the others."""
    late = _rank(1, parts=parts(collectives=0.1), lateness=LAST)
    waiting = _rank(0, parts=parts(collectives=0.2), lateness=OTHER)

    finding = found("straggler", waiting, late)

    assert finding is not None
    assert (finding.subject.rank, round(finding.gain.high_ratio, 6)) == (1, 0.1)


def test_ranks_of_two_jobs_do_not_wait_for_each_other() -> None:
    """A script that runs one job after the other has each rank twice."""
    late = _rank(1, parts=parts(collectives=0.1), lateness=LAST)
    waiting = _rank(0, parts=parts(collectives=0.2), lateness=OTHER)

    other_job = replace(waiting, process=replace(waiting.process, group=1))

    assert found("straggler", other_job, late) is None


def test_of_many_ranks_one_is_last_to_three_times_its_share() -> None:
    """Among 16, nobody comes last to most collectives."""
    usual = replace(OTHER, last_ratio=0.04)
    others = [_rank(at, parts=parts(collectives=0.2), lateness=usual) for at in range(15)]

    late = _rank(15, parts=parts(collectives=0.05), lateness=replace(LAST, last_ratio=0.2))
    finding = found("straggler", *others, late)
    assert finding is not None
    assert finding.subject.rank == 15
    assert any("among 16 ranks" in each.text for each in finding.evidence)
    rarely = _rank(15, parts=parts(collectives=0.05), lateness=replace(LAST, last_ratio=0.1))
    assert found("straggler", *others, rarely) is None


def test_of_many_ranks_that_differ_the_last_is_no_outlier() -> None:
    """Where ranks are anything from fast to slow, the slowest is one of them."""
    ranks = [
        _rank(at, parts=parts(collectives=0.5 - at / 40), lateness=replace(OTHER, last_ratio=0.05))
        for at in range(15)
    ]
    last = _rank(15, parts=parts(collectives=0.1), lateness=replace(LAST, last_ratio=0.4))

    assert found("straggler", *ranks, last) is None


def test_a_long_first_step_makes_nobody_late() -> None:
    """A chief restores and traces in it. The others waited for that one step alone."""
    long_first = timing(step_ns=100 * 16 * MS)
    late = _rank(1, parts=parts(collectives=0.2), lateness=LAST, timing=long_first)
    waiting = _rank(0, parts=parts(collectives=0.2), lateness=OTHER)

    assert found("straggler", waiting, late) is None


def test_the_gain_is_of_steps_as_they_usually_are() -> None:
    """A first step that is eight times the others would have made it larger."""
    long_first = timing(step_ns=100 * 16 * MS)
    late = _rank(1, parts=parts(collectives=0.1), lateness=LAST, timing=long_first)
    waiting = _rank(0, parts=parts(collectives=0.3), lateness=OTHER, timing=long_first)

    finding = found("straggler", waiting, late)

    assert finding is not None
    assert finding.gain.high_ns == pytest.approx(100 * 2 * MS)


def test_less_is_not() -> None:
    """Ranks are never equal."""
    late = _rank(1, parts=parts(collectives=0.101), lateness=LAST)
    waiting = _rank(0, parts=parts(collectives=0.2), lateness=OTHER)

    assert found("straggler", waiting, late) is None


@pytest.mark.parametrize(
    "turns", [replace(LAST, last_ratio=0.59), replace(LAST, waiting_ns=0.2 * MS)]
)
def test_a_rank_that_others_do_not_wait_for_is_not(turns: RankLateness) -> None:
    """Equal ranks take turns in being last, and one of them waits for the other, too."""
    slower = _rank(1, parts=parts(collectives=0.1), lateness=turns)
    other = _rank(0, parts=parts(collectives=0.5), lateness=OTHER)

    assert found("straggler", other, slower) is None


def test_ranks_that_were_not_seen_to_meet_are_not_compared_by_samples() -> None:
    """Samples of different steps say nothing of who was late; usual steps here are alike."""
    one = _rank(1, parts=parts(collectives=0.1))
    other = _rank(0, parts=parts(collectives=0.5))

    assert found("straggler", other, one) is None


def test_a_difference_within_what_gaps_usually_vary_is_not_told() -> None:
    """Without samples only the time between steps is known, and that varies by itself."""
    times = {"usual_step_ns": 6.0 * MS, "usual_gap_ns": 4.0 * MS}
    wild, calm = timing(**times, gap_spread_ns=1.5 * MS), timing(gap_spread_ns=0.5 * MS)

    assert found("straggler", _rank(0, timing=wild), _rank(1, timing=calm)) is None
    assert found("straggler", _rank(0, timing=timing(**times)), _rank(1, timing=calm)) is not None


def test_without_samples_the_time_between_steps_tells() -> None:
    """In a cluster nothing may be sampled: the late one is late to the step, others wait in it."""
    nothing = Missing("no step was traced")
    late = _rank(0, parts=nothing, timing=timing(usual_step_ns=2.0 * MS, usual_gap_ns=8.0 * MS))
    waiting = _rank(1, parts=nothing, timing=timing(usual_step_ns=9.0 * MS, usual_gap_ns=1.0 * MS))

    finding = found("straggler", late, waiting)

    assert finding is not None
    assert (finding.subject.rank, round(finding.gain.high_ratio, 6)) == (0, 0.7)


def test_ranks_that_do_not_wait_for_each_other_are_not_late() -> None:
    """One takes longer between its steps, and nobody's step is longer for it."""
    slower = timing(usual_step_ns=8.0 * MS, usual_gap_ns=4.0 * MS)
    others = [timing(usual_step_ns=8.0 * MS, usual_gap_ns=1.0 * MS) for _ in range(2)]
    quicker = timing(usual_step_ns=6.0 * MS, usual_gap_ns=1.0 * MS)

    assert (
        found("straggler", *(_rank(at, timing=each) for at, each in enumerate([slower, *others])))
        is None
    )
    assert found("straggler", _rank(0, timing=slower), _rank(1, timing=quicker)) is None


def test_of_three_ranks_both_others_wait_for_a_late_one() -> None:
    """One alone with a longer step is slow itself, and the others wait for it between theirs."""
    slow = timing(usual_step_ns=10.0 * MS, usual_gap_ns=1.0 * MS)
    waiting = timing(usual_step_ns=5.0 * MS, usual_gap_ns=6.0 * MS)

    assert (
        found(
            "straggler",
            *(_rank(at, timing=each) for at, each in enumerate([slow, waiting, waiting])),
        )
        is None
    )


def test_processes_without_ranks_are_not_compared() -> None:
    """Two jobs beside each other do not wait for each other."""
    one = loop(parts=parts(collectives=0.5))
    other = loop(subject=Subject("node8", 1, None, "fit", "model"), parts=parts())

    assert found("straggler", one, other) is None
