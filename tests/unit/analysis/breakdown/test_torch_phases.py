"""Steps of PyTorch divide into loading, copies, forward, backward, updates, collectives and waits.

Traces of a GPU are written by hand, as libkineto writes them (output_json.cpp, CuptiActivity.cpp):
none of a real one was recorded for this.
"""

from __future__ import annotations

from tests.support.golden import golden
from tests.support.kineto import (
    annotation,
    call,
    copy,
    frame,
    kernel,
    on_thread,
    op,
    step,
    trace,
)
from tfprobe.analysis.breakdown.cycles import parts_by_loop
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.profile.reader.file import file_profile

EVALUATE = "autograd::engine::evaluate_function: "
LOADER = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"


def parts_of(tmp_path, *events):
    path = tmp_path / "trace.json"
    path.write_bytes(trace(events))
    (loop,) = parts_by_loop(file_profile(path))
    (found,) = loop.steps
    assert sum(found.parts.values()) == found.cycle_ns
    causes = {(each.part, each.what): each for each in found.causes_inside}
    return {part: ns / 1000 for part, ns in found.inside.items()}, causes


def times_of(causes):
    return {key: cause.duration_ns / 1000 for key, cause in causes.items()}


def training_on_cpu():
    """Return a step of 1000 us on a CPU, most of it in ops."""
    number = {"Sequence number": 3}
    return [
        step(0, 0, 1000),
        annotation(LOADER.format("SingleProcess"), 0, 100),
        op("aten::stack", 20, 30),
        frame("nn.Module: Net_0", 120, 200),
        op("aten::linear", 130, 150, **number, **{"Fwd thread id": 0}),
        op("aten::addmm", 140, 130, **number, **{"Fwd thread id": 0}),
        op(f"{EVALUATE}AddmmBackward0", 400, 200, **number, **{"Fwd thread id": 1}),
        op("aten::mm", 410, 100),
        op(f"{EVALUATE}AddmmBackward0", 620, 80, **number, **{"Fwd thread id": 1}),
        annotation("Optimizer.step#SGD.step", 720, 180),
        op("aten::add_", 750, 100),
        annotation("Optimizer.zero_grad#SGD.zero_grad", 900, 50),
        op("aten::zero_", 910, 20),
        op("aten::item", 960, 40),
    ]


def test_a_step_on_a_cpu_is_told_apart(tmp_path):
    """Ops within ops do not count twice, and time between ops is in the phase that it passed in."""
    parts, causes = parts_of(tmp_path, *training_on_cpu())

    assert parts[Part.HOST_PREPROCESS] == 100
    assert parts[Part.HOST_COMPUTE] == 150 + 200 + 80 + 100 + 20 + 40
    assert times_of(causes) == {
        (Part.HOST_COMPUTE, "forward"): 150,
        (Part.HOST_COMPUTE, "backward"): 280,
        (Part.HOST_COMPUTE, "optimizer"): 100,
        (Part.HOST_COMPUTE, "zero_grad"): 20,
        (Part.HOST_COMPUTE, "outside the model"): 40,
        (Part.IDLE, "between ops, forward"): 10 + 40,
        (Part.IDLE, "between ops, backward"): 20,
        (Part.IDLE, "between ops, optimizer"): 30 + 50,
        (Part.IDLE, "between ops, zero_grad"): 10 + 20,
        (Part.IDLE, "between ops"): 20 + 80 + 20 + 10,
    }


def test_idle_time_has_the_function_of_python_that_took_it(tmp_path):
    """Before the first op and between ops, with the line of the program that called it."""
    _, causes = parts_of(
        tmp_path,
        step(0, 0, 1000),
        frame("train.py(7): loop", 0, 1000),
        frame("torch/_tensor.py(5): f", 5, 290),
        frame("<built-in function sleep>", 10, 280),
        op("aten::add", 300, 50),
        frame("helpers.py(3): log", 360, 200),
        frame("<built-in method write of file object at 0x7f00>", 370, 150),
        op("aten::mul", 600, 400),
    )

    found = {
        (what, f"{cause.file}:{cause.line}"): cause.duration_ns / 1000
        for (part, what), cause in causes.items()
        if part is Part.IDLE
    }
    assert found == {
        ("before the first op, sleep", "train.py:7"): 280,
        ("before the first op", ":0"): 20,
        ("between ops, write", "helpers.py:3"): 150,
        ("between ops", ":0"): 100,
    }


def test_a_loader_with_workers_is_waited_for(tmp_path):
    """Other processes prepare its batches."""
    parts, _ = parts_of(
        tmp_path,
        step(0, 0, 200),
        annotation(LOADER.format("MultiProcessing"), 0, 100),
        op("aten::add", 120, 50),
    )

    assert parts[Part.INPUT_WAIT] == 100


