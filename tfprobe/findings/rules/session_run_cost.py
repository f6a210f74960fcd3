"""Tell of runs of a Session so short that what Session.run does itself takes most of them."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import Parts, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# A callable took 7 us before its first op where Session.run took 1.1 ms, for 41 fetches.
LIKELY = 0.8
_NS_PER_US = 1000
_BEFORE = "before the first op"
# Estimators and Keras make these runs themselves.
_OF_OTHERS = frozenset({"train", "evaluate", "predict"})


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where Python takes apart what to fetch for longer than ops run.

    The bound is the time from the call to the first op, or, where the usual run shows more, what it
    takes beyond its ops from the first to the last. Arrays that are fed, and results, are other
    rules'.
    """
    loop, parts = work.loop, work.parts
    if loop.kind != "session_run" or work.alone_step_ns > limits.small_step_us * _NS_PER_US:
        return None
    if isinstance(parts, Missing):
        return parts
    if any(each.kind in _OF_OTHERS for each in work.process.activities):
        return None
    before_ns = _before_ns(parts)
    gain_ns = before_ns / parts.cycle_ns * parts.total_ns if parts.cycle_ns else 0.0
    gain_ns = max(gain_ns, _around_ns(work, parts))
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.run_cost_ratio:
        return None
    return Finding(
        title="Session.run itself takes longer than what it runs",
        severity=limits.severity(gain),
        evidence=(
            Evidence("the usual run", time_ns=round(loop.usual_step_ns)),
            Evidence("of the loop, around its ops", ratio=gain.high_ratio, source=_line(work)),
            *work.sample(),
            work.shown_by("breakdown"),
        ),
        action="Prepare the run once, before the loop: run = session.make_callable(fetches, "
        "feed_list=[...]), with a flat list to fetch; or put several steps into one run "
        "(tf.while_loop, a data set in the graph).",
        gain=gain,
        part="dispatch",
    )


def _around_ns(work: WorkSignals, parts: Parts) -> float:
    """Return what all runs take around their ops, but for feeding and fetching."""
    if isinstance(work.ops, Missing):
        return 0.0
    ops_ns = work.ops.span_ns * work.loop.steps
    return work.loop.regular_step_ns - ops_ns - parts.of_all_steps("feed", "fetch")


def _before_ns(parts: Parts) -> float:
    return sum(cause.ns for cause in parts.causes if cause.what == _BEFORE)


def _line(work: WorkSignals) -> str:
    return "" if isinstance(work.python, Missing) else work.python.step_source
