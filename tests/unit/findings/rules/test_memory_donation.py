"""A program of XLA that returns the variables it was given keeps them twice, unless donated."""

from __future__ import annotations

from tests.support.subjects import found, loop
from tfprobe.analysis.memory.program_memory import KeptTwice
from tfprobe.errors import Missing
from tfprobe.findings.finding import Severity

MIB = 1 << 20


def test_variables_of_64_mib_that_are_there_twice_are_named() -> None:
    """They cost no time: a note."""
    twice = loop(kept_twice=KeptTwice("jit_step", 64 * MIB, 200 * MIB))

    finding = found("memory_donation", twice)

    assert finding is not None
    assert finding.severity is Severity.INFO
    assert isinstance(finding.gain, Missing)
    assert [each.size_bytes for each in finding.evidence[:2]] == [64 * MIB, 200 * MIB]
    assert "donate_argnums" in finding.action


def test_less_is_not() -> None:
    """It fills no device."""
    twice = loop(kept_twice=KeptTwice("jit_step", 64 * MIB - 1, 200 * MIB))

    assert found("memory_donation", twice) is None


def test_a_small_share_of_what_the_program_takes_is_not() -> None:
    """To donate would save little."""
    twice = loop(kept_twice=KeptTwice("jit_step", 64 * MIB, 321 * MIB))

    assert found("memory_donation", twice) is None


def test_without_a_program_of_xla_there_is_nothing_to_say() -> None:
    """TensorFlow updates its variables in place."""
    assert found("memory_donation", loop()) is None
