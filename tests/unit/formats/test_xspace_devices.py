"""Kernels, copies and memsets of a GPU's streams become rows; see tests/support/gpu_traces.py."""

from __future__ import annotations

import pytest

from tests.support.captures import Ref, TraceEvent, xspace
from tests.support.gpu_traces import (
    GPU_PLANE,
    HOST_PLANE,
    copy,
    gpu_trace,
    kernel,
    memset,
    training_step,
)
from tests.support.rundir import UNIX_NS
from tfprobe.formats.schema import message_class
from tfprobe.formats.xspace import read
from tfprobe.profile.capture_tables import Place, SpanKind


def rows_of(**streams):
    """Return the rows of streams by their names."""
    return list(read(gpu_trace(streams, {})).rows)


def test_a_kernel_is_told_its_op_its_name_and_its_launch():
    """The op is that of the tf_op stat; the kernel's own name stays beside it."""
    (row,) = rows_of(a=[kernel("ampere_sgemm", 5, 8, correlation=7, op="m/MatMul:MatMul")])

    assert (row.name, row.op_type, row.detail) == ("m/MatMul", "MatMul", "ampere_sgemm")
    assert (row.place, row.correlation) == (Place.ACCELERATOR, 7)
    assert (row.device, row.start_ns, row.duration_ns) == ("/device:GPU:0", 5_000, 8_000)


def test_a_kernel_without_an_op_goes_by_its_own_name():
    """Nothing was annotated when it was launched."""
    (row,) = rows_of(a=[kernel("ncclKernel_AllReduce_RING_LL", 5, 8, correlation=7)])

    assert (row.name, row.op_type) == ("ncclKernel_AllReduce_RING_LL",) * 2


@pytest.mark.parametrize(
    ("direction", "source", "target", "place"),
    [
        ("H2D", "pinned", "device", Place.HOST_TO_DEVICE),
        ("D2H", "device", "pageable", Place.DEVICE_TO_HOST),
        ("D2D", "device", "device", Place.DEVICE_TO_DEVICE),
        ("P2P", "device", "device", Place.DEVICE_TO_DEVICE),
        ("Other", "pageable", "device", Place.HOST_TO_DEVICE),
        ("Other", "device", "pinned", Place.DEVICE_TO_HOST),
        ("Other", "array", "device", Place.DEVICE_TO_DEVICE),
        ("Other", "unknown", "unknown", Place.DEVICE_TO_DEVICE),
    ],
)
def test_a_copy_goes_where_its_name_or_its_ends_say(direction, source, target, place):
    """A copy that has no direction in its name tells the memory that it goes from and to."""
    (row,) = rows_of(
        a=[copy(direction, 1, 2, correlation=3, size=64, source=source, target=target)]
    )

    assert row.place is place


def test_a_copy_tells_what_it_moves_and_between_which_memory():
    """Whether memory was pageable or pinned is in its detail."""
    (row,) = rows_of(a=[copy("H2D", 1, 2, correlation=3, size=4096, op="m/Cast:Cast")])

    assert (row.name, row.op_type, row.bytes, row.correlation) == ("m/Cast", "MemcpyH2D", 4096, 3)
    assert row.detail == "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"


def test_a_memset_moves_nothing_off_the_device():
    """Its size is that of what it sets."""
    (row,) = rows_of(a=[memset(1, 2, correlation=3, size=512)])

    assert (row.place, row.op_type, row.bytes) == (Place.DEVICE_TO_DEVICE, "Memset", 512)


def test_a_kernel_on_a_stream_that_also_copies_is_a_kernel():
    """The name of a line lists all that came on it."""
    events = [
        kernel("sgemm", 5, 8, correlation=1),
        copy("H2D", 1, 2, correlation=2, size=8),
    ]
    places = [row.place for row in rows_of(**{"Stream #7(Compute,MemcpyH2D)": events})]

    assert places == [Place.ACCELERATOR, Place.HOST_TO_DEVICE]


