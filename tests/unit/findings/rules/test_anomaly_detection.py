"""Anomaly detection that was left on is found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.subjects import found, process
from tfprobe.errors import Missing


def test_anomaly_detection_that_is_on_is_found() -> None:
    """What it costs is not known."""
    settings = {"torch": {"anomaly_detection": True}}

    finding = found("anomaly_detection", processes=[process(settings=settings)])

    assert finding is not None
    assert "set_detect_anomaly" in finding.action
    assert isinstance(finding.gain, Missing)


@pytest.mark.parametrize(
    "settings",
    [{}, {"torch": {"anomaly_detection": False}}, {"torch": None}, Missing("not recorded")],
)
def test_a_job_without_it_is_not_accused(settings: Any) -> None:
    """Nor one of another framework."""
    assert found("anomaly_detection", processes=[process(settings=settings)]) is None
