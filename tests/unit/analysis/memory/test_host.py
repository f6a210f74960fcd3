"""The memory of processes on their hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.profiles import process, profile
from tfprobe.analysis.memory.host_memory import Growth, GrowthVerdict, host_memory
from tfprobe.errors import Missing
from tfprobe.profile.activities import ResourceSample

MIB = 2**20
NO = Missing("none")


def resource_sample(
    at: int, resident: int | Missing, *, of: int | None = 0, limit: int | Missing = NO
) -> ResourceSample:
    return ResourceSample(
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
    """10 MiB per second at 10 steps per second are 1 MiB per step."""
    made = replace(
        profile(),
        resource_samples=tuple(resource_sample(at, (500 + 10 * at) * MIB) for at in range(60)),
    )

    found = host_memory(made)

    assert not isinstance(found, Missing)
    [host] = found
    assert isinstance(host.growth, Growth)
    assert host.growth.verdict is GrowthVerdict.GROWING
    assert host.growth.bytes_per_step == pytest.approx(MIB)
    assert host.peak_bytes == 1090 * MIB


def test_the_limit_is_the_smaller_of_the_cgroups_and_the_machines() -> None:
    """A container is killed at its own limit."""
    made = replace(profile(), resource_samples=(resource_sample(1, 500 * MIB, limit=1000 * MIB),))

    [host] = host_memory(made)

    assert (host.limit_bytes, host.used_ratio) == (1000 * MIB, 0.5)


def test_processes_are_told_apart() -> None:
    """Samples of the accelerators of the machine belong to no process."""
    resource_samples = (
        resource_sample(1, 1, of=0),
        resource_sample(1, 2, of=1),
        resource_sample(1, NO, of=None),
    )
    made = profile(processes=[process(index=0), process(index=1)])

    found = host_memory(replace(made, resource_samples=resource_samples))

    assert [each.peak_bytes for each in found] == [1, 2]


def test_without_measurements_the_reason_is_told() -> None:
    """/proc can lack both."""
    assert isinstance(host_memory(profile()), Missing)
    assert isinstance(
        host_memory(replace(profile(), resource_samples=(resource_sample(1, NO),))), Missing
    )


def test_what_is_given_back_at_exit_does_not_hide_a_leak() -> None:
    """It is in the curve, but not in the statistics of steps."""
    growing = [resource_sample(at, (500 + 10 * at) * MIB) for at in range(60)]
    last = replace(resource_sample(60, 400 * MIB), at_exit=True)

    [host] = host_memory(replace(profile(), resource_samples=(*growing, last)))

    assert isinstance(host.growth, Growth)
    assert host.growth.verdict is GrowthVerdict.GROWING
    assert host.growth.last_step == 590
    assert host.resident_bytes[-1] == 400 * MIB
    assert host.in_steps_bytes == 1090 * MIB


def test_of_a_process_measured_at_its_exit_alone_no_memory_of_steps_is_known() -> None:
    """Its peak is."""
    [host] = host_memory(
        replace(profile(), resource_samples=(replace(resource_sample(1, 400 * MIB), at_exit=True),))
    )

    assert isinstance(host.in_steps_bytes, Missing)
    assert isinstance(host.growth, Missing)
    assert host.peak_bytes == 400 * MIB