def test_kernels_belong_to_the_phase_of_the_op_that_launched_them(tmp_path):
    """On a GPU what the device does counts, and only what it waits for of the host."""
    number = {"Sequence number": 3}
    parts, causes = parts_of(
        tmp_path,
        step(0, 0, 1000),
        op("aten::to", 5, 20),
        call("cudaMemcpyAsync", 10, 10, 1),
        copy("Memcpy HtoD (Pageable -> Device)", 20, 80, 1, bytes=4096),
        frame("nn.Module: Net_0", 30, 100),
        op("aten::addmm", 40, 50, **number, **{"Fwd thread id": 0}),
        call("cudaLaunchKernel", 50, 10, 2),
        kernel("ampere_sgemm_32x32", 100, 200, 2),
        on_thread(op("aten::mm", 150, 40, **number, **{"Fwd thread id": 1}), 9),
        on_thread(call("cudaLaunchKernel", 160, 10, 3), 9),
        kernel("ampere_fp16_sgemm", 300, 300, 3),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 600, 100, 4),
        annotation("Optimizer.step#Adam.step", 700, 100),
        op("aten::_fused_adam_", 705, 60),
        call("cudaLaunchKernel", 710, 10, 5),
        kernel("multi_tensor_apply_kernel", 740, 100, 5),
    )

    assert parts[Part.HOST_TO_DEVICE] == 80
    assert parts[Part.DEVICE_COMPUTE_32BIT] == 200
    assert parts[Part.DEVICE_COMPUTE_16BIT] == 300
    assert parts[Part.COLLECTIVES] == 100
    times = times_of(causes)
    assert times[Part.DEVICE_COMPUTE_32BIT, "forward"] == 200
    assert times[Part.DEVICE_COMPUTE_16BIT, "backward"] == 300
    assert times[Part.DEVICE_COMPUTE_OTHER, "optimizer"] == 100


def test_a_wait_for_a_value_has_its_op_and_line(tmp_path):
    """`loss.item()` copies the value, and waits until all before it is done."""
    parts, causes = parts_of(
        tmp_path,
        step(0, 0, 500),
        frame("train.py(12): step", 0, 500),
        op("aten::add", 0, 20),
        call("cudaLaunchKernel", 5, 5, 1),
        kernel("add_kernel", 10, 100, 1),
        op("aten::item", 30, 400),
        op("aten::_local_scalar_dense", 35, 390),
        call("cudaMemcpyAsync", 40, 10, 2),
        copy("Memcpy DtoH (Device -> Pageable)", 150, 10, 2, bytes=4),
        call("cudaStreamSynchronize", 60, 340, 3),
    )

    assert parts[Part.DEVICE_TO_HOST] == 10
    cause = causes[Part.SYNC_WAIT, "aten::item"]
    assert (cause.file, cause.line) == ("train.py", 12)
    # All of the call but the kernel and the copy, which the device is busy with.
    assert parts[Part.SYNC_WAIT] == cause.duration_ns / 1000 == 340 - 50 - 10


def test_all_kernels_of_a_cuda_graph_count(tmp_path):
    """One call launches them, and they share its number."""
    kernels = [kernel(f"triton_{at}", 100 * at, 90, 7) for at in range(1, 5)]

    launch = [op("CompiledFunction", 10, 60), call("cudaGraphLaunch", 20, 30, 7)]
    parts, _ = parts_of(tmp_path, step(0, 0, 600), *launch, *kernels)

    assert parts[Part.DEVICE_COMPUTE_OTHER] == 4 * 90


def test_kernels_without_a_call_belong_to_the_op_of_their_number(tmp_path):
    """Where the call is not in the trace, its External id may be."""
    path = tmp_path / "trace.json"
    launched = kernel("some_kernel", 100, 50, 0)
    launched["args"]["External id"] = 42
    events = [op("aten::relu", 10, 20, **{"External id": 42}), launched]
    path.write_bytes(trace(events))

    names = {row.detail: row.name for row in file_profile(path).executions}

    assert names["some_kernel"] == "aten::relu"


def test_a_recorded_step_adds_up():
    """Of a real recording on a CPU: each part of the program has its time."""
    path = golden("frameworks", "torch_cpu_mlp_3steps_all.json.gz")

    (loop,) = parts_by_loop(file_profile(path))

    for found in loop.steps:
        assert sum(found.parts.values()) == found.cycle_ns
        computed = [each for each in found.causes_inside if each.part is Part.HOST_COMPUTE]
        assert {each.what for each in computed} >= {"forward", "backward", "optimizer"}
        assert sum(each.duration_ns for each in computed) == found.inside[Part.HOST_COMPUTE]
        assert found.inside[Part.HOST_PREPROCESS] > 0


def test_a_call_of_a_collective_is_not_computed(tmp_path):
    """Gloo runs it on a thread of its own."""
    parts, _ = parts_of(
        tmp_path,
        step(0, 0, 300),
        op("aten::add", 0, 50),
        op("c10d::allreduce_", 60, 100),
        on_thread(annotation("gloo:all_reduce", 70, 200), 5),
    )

    assert parts[Part.COLLECTIVES] == 200 + 10
