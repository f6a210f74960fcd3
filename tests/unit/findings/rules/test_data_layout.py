"""Transposes for another data format are told from 5 % on, and which format has none."""

from __future__ import annotations

import pytest

from tests.support.subjects import MS, found, loop
from tfprobe.analysis.ops.device_ops import DataLayout, Precision


@pytest.mark.parametrize(("narrow_ms", "wanted"), [(0.0, "NCHW"), (3.0, "NHWC")])
def test_five_percent_of_transposes_are_told(narrow_ms: float, wanted: str) -> None:
    """Tensor cores want channels last, other kernels channels first."""
    layout = DataLayout(nhwc_ns=2.0 * MS, nchw_ns=0.0, transpose_ns=0.5 * MS)
    precision = Precision(narrow_ns=narrow_ms * MS, wide_ns=2.0 * MS, eligible_ns=0.0)

    finding = found("data_layout", loop(layout=layout, precision=precision))

    assert finding is not None
    assert wanted in finding.action


def test_less_is_not() -> None:
    """The images are turned once in any case."""
    layout = DataLayout(nhwc_ns=2.0 * MS, nchw_ns=0.0, transpose_ns=0.49 * MS)

    assert found("data_layout", loop(layout=layout)) is None


def test_transposes_without_convolutions_are_not() -> None:
    """Attention transposes for reasons of its own."""
    layout = DataLayout(nhwc_ns=0.0, nchw_ns=0.0, transpose_ns=5.0 * MS)

    assert found("data_layout", loop(layout=layout)) is None
