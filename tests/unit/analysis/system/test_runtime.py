"""Driver calls by name, and how kernels follow the calls that launch them."""

from __future__ import annotations

import gzip
import json
import statistics

import pytest

from tests.support.golden import golden
from tests.support.profiles import Step, op, profile
from tests.support.tiers import Call, calls_and_rows
from tfprobe.analysis.system import runtime as view
from tfprobe.analysis.system.runtime import KernelLaunches, Runtime, runtime
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Place, SpanKind

LAUNCH, COPY, SYNC = SpanKind.LAUNCH, SpanKind.COPY_CALL, SpanKind.SYNC


def kernel(start_us: int, duration_us: int, correlation: int, detail: str = "gemm"):
    more = {"correlation": correlation, "detail": detail}
    return op("MatMul", start_us, duration_us, Place.ACCELERATOR, **more)


def called(*steps) -> Runtime:
    spans, rows = calls_and_rows(steps)
    found = runtime(profile([Step([]) for _ in steps], spans=spans, executions=rows))
    assert isinstance(found, Runtime)
    return found


def launched(*steps) -> KernelLaunches:
    found = called(*steps).launches
    assert isinstance(found, KernelLaunches)
    return found


def test_calls_are_counted_by_name():
    """How often, how long in all, on average and at most; per step of those that have calls."""
    found = called(
        ([Call(SYNC, "cuStreamSynchronize", 0, 70), Call(COPY, "cuMemcpyHtoDAsync_v2", 70, 9)], []),
        ([Call(SYNC, "cuStreamSynchronize", 0, 30), Call(SYNC, "cuStreamSynchronize", 40, 5)], []),
        ([], []),
    )

    first, second = found.calls
    assert found.steps == 2
    assert (first.name, first.kind, first.count, first.count_per_step) == (
        "cuStreamSynchronize", SYNC, 3, 1.5,
    )  # fmt: skip
    assert (first.total_ns, first.mean_ns, first.max_ns) == (105_000, 35_000.0, 70_000)
    assert (second.kind, second.count) == (COPY, 1)
    assert found.total_ns(SYNC) == 105_000
    assert isinstance(found.launches, Missing)


def test_a_delay_is_from_the_end_of_the_call_to_the_kernel():
    """A kernel that starts while the call goes on waited for nothing."""
    found = launched(
        (
            [Call(LAUNCH, "cuLaunchKernel", 0, 5, 1), Call(LAUNCH, "cuLaunchKernel", 10, 5, 2)],
            [kernel(3, 50, 1), kernel(65, 50, 2)],
        )
    )

    assert (found.count, found.matched, found.per_step) == (2, 2, 2.0)
    assert (found.mean_delay_ns, found.max_delay_ns) == (25_000.0, 50_000)
    assert found.short == 0


def test_a_kernel_shorter_than_its_call_is_short():
    """Then launching takes longer than what is launched, and hides nothing."""
    found = launched(
        (
            [Call(LAUNCH, "cuLaunchKernel", 10 * at, 6, at + 1) for at in range(4)],
            [
                kernel(10 * at + 6, 2 if at else 9, at + 1, "add" if at else "gemm")
                for at in range(4)
            ],
        )
    )

    assert (found.short, found.short_ratio) == (3, 0.75)
    (short,) = found.short_kernels
    assert (short.name, short.count, short.mean_kernel_ns, short.mean_call_ns) == (
        "add", 3, 2000.0, 6000.0,
    )  # fmt: skip


def test_a_graph_is_one_launch_of_many_kernels():
    """Its first kernel tells the delay, and all of them together whether it was worth the call."""
    found = launched(
        (
            [Call(LAUNCH, "cuGraphLaunch", 0, 10, 7)],
            [kernel(30, 6, 7), kernel(20, 6, 7), kernel(40, 6, 7)],
        )
    )

    assert (found.matched, found.max_delay_ns, found.short) == (1, 10_000, 0)


def test_correlations_begin_anew_in_each_capture():
    """The same number in two captures are two launches."""
    found = launched(
        ([Call(LAUNCH, "cuLaunchKernel", 0, 5, 1)], [kernel(5, 9, 1)]),
        ([Call(LAUNCH, "cuLaunchKernel", 0, 5, 1)], [kernel(105, 9, 1)]),
    )

    assert (found.matched, found.mean_delay_ns) == (2, 50_000.0)


def test_launches_without_known_kernels_have_no_delay():
    """A call without a correlation, or whose kernel ran after the capture, is only counted."""
    found = launched(([Call(LAUNCH, "cuLaunchKernel", 0, 5), Call(LAUNCH, "l", 9, 5, 3)], []))

    assert (found.count, found.matched) == (2, 0)
    assert found.mean_delay_ns == view.NO_CORRELATION
    assert found.short_ratio == view.NO_CORRELATION


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([], view.NOT_SAMPLED),
        ([Step([op("MatMul", 0, 5)])], view.NO_ACCELERATOR),
        ([Step([op("MatMul", 0, 5, Place.ACCELERATOR)])], view.NOT_RECORDED),
    ],
)
def test_no_driver_call_has_a_reason(steps, reason: Missing):
    """No step, no accelerator, or a capture that tells of kernels alone are three things."""
    assert runtime(profile(steps)) == reason


@pytest.mark.parametrize(
    "name",
    [
        "critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz",
        "critical_path__simple_add__benchmark_result_493459_1694039959_trace.json.gz",
        "timeline_analysis__sampled_rank-0.json.gz",
    ],
)
def test_launches_of_a_real_gpu_are_as_its_trace_says(name: str):
    """Each kernel joined to its call by hand, with delay and short as HTA defines them."""
    path = golden("hta", name)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    calls = {
        each["args"]["correlation"]: each
        for each in events
        if each.get("cat") in ("cuda_runtime", "Runtime") and each["name"] == "cudaLaunchKernel"
    }
    kernels = [
        each
        for each in events
        if str(each.get("cat")).lower() == "kernel" and each["args"]["correlation"] in calls
    ]
    zero = min(each["ts"] for each in calls.values())
    pairs = [(calls[each["args"]["correlation"]], each) for each in kernels]

    found = launched(
        (
            [
                Call(LAUNCH, each["name"], each["ts"] - zero, each["dur"], at)
                for at, each in calls.items()
            ],
            [
                kernel(each["ts"] - zero, each["dur"], each["args"]["correlation"])
                for each in kernels
            ],
        )
    )

    delays = [max(k["ts"] - call["ts"] - call["dur"], 0) for call, k in pairs]
    assert found.matched == len(pairs) > 20
    assert found.short == sum(k["dur"] < call["dur"] for call, k in pairs)
    assert found.mean_delay_ns == pytest.approx(statistics.mean(delays) * 1000)
    assert found.p50_delay_ns == pytest.approx(statistics.median(delays) * 1000)