def test_what_is_no_work_of_the_device_is_left_out():
    """Derived lines, what tracing cost, counters, and memory that the driver gave or took."""
    given = TraceEvent("cuMemAlloc", 1, 2, {"memalloc_details": Ref("kind:device num_bytes:64")})
    found = rows_of(
        **{
            "Stream #7(MemoryAlloc)": [given],
            "CUPTI overhead": [TraceEvent("Overhead", 1, 2)],
            "_counters_": [TraceEvent("power_mw", 1, 0)],
            "TensorFlow Ops": [TraceEvent("m/MatMul", 1, 2)],
            "Launch Stats": [TraceEvent("m/MatMul", 1, 2)],
        }
    )

    assert found == []


def test_a_step_on_a_gpu_joins_calls_and_what_they_started():
    """Each kernel and copy shares its number with one call of the driver, which came before it."""
    trace = read(training_step(start_ns=UNIX_NS))

    started = {row.correlation: row.start_ns for row in trace.rows if row.correlation}
    called = {
        int(trace.spans.correlation[at]): int(trace.spans.start_ns[at])
        for at in range(len(trace.spans))
        if trace.spans.kind[at] in (SpanKind.LAUNCH, SpanKind.COPY_CALL)
    }
    assert started.keys() == called.keys() == {1, 2, 3, 4, 5}
    assert all(called[number] < started[number] for number in started)
    assert trace.is_unix


MODULE = "jit_step"


def program_of_jax(**instructions):
    """Return an HloProto of instructions "opcode op_name" by their names."""
    proto = message_class("tfprobe.hlo.HloProto")()
    module = proto.hlo_module
    module.name, module.entry_computation_id = MODULE, 1
    entry = module.computations.add(id=1)
    for name, described in instructions.items():
        opcode, op_name = described.split(" ")
        made = entry.instructions.add(name=name, opcode=opcode)
        made.metadata.op_name = op_name
    return proto.SerializeToString()


def jax_trace(streams, *, driver=(), **instructions):
    """Return an XSpace of JAX on a GPU with one program, whose number is 3."""
    space = message_class("tfprobe.xplane.XSpace")()
    more = {"/host:CUPTI": {"Host Threads/1": list(driver)}}
    space.ParseFromString(xspace({GPU_PLANE: streams, HOST_PLANE: {}, **more}))
    plane = space.planes.add(name="/host:metadata")
    plane.stat_metadata[1].name = "Hlo Proto"
    plane.event_metadata[1].name = f"{MODULE}(3)"
    plane.event_metadata[1].stats.add(
        metadata_id=1, bytes_value=program_of_jax(**instructions) if instructions else b"\xff"
    )
    return space.SerializeToString()


def launched(name, at_us=1, /, **stats):
    """Return a kernel of a program of JAX, annotated as XLA does."""
    annotation = {"tf_op": Ref("XlaModule:"), "hlo_module": Ref(MODULE), "program_id": 3, **stats}
    event = kernel(name, at_us, 2, correlation=7)
    return TraceEvent(event.name, event.start_us, event.duration_us, {**event.stats, **annotation})


INSTRUCTIONS = {
    "gemm_1": "custom-call jit(step)/jvp(Net)/first/dot_general",
    "loop_add": "fusion jit(step)/transpose(jvp(Net))/first/add",
    "command_buffer": "call ",
}


def names_of(*kernels, driver=(), instructions=INSTRUCTIONS, line="Stream #7(Compute)"):
    trace = read(jax_trace({line: list(kernels)}, driver=driver, **instructions))
    return [(row.name, row.op_type) for row in trace.rows]


