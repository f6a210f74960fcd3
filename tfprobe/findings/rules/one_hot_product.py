"""Tell of rows of a table that are looked up by a product with one-hot vectors."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Looking up copies a row where the product multiplies with the whole table.
LIKELY = 0.8


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where one-hot vectors and products with them take long: all of that time."""
    one_hot = work.one_hot
    if isinstance(one_hot, Missing):
        return one_hot
    gain_ns = work.of_steps(one_hot.busy_ns)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.one_hot_ratio:
        return None
    return Finding(
        title="Rows are looked up by a product with one-hot vectors",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "one-hot vectors and products with them a step",
                time_ns=round(one_hot.busy_ns),
                source=one_hot.source,
                node=one_hot.node,
            ),
            *work.sample(),
            work.shown_by("op"),
        ),
        action="Look the rows up by their numbers: tf.gather(table, ids), tf.nn.embedding_lookup "
        "or tf.keras.layers.Embedding in place of tf.matmul(tf.one_hot(ids, N), table).",
        gain=gain,
        part="compute",
    )
