"""The page of the four tiers fits its terminal, and its short form a few lines of the report."""

from __future__ import annotations

import pytest

from tests.support.profiles import Step, loop, op, process, profile
from tests.support.rundir import UNIX_NS
from tests.support.tiers import (
    SECOND_NS,
    Call,
    activity,
    calls_and_rows,
    device_resource_sample,
    resource_sample,
)
from tfprobe.errors import Missing
from tfprobe.profile.activities import ThreadTimes, ThreadUse
from tfprobe.profile.capture_tables import Place, SpanKind
from tfprobe.profile.profile import Profile
from tfprobe.report.documents.tiers import Tiers, gather_tiers, tiers_document
from tfprobe.report.format import page
from tfprobe.report.text.machines import hardware_summary
from tfprobe.report.text.tiers import render_tiers

LONG = "a_kernel_of_many_template_arguments<float, 4, " * 5


def gpu_profile(**changes) -> Profile:
    """Return a run on an accelerator with all that can be told of it."""
    steps = [
        (
            [
                Call(SpanKind.LAUNCH, "cuLaunchKernel", 0, 5, 1),
                Call(SpanKind.SYNC, "cuStreamSynchronize", 10, 60),
            ],
            [
                op("MatMul", 0, 20),
                op("MatMul", 30, 2, Place.ACCELERATOR, correlation=1, detail=LONG),
            ],
        )
    ]
    spans, rows = calls_and_rows(steps)
    resource_samples = [
        resource_sample(
            at,
            steps=10 * at,
            user_ns=at * SECOND_NS,
            system_ns=0,
            cpus=4,
            cpu_limit=2.0,
            throttled_ns=at * 100_000_000,
            resident_bytes=2**30 + at * 2**20,
            peak_resident_bytes=2 * 2**30,
            machine_memory_bytes=16 * 2**30,
            threads=30,
            voluntary_switches=at * 1000,
            involuntary_switches=at * 3,
            written_bytes=at * 2**20,
            load_1min=1.5,
            run_delay_ns=at * 250_000_000,
            gc_ns=at * 30_000_000,
            major_faults=at * 7,
            machine_busy_ns=at * 3 * SECOND_NS,
            machine_io_wait_ns=0,
            machine_steal_ns=at * 400_000_000,
            devices=(device_resource_sample(0, throttle_reasons=("power cap",) if at % 2 else ()),),
        )
        for at in range(20)
    ]
    facts = {
        "loops": [loop(kind="fit", name="digits_cnn")],
        "processes": [process(unix_minus_monotonic_ns=10**18)],
        "spans": spans,
        "executions": rows,
        "resource_samples": resource_samples,
        "activities": [
            activity("import", "tensorflow", 0, 500),
            activity("callbacks", LONG, 500, 505, count=10**6, total_ns=300_000_000),
        ],
    }
    return profile([Step([])], **{**facts, **changes})


def gathered(**changes) -> Tiers:
    return gather_tiers(gpu_profile(**changes))


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_wider_than_the_page(width: int):
    """Long names of kernels and activities give way."""
    text = render_tiers(gathered(), width=width, colour=False)

    assert max(map(len, text.splitlines())) <= width
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_all_tiers_are_on_the_page():
    """From what the program does down to what it runs on."""
    text = render_tiers(gathered(), width=100, colour=False)

    headings = [line.split(" · ")[0] for line in text.splitlines() if line and line[0] != " "]
    assert headings == ["Application", "Framework", "Runtime", "Hardware", "NVIDIA H200 0"]
    assert "1 launch a step" in text
    assert "power cap in 50.0 % of the samples" in text


def test_what_the_process_waited_for_is_on_the_page():
    """A CPU, a garbage collection, and who had the CPUs of the machine meanwhile."""
    lines = render_tiers(gathered(), width=140, colour=False).splitlines()

    def row(name: str) -> str:
        return next(line for line in lines if line.strip().startswith(name))

    assert "2.00 by other processes, 0.40 taken by the hypervisor" in row("machine's CPUs")
    assert "25.0 %" in row("CPU wait")
    assert "3.0 %" in row("collecting")
    assert row("page faults/s").split()[2:5] == ["7", "7", "7"]


def test_what_is_not_known_says_why():
    """A run on a CPU without samples has four tiers as well; two of them say what is missing."""
    empty = gather_tiers(profile([Step([op("MatMul", 0, 10)])], loops=[loop()]))

    text = render_tiers(empty, width=100, colour=False)

    assert "no driver call in the captures: no accelerator" in text
    assert "the process took no resource sample" in text
    assert "no accelerator was sampled" in text


