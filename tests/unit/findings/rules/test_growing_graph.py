"""A graph that is added to between steps is told, with the line that adds."""

from __future__ import annotations

from tests.support.subjects import MS, found, loop, timing
from tests.support.subjects import line as python_line
from tfprobe.analysis.breakdown.python_lines import GapPython
from tfprobe.findings.finding import Subject

LINE = python_line("add", "train.py:19", "graph", 0.5, 3)


def session(steps: int, name: str, first_seen_ns: int = 0, **changes):
    own = timing(
        kind="session_run",
        name=name,
        steps=steps,
        step_ns=steps * 4 * MS,
        first_seen_ns=first_seen_ns,
    )
    return loop(subject=Subject("node7", 4711, None, "session_run", name), timing=own, **changes)


def test_ops_made_between_steps_are_told_with_their_line() -> None:
    """And the steps that fetch what no other step does."""
    main = session(100, "train", python=GapPython((LINE,), 2))
    once = [session(1, f"Sum_{at}:0") for at in range(20)]

    finding = found("growing_graph", main, *once, processes=[main.process])

    assert finding is not None
    # Half of 200 ms between the steps of the main loop, and 20 steps of 4 ms.
    assert finding.gain.high_ns == 180 * MS
    assert finding.evidence[0].source == "train.py:19"


def test_a_few_are_not() -> None:
    """An initialisation, a restore, a look at some variables; nor where no op was seen made."""
    main = session(100, "train", python=GapPython((LINE,), 2))
    once = [session(1, f"Sum_{at}:0") for at in range(20)]

    assert found("growing_graph", main, *once[1:], processes=[main.process]) is None
    assert found("growing_graph", session(100, "train"), *once, processes=[main.process]) is None


def test_new_fetches_all_through_the_loop_are_told_where_no_op_was_seen_made() -> None:
    """A target network that gets new assignments every hundred steps: those gaps are rare."""
    main = session(100, "train", 1)
    once = [session(1, f"Assign_{at}:0", 1 + at * 30 * MS) for at in range(20)]

    finding = found("growing_graph", main, *once, processes=[main.process])

    assert finding is not None
    assert finding.gain.high_ns == 80 * MS
    assert finding.evidence[0].text.endswith("such as Assign_19:0")


def test_new_fetches_at_one_time_are_not() -> None:
    """Metrics that are read once, after the last step; an initialisation before the first."""
    main = session(100, "train", 2)
    once = [session(1, f"Mean_{at}:0", 900 * MS + at * 4 * MS) for at in range(20)]
    once.append(session(1, "init", 1))

    assert found("growing_graph", main, *once, processes=[main.process]) is None
