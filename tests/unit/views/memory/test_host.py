"""The memory of processes on their hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.profiles import process, profile
from tfprobe.errors import Missing
from tfprobe.model.activities import Pulse
from tfprobe.views.memory.growth import Growth, Verdict
from tfprobe.views.memory.host import host_memory

MIB = 2**20
NO = Missing("none")


def pulse(
    at: int, resident: int | Missing, *, of: int | None = 0, limit: int | Missing = NO
) -> Pulse:
    return Pulse(
        process=of,
        at_ns=at * 10**9,
        steps=at * 10,
        user_ns=NO,
        system_ns=NO,
        resident_bytes=resident,
        peak_resident_bytes=resident,
        threads=NO,
        voluntary_switches=NO,
        involuntary_switches=NO,
        read_bytes=NO,
        written_bytes=NO,
        cpus=NO,
        cpu_limit=NO,
        throttled_ns=NO,
        memory_limit_bytes=limit,
        machine_memory_bytes=4000 * MIB,
        load_1min=NO,
    )


def test_a_process_that_keeps_what_it_makes_grows() -> None:
    """10 MiB a second at 10 steps a second are 1 MiB a step."""
    made = replace(profile(), pulses=tuple(pulse(at, (500 + 10 * at) * MIB) for at in range(60)))

    found = host_memory(made)

    assert not isinstance(found, Missing)
    [host] = found
    assert isinstance(host.growth, Growth)
    assert host.growth.verdict is Verdict.GROWING
    assert host.growth.bytes_per_step == pytest.approx(MIB)
    assert host.peak_bytes == 1090 * MIB


def test_the_limit_is_the_smaller_of_the_cgroups_and_the_machines() -> None:
    """A container is killed at its own."""
    made = replace(profile(), pulses=(pulse(1, 500 * MIB, limit=1000 * MIB),))

    [host] = host_memory(made)

    assert (host.limit_bytes, host.used_ratio) == (1000 * MIB, 0.5)


def test_processes_are_told_apart() -> None:
    """And samples of the machine's accelerators belong to none."""
    pulses = (pulse(1, 1, of=0), pulse(1, 2, of=1), pulse(1, NO, of=None))
    made = profile(processes=[process(index=0), process(index=1)])

    found = host_memory(replace(made, pulses=pulses))

    assert [each.peak_bytes for each in found] == [1, 2]


def test_without_measurements_the_reason_is_told() -> None:
    """/proc may not tell either."""
    assert isinstance(host_memory(profile()), Missing)
    assert isinstance(host_memory(replace(profile(), pulses=(pulse(1, NO),))), Missing)