def test_what_no_sample_tells_is_named_with_its_reason():
    """One line for all amounts with the same reason."""
    only = resource_sample(0, read_bytes=Missing("/proc/PID/io is closed"), threads=3)

    text = render_tiers(gathered(resource_samples=[only]), width=140, colour=False)

    assert "no read/s: /proc/PID/io is closed" in text
    assert "Hardware · 1 sample" in text


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"intra_op_threads": 0, "inter_op_threads": 0}, "pools as TensorFlow sizes them"),
        ({"intra_op_threads": 64, "inter_op_threads": 0}, "pools: intra-op 64"),
        ({}, ""),
    ],
)
def test_pools_stand_beside_the_threads(settings, told: str):
    """As the job chose them, or as TensorFlow does; nothing where nobody knows."""
    node = process(unix_minus_monotonic_ns=10**18, settings=settings)

    text = render_tiers(gathered(processes=[node]), width=120, colour=False)

    (line,) = [line for line in text.splitlines() if line.startswith("  threads")]
    assert line.partition("█ ")[2].strip() == told


def _with_threads(unmapped: int = 0) -> Tiers:
    """Return a process whose thread of steps has a tenth of a CPU, and another one nine."""
    threads = (
        ThreadUse("MainThread", True, 1, SECOND_NS // 10, runs_steps=True),
        ThreadUse(
            "statistics", True, 1, SECOND_NS * 9 // 10, False, "/work/job/train.py", 26, "work"
        ),
        ThreadUse("tf_Compute", False, 2, SECOND_NS // 20),
        ThreadUse("python", False, 9, 1000),
    )
    resource_samples = [
        resource_sample(
            at,
            user_ns=at * SECOND_NS,
            system_ns=0,
            thread_times=ThreadTimes(UNIX_NS + (at - 1) * SECOND_NS, threads, unmapped),
        )
        for at in (1, 2)
    ]
    return gathered(resource_samples=resource_samples)


def test_threads_stand_by_their_cpu_time():
    """Those that used any, with where they mostly stood."""
    lines = render_tiers(_with_threads(), width=100, colour=False).splitlines()

    at = next(at for at, line in enumerate(lines) if line.split()[:1] == ["thread"])
    assert [line.split() for line in lines[at : at + 4]] == [
        ["thread", "CPUs", "share", "mostly", "at"],
        ["statistics", "0.90", "85.7", "%", "work", "job/train.py:26"],
        ["MainThread", "0.10", "9.5", "%", "runs", "steps"],
        ["tf_Compute", "(2)", "0.05", "4.8", "%"],
    ]


def test_threads_that_cannot_be_told_apart_are_counted():
    """As in Python 3.6."""
    assert "3 Python threads cannot be separated" in render_tiers(
        _with_threads(3), width=140, colour=False
    )


def test_the_document_has_the_time_of_threads():
    """With places, how often a thread stood there, and null with its reason for what is unknown."""
    (known,) = tiers_document(_with_threads())["hardware"]["processes"]
    (unknown,) = tiers_document(gathered())["hardware"]["processes"]

    first = known["by_thread"]["groups"][0]
    assert (first["name"], first["cpu_ns"], first["cores_busy"]) == ("statistics", 900_000_000, 0.9)
    assert first["stands"] == [
        {
            "file": "/work/job/train.py",
            "line": 26,
            "function": "work",
            "samples": 1,
            "in_python": 0,
        }
    ]
    assert unknown["by_thread"] is None
    assert "by_thread" in unknown["missing"]


def test_estimates_are_marked():
    """Of a million callbacks not each was kept."""
    (line,) = [
        line
        for line in render_tiers(gathered(), width=100, colour=False).splitlines()
        if "callbacks" in line
    ]

    assert "1,000,000" in line
    assert "~300 ms" in line


@pytest.mark.parametrize("width", [80, 100])
def test_the_short_form_is_a_few_lines(width: int):
    """What took the time, how busy the machine was, and how busy its accelerators."""
    tiers = gathered()

    text = page.render(hardware_summary(tiers.hardware), width=width, colour=False)

    machine, accelerators = text.splitlines()
    assert "1.00 of 2 CPUs busy (9.1 % throttled), at most 2.00 GiB of" in machine
    assert "NVIDIA H200 0 50.0 % busy, 40.0 GiB of 140 GiB" in accelerators
    assert max(map(len, text.splitlines())) <= width


def test_the_short_form_is_silent_where_nothing_is_known():
    """A recording of an older tfprobe has no samples."""
    tiers = gather_tiers(profile())

    assert list(hardware_summary(tiers.hardware)) == []
