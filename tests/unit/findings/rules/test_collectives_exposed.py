"""Collectives that nothing hides are told from a tenth of the cycle on."""

from __future__ import annotations

from tests.support.subjects import found, loop, parts


def test_a_tenth_of_the_cycle_is_told() -> None:
    """The part is what no compute covers, so all of it is the bound."""
    finding = found("collectives_exposed", loop(parts=parts(collectives=0.1)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.1


def test_less_is_not() -> None:
    """Some of the last gradients is always seen."""
    assert found("collectives_exposed", loop(parts=parts(collectives=0.099))) is None
