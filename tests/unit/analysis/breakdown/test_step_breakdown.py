"""Inside a step, each moment is charged once, to what matters most then."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.support.profiles import Step, loop, op, profile, traced_step_parts
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.breakdown.cycles import (
    Breakdown,
    parts_by_loop,
    run_breakdown,
)
from tfprobe.analysis.breakdown.step_breakdown import Moments, part_moments
from tfprobe.analysis.breakdown.step_parts import Part, part_names
from tfprobe.errors import Missing
from tfprobe.profile.activities import Activity
from tfprobe.profile.capture_tables import Place

GPU = "/device:GPU:0"


def parts_us(*rows, duration_us: int = 100, **more) -> dict[Part, float]:
    (step,) = traced_step_parts(profile([Step(rows, duration_us=duration_us)], **more))
    assert sum(step.parts.values()) == step.cycle_ns
    return {part: ns / 1000 for part, ns in step.parts.items()}


def kernel(name: str, start_us: int, duration_us: int, device: str = GPU, **more):
    row = op(name, start_us, duration_us, Place.ACCELERATOR, **more)
    return row._replace(device=device)


def test_a_cpu_step_is_host_compute_input_and_the_rest():
    """Without an accelerator the host computes; waiting for the iterator is input."""
    found = parts_us(op("IteratorGetNext", 0, 20), op("MatMul", 20, 50))

    assert found == {Part.INPUT_WAIT: 20, Part.HOST_COMPUTE: 50, Part.FETCH: 30}


def test_what_overlaps_is_charged_once_to_the_device():
    """While a kernel runs, copies and the host are hidden behind it."""
    found = parts_us(
        kernel("MatMul", 0, 60),
        op("MEMCPYHtoD", 40, 40, Place.HOST_TO_DEVICE)._replace(device=GPU),
        op("MEMCPYDtoH", 90, 5, Place.DEVICE_TO_HOST)._replace(device=GPU),
        op("Print", 0, 100),
    )

    assert found == {
        Part.DEVICE_COMPUTE_OTHER: 60,
        Part.HOST_TO_DEVICE: 20,
        Part.DEVICE_TO_HOST: 5,
        Part.HOST_COMPUTE: 15,
    }


def test_an_op_of_a_device_only_launches_on_the_host():
    """The host time of an op whose kernel runs on the device is launching."""
    found = parts_us(op("MatMul", 0, 40), kernel("MatMul", 30, 50), duration_us=80)

    assert found == {Part.KERNEL_LAUNCH: 30, Part.DEVICE_COMPUTE_OTHER: 50}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_stages_64x4_tn", Part.DEVICE_COMPUTE_16BIT),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", Part.DEVICE_COMPUTE_16BIT),
        ("void Eigen::internal::EigenMetaKernel<__nv_bfloat16>", Part.DEVICE_COMPUTE_16BIT),
        ("turing_h1688cudnn_128x128_ldg8_relu_exp_small_nhwc_tn_v1", Part.DEVICE_COMPUTE_16BIT),
        ("volta_sgemm_128x64_nn", Part.DEVICE_COMPUTE_32BIT),
        ("sm80_xmma_gemm_tf32f32_tf32f32_f32_nn_n", Part.DEVICE_COMPUTE_32BIT),
        ("loop_multiply_fusion", Part.DEVICE_COMPUTE_OTHER),
    ],
)
def test_kernels_tell_their_precision(name: str, part: Part):
    """16-bit kernels are known by more than "half": bf16 is one of them."""
    assert parts_us(kernel("MatMul", 0, 100, detail=name)) == {part: 100}


@pytest.mark.parametrize(
    "row",
    [
        kernel("NcclAllReduce", 0, 30),
        kernel("CollectiveReduceV2", 0, 30, detail="void my_ring_kernel<float>"),
        kernel("MatMul", 0, 30, detail="ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        kernel("HorovodAllreduce", 0, 30, detail="fusion_copy_kernel"),
    ],
)
def test_collectives_are_known_by_op_and_by_kernel(row):
    """An all-reduce is one by the op that asked for it, however its kernel is named."""
    assert parts_us(row)[Part.COLLECTIVES] == 30


def test_a_kernel_of_a_compute_op_is_no_collective():
    """A reduction within a device moves nothing between devices."""
    found = parts_us(kernel("Sum", 0, 30, detail="void RowReduceKernel<float>"))

    assert Part.COLLECTIVES not in found


def test_devices_are_averaged():
    """Half of two devices busy all the time is a busy half, not a busy whole."""
    found = parts_us(
        kernel("MatMul", 0, 100),
        kernel("MatMul", 0, 20, "/device:GPU:1"),
        op("MatMul", 0, 100),
    )

    assert found == {Part.DEVICE_COMPUTE_OTHER: 60, Part.KERNEL_LAUNCH: 40}


def test_lanes_of_one_device_are_one_device():
    """Streams and copies of RunMetadata have devices of their own names, on the same GPU."""
    found = parts_us(
        kernel("MatMul", 0, 50, "/job:localhost/replica:0/task:0/device:GPU:0/stream:all"),
        op("MEMCPYHtoD", 50, 50, Place.HOST_TO_DEVICE)._replace(device="/gpu:0/memcpy"),
    )

    assert found == {Part.DEVICE_COMPUTE_OTHER: 50, Part.HOST_TO_DEVICE: 50}


def test_a_step_lasts_until_its_kernels_have_ended():
    """A call that returns before its kernels end has not done its step yet."""
    (step,) = traced_step_parts(profile([Step([kernel("MatMul", 50, 100)], duration_us=100)]))

    assert step.step_ns == 150_000
    assert step.parts[Part.DEVICE_COMPUTE_OTHER] == 100_000


def test_input_workers_are_not_step_time():
    """tf.data prepares the next step meanwhile; only waiting for it is input."""
    found = parts_us(op("Mul", 0, 90, background=True))

    assert found == {Part.IDLE: 100}


def test_waiting_for_others_is_not_compute():
    """A receive waits for another device or host."""
    assert parts_us(op("_Recv", 0, 90))[Part.SYNC_WAIT] == 90


def test_python_inside_a_graph_prepares():
    """A py_function in the step is Python preprocessing, not an unknown rest."""
    assert parts_us(op("EagerPyFunc", 0, 90))[Part.HOST_PREPROCESS] == 90


def test_saving_and_summaries_have_names():
    """Ops of TF 1 that save or summarise are not lost among computing ones."""
    found = parts_us(op("SaveV2", 0, 40), op("ScalarSummary", 40, 60))

    assert found == {Part.CHECKPOINTS: 40, Part.SUMMARIES: 60}


def test_what_is_fed_is_converted_before_the_first_op():
    """In a Session loop, the time before the first op goes to what is fed."""
    steps = [Step([op("MatMul", 30, 70)])]

    (session,) = traced_step_parts(profile(steps, loops=[loop(kind="session_run")]))
    (fit,) = traced_step_parts(profile(steps, loops=[loop(kind="fit")]))

    assert session.parts[Part.FEED] == 30_000
    assert fit.parts[Part.IDLE] == 30_000


def test_a_session_step_that_was_fed_nothing_has_no_feed():
    """Where the recording says that nothing was fed, nothing was."""
    bare = profile([Step([op("MatMul", 30, 70)])], loops=[loop(kind="session_run")])
    (capture,) = bare.captures

    (step,) = traced_step_parts(replace(bare, captures=(replace(capture, fed_bytes=0),)))

    assert step.parts[Part.IDLE] == 30_000


@pytest.mark.parametrize(
    ("fed_bytes", "feed_ns"), [(1000, 22_000), (2_000_000, 4_020_000), (50_000_000, 5_000_000)]
)
def test_what_is_longer_than_the_fed_bytes_take_is_no_feed(fed_bytes: int, feed_ns: int):
    """Before the first op lies the start of the executor, too: a few bytes are soon copied."""
    bare = profile([Step([op("MatMul", 5000, 70)], 5070)], loops=[loop(kind="session_run")])
    (capture,) = bare.captures

    (step,) = traced_step_parts(replace(bare, captures=(replace(capture, fed_bytes=fed_bytes),)))

    assert step.parts[Part.FEED] == feed_ns
    assert step.parts.get(Part.IDLE, 0) == 5_000_000 - feed_ns


def test_gathering_the_trace_of_a_session_step_is_not_the_jobs_fetch():
    """TensorFlow gathers a full trace behind the last op; the usual step knows nothing of it."""
    bare = profile([Step([op("MatMul", 10, 40)])], loops=[loop(kind="session_run")])
    (capture,) = bare.captures

    (step,) = traced_step_parts(replace(bare, captures=(replace(capture, plain_ns=60_000),)))

    assert step.parts == {
        Part.FEED: 10_000,
        Part.HOST_COMPUTE: 40_000,
        Part.FETCH: 10_000,
        Part.RECORDING: 40_000,
    }


def test_the_first_events_of_a_window_are_recording():
    """A traced function takes longer until its first op; untraced steps know nothing of it."""
    bare = profile([Step([op("MatMul", 70, 30)])], loops=[loop(kind="function")])
    (capture,) = bare.captures

    watched = replace(bare, captures=(replace(capture, plain_ns=40_000),))
    found = run_breakdown(watched)

    (item,) = parts_by_loop(watched)
    assert isinstance(found, Breakdown)
    assert item.steps[0].parts[Part.RECORDING] == 60_000
    assert item.steps[0].cycle_ns == 100_000
    assert item.step_ns == item.cycle_ns == 40_000
    assert found.shares[Part.RECORDING] == 0
    assert found.shares[Part.HOST_COMPUTE] == pytest.approx(0.75, abs=1e-5)


def test_tracing_a_function_is_compile_time():
    """A step that retraces spends that time compiling, and says which function."""
    traced = Activity(0, "trace", "train_step", "1", UNIX_NS, UNIX_NS + 60_000, 2, 90_000)

    (step,) = traced_step_parts(profile([Step([op("MatMul", 60, 40)])], activities=(traced,)))

    assert step.parts[Part.COMPILE] == 60_000
    assert [cause.what for cause in step.causes] == ["tracing train_step"]


def compiling(duration_us: int, *, at_us: int) -> Activity:
    start_ns = UNIX_NS + at_us * 1000
    return Activity(0, "xla", "step", "1", start_ns, start_ns + duration_us * 1000, 1, 1000)


def test_a_step_that_compiles_weighs_as_often_as_steps_compile():
    """One of two traced steps compiles, and one of a hundred of all: the mean has 1 % of it."""
    steps = [Step([op("dot", 0, 100)]), Step([op("dot", 900, 100)], duration_us=1000)]
    bare = profile(steps, loops=[loop([100_000] * 100, kind="jit")])
    later = replace(bare.captures[1], start_ns=UNIX_NS + 5_000_000)
    moved_ns = bare.executions.start_ns + np.array([0, 5_000_000])
    rows = replace(bare.executions, start_ns=moved_ns)
    recorded = replace(
        bare,
        captures=(bare.captures[0], later),
        executions=rows,
        activities=(compiling(900, at_us=5000),),
    )

    (item,) = parts_by_loop(recorded)

    assert [step.compiles for step in item.steps] == [False, True]
    assert item.compiling_ratio == 0.01
    assert item.parts_ns == pytest.approx({Part.HOST_COMPUTE: 100_000, Part.COMPILE: 9_000})
    assert [(cause.what, cause.duration_ns) for cause in item.causes] == [
        ("XLA compiles step", 9_000)
    ]


def test_rows_outside_the_step_are_cut():
    """A window is a little wider than its step."""
    assert parts_us(op("MatMul", -10, 60))[Part.HOST_COMPUTE] == 50


def test_rows_of_another_clock_are_moved_to_the_step():
    """A trace whose clock is off by an hour still divides its step."""
    late = op("MatMul", 0, 50)._replace(start_ns=UNIX_NS + 3600 * 10**9)

    assert parts_us(late)[Part.HOST_COMPUTE] == 50


def test_parts_sum_to_the_step_exactly():
    """However the time falls, each ns is in one part, and shares sum to 1 exactly."""
    rng = random.Random(4)
    names = ["MatMul", "IteratorGetNext", "CollectiveReduceV2", "_Recv", "SaveV2", "EagerPyFunc"]
    for _ in range(80):
        rows = [
            op(rng.choice(names), rng.randrange(90), rng.randrange(40), place)._replace(
                device=f"/device:GPU:{rng.randrange(3)}"
            )
            for place in rng.choices(list(Place), k=rng.randrange(1, 14))
        ]

        recorded = profile([Step(rows, duration_us=97)])
        found = run_breakdown(recorded)

        assert isinstance(found, Breakdown)
        (step,) = traced_step_parts(recorded)
        assert sum(step.parts.values()) == step.cycle_ns
        assert sum(found.shares.values()) == 1.0
        assert min(found.shares.values()) >= 0


def test_without_a_sample_there_is_a_reason():
    """A run without captures has no breakdown, and says so."""
    assert run_breakdown(profile()) == Missing("no step was traced")


def test_moments_of_each_device_fill_the_step():
    """Without gaps and without overlap, each on its own device."""
    other = "/device:GPU:1"
    found = _moments(
        op("MatMul", 5, 10), kernel("MatMul", 10, 30), kernel("MatMul", 20, 30, device=other)
    )

    lengths = {
        device: {
            part: moments.length_ns // 1000 for part, moments in sets.items() if moments[0].size
        }
        for device, sets in found.by_device.items()
    }
    assert found.window == (UNIX_NS, UNIX_NS + 100_000)
    assert lengths == {
        "gpu:0": {
            Part.DEVICE_COMPUTE_OTHER: 30, Part.KERNEL_LAUNCH: 5, Part.IDLE: 15, Part.FETCH: 50
        },
        "gpu:1": {
            Part.DEVICE_COMPUTE_OTHER: 30, Part.KERNEL_LAUNCH: 10, Part.IDLE: 10, Part.FETCH: 50
        },
    }  # fmt: skip


def _moments(*rows) -> Moments:
    found = profile([Step(rows)])
    known = part_names(found.executions)
    (capture,) = found.captures
    return part_moments(capture, found.executions, found.spans, (), known, fed_ns=0)
