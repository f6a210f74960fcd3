"""What a process and its accelerators used over time, and why something is not known."""

from __future__ import annotations

import pytest

from tests.support.profiles import process, profile
from tests.support.rundir import UNIX_NS
from tests.support.tiers import SECOND_NS, UNKNOWN, device_resource_sample, resource_sample
from tfprobe.analysis.core.statistics import MOST_POINTS, ONE_SAMPLE, SampleCurve, known_samples
from tfprobe.analysis.core.statistics import level as level_of
from tfprobe.analysis.core.statistics import rate as rate_of
from tfprobe.analysis.system import hardware as view
from tfprobe.analysis.system.hardware import ProcessHardware, hardware
from tfprobe.errors import Missing


def used(*resource_samples, **changes) -> ProcessHardware:
    (only,) = hardware(profile(resource_samples=resource_samples, **changes)).processes
    assert isinstance(only, ProcessHardware)
    return only


def curve(item: SampleCurve | Missing) -> SampleCurve:
    assert isinstance(item, SampleCurve)
    return item


def test_busy_cores_are_cpu_time_by_wall_time():
    """Three CPU seconds in two seconds are one and a half CPUs, a third of them in the system."""
    item = used(
        resource_sample(0, user_ns=7 * SECOND_NS, system_ns=0),
        resource_sample(2, user_ns=9 * SECOND_NS, system_ns=1 * SECOND_NS),
    )

    assert curve(item.cores_busy).mean == 1.5
    assert item.system_ratio == pytest.approx(1 / 3)
    assert item.watched_ns == 2 * SECOND_NS


def test_a_mean_weighs_by_time():
    """Pulses come at longer distances later on: a long quiet time is not one sample of many."""
    item = used(*(resource_sample(at, user_ns=cpu * SECOND_NS, system_ns=0) for at, cpu in
                  ((0, 0), (1, 4), (2, 8), (10, 8))))  # fmt: skip

    busy = curve(item.cores_busy)
    assert busy.mean == 0.8
    assert (busy.min, busy.max, busy.p95) == (0, 4, 4)
    assert [point.value for point in busy.points] == [4, 4, 0]


def test_utilization_is_of_the_cpus_it_may_use():
    """Two busy CPUs of a cgroup limit of four are half, whatever the machine has."""
    cpus = {"cpus": 64, "cpu_limit": 4.0, "system_ns": 0}

    item = used(
        resource_sample(0, user_ns=0, **cpus), resource_sample(1, user_ns=2 * SECOND_NS, **cpus)
    )

    assert (item.usable_cpus, item.utilization_ratio) == (4.0, 0.5)


def test_without_a_limit_all_its_cpus_are_usable():
    """A cgroup without a quota limits nothing."""
    item = used(resource_sample(0, cpus=8), resource_sample(1, cpus=8))

    assert item.usable_cpus == 8


def test_what_the_cgroup_held_back_is_a_share_of_what_was_wanted():
    """A second held back for three that ran: a quarter."""
    item = used(
        resource_sample(0, user_ns=0, system_ns=0, throttled_ns=5 * SECOND_NS),
        resource_sample(4, user_ns=3 * SECOND_NS, system_ns=0, throttled_ns=6 * SECOND_NS),
    )

    assert item.throttled_ratio == 0.25


def test_switches_are_by_second_and_by_step():
    """The counters grow from sample to sample; steps are those between first and last."""
    item = used(
        resource_sample(0, steps=10, voluntary_switches=100, involuntary_switches=7),
        resource_sample(2, steps=30, voluntary_switches=300, involuntary_switches=7),
    )

    assert curve(item.voluntary_switches_per_s).mean == 100
    assert item.voluntary_switches_per_step == 10
    assert item.involuntary_switches_per_step == 0


def test_memory_has_its_peak_and_its_limit():
    """The peak is the kernel's own, which a sample may miss."""
    item = used(
        resource_sample(0, resident_bytes=1000, peak_resident_bytes=1500, memory_limit_bytes=9000),
        resource_sample(1, resident_bytes=2000, peak_resident_bytes=5000, memory_limit_bytes=9000),
    )

    assert curve(item.resident_bytes).last == 2000
    assert (item.peak_resident_bytes, item.memory_limit_bytes) == (5000, 9000)


