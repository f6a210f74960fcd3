"""Steps that wait for input are told from 5 % of the cycle on, with the node or the line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.signals import MS, found, parts, work
from tfprobe.advice.finding import Severity
from tfprobe.advice.signals import Input, Waste


@pytest.mark.parametrize(
    ("part", "label"),
    [
        ("input_wait", "input wait"),
        ("feed", "feed"),
        ("host_preprocess", "preprocessing"),
        ("host_to_device", "host to device"),
    ],
)
def test_a_twentieth_of_the_cycle_is_told(part: str, label: str) -> None:
    """Waiting for tf.data, feeding, Python's generators and copies are all input."""
    finding = found("input_bound", work(parts=parts(**{part: 0.05})))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert label in finding.evidence[0].text


def test_less_is_not() -> None:
    """XProf's lower mark, as ours."""
    assert found("input_bound", work(parts=parts(input_wait=0.049))) is None


def test_the_node_of_the_pipeline_is_named() -> None:
    """With its path, its line, and what makes it faster."""
    slow = Input("Map", 3.0 * MS, "Iterator::Root::Map", ("Map", "Range"), "Do this.", "data.py:9")

    finding = found("input_bound", work(parts=parts(input_wait=0.4), input=slow))

    assert finding is not None
    assert (finding.severity, finding.action) == (Severity.CRITICAL, "Do this.")
    assert finding.evidence[1].iterator == "Iterator::Root::Map"
    assert finding.evidence[1].source == "data.py:9"


def test_a_node_that_was_not_measured_is_only_likely() -> None:
    """Its time is that of the wait, not its own."""
    guessed = Input("Map", 3.0 * MS, "Iterator::Root::Map", (), "Do this.", is_measured=False)

    finding = found("input_bound", work(parts=parts(input_wait=0.4), input=guessed))

    assert finding is not None
    assert finding.evidence[1].text == "waiting, likely (not measured) for Map a step"


def test_the_line_of_a_generator_is_named() -> None:
    """Python that makes batches between steps is known by the call."""
    cause = Waste("host_preprocess", "__getitem__", "data.py:9", 2.0 * MS)
    shares = replace(parts(host_preprocess=0.2), causes=(cause,))

    finding = found("input_bound", work(parts=shares))

    assert finding is not None
    assert finding.evidence[1].source == "data.py:9"
