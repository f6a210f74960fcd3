"""Tell of a loop within the graph whose turns are made of ops too small for it."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict, lacking
from tfprobe.findings.signals import GraphLoop, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# One op on whole tensors takes a small part of what scheduling its elements one by one does.
LIKELY = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where a loop turns often and runs no larger ops.

    The bound is the time of its turns in which no op runs that is not tiny. Of a loop none of whose
    ops TensorFlow found worth tracing, it is the time until its results are taken.
    """
    loop = work.graph_loop
    if isinstance(loop, Missing) or isinstance(work.ops, Missing):
        return lacking(loop, work.ops)
    if work.ops.has_accelerator or 0 < loop.turns < limits.turns_least:
        return None
    gain_ns = work.of_steps(loop.small_ns)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.turns_ratio:
        return None
    return Finding(
        title="A loop within the step runs tiny ops",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{loop.name}, {_turns(loop)}; with tiny ops alone, or none",
                time_ns=round(loop.small_ns),
                source=loop.source,
                node=loop.name,
            ),
            *work.sample(),
            work.shown_by("op"),
        ),
        action="Compute on whole tensors in place of tf.while_loop, tf.scan or a Python loop over "
        "tensor elements: tf.cumsum, tf.reduce_sum, tf.gather, "
        "tf.vectorized_map. Where a turn needs the one before it, do more in each: larger "
        "batches, or several elements a turn.",
        gain=gain,
        part="host_compute",
    )


def _turns(loop: GraphLoop) -> str:
    return f"some {loop.turns:.0f} turns a step" if loop.turns else "in which no op was traced"
