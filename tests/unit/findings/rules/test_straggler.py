"""A rank that makes the others wait a tenth of the cycle is a finding, with its number.

Which ranks are slow is tested in tests/unit/analysis/distributed/test_stragglers.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.subjects import MS, found, loop, process, timing
from tfprobe.analysis.distributed.slow_ranks import Lateness, Straggler
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject
from tfprobe.findings.rule import LoopAnalysis

NONE = Missing("too few collectives were recorded in several processes")


def _rank(rank: int | None, **changes: Any) -> LoopAnalysis:
    subject = Subject("node7", 4711 + (rank or 0), rank, "fit", "model")
    key = rank or 0, 0
    return loop(subject=subject, **{"process": process(subject=subject), "key": key, **changes})


def _slow(excess_ms: float = 1.0, **changes: Any) -> Straggler:
    """Return a rank that is last to most collectives, in steps of 8 ms that are 2 ms apart."""
    facts: dict[str, Any] = {
        "process": 1,
        "loop": "fit model",
        "measure": "inside",
        "late": Lateness(1, excess_ms / 8, 9.0, 9.0, 20, is_named=True),
        "excess_ns": excess_ms * MS,
        "last_ratio": 0.6,
        "matched": 20,
        "is_waited_for": True,
    }
    return Straggler(**{**facts, **changes})


def test_a_tenth_of_the_cycle_is_told() -> None:
    """The gain is what it takes longer, in all steps."""
    finding = found("straggler", _rank(0), _rank(1, slow=_slow()))

    assert finding is not None
    assert (finding.subject.rank, round(finding.gain.high_ratio, 6)) == (1, 0.1)


def test_less_is_not() -> None:
    """A rank may be slow by more than chance and yet by too little to look for the cause."""
    assert found("straggler", _rank(0), _rank(1, slow=_slow(0.99))) is None


def test_nobody_is_slow_among_equals() -> None:
    """Whatever their steps are like: the analysis decides it."""
    slower = timing(usual_step_ns=8.0 * MS, usual_gap_ns=4.0 * MS)

    assert found("straggler", _rank(0), _rank(1, timing=slower)) is None


def test_the_evidence_says_how_far_that_is_from_chance() -> None:
    """Of how many ranks and steps, and how often it came last."""
    finding = found("straggler", *(_rank(at) for at in (0, 2)), _rank(1, slow=_slow()))

    assert finding is not None
    texts = [each.text for each in finding.evidence]
    assert "robust z 9.0 over 20 steps of 3 ranks" in texts
    assert "of 20 collectives it was last in" in texts


@pytest.mark.parametrize(
    "slow", [_slow(is_waited_for=False), _slow(measure="cycle", is_waited_for=False)]
)
def test_ranks_that_do_not_wait_for_it_lose_nothing(slow: Straggler) -> None:
    """A worker of parameter servers steps at its own pace."""
    assert found("straggler", _rank(0), _rank(1, slow=slow)) is None


def test_without_collectives_the_time_before_steps_tells() -> None:
    """In a cluster nothing may be traced: the late one is late to the step, others wait in it."""
    slow = _slow(7.0, measure="between", last_ratio=NONE, matched=0)

    finding = found("straggler", _rank(0), _rank(1, slow=slow))

    assert finding is not None
    assert (finding.subject.rank, round(finding.gain.high_ratio, 6)) == (1, 0.7)
    assert not any("collectives" in each.text for each in finding.evidence)


def test_a_long_first_step_makes_nobody_late() -> None:
    """A chief restores and traces in it: of so long a cycle the excess is no tenth."""
    long_first = timing(regular_step_ns=100 * 16 * MS)

    assert found("straggler", _rank(0), _rank(1, slow=_slow(1.7), timing=long_first)) is None


def test_of_several_slow_ranks_the_slowest_is_the_finding() -> None:
    """With the others as evidence: they may share a machine."""
    ranks = [
        _rank(0),
        _rank(1, slow=_slow(2.0)),
        _rank(2, slow=_slow(3.0, process=2)),
        _rank(3, slow=_slow(2.5, process=3)),
    ]

    finding = found("straggler", *ranks)

    assert finding is not None
    assert finding.subject.rank == 2
    assert "also slow: rank 3, 1" in [each.text for each in finding.evidence]


def test_processes_without_ranks_are_not_compared() -> None:
    """Two jobs that run alongside each other do not wait for each other."""
    one = loop(slow=_slow())
    other = loop(subject=Subject("node8", 1, None, "fit", "model"))

    assert found("straggler", one, other) is None
