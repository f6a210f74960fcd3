"""Saving that takes a twentieth of the loop is told."""

from __future__ import annotations

from tests.support.signals import WHOLE_NS, found, process
from tfprobe.advice.signals import ActivityUse


def _saving(total_ns: int) -> ActivityUse:
    return ActivityUse("save", "Model.save_weights", 10, total_ns)


def test_a_twentieth_of_the_loop_is_told() -> None:
    """With how often and how long, and all of it as the bound."""
    saving = process(activities=(_saving(WHOLE_NS // 20),))

    finding = found("checkpoint_stalls", processes=[saving])

    assert finding is not None
    assert (finding.gain.high_ns, finding.gain.of_ns) == (WHOLE_NS // 20, WHOLE_NS)
    assert "10 times" in finding.evidence[0].text


def test_less_is_not() -> None:
    """A checkpoint now and then is what one wants."""
    saving = process(activities=(_saving(WHOLE_NS // 20 - 1),))

    assert found("checkpoint_stalls", processes=[saving]) is None
