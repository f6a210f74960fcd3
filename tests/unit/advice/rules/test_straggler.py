"""A rank that makes the others wait a tenth of the cycle is told by its number."""

from __future__ import annotations

from tests.support.signals import MS, found, loop, parts, process, work
from tfprobe.advice.finding import Subject
from tfprobe.advice.signals import WorkSignals
from tfprobe.errors import Missing


def _rank(rank: int | None, **changes) -> WorkSignals:
    subject = Subject("node7", 4711 + (rank or 0), rank, "fit", "model")
    return work(subject=subject, process=process(subject=subject), **changes)


def test_a_tenth_of_the_cycle_is_told() -> None:
    """Of ranks in step the late one waits least for the others."""
    late = _rank(1, parts=parts(collectives=0.1))
    waiting = _rank(0, parts=parts(collectives=0.2))

    finding = found("straggler", waiting, late)

    assert finding is not None
    assert (finding.subject.rank, round(finding.gain.high_ratio, 6)) == (1, 0.1)


def test_less_is_not() -> None:
    """Ranks are never equal."""
    late = _rank(1, parts=parts(collectives=0.101))
    waiting = _rank(0, parts=parts(collectives=0.2))

    assert found("straggler", waiting, late) is None


def test_without_samples_the_time_between_steps_tells() -> None:
    """In a cluster nothing may be sampled: the late one is late to the step, others wait in it."""
    nothing = Missing("no step was sampled")
    late = _rank(0, parts=nothing, loop=loop(usual_step_ns=2.0 * MS, usual_gap_ns=8.0 * MS))
    waiting = _rank(1, parts=nothing, loop=loop(usual_step_ns=9.0 * MS, usual_gap_ns=1.0 * MS))

    finding = found("straggler", late, waiting)

    assert finding is not None
    assert (finding.subject.rank, round(finding.gain.high_ratio, 6)) == (0, 0.7)


def test_processes_without_ranks_are_not_compared() -> None:
    """Two jobs beside each other do not wait for each other."""
    one = work(parts=parts(collectives=0.5))
    other = work(subject=Subject("node8", 1, None, "fit", "model"), parts=parts())

    assert found("straggler", one, other) is None