def test_a_kernel_of_jax_is_the_op_of_its_innermost_instruction():
    """Several annotations may be around it; a program without a number is found by its name."""
    annotation = {"hlo_op": Ref("while::gemm_1")}
    without = launched("cutlass_gemm", **annotation)
    stats = {key: value for key, value in without.stats.items() if key != "program_id"}

    assert names_of(
        launched("cutlass_gemm", **annotation),
        launched("loop_add_1", 4, hlo_op=Ref("loop_add")),
        TraceEvent("cutlass_gemm", 8, 2, stats),
    ) == [
        ("Net/first/dot_general", "custom-call"),
        ("gradients/Net/first/add", "fusion"),
        ("Net/first/dot_general", "custom-call"),
    ]


def test_a_kernel_of_an_unknown_program_has_the_name_of_its_annotation():
    """A capture may contain no HLO: the annotation may name the op, and names the instruction."""
    named = launched("k", hlo_op=Ref("gemm_1.2"), name=Ref("jit(step)/jvp(Net)/first/dot_general"))

    assert names_of(named, launched("k", 5, hlo_op=Ref("loop_add.1")), instructions={}) == [
        ("Net/first/dot_general", "gemm_1"),
        ("loop_add.1", "loop_add"),
    ]
    assert names_of(launched("memory_bound_kernel")) == [("memory_bound_kernel",) * 2]


@pytest.mark.parametrize(
    "stats",
    [
        {"cuda_graph_id": 5, "cuda_graph_node_id": 9},
        {"cuda_graph_id": 5, "cuda_graph_node_id": 9, "hlo_op": Ref("command_buffer")},
        {"cuda_graph_exec_id": 5},
    ],
)
def test_a_kernel_of_a_command_buffer_is_unattributed(stats):
    """Its name is like that of an instruction, which proves nothing."""
    assert names_of(launched("loop_add", **stats)) == [("(unattributed)/loop_add", "loop_add")]
    if "hlo_op" in stats:
        assert names_of(launched("loop_add", **stats), instructions={}) == [
            ("(unattributed)/loop_add", "loop_add")
        ]


def test_the_node_map_attributes_kernels_of_a_command_buffer():
    """The call that added a node has its instruction; graphs are copied when instantiated."""
    in_graph = {"cuda_graph_id": 5, "cuda_graph_node_id": 9}
    copied = {"cuda_graph_orig_id": 4, "cuda_graph_orig_node_id": 2}
    added = {"cuda_graph_id": 4, "cuda_graph_node_id": 2, "hlo_op": Ref("loop_add")}
    added |= {"hlo_module": Ref(MODULE), "program_id": 3}
    driver = [
        TraceEvent("cuGraphAddKernelNode_v2", 0, 1, added),
        TraceEvent("CudaGraphNodeMap: cuGraphInstantiateWithFlags", 0, 1, in_graph | copied),
    ]

    assert names_of(launched("k", **in_graph), driver=driver) == [
        ("gradients/Net/first/add", "fusion")
    ]
    assert names_of(launched("k", cuda_graph_id=5, cuda_graph_node_id=8), driver=driver) == [
        ("(unattributed)/k", "k")
    ]


def test_a_node_map_in_a_circle_attributes_nothing():
    """Damage is no reason to wait."""
    place = {"cuda_graph_id": 5, "cuda_graph_node_id": 9}
    copied = {"cuda_graph_orig_id": 5, "cuda_graph_orig_node_id": 9}
    driver = [TraceEvent("CudaGraphNodeMap: cuGraphClone", 0, 1, place | copied)]

    assert names_of(launched("k", **place), driver=driver) == [("(unattributed)/k", "k")]


@pytest.mark.parametrize("line", ["CUDA Graph Id Map", "CudaGraphNodeMap", "graph_id_map"])
def test_numbers_of_graphs_are_no_stream(line):
    """The tracer writes them on a line of the device, or as events among others."""
    number = TraceEvent("CudaGraphNodeMap: cuGraphClone", 0, 1, {"cuda_graph_id": 5})

    assert names_of(launched("k"), line=line) == []
    assert names_of(number) == []
