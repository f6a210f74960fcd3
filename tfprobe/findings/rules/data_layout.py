"""Tell of convolutions whose tensors are turned around for another data format."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Inputs and outputs of the whole model stay as they are, and with them their transposes.
LIKELY = 0.5


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where transposes take long; the bound is all of their time."""
    layout = work.layout
    if layout is None or isinstance(layout, Missing):
        return layout
    gain_ns = work.of_steps(layout.transpose_ns)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    has_convolutions = layout.nhwc_ns + layout.nchw_ns > 0
    if not has_convolutions or gain.high_ratio < limits.layout_ratio:
        return None
    # Tensor cores want channels last, other kernels of cuDNN channels first.
    wanted = "NHWC (channels_last)" if _is_narrow(work) else "NCHW (channels_first)"
    return Finding(
        title="Tensors are transposed for convolutions of another data format",
        severity=limits.severity(gain),
        evidence=(
            Evidence("transposes a step", time_ns=round(layout.transpose_ns), node=layout.node),
            Evidence("convolutions in NHWC a step", time_ns=round(layout.nhwc_ns)),
            Evidence("convolutions in NCHW a step", time_ns=round(layout.nchw_ns)),
            *work.sample(),
        ),
        action=f"Build the model in {wanted}: image_data_format in keras.json, which KERAS_HOME "
        "may name, where layers do not say it themselves; else data_format of the layers.",
        gain=gain,
        part="transposes",
    )


def _is_narrow(work: WorkSignals) -> bool:
    precision = work.precision
    if precision is None or isinstance(precision, Missing):
        return False
    return precision.narrow_ns >= precision.wide_ns