def test_waits_and_collections_are_parts_of_the_time():
    """Of four seconds the first thread waited for one, and collections took a tenth."""
    item = used(
        resource_sample(0, run_delay_ns=5 * SECOND_NS, gc_ns=0, major_faults=10),
        resource_sample(4, run_delay_ns=6 * SECOND_NS, gc_ns=SECOND_NS * 4 // 10, major_faults=30),
    )

    assert curve(item.run_delay_ratio).mean == 0.25
    assert curve(item.gc_ratio).mean == pytest.approx(0.1)
    assert curve(item.major_faults_per_s).mean == 5


def test_cpus_of_the_machine_are_counted_whoever_used_them():
    """In two seconds: three CPUs were busy, one waited for storage, half of one was taken."""
    item = used(
        resource_sample(0, machine_busy_ns=SECOND_NS, machine_io_wait_ns=0, machine_steal_ns=0),
        resource_sample(
            2,
            machine_busy_ns=7 * SECOND_NS,
            machine_io_wait_ns=2 * SECOND_NS,
            machine_steal_ns=SECOND_NS,
        ),
    )

    assert curve(item.machine_cores_busy).mean == 3
    assert curve(item.machine_cores_io_wait).mean == 1
    assert curve(item.machine_cores_stolen).mean == 0.5


def test_one_sample_tells_levels_and_no_rates():
    """A job of a second is looked at once."""
    item = used(
        resource_sample(0, steps=1, user_ns=5, system_ns=5, resident_bytes=1000, read_bytes=4)
    )

    assert curve(item.resident_bytes).mean == 1000
    assert item.cores_busy == ONE_SAMPLE
    assert item.read_bytes_per_s == ONE_SAMPLE
    assert item.voluntary_switches_per_step == UNKNOWN


def test_what_no_sample_tells_has_its_reason():
    """/proc/PID/io may be closed to us; the rest is told all the same."""
    item = used(resource_sample(0, threads=4), resource_sample(1, threads=6))

    assert item.read_bytes_per_s == UNKNOWN
    assert item.throttled_ratio == UNKNOWN
    assert curve(item.threads).max == 6


def test_a_process_without_samples_has_a_reason():
    """As has a run without accelerators."""
    found = hardware(profile())

    assert found.processes == (view.NOT_SAMPLED,)
    assert found.devices == view.NO_ACCELERATOR


def test_a_counter_that_fell_gives_no_wrong_rate():
    """A process that was restored counts from 0 again: that time is left out."""
    samples = known_samples([0, SECOND_NS, 2 * SECOND_NS, 2 * SECOND_NS], [5.0, 1.0, 4.0, 9.0])

    assert curve(rate_of(samples)).points[0].value == 3
    assert len(curve(rate_of(samples)).points) == 1


def test_threads_of_the_job_are_those_it_chose():
    """Pools larger than the CPUs it may use are seen side by side."""
    node = process(settings={"intra_op_threads": 64, "inter_op_threads": 0})

    item = used(resource_sample(0, cpus=4), processes=[node])

    assert (item.intra_op_threads, item.inter_op_threads) == (64, 0)


def test_devices_are_by_host_and_index():
    """The first accelerator of one machine is not the first of another."""
    samples = [
        resource_sample(
            at,
            process=None,
            host=host,
            devices=(device_resource_sample(0, utilization_ratio=ratio),),
        )
        for at in (0, 1)
        for host, ratio in (("a", 0.2), ("b", 0.8))
    ]

    devices = hardware(profile(resource_samples=samples)).devices

    assert not isinstance(devices, Missing)
    assert [(each.host, curve(each.utilization_ratio).mean) for each in devices] == [
        ("a", pytest.approx(0.2)), ("b", pytest.approx(0.8)),
    ]  # fmt: skip


def test_a_device_tells_what_holds_its_clocks_down():
    """Each reason with the part of the samples that name it."""
    samples = [
        resource_sample(
            at, devices=(device_resource_sample(throttle_reasons=reasons, power_watts=UNKNOWN),)
        )
        for at, reasons in enumerate([(), ("power",), ("power", "thermal"), ()])
    ]

    (device,) = hardware(profile(resource_samples=samples)).devices

    assert [(each.reason, each.ratio) for each in device.throttle_reasons] == [
        ("power", 0.5), ("thermal", 0.25),
    ]  # fmt: skip
    assert device.power_watts == UNKNOWN
    assert device.host == "node7"


def test_a_long_curve_has_few_points_of_the_same_mean():
    """A week of samples is no larger than a minute's, and its mean and extremes stay."""
    count = 10_000
    samples = known_samples(
        [UNIX_NS + at for at in range(count)], [float(at) for at in range(count)]
    )

    long = curve(level_of(samples))

    values = [point.value for point in long.points]
    assert len(values) == MOST_POINTS
    assert values == sorted(values)
    assert sum(values) / len(values) == pytest.approx(long.mean, rel=1e-3)
    assert (long.min, long.max) == (0, count - 1)
