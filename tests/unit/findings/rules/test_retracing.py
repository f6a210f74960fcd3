"""Three traces after the first are told, if they take a hundredth of the time."""

from __future__ import annotations

from tests.support.subjects import MS, WHOLE_NS, found, loop, ops, timing
from tfprobe.errors import Missing


def test_three_retraces_are_told() -> None:
    """The bound is what the slow steps took beyond the usual one; half of it is likely."""
    finding = found("retracing", loop(timing=timing(retraces=3, retrace_ns=WHOLE_NS // 100)))

    assert finding is not None
    assert finding.gain.high_ns == WHOLE_NS // 100
    assert finding.gain.low_ns == WHOLE_NS // 200
    assert "7, 3" in finding.evidence[2].text


def test_two_are_not() -> None:
    """A last batch that is smaller, and a second data set."""
    assert found("retracing", loop(timing=timing(retraces=2, retrace_ns=WHOLE_NS))) is None


def test_cheap_ones_are_not() -> None:
    """Less than a hundredth of the time."""
    cheap = timing(retraces=3, retrace_ns=WHOLE_NS // 100 - 1)

    assert found("retracing", loop(timing=cheap)) is None


def test_where_each_step_is_traced_the_ops_are_what_is_left() -> None:
    """No step says what one takes without a trace, but a fifth of the ops of a sampled one do."""
    each = timing(retraces=99, untraced=0, retrace_ns=99 * 10 * MS)

    finding = found("retracing", loop(timing=each, ops=ops(busy_ns=5.0 * MS)))
    without = found("retracing", loop(timing=each, ops=Missing("no step was traced")))

    assert finding is not None
    assert without is not None
    assert (finding.gain.high_ns, without.gain.high_ns) == (99 * 9 * MS, 99 * 10 * MS)


def test_what_saving_traces_is_not_the_jobs() -> None:
    """Each checkpoint makes its functions anew; no signature of the job's could help."""
    saver = timing(name="_traced_save", kind="function", retraces=6, retrace_ns=WHOLE_NS // 2)

    assert found("retracing", loop(timing=saver)) is None


def test_each_remedy_says_when_it_helps() -> None:
    """reduce_retracing does nothing for Python numbers."""
    finding = found("retracing", loop(timing=timing(retraces=3, retrace_ns=WHOLE_NS // 10)))

    assert finding is not None
    assert finding.action.index("pass a tensor") < finding.action.index("If shapes change")
    assert finding.action.index("If shapes change") < finding.action.index("reduce_retracing")
