"""Tell of ops that run on the host while the accelerator waits."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# A device runs most ops in a fraction of the host's time, but some have no kernel for it.
LIKELY = 0.5
_SHOWN = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return the dearest op of the host; the bound is when it ran and no kernel did."""
    if isinstance(work.ops, Missing):
        return work.ops
    if not work.ops.has_accelerator or not work.ops.exposed_host:
        return None
    dearest = work.ops.exposed_host[0]
    gain_ns = work.of_steps(dearest.busy_ns)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.host_op_ratio:
        return None
    return Finding(
        title=f"{dearest.type} runs on the host while the accelerator waits",
        severity=limits.severity(gain),
        evidence=(
            *(
                Evidence(
                    f"{use.type} a step",
                    time_ns=round(use.busy_ns),
                    node=use.node,
                    op_type=use.type,
                )
                for use in work.ops.exposed_host[:_SHOWN]
            ),
            *work.sample(),
            work.shown_by("op -select micros,device"),
        ),
        action="Move it into tf.data, or onto the device: remove tf.device('/CPU:0') around it, "
        "take a dtype that has a kernel there (int32 often has none), or another op. "
        "tf.debugging.set_log_device_placement(True) says why it was placed so.",
        gain=gain,
        part="host_compute",
    )
