"""What holds memory at the peak of an allocator, and the estimate if none was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.profiles import Step, loop, profile
from tests.support.rundir import UNIX_NS
from tests.unit.analysis.transfers.test_transfers import row
from tfprobe.analysis.core.source_lines import Origins
from tfprobe.analysis.memory.allocator_levels import DeviceMemory, device_memories
from tfprobe.analysis.memory.host_memory import Growth, GrowthVerdict
from tfprobe.analysis.memory.memory_peak import GroupKey, Role, Variable, variables
from tfprobe.analysis.memory.memory_summary import (
    ESTIMATE,
    Lasting,
    MemorySummary,
    StepLevel,
    lasting,
    memories,
)
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import Allocations, Place, Row
from tfprobe.profile.graph import Graph, Node, TracedLoop
from tfprobe.profile.profile import Profile
from tfprobe.profile.tables import Columns, Interner, TableBuilder

KIB = 1024
GPU, BFC = "/device:GPU:0", "GPU_0_bfc"
# Moment in µs, bytes, address, op, what is in use afterwards.
Event = tuple[int, int, int, str, int]


def allocations(steps: Sequence[Sequence[Event]], device: str = GPU) -> Allocations:
    interner = Interner()
    builder = TableBuilder(Allocations, interner)
    for capture, events in enumerate(steps):
        columns = Columns(Allocations)
        for at_us, size, address, op, in_use in events:
            columns.add(
                1,
                allocator=interner.position(BFC),
                device=interner.position(device),
                op=interner.position(op),
                op_type=interner.position(op.rpartition("/")[2]),
                shape=interner.position("float32[2,2]" if op else ""),
                at_ns=UNIX_NS + at_us * 1000,
                bytes=size,
                address=address,
                in_use_bytes=in_use,
                free_bytes=1000 * KIB - in_use,
                peak_bytes=900 * KIB,
                largest_free_bytes=(1000 * KIB - in_use) // 4,
            )
        builder.add(capture, columns.rows(interner))
    return builder.table()


def sampled(made: Profile, nodes: Sequence[Node]) -> TracedLoop:
    rows = made.executions
    ids = {node.name: at for at, node in enumerate(nodes)}
    names = [ids.get(text, 0) for text in rows.strings.values]
    return TracedLoop(
        loop=loop(),
        graph=Graph(tuple(nodes)),
        devices=(None,) * len(nodes),
        captures=made.captures,
        executions=rows,
        node=np.array(names, dtype=np.int32)[rows.name],
        has_graph=True,
        has_memory=False,
    )


def only(made: Profile, nodes: Sequence[Node] = (), by: GroupKey = "op") -> MemorySummary:
    loops = [sampled(made, nodes)] if nodes else []
    found = memories(made, loops, Origins(loops), by)
    assert not isinstance(found, Missing), found
    [memory] = found
    return memory


def recorded(*steps: Sequence[Event], rows: Sequence[Row] = (), device: str = GPU) -> Profile:
    made = profile([Step(rows) for _ in steps])
    return replace(made, allocations=allocations(steps, device))


STEP: tuple[Event, ...] = (
    (1, 100 * KIB, 1, "dense/MatMul", 300 * KIB),
    (2, 60 * KIB, 2, "dense/Relu", 360 * KIB),
    (3, -60 * KIB, 2, "", 300 * KIB),
    (4, 10 * KIB, 3, "gradient_tape/dense/MatMul", 310 * KIB),
)


def test_the_peak_is_held_by_what_is_live_then() -> None:
    """At 360 KiB, 200 of which were there before."""
    memory = only(recorded(STEP))

    assert (memory.device, memory.allocator) == (GPU, BFC)
    assert (memory.peak.bytes, memory.peak.after_ns) == (360 * KIB, 2000)
    assert [(each.label, each.bytes // KIB, each.role) for each in memory.peak.holders] == [
        ("(held before the step)", 200, Role.ALLOCATED_BEFORE),
        ("dense/MatMul", 100, Role.ACTIVATIONS),
        ("dense/Relu", 60, Role.ACTIVATIONS),
    ]
    assert sum(each.bytes for each in memory.peak.holders) == memory.peak.bytes


def test_the_peak_is_that_of_the_fullest_step() -> None:
    """Steps differ; the one with most live bytes is shown."""
    fuller = ((1, 500 * KIB, 1, "big/MatMul", 700 * KIB),)

    memory = only(recorded(STEP, fuller, STEP))

    assert (memory.captures, memory.peak.capture.step) == (3, 1)
    assert memory.peak.holders[0].label == "big/MatMul"


def test_capacity_fragmentation_and_lifetime_peak_are_the_allocators_own() -> None:
    """Three quarters of the free memory are not in its largest free block."""
    memory = only(recorded(STEP))

    assert memory.capacity_bytes == 1000 * KIB
    assert memory.fragmentation_ratio == pytest.approx(0.75)
    assert memory.lifetime_peak_bytes == 900 * KIB


def test_a_device_has_the_peak_and_the_capacity_of_its_allocator() -> None:
    """Since its creation, not only in traced steps."""
    made = recorded(STEP, STEP)

    assert device_memories(made) == {0: (DeviceMemory(GPU, 900 * KIB, 1000 * KIB),)}
    assert device_memories(profile([Step([])])) == {}


def test_an_allocator_that_held_nothing_is_no_memory_of_a_device() -> None:
    """It only freed what it allocated before the capture, and reports nothing in use."""
    assert device_memories(recorded([(1, -KIB, 1, "", 0)])) == {}


def test_holders_may_be_layers() -> None:
    """Ops of one scope count together."""
    memory = only(recorded(STEP), by="layer")

    assert [(each.label, each.pieces) for each in memory.peak.holders] == [
        ("(held before the step)", 1),
        ("dense", 2),
    ]


def test_a_piece_that_its_op_gives_back_is_temporary() -> None:
    """Work space of a convolution lives no longer than the convolution."""
    events = ((1, 50, 1, "c/Conv2D", 50), (2, 80, 2, "c/Conv2D", 130), (8, -80, 2, "", 50))
    rows = [row("c/Conv2D", 0, 10, Place.HOST)]

    memory = only(recorded(events, rows=rows))

    assert dict(memory.peak.by_role) == {Role.ACTIVATIONS: 50, Role.TEMPORARY: 80}


def test_variables_are_part_of_what_a_gpu_held_before() -> None:
    """Memory of known variables is named; the rest is not."""
    names = ("w", "w/Momentum")
    nodes = [
        Node(name, "VariableV2", shape=(10, 10 * KIB // 10), dtypes=("DT_FLOAT",)) for name in names
    ]

    memory = only(recorded(STEP), nodes)

    roles = dict(memory.peak.by_role)
    assert roles[Role.PARAMETERS] == roles[Role.OPTIMIZER_STATE] == 10 * 1024 * 4
    assert sum(roles.values()) == memory.peak.bytes


def test_what_steps_leave_behind_is_a_leak() -> None:
    """The lowest level of each step is 1 MiB above that of the one before."""
    steps = [((1, 10, 1, "a", at * KIB * KIB),) for at in range(1, 41)]

    memory = only(recorded(*steps))

    assert isinstance(memory.growth, Growth)
    assert memory.growth.verdict is GrowthVerdict.GROWING
    assert memory.growth.bytes_per_step == pytest.approx(KIB * KIB)


FLOATS = {"dtypes": ("DT_FLOAT",)}


def test_without_an_allocator_lifetimes_are_estimated() -> None:
    """`a` lives until `c` has read it, through a reshape that holds nothing; `c` until the end."""
    nodes = [
        Node("a", "MatMul", output_shapes={0: (100,)}, **FLOATS),
        Node("b", "Reshape", {0: "a"}, output_shapes={0: (10, 10)}, **FLOATS),
        Node("c", "Relu", {0: "b"}, output_shapes={0: (100,)}, **FLOATS),
        Node("d", "Sum", {0: "c"}, output_shapes={0: (1,)}, **FLOATS),
    ]
    rows = [
        row(node.name, 10 * at, 10, Place.HOST, op_type=node.op) for at, node in enumerate(nodes)
    ]

    memory = only(profile([Step(rows)]), nodes)

    assert (memory.is_estimate, memory.allocator) == (True, ESTIMATE)
    assert memory.peak.bytes == 800
    assert memory.curve.live_bytes.tolist() == [400, 800, 400, 404, 4, 0]
    assert [(each.label, each.shape) for each in memory.peak.holders] == [
        ("a", "float32[100]"),
        ("c", "float32[100]"),
    ]


def test_each_run_in_a_loop_lives_until_the_reader_runs_next() -> None:
    """Two iterations do not add up."""
    nodes = [
        Node("a", "MatMul", output_shapes={0: (100,)}, **FLOATS),
        Node("b", "Relu", {0: "a"}, output_shapes={0: (1,)}, **FLOATS),
    ]
    rows = [
        row(name, start, 10, Place.HOST, op_type=op)
        for name, op, start in (
            ("a", "MatMul", 0),
            ("b", "Relu", 10),
            ("a", "MatMul", 20),
            ("b", "Relu", 30),
        )
    ]

    memory = only(profile([Step(rows)]), nodes)

    assert memory.peak.bytes == 408


def test_an_estimate_says_of_how_much_it_knows_nothing() -> None:
    """An unknown shape does not count as 0 bytes."""
    nodes = [
        Node("a", "MatMul", output_shapes={0: (100,)}, **FLOATS),
        Node("b", "Where", output_shapes={0: (-1, 2)}, dtypes=("DT_INT64",)),
    ]
    rows = [row(node.name, 0, 10, Place.HOST, op_type=node.op) for node in nodes]

    found = only(profile([Step(rows)]), nodes)

    assert (found.unknown_sizes, found.sizes, found.unknown_ratio) == (1, 2, 0.5)
    assert found.is_at_least


def test_an_estimate_of_known_sizes_is_not_at_least() -> None:
    """A size that follows from another is known."""
    nodes = [
        Node("x", "Add", output_shapes={0: (64, 10)}, **FLOATS),
        Node("y", "Relu", {0: "x"}, output_shapes={0: (-1, 10)}, **FLOATS),
    ]
    rows = [row(node.name, 0, 10, Place.HOST, op_type=node.op) for node in nodes]

    found = only(profile([Step(rows)]), nodes)

    assert not found.is_at_least
    assert found.peak.bytes == 2 * 64 * 10 * 4


def test_with_more_unknown_sizes_than_known_ones_there_is_no_peak() -> None:
    """The reason says how many."""
    nodes = [Node("a", "MatMul", output_shapes={0: (100,)}, **FLOATS)]
    nodes += [Node(f"b{at}", "Where", output_shapes={0: (-1, 2)}, **FLOATS) for at in range(2)]
    made = profile([Step([row(node.name, 0, 10, Place.HOST, op_type=node.op) for node in nodes])])

    found = memories(made, [sampled(made, nodes)], Origins(()))

    assert isinstance(found, Missing)
    assert "2 of 3 outputs" in found.reason


def test_where_nothing_tells_of_memory_the_reason_is_told() -> None:
    """A trace without sizes, shapes and allocators."""
    made = profile([Step([row("a", 0, 10, Place.HOST)])])

    found = memories(made, [sampled(made, [Node("a", "MatMul")])], Origins(()))

    assert isinstance(found, Missing)
    assert isinstance(memories(profile(), [], Origins(())), Missing)


def test_what_variables_hold_is_told_by_itself() -> None:
    """Wherever they are."""
    made = profile([Step([row("w", 0, 10, Place.HOST)])])
    nodes = [Node("w", "VariableV2", shape=(10,), dtypes=("DT_FLOAT",))]

    assert lasting([sampled(made, nodes)]) == Lasting(40, 0)
    assert isinstance(lasting([sampled(made, [Node("w", "MatMul")])]), Missing)


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        ("scope", ["(held before the step)", "dense"]),
        ("type", ["(held before the step)", "MatMul", "Relu"]),
        ("shape", ["(held before the step)", "float32[2,2]"]),
        ("role", ["held_before", "activations"]),
    ],
)
def test_holders_may_be_what_pieces_are(by: GroupKey, labels: list[str]) -> None:
    """Allocations of one shape can be those of many ops."""
    memory = only(recorded(STEP), by=by)

    assert [each.label for each in memory.peak.holders] == labels
    assert sum(each.bytes for each in memory.peak.holders) == memory.peak.bytes


def test_the_largest_pieces_of_a_peak_are_kept_one_by_one() -> None:
    """One allocation of an op can be most of its memory."""
    largest = only(recorded(STEP), by="role").peak.largest

    assert [(each.op, each.bytes // KIB) for each in largest] == [
        ("", 200),
        ("dense/MatMul", 100),
        ("dense/Relu", 60),
    ]


def test_each_step_has_the_least_and_the_most_that_was_held() -> None:
    """In the order of the steps, so that growth is seen."""
    memory = only(recorded(STEP, ((1, 50, 1, "a", 700),)))

    assert memory.by_step == (StepLevel(0, 300 * KIB, 360 * KIB), StepLevel(1, 700, 700))


def test_a_curve_has_as_many_moments_as_are_wanted() -> None:
    """A screen has more room than a terminal; the peak is in both."""
    events = [(at, 10, at + 1, "a", 10 * at) for at in range(500)]
    made = recorded(events)

    few, many = memories(made, [], Origins(())), memories(made, [], Origins(()), moments=2000)

    assert not isinstance(few, Missing)
    assert not isinstance(many, Missing)
    assert [len(each[0].curve.live_bytes) for each in (few, many)] == [120, 500]
    assert few[0].curve.live_bytes.max() == many[0].curve.live_bytes.max() == 4990


def test_variables_are_told_one_by_one() -> None:
    """The largest first, each with its role."""
    nodes = [
        Node("w", "VariableV2", shape=(10,), dtypes=("DT_FLOAT",)),
        Node("big", "VariableV2", shape=(10, 10), dtypes=("DT_HALF",)),
        Node("w/Adam_1", "VariableV2", shape=(10,), dtypes=("DT_FLOAT",)),
        Node("open", "VariableV2", shape=(-1,), dtypes=("DT_FLOAT",)),
    ]

    assert variables(nodes) == (
        Variable("big", Role.PARAMETERS, 100, 200),
        Variable("w", Role.PARAMETERS, 10, 40),
        Variable("w/Adam_1", Role.OPTIMIZER_STATE, 10, 40),
    )
