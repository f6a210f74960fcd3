"""Tell of a table of which few rows are looked up and all are computed on."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# A batch looks up a small part of a table that is worth the name.
LIKELY = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where a sparse gradient is made dense; the bound is what goes on with it.

    That is the update of all rows, and what is computed of the table before its rows are taken.
    """
    dense = work.dense
    if isinstance(dense, Missing):
        return dense
    gain_ns = work.of_steps(dense.busy_ns)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.dense_ratio:
        return None
    return Finding(
        title="A sparse gradient is made dense",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "ops on the whole table a step",
                time_ns=round(dense.busy_ns),
                source=dense.source,
                node=dense.node,
            ),
            *work.sample(),
            work.shown_by("op"),
        ),
        action="Look rows up first, tf.gather(table, ids), and compute on those alone; then the "
        "gradient is IndexedSlices, and SGD and Adagrad update only these rows (Adam moves all). "
        "tf.convert_to_tensor, sums and norms of the gradient make it dense.",
        gain=gain,
        part="compute",
    )
